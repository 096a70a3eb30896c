//! The driver's end of a journal: it collects what must be recorded and tracks what is committed.

use std::sync::Arc;

use aaep_proto::engine::{JournalAck, JournalEntry};
use aaep_proto::frame::Frame;
use aaep_proto::id::EventId;
use tokio::sync::oneshot;

use crate::journal::Journal;
use crate::worker::DriverInputs;

/// What the journal reported about entries that the engine waits for.
pub(crate) struct CommitResult {
    pub(crate) acks: Vec<JournalAck>,
    pub(crate) committed: bool,
}

/// Collects entries for the journal.
pub(crate) struct Recorder {
    pub(crate) journal: Arc<dyn Journal>,
    /// Entries of the last changes, not yet passed to the journal.
    entries: Vec<JournalEntry>,
    /// Who waits until these entries and all before them are committed.
    tickets: Vec<oneshot::Sender<bool>>,
    /// Where commits are reported.
    inputs: DriverInputs,
    /// The last event that was recorded as sent. Subscriptions that share an event get it one after the other, so this
    /// is enough to record it once.
    last_sent: Option<EventId>,
    /// Whether the last commit succeeded.
    healthy: bool,
}

impl Recorder {
    pub(crate) fn new(journal: Arc<dyn Journal>, inputs: DriverInputs) -> Recorder {
        Recorder { journal, entries: Vec::new(), tickets: Vec::new(), inputs, last_sent: None, healthy: true }
    }

    pub(crate) fn push(&mut self, entry: JournalEntry) {
        self.entries.push(entry);
    }

    /// Records that an event is sent to a subscription that may resume after it.
    pub(crate) fn push_sent(&mut self, frame: &Frame) {
        let id = &frame.event().envelope.event_id;
        if self.last_sent.as_ref() == Some(id) {
            return;
        }
        let end = frame.position().map(|position| position + frame.chunk().chars().count() as u64);
        self.last_sent = Some(id.clone());
        self.entries.push(JournalEntry::Sent(id.clone(), frame.output().cloned().zip(end)));
    }

    /// Whether one of the collected entries must be committed before the engine goes on.
    pub(crate) fn has_durable_entry(&self) -> bool {
        self.entries.iter().any(JournalEntry::is_durable)
    }

    /// Returns a channel that resolves when everything up to now is committed, or could not be.
    pub(crate) fn ticket(&mut self) -> oneshot::Receiver<bool> {
        let (ticket_tx, ticket) = oneshot::channel();
        self.tickets.push(ticket_tx);
        ticket
    }

    /// Passes the collected entries to the journal.
    pub(crate) fn flush(&mut self) {
        if self.entries.is_empty() && self.tickets.is_empty() {
            return;
        }
        let entries = std::mem::take(&mut self.entries);
        let tickets = std::mem::take(&mut self.tickets);
        let acks: Vec<JournalAck> = entries.iter().filter_map(JournalAck::of).collect();
        if acks.is_empty() && tickets.is_empty() && self.healthy {
            return self.journal.record(entries, None);
        }
        let inputs = self.inputs.clone();
        let callback = move |committed| {
            for ticket in tickets {
                // An error means that the caller stopped waiting.
                let _ = ticket.send(committed);
            }
            inputs.send_commit(CommitResult { acks, committed });
        };
        self.journal.record(entries, Some(Box::new(callback)));
    }

    /// Notes whether the last commit succeeded. Returns whether that differs from the commit before.
    pub(crate) fn set_healthy(&mut self, healthy: bool) -> bool {
        std::mem::replace(&mut self.healthy, healthy) != healthy
    }
}
