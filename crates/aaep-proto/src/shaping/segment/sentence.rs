//! Where sentences end.
//!
//! The rules are those of UAX 29 for sentences, held as a small state machine of our own: the
//! segmenter of ICU wants the text on both sides of a boundary at hand and knows neither
//! abbreviations nor code, so most of its answers would have to be overruled.

use super::abbreviation::{Token, Verdict};
use super::class::{Class, Habits, is_east_asian, is_thai};
use super::language::Language;
use super::word::WordBoundaries;
use super::{Cluster, Level, Mark, Pause};

/// How far to look for a letter behind opening punctuation, and for the end of the next word.
const MAX_LOOK: u8 = 16;

/// The kind of terminator; of several in a row the strongest counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stop {
    Dot,
    Ellipsis,
    Bang,
    Full,
}

/// What stands between the terminator and what will decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Nothing but closing punctuation.
    Closed,
    /// A reference such as `[1]`.
    Reference,
    /// Spaces.
    Spaced,
    /// Spaces and a full stop: a spaced ellipsis, or a name such as `.env`.
    SpacedDot,
    /// Spaces and opening punctuation.
    Opened,
    /// Spaces and the beginning of a word, which decides.
    InWord,
}

/// What follows a terminator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Follow {
    Lower,
    Upper,
    Letter,
    Digit,
    /// Something that says nothing about the sentence.
    Neutral,
    /// Something that carries the sentence on.
    Refused,
}

/// Where a sentence would end, and how long the writer must be silent before it counts as ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ending {
    pub(super) at: u64,
    pub(super) pause: Pause,
}

/// A terminator that may end a sentence.
#[derive(Clone, Copy, Debug)]
struct Pending {
    stop: Stop,
    stage: Stage,
    /// Where the cut would be.
    at: u64,
    verdict: Verdict,
    /// The character before the terminator.
    before: Option<char>,
    technical: bool,
    /// A closing quote or bracket, or a dash, was seen: a small letter after it carries on.
    quoted: bool,
    /// The line ended here and lines count: even a small letter begins something new.
    line_ended: bool,
    looked: u8,
}

impl Pending {
    /// Takes the next cluster; answers when it decides.
    fn step(&mut self, cluster: &Cluster<'_>, class: Class) -> Option<Follow> {
        match self.stage {
            Stage::Closed => self.step_closed(cluster, class),
            Stage::Spaced => self.step_spaced(cluster, class),
            Stage::Reference => self.step_reference(cluster),
            Stage::SpacedDot => match class {
                Class::Dot => self.extend(Stop::Ellipsis, Stage::Closed, cluster),
                Class::Space => self.extend(Stop::Ellipsis, Stage::Spaced, cluster),
                _ => Some(Follow::Neutral),
            },
            Stage::Opened => match class {
                Class::Lower | Class::Upper | Class::Letter | Class::Digit => follow(class),
                Class::Dot | Class::Bang | Class::Full | Class::Backtick => Some(Follow::Neutral),
                _ => self.look(),
            },
            Stage::InWord => match class {
                Class::Lower | Class::Upper | Class::Letter | Class::Transparent => self.look(),
                _ => Some(Follow::Neutral),
            },
        }
    }

    fn step_closed(&mut self, cluster: &Cluster<'_>, class: Class) -> Option<Follow> {
        match class {
            // Two stops are an ellipsis; one after `?` adds nothing.
            Class::Dot | Class::Ellipsis => self.extend(Stop::Ellipsis, Stage::Closed, cluster),
            Class::Bang => self.extend(Stop::Bang, Stage::Closed, cluster),
            Class::Full => self.extend(Stop::Full, Stage::Closed, cluster),
            Class::Close | Class::Quote => {
                self.quoted |= !matches!(cluster.first, '*' | '_' | '~');
                self.extend(self.stop, Stage::Closed, cluster)
            }
            Class::Space => self.extend(self.stop, Stage::Spaced, cluster),
            Class::Transparent => self.extend(self.stop, Stage::Closed, cluster),
            // An emoji belongs to what it comments.
            Class::Other if !cluster.first.is_ascii() => self.extend(self.stop, Stage::Closed, cluster),
            Class::Open | Class::Backtick if self.stop == Stop::Full => Some(Follow::Neutral),
            Class::Open if cluster.first == '[' => {
                self.stage = Stage::Reference;
                None
            }
            _ => follow(class).or(Some(Follow::Refused)),
        }
    }

    fn step_spaced(&mut self, cluster: &Cluster<'_>, class: Class) -> Option<Follow> {
        match class {
            Class::Space | Class::Transparent => self.extend(self.stop, Stage::Spaced, cluster),
            Class::Dot => {
                self.stage = Stage::SpacedDot;
                None
            }
            Class::Bang => self.extend(Stop::Bang, Stage::Closed, cluster),
            Class::Full => self.extend(Stop::Full, Stage::Closed, cluster),
            // French sets its closing quotes off with a space.
            Class::Close => {
                self.quoted = true;
                self.extend(self.stop, Stage::Closed, cluster)
            }
            Class::Open | Class::Quote | Class::Dash | Class::Ellipsis => {
                self.stage = Stage::Opened;
                self.quoted |= class == Class::Dash;
                None
            }
            Class::Continue => Some(Follow::Refused),
            _ => follow(class).or(Some(Follow::Neutral)),
        }
    }

    fn step_reference(&mut self, cluster: &Cluster<'_>) -> Option<Follow> {
        match cluster.first {
            ']' => self.extend(self.stop, Stage::Closed, cluster),
            '^' | '0'..='9' | ',' | '-' | ' ' => self.look().map(|_| Follow::Refused),
            _ => Some(Follow::Refused),
        }
    }

    /// How long the writer must be silent before this counts as the end of a sentence, if it can be one.
    fn pause(&self, spaced: bool) -> Option<Pause> {
        let spaced = spaced || !matches!(self.stage, Stage::Closed | Stage::Reference);
        let technical = self.technical && !spaced;
        let certain = if spaced && !self.quoted { Pause::None } else { Pause::Short };
        match self.stop {
            _ if self.stage == Stage::InWord => None,
            _ if self.stage == Stage::Reference || technical => Some(Pause::Long),
            Stop::Dot => match self.verdict {
                Verdict::Part => None,
                Verdict::EndBeforeStarter => Some(Pause::Long),
                Verdict::EndUnlessNumber => Some(Pause::Short),
                Verdict::End if !spaced && self.before.is_some_and(char::is_numeric) => Some(Pause::Long),
                Verdict::End => Some(certain),
            },
            Stop::Ellipsis => (!self.before.is_some_and(is_thai)).then_some(Pause::Short),
            Stop::Bang | Stop::Full => Some(certain),
        }
    }

    /// Lets the cut move behind this cluster.
    fn extend(&mut self, stop: Stop, stage: Stage, cluster: &Cluster<'_>) -> Option<Follow> {
        self.stop = self.stop.max(stop);
        self.stage = stage;
        self.at = cluster.end();
        None
    }

    fn look(&mut self) -> Option<Follow> {
        self.looked += 1;
        (self.looked > MAX_LOOK).then_some(Follow::Neutral)
    }
}

fn follow(class: Class) -> Option<Follow> {
    match class {
        Class::Lower => Some(Follow::Lower),
        Class::Upper => Some(Follow::Upper),
        Class::Letter => Some(Follow::Letter),
        Class::Digit => Some(Follow::Digit),
        _ => None,
    }
}

enum Decision {
    Cut,
    Keep,
    /// The next word decides.
    ReadWord,
}

/// Backticks around inline code.
#[derive(Debug, Default)]
struct Code {
    /// Length of the run of backticks that just came.
    run: usize,
    /// Length of the run that opened the code, or 0.
    open: usize,
}

/// Follows prose and marks its sentences and words.
#[derive(Debug)]
pub(super) struct Sentences {
    language: &'static Language,
    pub(super) habits: Habits,
    markdown: bool,
    token: Token,
    pending: Option<Pending>,
    has_word: bool,
    /// Whether the line is one unit, as a row of a table is.
    pub(super) whole: bool,
    code: Code,
    pub(super) words: Option<WordBoundaries>,
    /// The last mark.
    last: u64,
    last_level: Level,
}

impl Sentences {
    pub(super) fn new(language: &'static Language, habits: Habits, markdown: bool) -> Sentences {
        let mut token = Token::default();
        token.restart();
        Sentences {
            language,
            habits,
            markdown,
            token,
            pending: None,
            has_word: false,
            whole: false,
            code: Code::default(),
            words: None,
            last: 0,
            last_level: Level::Cluster,
        }
    }

    /// Takes the next cluster of a line.
    pub(super) fn cluster(&mut self, cluster: Cluster<'_>, class: Class, marks: &mut Vec<Mark>) {
        let in_code = self.markdown && self.is_code(class);
        if let Some(words) = &mut self.words
            && (!in_code || class == Class::Backtick)
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

    /// Starts a line. A level makes a boundary of its start; otherwise it is only a space.
    pub(super) fn line(&mut self, level: Option<Level>, at: u64, marks: &mut Vec<Mark>) {
        self.settle(marks);
        self.code = Code::default();
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
                    pending.stage = Stage::Spaced;
                    pending.at = at;
                    pending.line_ended = !self.markdown;
                }
            }
        }
    }

    /// Ends the text.
    pub(super) fn finish(&mut self, at: u64, marks: &mut Vec<Mark>) {
        self.settle(marks);
        if let Some(words) = &mut self.words {
            words.end_run();
        }
        self.mark(Level::Paragraph, at, marks);
    }

    /// Where the sentence ends if nothing follows. A line that has ended counts as white space up to its end.
    pub(super) fn ending(&self, line_end: Option<u64>) -> Option<Ending> {
        let pending = self.pending.as_ref()?;
        Some(Ending { at: line_end.unwrap_or(pending.at), pause: pending.pause(line_end.is_some())? })
    }

    /// Ends a sentence or a paragraph here, although more may follow.
    pub(super) fn end_at(&mut self, level: Level, at: u64, marks: &mut Vec<Mark>) {
        self.mark(level, at, marks);
        self.pending = None;
        self.restart();
    }

    /// Marks the end of a word that white space has ended.
    pub(super) fn end_word(&mut self, line: Option<u64>, marks: &mut Vec<Mark>) {
        let Some(words) = &mut self.words else { return };
        if let Some(at) = line.or(words.start.take()).filter(|at| *at > self.last) {
            words.found.push(at);
            self.mark_words(u64::MAX, marks);
        }
    }

    /// Whether a mark of this level here would be new.
    pub(super) fn is_after_last(&self, at: u64, level: Level) -> bool {
        at > self.last || (at == self.last && at > 0 && level > self.last_level)
    }

    /// Whether the cluster is inline code. The backtick that opens it is not, so that it can decide
    /// about the sentence before.
    fn is_code(&mut self, class: Class) -> bool {
        if class == Class::Backtick {
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

    /// Lets the cluster decide about the open terminator.
    fn advance(&mut self, cluster: &Cluster<'_>, class: Class, marks: &mut Vec<Mark>) {
        let Some(pending) = &mut self.pending else { return };
        let Some(follow) = pending.step(cluster, class) else { return };
        let pending = *pending;
        self.decide(pending, follow, Some(cluster.first), marks);
    }

    /// Decides what only waits for more letters.
    fn settle(&mut self, marks: &mut Vec<Mark>) {
        match self.pending {
            Some(p) if matches!(p.stage, Stage::Opened | Stage::InWord | Stage::SpacedDot) => {
                self.decide(p, Follow::Neutral, None, marks);
            }
            Some(p) if p.stage == Stage::Reference => self.pending = None,
            _ => {}
        }
    }

    fn decide(&mut self, pending: Pending, follow: Follow, next: Option<char>, marks: &mut Vec<Mark>) {
        match self.decision(&pending, follow, next) {
            Decision::ReadWord => {
                self.pending = Some(Pending { stage: Stage::InWord, looked: 0, ..pending });
                return;
            }
            Decision::Keep => {}
            Decision::Cut => {
                self.mark(Level::Sentence, pending.at, marks);
                if pending.stage == Stage::InWord {
                    self.token.leads = true;
                } else {
                    self.restart();
                }
            }
        }
        self.pending = None;
    }

    fn decision(&self, pending: &Pending, follow: Follow, next: Option<char>) -> Decision {
        let follow = if pending.line_ended && follow == Follow::Lower { Follow::Neutral } else { follow };
        let thai = pending.before.is_some_and(is_thai);
        let cut = match (pending.stop, pending.stage) {
            _ if follow == Follow::Refused => false,
            // Japanese reports speech this way: 「はい。」と言った。
            (Stop::Full, Stage::Closed) if pending.quoted => !matches!(next, Some('と' | 'っ')),
            (Stop::Full, _) => true,
            (Stop::Bang, Stage::Closed | Stage::Reference) => {
                let after_word = pending.quoted || pending.before.is_some_and(char::is_alphanumeric);
                after_word && !pending.technical && matches!(follow, Follow::Upper | Follow::Letter)
            }
            (Stop::Dot, Stage::Closed | Stage::Reference) => {
                follow == Follow::Letter && [pending.before, next].iter().all(|c| c.is_some_and(is_east_asian))
            }
            (Stop::Ellipsis, Stage::Closed | Stage::Reference) => false,
            (Stop::Bang, _) => follow != Follow::Lower || !pending.quoted,
            (Stop::Ellipsis, _) => !matches!(follow, Follow::Lower | Follow::Digit) && !thai,
            (Stop::Dot, _) if follow == Follow::Lower => false,
            (Stop::Dot, stage) => match pending.verdict {
                Verdict::End => true,
                Verdict::Part => false,
                Verdict::EndUnlessNumber => follow != Follow::Digit,
                Verdict::EndBeforeStarter if stage == Stage::InWord => self.token.is_starter(self.language),
                Verdict::EndBeforeStarter if follow == Follow::Upper => return Decision::ReadWord,
                Verdict::EndBeforeStarter => false,
            },
        };
        if cut { Decision::Cut } else { Decision::Keep }
    }

    /// Remembers the cluster as context for what follows.
    fn note(&mut self, cluster: &Cluster<'_>, class: Class) {
        let stop = match class {
            Class::Space => return self.token.next(),
            Class::Transparent => return,
            Class::Dot => Stop::Dot,
            Class::Ellipsis => Stop::Ellipsis,
            Class::Bang => Stop::Bang,
            Class::Full => Stop::Full,
            Class::Lower | Class::Upper | Class::Letter | Class::Digit | Class::Other | Class::Backtick => {
                self.has_word = true;
                return self.token.push(cluster);
            }
            _ => return self.token.push(cluster),
        };
        if self.pending.is_none() && self.has_word && !self.whole {
            self.pending = Some(Pending {
                stop,
                stage: Stage::Closed,
                at: cluster.end(),
                verdict: if stop == Stop::Dot { self.token.verdict(self.language) } else { Verdict::End },
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

    fn mark(&mut self, level: Level, at: u64, marks: &mut Vec<Mark>) {
        self.mark_words(at, marks);
        // A place that was marked early may turn out to be a stronger boundary.
        if self.is_after_last(at, level) {
            self.last = at;
            self.last_level = level;
            marks.push(Mark { at, level });
        }
    }

    /// Marks the words found before this place; those behind it may turn out to be more.
    fn mark_words(&mut self, before: u64, marks: &mut Vec<Mark>) {
        let Some(words) = &mut self.words else { return };
        let count = words.found.partition_point(|at| *at < before);
        for at in words.found.drain(..count) {
            if at > self.last {
                self.last = at;
                self.last_level = Level::Word;
                marks.push(Mark { at, level: Level::Word });
            }
        }
    }
}
