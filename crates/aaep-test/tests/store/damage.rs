//! Truncated and corrupted files are recovered or refused; they never change a decision.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use aaep_store::{Audit, AuditQuery, StoreError};

use crate::producer::{self, Plan};

/// Runs a producer on a directory, kills it and returns the decisions that it acknowledged.
fn decisions_of_a_killed_producer(dir: &Path) -> BTreeMap<String, String> {
    let (mut process, lines) = producer::start(dir, &Plan { run: 1, ..Plan::default() });
    let mut decided = BTreeMap::new();
    for line in lines {
        if let ["decided", origin, decision, ..] = line.split(' ').collect::<Vec<_>>()[..] {
            decided.insert(format!("Do {origin}"), decision.to_owned());
        }
        if decided.len() == 8 {
            break;
        }
    }
    process.kill().unwrap();
    process.wait().unwrap();
    decided
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    fs::set_permissions(to, fs::metadata(from).unwrap().permissions()).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// Opens a damaged store and returns whether it was accepted. Checks that an accepted store has the right decisions.
fn accepted_and_right(dir: &Path, decided: &BTreeMap<String, String>, damage: &str) -> bool {
    let (store, restored) = match producer::open(dir) {
        Ok(opened) => opened,
        Err(StoreError::Damaged(_, _) | StoreError::Foreign(_) | StoreError::Newer(_)) => return false,
        Err(other) => {
            assert!(!other.to_string().is_empty());
            return false;
        }
    };
    drop(store);
    for asked in &restored.questions {
        assert!(asked.event.envelope.event_id.as_str().starts_with("evt_"), "{damage}");
    }
    let mut kept = BTreeMap::new();
    let read = Audit::open(dir).and_then(|audit| {
        audit.read(&AuditQuery::default(), |aaep_store::Decided { record, .. }| {
            kept.insert(record.shown, record.decision.map(|d| d.as_str().to_owned()).unwrap_or_default());
        })
    });
    for (shown, decision) in &kept {
        assert!(
            decided.get(shown).is_none_or(|acknowledged| acknowledged == decision),
            "{damage}: {shown} is now {decision}"
        );
    }
    if read.is_ok() {
        for (shown, decision) in decided {
            assert_eq!(kept.get(shown), Some(decision), "{damage}: {shown} is lost");
        }
    }
    true
}

struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }
}

#[test]
fn damaged_store_is_refused_or_keeps_its_decisions() {
    let work = tempfile::tempdir().unwrap();
    let killed = work.path().join("killed");
    let decided = decisions_of_a_killed_producer(&killed);
    // A store that was closed has no write-ahead log. Both kinds are damaged.
    let closed = work.path().join("closed");
    copy(&killed, &closed);
    assert!(accepted_and_right(&closed, &decided, "no damage"), "the store of a killed process is recovered");
    let (mut random, mut refused) = (Random(11), 0);
    for round in 0..120 {
        let from = if round % 2 == 0 { &killed } else { &closed };
        let dir = work.path().join(format!("round{round}"));
        copy(from, &dir);
        let files = ["aaep.db", "aaep.db-wal", "mark"];
        let file = files.iter().map(|name| dir.join(name)).filter(|p| fs::metadata(p).is_ok_and(|m| m.len() > 0));
        let files: Vec<_> = file.collect();
        let file = &files[random.below(files.len())];
        let mut bytes = fs::read(file).unwrap();
        let at = random.below(bytes.len());
        let damage = format!("round {round}: {} of {} bytes at {at}", file.display(), bytes.len());
        match random.below(3) {
            0 => bytes.truncate(at),
            1 => bytes[at] ^= 1 << random.below(8),
            _ => {
                let end = (at + 512).min(bytes.len());
                bytes[at..end].fill(0);
            }
        }
        fs::write(file, bytes).unwrap();
        refused += u32::from(!accepted_and_right(&dir, &decided, &damage));
        fs::remove_dir_all(&dir).unwrap();
    }
    assert!(refused > 0, "no damage was detected");
}
