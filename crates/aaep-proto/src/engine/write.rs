//! Outputs: how they are opened, written and finished. Secrets are replaced before the text is recorded or cut.

use serde_json::Map;

use super::output_state::OutputState;
use super::timers::Timer;
use super::{Cx, Engine, EngineError, JournalEntry, OutputFormat};
use crate::id::{OutputId, SessionId};
use crate::language::LanguageTag;
use crate::limits;
use crate::message::{EventMeta, Localized, OutputStreaming, state};
use crate::shaping::text::OutputText;

/// What follows text that is written to an output.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Following {
    /// More text may be written.
    More,
    /// The end of the output: the last part of the text is delivered with it.
    End,
}

impl Engine {
    /// Opens an output with this media type, in the session's language or another.
    pub fn open_output(
        &mut self,
        cx: &mut Cx<'_>,
        session: &SessionId,
        content_type: &str,
        language: Option<LanguageTag>,
    ) -> Result<OutputId, EngineError> {
        let format = OutputFormat { content_type: content_type.to_owned(), language };
        self.open_output_with(cx, session, format, EventMeta::default())
    }

    /// Opens an output whose chunks all carry this metadata.
    pub fn open_output_with(
        &mut self,
        cx: &mut Cx<'_>,
        session: &SessionId,
        format: OutputFormat,
        meta: EventMeta,
    ) -> Result<OutputId, EngineError> {
        self.observe_time(cx);
        // There are too many chunks to check each; their metadata is the same for all.
        let chunk = OutputStreaming { content_type: Some(format.content_type.clone()), ..OutputStreaming::default() };
        let chunk = Localized { payload: chunk.into(), variants: Map::new(), meta };
        let checked = self.check_event(cx, session, &chunk)?.envelope;
        let meta = EventMeta { correlation_id: checked.correlation_id, extensions: checked.extensions, ..chunk.meta };
        self.ensure_state(cx, session, state::WRITING_OUTPUT)?;
        let found = self.sessions.get_mut(session)?;
        if found.output_count() >= limits::CHECKED_ITEMS_PER_SESSION {
            return Err(EngineError::TooMany("outputs"));
        }
        let id = OutputId::random(cx.entropy);
        let hinted = meta.localization_hints.as_ref().and_then(|hints| hints.primary_language.as_ref());
        let language = format.language.as_ref().or(hinted).or(found.language());
        let text = OutputText::new(&format.content_type, language, self.subscriptions.need_words());
        found.add_output(id.clone(), OutputState::new(text, format.clone(), meta));
        self.out.record(|| JournalEntry::Opened(session.clone(), id.clone(), format));
        Ok(id)
    }

    /// Writes text to an output. Each subscription gets it cut where its terms allow. Text that may be the beginning of a
    /// secret is held back until the next text, the next event of the session or the end of the output.
    pub fn write(
        &mut self,
        cx: &mut Cx<'_>,
        session: &SessionId,
        output: &OutputId,
        text: &str,
    ) -> Result<(), EngineError> {
        self.observe_time(cx);
        if text.is_empty() {
            return Ok(());
        }
        self.deliver_complete_text(cx, session, Some(output));
        let clean = self.sessions.output_mut(session, output)?.redact(text);
        self.write_clean(cx, session, output, &clean, Following::More);
        self.schedule_held_release(cx, session, output);
        Ok(())
    }

    /// Finishes an output.
    pub fn finish_output(
        &mut self,
        cx: &mut Cx<'_>,
        session: &SessionId,
        output: &OutputId,
    ) -> Result<(), EngineError> {
        self.finish_output_with(cx, session, output, "")
    }

    /// Finishes an output with its last text. The last chunk then has text and is complete, where [`Engine::write`] would
    /// deliver a finished sentence at once and leave an empty chunk for the end.
    pub fn finish_output_with(
        &mut self,
        cx: &mut Cx<'_>,
        session: &SessionId,
        output: &OutputId,
        last: &str,
    ) -> Result<(), EngineError> {
        self.observe_time(cx);
        if !last.is_empty() {
            self.deliver_complete_text(cx, session, Some(output));
        }
        let clean = self.sessions.output_mut(session, output)?.redact_last(last);
        self.write_clean(cx, session, output, &clean, Following::End);
        self.schedule_held_release(cx, session, output);
        if let Ok(found) = self.sessions.output_mut(session, output) {
            found.finish();
        }
        self.out.record(|| JournalEntry::Finished(session.clone(), output.clone()));
        self.deliver_text(cx, session, output);
        Ok(())
    }

    /// Releases the text that is held back of all outputs of a session: another event of it must not overtake the text.
    pub(super) fn release_held_text(&mut self, cx: &mut Cx<'_>, session: &SessionId) {
        let Ok(found) = self.sessions.get(session) else { return };
        let holding = found.outputs().filter(|(_, output)| !output.held().is_empty());
        for output in holding.map(|(id, _)| id.clone()).collect::<Vec<_>>() {
            self.release_held(cx, session, &output);
        }
    }

    /// Releases the text that is held back of an output.
    pub(super) fn release_held(&mut self, cx: &mut Cx<'_>, session: &SessionId, output: &OutputId) {
        let Ok(found) = self.sessions.output_mut(session, output) else { return };
        let released = found.release_held();
        self.write_clean(cx, session, output, &released, Following::More);
        self.schedule_held_release(cx, session, output);
    }

    /// Limits how long a complete word or sentence is held back, although what follows could show that it belongs to a
    /// secret. In the middle of a word nothing is complete, so there is no hurry.
    fn schedule_held_release(&mut self, cx: &mut Cx<'_>, session: &SessionId, output: &OutputId) {
        let Ok(found) = self.sessions.output_mut(session, output) else { return };
        let held = found.held();
        let complete = held.ends_with(|c: char| !c.is_alphanumeric()) || held.len() < limits::SECRET_CHECK_WORD_BYTES;
        let until =
            (!held.is_empty() && complete).then(|| cx.now.moment.plus_millis(limits::SECRET_CHECK_DELAY_MILLIS));
        self.timers.set_or_stop(Timer::HeldText(session.clone(), output.clone()), until);
    }

    /// Records text without secrets and adds it to an output in steps, so that its memory stays bounded.
    fn write_clean(
        &mut self,
        cx: &mut Cx<'_>,
        session: &SessionId,
        output: &OutputId,
        text: &str,
        following: Following,
    ) {
        if text.is_empty() {
            return;
        }
        if self.out.has_journal()
            && let Ok(found) = self.sessions.output_mut(session, output)
        {
            let position = found.advance_recorded(text);
            self.out.record(|| JournalEntry::Text(session.clone(), output.clone(), position, text.to_owned()));
        }
        let mut rest = text;
        while !rest.is_empty() {
            let Ok(found) = self.sessions.output_mut(session, output) else { return };
            rest = found.write_step(rest);
            if !rest.is_empty() || following == Following::More {
                self.deliver_text(cx, session, output);
            }
        }
        if following == Following::More {
            self.await_pause(cx, session, output);
        }
    }
}
