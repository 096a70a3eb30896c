//! What is deleted by size and by age.

use std::path::Path;
use std::time::{Duration, Instant};

use aaep::journal::{Journal, RecoveredState};
use aaep::message::{Event, Message, Payload, SubscriptionRequest};
use aaep::transport::{Link, Outbound, ResumePolicy};
use aaep::{Confirmation, Producer};
use aaep_store::{Retention, Store, StoreError, UserJournal};
use serde_json::json;

const TIMEOUT: Duration = Duration::from_secs(60);

/// Opens a store. Retries while it is in use: a producer that was dropped closes its store a moment later.
fn open(dir: &Path, retention: Retention) -> (UserJournal, RecoveredState) {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        match Store::open_single(dir, retention) {
            Err(StoreError::InUse(_)) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(5)),
            other => return other.expect("a store that no other process has open"),
        }
    }
}

async fn subscribe(producer: &Producer) -> Link {
    let request = json!({"type": "subscription.request", "aaep_version": "1.0.0", "subscriber_id": "reader",
        "capabilities": {"supports_confirmation_reply": true}});
    let Message::SubscriptionRequest(request) = serde_json::from_value(request).expect("a message") else {
        unreachable!()
    };
    let request: SubscriptionRequest = *request;
    producer.subscribe(&request, "user", ResumePolicy::Resumable).await.expect("an accepted request")
}

/// Receives events until one matches, and returns that one.
async fn receive_until(link: &mut Link, wanted: impl Fn(&Event) -> bool) -> Event {
    loop {
        if let Outbound::Event(frame) = link.recv().await.expect("the link is open")
            && wanted(frame.event())
        {
            return frame.event().clone();
        }
    }
}

#[tokio::test]
async fn oldest_events_are_deleted_when_the_store_is_too_large() {
    let dir = tempfile::tempdir().unwrap();
    let size = |dir: &Path| std::fs::metadata(dir.join("aaep.db")).map_or(0, |m| m.len());
    {
        let (store, restored) = open(dir.path(), Retention::default());
        let producer = Producer::builder("talker").journal(store, restored).build();
        let session = producer.session("Talking much.").await.unwrap();
        for _ in 0..6000 {
            session.report_progress(1, &"many words ".repeat(20)).await.unwrap();
        }
        session.complete("Done.").await.unwrap();
        producer.shut_down(Duration::ZERO, "Done.").await;
    }
    let deadline = Instant::now() + TIMEOUT;
    drop(open(dir.path(), Retention::default()));
    let before = size(dir.path());
    assert!(before > 2 << 20, "{before}");
    let (store, _) = open(dir.path(), Retention { days: 30, bytes: 1 << 20 });
    while size(dir.path()) > 3 << 19 {
        assert!(Instant::now() < deadline, "it still has {} bytes", size(dir.path()));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    drop(store);
    open(dir.path(), Retention::default());
}

#[test]
fn subscriber_that_resumes_after_its_events_were_deleted_is_told_and_asked_again() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let before = async {
        let (store, restored) = Store::open_single(dir.path(), Retention::default()).unwrap();
        let producer = Producer::builder("talker").journal(store, restored).build();
        let mut link = subscribe(&producer).await;
        let session = producer.session("Talking.").await.unwrap();
        let last = receive_until(&mut link, |event| matches!(event.payload, Payload::SessionStarted(_))).await;
        session.report_progress(1, "One.").await.unwrap();
        let question =
            session.ask_confirmation(Confirmation::new("Go on?", "It goes on.").timeout_seconds(3600)).await.unwrap();
        receive_until(&mut link, |event| matches!(event.payload, Payload::AwaitingConfirmation(_))).await;
        let known = (link.id().clone(), last.envelope.event_id, question.token().clone());
        // Dropping these would end the session and the subscription; a crash does not.
        std::mem::forget((session, question, link, producer));
        known
    };
    let (subscription, last, question) = runtime().block_on(before);
    // A retention of no days makes every event old.
    let (store, restored) = open(dir.path(), Retention { days: 0, bytes: u64::MAX });
    let deadline = Instant::now() + TIMEOUT;
    while !store.missed(&subscription, Some(&last)).gap {
        assert!(Instant::now() < deadline, "the events are still in the store");
        std::thread::sleep(Duration::from_millis(20));
    }
    runtime().block_on(async {
        let producer = Producer::builder("talker").journal(store, restored).build();
        let mut link = producer.resume(&subscription, "user", Some(last.as_str())).await.expect("it is resumable");
        let first = receive_until(&mut link, |_| true).await;
        let Payload::StateChanged(change) = &first.payload else { panic!("{first:?}") };
        let words = change.summary_normal.as_deref().unwrap_or_default();
        assert!(words.starts_with("Some events were missed"), "{change:?}");
        let asked = receive_until(&mut link, |event| matches!(event.payload, Payload::AwaitingConfirmation(_))).await;
        let Payload::AwaitingConfirmation(asked) = asked.payload else { unreachable!() };
        assert_eq!(asked.reply_token, question, "an open question is not deleted");
    });
}
