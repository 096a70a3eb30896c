//! Finds the boundaries in streamed text.
//!
//! Text passes three steps, each with bounded memory: [`Segmenter`] turns it into whole grapheme clusters in NFC, `block`
//! examines the start of lines and `sentence` the end of sentences. Every step works cluster by cluster, so the result
//! does not depend on how the input was split into tokens.

mod abbreviation;
mod block;
mod class;
mod language;
mod sentence;
mod word;

use icu_segmenter::{GraphemeClusterSegmenter, GraphemeClusterSegmenterBorrowed};
use unicode_normalization::char::canonical_combining_class;
use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick};

use crate::language::LanguageTag;
use block::BlockTracker;
use class::{CharClass, class};

/// How strong a boundary is.
///
/// ```
/// use aaep_proto::shaping::segment::BoundaryLevel;
/// assert!(BoundaryLevel::Cluster < BoundaryLevel::Word && BoundaryLevel::Sentence < BoundaryLevel::Paragraph);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BoundaryLevel {
    /// Between two grapheme clusters. All released text ends at one, so these are not marked.
    Cluster,
    /// Before a word.
    Word,
    /// Before a sentence, an item of a list or a row of a table.
    Sentence,
    /// Before a paragraph, a heading or a block of code.
    Paragraph,
}

/// A boundary in the text.
///
/// ```
/// use aaep_proto::shaping::segment::{BoundaryLevel, BoundaryMark};
/// let mark = BoundaryMark { at: 6, level: BoundaryLevel::Sentence };
/// assert_eq!("Done. Next".split_at(mark.at as usize), ("Done. ", "Next"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoundaryMark {
    /// How many bytes of released text precede it, from the start of the output.
    pub at: u64,
    /// The strongest boundary there.
    pub level: BoundaryLevel,
}

/// How long the writer must pause before a sentence that looks complete counts as complete.
///
/// ```
/// use aaep_proto::shaping::segment::WriterPause;
/// assert!(WriterPause::None < WriterPause::Short && WriterPause::Short < WriterPause::Long);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WriterPause {
    /// Not at all: the end is certain, such as a full stop and a space.
    None,
    /// A moment: a full stop without anything after it.
    Short,
    /// Longer: the full stop may belong to a number, an abbreviation or an address.
    Long,
}

/// The markup of a text.
///
/// ```
/// use aaep_proto::shaping::segment::Syntax;
/// assert_ne!(Syntax::Plain, Syntax::Markdown);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syntax {
    /// Text without markup; only lists are recognized.
    Plain,
    /// Markdown with headings, lists, tables, quotes, inline code and fenced code.
    Markdown,
}

/// Released text and its boundaries. The segmenter appends to it; the caller clears it.
///
/// ```
/// use aaep_proto::shaping::segment::Segments;
/// let segments = Segments::default();
/// assert!(segments.text.is_empty() && segments.marks.is_empty());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Segments {
    /// Whole grapheme clusters, in NFC.
    pub text: String,
    /// Boundaries in all text that was released so far, ascending. They may lie before `text`: whether a sentence has
    /// ended depends on what follows.
    pub marks: Vec<BoundaryMark>,
}

/// A cluster longer than this many bytes is released in pieces that are normalized separately. No script needs longer
/// ones; without a bound, an endless run of combining marks would be buffered forever.
const MAX_CLUSTER: usize = 256;

/// All characters before this one are in NFC, and each of them except CR LF is a cluster unless a character at or above
/// this one follows.
const FIRST_COMBINING: char = '\u{300}';

/// Releases streamed text cluster by cluster and marks where it may be cut.
///
/// One segmenter serves one output.
///
/// ```
/// use aaep_proto::shaping::segment::{BoundaryLevel, BoundaryMark, Segmenter, Segments, Syntax};
/// let mut segmenter = Segmenter::new(Syntax::Plain, None);
/// let mut out = Segments::default();
/// for token in ["Dr. Oko", "ro paid 3", ".50. He", " left."] {
///     segmenter.push(token, &mut out);
/// }
/// segmenter.finish(&mut out);
/// assert_eq!(out.text, "Dr. Okoro paid 3.50. He left.");
/// assert_eq!(out.marks, [BoundaryMark { at: 21, level: BoundaryLevel::Sentence }, BoundaryMark { at: 29, level: BoundaryLevel::Paragraph }]);
/// ```
#[derive(Debug)]
pub struct Segmenter {
    clusters: GraphemeClusterSegmenterBorrowed<'static>,
    /// The last cluster, not normalized: more characters may be added to it.
    held: String,
    /// The first and the last character of `held`.
    first: char,
    last: char,
    released: u64,
    blocks: BlockTracker,
}

/// A complete cluster, as the steps process it.
#[derive(Clone, Copy)]
struct Cluster<'t> {
    /// Its first character before normalization: NFC turns the Greek question mark into a semicolon.
    first: char,
    /// Its byte offset in the output.
    at: u64,
    /// Its text in NFC.
    text: &'t str,
}

impl Cluster<'_> {
    fn end(&self) -> u64 {
        self.at + self.text.len() as u64
    }
}

impl Segmenter {
    /// Creates a segmenter without word marks. The language decides which abbreviations are known; the default is
    /// English.
    pub fn new(syntax: Syntax, language: Option<&LanguageTag>) -> Segmenter {
        Segmenter {
            clusters: GraphemeClusterSegmenter::new(),
            held: String::new(),
            first: '\0',
            last: '\0',
            released: 0,
            blocks: BlockTracker::new(syntax, language.map_or("en", LanguageTag::primary)),
        }
    }

    /// Also marks the start of each word. Spaces and punctuation between two words belong to the first one. Code has no
    /// word marks.
    #[must_use]
    pub fn with_words(mut self) -> Segmenter {
        self.blocks.with_words();
        self
    }

    /// Adds the next text of the output. All of it is released except the last cluster.
    pub fn push(&mut self, text: &str, out: &mut Segments) {
        for c in text.chars() {
            if self.held.is_empty() {
                self.first = c;
            } else if self.is_boundary(c) {
                self.release(out);
                self.first = c;
            }
            self.held.push(c);
            self.last = c;
        }
    }

    /// Ends the output: releases the rest, decides pending boundaries and marks the end.
    pub fn finish(&mut self, out: &mut Segments) {
        if !self.held.is_empty() {
            self.release(out);
        }
        self.blocks.finish(self.released, &mut out.marks);
    }

    /// Marks the boundaries that are certain after the writer paused this long, although more text may follow. Buffered
    /// white space is released; after a pause, also stops, quotes and brackets. Characters of these classes do not
    /// compose, so a combining mark that follows later is a separate cluster and the text stays in NFC.
    ///
    /// ```
    /// use aaep_proto::shaping::segment::{BoundaryLevel, BoundaryMark, WriterPause, Segmenter, Segments, Syntax};
    /// let (mut segmenter, mut out) = (Segmenter::new(Syntax::Plain, None), Segments::default());
    /// segmenter.push("I asked Dr. Who. ", &mut out);
    /// assert!(out.marks.is_empty());
    /// segmenter.settle(WriterPause::None, &mut out);
    /// assert_eq!(out.marks, [BoundaryMark { at: 17, level: BoundaryLevel::Sentence }]);
    /// ```
    pub fn settle(&mut self, pause: WriterPause, out: &mut Segments) {
        if self.held_needs().is_some_and(|needs| needs <= pause) {
            self.release(out);
        }
        self.blocks.settle(self.released, pause, &mut out.marks);
    }

    /// Returns the pause after which [`Segmenter::settle`] could mark a boundary, or `None` if it could not.
    pub fn awaits(&self) -> Option<WriterPause> {
        let held = self.held_needs();
        held.or_else(|| self.blocks.awaits(self.released))
    }

    /// Returns the pause after which the buffered cluster is released although a combining mark could follow.
    fn held_needs(&self) -> Option<WriterPause> {
        if self.held.is_empty() || self.held.len() != self.last.len_utf8() || self.last == '\r' {
            return None;
        }
        let cluster = Cluster { first: self.first, at: self.released, text: &self.held };
        match class(&cluster, self.blocks.habits()) {
            CharClass::Space | CharClass::Newline => Some(WriterPause::None),
            CharClass::Dot
            | CharClass::Ellipsis
            | CharClass::Bang
            | CharClass::Full
            | CharClass::Close
            | CharClass::Quote => Some(WriterPause::Short),
            _ => None,
        }
    }

    /// Returns whether the buffered cluster ends before this character. The buffer starts at a boundary, and no cluster
    /// rule looks back beyond a boundary, so no other context is needed.
    fn is_boundary(&mut self, next: char) -> bool {
        if self.last < FIRST_COMBINING && next < FIRST_COMBINING {
            return self.last != '\r' || next != '\n';
        }
        let len = self.held.len();
        if len + next.len_utf8() > MAX_CLUSTER {
            return true;
        }
        // The two crates may implement different versions of Unicode. A character that one of them reorders as a mark
        // must be a mark for the other, so it is replaced by a mark that both know.
        self.held.push(if canonical_combining_class(next) == 0 { next } else { FIRST_COMBINING });
        let boundary = self.clusters.segment_str(&self.held).any(|at| at == len);
        self.held.truncate(len);
        boundary
    }

    /// Releases the buffered cluster in NFC. Clusters can be normalized separately: nothing composes or is reordered
    /// across their boundaries.
    fn release(&mut self, out: &mut Segments) {
        let start = out.text.len();
        if self.last < FIRST_COMBINING || is_nfc_quick(self.held.chars()) == IsNormalized::Yes {
            out.text.push_str(&self.held);
        } else {
            out.text.extend(self.held.nfc());
        }
        let cluster = Cluster { first: self.first, at: self.released, text: &out.text[start..] };
        self.released = cluster.end();
        self.blocks.cluster(cluster, &mut out.marks);
        self.held.clear();
    }
}
