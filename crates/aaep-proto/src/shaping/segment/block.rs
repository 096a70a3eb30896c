//! How lines begin: lists, headings, tables, quotes and fenced code.
//!
//! The first characters of a line are held until they tell what the line is. Indentation is not
//! counted: in streamed Markdown code and lists stand indented below list items far more often than
//! indented code occurs.

use super::class::{Class, Habits, class};
use super::sentence::Ending;
use super::sentence::Sentences;
use super::word::WordBoundaries;
use super::{Cluster, Level, Mark, Pause, Syntax, language};

/// More of a line is not needed to tell what it is.
const MAX_HELD: usize = 128;

/// What the beginning of a line may become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Prefix {
    Indent,
    /// So many of `-`, `*`, `+`.
    Bullet(char, usize),
    Digits(usize),
    /// Digits and `.` or `)`.
    Number,
    Hashes(usize),
    /// So many of `_` or `=`.
    Rule(char, usize),
    /// So many backticks or tildes.
    Ticks(char, usize),
    /// An opening fence and what stands behind it.
    Info(char, usize),
}

/// What a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    Heading,
    Row,
    /// A line across the page, or under a heading.
    Rule,
    /// Code from a fence of so many characters.
    Code(char, usize),
}

/// Where we are in a line of code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CodeLine {
    Indent,
    Ticks(usize),
    /// Spaces behind a closing fence.
    Tail,
    Body,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Prefix(Prefix),
    Text,
    Code { tick: char, len: usize, line: CodeLine },
}

/// What a cluster means for the prefix of a line.
enum Step {
    Skip,
    Hold(Prefix),
    /// The marker of a list item is complete.
    Item,
    Is(Kind),
}

/// The beginning of a line that may have to be read as text.
#[derive(Debug, Default)]
struct Held {
    text: String,
    clusters: Vec<(char, usize)>,
    at: u64,
}

impl Held {
    fn push(&mut self, cluster: &Cluster<'_>) {
        if self.clusters.is_empty() {
            self.at = cluster.at;
        }
        self.text.push_str(cluster.text);
        self.clusters.push((cluster.first, cluster.text.len()));
    }

    fn clear(&mut self) {
        self.text.clear();
        self.clusters.clear();
    }
}

/// Follows the lines and hands their prose on.
#[derive(Debug)]
pub(super) struct Blocks {
    syntax: Syntax,
    state: State,
    held: Held,
    /// The start of the line.
    line: u64,
    /// Whether a blank line stands before this one.
    blank: bool,
    item: bool,
    quoted: bool,
    was_quoted: bool,
    /// Whether the line before this one began a list item.
    was_item: bool,
    previous: Kind,
    /// Whether there was anything but space.
    any: bool,
    sentences: Sentences,
}

impl Blocks {
    pub(super) fn new(syntax: Syntax, primary: &str) -> Blocks {
        let is = |tags: &[&str]| tags.iter().any(|tag| tag.eq_ignore_ascii_case(primary));
        let habits = Habits {
            greek: is(&["el"]),
            inward_quotes: is(&["de", "da", "sl", "hr"]),
            low_quotes: is(&["de", "cs", "sk", "sl", "hr", "sr", "bg", "mk", "is", "lt", "et", "ru", "uk", "be", "ka"]),
            same_quotes: is(&["fi", "sv"]),
        };
        Blocks {
            syntax,
            state: State::Prefix(Prefix::Indent),
            held: Held::default(),
            line: 0,
            blank: false,
            item: false,
            quoted: false,
            was_quoted: false,
            was_item: false,
            previous: Kind::Text,
            any: false,
            sentences: Sentences::new(language::of(primary), habits, syntax == Syntax::Markdown),
        }
    }

    pub(super) fn with_words(&mut self) {
        self.sentences.words = Some(WordBoundaries::new());
    }

    pub(super) fn cluster(&mut self, cluster: Cluster<'_>, marks: &mut Vec<Mark>) {
        let class = class(&cluster, self.sentences.habits);
        self.classified(cluster, class, marks);
    }

    pub(super) fn finish(&mut self, at: u64, marks: &mut Vec<Mark>) {
        if let State::Prefix(prefix) = self.state
            && (prefix != Prefix::Indent || self.item)
        {
            let kind = self.at_line_end(prefix);
            self.resolve(kind, marks);
        }
        self.sentences.finish(at, marks);
    }

    pub(super) fn habits(&self) -> Habits {
        self.sentences.habits
    }

    /// How long the writer must be silent before something could be marked.
    pub(super) fn awaits(&self, end: u64) -> Option<Pause> {
        self.ending(end).map(|(_, ending)| ending.pause)
    }

    /// Marks what is complete if nothing follows for this long.
    pub(super) fn settle(&mut self, end: u64, pause: Pause, marks: &mut Vec<Mark>) {
        if let Some((level, ending)) = self.ending(end)
            && ending.pause <= pause
        {
            self.sentences.end_at(level, ending.at, marks);
        }
        let line = matches!(self.state, State::Prefix(_)).then_some(self.line);
        if !matches!(self.state, State::Code { .. }) {
            self.sentences.end_word(line, marks);
        }
    }

    /// What ends here if nothing follows.
    fn ending(&self, end: u64) -> Option<(Level, Ending)> {
        let ends = |level, at, pause| self.sentences.is_after_last(at, level).then_some((level, Ending { at, pause }));
        match self.state {
            State::Prefix(_) if !self.any => None,
            State::Prefix(_) => {
                let after_block = matches!(self.previous, Kind::Heading | Kind::Rule | Kind::Code(..));
                if self.blank || after_block {
                    ends(Level::Paragraph, self.line, Pause::None)
                } else if self.item || self.previous == Kind::Row {
                    ends(Level::Sentence, self.line, Pause::None)
                } else if self.was_item {
                    ends(Level::Sentence, self.line, Pause::Short)
                } else {
                    let ending = self.sentences.ending(Some(self.line))?;
                    ends(Level::Sentence, ending.at, ending.pause)
                }
            }
            State::Text => self.sentences.ending(None).map(|ending| (Level::Sentence, ending)),
            State::Code { len, line: CodeLine::Ticks(n), .. } if n >= len => ends(Level::Paragraph, end, Pause::Short),
            State::Code { line: CodeLine::Tail, .. } => ends(Level::Paragraph, end, Pause::Short),
            State::Code { .. } => None,
        }
    }

    fn classified(&mut self, cluster: Cluster<'_>, class: Class, marks: &mut Vec<Mark>) {
        match self.state {
            State::Text if class == Class::Newline => self.end_line(&cluster),
            State::Text => self.sentences.cluster(cluster, class, marks),
            State::Prefix(prefix) if class == Class::Newline => self.newline(prefix, &cluster, marks),
            State::Prefix(prefix) => self.prefix(prefix, cluster, class, marks),
            State::Code { tick, len, line } => self.code(&cluster, class, (tick, len), line),
        }
    }

    fn end_line(&mut self, newline: &Cluster<'_>) {
        self.was_quoted = self.quoted;
        self.was_item = self.item;
        self.start_line(newline);
        self.blank = newline.first == '\u{2029}';
    }

    fn start_line(&mut self, newline: &Cluster<'_>) {
        self.state = State::Prefix(Prefix::Indent);
        self.line = newline.end();
        self.item = false;
        self.quoted = false;
        self.held.clear();
    }

    fn prefix(&mut self, prefix: Prefix, cluster: Cluster<'_>, class: Class, marks: &mut Vec<Mark>) {
        let step = match class {
            Class::Transparent if prefix == Prefix::Indent => Step::Skip,
            Class::Transparent => Step::Hold(prefix),
            _ if prefix == Prefix::Indent && cluster.first == '>' && self.syntax == Syntax::Markdown => {
                self.quoted = true;
                Step::Skip
            }
            _ => self.step(prefix, cluster.first, class),
        };
        let kind = match step {
            Step::Skip => return,
            Step::Hold(next) if self.held.text.len() + cluster.text.len() <= MAX_HELD => {
                self.held.push(&cluster);
                self.state = State::Prefix(next);
                return;
            }
            Step::Hold(Prefix::Info(tick, len) | Prefix::Ticks(tick, len)) if len >= 3 => Kind::Code(tick, len),
            Step::Hold(_) => Kind::Text,
            Step::Item => {
                self.item = true;
                self.held.clear();
                self.state = State::Prefix(Prefix::Indent);
                return;
            }
            Step::Is(kind) => kind,
        };
        self.resolve(kind, marks);
        if kind != Kind::Heading {
            self.classified(cluster, class, marks);
        }
    }

    fn step(&self, prefix: Prefix, c: char, class: Class) -> Step {
        let space = class == Class::Space;
        match prefix {
            Prefix::Indent if space => Step::Skip,
            Prefix::Indent => self.step_indent(c, class),
            Prefix::Bullet(_, 1) if space => Step::Item,
            Prefix::Bullet(bullet, n) if n >= 3 && space => Step::Hold(Prefix::Bullet(bullet, n)),
            Prefix::Bullet(bullet, n) if c == bullet && self.syntax == Syntax::Markdown => {
                Step::Hold(Prefix::Bullet(bullet, n + 1))
            }
            // A year at the start of a line is no list number.
            Prefix::Digits(n) if class == Class::Digit && n < 3 => Step::Hold(Prefix::Digits(n + 1)),
            Prefix::Digits(_) if c == '.' || c == ')' => Step::Hold(Prefix::Number),
            Prefix::Number if space => Step::Item,
            Prefix::Hashes(n) if c == '#' && n < 6 => Step::Hold(Prefix::Hashes(n + 1)),
            Prefix::Hashes(_) if space => Step::Is(Kind::Heading),
            Prefix::Rule(rule, n) if c == rule => Step::Hold(Prefix::Rule(rule, n + 1)),
            Prefix::Rule(..) if space => Step::Hold(prefix),
            Prefix::Ticks(tick, n) if c == tick => Step::Hold(Prefix::Ticks(tick, n + 1)),
            Prefix::Ticks(tick, n) if n >= 3 => Step::Hold(Prefix::Info(tick, n)),
            // A backtick behind the fence: it was inline code.
            Prefix::Info('`', _) if c == '`' => Step::Is(Kind::Text),
            Prefix::Info(..) => Step::Hold(prefix),
            _ => Step::Is(Kind::Text),
        }
    }

    fn step_indent(&self, c: char, class: Class) -> Step {
        let markdown = self.syntax == Syntax::Markdown;
        match c {
            // An emoji that begins with an asterisk.
            '*' if class == Class::Other => Step::Is(Kind::Text),
            '-' | '*' | '+' | '–' => Step::Hold(Prefix::Bullet(c, 1)),
            '•' | '‣' | '◦' | '▪' | '●' | '⁃' => Step::Item,
            '0'..='9' if class == Class::Digit => Step::Hold(Prefix::Digits(1)),
            '#' if markdown => Step::Hold(Prefix::Hashes(1)),
            '_' | '=' if markdown => Step::Hold(Prefix::Rule(c, 1)),
            '`' | '~' if markdown => Step::Hold(Prefix::Ticks(c, 1)),
            '|' if markdown => Step::Is(Kind::Row),
            _ => Step::Is(Kind::Text),
        }
    }

    fn newline(&mut self, prefix: Prefix, newline: &Cluster<'_>, marks: &mut Vec<Mark>) {
        if prefix == Prefix::Indent && !self.item {
            self.start_line(newline);
            self.blank = true;
            return;
        }
        let kind = self.at_line_end(prefix);
        self.resolve(kind, marks);
        match &mut self.state {
            State::Code { line, .. } => *line = CodeLine::Indent,
            _ => self.end_line(newline),
        }
    }

    /// What the line is if nothing follows.
    fn at_line_end(&mut self, prefix: Prefix) -> Kind {
        match prefix {
            Prefix::Bullet('-' | '*' | '+', 1) => {
                self.item = true;
                self.held.clear();
                Kind::Text
            }
            Prefix::Bullet('-' | '*', 3..) | Prefix::Rule(_, 3..) => Kind::Rule,
            Prefix::Hashes(_) => Kind::Heading,
            Prefix::Ticks(tick, len @ 3..) | Prefix::Info(tick, len) => Kind::Code(tick, len),
            _ => Kind::Text,
        }
    }

    /// The line is known: makes the boundary before it and reads what was held.
    fn resolve(&mut self, kind: Kind, marks: &mut Vec<Mark>) {
        if self.any {
            self.sentences.line(self.level(kind), self.line, marks);
        }
        self.any = true;
        self.blank = false;
        self.previous = kind;
        self.sentences.whole = kind == Kind::Row;
        self.state = match kind {
            Kind::Code(tick, len) => State::Code { tick, len, line: CodeLine::Body },
            _ => State::Text,
        };
        let mut held = std::mem::take(&mut self.held);
        if kind == Kind::Text {
            let (mut start, mut at) = (0, held.at);
            for &(first, len) in &held.clusters {
                let cluster = Cluster { first, at, text: &held.text[start..start + len] };
                let class = class(&cluster, self.sentences.habits);
                self.sentences.cluster(cluster, class, marks);
                start += len;
                at = cluster.end();
            }
        }
        held.clear();
        self.held = held;
    }

    /// The boundary before a line.
    fn level(&self, kind: Kind) -> Option<Level> {
        let after_block = matches!(self.previous, Kind::Heading | Kind::Rule | Kind::Code(..));
        let block = matches!(kind, Kind::Heading | Kind::Code(..));
        if self.blank || after_block || block || (self.quoted && !self.was_quoted) {
            Some(Level::Paragraph)
        } else if self.item || kind == Kind::Row || self.previous == Kind::Row {
            Some(Level::Sentence)
        } else {
            None
        }
    }

    /// Looks for the end of code; nothing else in it matters.
    fn code(&mut self, cluster: &Cluster<'_>, class: Class, fence: (char, usize), line: CodeLine) {
        let (tick, len) = fence;
        let closes = |n: usize| n >= len;
        let line = match line {
            CodeLine::Tail if class == Class::Newline => return self.end_line(cluster),
            CodeLine::Ticks(n) if class == Class::Newline && closes(n) => return self.end_line(cluster),
            _ if class == Class::Newline => CodeLine::Indent,
            _ if class == Class::Transparent => line,
            CodeLine::Indent if class == Class::Space => CodeLine::Indent,
            CodeLine::Indent if cluster.first == '>' && self.quoted => CodeLine::Indent,
            CodeLine::Indent if cluster.first == tick => CodeLine::Ticks(1),
            CodeLine::Ticks(n) if cluster.first == tick => CodeLine::Ticks(n + 1),
            CodeLine::Ticks(n) if class == Class::Space && closes(n) => CodeLine::Tail,
            CodeLine::Tail if class == Class::Space => CodeLine::Tail,
            _ => CodeLine::Body,
        };
        self.state = State::Code { tick, len, line };
    }
}
