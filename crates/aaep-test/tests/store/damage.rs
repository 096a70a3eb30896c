//! Files that were cut or changed: recovered or refused, never a wrong decision.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use aaep_store::{Audit, AuditQuery, Retention, StoreError};

use crate::child::{self, Orders};

/// A directory that a killed child left behind, and the decisions that it acknowledged.
fn left_behind(dir: &Path) -> BTreeMap<String, String> {
    let (mut process, lines) = child::start(dir, &Orders { life: 1, ..Orders::default() });
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

/// Opens what is left; answers whether it was accepted. What is accepted is right.
fn judge(dir: &Path, decided: &BTreeMap<String, String>, how: &str) -> bool {
    let opened = child::open(dir, Retention::default());
    let (store, restored) = match opened {
        Ok(opened) => opened,
        Err(StoreError::Damaged(_, _) | StoreError::Foreign(_) | StoreError::Newer(_)) => return false,
        Err(other) => {
            assert!(!other.to_string().is_empty());
            return false;
        }
    };
    drop(store);
    for asked in &restored.questions {
        assert!(asked.event.envelope.event_id.as_str().starts_with("evt_"), "{how}");
    }
    let mut kept = BTreeMap::new();
    let read = Audit::open(dir).and_then(|audit| {
        audit.read(&AuditQuery::default(), |record, _| {
            kept.insert(record.shown, record.decision.map(|d| d.as_str().to_owned()).unwrap_or_default());
        })
    });
    for (shown, decision) in &kept {
        assert!(decided.get(shown).is_none_or(|told| told == decision), "{how}: {shown} is now {decision}");
    }
    if read.is_ok() {
        for (shown, decision) in decided {
            assert_eq!(kept.get(shown), Some(decision), "{how}: {shown} is lost");
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
fn what_was_cut_or_changed_is_refused_or_right() {
    let work = tempfile::tempdir().unwrap();
    let whole = work.path().join("whole");
    let decided = left_behind(&whole);
    let sound = work.path().join("sound");
    copy(&whole, &sound);
    assert!(judge(&sound, &decided, "sound"), "what was only killed is taken up");
    // After a good end there is no log beside the database any more: damage both kinds.
    let (mut random, mut refused) = (Random(11), 0);
    for round in 0..120 {
        let from = if round % 2 == 0 { &whole } else { &sound };
        let dir = work.path().join(format!("round{round}"));
        copy(from, &dir);
        let files = ["aaep.db", "aaep.db-wal", "mark"];
        let file = files.iter().map(|name| dir.join(name)).filter(|p| fs::metadata(p).is_ok_and(|m| m.len() > 0));
        let files: Vec<_> = file.collect();
        let file = &files[random.below(files.len())];
        let mut bytes = fs::read(file).unwrap();
        let at = random.below(bytes.len());
        let how = format!("round {round}: {} of {} bytes at {at}", file.display(), bytes.len());
        match random.below(3) {
            0 => bytes.truncate(at),
            1 => bytes[at] ^= 1 << random.below(8),
            _ => {
                let end = (at + 512).min(bytes.len());
                bytes[at..end].fill(0);
            }
        }
        fs::write(file, bytes).unwrap();
        refused += u32::from(!judge(&dir, &decided, &how));
        fs::remove_dir_all(&dir).unwrap();
    }
    assert!(refused > 0, "damage is noticed");
}

#[test]
fn other_peoples_files_and_later_versions_are_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    drop(child::open(dir.path(), Retention::default()).unwrap());
    fs::write(dir.path().join("aaep.db"), b"this is not a database, it is a poem about one").unwrap();
    let error = child::open(dir.path(), Retention::default()).unwrap_err();
    assert!(matches!(error, StoreError::Damaged(..)), "{error}");
    assert!(error.to_string().contains("backup"), "{error}");
    let dir = tempfile::tempdir().unwrap();
    drop(child::open(dir.path(), Retention::default()).unwrap());
    let path = dir.path().join("aaep.db");
    let mut bytes = fs::read(&path).unwrap();
    // The version of the tables is a big-endian number at 60.
    bytes[63] += 1;
    fs::write(&path, bytes).unwrap();
    let error = child::open(dir.path(), Retention::default()).unwrap_err();
    assert!(matches!(error, StoreError::Newer(_)), "{error}");
}
