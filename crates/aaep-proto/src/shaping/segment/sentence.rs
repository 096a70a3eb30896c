//! Finds the ends of sentences.
//!
//! The rules are those of UAX 29 for sentences, implemented as a small state machine. The sentence segmenter of ICU needs
//! the text on both sides of a boundary and handles neither abbreviations nor code, so most of its results would have to
//! be corrected.

use super::abbreviation::{LastWord, StopVerdict};
use super::class::{CharClass, ScriptRules, is_east_asian, is_thai};
use super::language::SentenceRules;
use super::word::WordBoundaries;
use super::{BoundaryLevel, BoundaryMark, Cluster, WriterPause};

/// Maximum number of clusters to examine for a letter after opening punctuation, and for the end of the next word.
const MAX_LOOK: u8 = 16;

/// The kind of a terminator. In a run of several, the strongest counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum StopKind {
    Dot,
    Ellipsis,
    Bang,
    Full,
}

/// What was seen after the terminator, while the decision is pending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StopStage {
    /// Only closing punctuation.
    Closed,
    /// A reference such as `[1]`.
    Reference,
    /// Spaces.
    Spaced,
    /// Spaces and a full stop: a spaced ellipsis, or a name such as `.env`.
    SpacedDot,
    /// Spaces and opening punctuation.
    Opened,
    /// Spaces and the start of a word, which decides.
    InWord,
}

/// What follows a terminator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FollowingText {
    Lower,
    Upper,
    Letter,
    Digit,
    /// Text that does not decide.
    Neutral,
    /// Text that continues the sentence.
    Refused,
}

/// Where a sentence would end, and the pause of the writer after which it counts as ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SentenceEnd {
    pub(super) at: u64,
    pub(super) pause: WriterPause,
}

/// A terminator that may end a sentence.
#[derive(Clone, Copy, Debug)]
struct PendingStop {
    stop: StopKind,
    stage: StopStage,
    /// The byte offset of the boundary, if the sentence ends.
    at: u64,
    verdict: StopVerdict,
    /// The character before the terminator.
    before: Option<char>,
    technical: bool,
    /// Whether a closing quote or bracket, or a dash, was seen. A lower-case letter after it continues the sentence.
    quoted: bool,
    /// Whether the line ended here and line ends matter. Even a lower-case letter then starts a new sentence.
    line_ended: bool,
    looked: u8,
}

impl PendingStop {
    /// Processes the next cluster. Returns what follows the terminator, once that is known.
    fn step(&mut self, cluster: &Cluster<'_>, class: CharClass) -> Option<FollowingText> {
        match self.stage {
            StopStage::Closed => self.step_closed(cluster, class),
            StopStage::Spaced => self.step_spaced(cluster, class),
            StopStage::Reference => self.step_reference(cluster),
            StopStage::SpacedDot => match class {
                CharClass::Dot => self.extend(StopKind::Ellipsis, StopStage::Closed, cluster),
                CharClass::Space => self.extend(StopKind::Ellipsis, StopStage::Spaced, cluster),
                _ => Some(FollowingText::Neutral),
            },
            StopStage::Opened => match class {
                CharClass::Lower | CharClass::Upper | CharClass::Letter | CharClass::Digit => follow(class),
                CharClass::Dot | CharClass::Bang | CharClass::Full | CharClass::Backtick => {
                    Some(FollowingText::Neutral)
                }
                _ => self.look(),
            },
            StopStage::InWord => match class {
                CharClass::Lower | CharClass::Upper | CharClass::Letter | CharClass::Transparent => self.look(),
                _ => Some(FollowingText::Neutral),
            },
        }
    }

    fn step_closed(&mut self, cluster: &Cluster<'_>, class: CharClass) -> Option<FollowingText> {
        match class {
            // Two stops are an ellipsis; one after `?` changes nothing.
            CharClass::Dot | CharClass::Ellipsis => self.extend(StopKind::Ellipsis, StopStage::Closed, cluster),
            CharClass::Bang => self.extend(StopKind::Bang, StopStage::Closed, cluster),
            CharClass::Full => self.extend(StopKind::Full, StopStage::Closed, cluster),
            CharClass::Close | CharClass::Quote => {
                self.quoted |= !matches!(cluster.first, '*' | '_' | '~');
                self.extend(self.stop, StopStage::Closed, cluster)
            }
            CharClass::Space => self.extend(self.stop, StopStage::Spaced, cluster),
            CharClass::Transparent => self.extend(self.stop, StopStage::Closed, cluster),
            // An emoji belongs to the sentence before it.
            CharClass::Other if !cluster.first.is_ascii() => self.extend(self.stop, StopStage::Closed, cluster),
            CharClass::Open | CharClass::Backtick if self.stop == StopKind::Full => Some(FollowingText::Neutral),
            CharClass::Open if cluster.first == '[' => {
                self.stage = StopStage::Reference;
                None
            }
            _ => follow(class).or(Some(FollowingText::Refused)),
        }
    }

    fn step_spaced(&mut self, cluster: &Cluster<'_>, class: CharClass) -> Option<FollowingText> {
        match class {
            CharClass::Space | CharClass::Transparent => self.extend(self.stop, StopStage::Spaced, cluster),
            CharClass::Dot => {
                self.stage = StopStage::SpacedDot;
                None
            }
            CharClass::Bang => self.extend(StopKind::Bang, StopStage::Closed, cluster),
            CharClass::Full => self.extend(StopKind::Full, StopStage::Closed, cluster),
            // French has a space before closing quotes.
            CharClass::Close => {
                self.quoted = true;
                self.extend(self.stop, StopStage::Closed, cluster)
            }
            CharClass::Open | CharClass::Quote | CharClass::Dash | CharClass::Ellipsis => {
                self.stage = StopStage::Opened;
                self.quoted |= class == CharClass::Dash;
                None
            }
            CharClass::Continue => Some(FollowingText::Refused),
            _ => follow(class).or(Some(FollowingText::Neutral)),
        }
    }

    fn step_reference(&mut self, cluster: &Cluster<'_>) -> Option<FollowingText> {
        match cluster.first {
            ']' => self.extend(self.stop, StopStage::Closed, cluster),
            '^' | '0'..='9' | ',' | '-' | ' ' => self.look().map(|_| FollowingText::Refused),
            _ => Some(FollowingText::Refused),
        }
    }

    /// Returns the pause of the writer after which this is the end of a sentence, or `None` if it cannot be one.
    fn pause(&self, spaced: bool) -> Option<WriterPause> {
        let spaced = spaced || !matches!(self.stage, StopStage::Closed | StopStage::Reference);
        let technical = self.technical && !spaced;
        let certain = if spaced && !self.quoted { WriterPause::None } else { WriterPause::Short };
        match self.stop {
            _ if self.stage == StopStage::InWord => None,
            _ if self.stage == StopStage::Reference || technical => Some(WriterPause::Long),
            StopKind::Dot => match self.verdict {
                StopVerdict::Part => None,
                StopVerdict::EndBeforeStarter => Some(WriterPause::Long),
                StopVerdict::EndUnlessNumber => Some(WriterPause::Short),
                StopVerdict::End if !spaced && self.before.is_some_and(char::is_numeric) => Some(WriterPause::Long),
                StopVerdict::End => Some(certain),
            },
            StopKind::Ellipsis => (!self.before.is_some_and(is_thai)).then_some(WriterPause::Short),
            StopKind::Bang | StopKind::Full => Some(certain),
        }
    }

    /// Moves the boundary after this cluster.
    fn extend(&mut self, stop: StopKind, stage: StopStage, cluster: &Cluster<'_>) -> Option<FollowingText> {
        self.stop = self.stop.max(stop);
        self.stage = stage;
        self.at = cluster.end();
        None
    }

    fn look(&mut self) -> Option<FollowingText> {
        self.looked += 1;
        (self.looked > MAX_LOOK).then_some(FollowingText::Neutral)
    }
}

fn follow(class: CharClass) -> Option<FollowingText> {
    match class {
        CharClass::Lower => Some(FollowingText::Lower),
        CharClass::Upper => Some(FollowingText::Upper),
        CharClass::Letter => Some(FollowingText::Letter),
        CharClass::Digit => Some(FollowingText::Digit),
        _ => None,
    }
}

enum StopDecision {
    Cut,
    Keep,
    /// Undecided: depends on the next word.
    ReadWord,
}

/// Tracks the backticks around inline code.
#[derive(Debug, Default)]
struct InlineCode {
    /// Length of the run of backticks before this cluster.
    run: usize,
    /// Length of the run that opened the code, or 0.
    open: usize,
}

/// Processes text and marks its sentences and words.
#[derive(Debug)]
pub(super) struct Sentences {
    language: &'static SentenceRules,
    pub(super) habits: ScriptRules,
    markdown: bool,
    token: LastWord,
    pending: Option<PendingStop>,
    has_word: bool,
    /// Whether the line is not split, like the row of a table.
    pub(super) whole: bool,
    code: InlineCode,
    pub(super) words: Option<WordBoundaries>,
    /// The last mark.
    last: u64,
    last_level: BoundaryLevel,
}

impl Sentences {
    pub(super) fn new(language: &'static SentenceRules, habits: ScriptRules, markdown: bool) -> Sentences {
        let mut token = LastWord::default();
        token.restart();
        Sentences {
            language,
            habits,
            markdown,
            token,
            pending: None,
            has_word: false,
            whole: false,
            code: InlineCode::default(),
            words: None,
            last: 0,
            last_level: BoundaryLevel::Cluster,
        }
    }

    /// Processes the next cluster of a line.
    pub(super) fn cluster(&mut self, cluster: Cluster<'_>, class: CharClass, marks: &mut Vec<BoundaryMark>) {
        let in_code = self.markdown && self.is_code(class);
        if let Some(words) = &mut self.words
            && (!in_code || class == CharClass::Backtick)
        {
            words.cluster(cluster, class);
        }
        if !in_code {
            self.advance(&cluster, class, marks);
            self.note(&cluster, class);
        }
        if self.words.is_some() {
            self.mark_words(self.pending.map_or(u64::MAX, |p| p.at), marks);
        }
    }

    /// Starts a line. With a level, its start is a boundary; otherwise the line break counts as a space.
    pub(super) fn line(&mut self, level: Option<BoundaryLevel>, at: u64, marks: &mut Vec<BoundaryMark>) {
        self.settle(marks);
        self.code = InlineCode::default();
        if let Some(words) = &mut self.words {
            words.line(Some(at));
        }
        match level {
            Some(level) => {
                self.mark(level, at, marks);
                self.pending = None;
                self.restart();
            }
            None => {
                self.token.next();
                if let Some(pending) = &mut self.pending {
                    pending.stage = StopStage::Spaced;
                    pending.at = at;
                    pending.line_ended = !self.markdown;
                }
            }
        }
    }

    /// Ends the text.
    pub(super) fn finish(&mut self, at: u64, marks: &mut Vec<BoundaryMark>) {
        self.settle(marks);
        if let Some(words) = &mut self.words {
            words.end_run();
        }
        self.mark(BoundaryLevel::Paragraph, at, marks);
    }

    /// Returns where the sentence ends if nothing follows. If the line has ended, its line break counts as white space.
    pub(super) fn ending(&self, line_end: Option<u64>) -> Option<SentenceEnd> {
        let pending = self.pending.as_ref()?;
        Some(SentenceEnd { at: line_end.unwrap_or(pending.at), pause: pending.pause(line_end.is_some())? })
    }

    /// Ends a sentence or a paragraph at this offset, although more text may follow.
    pub(super) fn end_at(&mut self, level: BoundaryLevel, at: u64, marks: &mut Vec<BoundaryMark>) {
        self.mark(level, at, marks);
        self.pending = None;
        self.restart();
    }

    /// Marks the end of a word that was ended by white space.
    pub(super) fn end_word(&mut self, line: Option<u64>, marks: &mut Vec<BoundaryMark>) {
        let Some(words) = &mut self.words else { return };
        if let Some(at) = line.or(words.start.take()).filter(|at| *at > self.last) {
            words.found.push(at);
            self.mark_words(u64::MAX, marks);
        }
    }

    /// Returns whether a mark of this level at this offset would be new.
    pub(super) fn is_after_last(&self, at: u64, level: BoundaryLevel) -> bool {
        at > self.last || (at == self.last && at > 0 && level > self.last_level)
    }

    /// Returns whether the cluster is inline code. The opening backtick is not, since it may decide whether the sentence
    /// before it has ended.
    fn is_code(&mut self, class: CharClass) -> bool {
        if class == CharClass::Backtick {
            self.code.run += 1;
            return self.code.run > 1 || self.code.open > 0;
        }
        if self.code.run > 0 {
            self.code.open = match self.code.open {
                0 => self.code.run,
                open if open == self.code.run => 0,
                open => open,
            };
            self.code.run = 0;
        }
        self.code.open > 0
    }

    /// Decides a pending terminator by the next cluster.
    fn advance(&mut self, cluster: &Cluster<'_>, class: CharClass, marks: &mut Vec<BoundaryMark>) {
        let Some(pending) = &mut self.pending else { return };
        let Some(follow) = pending.step(cluster, class) else { return };
        let pending = *pending;
        self.decide(pending, follow, Some(cluster.first), marks);
    }

    /// Decides a terminator that waits only for the end of a word.
    fn settle(&mut self, marks: &mut Vec<BoundaryMark>) {
        match self.pending {
            Some(p) if matches!(p.stage, StopStage::Opened | StopStage::InWord | StopStage::SpacedDot) => {
                self.decide(p, FollowingText::Neutral, None, marks);
            }
            Some(p) if p.stage == StopStage::Reference => self.pending = None,
            _ => {}
        }
    }

    fn decide(
        &mut self,
        pending: PendingStop,
        follow: FollowingText,
        next: Option<char>,
        marks: &mut Vec<BoundaryMark>,
    ) {
        match self.decision(&pending, follow, next) {
            StopDecision::ReadWord => {
                self.pending = Some(PendingStop { stage: StopStage::InWord, looked: 0, ..pending });
                return;
            }
            StopDecision::Keep => {}
            StopDecision::Cut => {
                self.mark(BoundaryLevel::Sentence, pending.at, marks);
                if pending.stage == StopStage::InWord {
                    self.token.leads = true;
                } else {
                    self.restart();
                }
            }
        }
        self.pending = None;
    }

    fn decision(&self, pending: &PendingStop, follow: FollowingText, next: Option<char>) -> StopDecision {
        let follow = if pending.line_ended && follow == FollowingText::Lower { FollowingText::Neutral } else { follow };
        let thai = pending.before.is_some_and(is_thai);
        let cut = match (pending.stop, pending.stage) {
            _ if follow == FollowingText::Refused => false,
            // Quoted speech in Japanese: 「はい。」と言った。
            (StopKind::Full, StopStage::Closed) if pending.quoted => !matches!(next, Some('と' | 'っ')),
            (StopKind::Full, _) => true,
            (StopKind::Bang, StopStage::Closed | StopStage::Reference) => {
                let after_word = pending.quoted || pending.before.is_some_and(char::is_alphanumeric);
                after_word && !pending.technical && matches!(follow, FollowingText::Upper | FollowingText::Letter)
            }
            (StopKind::Dot, StopStage::Closed | StopStage::Reference) => {
                follow == FollowingText::Letter && [pending.before, next].iter().all(|c| c.is_some_and(is_east_asian))
            }
            (StopKind::Ellipsis, StopStage::Closed | StopStage::Reference) => false,
            (StopKind::Bang, _) => follow != FollowingText::Lower || !pending.quoted,
            (StopKind::Ellipsis, _) => !matches!(follow, FollowingText::Lower | FollowingText::Digit) && !thai,
            (StopKind::Dot, _) if follow == FollowingText::Lower => false,
            (StopKind::Dot, stage) => match pending.verdict {
                StopVerdict::End => true,
                StopVerdict::Part => false,
                StopVerdict::EndUnlessNumber => follow != FollowingText::Digit,
                StopVerdict::EndBeforeStarter if stage == StopStage::InWord => self.token.is_starter(self.language),
                StopVerdict::EndBeforeStarter if follow == FollowingText::Upper => return StopDecision::ReadWord,
                StopVerdict::EndBeforeStarter => false,
            },
        };
        if cut { StopDecision::Cut } else { StopDecision::Keep }
    }

    /// Records the cluster as context for the next ones.
    fn note(&mut self, cluster: &Cluster<'_>, class: CharClass) {
        let stop = match class {
            CharClass::Space => return self.token.next(),
            CharClass::Transparent => return,
            CharClass::Dot => StopKind::Dot,
            CharClass::Ellipsis => StopKind::Ellipsis,
            CharClass::Bang => StopKind::Bang,
            CharClass::Full => StopKind::Full,
            CharClass::Lower
            | CharClass::Upper
            | CharClass::Letter
            | CharClass::Digit
            | CharClass::Other
            | CharClass::Backtick => {
                self.has_word = true;
                return self.token.push(cluster);
            }
            _ => return self.token.push(cluster),
        };
        if self.pending.is_none() && self.has_word && !self.whole {
            self.pending = Some(PendingStop {
                stop,
                stage: StopStage::Closed,
                at: cluster.end(),
                verdict: if stop == StopKind::Dot { self.token.verdict(self.language) } else { StopVerdict::End },
                before: self.token.last(),
                technical: self.token.technical,
                quoted: false,
                line_ended: false,
                looked: 0,
            });
        }
        self.token.push(cluster);
    }

    fn restart(&mut self) {
        self.token.restart();
        self.has_word = false;
    }

    fn mark(&mut self, level: BoundaryLevel, at: u64, marks: &mut Vec<BoundaryMark>) {
        self.mark_words(at, marks);
        // A boundary that was marked early may later get a higher level.
        if self.is_after_last(at, level) {
            self.last = at;
            self.last_level = level;
            marks.push(BoundaryMark { at, level });
        }
    }

    /// Marks the words before this offset. Those after it may still become boundaries of a higher level.
    fn mark_words(&mut self, before: u64, marks: &mut Vec<BoundaryMark>) {
        let Some(words) = &mut self.words else { return };
        let count = words.found.partition_point(|at| *at < before);
        for at in words.found.drain(..count) {
            if at > self.last {
                self.last = at;
                self.last_level = BoundaryLevel::Word;
                marks.push(BoundaryMark { at, level: BoundaryLevel::Word });
            }
        }
    }
}
