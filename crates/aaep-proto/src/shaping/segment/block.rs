//! Detects the kind of each line: list item, heading, table row, quote, fenced code.
//!
//! The first characters of a line are buffered until the kind of the line is known. Indentation is ignored: in streamed
//! Markdown, fenced code and lists that are indented below list items are far more common than indented code.

use super::class::{CharClass, ScriptRules, class};
use super::sentence::SentenceEnd;
use super::sentence::Sentences;
use super::word::WordBoundaries;
use super::{BoundaryLevel, BoundaryMark, Cluster, Syntax, WriterPause, language};

/// The kind of a line is known after at most this many bytes.
const MAX_HELD: usize = 128;

/// The start of a line whose kind is not known yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LinePrefix {
    Indent,
    /// A run of `-`, `*` or `+`, and its length.
    Bullet(char, usize),
    Digits(usize),
    /// Digits and `.` or `)`.
    Number,
    Hashes(usize),
    /// A run of `_` or `=`, and its length.
    Rule(char, usize),
    /// A run of backticks or tildes, and its length.
    Ticks(char, usize),
    /// The info string after an opening fence, and the length of the fence.
    Info(char, usize),
}

/// The kind of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BlockLine {
    Text,
    Heading,
    Row,
    /// A thematic break or the underline of a heading.
    Rule,
    /// Code after a fence with this character and length.
    Code(char, usize),
}

/// The position in a line of code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CodeLine {
    Indent,
    Ticks(usize),
    /// Spaces after a closing fence.
    Tail,
    Body,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BlockState {
    Prefix(LinePrefix),
    Text,
    Code { tick: char, len: usize, line: CodeLine },
}

/// The effect of a cluster on the prefix of a line.
enum PrefixStep {
    Skip,
    Hold(LinePrefix),
    /// The marker of a list item is complete.
    Item,
    Is(BlockLine),
}

/// The buffered start of a line, which is processed as text if the line is not of another kind.
#[derive(Debug, Default)]
struct QueuedPrefix {
    text: String,
    clusters: Vec<(char, usize)>,
    at: u64,
}

impl QueuedPrefix {
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

/// Tracks the kind of each line and passes its text to the sentence step.
#[derive(Debug)]
pub(super) struct BlockTracker {
    syntax: Syntax,
    state: BlockState,
    held: QueuedPrefix,
    /// The byte offset of the start of the line.
    line: u64,
    /// Whether the line before this one is blank.
    blank: bool,
    item: bool,
    quoted: bool,
    was_quoted: bool,
    /// Whether the line before this one started a list item.
    was_item: bool,
    previous: BlockLine,
    /// Whether any text other than white space was processed.
    any: bool,
    sentences: Sentences,
}

impl BlockTracker {
    pub(super) fn new(syntax: Syntax, primary: &str) -> BlockTracker {
        let is = |tags: &[&str]| tags.iter().any(|tag| tag.eq_ignore_ascii_case(primary));
        let habits = ScriptRules {
            greek: is(&["el"]),
            inward_quotes: is(&["de", "da", "sl", "hr"]),
            low_quotes: is(&["de", "cs", "sk", "sl", "hr", "sr", "bg", "mk", "is", "lt", "et", "ru", "uk", "be", "ka"]),
            same_quotes: is(&["fi", "sv"]),
        };
        BlockTracker {
            syntax,
            state: BlockState::Prefix(LinePrefix::Indent),
            held: QueuedPrefix::default(),
            line: 0,
            blank: false,
            item: false,
            quoted: false,
            was_quoted: false,
            was_item: false,
            previous: BlockLine::Text,
            any: false,
            sentences: Sentences::new(language::of(primary), habits, syntax == Syntax::Markdown),
        }
    }

    pub(super) fn with_words(&mut self) {
        self.sentences.words = Some(WordBoundaries::new());
    }

    pub(super) fn cluster(&mut self, cluster: Cluster<'_>, marks: &mut Vec<BoundaryMark>) {
        let class = class(&cluster, self.sentences.habits);
        self.classified(cluster, class, marks);
    }

    pub(super) fn finish(&mut self, at: u64, marks: &mut Vec<BoundaryMark>) {
        if let BlockState::Prefix(prefix) = self.state
            && (prefix != LinePrefix::Indent || self.item)
        {
            let kind = self.at_line_end(prefix);
            self.resolve(kind, marks);
        }
        self.sentences.finish(at, marks);
    }

    pub(super) fn habits(&self) -> ScriptRules {
        self.sentences.habits
    }

    /// Returns the pause after which a boundary could be marked, or `None` if none could.
    pub(super) fn awaits(&self, end: u64) -> Option<WriterPause> {
        self.ending(end).map(|(_, ending)| ending.pause)
    }

    /// Marks the boundaries that are certain after the writer paused this long.
    pub(super) fn settle(&mut self, end: u64, pause: WriterPause, marks: &mut Vec<BoundaryMark>) {
        if let Some((level, ending)) = self.ending(end)
            && ending.pause <= pause
        {
            self.sentences.end_at(level, ending.at, marks);
        }
        let line = matches!(self.state, BlockState::Prefix(_)).then_some(self.line);
        if !matches!(self.state, BlockState::Code { .. }) {
            self.sentences.end_word(line, marks);
        }
    }

    /// Returns the boundary at the end of the text so far if nothing follows.
    fn ending(&self, end: u64) -> Option<(BoundaryLevel, SentenceEnd)> {
        let ends =
            |level, at, pause| self.sentences.is_after_last(at, level).then_some((level, SentenceEnd { at, pause }));
        match self.state {
            BlockState::Prefix(_) if !self.any => None,
            BlockState::Prefix(_) => {
                let after_block = matches!(self.previous, BlockLine::Heading | BlockLine::Rule | BlockLine::Code(..));
                if self.blank || after_block {
                    ends(BoundaryLevel::Paragraph, self.line, WriterPause::None)
                } else if self.item || self.previous == BlockLine::Row {
                    ends(BoundaryLevel::Sentence, self.line, WriterPause::None)
                } else if self.was_item {
                    ends(BoundaryLevel::Sentence, self.line, WriterPause::Short)
                } else {
                    let ending = self.sentences.ending(Some(self.line))?;
                    ends(BoundaryLevel::Sentence, ending.at, ending.pause)
                }
            }
            BlockState::Text => self.sentences.ending(None).map(|ending| (BoundaryLevel::Sentence, ending)),
            BlockState::Code { len, line: CodeLine::Ticks(n), .. } if n >= len => {
                ends(BoundaryLevel::Paragraph, end, WriterPause::Short)
            }
            BlockState::Code { line: CodeLine::Tail, .. } => ends(BoundaryLevel::Paragraph, end, WriterPause::Short),
            BlockState::Code { .. } => None,
        }
    }

    fn classified(&mut self, cluster: Cluster<'_>, class: CharClass, marks: &mut Vec<BoundaryMark>) {
        match self.state {
            BlockState::Text if class == CharClass::Newline => self.end_line(&cluster),
            BlockState::Text => self.sentences.cluster(cluster, class, marks),
            BlockState::Prefix(prefix) if class == CharClass::Newline => self.newline(prefix, &cluster, marks),
            BlockState::Prefix(prefix) => self.prefix(prefix, cluster, class, marks),
            BlockState::Code { tick, len, line } => self.code(&cluster, class, (tick, len), line),
        }
    }

    fn end_line(&mut self, newline: &Cluster<'_>) {
        self.was_quoted = self.quoted;
        self.was_item = self.item;
        self.start_line(newline);
        self.blank = newline.first == '\u{2029}';
    }

    fn start_line(&mut self, newline: &Cluster<'_>) {
        self.state = BlockState::Prefix(LinePrefix::Indent);
        self.line = newline.end();
        self.item = false;
        self.quoted = false;
        self.held.clear();
    }

    fn prefix(&mut self, prefix: LinePrefix, cluster: Cluster<'_>, class: CharClass, marks: &mut Vec<BoundaryMark>) {
        let step = match class {
            CharClass::Transparent if prefix == LinePrefix::Indent => PrefixStep::Skip,
            CharClass::Transparent => PrefixStep::Hold(prefix),
            _ if prefix == LinePrefix::Indent && cluster.first == '>' && self.syntax == Syntax::Markdown => {
                self.quoted = true;
                PrefixStep::Skip
            }
            _ => self.step(prefix, cluster.first, class),
        };
        let kind = match step {
            PrefixStep::Skip => return,
            PrefixStep::Hold(next) if self.held.text.len() + cluster.text.len() <= MAX_HELD => {
                self.held.push(&cluster);
                self.state = BlockState::Prefix(next);
                return;
            }
            PrefixStep::Hold(LinePrefix::Info(tick, len) | LinePrefix::Ticks(tick, len)) if len >= 3 => {
                BlockLine::Code(tick, len)
            }
            PrefixStep::Hold(_) => BlockLine::Text,
            PrefixStep::Item => {
                self.item = true;
                self.held.clear();
                self.state = BlockState::Prefix(LinePrefix::Indent);
                return;
            }
            PrefixStep::Is(kind) => kind,
        };
        self.resolve(kind, marks);
        if kind != BlockLine::Heading {
            self.classified(cluster, class, marks);
        }
    }

    fn step(&self, prefix: LinePrefix, c: char, class: CharClass) -> PrefixStep {
        let space = class == CharClass::Space;
        match prefix {
            LinePrefix::Indent if space => PrefixStep::Skip,
            LinePrefix::Indent => self.step_indent(c, class),
            LinePrefix::Bullet(_, 1) if space => PrefixStep::Item,
            LinePrefix::Bullet(bullet, n) if n >= 3 && space => PrefixStep::Hold(LinePrefix::Bullet(bullet, n)),
            LinePrefix::Bullet(bullet, n) if c == bullet && self.syntax == Syntax::Markdown => {
                PrefixStep::Hold(LinePrefix::Bullet(bullet, n + 1))
            }
            // Four digits are a year, not the number of a list item.
            LinePrefix::Digits(n) if class == CharClass::Digit && n < 3 => PrefixStep::Hold(LinePrefix::Digits(n + 1)),
            LinePrefix::Digits(_) if c == '.' || c == ')' => PrefixStep::Hold(LinePrefix::Number),
            LinePrefix::Number if space => PrefixStep::Item,
            LinePrefix::Hashes(n) if c == '#' && n < 6 => PrefixStep::Hold(LinePrefix::Hashes(n + 1)),
            LinePrefix::Hashes(_) if space => PrefixStep::Is(BlockLine::Heading),
            LinePrefix::Rule(rule, n) if c == rule => PrefixStep::Hold(LinePrefix::Rule(rule, n + 1)),
            LinePrefix::Rule(..) if space => PrefixStep::Hold(prefix),
            LinePrefix::Ticks(tick, n) if c == tick => PrefixStep::Hold(LinePrefix::Ticks(tick, n + 1)),
            LinePrefix::Ticks(tick, n) if n >= 3 => PrefixStep::Hold(LinePrefix::Info(tick, n)),
            // With another backtick on the line, it is inline code.
            LinePrefix::Info('`', _) if c == '`' => PrefixStep::Is(BlockLine::Text),
            LinePrefix::Info(..) => PrefixStep::Hold(prefix),
            _ => PrefixStep::Is(BlockLine::Text),
        }
    }

    fn step_indent(&self, c: char, class: CharClass) -> PrefixStep {
        let markdown = self.syntax == Syntax::Markdown;
        match c {
            // An emoji that begins with an asterisk.
            '*' if class == CharClass::Other => PrefixStep::Is(BlockLine::Text),
            '-' | '*' | '+' | '–' => PrefixStep::Hold(LinePrefix::Bullet(c, 1)),
            '•' | '‣' | '◦' | '▪' | '●' | '⁃' => PrefixStep::Item,
            '0'..='9' if class == CharClass::Digit => PrefixStep::Hold(LinePrefix::Digits(1)),
            '#' if markdown => PrefixStep::Hold(LinePrefix::Hashes(1)),
            '_' | '=' if markdown => PrefixStep::Hold(LinePrefix::Rule(c, 1)),
            '`' | '~' if markdown => PrefixStep::Hold(LinePrefix::Ticks(c, 1)),
            '|' if markdown => PrefixStep::Is(BlockLine::Row),
            _ => PrefixStep::Is(BlockLine::Text),
        }
    }

    fn newline(&mut self, prefix: LinePrefix, newline: &Cluster<'_>, marks: &mut Vec<BoundaryMark>) {
        if prefix == LinePrefix::Indent && !self.item {
            self.start_line(newline);
            self.blank = true;
            return;
        }
        let kind = self.at_line_end(prefix);
        self.resolve(kind, marks);
        match &mut self.state {
            BlockState::Code { line, .. } => *line = CodeLine::Indent,
            _ => self.end_line(newline),
        }
    }

    /// Returns the kind of the line if it ends here.
    fn at_line_end(&mut self, prefix: LinePrefix) -> BlockLine {
        match prefix {
            LinePrefix::Bullet('-' | '*' | '+', 1) => {
                self.item = true;
                self.held.clear();
                BlockLine::Text
            }
            LinePrefix::Bullet('-' | '*', 3..) | LinePrefix::Rule(_, 3..) => BlockLine::Rule,
            LinePrefix::Hashes(_) => BlockLine::Heading,
            LinePrefix::Ticks(tick, len @ 3..) | LinePrefix::Info(tick, len) => BlockLine::Code(tick, len),
            _ => BlockLine::Text,
        }
    }

    /// Sets the kind of the line: marks the boundary before it and processes the buffered prefix.
    fn resolve(&mut self, kind: BlockLine, marks: &mut Vec<BoundaryMark>) {
        if self.any {
            self.sentences.line(self.level(kind), self.line, marks);
        }
        self.any = true;
        self.blank = false;
        self.previous = kind;
        self.sentences.whole = kind == BlockLine::Row;
        self.state = match kind {
            BlockLine::Code(tick, len) => BlockState::Code { tick, len, line: CodeLine::Body },
            _ => BlockState::Text,
        };
        let mut held = std::mem::take(&mut self.held);
        if kind == BlockLine::Text {
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

    /// Returns the level of the boundary before a line of this kind, or `None` if there is none.
    fn level(&self, kind: BlockLine) -> Option<BoundaryLevel> {
        let after_block = matches!(self.previous, BlockLine::Heading | BlockLine::Rule | BlockLine::Code(..));
        let block = matches!(kind, BlockLine::Heading | BlockLine::Code(..));
        if self.blank || after_block || block || (self.quoted && !self.was_quoted) {
            Some(BoundaryLevel::Paragraph)
        } else if self.item || kind == BlockLine::Row || self.previous == BlockLine::Row {
            Some(BoundaryLevel::Sentence)
        } else {
            None
        }
    }

    /// Processes a cluster of code. Only the closing fence is recognized.
    fn code(&mut self, cluster: &Cluster<'_>, class: CharClass, fence: (char, usize), line: CodeLine) {
        let (tick, len) = fence;
        let closes = |n: usize| n >= len;
        let line = match line {
            CodeLine::Tail if class == CharClass::Newline => return self.end_line(cluster),
            CodeLine::Ticks(n) if class == CharClass::Newline && closes(n) => return self.end_line(cluster),
            _ if class == CharClass::Newline => CodeLine::Indent,
            _ if class == CharClass::Transparent => line,
            CodeLine::Indent if class == CharClass::Space => CodeLine::Indent,
            CodeLine::Indent if cluster.first == '>' && self.quoted => CodeLine::Indent,
            CodeLine::Indent if cluster.first == tick => CodeLine::Ticks(1),
            CodeLine::Ticks(n) if cluster.first == tick => CodeLine::Ticks(n + 1),
            CodeLine::Ticks(n) if class == CharClass::Space && closes(n) => CodeLine::Tail,
            CodeLine::Tail if class == CharClass::Space => CodeLine::Tail,
            _ => CodeLine::Body,
        };
        self.state = BlockState::Code { tick, len, line };
    }
}
