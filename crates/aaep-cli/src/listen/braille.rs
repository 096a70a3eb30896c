//! A braille display beside the terminal: it shows the newest line, its keys pan within a line and move to earlier lines,
//! and its keyboard enters lines. Important lines are shown at once and stay until the user moves on, because fingers
//! read slower than lines come.

use std::collections::VecDeque;

use aaep_announce::Priority;
use aaep_listen::{Line, LineKind, MAX_LINE_BYTES};
use aaep_voice::brlapi::{BrailleConfig, KeyKind, tty_path};
use aaep_voice::{Braille, BrailleError};
use tokio::sync::mpsc;

use super::keyboard::KeyboardInput;

/// The most lines that the user can go back.
const MAX_LINES: usize = 200;
/// The most lines that may wait for the display.
const MAX_WAITING_LINES: usize = 256;

/// The text of a line, and the question that it belongs to.
#[derive(Debug)]
struct BrailleLine {
    text: String,
    number: Option<u32>,
}

/// The lines of the display and the window that it shows of them.
#[derive(Debug, Default)]
struct BrailleView {
    lines: VecDeque<BrailleLine>,
    /// The line that is shown, counted back from the newest.
    back: usize,
    /// The first character of it that is shown.
    offset: usize,
    /// Whether the line stays until the user moves on.
    pinned: bool,
    /// The line that the user is typing.
    typed: String,
}

impl BrailleView {
    fn push(&mut self, line: &Line) {
        let important = line.utterance.as_ref().is_some_and(|u| u.priority == Priority::Important);
        // A user who reads about a question must see that it has ended.
        let ended =
            line.kind == LineKind::Answer && self.current().is_some_and(|current| current.number == line.number);
        let follows = important || ended || (self.back == 0 && !self.pinned);
        self.lines.push_back(BrailleLine { text: line.to_text(), number: line.number });
        if self.lines.len() > MAX_LINES {
            self.lines.pop_front();
        }
        if follows {
            self.newest();
            self.pinned = important;
        } else {
            self.back = (self.back + 1).min(self.lines.len() - 1);
        }
    }

    fn newest(&mut self) {
        (self.back, self.offset, self.pinned) = (0, 0, false);
    }

    fn current(&self) -> Option<&BrailleLine> {
        let index = self.lines.len().checked_sub(1 + self.back)?;
        self.lines.get(index)
    }

    fn text(&self) -> &str {
        self.current().map_or("", |line| &line.text)
    }

    /// Returns the text for this many cells.
    fn window(&self, cells: usize) -> String {
        if self.typed.is_empty() {
            return self.text().chars().skip(self.offset).take(cells).collect();
        }
        let start = self.typed.chars().count().saturating_sub(cells.saturating_sub(1));
        self.typed.chars().skip(start).collect()
    }

    /// Returns the cell of the cursor while the user types.
    fn cursor(&self, cells: usize) -> Option<u32> {
        if self.typed.is_empty() {
            return None;
        }
        u32::try_from(self.typed.chars().count().min(cells.saturating_sub(1))).ok()
    }

    /// Handles a key, and returns the line if it was entered.
    fn handle_key(&mut self, key: KeyKind, cells: usize) -> Option<String> {
        let length = self.text().chars().count();
        match key {
            KeyKind::PanRight | KeyKind::Right if self.offset + cells < length => self.offset += cells,
            KeyKind::PanLeft | KeyKind::Left => self.offset = self.offset.saturating_sub(cells),
            KeyKind::LineUp | KeyKind::Up if self.back + 1 < self.lines.len() => {
                (self.back, self.offset) = (self.back + 1, 0)
            }
            KeyKind::LineDown | KeyKind::Down if self.back > 0 => {
                (self.back, self.offset, self.pinned) = (self.back - 1, 0, false)
            }
            KeyKind::Top => (self.back, self.offset) = (self.lines.len().saturating_sub(1), 0),
            KeyKind::Bottom | KeyKind::ToCursor => self.newest(),
            KeyKind::Backspace => drop(self.typed.pop()),
            KeyKind::Escape => self.typed.clear(),
            KeyKind::Character(c) if self.typed.len() < MAX_LINE_BYTES => self.typed.push(c),
            KeyKind::Enter if !self.typed.is_empty() => {
                // The response to it comes as the newest line.
                self.newest();
                return Some(std::mem::take(&mut self.typed));
            }
            _ => {}
        }
        None
    }
}

/// Opens the display. Lines to show go into the returned sender; entered lines go into `keyboard`.
pub(crate) async fn open(keyboard: mpsc::Sender<KeyboardInput>) -> Result<mpsc::Sender<Line>, BrailleError> {
    let mut display = Braille::connect(&BrailleConfig::default()).await?;
    let (columns, rows) = display.enter_tty_mode(&tty_path(|name| std::env::var(name).ok())).await?;
    let cells = (columns * rows) as usize;
    let (sender, lines) = mpsc::channel(MAX_WAITING_LINES);
    tokio::spawn(async move {
        if let Err(error) = run(display, cells, lines, keyboard).await {
            tracing::warn!(%error, "braille display lost");
        }
    });
    Ok(sender)
}

async fn run(
    mut display: Braille,
    cells: usize,
    mut lines: mpsc::Receiver<Line>,
    keyboard: mpsc::Sender<KeyboardInput>,
) -> Result<(), BrailleError> {
    let mut view = BrailleView::default();
    loop {
        tokio::select! {
            line = lines.recv() => match line {
                Some(line) => view.push(&line),
                None => return display.leave().await,
            },
            key = display.key() => match key {
                Ok(key) => {
                    if let Some(line) = view.handle_key(key.kind, cells) {
                        // If this fails the program is about to end.
                        let _ = keyboard.send(KeyboardInput::line(line)).await;
                    }
                }
                Err(BrailleError::Refused(_)) => {}
                Err(error) => return Err(error),
            },
        }
        display.write(&view.window(cells), view.cursor(cells)).await?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aaep_announce::Utterance;

    fn view_of(lines: &[&str]) -> BrailleView {
        let mut view = BrailleView::default();
        lines.iter().for_each(|line| view.push(&Line::new(LineKind::Note, *line)));
        view
    }

    /// A line about a question.
    fn question_line(kind: LineKind, number: u32, text: &str, priority: Priority) -> Line {
        let utterance = Some(Utterance::new(text, "en", priority));
        Line { number: Some(number), utterance, ..Line::new(kind, text) }
    }

    #[test]
    fn keys_pan_and_move_between_lines() {
        let mut view = view_of(&["first line", "second"]);
        assert_eq!(view.window(8), "Note: se");
        view.handle_key(KeyKind::PanRight, 8);
        assert_eq!(view.window(8), "cond");
        view.handle_key(KeyKind::PanRight, 8);
        assert_eq!(view.window(8), "cond", "there is nothing further right");
        view.handle_key(KeyKind::LineUp, 8);
        assert_eq!(view.window(8), "Note: fi");
        view.push(&Line::new(LineKind::Note, "third"));
        assert_eq!(view.window(8), "Note: fi", "an old line that is read stays");
        view.handle_key(KeyKind::Bottom, 8);
        assert_eq!(view.window(8), "Note: th");
    }

    #[test]
    fn line_is_typed_and_entered() {
        let mut view = view_of(&["Answer yes or no.", "x"]);
        view.handle_key(KeyKind::LineUp, 8);
        for c in "yesx".chars() {
            assert_eq!(view.handle_key(KeyKind::Character(c), 8), None);
        }
        view.handle_key(KeyKind::Backspace, 8);
        assert_eq!(view.window(8), "yes");
        assert_eq!(view.handle_key(KeyKind::Enter, 8).as_deref(), Some("yes"));
        assert_eq!(view.handle_key(KeyKind::Enter, 8), None, "enter alone answers nothing");
        assert_eq!(view.window(8), "Note: x", "after an answer, the newest line is shown");
    }

    #[test]
    fn question_is_shown_at_once_and_stays_until_the_user_moves_on() {
        let mut view = view_of(&["first", "second"]);
        view.handle_key(KeyKind::LineUp, 40);
        view.push(&question_line(LineKind::Question, 1, "Pay?", Priority::Important));
        assert_eq!(view.window(40), "Question 1: Pay?");
        view.push(&question_line(LineKind::Question, 1, "Answer yes or no.", Priority::Message));
        view.push(&Line::new(LineKind::Note, "third"));
        assert_eq!(view.window(40), "Question 1: Pay?", "later lines do not replace it");
        view.handle_key(KeyKind::LineDown, 40);
        assert_eq!(view.window(40), "Question 1: Answer yes or no.");
        view.handle_key(KeyKind::LineDown, 40);
        view.push(&Line::new(LineKind::Note, "fourth"));
        assert_eq!(view.window(40), "Note: fourth", "the view follows the newest line again");
    }

    #[test]
    fn end_of_the_question_that_is_shown_is_shown_at_once() {
        let mut view = BrailleView::default();
        view.push(&question_line(LineKind::Question, 1, "Pay?", Priority::Important));
        view.push(&question_line(LineKind::Question, 1, "Answer yes or no.", Priority::Message));
        view.push(&question_line(LineKind::Answer, 2, "Answered elsewhere.", Priority::Message));
        assert_eq!(view.window(40), "Question 1: Pay?", "another question has ended");
        view.push(&question_line(LineKind::Answer, 1, "Answered elsewhere.", Priority::Message));
        assert_eq!(view.window(40), "Answer 1: Answered elsewhere.");
        view.push(&Line::new(LineKind::Note, "next"));
        assert_eq!(view.window(40), "Note: next");
    }
}
