//! What a subscription that resumes after a restart missed before it.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Map;

use super::subscription::SubscriptionKey;
use super::{Cx, Engine, OutputFormat, state_summary_event};
use crate::frame::Frame;
use crate::id::{EventId, OutputId, SessionId};
use crate::limits;
use crate::message::{Boundary, Context, Envelope, Event, OutputStreaming, Payload, Urgency};
use crate::time::Timestamp;

/// An event or text from before the restart, for a subscription that resumes. Made from journal entries.
#[derive(Clone, Debug, PartialEq)]
pub enum ReplayItem {
    /// An event.
    Event(Box<Event>),
    /// The rest of an output, to its end.
    Output {
        /// The session of the output.
        session: SessionId,
        /// The output.
        output: OutputId,
        /// The format of the output.
        format: OutputFormat,
        /// How many characters come before the text.
        position: u64,
        /// The text.
        text: String,
    },
}

impl Engine {
    /// Makes the frames of what was emitted before the restart, as a subscription gets them. Open questions are left out:
    /// they are delivered again anyway, with the time that is left.
    pub fn replay_frames(&mut self, cx: &mut Cx<'_>, key: SubscriptionKey, missed: Vec<ReplayItem>) -> Vec<Arc<Frame>> {
        let envelopes = first_envelopes(&missed);
        let mut latest: BTreeMap<SessionId, Timestamp> = BTreeMap::new();
        let mut frames = Vec::new();
        for item in missed {
            match item {
                ReplayItem::Event(event) => {
                    let envelope = &event.envelope;
                    latest.insert(envelope.session_id.clone(), envelope.timestamp);
                    if !self.asks_open_question(&event) {
                        frames.extend(self.frame_for(key, &event));
                    }
                }
                ReplayItem::Output { session, output, format, position, text } => {
                    let started = self.sessions.get(&session).ok().and_then(|s| s.started());
                    let envelope = started.map(|event| &event.envelope).or_else(|| envelopes.get(&session));
                    let Some(mut envelope) = envelope.cloned() else { continue };
                    envelope.timestamp = latest.get(&session).copied().unwrap_or(envelope.timestamp);
                    for event in text_events(cx, envelope, &output, &format, position, &text) {
                        frames.extend(self.frame_for(key, &event));
                    }
                }
            }
        }
        frames
    }

    /// Makes the frames that summarize the states of all sessions at the restart, for a subscription that missed events
    /// before it: the events after the restart continue from there.
    pub fn states_at_restart(&mut self, cx: &mut Cx<'_>, key: SubscriptionKey) -> Vec<Arc<Frame>> {
        let mut frames = Vec::new();
        for at_restart in self.recovery.states() {
            let summary = state_summary_event(at_restart.envelope.clone(), &at_restart.state, cx.entropy);
            frames.extend(self.frame_for(key, &summary));
        }
        frames
    }

    fn asks_open_question(&self, event: &Event) -> bool {
        match &event.payload {
            Payload::AwaitingConfirmation(asked) => self.questions.contains(&asked.reply_token),
            Payload::AwaitingClarification(asked) => self.questions.contains(&asked.reply_token),
            _ => false,
        }
    }
}

/// Returns for each session the envelope of its first event, to make events of its text.
fn first_envelopes(missed: &[ReplayItem]) -> BTreeMap<SessionId, Envelope> {
    let mut envelopes = BTreeMap::new();
    for item in missed {
        if let ReplayItem::Event(event) = item {
            let envelope = &event.envelope;
            envelopes.entry(envelope.session_id.clone()).or_insert_with(|| envelope.clone());
        }
    }
    envelopes
}

/// Makes the events of the rest of an output, as few as its length allows.
fn text_events(
    cx: &mut Cx<'_>,
    mut envelope: Envelope,
    output: &OutputId,
    format: &OutputFormat,
    mut position: u64,
    text: &str,
) -> Vec<Event> {
    envelope.urgency = Some(Urgency::Normal);
    envelope.extensions = None;
    envelope.context = Context::core();
    let chars: Vec<char> = text.chars().collect();
    let count = chars.len().div_ceil(limits::CHUNK_CHARS).max(1);
    let mut pieces = chars.chunks(limits::CHUNK_CHARS);
    (1..=count)
        .map(|n| {
            let piece: &[char] = pieces.next().unwrap_or_default();
            let complete = n == count;
            let chunk = OutputStreaming {
                chunk: piece.iter().collect(),
                position,
                complete,
                coalesce_hint: Some(if complete { Boundary::Completion } else { Boundary::None }),
                output_id: Some(output.clone()),
                content_type: Some(format.content_type.clone()),
                language: format.language.clone(),
            };
            position += piece.len() as u64;
            let envelope = Envelope { event_id: EventId::random(cx.entropy), ..envelope.clone() };
            Event { envelope, payload: chunk.into(), extra: Map::new() }
        })
        .collect()
}
