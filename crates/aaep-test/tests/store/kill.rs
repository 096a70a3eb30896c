//! Producers that are killed at random moments, one after the other on the same directory.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use aaep_store::{Audit, AuditQuery};

use crate::producer::{self, Plan};

/// Pseudorandom numbers, the same for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// What the producers reported before they were killed. Later runs must not contradict it.
#[derive(Debug, Default)]
struct Reported {
    plan: Plan,
    /// The decision and resolution of each question that was acknowledged, by origin.
    decided: BTreeMap<String, (String, String)>,
    /// The reply token of each question that was delivered, by origin.
    asked: BTreeMap<String, String>,
    /// The origins of the tool calls that ran.
    ran: BTreeSet<String>,
    /// The origins of questions that ended with their sessions.
    ended: BTreeSet<String>,
    /// The numbers of the progress events that were received.
    received: BTreeSet<u64>,
    /// The last number of this run that is certainly recorded: a decision after it was acknowledged.
    recorded: Option<u64>,
    /// Such numbers of earlier runs, until the resumed subscriber has received everything up to this run.
    expected: Vec<u64>,
    /// Whether the subscription is certainly recorded.
    subscribed: bool,
    /// How many lines were printed.
    lines: usize,
}

impl Reported {
    fn begin(&mut self, run: u64) {
        self.plan.run = run;
        let recorded = self.recorded.take();
        if self.subscribed {
            self.expected.extend(recorded);
        }
    }

    fn handle_line(&mut self, line: &str) {
        self.lines += 1;
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["subscribed", id] => {
                assert!(!self.subscribed, "a recorded subscription is lost");
                id.clone_into(&mut self.plan.subscription);
                self.plan.last_event.clear();
                self.received.clear();
                self.expected.clear();
            }
            ["received", id, ref what @ ..] => {
                id.clone_into(&mut self.plan.last_event);
                self.handle_event(what);
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
                assert_eq!(self.decided[origin].0, "accept", "{origin} ran without being accepted");
            }
            ["found", origin, ref what @ ..] => self.handle_found(origin, what),
            ["ready" | "resumed"] => {}
            _ => panic!("the producer prints {line}"),
        }
    }

    fn handle_event(&mut self, what: &[&str]) {
        match *what {
            ["number", number] => self.handle_number(number.parse().unwrap()),
            // The subscriber got a notice that events are missing: any of the expected ones may be among them.
            ["missed"] => self.expected.clear(),
            ["asked", origin, token, seconds] => {
                let known = self.asked.insert(origin.to_owned(), token.to_owned());
                assert!(known.is_none_or(|known| known == token), "{origin} is asked with another token");
                assert!(seconds.parse::<u32>().unwrap() <= 600, "{origin} has more time than before");
                assert!(!self.decided.contains_key(origin), "{origin} is asked again after its decision");
                if !self.plan.origins.iter().any(|known| known == origin) {
                    self.plan.origins.push(origin.to_owned());
                }
            }
            _ => {}
        }
    }

    /// Events of earlier runs are delivered before those of this run, so none may be missing when the first of this run
    /// is received.
    fn handle_number(&mut self, number: u64) {
        self.received.insert(number);
        if number / 1000 != self.plan.run {
            return;
        }
        for last in std::mem::take(&mut self.expected) {
            let missing: Vec<u64> = (last / 1000 * 1000 + 1..=last).filter(|n| !self.received.contains(n)).collect();
            assert!(
                missing.is_empty(),
                "{missing:?} are recorded and were not delivered, and the subscriber was not told"
            );
        }
    }

    /// Compares what the next run knows of a question with what was reported.
    fn handle_found(&mut self, origin: &str, what: &[&str]) {
        match (self.decided.get(origin).cloned(), what) {
            // The session has ended.
            (Some(_), ["nothing"]) => {}
            (Some((decision, resolution)), [found, why, usable]) => {
                assert_eq!((decision.as_str(), resolution.as_str()), (*found, *why), "{origin} has changed");
                let ran = self.ran.contains(origin);
                assert!(!(ran && *usable == "true"), "{origin} ran and could run again");
            }
            (None, ["pending"]) => {}
            // The session has ended and the question with it, which must be in the audit log.
            (None, ["nothing"]) => drop(self.ended.insert(origin.to_owned())),
            // The process was killed after the decision was recorded and before it was acknowledged.
            (None, [found, why, _]) => {
                self.decided.insert(origin.to_owned(), (found.to_string(), why.to_string()));
            }
            (known, what) => panic!("{origin} was asked, {known:?}, and now it is {what:?}"),
        }
    }

    /// Compares the audit log with what was reported.
    fn check(&self, dir: &Path) {
        let mut kept = BTreeMap::new();
        let audit = Audit::open(dir).unwrap();
        let add = |aaep_store::Decided { record, .. }: aaep_store::Decided<'_>| {
            let decision = record.decision.map(|d| d.as_str().to_owned()).unwrap_or_default();
            let known = kept.insert(record.shown, (decision, record.resolution.as_str().to_owned()));
            assert_eq!(known, None, "a question has two records");
        };
        audit.read(&AuditQuery::default(), add).unwrap();
        for origin in &self.ended {
            assert!(kept.contains_key(&format!("Do {origin}")), "{origin} ended and has no record");
        }
        for (origin, decision) in &self.decided {
            assert_eq!(
                kept.get(&format!("Do {origin}")),
                Some(decision),
                "the record of {origin} differs from what was acknowledged"
            );
        }
    }
}

/// Starts and kills this many producers on one directory.
fn kill_repeatedly(seed: u64, times: u64) {
    let dir = tempfile::tempdir().unwrap();
    let mut random = Random(seed);
    let mut reported = Reported::default();
    for run in 1..=times {
        reported.begin(run);
        let (mut process, mut lines) = producer::start(dir.path(), &reported.plan);
        // Some are killed before they begin to work.
        let after = random.below(80);
        for n in 0.. {
            let Some(line) = lines.next() else { panic!("seed {seed}, run {run}: the producer ended by itself") };
            assert!(!line.starts_with("refused"), "seed {seed}, run {run}: {line}");
            reported.handle_line(&line);
            if n >= after {
                break;
            }
        }
        std::thread::sleep(Duration::from_micros(random.below(3000)));
        process.kill().unwrap();
        process.wait().unwrap();
        lines.for_each(|line| reported.handle_line(&line));
        reported.check(dir.path());
    }
    let worked = reported.lines > 0 && !reported.decided.is_empty() && !reported.ran.is_empty();
    assert!(worked, "nothing happened: {reported:?}");
    run_to_the_end(dir.path(), &mut reported, times + 1);
}

/// Runs a producer until an event of its own is received: by then the subscriber has received everything or a
/// notice that events are missing.
fn run_to_the_end(dir: &Path, reported: &mut Reported, run: u64) {
    reported.begin(run);
    let (mut process, mut lines) = producer::start(dir, &reported.plan);
    for line in lines.by_ref() {
        reported.handle_line(&line);
        if reported.received.iter().any(|number| number / 1000 == run) {
            break;
        }
    }
    process.kill().unwrap();
    process.wait().unwrap();
}

#[test]
fn nothing_acknowledged_is_lost_or_done_twice_after_200_kills() {
    // Two at a time, each on its own directory.
    let threads: Vec<_> = (1..=2).map(|seed| std::thread::spawn(move || kill_repeatedly(seed, 100))).collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}
