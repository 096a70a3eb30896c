//! The text of one output while it streams: written once, cut by each shape where its terms allow.

use std::collections::VecDeque;

use super::segment::{Level, Mark, Segmenter, Segments, Syntax};
use crate::language::LanguageTag;
use crate::message::{Boundary, CognitiveLoad};
use crate::negotiate::Terms;

/// Text is handed to the segmenter in pieces of at most this many bytes, and no shape lets more than
/// twice as many characters wait: a chunk stays far below its bound of 16384 characters.
const STEP: usize = 4096;
const MOST_PENDING: usize = 8192;

/// Where a shape cuts text.
///
/// ```
/// use aaep_proto::message::Boundary;
/// use aaep_proto::shape::text::Cutting;
/// let cutting = Cutting::at(&[Boundary::Sentence, Boundary::Completion]);
/// assert!(!cutting.needs_words());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cutting {
    /// One bit per boundary, in the order of [`Boundary`].
    set: u8,
    /// Nothing before the end, whatever the set says (low cognitive load).
    whole: bool,
}

impl Cutting {
    /// Cuts at these boundaries.
    pub fn at(boundaries: &[Boundary]) -> Cutting {
        let set = boundaries.iter().filter_map(bit).fold(0, |set, bit| set | bit);
        Cutting { set, whole: false }
    }

    /// Cuts as the terms say.
    pub fn of(terms: &Terms) -> Cutting {
        Cutting { whole: *terms.load() == CognitiveLoad::Low, ..Cutting::at(terms.boundaries()) }
    }

    /// Whether the segmenter has to look for words.
    pub fn needs_words(self) -> bool {
        self.finest() == Some(Level::Word)
    }

    /// The finest place to cut; nothing means at the end only.
    fn finest(self) -> Option<Level> {
        let levels = [
            (Boundary::None, Level::Cluster),
            (Boundary::Word, Level::Word),
            (Boundary::Sentence, Level::Sentence),
            (Boundary::Paragraph, Level::Paragraph),
        ];
        let has = |boundary: &Boundary| bit(boundary).is_some_and(|bit| self.set & bit != 0);
        levels.into_iter().find(|(b, _)| !self.whole && has(b)).map(|(_, level)| level)
    }

    /// The coarsest negotiated boundary that a cut of this level is; `none` if it is none of them.
    fn hint(self, level: Level, at_end: bool) -> Boundary {
        let satisfied = [
            (Boundary::Completion, at_end),
            (Boundary::Paragraph, at_end || level >= Level::Paragraph),
            (Boundary::Sentence, at_end || level >= Level::Sentence),
            (Boundary::Word, at_end || level >= Level::Word),
        ];
        let has = |boundary: &Boundary| bit(boundary).is_some_and(|bit| self.set & bit != 0);
        satisfied.into_iter().find(|(b, is)| *is && has(b)).map_or(Boundary::None, |(b, _)| b)
    }
}

fn bit(boundary: &Boundary) -> Option<u8> {
    match boundary {
        Boundary::None => Some(1),
        Boundary::Word => Some(2),
        Boundary::Sentence => Some(4),
        Boundary::Paragraph => Some(8),
        Boundary::Completion => Some(16),
        Boundary::Other(_) => None,
    }
}

/// How far a shape has handed on an output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor {
    bytes: u64,
    chars: u64,
    done: bool,
}

impl Cursor {
    /// How many characters were handed on.
    pub fn chars(self) -> u64 {
        self.chars
    }
}

/// A piece of output, ready to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The text.
    pub text: String,
    /// How many characters came before.
    pub position: u64,
    /// What the piece ends with.
    pub hint: Boundary,
    /// Whether it is the last.
    pub complete: bool,
}

/// One streaming output.
///
/// ```
/// use aaep_proto::message::Boundary;
/// use aaep_proto::shape::text::{Cursor, Cutting, OutputText};
/// let mut output = OutputText::new("text/plain", None, false);
/// let (mut cursor, cutting) = (Cursor::default(), Cutting::at(&[Boundary::Sentence, Boundary::Completion]));
/// output.write_step("I moved the money. Anything");
/// let piece = output.next_piece(&mut cursor, cutting).expect("a sentence");
/// assert_eq!((piece.text.as_str(), piece.position, piece.complete), ("I moved the money. ", 0, false));
/// output.write_step(" else?");
/// output.finish();
/// let piece = output.next_piece(&mut cursor, cutting).expect("the rest");
/// assert_eq!((piece.text.as_str(), piece.position, piece.complete), ("Anything else?", 19, true));
/// assert_eq!(piece.hint, Boundary::Completion);
/// ```
pub struct OutputText {
    segmenter: Segmenter,
    scratch: Segments,
    buffer: String,
    /// How many bytes of the output came before the buffer.
    base: u64,
    marks: VecDeque<Mark>,
    finished: bool,
    /// Characters that the last step released.
    released_chars: u64,
}

impl std::fmt::Debug for OutputText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "OutputText({} bytes from {})", self.buffer.len(), self.base)
    }
}

impl OutputText {
    /// An output of this content type and language.
    pub fn new(content_type: &str, language: Option<&LanguageTag>, words: bool) -> OutputText {
        let syntax = if content_type == "text/markdown" { Syntax::Markdown } else { Syntax::Plain };
        let segmenter = Segmenter::new(syntax, language);
        OutputText {
            segmenter: if words { segmenter.with_words() } else { segmenter },
            scratch: Segments::default(),
            buffer: String::new(),
            base: 0,
            marks: VecDeque::new(),
            finished: false,
            released_chars: 0,
        }
    }

    /// Takes a first part of more text and answers the rest: pieces have to be taken in between.
    pub fn write_step<'t>(&mut self, text: &'t str) -> &'t str {
        let (step, rest) = text.split_at(floor_char(text, STEP));
        self.segmenter.push(step, &mut self.scratch);
        self.released_chars = self.scratch.text.chars().count() as u64;
        self.take_scratch();
        rest
    }

    /// A cursor moved along with the last step, to the end of what was released.
    pub fn advance_end(&self, end: Cursor) -> Cursor {
        Cursor { chars: end.chars + self.released_chars, ..self.cursor_at_end(0) }
    }

    /// Ends the output: all that is left may be taken.
    pub fn finish(&mut self) {
        if !self.finished {
            self.segmenter.finish(&mut self.scratch);
            self.take_scratch();
            self.finished = true;
        }
    }

    /// Whether the output has ended.
    pub fn is_finished(&self) -> bool {
        self.finished
    }

    /// The next piece that may be sent, if there is one.
    pub fn next_piece(&self, cursor: &mut Cursor, cutting: Cutting) -> Option<Piece> {
        if cursor.done {
            return None;
        }
        let end = self.base + self.buffer.len() as u64;
        let (at, level) = self.next_cut(*cursor, cutting, end)?;
        let complete = self.finished && at == end;
        let text = self.slice(cursor.bytes, at).to_owned();
        let position = cursor.chars;
        *cursor = Cursor { bytes: at, chars: position + text.chars().count() as u64, done: complete };
        Some(Piece { text, position, hint: cutting.hint(level, complete), complete })
    }

    fn next_cut(&self, cursor: Cursor, cutting: Cutting, end: u64) -> Option<(u64, Level)> {
        let ahead = || self.marks.iter().filter(|m| m.at > cursor.bytes);
        let finest = cutting.finest();
        let legal = match finest {
            Some(Level::Cluster) => (end > cursor.bytes).then(|| {
                let level = ahead().find(|m| m.at == end).map_or(Level::Cluster, |m| m.level);
                (end, level)
            }),
            Some(finest) => ahead().find(|m| m.level >= finest).map(|m| (m.at, m.level)),
            None => None,
        };
        if legal.is_some() {
            return legal;
        }
        if self.finished {
            return Some((end, Level::Paragraph));
        }
        if end - cursor.bytes <= MOST_PENDING as u64 {
            return None;
        }
        // Too much waits: the last place of the best kind, or as it is.
        let best = ahead().max_by_key(|m| (m.level, m.at)).map(|m| (m.at, m.level));
        Some(best.unwrap_or((end, Level::Cluster)))
    }

    /// A cursor at the end of what was written so far, for who joins now.
    pub fn cursor_at_end(&self, chars: u64) -> Cursor {
        Cursor { bytes: self.base + self.buffer.len() as u64, chars, done: self.finished }
    }

    /// The text between two places that cursors have passed, if it is still here.
    pub fn between(&self, from: Cursor, to: Cursor) -> Option<String> {
        (from.bytes >= self.base && from.bytes <= to.bytes).then(|| self.slice(from.bytes, to.bytes).to_owned())
    }

    /// Lets go of what every cursor has passed.
    pub fn forget_before(&mut self, cursors: impl Iterator<Item = Cursor>) {
        let end = self.base + self.buffer.len() as u64;
        let passed = cursors.map(|c| c.bytes).min().unwrap_or(end);
        self.buffer.drain(..(passed.saturating_sub(self.base)) as usize);
        self.base = self.base.max(passed);
        while self.marks.front().is_some_and(|m| m.at <= passed) {
            self.marks.pop_front();
        }
    }

    fn take_scratch(&mut self) {
        self.buffer.push_str(&self.scratch.text);
        self.marks.extend(self.scratch.marks.drain(..));
        self.scratch.text.clear();
    }

    fn slice(&self, from: u64, to: u64) -> &str {
        &self.buffer[(from - self.base) as usize..(to - self.base) as usize]
    }
}

/// The largest place to split at that is no further than this and inside no character.
fn floor_char(text: &str, most: usize) -> usize {
    if text.len() <= most {
        text.len()
    } else {
        (0..=most).rev().find(|i| text.is_char_boundary(*i)).unwrap_or(text.len())
    }
}
