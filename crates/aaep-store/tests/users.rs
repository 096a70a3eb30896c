//! Users in one store: each gets only their own records back.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use std::path::Path;
use std::sync::Arc;

use aaep::journal::{Journal, MissedEvents};
use aaep::message::{Capabilities, SubscriptionRequest};
use aaep::transport::{Link, Outbound, ResumePolicy};
use aaep::{Confirmation, NoSubscriberPolicy, Producer, Session};
use aaep_proto::id::EventId;
use aaep_store::{Audit, AuditQuery, Retention, Store};

fn open(dir: &Path) -> Arc<Store> {
    Arc::new(Store::open(dir, Retention::default()).unwrap())
}

fn producer(store: &Arc<Store>, user: &str) -> Producer {
    let (journal, restored) = store.open_user(user).unwrap();
    let builder = Producer::builder("banker").no_subscriber_policy(NoSubscriberPolicy::ApplyDefault);
    builder.journal(journal, restored).build()
}

/// Subscribes, starts a session and receives its start. Returns the session, the link and the last event.
async fn begin(producer: &Producer, user: &str) -> (Session, Link, EventId) {
    let request = SubscriptionRequest::new("reader", Capabilities::default());
    let mut link = producer.subscribe(&request, user, ResumePolicy::Resumable).await.unwrap();
    let session = producer.session(format!("Secret of {user}.")).await.unwrap();
    loop {
        if let Some(Outbound::Event(frame)) = link.recv().await {
            let id = frame.event().envelope.event_id.clone();
            return (session, link, id);
        }
    }
}

/// Ends a producer without ending its session and its subscription, as a crash does.
async fn crash(producer: Producer, session: Session, link: Link) {
    producer.record_seen(Vec::new()).await;
    std::mem::forget((producer, session, link));
}

fn text_of(missed: &MissedEvents) -> String {
    format!("{:?}", missed.items)
}

#[tokio::test]
async fn users_get_back_their_own_sessions_and_events_only() {
    let dir = tempfile::tempdir().unwrap();
    let mut known = Vec::new();
    {
        let store = open(dir.path());
        for user in ["ada", "ben"] {
            let producer = producer(&store, user);
            let (session, link, last) = begin(&producer, user).await;
            session.set_state("deciding", Some(&format!("More of {user}."))).await.unwrap();
            known.push((user, session.id().clone(), link.id().clone(), last));
            crash(producer, session, link).await;
        }
        // This waits until everything before is committed.
        store.open_user("ada").unwrap();
    }
    // The forgotten producers keep the directory locked, so its files are opened as a copy.
    let copy = tempfile::tempdir().unwrap();
    let to = copy.path().join("copy");
    aaep_store::backup(dir.path(), &to).unwrap();
    let store = open(&to);
    assert_eq!(store.active_users(), ["ada", "ben"]);
    for (user, session, subscription, last) in &known {
        let (journal, restored) = store.open_user(user).unwrap();
        let sessions: Vec<_> = restored.sessions.iter().map(|s| s.started.envelope.session_id.clone()).collect();
        assert_eq!(sessions, std::slice::from_ref(session));
        assert_eq!(restored.subscriptions.len(), 1);
        let missed = journal.missed(subscription, Some(last));
        assert!(!missed.gap && text_of(&missed).contains(&format!("More of {user}.")), "{missed:?}");
        let other = if *user == "ada" { "ben" } else { "ada" };
        assert!(!text_of(&missed).contains(other), "{missed:?}");
        // An event of the other user is unknown here, whatever it was.
        let foreign = &known.iter().find(|(name, ..)| *name == other).unwrap().3;
        let missed = journal.missed(subscription, Some(foreign));
        assert!(missed.gap && !text_of(&missed).contains(other), "{missed:?}");
    }
    let (_, restored) = store.open_user("stranger").unwrap();
    assert!(restored.sessions.is_empty() && restored.subscriptions.is_empty());
}

async fn decide(store: &Arc<Store>, user: &str) {
    let producer = producer(store, user);
    let session = producer.session("Asking.").await.unwrap();
    session.confirm(Confirmation::new(format!("Question to {user}."), "Nothing happens.")).await.unwrap();
    session.complete("Done.").await.unwrap();
}

fn decisions(dir: &Path, user: Option<&str>) -> Vec<(String, String)> {
    let query = AuditQuery { user: user.map(str::to_owned), ..AuditQuery::default() };
    let mut found = Vec::new();
    let audit = Audit::open(dir).unwrap();
    audit.read(&query, |decided| found.push((decided.user.to_owned(), decided.record.shown))).unwrap();
    found.sort();
    found
}

#[tokio::test]
async fn decisions_are_read_by_user_and_deleted_with_everything_else_of_the_user() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    for user in ["ada", "ben"] {
        decide(&store, user).await;
    }
    let entry = |user: &str| (user.to_owned(), format!("Question to {user}."));
    assert_eq!(decisions(dir.path(), None), [entry("ada"), entry("ben")]);
    assert_eq!(decisions(dir.path(), Some("ben")), [entry("ben")]);
    assert_eq!(decisions(dir.path(), Some("stranger")), []);
    assert!(Store::delete_user(dir.path(), "ada").is_err(), "a server uses it");
    // The drivers end in tasks of their own.
    while Arc::strong_count(&store) > 1 {
        tokio::task::yield_now().await;
    }
    drop(store);
    assert!(Store::delete_user(dir.path(), "ada").unwrap().is_some_and(|records| records > 0));
    assert_eq!(Store::delete_user(dir.path(), "stranger").unwrap(), None);
    assert_eq!(decisions(dir.path(), None), [entry("ben")]);
    for file in ["aaep.db", "aaep.db-wal"] {
        let bytes = std::fs::read(dir.path().join(file)).unwrap_or_default();
        let needle = b"Question to ada.";
        assert!(!bytes.windows(needle.len()).any(|window| window == needle), "{file} still has it");
    }
    assert_eq!(open(dir.path()).open_user("ben").unwrap().1.spent.len(), 1, "the store is whole");
}

#[tokio::test]
async fn row_that_was_given_to_another_user_is_found_to_be_damaged() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let producer = producer(&store, "ada");
    let (session, link, _) = begin(&producer, "ada").await;
    crash(producer, session, link).await;
    store.open_user("ben").unwrap();
    let copy = tempfile::tempdir().unwrap();
    let to = copy.path().join("copy");
    aaep_store::backup(dir.path(), &to).unwrap();
    let database = rusqlite::Connection::open(to.join("aaep.db")).unwrap();
    assert!(database.execute("UPDATE sessions SET user = user + 1", []).unwrap() > 0);
    drop(database);
    let error = Store::open(&to, Retention::default()).unwrap_err().to_string();
    assert!(error.contains("changed"), "{error}");
}

#[tokio::test]
async fn store_from_before_there_were_users_is_taken_over() {
    let dir = tempfile::tempdir().unwrap();
    {
        let (journal, restored) = Store::open_single(dir.path(), Retention::default()).unwrap();
        let builder = Producer::builder("banker").no_subscriber_policy(NoSubscriberPolicy::ApplyDefault);
        let producer = builder.journal(journal, restored).build();
        let session = producer.session("Asking.").await.unwrap();
        session.confirm(Confirmation::new("An old question.", "Nothing happens.")).await.unwrap();
        session.complete("Done.").await.unwrap();
        producer.shut_down(std::time::Duration::from_secs(5), "The end.").await;
    }
    // The writer of the store ends with the last journal.
    while Store::open(dir.path(), Retention::default()).is_err() {
        tokio::task::yield_now().await;
    }
    let database = rusqlite::Connection::open(dir.path().join("aaep.db")).unwrap();
    let mut old = "DROP TABLE users; PRAGMA user_version = 1;".to_owned();
    for index in ["log_of_user", "sessions_of_user", "questions_of_user", "subscriptions_of_user"] {
        old = format!("DROP INDEX {index}; {old}");
    }
    for table in ["log", "sent", "sessions", "questions", "subscriptions", "heard"] {
        old += &format!("ALTER TABLE {table} DROP COLUMN user;");
    }
    database.execute_batch(&old).unwrap();
    drop(database);
    assert!(Audit::open(dir.path()).unwrap_err().to_string().contains("start a server once"));
    let (_, restored) = Store::open_single(dir.path(), Retention::default()).unwrap();
    assert_eq!(restored.spent.len(), 1);
    assert_eq!(decisions(dir.path(), Some("local")), [("local".to_owned(), "An old question.".to_owned())]);
}
