//! Rivals for one directory, and what is kept for how long.

use std::time::{Duration, Instant};

use aaep::Producer;
use aaep_store::{Audit, AuditQuery, Retention, Store, StoreError};

use crate::child::{self, Orders};

#[test]
fn two_processes_do_not_share_a_directory() {
    let dir = tempfile::tempdir().unwrap();
    let (mut process, mut lines) = child::start(dir.path(), &Orders { life: 1, ..Orders::default() });
    assert!(lines.any(|line| line == "ready"));
    let error = Store::open(dir.path(), Retention::default()).unwrap_err();
    assert!(matches!(error, StoreError::InUse(_)), "{error}");
    assert!(error.to_string().contains("another process"), "{error}");
    // Reading decisions beside it is fine.
    Audit::open(dir.path()).unwrap().read(&AuditQuery::default(), |_, _| ()).unwrap();
    process.kill().unwrap();
    process.wait().unwrap();
    child::open(dir.path(), Retention::default()).unwrap();
}

#[tokio::test]
async fn the_oldest_events_go_when_there_is_too_much() {
    let dir = tempfile::tempdir().unwrap();
    let size = |dir: &std::path::Path| std::fs::metadata(dir.join("aaep.db")).map_or(0, |m| m.len());
    {
        let (store, restored) = Store::open(dir.path(), Retention::default()).unwrap();
        let producer = Producer::builder("talker").journal(store, restored).build();
        let session = producer.session("Talking much.").await.unwrap();
        for _ in 0..6000 {
            session.progress(1, &"many words ".repeat(20)).await.unwrap();
        }
        session.complete("Done.").await.unwrap();
        producer.shut_down(Duration::ZERO, "Done.").await;
    }
    let deadline = Instant::now() + Duration::from_secs(60);
    drop(child::open(dir.path(), Retention::default()).unwrap());
    let before = size(dir.path());
    assert!(before > 2 << 20, "{before}");
    let (store, _) = child::open(dir.path(), Retention { days: 30, bytes: 1 << 20 }).unwrap();
    while size(dir.path()) > 3 << 19 {
        assert!(Instant::now() < deadline, "it is still {} bytes", size(dir.path()));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    drop(store);
    child::open(dir.path(), Retention::default()).unwrap();
}
