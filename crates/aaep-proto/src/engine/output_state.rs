//! One output of a session: its text, and how much of it each group of subscriptions was given.

use std::collections::BTreeMap;

use super::OutputFormat;
use super::groups::GroupId;
use crate::message::EventMeta;
use crate::shaping::segment::WriterPause;
use crate::shaping::text::{BoundarySet, Cursor, OutputText, TextChunk};
use crate::time::Moment;
use crate::validate::Redactor;

/// The state of one output.
#[derive(Debug)]
pub(super) struct OutputState {
    text: OutputText,
    /// Removes secrets from the text before it is recorded or cut.
    redactor: Redactor,
    cursors: BTreeMap<GroupId, Cursor>,
    format: OutputFormat,
    meta: EventMeta,
    /// The end of the text that may be delivered: where a group that joins now begins.
    end: Cursor,
    /// Characters in the journal, including those that may not be delivered yet.
    recorded_chars: u64,
    written_at: Moment,
}

impl OutputState {
    pub(super) fn new(text: OutputText, format: OutputFormat, meta: EventMeta) -> OutputState {
        OutputState {
            text,
            redactor: Redactor::default(),
            cursors: BTreeMap::new(),
            format,
            meta,
            end: Cursor::default(),
            recorded_chars: 0,
            written_at: Moment::default(),
        }
    }

    pub(super) fn format(&self) -> &OutputFormat {
        &self.format
    }

    /// Returns what every chunk of the output carries beside its payload.
    pub(super) fn meta(&self) -> &EventMeta {
        &self.meta
    }

    pub(super) fn text(&self) -> &OutputText {
        &self.text
    }

    /// Puts text that was given to a subscription and still waits for it back, so that it can be cut again. Returns the
    /// cursor before it.
    pub(super) fn restore_text(&mut self, given: Cursor, waiting: &str) -> Cursor {
        self.text.restore(given, waiting)
    }

    /// Returns the text without its secrets, and without what may still become one.
    pub(super) fn redact(&mut self, text: &str) -> String {
        let mut clean = String::with_capacity(text.len());
        self.redactor.push(text, &mut clean);
        clean
    }

    /// Returns the last text of the output without its secrets, with all that was held back.
    pub(super) fn redact_last(&mut self, text: &str) -> String {
        let mut clean = String::with_capacity(text.len());
        self.redactor.push(text, &mut clean);
        self.redactor.finish(&mut clean);
        clean
    }

    /// Returns the text that is held back and need not be.
    pub(super) fn release_held(&mut self) -> String {
        let mut released = String::new();
        self.redactor.release(&mut released);
        released
    }

    /// Returns the text that is held back, since it may be the beginning of a secret.
    pub(super) fn held(&self) -> &str {
        self.redactor.held()
    }

    /// Adds a first part of clean text and returns the rest of it. At the end of the text, what is certainly a complete
    /// sentence may be delivered at once.
    pub(super) fn write_step<'t>(&mut self, text: &'t str) -> &'t str {
        let rest = self.text.write_step(text);
        self.end = self.text.advance_end(self.end);
        if rest.is_empty() {
            self.complete_after(WriterPause::None);
        }
        rest
    }

    /// Lets chunks end where the text is complete after a pause of this length.
    pub(super) fn complete_after(&mut self, pause: WriterPause) {
        self.text.settle(pause);
        self.end = self.text.advance_end(self.end);
    }

    /// Returns the pause after which more of the text counts as complete, if any does.
    pub(super) fn awaited_pause(&self) -> Option<WriterPause> {
        self.text.awaits()
    }

    pub(super) fn finish(&mut self) {
        self.text.finish();
    }

    pub(super) fn is_finished(&self) -> bool {
        self.text.is_finished()
    }

    /// Counts text as recorded; returns how many characters were recorded before it.
    pub(super) fn advance_recorded(&mut self, text: &str) -> u64 {
        let position = self.recorded_chars;
        self.recorded_chars += text.chars().count() as u64;
        position
    }

    pub(super) fn written_at(&self) -> Moment {
        self.written_at
    }

    pub(super) fn set_written_at(&mut self, at: Moment) {
        self.written_at = at;
    }

    pub(super) fn cursor(&self, group: GroupId) -> Cursor {
        self.cursors.get(&group).copied().unwrap_or_default()
    }

    pub(super) fn set_cursor(&mut self, group: GroupId, cursor: Cursor) {
        self.cursors.insert(group, cursor);
    }

    /// Lets a new group begin at the end of the text.
    pub(super) fn add_group(&mut self, group: GroupId) {
        self.cursors.insert(group, self.text.cursor_at_end(self.end.chars()));
    }

    pub(super) fn remove_group(&mut self, group: GroupId) {
        self.cursors.remove(&group);
    }

    /// Returns the next chunk at the cursor and the cursor after it. Returns `None` if no chunk may end yet.
    pub(super) fn next_chunk(&self, mut cursor: Cursor, boundaries: BoundarySet) -> Option<(TextChunk, Cursor)> {
        let chunk = self.text.next_chunk(&mut cursor, boundaries)?;
        Some((chunk, cursor))
    }

    /// Forgets the text that all of these groups were given.
    pub(super) fn forget_delivered(&mut self, groups: impl Iterator<Item = GroupId>) {
        let cursors: Vec<Cursor> = groups.map(|group| self.cursor(group)).collect();
        self.text.forget_before(cursors.into_iter());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output() -> OutputState {
        let format = OutputFormat { content_type: "text/plain".to_owned(), language: None };
        OutputState::new(OutputText::new("text/plain", None, false), format, EventMeta::default())
    }

    #[test]
    fn text_that_may_become_a_secret_is_held_back() {
        let mut output = output();
        let first = output.redact("The key is sk_li");
        assert!("The key is sk_li".starts_with(&first) && !output.held().is_empty(), "{first}");
        assert_eq!(first + &output.redact_last("t."), "The key is sk_lit.");
        assert!(output.held().is_empty());
    }

    #[test]
    fn positions_in_the_journal_count_characters() {
        let mut output = output();
        assert_eq!((output.advance_recorded("äö"), output.advance_recorded("x")), (0, 2));
    }
}
