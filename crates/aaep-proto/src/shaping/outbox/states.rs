//! State changes in an outbox. One that is dropped or folded must not break the chain: the next one starts from the last state
//! that was sent.

use std::sync::Arc;

use super::{FoldKey, FoldKind, Outbox, OutgoingFrame, QueuedContent, ReleasedFrame};
use crate::frame::Frame;
use crate::id::SessionId;
use crate::message::Payload;

impl Outbox {
    /// Records a state change that is not sent: the next one then starts from the state before it.
    pub(crate) fn skip_state(&mut self, frame: &Frame) {
        let waiting = self.first_waiting_from_state(frame.session());
        if let Some(from) = waiting.or_else(|| frame.from_state()).map(str::to_owned) {
            self.last_sent_state.entry(frame.session().clone()).or_insert(from);
        }
    }

    /// Returns the state from which the first waiting state change of a session starts: the last state that was sent.
    fn first_waiting_from_state(&self, session: &SessionId) -> Option<&str> {
        self.queued.values().find_map(|held| match &held.content {
            QueuedContent::State(frame, from) if frame.session() == session => Some(from.as_str()),
            _ => None,
        })
    }

    pub(super) fn release_state(&mut self, frame: Arc<Frame>, from: String, out: &mut impl FnMut(ReleasedFrame)) {
        let from = match (self.last_sent_state.get_mut(frame.session()), frame.to_state()) {
            (Some(last_sent_state), Some(to)) => std::mem::replace(last_sent_state, to.to_owned()),
            _ => from,
        };
        let same = frame.from_state() == Some(from.as_str());
        self.send(if same { OutgoingFrame::Frame(frame) } else { OutgoingFrame::State(frame, from) }, out);
    }

    /// Returns whether coalesced state changes have become one that ends in the known state and has no text.
    pub(super) fn is_redundant(&self, content: &QueuedContent) -> bool {
        let QueuedContent::State(frame, from) = content else { return false };
        let Payload::StateChanged(change) = &frame.event().payload else { return false };
        let believed = self.last_sent_state.get(frame.session()).unwrap_or(from);
        change.from_state != *from
            && change.summary_normal.is_none()
            && frame.event().envelope.extensions.is_none()
            && change.to_state == *believed
    }

    /// Drops a waiting state change, since a newer one follows that is not folded with it.
    pub(super) fn drop_waiting_state(&mut self, session: &SessionId) {
        let key = FoldKey { session: session.clone(), kind: FoldKind::State };
        if let Some(place) = self.places.get(&key).copied() {
            self.drop_unsent(place);
        }
    }

    /// Drops a waiting event. After a state change that is dropped, the next one starts from the last state that was sent.
    pub(super) fn drop_unsent(&mut self, place: u64) {
        let Some(QueuedContent::State(frame, _)) = self.queued.get(&place).map(|held| &held.content) else {
            self.remove(place);
            return;
        };
        let session = frame.session().clone();
        if let Some(from) = self.first_waiting_from_state(&session).map(str::to_owned) {
            self.last_sent_state.entry(session).or_insert(from);
        }
        self.remove(place);
    }
}
