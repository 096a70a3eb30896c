//! A listener that answers as a test says, and checks everything that it hears.

use std::path::Path;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use aaep_announce::Profile;
use aaep_client::{ConnectOptions, Prompt, PromptAnswer, Subscriber, SubscriberEvent};
use aaep_proto::Validator;
use aaep_proto::message::{Capabilities, Message, Response};
use aaep_proto::rule::Severity;
use aaep_proto::sequence::SequenceChecker;
use aaep_test::PATIENCE;
use serde_json::Value;

/// What a listener does with a question. `None` leaves it open.
pub(crate) type Policy = fn(&Prompt) -> Option<PromptAnswer>;

/// Accepts every confirmation.
pub(crate) fn accept(prompt: &Prompt) -> Option<PromptAnswer> {
    prompt.confirmation().map(|_| PromptAnswer::accept())
}

/// Rejects every confirmation.
pub(crate) fn reject(prompt: &Prompt) -> Option<PromptAnswer> {
    prompt.confirmation().map(|_| PromptAnswer::reject())
}

/// Leaves every question open.
pub(crate) fn ignore(_: &Prompt) -> Option<PromptAnswer> {
    None
}

/// Accepts, and answers every clarification: yes, 7, the first choice, or a text.
pub(crate) fn answer_all(prompt: &Prompt) -> Option<PromptAnswer> {
    let Some(asked) = prompt.clarification() else { return accept(prompt) };
    let kind = asked.accepted_response_kinds.as_ref().unwrap()[0].as_str().to_owned();
    Some(PromptAnswer::response(match kind.as_str() {
        "yes_no" => Response::Boolean(true),
        "numeric" => Response::Number(7.0),
        "multiple_choice" => Response::Text(asked.choices.as_ref().unwrap()[0].value.clone()),
        // Forms ask for addresses and dates too, and servers check them.
        _ if asked.question.to_lowercase().contains("email") => Response::Text("ada@example.org".into()),
        _ if asked.question.to_lowercase().contains("website") => Response::Text("https://example.org/".into()),
        _ if asked.question.to_lowercase().contains("date") => Response::Text("1815-12-10".into()),
        _ => Response::Text("Ada Lovelace".into()),
    }))
}

#[derive(Default)]
struct Heard {
    events: Vec<Value>,
    ended: bool,
}

/// A listener on a thread of its own.
pub(crate) struct Listener {
    shared: Arc<(Mutex<Heard>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl Listener {
    /// Subscribes at a socket, and waits until the subscription is accepted.
    pub(crate) fn connect(socket: &Path, policy: Policy) -> Listener {
        Listener::connect_to(&format!("unix:{}", socket.display()), policy)
    }

    pub(crate) fn connect_to(address: &str, policy: Policy) -> Listener {
        let shared = Arc::<(Mutex<Heard>, Condvar)>::default();
        let (writer, address) = (shared.clone(), address.to_owned());
        let (accepted, is_accepted) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                // One records everything in order, as it was received and without a pace, and one answers.
                let recorder = ConnectOptions::new("test-recorder", Capabilities::default()).raw();
                let recorder = Subscriber::connect(&address, recorder).unwrap();
                let replier = ConnectOptions::new("test-listener", Profile::default().capabilities());
                let replier = Subscriber::connect(&address, replier).unwrap();
                let recording = record(recorder, &writer, accepted.clone());
                tokio::join!(recording, answer(replier, policy, accepted));
                writer.0.lock().unwrap().ended = true;
                writer.1.notify_all();
            });
        });
        for _ in 0..2 {
            is_accepted.recv_timeout(PATIENCE).expect("the subscription is accepted");
        }
        Listener { shared, thread: Some(thread) }
    }

    /// Waits until an event is heard that `found` returns a value for.
    pub(crate) fn wait<T>(&self, what: &str, mut found: impl FnMut(&Value) -> Option<T>) -> T {
        let deadline = Instant::now() + PATIENCE;
        let mut heard = self.shared.0.lock().unwrap();
        loop {
            if let Some(result) = heard.events.iter().find_map(&mut found) {
                return result;
            }
            assert!(!heard.ended && Instant::now() < deadline, "no {what} in {:#?}", heard.events);
            heard = self.shared.1.wait_timeout(heard, Duration::from_millis(200)).unwrap().0;
        }
    }

    /// Waits for an event of this type, without the common prefix.
    pub(crate) fn wait_for(&self, kind: &str) -> Value {
        self.wait(kind, |event| is(event, kind).then(|| event.clone()))
    }

    /// Waits until the producer has ended. Returns all events, which are valid and in order.
    pub(crate) fn finish(mut self) -> Vec<Value> {
        self.thread.take().unwrap().join().unwrap();
        let events = std::mem::take(&mut self.shared.0.lock().unwrap().events);
        check(&events);
        events
    }

    /// Returns the events so far, which are valid and in order.
    pub(crate) fn events(&self) -> Vec<Value> {
        let events = self.shared.0.lock().unwrap().events.clone();
        check(&events);
        events
    }
}

async fn record(mut subscriber: Subscriber, heard: &(Mutex<Heard>, Condvar), accepted: Sender<()>) {
    while let Some(event) = subscriber.recv().await {
        match event {
            SubscriberEvent::Accepted(_) => drop(accepted.send(())),
            // Some clients kill the bridge as soon as they are done.
            SubscriberEvent::Retrying(_) => return,
            SubscriberEvent::Message(bytes) => {
                let message: Value = serde_json::from_slice(&bytes).unwrap();
                if message.get("event_id").is_some() {
                    heard.0.lock().unwrap().events.push(message);
                    heard.1.notify_all();
                }
            }
            _ => {}
        }
    }
}

async fn answer(mut subscriber: Subscriber, policy: Policy, accepted: Sender<()>) {
    while let Some(event) = subscriber.recv().await {
        match event {
            SubscriberEvent::Accepted(_) => drop(accepted.send(())),
            SubscriberEvent::Retrying(_) => return,
            SubscriberEvent::PromptOpened(prompt, _) => {
                if let Some(answer) = policy(&prompt) {
                    // The question may have been withdrawn meanwhile.
                    let _ = subscriber.reply(prompt.id, answer).await;
                }
            }
            _ => {}
        }
    }
}

/// Whether an event has this type, without the common prefix.
pub(crate) fn is(event: &Value, kind: &str) -> bool {
    event["type"] == format!("aaep:agent.{kind}")
}

/// Returns the types of events, without those that only change the state.
pub(crate) fn kinds(events: &[Value]) -> Vec<String> {
    let kinds = events.iter().map(|event| event["type"].as_str().unwrap().replace("aaep:agent.", ""));
    kinds.filter(|kind| kind != "state.changed").collect()
}

/// Every event is valid, they are in order, and no irreversible tool is invoked before a yes.
fn check(events: &[Value]) {
    let validator = Validator::new();
    let mut sequence = SequenceChecker::new();
    for event in events {
        let report = validator.check_value(event);
        assert!(report.is_valid(), "{:?} in {event:#}", report.problems);
        let message: Message = serde_json::from_value(event.clone()).unwrap();
        // Whether a question was resolved, the checker only supposes: replies do not pass here.
        let mut problems = sequence.observe(&message);
        problems.retain(|problem| problem.severity == Severity::Error);
        assert!(problems.is_empty(), "{problems:?} at {event:#}\nof {:#?}", kinds(events));
    }
    let mut accepted = 0;
    for event in events {
        if event["extensions"]["consent"]["outcome"] == "accepted" {
            accepted += 1;
        }
        if is(event, "tool.invoked") && event["irreversible"] == true {
            assert!(accepted > 0, "an irreversible tool before its yes: {:#?}", kinds(events));
            accepted -= 1;
        }
    }
}
