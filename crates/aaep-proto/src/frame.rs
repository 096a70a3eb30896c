//! Frames: events serialized once for all subscriptions with equal terms, with the class that delivery treats them by.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use crate::confirm::reported_outcome;
use crate::id::{OutputId, SessionId};
use crate::message::{Boundary, CoreType, Event, Payload, Urgency};
use crate::shaping::segment::BoundaryLevel;

/// How an event is treated on its way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameClass {
    /// Never filtered, never delayed.
    Critical,
    /// The start of a session, which precedes everything else of it.
    Started,
    /// Output: waits, and folds into longer pieces.
    Text,
    /// A state change: folds into one transition.
    State,
    /// A state change that reports the resolution of a question: never folded or dropped, and never overtaken by the next
    /// question.
    Outcome,
    /// Progress: only the newest counts.
    Progress,
    /// Everything else: waits for its turn.
    Other,
}

/// Counts the bytes of all registered frames that still exist, and of the text that waits to become frames. A
/// frame that many subscriptions share counts once, wherever it waits. Clones count together.
///
/// ```
/// use aaep_proto::frame::{Frame, FrameMeter};
/// # let event: aaep_proto::message::Event = serde_json::from_str(r#"{"@context":"https://aaep-protocol.org/context/v1",
/// #   "type":"aaep:agent.state.changed","event_id":"evt_1","session_id":"sess_1",
/// #   "timestamp":"2026-05-24T14:22:13Z","producer":{"agent_id":"a"},"from_state":"idle","to_state":"thinking"}"#)?;
/// let meter = FrameMeter::default();
/// let frame = Frame::new(event);
/// frame.count_with(&meter);
/// assert!(meter.bytes() > frame.json().len());
/// drop(frame);
/// assert_eq!(meter.bytes(), 0);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct FrameMeter(Arc<MeterState>);

#[derive(Debug, Default)]
struct MeterState {
    bytes: AtomicUsize,
    /// Counts the same bytes, and those of other meters.
    total: Option<FrameMeter>,
}

impl FrameMeter {
    /// Creates a meter whose bytes count in this one too.
    ///
    /// ```
    /// let total = aaep_proto::frame::FrameMeter::default();
    /// let one = total.part();
    /// assert_eq!((one.bytes(), total.bytes()), (0, 0));
    /// ```
    #[must_use]
    pub fn part(&self) -> FrameMeter {
        FrameMeter(Arc::new(MeterState { bytes: AtomicUsize::new(0), total: Some(self.clone()) }))
    }

    /// About how many bytes frames and text occupy.
    pub fn bytes(&self) -> usize {
        self.0.bytes.load(Relaxed)
    }

    /// Records that the text that waits for a subscription has changed its size, in bytes.
    pub(crate) fn resize(&self, before: usize, after: usize) {
        if after >= before {
            self.0.bytes.fetch_add(after - before, Relaxed);
        } else {
            self.0.bytes.fetch_sub(before - after, Relaxed);
        }
        if let Some(total) = &self.0.total {
            total.resize(before, after);
        }
    }
}

/// The registration of a frame with a meter.
#[derive(Debug, Default)]
struct Counted(OnceLock<(FrameMeter, usize)>);

/// A clone is another frame, which is not registered yet.
impl Clone for Counted {
    fn clone(&self) -> Counted {
        Counted::default()
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if let Some((meter, bytes)) = self.0.get() {
            meter.resize(*bytes, 0);
        }
    }
}

/// Two frames with the same event are equal, whichever meter counts them.
impl PartialEq for Counted {
    fn eq(&self, _: &Counted) -> bool {
        true
    }
}

/// What a frame occupies beside its text: the typed event, its envelope, allocations.
const FRAME_BYTES: usize = 1024;

/// One event, ready to be sent to any number of subscriptions.
///
/// ```
/// use aaep_proto::frame::Frame;
/// let event = serde_json::from_str(r#"{"@context":"https://aaep-protocol.org/context/v1",
///   "type":"aaep:agent.state.changed","event_id":"evt_1","session_id":"sess_1",
///   "timestamp":"2026-05-24T14:22:13Z","producer":{"agent_id":"a"},"from_state":"idle","to_state":"thinking"}"#)?;
/// let frame = Frame::new(event);
/// assert_eq!(frame.from_state(), Some("idle"));
/// assert!(frame.json().starts_with(b"{\"@context\""));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    event: Event,
    json: Bytes,
    class: FrameClass,
    /// The boundary at the end of a piece of text, if the engine cut it.
    cut: Option<BoundaryLevel>,
    /// The event before it was tailored to a language and a length.
    original: Option<Arc<Event>>,
    counted: Counted,
}

impl Frame {
    /// Serializes an event.
    pub fn new(event: Event) -> Frame {
        // An event holds text, numbers and maps with text keys only: it can always be written.
        let json = serde_json::to_vec(&event).expect("every event can be written as JSON");
        let class = class_of(&event);
        Frame { event, json: json.into(), class, cut: None, original: None, counted: Counted::default() }
    }

    /// About how many bytes it occupies: the text exists typed and as JSON, and may exist as it was before it was tailored.
    pub fn memory_bytes(&self) -> usize {
        let copies = if self.original.is_some() { 3 } else { 2 };
        FRAME_BYTES + copies * self.json.len()
    }

    /// Has a meter count it for as long as it exists. Only the first meter counts.
    pub fn count_with(&self, meter: &FrameMeter) {
        self.counted.0.get_or_init(|| {
            let bytes = self.memory_bytes();
            meter.resize(0, bytes);
            (meter.clone(), bytes)
        });
    }

    /// Remembers which boundary the text ends at.
    #[must_use]
    pub(crate) fn with_cut(mut self, level: BoundaryLevel) -> Frame {
        self.cut = Some(level);
        self
    }

    /// Remembers what the event was tailored from, so that it can be tailored again.
    #[must_use]
    pub(crate) fn with_original(mut self, original: Arc<Event>) -> Frame {
        self.original = Some(original);
        self
    }

    /// The boundary at the end of its text, if the engine cut it there.
    pub(crate) fn cut(&self) -> Option<BoundaryLevel> {
        self.cut
    }

    /// The event that it was tailored from.
    pub fn original(&self) -> Option<&Arc<Event>> {
        self.original.as_ref()
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
    pub(crate) fn class(&self) -> FrameClass {
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

    /// Returns the boundary that an output event claims to end at, and whether it ends the output.
    pub(crate) fn text_end(&self) -> (Option<&Boundary>, bool) {
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

fn class_of(event: &Event) -> FrameClass {
    if *event.urgency() == Urgency::Critical && event.core_type().is_some() {
        return FrameClass::Critical;
    }
    match event.core_type() {
        Some(CoreType::SessionStarted) => FrameClass::Started,
        Some(CoreType::OutputStreaming) => FrameClass::Text,
        Some(CoreType::StateChanged) if reported_outcome(event).is_some() => FrameClass::Outcome,
        Some(CoreType::StateChanged) => FrameClass::State,
        Some(CoreType::ProgressUpdated) => FrameClass::Progress,
        _ => FrameClass::Other,
    }
}
