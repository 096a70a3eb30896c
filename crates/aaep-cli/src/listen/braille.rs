//! A braille display beside the terminal: the newest line, windows to the left and right, earlier lines up and down,
//! and typing on the display's own keys.

use std::collections::VecDeque;

use aaep_voice::brlapi::{BrailleConfig, KeyKind, tty_path};
use aaep_voice::{Braille, BrailleError};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::command::LINE;
use super::shell::Typed;

/// Lines that can be gone back to.
const LINES: usize = 200;
/// Lines that may wait for the display.
const WAITING: usize = 256;

/// What the display shows.
#[derive(Debug, Default)]
struct Pane {
    lines: VecDeque<String>,
    /// Which line, counted from the newest.
    back: usize,
    /// The first character that is shown.
    from: usize,
    /// What is being typed.
    typed: String,
}

impl Pane {
    fn push(&mut self, line: String) {
        self.lines.push_back(line);
        if self.lines.len() > LINES {
            self.lines.pop_front();
        }
        // A new line is shown unless the user reads an old one or types.
        if self.back == 0 {
            self.from = 0;
        } else {
            self.back = (self.back + 1).min(self.lines.len() - 1);
        }
    }

    fn current(&self) -> &str {
        let index = self.lines.len().checked_sub(1 + self.back);
        index.and_then(|index| self.lines.get(index)).map_or("", String::as_str)
    }

    /// The window of this many cells.
    fn window(&self, cells: usize) -> String {
        if self.typed.is_empty() {
            return self.current().chars().skip(self.from).take(cells).collect();
        }
        let start = self.typed.chars().count().saturating_sub(cells.saturating_sub(1));
        self.typed.chars().skip(start).collect()
    }

    /// A key; answers a line that was entered.
    fn key(&mut self, key: KeyKind, cells: usize) -> Option<String> {
        let length = self.current().chars().count();
        match key {
            KeyKind::PanRight | KeyKind::Right if self.from + cells < length => self.from += cells,
            KeyKind::PanLeft | KeyKind::Left => self.from = self.from.saturating_sub(cells),
            KeyKind::LineUp | KeyKind::Up if self.back + 1 < self.lines.len() => {
                (self.back, self.from) = (self.back + 1, 0)
            }
            KeyKind::LineDown | KeyKind::Down if self.back > 0 => (self.back, self.from) = (self.back - 1, 0),
            KeyKind::Top => (self.back, self.from) = (self.lines.len().saturating_sub(1), 0),
            KeyKind::Bottom | KeyKind::ToCursor => (self.back, self.from) = (0, 0),
            KeyKind::Backspace => drop(self.typed.pop()),
            KeyKind::Escape => self.typed.clear(),
            KeyKind::Character(c) if self.typed.len() < LINE => self.typed.push(c),
            KeyKind::Enter if !self.typed.is_empty() => return Some(std::mem::take(&mut self.typed)),
            _ => {}
        }
        None
    }
}

/// Takes the display; lines go in, typed lines come out of the sender.
pub(crate) async fn open(typed: mpsc::Sender<Typed>) -> Result<mpsc::Sender<String>, BrailleError> {
    let mut display = Braille::connect(&BrailleConfig::default()).await?;
    let (columns, rows) = display.enter(&tty_path(|name| std::env::var(name).ok())).await?;
    let cells = (columns * rows) as usize;
    let (sender, lines) = mpsc::channel(WAITING);
    tokio::spawn(async move {
        if let Err(error) = show(display, cells, lines, typed).await {
            tracing::warn!(%error, "the braille display is gone");
        }
    });
    Ok(sender)
}

async fn show(
    mut display: Braille,
    cells: usize,
    mut lines: mpsc::Receiver<String>,
    typed: mpsc::Sender<Typed>,
) -> Result<(), BrailleError> {
    let mut pane = Pane::default();
    loop {
        tokio::select! {
            line = lines.recv() => match line {
                Some(line) => pane.push(line),
                None => return display.leave().await,
            },
            key = display.key() => match key {
                Ok(key) => {
                    if let Some(line) = pane.key(key.kind, cells) {
                        // Nobody listens any more if this fails.
                        let _ = typed.send((Instant::now(), Some(line))).await;
                    }
                }
                Err(BrailleError::Refused(_)) => {}
                Err(error) => return Err(error),
            },
        }
        let cursor = u32::try_from(pane.typed.chars().count().min(cells.saturating_sub(1))).ok();
        display.write(&pane.window(cells), cursor.filter(|_| !pane.typed.is_empty())).await?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_and_lines_can_be_walked() {
        let mut pane = Pane::default();
        pane.push("first line".into());
        pane.push("second".into());
        assert_eq!(pane.window(5), "secon");
        pane.key(KeyKind::PanRight, 5);
        assert_eq!(pane.window(5), "d");
        pane.key(KeyKind::PanRight, 5);
        assert_eq!(pane.window(5), "d", "there is nothing further right");
        pane.key(KeyKind::LineUp, 5);
        assert_eq!(pane.window(5), "first");
        pane.push("third".into());
        assert_eq!(pane.window(5), "first", "who reads an old line keeps it");
        pane.key(KeyKind::Bottom, 5);
        assert_eq!(pane.window(5), "third");
    }

    #[test]
    fn words_are_typed_and_entered() {
        let mut pane = Pane::default();
        pane.push("Answer yes or no.".into());
        for c in "yesx".chars() {
            assert_eq!(pane.key(KeyKind::Character(c), 8), None);
        }
        pane.key(KeyKind::Backspace, 8);
        assert_eq!(pane.window(8), "yes");
        assert_eq!(pane.key(KeyKind::Enter, 8).as_deref(), Some("yes"));
        assert_eq!(pane.key(KeyKind::Enter, 8), None, "enter alone answers nothing");
        assert_eq!(pane.window(6), "Answer");
    }
}
