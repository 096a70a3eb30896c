//! The lines that were printed, to be walked by the user.

use std::collections::VecDeque;

use crate::{Line, LineKind};

/// The most lines that are kept.
const MAX_LINES: usize = 2000;
/// About how many bytes of memory they may take.
const MAX_BYTES: usize = 8 * 1024 * 1024;

/// The newest lines, the oldest of them first.
#[derive(Debug, Default)]
pub(crate) struct Transcript {
    lines: VecDeque<Line>,
    bytes: usize,
    /// How many lines were dropped.
    dropped: usize,
    /// The line that was walked to, counted from the first ever. `None` at the end.
    position: Option<usize>,
}

impl Transcript {
    /// Appends a line and drops the oldest ones above the bounds.
    pub(crate) fn push(&mut self, line: &Line) {
        self.lines.push_back(line.clone());
        self.bytes += memory_size(line);
        while (self.lines.len() > MAX_LINES || self.bytes > MAX_BYTES)
            && let Some(oldest) = self.lines.pop_front()
        {
            self.bytes -= memory_size(&oldest);
            self.dropped += 1;
        }
    }

    /// Moves to the next or previous line, of this kind if one is given, and returns it. Returns `None` and stays if
    /// there is none.
    pub(crate) fn walk(&mut self, back: bool, kind: Option<LineKind>) -> Option<Line> {
        let matches = |(_, line): &(usize, &Line)| kind.is_none_or(|kind| line.kind == kind);
        let numbered = self.lines.iter().enumerate().map(|(index, line)| (index + self.dropped, line));
        let end = self.dropped + self.lines.len();
        let position = self.position.unwrap_or(end);
        let found = if back {
            numbered.rev().filter(|(at, _)| *at < position).find(matches)
        } else {
            numbered.filter(|(at, _)| *at > position).find(matches)
        };
        let (at, line) = found?;
        let line = line.clone();
        self.position = Some(at);
        Some(line)
    }

    /// Moves to the end, after the newest line.
    pub(crate) fn go_to_end(&mut self) {
        self.position = None;
    }
}

/// Returns about how much memory a line takes.
fn memory_size(line: &Line) -> usize {
    size_of::<Line>() + line.text.len() + line.utterance.as_ref().map_or(0, |utterance| utterance.text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(texts: &[(LineKind, &str)]) -> Transcript {
        let mut transcript = Transcript::default();
        texts.iter().for_each(|(kind, text)| transcript.push(&Line::new(*kind, *text)));
        transcript
    }

    #[test]
    fn lines_are_walked_by_kind_in_both_directions() {
        let mut transcript = filled(&[
            (LineKind::Start, "a"),
            (LineKind::Tool, "b"),
            (LineKind::Text, "c"),
            (LineKind::Tool, "d"),
            (LineKind::End, "e"),
        ]);
        let mut walk = |back, kind| transcript.walk(back, kind).map(|line| line.text);
        assert_eq!(walk(false, None), None, "there is nothing after the end");
        assert_eq!(walk(true, None).as_deref(), Some("e"));
        assert_eq!(walk(true, Some(LineKind::Tool)).as_deref(), Some("d"));
        assert_eq!(walk(true, Some(LineKind::Tool)).as_deref(), Some("b"));
        assert_eq!(walk(true, Some(LineKind::Tool)), None);
        assert_eq!(walk(false, None).as_deref(), Some("c"));
        transcript.go_to_end();
        assert_eq!(transcript.walk(true, None).unwrap().text, "e");
    }

    #[test]
    fn transcript_is_bounded_and_the_position_stays_with_its_line() {
        let mut transcript = filled(&[(LineKind::Start, "first")]);
        (0..MAX_LINES).for_each(|_| transcript.push(&Line::new(LineKind::Text, "x")));
        assert_eq!(transcript.lines.len(), MAX_LINES);
        assert_eq!(transcript.walk(true, Some(LineKind::Start)), None);
        (0..10).for_each(|_| transcript.push(&Line::new(LineKind::Text, "x".repeat(MAX_BYTES / 4))));
        assert_eq!((transcript.lines.len(), transcript.bytes <= MAX_BYTES), (3, true));
        transcript.push(&Line::new(LineKind::End, "last"));
        assert_eq!(transcript.walk(true, None).unwrap().text, "last");
        (0..5).for_each(|_| transcript.push(&Line::new(LineKind::Tool, "y")));
        assert_eq!(transcript.walk(false, None).unwrap().text, "y");
    }
}
