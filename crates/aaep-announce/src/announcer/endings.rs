//! The ends of sessions, and handoffs.

use aaep_proto::message::{
    CancelledBy, ErrorCategory, Event, HandoffRequested, HandoffTarget, RiskLevel, SessionCancelled, SessionCompleted,
    SessionErrored, Verbosity,
};

use super::words::{LocalizedText, field, headline};
use super::{Announcer, PendingUtterance, fingerprint};
use crate::phrases::phrase;
use crate::speakable::{phrases_for, sentence};
use crate::utterance::{Earcon, Priority};

impl Announcer {
    pub(super) fn completed(&mut self, event: &Event, completed: &SessionCompleted) -> Vec<PendingUtterance> {
        let about = event.envelope.session_id.as_str();
        let mut drafts = self.flush_session(event);
        let text = self.summary(event);
        let phrases = match &text {
            Some(text) => phrases_for(&text.language, &self.profile.languages),
            None => self.user_phrases(),
        };
        let last = drafts.last().map(|d| fingerprint(&d.utterance.text));
        let known = last.or_else(|| self.fingerprints.get(about).copied());
        let done = phrases.text("done");
        let said = match text {
            // The text was announced before: only that the session is done is new.
            Some(text) if known != Some(fingerprint(&text.text)) => {
                LocalizedText::new(format!("{done} {}", text.text), text.language)
            }
            _ => LocalizedText::new(done, phrases.language()),
        };
        drafts.push(PendingUtterance::new(said.clone(), Priority::Message, about).earcon(Earcon::Completed));
        let result = completed.output_summary.as_deref().filter(|_| self.profile.verbosity == Verbosity::Detailed);
        let result = result.and_then(|r| field(event, "output_summary", r, &self.profile)).map(|r| self.spoken(&r));
        drafts.extend(result.map(|text| PendingUtterance::new(text, Priority::Message, about)));
        self.end(event, said);
        drafts
    }

    pub(super) fn errored(&mut self, event: &Event, errored: &SessionErrored) -> Vec<PendingUtterance> {
        let about = event.envelope.session_id.as_str();
        let rest = self.flush_session(event);
        let text = self.summary(event).unwrap_or_else(|| {
            let code = errored.error_code.as_deref().unwrap_or("unknown").to_ascii_lowercase().replace('_', " ");
            LocalizedText::new(sentence(&code), self.user_phrases().language())
        });
        let phrases = phrases_for(&text.language, &self.profile.languages);
        let (short, is_all) = headline(&text.text);
        let said = LocalizedText::new(sentence(&phrase!(phrases, "failed", text = &short)), text.language.clone());
        let mut drafts = vec![
            PendingUtterance::new(said.clone(), Priority::Important, about).earcon(Earcon::Failed).interrupting(false),
        ];
        if !is_all {
            drafts.push(PendingUtterance::new(text, Priority::Message, about));
        }
        let (remedy, retry) = (self.remedy(event, errored), self.retry(errored));
        // That the user has to act comes before what to do; that a retry helps comes after it.
        let needs_user = errored.error_category == ErrorCategory::RequiresUser;
        let advice = if needs_user { [retry, remedy] } else { [remedy, retry] };
        drafts.extend(advice.into_iter().flatten().map(|text| PendingUtterance::new(text, Priority::Message, about)));
        drafts.extend(rest);
        self.end(event, said);
        drafts
    }

    /// Returns what the user can do.
    fn remedy(&self, event: &Event, errored: &SessionErrored) -> Option<LocalizedText> {
        let hint = errored.remediation_hint.as_deref().filter(|h| !h.trim().is_empty())?;
        let hint = self.spoken(&field(event, "remediation_hint", hint, &self.profile)?);
        let phrases = phrases_for(&hint.language, &self.profile.languages);
        Some(LocalizedText::new(phrase!(phrases, "failed-remedy", hint = &hint.text), hint.language))
    }

    /// Returns whether a retry helps, as the id of a phrase.
    fn retry(&self, errored: &SessionErrored) -> Option<LocalizedText> {
        let phrases = self.user_phrases();
        let id = match (&errored.error_category, errored.recoverable) {
            _ if self.profile.verbosity == Verbosity::Terse => return None,
            (ErrorCategory::RequiresUser, _) => "failed-needs-you",
            (_, Some(true)) | (ErrorCategory::Transient, None) => "failed-retry",
            (_, Some(false)) | (ErrorCategory::Permanent, None) => "failed-no-retry",
            _ => return None,
        };
        Some(LocalizedText::new(phrases.text(id), phrases.language()))
    }

    pub(super) fn cancelled(&mut self, event: &Event, cancelled: &SessionCancelled) -> Vec<PendingUtterance> {
        let about = event.envelope.session_id.as_str();
        let mut drafts = self.flush_session(event);
        let id = match cancelled.cancelled_by {
            CancelledBy::User => "cancelled-user",
            CancelledBy::Producer => "cancelled-producer",
            CancelledBy::Timeout => "cancelled-timeout",
            CancelledBy::System => "cancelled-system",
            _ => "cancelled-other",
        };
        let said = match self.summary(event) {
            Some(text) => {
                let phrases = phrases_for(&text.language, &self.profile.languages);
                LocalizedText::new(format!("{} {}", phrases.text(id), text.text), text.language)
            }
            None => LocalizedText::new(self.user_phrases().text(id), self.user_phrases().language()),
        };
        drafts.push(PendingUtterance::new(said.clone(), Priority::Message, about).earcon(Earcon::Cancelled));
        let partial = cancelled.partial_result.as_deref().filter(|p| !p.trim().is_empty());
        let partial = partial.filter(|_| self.profile.verbosity != Verbosity::Terse);
        if let Some(partial) = partial.and_then(|p| field(event, "partial_result", p, &self.profile)) {
            let partial = self.spoken(&partial);
            let phrases = phrases_for(&partial.language, &self.profile.languages);
            let text = LocalizedText::new(phrase!(phrases, "partial-result", text = &partial.text), partial.language);
            drafts.push(PendingUtterance::new(text, Priority::Message, about));
        }
        self.end(event, said);
        drafts
    }

    pub(super) fn handoff(&mut self, event: &Event, handoff: &HandoffRequested) -> Vec<PendingUtterance> {
        let about = event.envelope.session_id.as_str();
        let reason = field(event, "reason", &handoff.reason, &self.profile).map(|r| self.spoken(&r));
        let reason = reason
            .or_else(|| self.summary(event))
            .unwrap_or_else(|| LocalizedText::new(String::new(), self.user_phrases().language()));
        let phrases = phrases_for(&reason.language, &self.profile.languages);
        let id = match handoff.target_kind {
            HandoffTarget::Human => "handoff-human",
            HandoffTarget::SpecialistAgent => "handoff-specialist",
            HandoffTarget::EscalationQueue => "handoff-queue",
            _ => "handoff-other",
        };
        let agent = self.sessions.get(&event.envelope.session_id).map(|s| s.agent.clone()).unwrap_or_default();
        let (short, is_all) = headline(&reason.text);
        let said = sentence(&phrase!(phrases, id, agent = &agent, reason = &short));
        let said = PendingUtterance::new(LocalizedText::new(said, reason.language.clone()), Priority::Important, about);
        let mut drafts = vec![said.earcon(Earcon::Warning).interrupting(true)];
        if !is_all {
            drafts.push(PendingUtterance::new(reason.clone(), Priority::Message, about));
        }
        let more = self.summary(event).filter(|text| text.text != reason.text);
        drafts.extend(more.map(|text| PendingUtterance::new(text, Priority::Message, about)));
        if handoff.urgency_for_handoff == Some(RiskLevel::High) {
            let phrases = self.user_phrases();
            let text = LocalizedText::new(phrases.text("handoff-urgent"), phrases.language());
            drafts.push(PendingUtterance::new(text, Priority::Message, about));
        }
        drafts
    }

    /// Announces tool calls that were not summed up and output that was not complete.
    fn flush_session(&mut self, event: &Event) -> Vec<PendingUtterance> {
        let id = &event.envelope.session_id;
        let mut drafts: Vec<PendingUtterance> = self.sum_up_tools(id).into_iter().collect();
        let outputs = self.sessions.get_mut(id).map(|s| std::mem::take(&mut s.outputs)).unwrap_or_default();
        for output in outputs.into_values() {
            let language = output.language.clone();
            drafts.extend(self.output_utterances(output.abandon(), &language, id));
        }
        drafts
    }

    /// Marks the session as ended, and drops what [`Announcer::catch_up`] does not need.
    fn end(&mut self, event: &Event, said: LocalizedText) {
        let id = &event.envelope.session_id;
        if let Some(session) = self.sessions.get_mut(id) {
            session.tools.clear();
            session.ended = Some(LocalizedText::new(headline(&said.text).0, said.language));
        }
        self.prompts.retain(|_, prompt| prompt.session != *id);
    }
}
