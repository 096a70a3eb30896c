//! Text of one output that waits for a subscription: folded into one, released in parts that end where the terms allow
//! a cut.

use std::collections::VecDeque;
use std::sync::Arc;

use super::segment::Level;
use super::text::BoundarySet;
use crate::frame::Frame;
use crate::id::{OutputId, SessionId};
use crate::limits;
use crate::message::Boundary;
use crate::pace::spoken_words;

/// Several pieces of text that are sent as one event.
#[derive(Clone, Debug, PartialEq)]
pub struct CoalescedText {
    /// The newest of the pieces that waited: what is not about the text is taken from it.
    pub frame: Arc<Frame>,
    /// How many characters of the output came before.
    pub position: u64,
    /// The text.
    pub text: String,
    /// The boundary at its end.
    pub level: Level,
    /// What it ends with, in words of the terms.
    pub hint: Boundary,
    /// Whether it ends the output.
    pub complete: bool,
}

impl CoalescedText {
    /// The session that the text belongs to.
    pub fn session(&self) -> &SessionId {
        self.frame.session()
    }

    /// The output that the text belongs to.
    pub fn output(&self) -> Option<&OutputId> {
        self.frame.output()
    }

    /// How many characters of the output are sent after it.
    pub fn end(&self) -> u64 {
        self.position + self.text.chars().count() as u64
    }

    /// One piece that waits alone, if the terms ask for another hint than it has.
    pub(super) fn renamed(frame: &Arc<Frame>, cutting: BoundarySet) -> Option<CoalescedText> {
        let (old, complete) = frame.text_end();
        let level = frame.cut()?;
        let hint = cutting.hint(level, complete);
        let position = frame.position()?;
        let run =
            CoalescedText { frame: frame.clone(), position, text: frame.chunk().to_owned(), level, hint, complete };
        (old != Some(&run.hint)).then_some(run)
    }
}

/// One piece of the text, by its length.
#[derive(Clone, Copy, Debug)]
struct Part {
    bytes: usize,
    chars: usize,
    level: Level,
    complete: bool,
}

/// What each piece takes in memory beside its text.
pub(super) const PART_BYTES: usize = std::mem::size_of::<Part>();

/// The bounds of one event of text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) cutting: BoundarySet,
    /// Words per minute: pieces for a voice stay short (decision 23).
    pub(super) pace_wpm: Option<u32>,
}

/// All text of one output that waits.
#[derive(Clone, Debug)]
pub(super) struct HeldText {
    /// The first piece, as long as nothing of it was taken.
    first: Option<Arc<Frame>>,
    last: Arc<Frame>,
    position: u64,
    text: String,
    chars: usize,
    parts: VecDeque<Part>,
}

impl HeldText {
    pub(super) fn new(frame: &Arc<Frame>) -> HeldText {
        let mut held = HeldText {
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

    /// How much memory it counts for.
    pub(super) fn bytes(&self) -> usize {
        self.text.len() + self.parts.len() * PART_BYTES
    }

    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Adds a piece, if it is the next one.
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
        self.parts.push_back(Part { bytes: chunk.len(), chars, level, complete });
    }

    /// Keeps what lies before so many characters of the output, which end at a boundary of this level.
    pub(super) fn truncate(&mut self, end: u64, level: Level) {
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
                part = Part { bytes, chars: keep, level, complete: false };
                self.parts.push_back(part);
                break;
            }
        }
        if let Some(last) = self.parts.back_mut() {
            last.level = last.level.max(level);
        }
    }

    /// Takes as much as one event may say.
    pub(super) fn take(&mut self, bounds: Bounds) -> Taken {
        let count = self.count(bounds);
        let whole = count == self.parts.len();
        let taken: Vec<Part> = self.parts.drain(..count.min(self.parts.len())).collect();
        let end = taken.last().copied().unwrap_or(Part { bytes: 0, chars: 0, level: Level::Cluster, complete: false });
        let first = self.first.take();
        if let Some(frame) = first.filter(|_| count == 1) {
            let run = CoalescedText::renamed(&frame, bounds.cutting);
            self.skip(&taken);
            return run.map_or(Taken::Frame(frame), Taken::Run);
        }
        let hint = match self.last.cut() {
            Some(_) => bounds.cutting.hint(end.level, end.complete),
            None => self.last.text_end().0.filter(|_| whole).cloned().unwrap_or(Boundary::None),
        };
        let position = self.position;
        let text = self.skip(&taken);
        Taken::Run(CoalescedText {
            frame: self.last.clone(),
            position,
            text,
            level: end.level,
            hint,
            complete: end.complete,
        })
    }

    fn skip(&mut self, taken: &[Part]) -> String {
        let (bytes, chars) = taken.iter().fold((0, 0), |(b, c), part| (b + part.bytes, c + part.chars));
        let rest = self.text.split_off(bytes);
        self.position += chars as u64;
        self.chars -= chars;
        std::mem::replace(&mut self.text, rest)
    }

    /// How many pieces go together: up to the last legal cut that keeps the event bearable, else to the first legal
    /// cut, else to the best cut below the bound of a chunk.
    fn count(&self, Bounds { cutting, pace_wpm }: Bounds) -> usize {
        let most_words = pace_wpm.map(|pace| u64::from(pace) * limits::SPOKEN_SECONDS / 60);
        let (mut chars, mut words, mut from) = (0, 0, 0);
        let mut legal = None;
        let mut best = (Level::Cluster, 1);
        for (index, part) in self.parts.iter().enumerate() {
            chars += part.chars;
            if chars > limits::CHUNK_CHARS && index > 0 {
                break;
            }
            if most_words.is_some() {
                words += spoken_words(&self.text[from..from + part.bytes]);
                from += part.bytes;
            }
            let bearable = most_words.is_none_or(|most| words <= most);
            if !bearable && legal.is_some() {
                break;
            }
            if cutting.allows(part.level, part.complete) {
                legal = Some(index + 1);
            }
            if part.level >= best.0 {
                best = (part.level, index + 1);
            }
        }
        legal.unwrap_or(best.1)
    }
}

/// In which form text is released.
pub(super) enum Taken {
    /// One piece as it was cut.
    Frame(Arc<Frame>),
    /// Several, or one with another hint.
    Run(CoalescedText),
}

/// The boundary that a piece claims to end at.
fn level_of(hint: Option<&Boundary>) -> Level {
    match hint {
        Some(Boundary::Word) => Level::Word,
        Some(Boundary::Sentence) => Level::Sentence,
        Some(Boundary::Paragraph | Boundary::Completion) => Level::Paragraph,
        _ => Level::Cluster,
    }
}
