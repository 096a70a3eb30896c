//! Responses to the user: what happened, what the agents do, which questions are open. They depend only on events, so
//! the same events give the same text.

use aaep_proto::id::SessionId;
use aaep_proto::time::Moment;

use super::Announcer;
use super::session::{Activity, CatchUpCounts, SessionState};
use super::tools::tool_count;
use super::words::LocalizedText;
use crate::phrases::{Phrases, phrase};
use crate::speakable::phrases_for;
use crate::utterance::{Priority, Utterance};

impl Announcer {
    /// Sums up what happened since the user last caught up, session by session, and lists the open questions.
    pub fn catch_up(&mut self, now: Moment) -> Vec<Utterance> {
        let phrases = self.user_phrases();
        let mut out = Vec::new();
        for (id, session) in &self.sessions {
            if session.unreported.any {
                out.extend(self.title(session).map(|text| self.about(id, text)));
                let mut parts = unreported(&session.unreported, phrases);
                if session.ended.is_none() {
                    parts.push(self.activity(id, session, now));
                }
                if !parts.is_empty() {
                    out.push(self.about(id, LocalizedText::new(parts.join(" "), phrases.language())));
                }
                out.extend(session.ended.clone().map(|text| self.about(id, text)));
            }
        }
        if !self.prompts.is_empty() {
            out.extend(self.open_questions(now));
        }
        if out.is_empty() {
            out.push(
                self.fixed(LocalizedText::new(phrases.text("nothing-new"), phrases.language()), Priority::Message),
            );
        }
        let fingerprints = &mut self.fingerprints;
        self.sessions.retain(|id, session| {
            session.unreported = CatchUpCounts::default();
            if session.ended.is_some() {
                fingerprints.remove(id.as_str());
            }
            session.ended.is_none()
        });
        out
    }

    /// Describes which agents are at work, what each does now, and for how long.
    pub fn status(&self, now: Moment) -> Vec<Utterance> {
        let phrases = self.user_phrases();
        let mut out = Vec::new();
        for (id, session) in self.sessions.iter().filter(|(_, s)| s.ended.is_none()) {
            out.extend(self.title(session).map(|text| self.about(id, text)));
            out.push(self.about(id, LocalizedText::new(self.activity(id, session, now), phrases.language())));
        }
        if out.is_empty() {
            out.push(
                self.fixed(LocalizedText::new(phrases.text("nothing-runs"), phrases.language()), Priority::Message),
            );
        }
        if !self.prompts.is_empty() {
            let text = phrase!(phrases, "waiting-count", count = self.prompts.len());
            out.push(self.fixed(LocalizedText::new(text, phrases.language()), Priority::Message));
        }
        out
    }

    /// Lists the open questions, the one with the earliest deadline first.
    pub fn open_questions(&self, now: Moment) -> Vec<Utterance> {
        let phrases = self.user_phrases();
        if self.prompts.is_empty() {
            return vec![
                self.fixed(LocalizedText::new(phrases.text("nothing-waits"), phrases.language()), Priority::Message),
            ];
        }
        let count = phrase!(phrases, "waiting-count", count = self.prompts.len());
        let mut out = vec![self.fixed(LocalizedText::new(count, phrases.language()), Priority::Message)];
        let mut prompts: Vec<_> = self.prompts.iter().collect();
        prompts.sort_by_key(|(_, prompt)| prompt.deadline);
        for (token, prompt) in prompts {
            let own = phrases_for(&prompt.asked.language, &self.profile.languages);
            let time = own.duration(prompt.deadline.since(now) / 1_000_000);
            let text = phrase!(own, "waiting-item", agent = &prompt.agent, action = &prompt.asked.text, time = &time);
            let mut utterance = self.fixed(LocalizedText::new(text, prompt.asked.language.clone()), Priority::Message);
            utterance.about = Some(token.as_str().to_owned());
            out.push(utterance);
        }
        out
    }

    fn about(&self, id: &SessionId, text: LocalizedText) -> Utterance {
        let mut utterance = self.fixed(text, Priority::Message);
        utterance.about = Some(id.as_str().to_owned());
        utterance
    }

    /// Returns the agent and what it was asked to do.
    fn title(&self, session: &SessionState) -> Option<LocalizedText> {
        let title = session.title.as_ref()?;
        let phrases = phrases_for(&title.language, &self.profile.languages);
        let text = phrase!(phrases, "agent-says", agent = &session.agent, text = &title.text);
        Some(LocalizedText::new(crate::speakable::sentence(&text), title.language.clone()))
    }

    /// Returns a sentence about what a session does now.
    fn activity(&self, id: &SessionId, session: &SessionState, now: Moment) -> String {
        let phrases = self.user_phrases();
        let time = |since: Moment| phrases.duration(now.since(since) / 1_000_000);
        if self.prompts.values().any(|p| p.session == *id) {
            return phrases.text("now-waiting");
        }
        match (session.oldest_tool(), session.state) {
            (Some(tool), _) => phrase!(phrases, "now-tool", tool = &tool.name, time = &time(tool.since)),
            (None, Activity::Thinking) => phrase!(phrases, "now-thinking", time = &time(session.state_since)),
            (None, Activity::Writing) => phrase!(phrases, "now-writing", time = &time(session.state_since)),
            (None, _) => phrase!(phrases, "now-working", time = &time(session.state_since)),
        }
    }
}

fn unreported(unreported: &CatchUpCounts, phrases: &Phrases) -> Vec<String> {
    let mut parts = Vec::new();
    if unreported.tools > 0 {
        parts.push(tool_count(phrases, unreported.tools, unreported.failed));
    }
    if unreported.words > 0 {
        parts.push(phrase!(phrases, "wrote-words", count = unreported.words));
    }
    parts
}
