//! One session: its order, its state, its outputs and tool calls.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Map;

use super::cancellation::CancelState;
use super::groups::GroupId;
use super::journal::SessionSnapshot;
use super::output_state::OutputState;
use super::{Cx, EngineError};
use crate::frame::Frame;
use crate::id::{EventId, OutputId, ReplyToken, SessionId, ToolCallId};
use crate::language::LanguageTag;
use crate::message::{
    Context, CoreType, Envelope, Event, LocalizationHints, OutputStreaming, Payload, Producer, TextDirection, Urgency,
    state,
};
use crate::rule::Severity;
use crate::sequence::SequenceView;
use crate::sequence::session::{Scope, SessionOrder};
use crate::shaping::text::TextChunk;
use crate::time::{Moment, Timestamp};

/// How the engine judges its own sessions: it emits every event, and replies are resolved by itself.
const SCOPE: Scope = Scope { view: SequenceView::WHOLE, replies: true };

/// The state of one session.
pub(super) struct SessionState {
    id: SessionId,
    order: SessionOrder,
    producer: Producer,
    hints: LocalizationHints,
    started: Option<Event>,
    state: String,
    /// The time of the latest event.
    latest: Option<Timestamp>,
    outputs: BTreeMap<OutputId, OutputState>,
    calls: BTreeMap<ToolCallId, String>,
    cancel: CancelState,
}

impl SessionState {
    /// Makes a session that has emitted nothing yet.
    pub(super) fn new(id: SessionId, producer: Producer, hints: LocalizationHints) -> SessionState {
        SessionState {
            id,
            order: SessionOrder::new(true),
            producer,
            hints,
            started: None,
            state: state::IDLE.to_owned(),
            latest: None,
            outputs: BTreeMap::new(),
            calls: BTreeMap::new(),
            cancel: CancelState::default(),
        }
    }

    /// Rebuilds a session after a restart. Its outputs are gone.
    pub(super) fn recovered(snapshot: SessionSnapshot) -> SessionState {
        let SessionSnapshot { started, state, latest, calls, .. } = snapshot;
        let envelope = &started.envelope;
        SessionState {
            id: envelope.session_id.clone(),
            order: SessionOrder::resumed((envelope.timestamp.max(latest), &state), &calls),
            producer: envelope.producer.clone(),
            hints: envelope.localization_hints.clone().unwrap_or_default(),
            state,
            latest: Some(latest),
            outputs: BTreeMap::new(),
            calls,
            started: Some(started),
            // The agent connects again and states again what it handles.
            cancel: CancelState::default(),
        }
    }

    pub(super) fn id(&self) -> &SessionId {
        &self.id
    }

    /// Returns whether it can be cancelled by a user, and whether one asked for it.
    pub(super) fn cancel_state(&self) -> &CancelState {
        &self.cancel
    }

    pub(super) fn cancel_state_mut(&mut self) -> &mut CancelState {
        &mut self.cancel
    }

    pub(super) fn state(&self) -> &str {
        &self.state
    }

    pub(super) fn set_state(&mut self, state: &str) {
        state.clone_into(&mut self.state);
    }

    /// Returns the event that started the session, once it was emitted.
    pub(super) fn started(&self) -> Option<&Event> {
        self.started.as_ref()
    }

    /// Keeps the event that started the session, and its producer as it was cleaned for the events that follow.
    pub(super) fn set_started(&mut self, event: Event) {
        self.producer = event.envelope.producer.clone();
        self.started = Some(event);
    }

    pub(super) fn language(&self) -> Option<&LanguageTag> {
        self.hints.primary_language.as_ref()
    }

    /// Returns the tool calls that have not completed, with the names of their tools.
    pub(super) fn calls(&self) -> &BTreeMap<ToolCallId, String> {
        &self.calls
    }

    pub(super) fn add_call(&mut self, id: ToolCallId, tool: String) {
        self.calls.insert(id, tool);
    }

    pub(super) fn remove_call(&mut self, id: &ToolCallId) {
        self.calls.remove(id);
    }

    pub(super) fn output_count(&self) -> usize {
        self.outputs.len()
    }

    pub(super) fn output_ids(&self) -> Vec<OutputId> {
        self.outputs.keys().cloned().collect()
    }

    pub(super) fn outputs(&self) -> impl Iterator<Item = (&OutputId, &OutputState)> {
        self.outputs.iter()
    }

    pub(super) fn outputs_mut(&mut self) -> impl Iterator<Item = (&OutputId, &mut OutputState)> {
        self.outputs.iter_mut()
    }

    pub(super) fn output_mut(&mut self, id: &OutputId) -> Option<&mut OutputState> {
        self.outputs.get_mut(id)
    }

    pub(super) fn add_output(&mut self, id: OutputId, output: OutputState) {
        self.outputs.insert(id, output);
    }

    /// Takes an output out, so that events of the session can be made from it. [`SessionState::add_output`] puts it back.
    pub(super) fn take_output(&mut self, id: &OutputId) -> Option<OutputState> {
        self.outputs.remove(id)
    }

    /// Lets a new group of subscriptions begin at the end of every output.
    pub(super) fn add_group(&mut self, group: GroupId) {
        self.outputs.values_mut().for_each(|output| output.add_group(group));
    }

    pub(super) fn remove_group(&mut self, group: GroupId) {
        self.outputs.values_mut().for_each(|output| output.remove_group(group));
    }

    /// Makes an event of this session and advances the time of the session to it.
    pub(super) fn event(&mut self, cx: &mut Cx<'_>, payload: Payload) -> Event {
        let event = self.draft(cx, payload);
        self.latest = Some(event.envelope.timestamp);
        event
    }

    /// Makes an event of this session that may never be emitted.
    pub(super) fn draft(&self, cx: &mut Cx<'_>, payload: Payload) -> Event {
        let urgency = match payload.core_type() {
            Some(core) if core.must_be_critical() => Urgency::Critical,
            Some(CoreType::ProgressUpdated) => Urgency::Background,
            _ => Urgency::Normal,
        };
        let envelope = Envelope {
            context: Context::core(),
            aaep_version: None,
            event_id: EventId::random(cx.entropy),
            session_id: self.id.clone(),
            sequence_number: None,
            timestamp: self.timestamp(cx),
            producer: self.producer.clone(),
            verbosity: None,
            urgency: Some(urgency),
            localization_hints: Some(self.hints.clone()),
            correlation_id: None,
            extensions: None,
        };
        Event { envelope, payload, extra: Map::new() }
    }

    /// Makes the frame of a chunk of an output of this session.
    pub(super) fn text_frame(
        &mut self,
        cx: &mut Cx<'_>,
        id: &OutputId,
        output: &OutputState,
        chunk: &TextChunk,
    ) -> Arc<Frame> {
        let format = output.format();
        let streaming = OutputStreaming {
            chunk: chunk.text.clone(),
            position: chunk.position,
            complete: chunk.complete,
            coalesce_hint: Some(chunk.hint.clone()),
            output_id: Some(id.clone()),
            content_type: Some(format.content_type.clone()),
            language: format.language.clone(),
        };
        let mut event = self.event(cx, streaming.into());
        output.meta().clone().apply_to(&mut event);
        if let (Some(language), Some(hints)) = (&format.language, &mut event.envelope.localization_hints) {
            // The direction is that of the chunk; the other hints describe the session.
            let right_to_left = language.is_right_to_left();
            if right_to_left != (hints.text_direction == Some(TextDirection::Rtl)) {
                hints.text_direction = right_to_left.then_some(TextDirection::Rtl);
            }
        }
        Arc::new(Frame::new(event).with_cut(chunk.level))
    }

    /// Makes the event of a question again, with the time that is left, for subscriptions that did not get it.
    pub(super) fn repeat_question(&mut self, cx: &mut Cx<'_>, asked: &Event, deadline: Moment) -> Event {
        let left_secs = deadline.since(cx.now.moment) / 1_000_000;
        let left_secs = u32::try_from(left_secs.max(1)).unwrap_or(u32::MAX);
        let mut event = asked.clone();
        event.envelope.event_id = EventId::random(cx.entropy);
        event.envelope.timestamp = self.timestamp(cx);
        self.latest = Some(event.envelope.timestamp);
        event.payload.set_question_timeout(left_secs);
        event
    }

    /// Returns the time of an event now. It does not go back in a session, even if the wall clock does.
    fn timestamp(&self, cx: &Cx<'_>) -> Timestamp {
        self.latest.map_or(cx.now.wall, |latest| latest.max(cx.now.wall))
    }

    /// Returns the later of this time and that of the latest event.
    pub(super) fn not_before(&self, at: Timestamp) -> Timestamp {
        self.latest.map_or(at, |latest| latest.max(at))
    }

    /// Checks whether an event may come next.
    pub(super) fn check_order(&self, event: &Event) -> Result<(), EngineError> {
        let mut problems = Vec::new();
        self.order.check(event, SCOPE, &mut problems);
        problems.retain(|p| p.severity == Severity::Error);
        if problems.is_empty() { Ok(()) } else { Err(EngineError::OutOfOrder(problems)) }
    }

    /// Takes an event into the order of the session, or returns why it may not come next.
    pub(super) fn commit(&mut self, event: &Event) -> Result<(), EngineError> {
        self.check_order(event)?;
        self.order.commit(event, SCOPE);
        self.latest = Some(self.not_before(event.envelope.timestamp));
        Ok(())
    }

    /// Takes an event into the order without checking it: it was checked before the restart.
    pub(super) fn commit_recovered(&mut self, event: &Event) {
        self.order.commit(event, SCOPE);
    }

    /// Takes the resolution of a question into the order.
    pub(super) fn resolve_question(&mut self, token: &ReplyToken, accepted: bool) {
        self.order.questions.settle(token, accepted);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Entropy;
    use crate::message::{SessionStarted, StateChanged};
    use crate::time::Now;

    struct Counter(u8);

    impl Entropy for Counter {
        fn fill(&mut self, bytes: &mut [u8]) {
            self.0 += 1;
            bytes.fill(self.0);
        }
    }

    fn session() -> SessionState {
        SessionState::new("sess_1".parse().unwrap(), Producer::new("tester"), LocalizationHints::default())
    }

    fn at(entropy: &mut Counter, millis: i64) -> Cx<'_> {
        Cx { now: Now { moment: Moment::default(), wall: Timestamp::from_millis(millis) }, entropy }
    }

    #[test]
    fn the_time_of_a_session_does_not_go_back() {
        let (mut session, mut entropy) = (session(), Counter(0));
        let started = || Payload::from(SessionStarted::default());
        let first = session.event(&mut at(&mut entropy, 9), started()).envelope.timestamp;
        let second = session.event(&mut at(&mut entropy, 3), started()).envelope.timestamp;
        assert_eq!((first, second), (Timestamp::from_millis(9), Timestamp::from_millis(9)));
    }

    #[test]
    fn an_event_out_of_order_changes_nothing() {
        let (mut session, mut entropy) = (session(), Counter(0));
        let start = session.draft(&mut at(&mut entropy, 1), SessionStarted::default().into());
        session.commit(&start).unwrap();
        let skip = session.draft(&mut at(&mut entropy, 5), StateChanged::new("writing_output", "thinking").into());
        assert!(matches!(session.commit(&skip), Err(EngineError::OutOfOrder(_))));
        let next = session.draft(&mut at(&mut entropy, 2), StateChanged::new("idle", "thinking").into());
        assert_eq!(next.envelope.timestamp, Timestamp::from_millis(2));
        session.commit(&next).unwrap();
    }
}
