//! One subscription: its terms, its outbox and whether it is connected.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::SubscriptionRecord;
use super::groups::GroupId;
use super::questions::QuestionKind;
use crate::frame::FrameMeter;
use crate::id::{OutputId, SubscriptionId};
use crate::negotiate::Terms;
use crate::shaping::outbox::{Outbox, OutboxTerms};
use crate::shaping::text::{BoundarySet, TextChunk};
use crate::time::Moment;

/// Names a subscription inside the engine: a slot, and how often the slot was used before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SubscriptionKey {
    index: u32,
    generation: u32,
}

impl SubscriptionKey {
    pub(super) fn new(index: u32, generation: u32) -> SubscriptionKey {
        SubscriptionKey { index, generation }
    }

    pub(super) fn index(self) -> usize {
        self.index as usize
    }

    pub(super) fn generation(self) -> u32 {
        self.generation
    }
}

/// What becomes of a subscription when its connection ends (decision 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResumePolicy {
    /// It ends with the connection: WebSocket, socket, gRPC, stdio.
    Connection,
    /// It may be resumed: an SSE stream.
    Resumable,
}

/// Whether a subscription is connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Presence {
    Connected,
    /// Disconnected, and expected to resume soon.
    Away,
    /// Away for longer than the resume window: it does not count as able to answer questions.
    Expired,
}

/// The part of a chunk that a subscription does not have yet.
#[derive(Debug, PartialEq)]
pub(super) enum NewText {
    /// All of it.
    All,
    /// Only this rest of it.
    Rest(TextChunk),
    /// Nothing of it.
    Nothing,
}

/// How a new subscription is set up.
pub(super) struct NewSubscription {
    pub(super) id: SubscriptionId,
    /// Whom it belongs to, as the transport proved it.
    pub(super) principal: Arc<str>,
    pub(super) terms: Terms,
    pub(super) policy: ResumePolicy,
}

/// The state of one subscription.
#[derive(Debug)]
pub(super) struct Subscription {
    id: SubscriptionId,
    principal: Arc<str>,
    terms: Box<Terms>,
    group: GroupId,
    outbox: Outbox,
    policy: ResumePolicy,
    presence: Presence,
    /// Whether the journal says that something waits for it.
    recorded_waiting: bool,
    /// Bytes of waiting text that the meter counts.
    metered_text: usize,
    /// Events that were put into its outbox.
    accepted: u64,
    /// Events that its outbox released.
    delivered: u64,
    /// How many characters it has of outputs of which it has more than its group.
    known_chars: BTreeMap<OutputId, u64>,
}

impl Subscription {
    pub(super) fn new(new: NewSubscription, group: GroupId, now: Moment) -> Subscription {
        Subscription {
            id: new.id,
            principal: new.principal,
            outbox: Outbox::new(OutboxTerms::of(&new.terms), now),
            terms: Box::new(new.terms),
            group,
            policy: new.policy,
            presence: Presence::Connected,
            recorded_waiting: false,
            metered_text: 0,
            accepted: 0,
            delivered: 0,
            known_chars: BTreeMap::new(),
        }
    }

    pub(super) fn id(&self) -> &SubscriptionId {
        &self.id
    }

    pub(super) fn principal(&self) -> &str {
        &self.principal
    }

    pub(super) fn terms(&self) -> &Terms {
        &self.terms
    }

    /// Replaces the terms. The group is changed apart from them.
    pub(super) fn set_terms(&mut self, terms: Terms, now: Moment) {
        self.outbox.set_terms(OutboxTerms::of(&terms), now);
        *self.terms = terms;
    }

    pub(super) fn group(&self) -> GroupId {
        self.group
    }

    pub(super) fn set_group(&mut self, group: GroupId) {
        self.group = group;
    }

    pub(super) fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    pub(super) fn outbox_mut(&mut self) -> &mut Outbox {
        &mut self.outbox
    }

    /// Counts an event that was put into its outbox, and those that the outbox released.
    pub(super) fn count(&mut self, accepted: u64, delivered: u64) {
        self.accepted += accepted;
        self.delivered += delivered;
    }

    /// Returns how many events were put into its outbox, and how many the outbox released.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.accepted, self.delivered)
    }

    pub(super) fn is_resumable(&self) -> bool {
        self.policy == ResumePolicy::Resumable
    }

    /// Returns what the journal keeps of it.
    pub(super) fn to_record(&self) -> SubscriptionRecord {
        let requested = self.terms.requested().clone();
        SubscriptionRecord { id: self.id.clone(), principal: self.principal.to_string(), requested }
    }

    /// Where its text may be cut.
    pub(super) fn boundaries(&self) -> BoundarySet {
        BoundarySet::of(&self.terms)
    }

    /// Whether it could answer a question of this kind now.
    pub(super) fn can_answer(&self, kind: QuestionKind) -> bool {
        let capable = match kind {
            QuestionKind::Confirmation => self.terms.can_confirm(),
            QuestionKind::Clarification => self.terms.can_clarify(),
        };
        capable && !self.is_expired()
    }

    pub(super) fn is_connected(&self) -> bool {
        self.presence == Presence::Connected
    }

    /// Whether it has been away for longer than the resume window.
    pub(super) fn is_expired(&self) -> bool {
        self.presence == Presence::Expired
    }

    /// Marks it as away and lets nothing out. Returns `false` if it is away already.
    pub(super) fn set_away(&mut self) -> bool {
        if !self.is_connected() {
            return false;
        }
        self.presence = Presence::Away;
        self.outbox.set_blocked(true);
        true
    }

    pub(super) fn set_expired(&mut self) {
        self.presence = Presence::Expired;
    }

    pub(super) fn set_connected(&mut self) {
        self.presence = Presence::Connected;
        self.outbox.set_blocked(false);
    }

    /// Lets nothing out while its connection accepts nothing.
    pub(super) fn set_blocked(&mut self, blocked: bool) {
        self.outbox.set_blocked(blocked || !self.is_connected());
    }

    /// Updates the meter to the bytes of text that wait.
    pub(super) fn meter_text(&mut self, meter: &FrameMeter) {
        let bytes = self.outbox.queued_text_bytes();
        meter.resize(self.metered_text, bytes);
        self.metered_text = bytes;
    }

    /// Takes its waiting text off the meter, as it ends.
    pub(super) fn release_metered(&mut self, meter: &FrameMeter) {
        meter.resize(std::mem::take(&mut self.metered_text), 0);
    }

    /// Returns whether events wait, or `None` if the journal needs no entry: nothing changed, or it cannot be resumed after a
    /// restart.
    pub(super) fn waiting_to_record(&mut self) -> Option<bool> {
        let waiting = self.outbox.waiting() > 0;
        if waiting == self.recorded_waiting || !self.is_resumable() {
            return None;
        }
        self.recorded_waiting = waiting;
        Some(waiting)
    }

    /// Returns the part of a chunk for its group that it does not have yet.
    pub(super) fn new_text(&mut self, output: &OutputId, chunk: &TextChunk) -> NewText {
        let Some(known) = self.known_chars.get(output).copied() else { return NewText::All };
        if end_of(chunk) >= known || chunk.complete {
            self.known_chars.remove(output);
        }
        if known <= chunk.position {
            return NewText::All;
        }
        rest_after(chunk, known).map_or(NewText::Nothing, NewText::Rest)
    }

    pub(super) fn set_known_chars(&mut self, output: OutputId, chars: u64) {
        self.known_chars.insert(output, chars);
    }

    /// Forgets how much it has of an output, and returns it.
    pub(super) fn take_known_chars(&mut self, output: &OutputId) -> Option<u64> {
        self.known_chars.remove(output)
    }
}

fn end_of(chunk: &TextChunk) -> u64 {
    chunk.position + chunk.text.chars().count() as u64
}

/// Returns the part of a chunk that comes after this many characters of its output. Returns `None` if there is none.
fn rest_after(chunk: &TextChunk, known: u64) -> Option<TextChunk> {
    let end = end_of(chunk);
    if known >= end && !chunk.complete {
        return None;
    }
    let skip = known.saturating_sub(chunk.position) as usize;
    Some(TextChunk {
        text: chunk.text.chars().skip(skip).collect(),
        position: known.max(chunk.position).min(end),
        ..chunk.clone()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Boundary;
    use crate::shaping::segment::BoundaryLevel;

    #[test]
    fn the_rest_of_a_chunk_begins_after_what_is_known() {
        let chunk = |complete| TextChunk {
            text: "häuser".to_owned(),
            position: 10,
            hint: Boundary::None,
            level: BoundaryLevel::Word,
            complete,
        };
        let rest = |known, complete| rest_after(&chunk(complete), known).map(|rest| (rest.position, rest.text));
        assert_eq!(rest(12, false), Some((12, "user".to_owned())));
        assert_eq!(rest(5, false), Some((10, "häuser".to_owned())));
        assert_eq!(rest(16, false), None);
        assert_eq!(rest(16, true), Some((16, String::new())));
    }
}
