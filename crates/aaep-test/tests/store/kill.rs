//! Killed at random moments, again and again, on the same directory.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use aaep_store::{Audit, AuditQuery};

use crate::child::{self, Orders};

/// Random numbers that are the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// What was told before the kills: nothing of it may change.
#[derive(Debug, Default)]
struct Told {
    orders: Orders,
    /// Decisions that were acknowledged, by origin.
    decided: BTreeMap<String, (String, String)>,
    /// Tokens of questions that were put to the user.
    asked: BTreeMap<String, String>,
    ran: BTreeSet<String>,
    /// Questions that ended with their sessions.
    ended: BTreeSet<String>,
    /// Numbers that were heard.
    heard: BTreeSet<u64>,
    /// The last number of this life that is on record for sure: a decision after it was acknowledged.
    recorded: Option<u64>,
    /// Such numbers of earlier lives, until the subscriber that came back has heard everything up to this life.
    must: Vec<u64>,
    /// Whether the subscription is on record for sure.
    subscribed: bool,
    seen: usize,
}

impl Told {
    fn begin(&mut self, life: u64) {
        self.orders.life = life;
        let recorded = self.recorded.take();
        self.must.extend(recorded.filter(|_| self.subscribed));
    }

    fn take(&mut self, line: &str) {
        self.seen += 1;
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["sub", id] => {
                assert!(!self.subscribed, "a subscription that was on record is gone");
                self.orders.reader = Some((id.to_owned(), String::new()));
                self.heard.clear();
                self.must.clear();
            }
            ["got", id, ref what @ ..] => {
                if let Some((_, last)) = &mut self.orders.reader {
                    id.clone_into(last);
                }
                self.hear(what);
            }
            ["decided", origin, decision, resolution, number] => {
                let known = self.decided.insert(origin.into(), (decision.into(), resolution.into()));
                assert_eq!(known, None, "{origin} was decided twice");
                let number: u64 = number.parse().unwrap();
                self.recorded = self.recorded.max((number > 0).then_some(number));
                self.subscribed = true;
            }
            ["ran", origin] => {
                assert!(self.ran.insert(origin.to_owned()), "{origin} ran twice");
                assert_eq!(self.decided[origin].0, "accept", "{origin} ran without a yes");
            }
            ["found", origin, ref what @ ..] => self.find(origin, what),
            ["ready" | "back"] => {}
            _ => panic!("the child says {line}"),
        }
    }

    fn hear(&mut self, what: &[&str]) {
        match *what {
            ["number", number] => self.hear_number(number.parse().unwrap()),
            // It is told that there was more: everything up to now may have been in it.
            ["missed"] => self.must.clear(),
            ["asked", origin, token, seconds] => {
                let known = self.asked.insert(origin.to_owned(), token.to_owned());
                assert!(known.is_none_or(|known| known == token), "{origin} is asked under another token");
                assert!(seconds.parse::<u32>().unwrap() <= 600, "{origin} has more time than before");
                assert!(!self.decided.contains_key(origin), "{origin} is asked again after its decision");
                if !self.orders.origins.iter().any(|known| known == origin) {
                    self.orders.origins.push(origin.to_owned());
                }
            }
            _ => {}
        }
    }

    /// What was said before a restart comes before what is said after it: nothing may be missing by then.
    fn hear_number(&mut self, number: u64) {
        self.heard.insert(number);
        if number / 1000 != self.orders.life {
            return;
        }
        for last in std::mem::take(&mut self.must) {
            let missing: Vec<u64> = (last / 1000 * 1000 + 1..=last).filter(|n| !self.heard.contains(n)).collect();
            assert!(missing.is_empty(), "{missing:?} are on record, and nobody said that they are missing");
        }
    }

    /// What the next life knows of a question.
    fn find(&mut self, origin: &str, what: &[&str]) {
        match (self.decided.get(origin).cloned(), what) {
            // Its session has ended.
            (Some(_), ["nothing"]) => {}
            (Some((decision, resolution)), [found, why, usable]) => {
                assert_eq!((decision.as_str(), resolution.as_str()), (*found, *why), "{origin} has changed");
                let ran = self.ran.contains(origin);
                assert!(!(ran && *usable == "true"), "{origin} ran and could run again");
            }
            (None, ["pending"]) => {}
            // Its session has ended: then so has the question, and that is on record.
            (None, ["nothing"]) => drop(self.ended.insert(origin.to_owned())),
            // Decided and on record, but the kill came before the word of it.
            (None, [found, why, _]) => {
                self.decided.insert(origin.to_owned(), (found.to_string(), why.to_string()));
            }
            (known, what) => panic!("{origin} was put to the user, {known:?}, and now it is {what:?}"),
        }
    }

    /// After a restart, when the child has told all that it missed.
    fn check(&self, dir: &Path) {
        let mut kept = BTreeMap::new();
        let audit = Audit::open(dir).unwrap();
        let take = |record: aaep::AuditRecord, _| {
            let decision = record.decision.map(|d| d.as_str().to_owned()).unwrap_or_default();
            let known = kept.insert(record.shown, (decision, record.resolution.as_str().to_owned()));
            assert_eq!(known, None, "a question has two ends");
        };
        audit.read(&AuditQuery::default(), take).unwrap();
        for origin in &self.ended {
            assert!(kept.contains_key(&format!("Do {origin}")), "{origin} was put to the user and is not on record");
        }
        for (origin, decision) in &self.decided {
            assert_eq!(kept.get(&format!("Do {origin}")), Some(decision), "{origin} is not on record as it was told");
        }
    }
}

/// Kills so many children on one directory.
fn kill_again_and_again(seed: u64, times: u64) {
    let dir = tempfile::tempdir().unwrap();
    let mut random = Random(seed);
    let mut told = Told::default();
    for life in 1..=times {
        told.begin(life);
        let (mut process, mut lines) = child::start(dir.path(), &told.orders);
        // Some do not live long enough to begin.
        let after = random.below(80);
        for n in 0.. {
            let Some(line) = lines.next() else { panic!("seed {seed}, life {life}: the child ended by itself") };
            assert!(!line.starts_with("refused"), "seed {seed}, life {life}: {line}");
            told.take(&line);
            if n >= after {
                break;
            }
        }
        std::thread::sleep(Duration::from_micros(random.below(3000)));
        process.kill().unwrap();
        process.wait().unwrap();
        lines.for_each(|line| told.take(&line));
        told.check(dir.path());
    }
    assert!(told.seen > 0 && !told.decided.is_empty() && !told.ran.is_empty(), "nothing happened: {told:?}");
    last_life(dir.path(), &mut told, times + 1);
}

/// A life that is not cut short: whoever comes back has everything or was told.
fn last_life(dir: &Path, told: &mut Told, life: u64) {
    told.begin(life);
    let (mut process, mut lines) = child::start(dir, &told.orders);
    for line in lines.by_ref() {
        told.take(&line);
        if told.heard.iter().any(|number| number / 1000 == life) {
            break;
        }
    }
    process.kill().unwrap();
    process.wait().unwrap();
}

#[test]
fn killed_at_200_moments_nothing_acknowledged_is_lost_or_done_twice() {
    // Two at a time, each on a directory of its own.
    let threads: Vec<_> = (1..=2).map(|seed| std::thread::spawn(move || kill_again_and_again(seed, 100))).collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}
