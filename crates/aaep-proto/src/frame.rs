//! An event as it goes to subscriptions: typed, serialized once, and classed by how it is treated.

use std::sync::Arc;

use bytes::Bytes;

use crate::id::{OutputId, SessionId};
use crate::message::{Boundary, CoreType, Event, Payload, Urgency};
use crate::shape::segment::Level;

/// How an event is treated on its way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Never filtered, never delayed.
    Critical,
    /// The beginning of a session: goes before everything of it.
    Started,
    /// Output: waits, and folds into longer pieces.
    Text,
    /// A state change: folds into one transition.
    State,
    /// Progress: only the newest counts.
    Progress,
    /// Everything else: waits for its turn.
    Other,
}

/// One event, ready to be sent to any number of subscriptions.
///
/// ```
/// use aaep_proto::frame::{Class, Frame};
/// let event = serde_json::from_str(r#"{"@context":"https://aaep-protocol.org/context/v1",
///   "type":"aaep:agent.state.changed","event_id":"evt_1","session_id":"sess_1",
///   "timestamp":"2026-05-24T14:22:13Z","producer":{"agent_id":"a"},"from_state":"idle","to_state":"thinking"}"#)?;
/// let frame = Frame::new(event);
/// assert_eq!(frame.class(), Class::State);
/// assert!(frame.json().starts_with(b"{\"@context\""));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    event: Event,
    json: Bytes,
    class: Class,
    /// The boundary at the end of a piece of text, if the engine cut it.
    cut: Option<Level>,
    /// The event before it was tailored to a language and a length.
    source: Option<Arc<Event>>,
}

impl Frame {
    /// Serializes an event.
    pub fn new(event: Event) -> Frame {
        // An event holds text, numbers and maps with text keys only: it can always be written.
        let json = serde_json::to_vec(&event).expect("every event can be written as JSON");
        let class = class_of(&event);
        Frame { event, json: json.into(), class, cut: None, source: None }
    }

    /// Remembers which boundary the text ends at.
    #[must_use]
    pub fn with_cut(mut self, level: Level) -> Frame {
        self.cut = Some(level);
        self
    }

    /// Remembers what the event was tailored from, so that it can be tailored again.
    #[must_use]
    pub fn with_source(mut self, source: Arc<Event>) -> Frame {
        self.source = Some(source);
        self
    }

    /// The boundary at the end of its text, if the engine cut it there.
    pub fn cut(&self) -> Option<Level> {
        self.cut
    }

    /// The event that it was tailored from.
    pub fn source(&self) -> Option<&Arc<Event>> {
        self.source.as_ref()
    }

    /// The event.
    pub fn event(&self) -> &Event {
        &self.event
    }

    /// The event as compact JSON on one line.
    pub fn json(&self) -> &Bytes {
        &self.json
    }

    /// How it is treated.
    pub fn class(&self) -> Class {
        self.class
    }

    /// The session it belongs to.
    pub fn session(&self) -> &SessionId {
        &self.event.envelope.session_id
    }

    /// Whether it ends its session.
    pub fn is_terminal(&self) -> bool {
        self.event.core_type().is_some_and(CoreType::is_terminal)
    }

    /// The text of an output event, empty otherwise.
    pub fn chunk(&self) -> &str {
        match &self.event.payload {
            Payload::OutputStreaming(output) => &output.chunk,
            _ => "",
        }
    }

    /// Where the text of an output event begins.
    pub fn position(&self) -> Option<u64> {
        match &self.event.payload {
            Payload::OutputStreaming(output) => Some(output.position),
            _ => None,
        }
    }

    /// Where an output event says that its text ends, and whether that is the end of the output.
    pub fn text_end(&self) -> (Option<&Boundary>, bool) {
        match &self.event.payload {
            Payload::OutputStreaming(output) => (output.coalesce_hint.as_ref(), output.complete),
            _ => (None, false),
        }
    }

    /// The output of an output event.
    pub fn output(&self) -> Option<&OutputId> {
        match &self.event.payload {
            Payload::OutputStreaming(output) => output.output_id.as_ref(),
            _ => None,
        }
    }

    /// The state that a state change leaves.
    pub fn from_state(&self) -> Option<&str> {
        match &self.event.payload {
            Payload::StateChanged(change) => Some(&change.from_state),
            _ => None,
        }
    }

    /// The state that a state change enters.
    pub fn to_state(&self) -> Option<&str> {
        match &self.event.payload {
            Payload::StateChanged(change) => Some(&change.to_state),
            _ => None,
        }
    }
}

fn class_of(event: &Event) -> Class {
    if *event.urgency() == Urgency::Critical && event.core_type().is_some() {
        return Class::Critical;
    }
    match event.core_type() {
        Some(CoreType::SessionStarted) => Class::Started,
        Some(CoreType::OutputStreaming) => Class::Text,
        Some(CoreType::StateChanged) => Class::State,
        Some(CoreType::ProgressUpdated) => Class::Progress,
        _ => Class::Other,
    }
}
