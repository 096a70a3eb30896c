//! Files that several tests share and that are prepared on first use.

use std::fs::{self, File};
use std::path::Path;

/// Runs `prepare` unless it has already completed below this directory for this version.
///
/// Tests of one binary run as threads, tests of several binaries as processes, so a file lock serializes them: one
/// caller prepares, the others wait and find the result. If `prepare` panics, the next caller starts over.
pub fn prepare_once(below: &Path, version: &str, prepare: impl FnOnce()) {
    fs::create_dir_all(below).expect("the fixture directory can be created");
    let lock = File::create(below.join("lock")).expect("the fixture directory can be written");
    lock.lock().expect("files can be locked");
    let marker = below.join("prepared");
    if fs::read_to_string(&marker).ok().as_deref() == Some(version) {
        return;
    }
    prepare();
    fs::write(&marker, version).expect("the fixture directory can be written");
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn concurrent_callers_prepare_once_and_all_see_the_result() {
        let directory = tempfile::tempdir().unwrap();
        let prepared = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| {
                    prepare_once(directory.path(), "1", || {
                        prepared.fetch_add(1, Ordering::SeqCst);
                        fs::write(directory.path().join("shared"), "complete").unwrap();
                    });
                    assert_eq!(fs::read_to_string(directory.path().join("shared")).unwrap(), "complete");
                });
            }
        });
        assert_eq!(prepared.load(Ordering::SeqCst), 1);
        prepare_once(directory.path(), "2", || {
            prepared.fetch_add(1, Ordering::SeqCst);
        });
        assert_eq!(prepared.load(Ordering::SeqCst), 2, "another version is prepared again");
    }

    #[test]
    fn a_failed_preparation_is_tried_again() {
        let directory = tempfile::tempdir().unwrap();
        let failed = std::panic::catch_unwind(|| prepare_once(directory.path(), "1", || panic!("no network")));
        assert!(failed.is_err());
        let mut again = false;
        prepare_once(directory.path(), "1", || again = true);
        assert!(again);
    }
}
