//! Rivals for one directory, and what is kept for how long.

use std::time::{Duration, Instant};

use aaep::journal::Journal;
use aaep::message::{Event, Payload};
use aaep::transport::{Link, Outbound};
use aaep::{Confirmation, Producer};
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
            session.report_progress(1, &"many words ".repeat(20)).await.unwrap();
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

/// Who was away for so long that what it missed is gone is told that, and where things stand.
#[test]
fn who_comes_back_too_late_is_told_that_events_were_missed() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let before = async {
        let (store, restored) = Store::open(dir.path(), Retention::default()).unwrap();
        let producer = Producer::builder("talker").journal(store, restored).build();
        let mut link = child::reader(&producer).await;
        let session = producer.session("Talking.").await.unwrap();
        let last = until(&mut link, |event| matches!(event.payload, Payload::SessionStarted(_))).await;
        session.report_progress(1, "One.").await.unwrap();
        let question =
            session.ask_confirmation(Confirmation::new("Go on?", "It goes on.").timeout_seconds(3600)).await.unwrap();
        until(&mut link, |event| matches!(event.payload, Payload::AwaitingConfirmation(_))).await;
        let known = (link.id().clone(), last.envelope.event_id, question.token().clone());
        // The process ends without a word.
        std::mem::forget((session, question, link, producer));
        known
    };
    let (subscription, last, question) = runtime().block_on(before);
    // With no days at all everything is old.
    let (store, restored) = child::open(dir.path(), Retention { days: 0, bytes: u64::MAX }).unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while !store.missed(&subscription, Some(&last)).gap {
        assert!(Instant::now() < deadline, "it is still there");
        std::thread::sleep(Duration::from_millis(20));
    }
    runtime().block_on(async {
        let producer = Producer::builder("talker").journal(store, restored).build();
        let mut link = producer.resume(&subscription, "user", Some(last.as_str())).await.expect("it may come back");
        let first = until(&mut link, |_| true).await;
        let Payload::StateChanged(change) = &first.payload else { panic!("{first:?}") };
        let words = change.summary_normal.as_deref().unwrap_or_default();
        assert!(words.starts_with("Some events were missed"), "{change:?}");
        let asked = until(&mut link, |event| matches!(event.payload, Payload::AwaitingConfirmation(_))).await;
        let Payload::AwaitingConfirmation(asked) = asked.payload else { unreachable!() };
        assert_eq!(asked.reply_token, question, "a question that is open does not age");
    });
}

/// The next event of this kind.
async fn until(link: &mut Link, wanted: impl Fn(&Event) -> bool) -> Event {
    loop {
        if let Outbound::Event(frame) = link.recv().await.expect("it goes on")
            && wanted(frame.event())
        {
            return frame.event().clone();
        }
    }
}
