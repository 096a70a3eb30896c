//! A producer with a store, in a process of its own, that tells on standard output what it did. A line that starts
//! with `@` was written after the thing it tells of had happened.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use aaep::message::{CancelledBy, Decision, Payload, SubscriptionRequest};
use aaep::recovery::RecoveredQuestion;
use aaep::transport::{Link, Outbound, ResumePolicy};
use aaep::{Confirmation, ConfirmationOutcome, Producer, Session};
use aaep_store::{Retention, Store, StoreError};
use serde_json::json;

/// What the child is told by its environment.
const DIR: &str = "AAEP_TEST_STORE_DIR";
const ORDERS: &str = "AAEP_TEST_STORE_ORDERS";

/// How a child takes up the work of the one before it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Orders {
    /// Which life it is; numbers of its events begin with it.
    pub(crate) life: u64,
    /// The subscription to come back to and the last event that was heard on it.
    pub(crate) reader: Option<(String, String)>,
    /// The questions whose end is not known.
    pub(crate) origins: Vec<String>,
}

impl Orders {
    fn to_text(&self) -> String {
        let reader = self.reader.as_ref().map(|(id, last)| json!([id, last]));
        json!({"life": self.life, "reader": reader, "origins": self.origins}).to_string()
    }

    fn from_text(text: &str) -> Orders {
        let value: serde_json::Value = serde_json::from_str(text).unwrap();
        let text = |v: &serde_json::Value| v.as_str().unwrap().to_owned();
        Orders {
            life: value["life"].as_u64().unwrap(),
            reader: value["reader"].as_array().map(|pair| (text(&pair[0]), text(&pair[1]))),
            origins: value["origins"].as_array().unwrap().iter().map(text).collect(),
        }
    }
}

/// Starts a child. Its lines can be read; it goes on until it is killed.
pub(crate) fn start(dir: &Path, orders: &Orders) -> (Child, impl Iterator<Item = String> + use<>) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child::a_producer_with_a_store", "--ignored", "--nocapture", "--test-threads=1"])
        .env(DIR, dir)
        .env(ORDERS, orders.to_text())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    (child, lines.map_while(Result::ok).filter_map(|line| line.split_once('@').map(|(_, rest)| rest.to_owned())))
}

/// Opens a directory that nobody uses any more. Processes that are just being started by other tests may hold a copy of
/// the lock for a moment.
pub(crate) fn open(dir: &Path, retention: Retention) -> Result<(Store, aaep::journal::RecoveredState), StoreError> {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        match Store::open(dir, retention) {
            Err(StoreError::InUse(_)) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(5)),
            other => return other,
        }
    }
}

/// One write for one line: what was told before a kill is told whole.
fn tell(line: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("@{line}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}

#[test]
#[ignore = "it is the child of other tests"]
fn a_producer_with_a_store() {
    let Ok(dir) = std::env::var(DIR) else { return };
    let orders = Orders::from_text(&std::env::var(ORDERS).unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(live(dir.as_ref(), orders));
}

async fn live(dir: &Path, orders: Orders) {
    let (store, restored) = match open(dir, Retention::default()) {
        Ok(opened) => opened,
        Err(error) => return tell(&format!("refused {error}")),
    };
    let producer = Producer::builder("survivor").journal(store, restored).build();
    let link = listen(&producer, &orders).await;
    let mut session = match producer.orphans().await.first() {
        Some((id, _)) => producer.adopt(id).await.expect("it goes on").0,
        None => producer.session("Working.").await.unwrap(),
    };
    let mut others = false;
    for origin in &orders.origins {
        others |= look_up(&producer, origin).await;
    }
    tell("ready");
    tokio::spawn(hear(link));
    let mut number = orders.life * 1000;
    let mut pending = Vec::new();
    loop {
        for _ in 0..2 {
            number += 1;
            session.report_progress(1, &format!("Number {number}.")).await.unwrap();
        }
        if number.is_multiple_of(3) {
            let output = session.output().await.unwrap();
            output.write("Some words. And more").await.unwrap();
            output.write(" of them.").await.unwrap();
            output.finish().await.unwrap();
        }
        let origin = format!("o{number}");
        let ask = Confirmation::new(format!("Do {origin}"), "It is done.").for_call("act", &json!({"what": origin}));
        let question = session.ask_confirmation(ask.irreversible().timeout_seconds(600).origin(&origin)).await.unwrap();
        if number.is_multiple_of(5) {
            // Nobody answers this one in this life.
            pending.push(question);
            continue;
        }
        decided(&session, &origin, question.await.unwrap(), number).await;
        if number.is_multiple_of(16) && pending.is_empty() && !others {
            // A tool of an earlier life may be open: this ends it too.
            session.cancel(CancelledBy::Producer, "Done.").await.unwrap();
            session = producer.session("Working on.").await.unwrap();
        }
    }
}

async fn listen(producer: &Producer, orders: &Orders) -> Link {
    if let Some((id, last)) = &orders.reader {
        let back = producer.resume(&id.parse().unwrap(), "user", Some(last)).await;
        if let Some(link) = back {
            tell("back");
            return link;
        }
    }
    let link = reader(producer).await;
    tell(&format!("sub {}", link.id()));
    link
}

/// A reader that may come back, as a user.
pub(crate) async fn reader(producer: &Producer) -> Link {
    let request: SubscriptionRequest = match serde_json::from_value(json!({"type": "subscription.request",
        "aaep_version": "1.0.0", "subscriber_id": "reader",
        "capabilities": {"supports_confirmation_reply": true}}))
    .unwrap()
    {
        aaep::message::Message::SubscriptionRequest(request) => *request,
        other => panic!("{other:?}"),
    };
    producer.subscribe(&request, "user", ResumePolicy::Resumable).await.unwrap()
}

/// What became of a question of an earlier life; answers whether somebody waits for it now.
async fn look_up(producer: &Producer, origin: &str) -> bool {
    match producer.find_question(origin).await {
        None => tell(&format!("found {origin} nothing")),
        Some((session, RecoveredQuestion::Decided(outcome))) => {
            let usable = outcome.permit.is_some();
            tell(&format!("found {origin} {} {} {usable}", outcome.decision.as_str(), outcome.resolution.as_str()));
            if usable {
                let (session, _) = producer.adopt(&session).await.expect("a permit is for a session that goes on");
                run(&session, origin, outcome).await;
                // Another one holds this session too, and ends it.
                std::mem::forget(session);
            }
        }
        Some((id, RecoveredQuestion::Confirmation(question))) => {
            tell(&format!("found {origin} pending"));
            let (producer, origin) = (producer.clone(), origin.to_owned());
            tokio::spawn(async move {
                let Ok(outcome) = question.await else { return };
                let Some((session, _)) = producer.adopt(&id).await else { return };
                decided(&session, &origin, outcome, 0).await;
                // Another one holds this session too, and ends it.
                std::mem::forget(session);
            });
            return true;
        }
        Some(other) => panic!("{other:?}"),
    }
    false
}

/// Tells of a decision and acts on it. The number is the last that was said before the question.
async fn decided(session: &Session, origin: &str, outcome: ConfirmationOutcome, number: u64) {
    tell(&format!("decided {origin} {} {} {number}", outcome.decision.as_str(), outcome.resolution.as_str()));
    if outcome.permit.is_some() {
        run(session, origin, outcome).await;
    }
}

async fn run(session: &Session, origin: &str, outcome: ConfirmationOutcome) {
    let call = session.irreversible("act", json!({"what": origin})).permit(outcome.permit.unwrap());
    let name = origin.to_owned();
    let ran = call.run(async move |_| {
        tell(&format!("ran {name}"));
        Ok::<(), String>(())
    });
    ran.await.unwrap();
}

/// The user: hears everything, says yes to most questions.
async fn hear(mut link: Link) {
    loop {
        let Some(Outbound::Event(frame)) = link.recv().await else { continue };
        let event = frame.event();
        let id = &event.envelope.event_id;
        match &event.payload {
            Payload::ProgressUpdated(progress) => {
                let text = progress.summary_normal.as_deref().unwrap_or_default();
                let number = text.trim_start_matches("Number ").trim_end_matches('.');
                tell(&format!("got {id} number {number}"));
            }
            Payload::AwaitingConfirmation(asked) => {
                let origin = asked.action.trim_start_matches("Do ").to_owned();
                tell(&format!("got {id} asked {origin} {} {}", asked.reply_token, asked.timeout_seconds));
                let number: u64 = origin[1..].parse().unwrap();
                let here = number / 1000 == std::env::var(ORDERS).map(|o| Orders::from_text(&o).life).unwrap();
                if !number.is_multiple_of(5) || !here {
                    let decision = if number.is_multiple_of(4) { Decision::Reject } else { Decision::Accept };
                    link.decide(&asked.reply_token, decision).await.unwrap();
                }
            }
            Payload::StateChanged(change)
                if change.summary_normal.as_deref().is_some_and(|s| s.starts_with("Some events were missed")) =>
            {
                tell(&format!("got {id} missed"));
            }
            _ => tell(&format!("got {id} other")),
        }
    }
}
