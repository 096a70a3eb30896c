//! Tables, row by row with the names of their columns.

use super::inline::inline;
use super::{SpeechStyle, sentence};
use crate::phrases::phrase;

/// The most columns, rows and characters of a cell that are kept.
const COLUMNS: usize = 16;
const ROWS: usize = 50;
const CELL: usize = 300;

/// A table while its rows come in.
pub(super) struct Table {
    header: Option<Vec<String>>,
    rows: Vec<Vec<String>>,
    /// How many rows came, kept or not.
    count: usize,
}

/// Returns whether the line could be a row of a table.
pub(super) fn is_row(line: &str) -> bool {
    let line = line.trim();
    line.len() > 1 && line.starts_with('|') && line[1..].contains('|')
}

impl Table {
    pub(super) fn new() -> Table {
        Table { header: None, rows: Vec::new(), count: 0 }
    }

    pub(super) fn push_line(&mut self, line: &str) {
        let cells = cells(line);
        let is_rule = cells.iter().all(|c| !c.is_empty() && c.chars().all(|c| matches!(c, '-' | ':' | '=')));
        if is_rule {
            // The row above the rule names the columns.
            if self.header.is_none() && self.count == 1 {
                self.header = self.rows.pop();
                self.count = 0;
            }
            return;
        }
        self.count += 1;
        if self.rows.len() < ROWS {
            self.rows.push(cells);
        }
    }

    /// Adds the table as sentences.
    pub(super) fn speak(&self, style: SpeechStyle, units: &mut Vec<super::SpokenUnit>) {
        let columns = self.header.iter().chain(&self.rows).map(Vec::len).max().unwrap_or(0);
        if self.header.is_some() || self.count > 1 {
            units.push(phrase!(style.phrases, "table", columns = columns, rows = self.count).into());
        }
        let most = match style.detail {
            _ if style.exact => ROWS,
            0 => 3,
            1 => 10,
            _ => ROWS,
        };
        for row in self.rows.iter().take(most) {
            let said = sentence(&self.row(row, style));
            if !said.is_empty() {
                units.push(said.into());
            }
        }
        let said = most.min(self.rows.len());
        if self.count > said {
            units.push(phrase!(style.phrases, "table-more", count = self.count - said).into());
        }
    }

    fn row(&self, row: &[String], style: SpeechStyle) -> String {
        let mut parts = Vec::new();
        for (i, cell) in row.iter().enumerate() {
            let value = inline(cell, style);
            if value.is_empty() {
                continue;
            }
            match self.header.as_ref().and_then(|h| h.get(i)).map(|h| inline(h, style)).filter(|h| !h.is_empty()) {
                Some(name) => parts.push(phrase!(style.phrases, "context-entry", name = &name, value = &value)),
                None => parts.push(value),
            }
        }
        parts.join(", ")
    }
}

fn cells(line: &str) -> Vec<String> {
    let line = line.trim();
    let line = line.strip_prefix('|').unwrap_or(line);
    let line = line.strip_suffix('|').unwrap_or(line);
    line.split('|').take(COLUMNS).map(|cell| cell.trim().chars().take(CELL).collect()).collect()
}
