//! A braille display beside the terminal: the newest line, windows to the left and right, earlier lines up and down,
//! and typing on the display's own keys. What is important is shown at once, and stays until the user moves on: fingers
//! read slower than lines come.

use std::collections::VecDeque;

use aaep_announce::Priority;
use aaep_voice::brlapi::{BrailleConfig, KeyKind, tty_path};
use aaep_voice::{Braille, BrailleError};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::command::LINE;
use super::line::{Kind, Shown};
use super::runner::Typed;

/// Lines that can be gone back to.
const LINES: usize = 200;
/// Lines that may wait for the display.
const WAITING: usize = 256;

/// One line, and the question that it belongs to.
#[derive(Debug)]
struct Line {
    text: String,
    number: Option<u32>,
}

/// What the display shows.
#[derive(Debug, Default)]
struct Pane {
    lines: VecDeque<Line>,
    /// Which line, counted from the newest.
    back: usize,
    /// The first character that is shown.
    from: usize,
    /// Whether newer lines have to wait for the user.
    stays: bool,
    /// What is being typed.
    typed: String,
}

impl Pane {
    fn push(&mut self, shown: &Shown) {
        let important = shown.utterance.as_ref().is_some_and(|u| u.priority == Priority::Important);
        // Who reads about a question that is over should not go on.
        let over = shown.kind == Kind::Answer && self.current().is_some_and(|line| line.number == shown.number);
        let follows = important || over || (self.back == 0 && !self.stays);
        self.lines.push_back(Line { text: shown.line(), number: shown.number });
        if self.lines.len() > LINES {
            self.lines.pop_front();
        }
        if follows {
            self.newest();
            self.stays = important;
        } else {
            self.back = (self.back + 1).min(self.lines.len() - 1);
        }
    }

    fn newest(&mut self) {
        (self.back, self.from, self.stays) = (0, 0, false);
    }

    fn current(&self) -> Option<&Line> {
        let index = self.lines.len().checked_sub(1 + self.back)?;
        self.lines.get(index)
    }

    fn text(&self) -> &str {
        self.current().map_or("", |line| &line.text)
    }

    /// The window of this many cells.
    fn window(&self, cells: usize) -> String {
        if self.typed.is_empty() {
            return self.text().chars().skip(self.from).take(cells).collect();
        }
        let start = self.typed.chars().count().saturating_sub(cells.saturating_sub(1));
        self.typed.chars().skip(start).collect()
    }

    /// A key; answers a line that was entered.
    fn key(&mut self, key: KeyKind, cells: usize) -> Option<String> {
        let length = self.text().chars().count();
        match key {
            KeyKind::PanRight | KeyKind::Right if self.from + cells < length => self.from += cells,
            KeyKind::PanLeft | KeyKind::Left => self.from = self.from.saturating_sub(cells),
            KeyKind::LineUp | KeyKind::Up if self.back + 1 < self.lines.len() => {
                (self.back, self.from) = (self.back + 1, 0)
            }
            KeyKind::LineDown | KeyKind::Down if self.back > 0 => {
                (self.back, self.from, self.stays) = (self.back - 1, 0, false)
            }
            KeyKind::Top => (self.back, self.from) = (self.lines.len().saturating_sub(1), 0),
            KeyKind::Bottom | KeyKind::ToCursor => self.newest(),
            KeyKind::Backspace => drop(self.typed.pop()),
            KeyKind::Escape => self.typed.clear(),
            KeyKind::Character(c) if self.typed.len() < LINE => self.typed.push(c),
            KeyKind::Enter if !self.typed.is_empty() => {
                // What comes of it is what matters now.
                self.newest();
                return Some(std::mem::take(&mut self.typed));
            }
            _ => {}
        }
        None
    }
}

/// Takes the display; lines go in, typed lines come out of the sender.
pub(crate) async fn open(typed: mpsc::Sender<Typed>) -> Result<mpsc::Sender<Shown>, BrailleError> {
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
    mut lines: mpsc::Receiver<Shown>,
    typed: mpsc::Sender<Typed>,
) -> Result<(), BrailleError> {
    let mut pane = Pane::default();
    loop {
        tokio::select! {
            line = lines.recv() => match line {
                Some(shown) => pane.push(&shown),
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
    use aaep_announce::Utterance;

    fn pane(lines: &[&str]) -> Pane {
        let mut pane = Pane::default();
        lines.iter().for_each(|line| pane.push(&Shown::own(Kind::Note, *line)));
        pane
    }

    /// A line about a question.
    fn about(kind: Kind, number: u32, text: &str, priority: Priority) -> Shown {
        let utterance = Some(Utterance::new(text, "en", priority));
        Shown { number: Some(number), utterance, ..Shown::own(kind, text) }
    }

    #[test]
    fn windows_and_lines_can_be_walked() {
        let mut pane = pane(&["first line", "second"]);
        assert_eq!(pane.window(8), "Note: se");
        pane.key(KeyKind::PanRight, 8);
        assert_eq!(pane.window(8), "cond");
        pane.key(KeyKind::PanRight, 8);
        assert_eq!(pane.window(8), "cond", "there is nothing further right");
        pane.key(KeyKind::LineUp, 8);
        assert_eq!(pane.window(8), "Note: fi");
        pane.push(&Shown::own(Kind::Note, "third"));
        assert_eq!(pane.window(8), "Note: fi", "who reads an old line keeps it");
        pane.key(KeyKind::Bottom, 8);
        assert_eq!(pane.window(8), "Note: th");
    }

    #[test]
    fn words_are_typed_and_entered() {
        let mut pane = pane(&["Answer yes or no.", "x"]);
        pane.key(KeyKind::LineUp, 8);
        for c in "yesx".chars() {
            assert_eq!(pane.key(KeyKind::Character(c), 8), None);
        }
        pane.key(KeyKind::Backspace, 8);
        assert_eq!(pane.window(8), "yes");
        assert_eq!(pane.key(KeyKind::Enter, 8).as_deref(), Some("yes"));
        assert_eq!(pane.key(KeyKind::Enter, 8), None, "enter alone answers nothing");
        assert_eq!(pane.window(8), "Note: x", "after an answer, the newest line is shown");
    }

    #[test]
    fn a_question_is_shown_at_once_and_stays_until_the_user_moves_on() {
        let mut pane = pane(&["first", "second"]);
        pane.key(KeyKind::LineUp, 40);
        pane.push(&about(Kind::Question, 1, "Pay?", Priority::Important));
        assert_eq!(pane.window(40), "Question 1: Pay?");
        pane.push(&about(Kind::Question, 1, "Answer yes or no.", Priority::Message));
        pane.push(&Shown::own(Kind::Note, "third"));
        assert_eq!(pane.window(40), "Question 1: Pay?", "it is not pushed away by what follows");
        pane.key(KeyKind::LineDown, 40);
        assert_eq!(pane.window(40), "Question 1: Answer yes or no.");
        pane.key(KeyKind::LineDown, 40);
        pane.push(&Shown::own(Kind::Note, "fourth"));
        assert_eq!(pane.window(40), "Note: fourth", "who is at the newest line follows again");
    }

    #[test]
    fn who_reads_about_a_question_sees_that_it_is_over() {
        let mut pane = Pane::default();
        pane.push(&about(Kind::Question, 1, "Pay?", Priority::Important));
        pane.push(&about(Kind::Question, 1, "Answer yes or no.", Priority::Message));
        pane.push(&about(Kind::Answer, 2, "Answered elsewhere.", Priority::Message));
        assert_eq!(pane.window(40), "Question 1: Pay?", "another question is over");
        pane.push(&about(Kind::Answer, 1, "Answered elsewhere.", Priority::Message));
        assert_eq!(pane.window(40), "Answer 1: Answered elsewhere.");
        pane.push(&Shown::own(Kind::Note, "next"));
        assert_eq!(pane.window(40), "Note: next");
    }
}
