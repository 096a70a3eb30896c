//! Finds the starts of words.

use icu_segmenter::options::WordBreakInvariantOptions;
use icu_segmenter::{WordSegmenter, WordSegmenterBorrowed};

use super::Cluster;
use super::class::{CharClass, is_spaceless};

/// A run without spaces is split into words at this many bytes, which bounds the delay of a mark.
const MAX_RUN: usize = 96;

/// Finds the starts of words: after spaces, and by dictionary in scripts without spaces.
///
/// Punctuation without a space is no boundary, so `and/or` and addresses stay whole.
#[derive(Debug)]
pub(super) struct WordBoundaries {
    segmenter: WordSegmenterBorrowed<'static>,
    /// Text in a script without spaces that was not split yet, and its byte offset.
    run: String,
    run_at: u64,
    /// The offsets of its clusters: a dictionary may split inside of one.
    starts: Vec<usize>,
    /// Whether a boundary is possible between the run and the text before it.
    joined: bool,
    /// The offset at which a word starts if the next cluster belongs to one.
    pub(super) start: Option<u64>,
    /// Boundaries that were found but not marked yet, ascending.
    pub(super) found: Vec<u64>,
}

impl WordBoundaries {
    pub(super) fn new() -> WordBoundaries {
        WordBoundaries {
            // Only this constructor refers to the dictionaries, so the linker drops them from binaries without word marks.
            segmenter: WordSegmenter::new_dictionary(WordBreakInvariantOptions::default()),
            run: String::new(),
            run_at: 0,
            starts: Vec::new(),
            joined: false,
            start: None,
            found: Vec::new(),
        }
    }

    pub(super) fn cluster(&mut self, cluster: Cluster<'_>, class: CharClass) {
        match class {
            CharClass::Letter if is_spaceless(cluster.first) => return self.spaceless(cluster),
            CharClass::Transparent if !self.run.is_empty() => return self.run.push_str(cluster.text),
            _ => {}
        }
        let was_run = !self.run.is_empty();
        self.end_run();
        match class {
            CharClass::Transparent => {}
            CharClass::Space => {
                self.start = Some(cluster.end());
                self.joined = false;
            }
            _ => {
                let word = matches!(class, CharClass::Lower | CharClass::Upper | CharClass::Letter | CharClass::Digit);
                let opens = class == CharClass::Open;
                if let Some(at) = self.start.take().or((was_run && (word || opens)).then_some(cluster.at)) {
                    self.found.push(at);
                }
                // A word belongs to the opening bracket before it, but not to a closing one.
                self.joined = !opens && (word || !cluster.first.is_ascii());
            }
        }
    }

    /// Starts a line or a block: no word is marked until the next space, except at `at`.
    pub(super) fn line(&mut self, at: Option<u64>) {
        self.end_run();
        self.start = at;
        self.joined = false;
    }

    fn spaceless(&mut self, cluster: Cluster<'_>) {
        if self.run.is_empty() {
            if let Some(at) = self.start.take().or(self.joined.then_some(cluster.at)) {
                self.found.push(at);
            }
            self.run_at = cluster.at;
        }
        self.starts.push(self.run.len());
        self.run.push_str(cluster.text);
        if self.run.len() > MAX_RUN {
            self.cut_run();
        }
    }

    /// Splits a long run except for its last word, which may continue. A run of a single word is dropped, so that it is not
    /// examined again and again.
    fn cut_run(&mut self) {
        let last = self.find_words().unwrap_or(self.run.len());
        self.run.drain(..last);
        self.run_at += last as u64;
        self.starts.retain(|start| *start >= last);
        self.starts.iter_mut().for_each(|start| *start -= last);
    }

    /// Ends the run.
    pub(super) fn end_run(&mut self) {
        if self.run.is_empty() {
            return;
        }
        self.find_words();
        self.run.clear();
        self.starts.clear();
        self.joined = true;
    }

    /// Records the words in the run. Returns the offset of the last one.
    fn find_words(&mut self) -> Option<usize> {
        let before = self.found.len();
        let inner = self.segmenter.segment_str(&self.run);
        let inner = inner.filter(|at| *at > 0 && self.starts.binary_search(at).is_ok());
        self.found.extend(inner.map(|at| self.run_at + at as u64));
        self.found[before..].last().map(|at| (at - self.run_at) as usize)
    }
}
