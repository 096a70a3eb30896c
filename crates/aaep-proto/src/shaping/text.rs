//! The text of one output while it streams: written once, split for each group of subscriptions where its terms allow.

use std::collections::VecDeque;

use super::segment::{BoundaryLevel, BoundaryMark, Segmenter, Segments, Syntax, WriterPause};
use crate::language::LanguageTag;
use crate::message::{Boundary, CognitiveLoad};
use crate::negotiate::Terms;

/// Text is segmented in steps of at most this many bytes.
const STEP_BYTES: usize = 4096;

/// Text that waits for a boundary is split once it is longer than this, so that a chunk stays far below its bound of
/// 16384 characters.
const MAX_PENDING_BYTES: usize = 8192;

/// The boundaries at which text is split. See [`OutputText`] for an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BoundarySet {
    /// One bit per boundary, in the order of [`Boundary`].
    set: u8,
    /// Text is split only at its end, whatever the set contains (low cognitive load).
    whole: bool,
}

impl BoundarySet {
    /// Creates a set of these boundaries.
    pub fn at(boundaries: &[Boundary]) -> BoundarySet {
        let set = boundaries.iter().filter_map(bit).fold(0, |set, bit| set | bit);
        BoundarySet { set, whole: false }
    }

    /// Extracts the set from the terms of a subscription.
    pub(crate) fn of(terms: &Terms) -> BoundarySet {
        BoundarySet { whole: *terms.load() == CognitiveLoad::Low, ..BoundarySet::at(terms.boundaries()) }
    }

    /// Returns whether the segmenter must find words.
    pub(crate) fn needs_words(self) -> bool {
        self.finest() == Some(BoundaryLevel::Word)
    }

    /// Returns the finest boundary, or `None` if text is split only at its end.
    fn finest(self) -> Option<BoundaryLevel> {
        let levels = [
            (Boundary::None, BoundaryLevel::Cluster),
            (Boundary::Word, BoundaryLevel::Word),
            (Boundary::Sentence, BoundaryLevel::Sentence),
            (Boundary::Paragraph, BoundaryLevel::Paragraph),
        ];
        let has = |boundary: &Boundary| bit(boundary).is_some_and(|bit| self.set & bit != 0);
        levels.into_iter().find(|(b, _)| !self.whole && has(b)).map(|(_, level)| level)
    }

    /// Returns whether text may be split at a boundary of this level.
    pub(crate) fn allows(self, level: BoundaryLevel, at_end: bool) -> bool {
        at_end || self.finest().is_some_and(|finest| level >= finest)
    }

    /// Returns the coarsest negotiated boundary that a split of this level satisfies. A split because of length, which
    /// satisfies none, gets the finest negotiated one, or the coarsest if text is sent as a whole.
    pub(crate) fn hint(self, level: BoundaryLevel, at_end: bool) -> Boundary {
        let satisfied = [
            (Boundary::Completion, at_end),
            (Boundary::Paragraph, at_end || level >= BoundaryLevel::Paragraph),
            (Boundary::Sentence, at_end || level >= BoundaryLevel::Sentence),
            (Boundary::Word, at_end || level >= BoundaryLevel::Word),
        ];
        let has = |boundary: &Boundary| bit(boundary).is_some_and(|bit| self.set & bit != 0);
        let legal = satisfied.into_iter().find(|(b, is)| *is && has(b)).map(|(b, _)| b);
        legal.unwrap_or_else(|| self.hint_for_size())
    }

    fn hint_for_size(self) -> Boundary {
        let mut ascending =
            [Boundary::None, Boundary::Word, Boundary::Sentence, Boundary::Paragraph, Boundary::Completion];
        if self.whole {
            ascending.reverse();
        }
        let has = |boundary: &Boundary| bit(boundary).is_some_and(|bit| self.set & bit != 0);
        ascending.into_iter().find(has).unwrap_or(Boundary::None)
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

/// How much of an output was sent to a group of subscriptions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor {
    bytes: u64,
    chars: u64,
    done: bool,
}

impl Cursor {
    /// Returns how many characters were sent.
    pub(crate) fn chars(self) -> u64 {
        self.chars
    }
}

/// A chunk of an output, ready to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextChunk {
    /// The text.
    pub text: String,
    /// How many characters precede it.
    pub position: u64,
    /// The boundary at its end as the terms name it.
    pub hint: Boundary,
    /// The strongest boundary at its end, whether it was negotiated or not.
    pub level: BoundaryLevel,
    /// Whether it is the last.
    pub complete: bool,
}

/// The text of one output.
///
/// ```
/// use aaep_proto::message::Boundary;
/// use aaep_proto::shaping::text::{Cursor, BoundarySet, OutputText};
/// let mut output = OutputText::new("text/plain", None, false);
/// let (mut cursor, boundaries) = (Cursor::default(), BoundarySet::at(&[Boundary::Sentence, Boundary::Completion]));
/// output.write_step("I moved the money. Anything");
/// let piece = output.next_chunk(&mut cursor, boundaries).expect("a sentence");
/// assert_eq!((piece.text.as_str(), piece.position, piece.complete), ("I moved the money. ", 0, false));
/// output.write_step(" else?");
/// output.finish();
/// let piece = output.next_chunk(&mut cursor, boundaries).expect("the rest");
/// assert_eq!((piece.text.as_str(), piece.position, piece.complete), ("Anything else?", 19, true));
/// assert_eq!(piece.hint, Boundary::Completion);
/// ```
pub struct OutputText {
    segmenter: Segmenter,
    syntax: Syntax,
    language: Option<LanguageTag>,
    words: bool,
    scratch: Segments,
    buffer: String,
    /// How many bytes of the output precede the buffer.
    base: u64,
    marks: VecDeque<BoundaryMark>,
    finished: bool,
    /// Characters that the last step added to the buffer.
    released_chars: u64,
}

impl std::fmt::Debug for OutputText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "OutputText({} bytes from {})", self.buffer.len(), self.base)
    }
}

impl OutputText {
    /// Creates an output of this content type and language.
    pub fn new(content_type: &str, language: Option<&LanguageTag>, words: bool) -> OutputText {
        let syntax = if content_type == "text/markdown" { Syntax::Markdown } else { Syntax::Plain };
        OutputText {
            segmenter: new_segmenter(syntax, language, words),
            syntax,
            language: language.cloned(),
            words,
            scratch: Segments::default(),
            buffer: String::new(),
            base: 0,
            marks: VecDeque::new(),
            finished: false,
            released_chars: 0,
        }
    }

    /// Writes the first part of the text and returns the rest. The caller must take chunks in between.
    pub fn write_step<'t>(&mut self, text: &'t str) -> &'t str {
        let (step, rest) = text.split_at(floor_char(text, STEP_BYTES));
        self.segmenter.push(step, &mut self.scratch);
        self.released_chars = self.scratch.text.chars().count() as u64;
        self.take_scratch();
        rest
    }

    /// Marks the boundaries that are certain after the writer paused this long, although more text may follow.
    pub fn settle(&mut self, pause: WriterPause) {
        if self.finished {
            return;
        }
        self.segmenter.settle(pause, &mut self.scratch);
        self.released_chars = self.scratch.text.chars().count() as u64;
        self.take_scratch();
    }

    /// Returns the pause after which [`OutputText::settle`] could mark a boundary, or `None` if none could be.
    pub fn awaits(&self) -> Option<WriterPause> {
        if self.finished { None } else { self.segmenter.awaits() }
    }

    /// Returns the cursor moved by the last step, to the end of the buffer.
    pub(crate) fn advance_end(&self, end: Cursor) -> Cursor {
        Cursor { chars: end.chars + self.released_chars, ..self.cursor_at_end(0) }
    }

    /// Ends the output, so that the rest can be taken.
    pub fn finish(&mut self) {
        if !self.finished {
            self.segmenter.finish(&mut self.scratch);
            self.take_scratch();
            self.finished = true;
        }
    }

    /// Returns whether the output has ended.
    pub(crate) fn is_finished(&self) -> bool {
        self.finished
    }

    /// Takes the next chunk that may be sent, or returns `None` if there is none.
    pub fn next_chunk(&self, cursor: &mut Cursor, boundaries: BoundarySet) -> Option<TextChunk> {
        if cursor.done {
            return None;
        }
        let end = self.base + self.buffer.len() as u64;
        let (at, level) = self.next_cut(*cursor, boundaries, end)?;
        let complete = self.finished && at == end;
        let text = self.slice(cursor.bytes, at).to_owned();
        let position = cursor.chars;
        *cursor = Cursor { bytes: at, chars: position + text.chars().count() as u64, done: complete };
        Some(TextChunk { text, position, hint: boundaries.hint(level, complete), level, complete })
    }

    fn next_cut(&self, cursor: Cursor, boundaries: BoundarySet, end: u64) -> Option<(u64, BoundaryLevel)> {
        let ahead = || self.marks.iter().filter(|m| m.at > cursor.bytes);
        let finest = boundaries.finest();
        let legal = match finest {
            Some(BoundaryLevel::Cluster) => (end > cursor.bytes).then(|| (end, self.level_at(end))),
            // White space alone is not sent as an event but with the text that follows.
            Some(finest) => ahead()
                .find(|m| m.level >= finest && !self.slice(cursor.bytes, m.at).trim_start().is_empty())
                .map(|m| (m.at, self.level_at(m.at))),
            None => None,
        };
        if legal.is_some() {
            return legal;
        }
        if self.finished {
            return Some((end, BoundaryLevel::Paragraph));
        }
        if end - cursor.bytes <= MAX_PENDING_BYTES as u64 {
            return None;
        }
        // Too much text waits, so it is split at the last boundary of the best level, or at the end.
        let best = ahead().max_by_key(|m| (m.level, m.at)).map(|m| (m.at, m.level));
        Some(best.unwrap_or((end, BoundaryLevel::Cluster)))
    }

    /// Returns a cursor at the end of the text so far, for a subscription that joins now.
    pub(crate) fn cursor_at_end(&self, chars: u64) -> Cursor {
        Cursor { bytes: self.base + self.buffer.len() as u64, chars, done: self.finished }
    }

    /// Returns the text between two cursors, or `None` if it is no longer in the buffer.
    pub(crate) fn between(&self, from: Cursor, to: Cursor) -> Option<&str> {
        (from.bytes >= self.base && from.bytes <= to.bytes).then(|| self.slice(from.bytes, to.bytes))
    }

    /// Returns the level of the boundary at a cursor.
    pub(crate) fn level(&self, at: Cursor) -> BoundaryLevel {
        self.level_at(at.bytes)
    }

    /// Returns a cursor moved to character `chars` of the output, or to the end of the buffer.
    pub(crate) fn advance(&self, from: Cursor, chars: u64) -> Cursor {
        let steps = chars.saturating_sub(from.chars);
        let rest = self.slice(from.bytes.max(self.base), self.base + self.buffer.len() as u64);
        let passed: usize = rest.chars().take(usize::try_from(steps).unwrap_or(usize::MAX)).map(char::len_utf8).sum();
        Cursor { bytes: from.bytes + passed as u64, chars: from.chars + steps, done: from.done }
    }

    /// Restores text that ends at `end` and returns the cursor at its start, so that it can be split again.
    pub(crate) fn restore(&mut self, end: Cursor, text: &str) -> Cursor {
        let start = end.bytes.saturating_sub(text.len() as u64);
        let missing = usize::try_from(self.base.saturating_sub(start)).unwrap_or(0);
        if let Some(missing) = text.get(..missing).filter(|missing| !missing.is_empty()) {
            let mut marks = self.marks_of(missing, start);
            marks.append(&mut self.marks);
            self.marks = marks;
            self.buffer.insert_str(0, missing);
            self.base = start;
        }
        let chars = end.chars.saturating_sub(text.chars().count() as u64);
        Cursor { bytes: start, chars, done: false }
    }

    /// Drops the text that every cursor has passed.
    pub fn forget_before(&mut self, cursors: impl Iterator<Item = Cursor>) {
        let end = self.base + self.buffer.len() as u64;
        let passed = cursors.map(|c| c.bytes).min().unwrap_or(end);
        self.buffer.drain(..(passed.saturating_sub(self.base)) as usize);
        self.base = self.base.max(passed);
        while self.marks.front().is_some_and(|m| m.at < passed) {
            self.marks.pop_front();
        }
    }

    fn take_scratch(&mut self) {
        self.buffer.push_str(&self.scratch.text);
        self.marks.extend(self.scratch.marks.drain(..));
        self.scratch.text.clear();
    }

    /// Finds the boundaries of text that ends where the buffer starts; they were dropped with it.
    fn marks_of(&self, text: &str, start: u64) -> VecDeque<BoundaryMark> {
        let mut segmenter = new_segmenter(self.syntax, self.language.as_ref(), self.words);
        let mut found = Segments::default();
        segmenter.push(text, &mut found);
        segmenter.push(self.buffer.split_at(floor_char(&self.buffer, STEP_BYTES)).0, &mut found);
        let marks = found.marks.into_iter().map(|mark| BoundaryMark { at: start + mark.at, ..mark });
        marks.filter(|mark| mark.at <= self.base).collect()
    }

    fn level_at(&self, at: u64) -> BoundaryLevel {
        self.marks.iter().filter(|mark| mark.at == at).map(|mark| mark.level).max().unwrap_or(BoundaryLevel::Cluster)
    }

    fn slice(&self, from: u64, to: u64) -> &str {
        &self.buffer[(from - self.base) as usize..(to - self.base) as usize]
    }
}

fn new_segmenter(syntax: Syntax, language: Option<&LanguageTag>, words: bool) -> Segmenter {
    let segmenter = Segmenter::new(syntax, language);
    if words { segmenter.with_words() } else { segmenter }
}

/// Returns the largest character boundary up to this index.
fn floor_char(text: &str, most: usize) -> usize {
    if text.len() <= most {
        text.len()
    } else {
        (0..=most).rev().find(|i| text.is_char_boundary(*i)).unwrap_or(text.len())
    }
}
