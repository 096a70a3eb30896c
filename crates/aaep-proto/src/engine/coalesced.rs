//! Frames of what an outbox released: as it was pushed, or made from several events that waited.

use std::sync::Arc;

use super::Cx;
use crate::frame::Frame;
use crate::id::{EventId, OutputId, SessionId};
use crate::message::{Boundary, Event, Payload};
use crate::shaping::outbox::{CoalescedText, OutgoingFrame, ReleasedFrame};
use crate::time::Timestamp;

/// How many frames of joined text a group remembers. Subscriptions of a group fall behind together, so the same few
/// stretches of text are released to all of them.
const MAX_REMEMBERED: usize = 8;

/// Identifies joined text: the part of an output, and how it ends.
#[derive(Debug, PartialEq)]
struct TextKey {
    session: SessionId,
    output: Option<OutputId>,
    position: u64,
    end: u64,
    hint: Boundary,
    /// Text that completes the output may end where other text did, as its last chunk may be empty.
    complete: bool,
    /// A subscription must not get a time from another one that is later than its own latest.
    at: Timestamp,
}

/// The frames of joined text that a group made last, to be shared by its members.
#[derive(Debug, Default)]
pub(super) struct CoalescedFrames {
    recent: Vec<(TextKey, Arc<Frame>)>,
}

impl CoalescedFrames {
    /// Makes the frame of what was released. Joined events become an event with an id of its own (decision 8); an event
    /// that others overtook is the same event with a later time.
    pub(super) fn frame_of(&mut self, cx: &mut Cx<'_>, release: ReleasedFrame) -> Arc<Frame> {
        let frame = match release.content {
            OutgoingFrame::Frame(frame) => frame,
            OutgoingFrame::State(frame, from) => {
                let mut event = frame.event().clone();
                event.envelope.event_id = EventId::random(cx.entropy);
                if let Payload::StateChanged(change) = &mut event.payload {
                    change.from_state = from;
                }
                Arc::new(Frame::new(event))
            }
            OutgoingFrame::Coalesced(text) => self.text_frame(cx, text),
        };
        match release.not_before {
            Some(time) if frame.event().envelope.timestamp < time => {
                let mut event = frame.event().clone();
                event.envelope.timestamp = time;
                Arc::new(Frame::new(event))
            }
            _ => frame,
        }
    }

    fn text_frame(&mut self, cx: &mut Cx<'_>, text: CoalescedText) -> Arc<Frame> {
        let key = TextKey {
            session: text.session().clone(),
            output: text.output().cloned(),
            position: text.position,
            end: text.end(),
            hint: text.hint.clone(),
            complete: text.complete,
            at: text.frame.event().envelope.timestamp,
        };
        if let Some((_, frame)) = self.recent.iter().find(|(known, _)| *known == key) {
            return frame.clone();
        }
        let frame = Arc::new(Frame::new(text_event(cx, text)));
        if self.recent.len() == MAX_REMEMBERED {
            self.recent.remove(0);
        }
        self.recent.push((key, frame.clone()));
        frame
    }
}

fn text_event(cx: &mut Cx<'_>, text: CoalescedText) -> Event {
    let mut event = text.frame.event().clone();
    // A single chunk that only ends with another hint stays the same event.
    if text.frame.position() != Some(text.position) || text.frame.chunk() != text.text {
        event.envelope.event_id = EventId::random(cx.entropy);
    }
    if let Payload::OutputStreaming(chunk) = &mut event.payload {
        chunk.position = text.position;
        chunk.chunk = text.text;
        chunk.coalesce_hint = Some(text.hint);
        chunk.complete = text.complete;
    }
    event
}
