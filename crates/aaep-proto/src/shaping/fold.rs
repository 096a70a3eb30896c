//! Waiting text of one output: coalesced into one piece, released in chunks that end at a boundary of the terms.

use std::collections::VecDeque;
use std::sync::Arc;

use super::segment::BoundaryLevel;
use super::text::BoundarySet;
use crate::frame::Frame;
use crate::id::{OutputId, SessionId};
use crate::limits;
use crate::message::Boundary;
use crate::pace::spoken_words;

/// Several chunks of text that are sent as one event.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CoalescedText {
    /// The newest of the chunks, which provides everything but the text.
    pub(crate) frame: Arc<Frame>,
    /// How many characters of the output precede it.
    pub(crate) position: u64,
    /// The text.
    pub(crate) text: String,
    /// The boundary at its end.
    pub(crate) level: BoundaryLevel,
    /// The boundary at its end as the terms name it.
    pub(crate) hint: Boundary,
    /// Whether it ends the output.
    pub(crate) complete: bool,
}

impl CoalescedText {
    /// Returns the session that the text belongs to.
    pub(crate) fn session(&self) -> &SessionId {
        self.frame.session()
    }

    /// Returns the output that the text belongs to.
    pub(crate) fn output(&self) -> Option<&OutputId> {
        self.frame.output()
    }

    /// Returns how many characters of the output are sent once it is.
    pub(crate) fn end(&self) -> u64 {
        self.position + self.text.chars().count() as u64
    }

    /// Returns a single chunk with another hint, or `None` if it has the hint that the boundaries ask for.
    pub(super) fn with_hint(frame: &Arc<Frame>, boundaries: BoundarySet) -> Option<CoalescedText> {
        let (old, complete) = frame.text_end();
        let level = frame.cut()?;
        let hint = boundaries.hint(level, complete);
        let position = frame.position()?;
        let run =
            CoalescedText { frame: frame.clone(), position, text: frame.chunk().to_owned(), level, hint, complete };
        (old != Some(&run.hint)).then_some(run)
    }
}

/// One chunk of the text, by its length.
#[derive(Clone, Copy, Debug)]
struct ChunkPart {
    bytes: usize,
    chars: usize,
    level: BoundaryLevel,
    complete: bool,
}

/// The memory of a chunk beside its text.
pub(super) const PART_BYTES: usize = std::mem::size_of::<ChunkPart>();

/// The bounds of one chunk.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChunkBounds {
    pub(super) boundaries: BoundarySet,
    /// Words per minute: paced chunks stay short (decision 23).
    pub(super) pace_wpm: Option<u32>,
}

/// All waiting text of one output.
#[derive(Clone, Debug)]
pub(super) struct QueuedText {
    /// The first chunk, until any of it is taken.
    first: Option<Arc<Frame>>,
    last: Arc<Frame>,
    position: u64,
    text: String,
    chars: usize,
    parts: VecDeque<ChunkPart>,
}

impl QueuedText {
    pub(super) fn new(frame: &Arc<Frame>) -> QueuedText {
        let mut held = QueuedText {
            first: Some(frame.clone()),
            last: frame.clone(),
            position: frame.position().unwrap_or_default(),
            text: String::new(),
            chars: 0,
            parts: VecDeque::new(),
        };
        held.append(frame);
        held
    }

    pub(super) fn frame(&self) -> &Arc<Frame> {
        &self.last
    }

    pub(super) fn position(&self) -> u64 {
        self.position
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }

    /// Returns the memory that it counts for.
    pub(super) fn bytes(&self) -> usize {
        self.text.len() + self.parts.len() * PART_BYTES
    }

    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Appends a chunk and returns whether it was the next one.
    pub(super) fn push(&mut self, frame: &Arc<Frame>) -> bool {
        let next = frame.position() == Some(self.position + self.chars as u64);
        let ended = self.parts.back().is_some_and(|part| part.complete);
        if next && !ended {
            self.last = frame.clone();
            self.append(frame);
        }
        next && !ended
    }

    fn append(&mut self, frame: &Arc<Frame>) {
        let (chunk, (hint, complete)) = (frame.chunk(), frame.text_end());
        let chars = chunk.chars().count();
        let level = frame.cut().unwrap_or_else(|| level_of(hint));
        self.text.push_str(chunk);
        self.chars += chars;
        self.parts.push_back(ChunkPart { bytes: chunk.len(), chars, level, complete });
    }

    /// Keeps the text before character `end` of the output, where a boundary of this level is.
    pub(super) fn truncate(&mut self, end: u64, level: BoundaryLevel) {
        while let Some(mut part) = self.parts.pop_back() {
            let start = self.position + (self.chars - part.chars) as u64;
            if start + part.chars as u64 <= end {
                self.parts.push_back(part);
                break;
            }
            self.first = None;
            let keep = usize::try_from(end.saturating_sub(start)).unwrap_or(0);
            let begin = self.text.len() - part.bytes;
            let bytes = self.text[begin..].chars().take(keep).map(char::len_utf8).sum();
            self.text.truncate(begin + bytes);
            self.chars -= part.chars - keep;
            if keep > 0 {
                part = ChunkPart { bytes, chars: keep, level, complete: false };
                self.parts.push_back(part);
                break;
            }
        }
        if let Some(last) = self.parts.back_mut() {
            last.level = last.level.max(level);
        }
    }

    /// Takes the text of one event.
    pub(super) fn take(&mut self, bounds: ChunkBounds) -> TakenText {
        let count = self.count(bounds);
        let whole = count == self.parts.len();
        let taken: Vec<ChunkPart> = self.parts.drain(..count.min(self.parts.len())).collect();
        let end = taken.last().copied().unwrap_or(ChunkPart {
            bytes: 0,
            chars: 0,
            level: BoundaryLevel::Cluster,
            complete: false,
        });
        let first = self.first.take();
        if let Some(frame) = first.filter(|_| count == 1) {
            let run = CoalescedText::with_hint(&frame, bounds.boundaries);
            self.skip(&taken);
            return run.map_or(TakenText::Frame(frame), TakenText::Coalesced);
        }
        let hint = match self.last.cut() {
            Some(_) => bounds.boundaries.hint(end.level, end.complete),
            None => self.last.text_end().0.filter(|_| whole).cloned().unwrap_or(Boundary::None),
        };
        let position = self.position;
        let text = self.skip(&taken);
        TakenText::Coalesced(CoalescedText {
            frame: self.last.clone(),
            position,
            text,
            level: end.level,
            hint,
            complete: end.complete,
        })
    }

    fn skip(&mut self, taken: &[ChunkPart]) -> String {
        let (bytes, chars) = taken.iter().fold((0, 0), |(b, c), part| (b + part.bytes, c + part.chars));
        let rest = self.text.split_off(bytes);
        self.position += chars as u64;
        self.chars -= chars;
        std::mem::replace(&mut self.text, rest)
    }

    /// Returns how many chunks to send together: up to the last permitted boundary that keeps the speech short, else up
    /// to the first permitted boundary, else up to the best boundary below the maximum length of a chunk.
    fn count(&self, ChunkBounds { boundaries, pace_wpm }: ChunkBounds) -> usize {
        let most_words = pace_wpm.map(|pace| u64::from(pace) * limits::CHUNK_SPEECH_SECONDS / 60);
        let (mut chars, mut words, mut from) = (0, 0, 0);
        let mut legal = None;
        let mut best = (BoundaryLevel::Cluster, 1);
        for (index, part) in self.parts.iter().enumerate() {
            chars += part.chars;
            if chars > limits::CHUNK_CHARS && index > 0 {
                break;
            }
            if most_words.is_some() {
                words += spoken_words(&self.text[from..from + part.bytes]);
                from += part.bytes;
            }
            let is_short = most_words.is_none_or(|most| words <= most);
            if !is_short && legal.is_some() {
                break;
            }
            if boundaries.allows(part.level, part.complete) {
                legal = Some(index + 1);
            }
            if part.level >= best.0 {
                best = (part.level, index + 1);
            }
        }
        legal.unwrap_or(best.1)
    }
}

/// The form in which text is released.
pub(super) enum TakenText {
    /// One chunk as it is.
    Frame(Arc<Frame>),
    /// Several chunks, or one with another hint.
    Coalesced(CoalescedText),
}

/// Returns the level of the boundary that a chunk claims to end at.
fn level_of(hint: Option<&Boundary>) -> BoundaryLevel {
    match hint {
        Some(Boundary::Word) => BoundaryLevel::Word,
        Some(Boundary::Sentence) => BoundaryLevel::Sentence,
        Some(Boundary::Paragraph | Boundary::Completion) => BoundaryLevel::Paragraph,
        _ => BoundaryLevel::Cluster,
    }
}
