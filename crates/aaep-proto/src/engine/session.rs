//! One session, seen from inside the engine: its order, its state, its outputs.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Map;

use super::delivery::GroupId;
use super::{Cx, EngineError, OutputFormat};
use crate::frame::Frame;
use crate::id::{EventId, OutputId, ReplyToken, SessionId, ToolCallId};
use crate::message::{
    Context, CoreType, Envelope, Event, EventMeta, LocalizationHints, OutputStreaming, Payload, Producer,
    TextDirection, Urgency,
};
use crate::rule::Severity;
use crate::sequence::SequenceView;
use crate::sequence::session::{Scope, SessionOrder as Order};
use crate::shaping::segment::Pause;
use crate::shaping::text::{Cursor, OutputText, TextChunk};
use crate::time::{Moment, Timestamp};
use crate::validate::Redactor;

/// What a session is, seen from inside the engine.
pub(super) struct SessionState {
    pub(super) id: SessionId,
    pub(super) order: Order,
    pub(super) producer: Producer,
    pub(super) hints: LocalizationHints,
    pub(super) started: Option<Event>,
    pub(super) state: String,
    pub(super) latest: Option<Timestamp>,
    pub(super) outputs: BTreeMap<OutputId, OutputState>,
    pub(super) calls: BTreeMap<ToolCallId, String>,
}

/// One output of a session.
#[derive(Debug)]
pub(super) struct OutputState {
    pub(super) text: OutputText,
    /// What the text goes through before it is recorded or cut.
    pub(super) redactor: Redactor,
    /// When what the redactor holds back is released.
    pub(super) held_until: Option<Moment>,
    pub(super) cursors: BTreeMap<GroupId, Cursor>,
    pub(super) kind: OutputFormat,
    pub(super) meta: EventMeta,
    /// Characters written so far, for those who join in the middle.
    pub(super) end: Cursor,
    /// The same, counting what nobody can have yet.
    pub(super) written: u64,
    /// When text was written last.
    pub(super) written_at: Moment,
    /// When the pause after it is looked at.
    pub(super) pause_at: Option<Moment>,
}

impl OutputState {
    pub(super) fn new(text: OutputText, kind: OutputFormat, meta: EventMeta) -> OutputState {
        let (cursors, end) = (BTreeMap::new(), Cursor::default());
        OutputState {
            text,
            redactor: Redactor::default(),
            held_until: None,
            cursors,
            kind,
            meta,
            end,
            written: 0,
            written_at: Moment::default(),
            pause_at: None,
        }
    }

    /// Takes a first part of more text and answers the rest. What is certainly complete at the end of the text need
    /// not wait for more.
    pub(super) fn write_part<'t>(&mut self, text: &'t str) -> &'t str {
        let rest = self.text.write_step(text);
        self.end = self.text.advance_end(self.end);
        if rest.is_empty() {
            self.settle(Pause::None);
        }
        rest
    }

    /// Lets pieces end at what is complete if nothing was written for this long.
    pub(super) fn settle(&mut self, pause: Pause) {
        self.text.settle(pause);
        self.end = self.text.advance_end(self.end);
    }

    pub(super) fn cursor(&self, shape: GroupId) -> Cursor {
        self.cursors.get(&shape).copied().unwrap_or_default()
    }

    pub(super) fn set_cursor(&mut self, shape: GroupId, cursor: Cursor) {
        self.cursors.insert(shape, cursor);
    }
}

impl SessionState {
    pub(super) fn take_output(&mut self, id: &OutputId) -> Option<OutputState> {
        self.outputs.remove(id)
    }

    /// Puts an output back, unless it is complete: then nothing of it is left to say.
    pub(super) fn put_output(&mut self, id: OutputId, output: OutputState) {
        if !output.text.is_finished() {
            self.outputs.insert(id, output);
        }
    }

    /// A shape that is new joins every output where it stands.
    pub(super) fn welcome(&mut self, shape: GroupId) {
        for output in self.outputs.values_mut() {
            let end = output.text.cursor_at_end(output.end.chars());
            output.cursors.insert(shape, end);
        }
    }

    pub(super) fn farewell(&mut self, shape: GroupId) {
        for output in self.outputs.values_mut() {
            output.cursors.remove(&shape);
        }
    }

    fn text_event(&mut self, cx: &mut Cx<'_>, id: &OutputId, output: &OutputState, piece: &TextChunk) -> Event {
        let chunk = OutputStreaming {
            chunk: piece.text.clone(),
            position: piece.position,
            complete: piece.complete,
            coalesce_hint: Some(piece.hint.clone()),
            output_id: Some(id.clone()),
            content_type: Some(output.kind.content_type.clone()),
            language: output.kind.language.clone(),
        };
        let mut event = self.event(cx, chunk.into());
        output.meta.clone().say(&mut event);
        if let (Some(language), Some(hints)) = (&output.kind.language, &mut event.envelope.localization_hints) {
            // The direction is that of the chunk; the other hints describe the session.
            let right_to_left = language.is_right_to_left();
            if right_to_left != (hints.text_direction == Some(TextDirection::Rtl)) {
                hints.text_direction = right_to_left.then_some(TextDirection::Rtl);
            }
        }
        event
    }

    pub(super) fn text_frame(
        &mut self,
        cx: &mut Cx<'_>,
        id: &OutputId,
        output: &OutputState,
        piece: &TextChunk,
    ) -> Arc<Frame> {
        Arc::new(Frame::new(self.text_event(cx, id, output, piece)).with_cut(piece.level))
    }

    /// An event of this session, now.
    pub(super) fn event(&mut self, cx: &mut Cx<'_>, payload: Payload) -> Event {
        let timestamp = self.timestamp(cx);
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
            timestamp,
            producer: self.producer.clone(),
            verbosity: None,
            urgency: Some(urgency),
            localization_hints: Some(self.hints.clone()),
            correlation_id: None,
            extensions: None,
        };
        Event { envelope, payload, extra: Map::new() }
    }

    /// A question put again to who was not there when it was asked: now, with the time that is left.
    pub(super) fn ask_again(&mut self, cx: &mut Cx<'_>, asked: &Event, deadline: Moment) -> Event {
        let seconds = deadline.since(cx.now.moment) / 1_000_000;
        let left = u32::try_from(seconds.max(1)).unwrap_or(u32::MAX);
        let mut event = asked.clone();
        event.envelope.event_id = EventId::random(cx.entropy);
        event.envelope.timestamp = self.timestamp(cx);
        match &mut event.payload {
            Payload::AwaitingConfirmation(question) => question.timeout_seconds = left,
            Payload::AwaitingClarification(question) => question.timeout_seconds = left,
            _ => {}
        }
        event
    }

    /// The time of an event now. It does not go back in a session, even if the clock does.
    fn timestamp(&mut self, cx: &Cx<'_>) -> Timestamp {
        let timestamp = self.latest.map_or(cx.now.wall, |latest| latest.max(cx.now.wall));
        self.latest = Some(timestamp);
        timestamp
    }

    /// The latest time of the session, or this if it is later.
    pub(super) fn not_before(&self, at: Timestamp) -> Timestamp {
        self.latest.map_or(at, |latest| latest.max(at))
    }

    /// The order of the session after this event, or why the event breaks it.
    pub(super) fn order_after(&self, event: &Event) -> Result<Order, EngineError> {
        let mut order = self.order.clone();
        let mut problems = Vec::new();
        order.observe(event, Scope { view: SequenceView::WHOLE, replies: true }, &mut problems);
        problems.retain(|p| p.severity == Severity::Error);
        if problems.is_empty() { Ok(order) } else { Err(EngineError::OutOfOrder(problems)) }
    }

    /// Takes an event into the order of the session.
    pub(super) fn take_in(&mut self, event: &Event) -> Result<(), EngineError> {
        self.order = self.order_after(event)?;
        self.latest = Some(self.not_before(event.envelope.timestamp));
        Ok(())
    }

    pub(super) fn settle(&mut self, token: &ReplyToken, accepted: bool) {
        self.order.questions.settle(token, accepted);
    }
}
