//! A journal of your own, in memory. The process "crashes" while a question is open; after the restart the agent finds
//! the question again and the user answers it.
//!
//! ```text
//! cargo run -p aaep --example custom_journal
//! ```

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};

use aaep::id::{EventId, ReplyToken, SubscriptionId};
use aaep::journal::{
    CommitCallback, Journal, JournalEntry, MissedEvents, RecoveredResolution, RecoveredState, SessionSnapshot,
};
use aaep::message::{Capabilities, Decision, Payload};
use aaep::recovery::RecoveredQuestion;
use aaep::transport::{Link, Outbound};
use aaep::{Confirmation, ConfirmationOutcome, Producer, Question, Session};
use serde_json::json;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// The name of the question, by which the agent finds it again.
const ORIGIN: &str = "order-seeds";

/// Keeps all entries in memory. A real journal writes them to a disk; `aaep-store` is one.
#[derive(Clone, Default)]
struct MemoryJournal {
    entries: Arc<Mutex<Vec<JournalEntry>>>,
}

impl Journal for MemoryJournal {
    fn record(&self, entries: Vec<JournalEntry>, done: Option<CommitCallback>) {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).extend(entries);
        // A real journal calls this after the entries are on disk, from a thread of its own.
        if let Some(done) = done {
            done(true);
        }
    }

    fn missed(&self, _subscription: &SubscriptionId, _last: Option<&EventId>) -> MissedEvents {
        // Resuming subscribers get a notice that they missed events, and the state of every session.
        MissedEvents { items: Vec::new(), gap: true }
    }

    fn is_healthy(&self) -> bool {
        true
    }
}

impl MemoryJournal {
    /// Rebuilds the state of the producer from the entries.
    fn recover(&self) -> RecoveredState {
        let mut sessions: BTreeMap<_, SessionSnapshot> = BTreeMap::new();
        let mut open = BTreeMap::new();
        let mut resolved: BTreeMap<ReplyToken, RecoveredResolution> = BTreeMap::new();
        let mut subscriptions = BTreeMap::new();
        let mut spent: Vec<ReplyToken> = Vec::new();
        for entry in self.entries.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned() {
            match entry {
                JournalEntry::Event(event) => {
                    let id = event.envelope.session_id.clone();
                    if event.core_type().is_some_and(|core_type| core_type.is_terminal()) {
                        sessions.remove(&id);
                    } else if let Some(session) = sessions.get_mut(&id) {
                        session.observe(&event);
                    } else if let Some(session) = SessionSnapshot::begin(&event) {
                        sessions.insert(id, session);
                    }
                }
                JournalEntry::Named(id, origin) => {
                    sessions.entry(id).and_modify(|session| session.origin = Some(origin));
                }
                JournalEntry::Opened(id, output, format) => {
                    sessions.entry(id).and_modify(|session| drop(session.outputs.insert(output, format)));
                }
                JournalEntry::Finished(id, output) => {
                    sessions.entry(id).and_modify(|session| drop(session.outputs.remove(&output)));
                }
                JournalEntry::Asked(asked) => {
                    let id = asked.event.envelope.session_id.clone();
                    sessions.entry(id).and_modify(|session| session.ask(&asked));
                    open.insert(asked.token.clone(), *asked);
                }
                JournalEntry::Decided(decided) => {
                    let token = decided.record.reply_token.clone();
                    spent.push(token.clone());
                    if let Some(asked) = open.remove(&token) {
                        resolved.insert(token, RecoveredResolution { asked, resolved: *decided, permit_used: false });
                    }
                }
                JournalEntry::Spent(token, call) => {
                    resolved.entry(token).and_modify(|resolution| resolution.permit_used = true);
                    let id = call.envelope.session_id.clone();
                    sessions.entry(id).and_modify(|session| session.observe(&call));
                }
                JournalEntry::Subscribed(subscription) => {
                    subscriptions.insert(subscription.id.clone(), *subscription);
                }
                JournalEntry::Unsubscribed(id) => drop(subscriptions.remove(&id)),
                // Only needed to find out what a subscriber missed.
                JournalEntry::Text(..) | JournalEntry::Held(..) | JournalEntry::Sent(..) => {}
            }
        }
        // Questions count only as long as their session is open.
        open.retain(|_, asked| sessions.contains_key(&asked.event.envelope.session_id));
        resolved.retain(|_, resolution| sessions.contains_key(&resolution.asked.event.envelope.session_id));
        RecoveredState {
            sessions: sessions.into_values().collect(),
            broken: Vec::new(),
            questions: open.into_values().collect(),
            resolved: resolved.into_values().collect(),
            spent,
            subscriptions: subscriptions.into_values().collect(),
        }
    }
}

/// Asks the question. Returns when it was delivered, which is after it was recorded.
async fn ask(journal: MemoryJournal) -> Result<(Session, Question<ConfirmationOutcome>)> {
    let producer = Producer::builder("gardener").journal(journal, RecoveredState::default()).build();
    let mut link = subscribe(&producer).await?;
    let session = producer.session("Planning your garden.").await?;
    let seeds = Confirmation::new("Order seeds.", "They cost 12 dollars.").origin(ORIGIN);
    let question = session.ask_confirmation(seeds).await?;
    wait_for_question(&mut link).await?;
    Ok((session, question))
}

/// Continues after the restart: finds the question and waits until the user has answered it.
async fn resume(journal: MemoryJournal) -> Result<ConfirmationOutcome> {
    let recovered = journal.recover();
    assert_eq!((recovered.sessions.len(), recovered.questions.len()), (1, 1));
    let producer = Producer::builder("gardener").journal(journal.clone(), recovered).build();

    let found = producer.find_question(ORIGIN).await.ok_or("the question is lost")?;
    let RecoveredQuestion::Confirmation(question) = found.status else { return Err("the question is not open".into()) };
    let session = producer.adopt(&found.session).await.ok_or("the session is lost")?.session;

    let mut link = subscribe(&producer).await?;
    let token = wait_for_question(&mut link).await?;
    assert_eq!(token, *question.token());
    link.decide(&token, Decision::Accept).await?;

    let outcome = question.await?;
    session.complete("The seeds are ordered.").await?;
    Ok(outcome)
}

async fn subscribe(producer: &Producer) -> Result<Link> {
    let capabilities: Capabilities = serde_json::from_value(json!({"supports_confirmation_reply": true}))?;
    Ok(producer.subscribe_local("console", capabilities).await?)
}

async fn wait_for_question(link: &mut Link) -> Result<ReplyToken> {
    loop {
        let outbound = link.recv().await.ok_or("the subscription was closed")?;
        if let Outbound::Event(frame) = outbound
            && let Payload::AwaitingConfirmation(asked) = &frame.event().payload
        {
            return Ok(asked.reply_token.clone());
        }
    }
}

/// Runs the example.
pub fn main() -> Result<()> {
    let journal = MemoryJournal::default();
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build();

    let before = runtime()?;
    let unfinished = before.block_on(ask(journal.clone()))?;
    // The crash: the producer's task is gone, so that nothing can be reported or recorded any more, not even that these
    // values are dropped.
    drop(before);
    drop(unfinished);

    let outcome = runtime()?.block_on(resume(journal.clone()))?;
    assert_eq!(outcome.decision, Decision::Accept);
    assert!(journal.recover().sessions.is_empty(), "the session has ended");
    println!("the question survived the restart: {:?}", outcome.resolution);
    Ok(())
}
