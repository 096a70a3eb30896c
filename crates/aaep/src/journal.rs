//! For storage: recording what must survive a restart.
//!
//! A producer with a [`Journal`] records every decision before it acts on it. After a restart, its storage rebuilds a
//! [`RecoveredState`] and passes it to [`Builder::journal`](crate::Builder::journal); agents continue their sessions and
//! questions through [`recovery`](crate::recovery). `examples/custom_journal.rs` is a complete journal; the crate
//! `aaep-store` has one in SQLite.

use aaep_proto::id::{EventId, SubscriptionId};

pub use aaep_proto::engine::{
    AskedCall, AskedQuestion, JournalEntry, RecoveredResolution, RecoveredState, ReplayItem, ResolvedQuestion,
    SessionSnapshot, SubscriptionRecord,
};

/// Called once with whether entries were committed.
pub type CommitCallback = Box<dyn FnOnce(bool) + Send>;

/// Records what must survive a restart.
///
/// ```
/// use aaep::id::{EventId, SubscriptionId};
/// use aaep::journal::{CommitCallback, Journal, JournalEntry, MissedEvents, RecoveredState};
/// use aaep::{Confirmation, Producer, Resolution};
///
/// /// Fails to record anything, so every question is rejected.
/// struct Failing;
///
/// impl Journal for Failing {
///     fn record(&self, _entries: Vec<JournalEntry>, done: Option<CommitCallback>) {
///         if let Some(done) = done {
///             done(false);
///         }
///     }
///     fn missed(&self, _subscription: &SubscriptionId, _last: Option<&EventId>) -> MissedEvents {
///         MissedEvents { items: Vec::new(), gap: true }
///     }
///     fn is_healthy(&self) -> bool {
///         false
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let producer = Producer::builder("gardener").journal(Failing, RecoveredState::default()).build();
/// let session = producer.session("Planning your garden.").await?;
/// let outcome = session.confirm(Confirmation::new("Order seeds.", "They cost 12 dollars.")).await?;
/// assert_eq!(outcome.resolution, Resolution::NotRecorded);
/// # Ok(())
/// # }
/// ```
pub trait Journal: Send + Sync + 'static {
    /// Records entries in this order, all of them or none. Must not block. If there is a callback, calls it when these
    /// entries and all before them are committed, so that no crash can lose them, or when that has failed.
    fn record(&self, entries: Vec<JournalEntry>, done: Option<CommitCallback>);

    /// Returns the events that a subscription from before the restart missed: those after `last`, up to the restart. May
    /// block.
    fn missed(&self, subscription: &SubscriptionId, last: Option<&EventId>) -> MissedEvents;

    /// Whether the last entries could be recorded.
    fn is_healthy(&self) -> bool;

    /// Records ids that agents gave to their events, after everything that was recorded before. Must not block.
    fn record_seen(&self, _events: Vec<SeenEvent>) {}

    /// Returns the recorded events of an agent from before the restart, the oldest first. May block.
    fn seen_events(&self, _agent: &str) -> Vec<SeenEvent> {
        Vec::new()
    }
}

/// The events that a subscription missed before a restart.
///
/// ```
/// use aaep::journal::MissedEvents;
/// let nothing_known = MissedEvents { items: Vec::new(), gap: true };
/// assert_ne!(nothing_known, MissedEvents::default(), "by default nothing was missed");
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MissedEvents {
    /// The known ones, in order.
    pub items: Vec<ReplayItem>,
    /// Whether there were more. Then `items` has only the ends of the sessions that ended since.
    pub gap: bool,
}

/// An event that was emitted, with the id that its agent gave it. It prevents that an event which an agent sends again
/// after a restart is emitted twice.
///
/// ```
/// use aaep::journal::SeenEvent;
/// let seen = SeenEvent {
///     agent: "gardener".into(), event_id: "evt_1".into(), content: "digest".into(), session_id: "sess_1".into(),
/// };
/// assert_eq!(seen.event_id, "evt_1");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenEvent {
    /// The agent, by a name that stays the same after a restart.
    pub agent: String,
    /// The id that the agent gave the event.
    pub event_id: String,
    /// A digest of the event's content.
    pub content: String,
    /// The session that the event was emitted in.
    pub session_id: String,
}
