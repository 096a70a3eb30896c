//! What must survive a restart, on its way to whoever keeps it.

use std::sync::Arc;

use aaep_proto::engine::JournalAck;
use aaep_proto::frame::Frame;
use aaep_proto::id::{EventId, SubscriptionId};
use tokio::sync::{mpsc, oneshot};

pub use aaep_proto::engine::{JournalEntry, RecoveredState, ReplayItem};

/// Told once whether something is kept.
pub type CommitCallback = Box<dyn FnOnce(bool) + Send>;

/// Keeps what must survive a restart. `aaep-store` has one that keeps it in a directory.
///
/// ```
/// use aaep::journal::{CommitCallback, JournalEntry, Journal, MissedEvents};
/// use aaep::id::{EventId, SubscriptionId};
///
/// /// Keeps nothing and says so: every question is answered with no.
/// struct Nowhere;
///
/// impl Journal for Nowhere {
///     fn record(&self, _entries: Vec<JournalEntry>, done: Option<CommitCallback>) {
///         if let Some(done) = done {
///             done(false);
///         }
///     }
///     fn missed(&self, _subscription: &SubscriptionId, _last: Option<&EventId>) -> MissedEvents {
///         MissedEvents { past: Vec::new(), gap: true }
///     }
///     fn is_healthy(&self) -> bool {
///         false
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let producer = aaep::Producer::builder("gardener").journal(Nowhere, aaep::journal::RecoveredState::default()).build();
/// let session = producer.session("Planning your garden.").await?;
/// let outcome = session.confirm(aaep::Confirmation::new("Order seeds.", "They cost 12 dollars.")).await?;
/// assert_eq!(outcome.resolution, aaep::Resolution::NotRecorded);
/// # Ok(())
/// # }
/// ```
pub trait Journal: Send + Sync + 'static {
    /// Keeps these, in this order, all of them or none. Must not block. If somebody waits for it, tells them whether
    /// these and all before them are kept, so that no crash can take them back.
    fn record(&self, entries: Vec<JournalEntry>, done: Option<CommitCallback>);

    /// What a subscription that was there before the restart has missed since this event, up to the restart. May block.
    fn missed(&self, subscription: &SubscriptionId, last: Option<&EventId>) -> MissedEvents;

    /// Whether what was recorded last could be kept.
    fn is_healthy(&self) -> bool;

    /// Keeps the names of events, after everything that was recorded before. Must not block.
    fn record_seen(&self, _heard: Vec<SeenEvent>) {}

    /// The events of an agent from before the restart, the oldest first. May block.
    fn seen_events(&self, _agent: &str) -> Vec<SeenEvent> {
        Vec::new()
    }
}

/// What a subscription missed before a restart.
///
/// ```
/// assert!(!aaep::journal::MissedEvents::default().gap);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MissedEvents {
    /// What is known of it, in order.
    pub past: Vec<ReplayItem>,
    /// Whether there was more. Then this is only how sessions ended that have ended since.
    pub gap: bool,
}

/// An event that was emitted, as its agent named it.
///
/// ```
/// use aaep::journal::SeenEvent;
/// let heard = SeenEvent {
///     agent: "gardener".into(), event_id: "evt_1".into(), content: "digest".into(), session_id: "sess_1".into(),
/// };
/// assert_eq!(heard.event_id, "evt_1");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenEvent {
    /// Whose event it is: a name that outlasts a restart.
    pub agent: String,
    /// The agent's name for it.
    pub event_id: String,
    /// A digest of what it says.
    pub content: String,
    /// The session that it was emitted in.
    pub session_id: String,
}

/// What came back from the journal: who waited, and whether it is kept.
pub(crate) struct CommitResult {
    pub(crate) what: Vec<JournalAck>,
    pub(crate) works: bool,
}

/// The driver's end of a journal.
pub(crate) struct Recorder {
    pub(crate) journal: Arc<dyn Journal>,
    /// What the last change brought about.
    entries: Vec<JournalEntry>,
    /// Who waits for it.
    tickets: Vec<oneshot::Sender<bool>>,
    kept: mpsc::UnboundedSender<CommitResult>,
    /// The last event that was noted as sent: those who share it come one after the other.
    sent: Option<EventId>,
    /// Whether the last word from the journal was good.
    works: bool,
}

impl Recorder {
    pub(crate) fn new(journal: Arc<dyn Journal>, kept: mpsc::UnboundedSender<CommitResult>) -> Recorder {
        Recorder { journal, entries: Vec::new(), tickets: Vec::new(), kept, sent: None, works: true }
    }

    pub(crate) fn note(&mut self, entry: JournalEntry) {
        self.entries.push(entry);
    }

    /// An event goes to a subscription that may come back after it.
    pub(crate) fn sent(&mut self, frame: &Frame) {
        let id = &frame.event().envelope.event_id;
        if self.sent.as_ref() == Some(id) {
            return;
        }
        let reached = frame.position().map(|position| position + frame.chunk().chars().count() as u64);
        self.sent = Some(id.clone());
        self.entries.push(JournalEntry::Sent(id.clone(), frame.output().cloned().zip(reached)));
    }

    /// Whether somebody waits for what the last change brought about.
    pub(crate) fn is_durable(&self) -> bool {
        self.entries.iter().any(JournalEntry::is_durable)
    }

    /// Resolves when everything up to and including the last change is kept, or could not be.
    pub(crate) fn ticket(&mut self) -> oneshot::Receiver<bool> {
        let (ticket, kept) = oneshot::channel();
        self.tickets.push(ticket);
        kept
    }

    /// Hands on what the last change brought about.
    pub(crate) fn flush(&mut self) {
        if self.entries.is_empty() && self.tickets.is_empty() {
            return;
        }
        let entries = std::mem::take(&mut self.entries);
        let tickets = std::mem::take(&mut self.tickets);
        let what: Vec<JournalAck> = entries.iter().filter_map(JournalAck::of).collect();
        if what.is_empty() && tickets.is_empty() && self.works {
            return self.journal.record(entries, None);
        }
        let kept = self.kept.clone();
        let done = move |works| {
            for ticket in tickets {
                // Who does not wait any more need not know.
                let _ = ticket.send(works);
            }
            // Without the task there is nobody left to tell.
            let _ = kept.send(CommitResult { what, works });
        };
        self.journal.record(entries, Some(Box::new(done)));
    }

    /// Takes note of the journal's word; answers whether it differs from the last one.
    pub(crate) fn heard(&mut self, works: bool) -> bool {
        std::mem::replace(&mut self.works, works) != works
    }
}
