//! Lines: paragraphs, headings, lists, tables, code and diffs. Works on whole text and on streamed text.

use super::code::{CodeBlock, of_media_type};
use super::inline::inline;
use super::table::{Table, is_row};
use super::{SpeechStyle, glyphs, sentence};

/// The most bytes of a line or a paragraph that wait for its end.
const MAX_WAITING_BYTES: usize = 16 * 1024;

/// Speakable text that was released: a paragraph, a row, a heading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SpokenUnit {
    pub(crate) text: String,
    pub(crate) heading: bool,
}

impl From<String> for SpokenUnit {
    fn from(text: String) -> SpokenUnit {
        SpokenUnit { text, heading: false }
    }
}

/// Turns lines into sentences. A block (code, a table, a diff) is released when it has ended.
pub(crate) struct Blocks {
    style: SpeechStyle,
    mode: Mode,
    /// A line that has not ended.
    line: String,
    /// Whether that line began at the start of a line.
    at_start: bool,
    paragraph: String,
}

enum Mode {
    Prose,
    /// Fenced code: the mark of the fence, its length, the code.
    Fence(char, usize, CodeBlock),
    Table(Table),
    Diff(CodeBlock),
    /// The whole text is code.
    Whole(CodeBlock),
}

impl Blocks {
    pub(crate) fn new(content_type: &str, style: SpeechStyle) -> Blocks {
        let markdown = matches!(content_type, "text/markdown" | "text/x-markdown");
        let mode = of_media_type(content_type).map_or(Mode::Prose, |info| Mode::Whole(CodeBlock::new(info)));
        Blocks {
            style: SpeechStyle { markdown, ..style },
            mode,
            line: String::new(),
            at_start: true,
            paragraph: String::new(),
        }
    }

    /// Adds text and releases all of it, apart from blocks that have not ended.
    pub(crate) fn push(&mut self, text: &str, units: &mut Vec<SpokenUnit>) {
        for piece in text.split_inclusive('\n') {
            self.line.push_str(piece);
            if piece.ends_with('\n') || self.line.len() > MAX_WAITING_BYTES {
                self.end_line(units);
                self.at_start = piece.ends_with('\n');
            }
        }
        let is_text = !self.line.is_empty() && !self.line.trim_start().starts_with('|');
        if is_text && matches!(self.mode, Mode::Table(_)) {
            self.leave(units);
        }
        let waits = !matches!(self.mode, Mode::Prose) || (self.at_start && may_begin_block(&self.line));
        if !waits {
            if !self.line.is_empty() {
                self.end_line(units);
                self.at_start = false;
            }
            self.end_paragraph(units);
        }
    }

    /// Releases the rest.
    pub(crate) fn finish(&mut self, units: &mut Vec<SpokenUnit>) {
        if !self.line.is_empty() {
            self.end_line(units);
        }
        self.leave(units);
        self.end_paragraph(units);
        self.at_start = true;
    }

    /// Returns how many bytes wait.
    #[cfg(test)]
    pub(super) fn waiting_bytes(&self) -> usize {
        self.line.len() + self.paragraph.len()
    }

    /// Ends the open block, if there is one, and releases it.
    fn leave(&mut self, units: &mut Vec<SpokenUnit>) {
        let whole = matches!(self.mode, Mode::Whole(_));
        match std::mem::replace(&mut self.mode, Mode::Prose) {
            Mode::Prose => {}
            Mode::Table(table) => table.speak(self.style, units),
            Mode::Fence(_, _, code) | Mode::Diff(code) | Mode::Whole(code) => code.speak(self.style, units),
        }
        if whole {
            self.mode = Mode::Whole(CodeBlock::new(""));
        }
    }

    fn end_line(&mut self, units: &mut Vec<SpokenUnit>) {
        let taken = std::mem::take(&mut self.line);
        let line = glyphs::clean(&without_bullet(taken.trim_end_matches(['\n', '\r'])), self.style.phrases);
        let style = self.style;
        match &mut self.mode {
            Mode::Whole(code) => return code.push_line(&line, style),
            Mode::Fence(mark, length, code) => {
                let trimmed = line.trim();
                let closes = trimmed.len() >= *length && trimmed.chars().all(|c| c == *mark);
                if !closes {
                    return code.push_line(&line, style);
                }
                return self.leave(units);
            }
            Mode::Table(table) if is_row(&line) => return table.push_line(&line),
            Mode::Diff(code) if is_diff_line(&line) => return code.push_line(&line, style),
            Mode::Table(_) | Mode::Diff(_) => self.leave(units),
            Mode::Prose => {}
        }
        self.prose_line(&line, units);
    }

    fn prose_line(&mut self, line: &str, units: &mut Vec<SpokenUnit>) {
        let trimmed = line.trim();
        if !self.at_start {
            return self.add(trimmed, units);
        }
        if trimmed.is_empty() || is_rule(trimmed) {
            return self.end_paragraph(units);
        }
        if let Some((mark, length, info)) = fence(trimmed) {
            self.end_paragraph(units);
            self.mode = Mode::Fence(mark, length, CodeBlock::new(info));
        } else if is_row(trimmed) {
            self.end_paragraph(units);
            let mut table = Table::new();
            table.push_line(trimmed);
            self.mode = Mode::Table(table);
        } else if line.starts_with("diff --git ") || line.starts_with("@@ -") {
            self.end_paragraph(units);
            self.mode = Mode::Diff(CodeBlock::new("diff"));
        } else if let Some(title) = self.heading(trimmed) {
            self.end_paragraph(units);
            self.add(title, units);
            let titles = units.len();
            self.end_paragraph(units);
            units[titles..].iter_mut().for_each(|unit| unit.heading = true);
        } else if let Some((number, item)) = item(trimmed).filter(|_| !self.style.exact) {
            self.end_paragraph(units);
            if let Some(number) = number {
                self.add(&format!("{number}:"), units);
            }
            self.add_item(item, units);
        } else {
            let quoted = if self.style.markdown { trimmed.trim_start_matches(['>', ' ']) } else { trimmed };
            self.add(quoted, units);
        }
    }

    fn heading<'l>(&self, line: &'l str) -> Option<&'l str> {
        let level = line.bytes().take_while(|b| *b == b'#').count();
        let rest = line[level..].strip_prefix(' ').filter(|_| (1..=6).contains(&level))?;
        (!self.style.exact).then(|| rest.trim_end_matches('#').trim())
    }

    fn add_item(&mut self, item: &str, units: &mut Vec<SpokenUnit>) {
        let task = [("[x] ", "glyph-task-done"), ("[X] ", "glyph-task-done"), ("[ ] ", "glyph-task-open")];
        match task.iter().find_map(|(mark, id)| Some((item.strip_prefix(mark)?, id))) {
            Some((rest, id)) => self.add(&format!("{}: {rest}", self.style.phrases.text(id)), units),
            None => self.add(item, units),
        }
    }

    fn add(&mut self, text: &str, units: &mut Vec<SpokenUnit>) {
        if !self.paragraph.is_empty() && !text.is_empty() {
            self.paragraph.push(' ');
        }
        self.paragraph.push_str(text);
        if self.paragraph.len() > MAX_WAITING_BYTES {
            self.end_paragraph(units);
        }
    }

    fn end_paragraph(&mut self, units: &mut Vec<SpokenUnit>) {
        let text = std::mem::take(&mut self.paragraph);
        let said = sentence(&inline(&text, self.style));
        // Marks alone are not spoken.
        if said.chars().any(|c| !c.is_ascii_punctuation() && !c.is_whitespace()) {
            units.push(said.into());
        }
    }
}

/// Returns whether a line that has not ended may start a block.
fn may_begin_block(line: &str) -> bool {
    let line = line.trim_start();
    ["```", "~~~", "|", "diff --git", "@@ -"].iter().any(|start| line.starts_with(start))
        || matches!(line, "`" | "``" | "~" | "~~")
}

fn fence(line: &str) -> Option<(char, usize, &str)> {
    let mark = line.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let length = line.chars().take_while(|c| *c == mark).count();
    let info = &line[length..];
    (length >= 3 && !info.contains('`')).then_some((mark, length, info))
}

/// Returns whether a line is a rule, or underlines a heading.
fn is_rule(line: &str) -> bool {
    let mut marks = line.chars().filter(|c| !c.is_whitespace());
    let first = marks.next().unwrap_or(' ');
    matches!(first, '-' | '=' | '*' | '_' | '~' | '+')
        && line.len() >= 3
        && marks.all(|c| c == first || c == '+' || c == '|')
}

/// Replaces a drawn bullet by a typed one, because drawings are removed next.
fn without_bullet(line: &str) -> std::borrow::Cow<'_, str> {
    let trimmed = line.trim_start();
    let rest = trimmed.strip_prefix(['•', '◦', '‣', '▪', '▸', '►', '●', '○', '■', '▶', '⁃']);
    match rest.filter(|rest| rest.starts_with(char::is_whitespace)) {
        Some(rest) => format!("- {}", rest.trim_start()).into(),
        None => line.into(),
    }
}

/// Returns the item of a list, with its number if it has one.
fn item(line: &str) -> Option<(Option<&str>, &str)> {
    for bullet in ["- ", "* ", "+ ", "– ", "· "] {
        if let Some(rest) = line.strip_prefix(bullet) {
            return Some((None, rest.trim_start()));
        }
    }
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    let rest = line[digits..].strip_prefix(". ").or_else(|| line[digits..].strip_prefix(") "))?;
    (1..=4).contains(&digits).then(|| (Some(&line[..digits]), rest.trim_start()))
}

fn is_diff_line(line: &str) -> bool {
    let starts = ["diff ", "index ", "new file", "deleted file", "similarity ", "rename ", "old mode", "new mode"];
    line.starts_with([' ', '+', '-', '@', '\\']) || starts.iter().any(|s| line.starts_with(s))
}
