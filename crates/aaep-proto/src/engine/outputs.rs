//! The text of outputs on its way in: secrets are replaced before the text is recorded or cut.

use super::{Cx, Engine, EngineError, JournalEntry, Timer};
use crate::id::{OutputId, SessionId};
use crate::limits;

impl Engine {
    /// Adds text to an output. Each subscription gets it where its terms allow a cut. What may still become a secret
    /// is held back until the next text, the next event of the session or the end of the output.
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
        self.settle_text(cx, session, Some(output));
        let found = self.sessions.get_mut(session).ok_or(EngineError::UnknownSession)?;
        let found = found.outputs.get_mut(output).ok_or(EngineError::UnknownOutput)?;
        let mut clean = String::with_capacity(text.len());
        found.redactor.push(text, &mut clean);
        self.write_clean(cx, session, output, &clean);
        self.limit_holding(cx, session, output);
        Ok(())
    }

    /// Ends an output.
    pub fn finish_output(
        &mut self,
        cx: &mut Cx<'_>,
        session: &SessionId,
        output: &OutputId,
    ) -> Result<(), EngineError> {
        self.finish_output_with(cx, session, output, "")
    }

    /// Ends an output with its last text. The last chunk carries text and is complete, where [`Engine::write`] would
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
            self.settle_text(cx, session, Some(output));
        }
        let found = self.sessions.get_mut(session).ok_or(EngineError::UnknownSession)?;
        let found = found.outputs.get_mut(output).ok_or(EngineError::UnknownOutput)?;
        let mut rest = String::with_capacity(last.len());
        found.redactor.push(last, &mut rest);
        found.redactor.finish(&mut rest);
        self.write_last(cx, session, output, &rest);
        self.limit_holding(cx, session, output);
        let found = self.sessions.get_mut(session).and_then(|session| session.outputs.get_mut(output));
        if let Some(found) = found {
            found.text.finish();
        }
        self.note(|| JournalEntry::Finished(session.clone(), output.clone()));
        self.deliver_text(cx, session, output);
        Ok(())
    }

    /// Hands on what is held back of all outputs of a session: another event of it must not overtake the text.
    pub(super) fn release_text(&mut self, cx: &mut Cx<'_>, session: &SessionId) {
        let Some(found) = self.sessions.get(session) else { return };
        let held = found.outputs.iter().filter(|(_, output)| !output.redactor.held().is_empty());
        let held: Vec<OutputId> = held.map(|(id, _)| id.clone()).collect();
        for output in held {
            self.release_output(cx, session, &output);
        }
    }

    /// The text of an output was held back for long enough.
    pub(super) fn holding_ended(&mut self, cx: &mut Cx<'_>, session: &SessionId, output: &OutputId) {
        if let Some(found) = self.sessions.get_mut(session).and_then(|session| session.outputs.get_mut(output)) {
            found.held_until = None;
            self.release_output(cx, session, output);
        }
    }

    fn release_output(&mut self, cx: &mut Cx<'_>, session: &SessionId, output: &OutputId) {
        let found = self.sessions.get_mut(session).and_then(|session| session.outputs.get_mut(output));
        let Some(found) = found else { return };
        let mut released = String::new();
        found.redactor.release(&mut released);
        self.write_clean(cx, session, output, &released);
        self.limit_holding(cx, session, output);
    }

    /// A word or a sentence that is complete waits for a short time only, although what follows could show that it
    /// belongs to a secret. In the middle of a word nothing is complete, so there is nothing to hurry for.
    fn limit_holding(&mut self, cx: &mut Cx<'_>, session: &SessionId, output: &OutputId) {
        let found = self.sessions.get_mut(session).and_then(|session| session.outputs.get_mut(output));
        let Some(found) = found else { return };
        let held = found.redactor.held();
        let complete = held.ends_with(|c: char| !c.is_alphanumeric()) || held.len() < limits::HELD_WORD_BYTES;
        let until = (!held.is_empty() && complete).then(|| cx.now.moment.plus_millis(limits::HELD_TEXT_MILLIS));
        let before = std::mem::replace(&mut found.held_until, until);
        let timer = || Timer::HeldText(session.clone(), output.clone());
        if let Some(at) = before {
            self.timers.remove(&(at, timer()));
        }
        if let Some(at) = until {
            self.timers.insert((at, timer()));
        }
    }

    /// Adds text that holds no secret.
    fn write_clean(&mut self, cx: &mut Cx<'_>, session: &SessionId, output: &OutputId, text: &str) {
        self.note_text(session, output, text);
        let mut rest = text;
        while !rest.is_empty() {
            let found = self.sessions.get_mut(session).and_then(|session| session.outputs.get_mut(output));
            let Some(found) = found else { return };
            rest = found.write_part(rest);
            self.deliver_text(cx, session, output);
        }
        if !text.is_empty() {
            self.await_pause(cx, session, output);
        }
    }

    /// Adds the last text of an output, all of it clean. What fits into one step is delivered with the end.
    fn write_last(&mut self, cx: &mut Cx<'_>, session: &SessionId, output: &OutputId, text: &str) {
        self.note_text(session, output, text);
        let mut rest = text;
        while !rest.is_empty() {
            let found = self.sessions.get_mut(session).and_then(|session| session.outputs.get_mut(output));
            let Some(found) = found else { return };
            rest = found.write_part(rest);
            if !rest.is_empty() {
                self.deliver_text(cx, session, output);
            }
        }
    }

    fn note_text(&mut self, session: &SessionId, output: &OutputId, text: &str) {
        if !self.config.journal {
            return;
        }
        let found = self.sessions.get_mut(session).and_then(|s| s.outputs.get_mut(output));
        let Some(found) = found.filter(|_| !text.is_empty()) else { return };
        let position = found.written;
        found.written += text.chars().count() as u64;
        self.note(|| JournalEntry::Text(session.clone(), output.clone(), position, text.to_owned()));
    }
}
