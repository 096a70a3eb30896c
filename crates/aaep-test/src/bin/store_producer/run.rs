//! Continues the work of the run before and emits events, questions and tool calls until the process is killed.

use std::path::Path;
use std::time::{Duration, Instant};

use aaep::message::CancelledBy;
use aaep::recovery::RecoveredQuestion;
use aaep::{Confirmation, ConfirmationOutcome, Producer, Session};
use aaep_store::{Retention, Store, StoreError, UserJournal};
use serde_json::json;

use crate::{report, user};

/// How long to wait for the lock of the directory.
const LOCK_TIMEOUT: Duration = Duration::from_secs(60);

/// One process of several that use the same directory in turn.
pub(crate) struct ProducerRun<'a> {
    pub(crate) number: u64,
    /// The subscription to resume, or an empty string.
    pub(crate) subscription: &'a str,
    /// The last event that was received on that subscription.
    pub(crate) last_event: &'a str,
    /// Questions of earlier runs.
    pub(crate) origins: &'a [&'a str],
}

impl ProducerRun<'_> {
    pub(crate) async fn work(&self, directory: &Path) {
        let (store, restored) = match open(directory) {
            Ok(opened) => opened,
            Err(error) => return report(&format!("refused {error}")),
        };
        let producer = Producer::builder("survivor").journal(store, restored).build();
        let link = user::subscribe(&producer, self).await;
        let session = match producer.orphans().await.first() {
            Some(orphan) => producer.adopt(&orphan.session).await.expect("an orphan can be adopted").session,
            None => producer.session("Working.").await.unwrap(),
        };
        let mut earlier_pending = false;
        for origin in self.origins {
            earlier_pending |= find_question(&producer, origin).await;
        }
        report("ready");
        tokio::spawn(user::receive(link, self.number));
        self.emit(&producer, session, earlier_pending).await;
    }

    async fn emit(&self, producer: &Producer, mut session: Session, earlier_pending: bool) {
        let mut number = self.number * 1000;
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
            let confirmation = Confirmation::new(format!("Do {origin}"), "It is done.")
                .for_call("act", &json!({"what": origin}))
                .irreversible()
                .timeout_seconds(600)
                .origin(&origin);
            let question = session.ask_confirmation(confirmation).await.unwrap();
            if number.is_multiple_of(5) {
                // The user does not reply to this question in this run.
                pending.push(question);
                continue;
            }
            handle_outcome(&session, &origin, question.await.unwrap(), number).await;
            if number.is_multiple_of(16) && pending.is_empty() && !earlier_pending {
                // `cancel` also ends a tool call that an earlier run left open.
                session.cancel(CancelledBy::Producer, "Done.").await.unwrap();
                session = producer.session("Working on.").await.unwrap();
            }
        }
    }
}

/// Opens the store. Retries while it is in use: a process that another test is just starting may hold an inherited copy
/// of the lock for a moment.
fn open(directory: &Path) -> Result<(UserJournal, aaep::journal::RecoveredState), StoreError> {
    let deadline = Instant::now() + LOCK_TIMEOUT;
    loop {
        match Store::open_single(directory, Retention::default()) {
            Err(StoreError::InUse(_)) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(5)),
            other => return other,
        }
    }
}

/// Reports what is known of a question of an earlier run. Returns whether it is still pending; a task then waits for
/// its outcome.
async fn find_question(producer: &Producer, origin: &str) -> bool {
    let Some(found) = producer.find_question(origin).await else {
        report(&format!("found {origin} nothing"));
        return false;
    };
    match found.status {
        RecoveredQuestion::Decided(outcome) => {
            let usable = outcome.permit.is_some();
            report(&format!("found {origin} {} {} {usable}", outcome.decision.as_str(), outcome.resolution.as_str()));
            if usable {
                let adopted = producer.adopt(&found.session).await.expect("the session of a permit can be adopted");
                let session = adopted.session;
                call_tool(&session, origin, outcome).await;
                // Dropping this handle would end the session, which `emit` uses too.
                std::mem::forget(session);
            }
        }
        RecoveredQuestion::Confirmation(question) => {
            report(&format!("found {origin} pending"));
            let (producer, origin) = (producer.clone(), origin.to_owned());
            tokio::spawn(async move {
                let Ok(outcome) = question.await else { return };
                let Some(adopted) = producer.adopt(&found.session).await else { return };
                let session = adopted.session;
                handle_outcome(&session, &origin, outcome, 0).await;
                // Dropping this handle would end the session, which `emit` uses too.
                std::mem::forget(session);
            });
            return true;
        }
        other => panic!("{other:?}"),
    }
    false
}

/// Reports an outcome and calls the tool if it was accepted. `number` is that of the last progress event before the
/// question, or 0 if the question is of an earlier run.
async fn handle_outcome(session: &Session, origin: &str, outcome: ConfirmationOutcome, number: u64) {
    report(&format!("decided {origin} {} {} {number}", outcome.decision.as_str(), outcome.resolution.as_str()));
    if outcome.permit.is_some() {
        call_tool(session, origin, outcome).await;
    }
}

async fn call_tool(session: &Session, origin: &str, outcome: ConfirmationOutcome) {
    let call = session.irreversible("act", json!({"what": origin})).permit(outcome.permit.unwrap());
    let name = origin.to_owned();
    let ran = call.run(async move |_| {
        report(&format!("ran {name}"));
        Ok::<(), String>(())
    });
    ran.await.unwrap();
}
