//! Answers to what users ask: what did I miss, where am I, what waits for me. They depend on nothing but what was
//! announced, so the same events give the same words.

use aaep_proto::id::SessionId;
use aaep_proto::time::Moment;

use super::Announcer;
use super::session::{News, Session, State};
use super::tools::tool_count;
use super::words::Text;
use crate::phrases::{Phrases, say};
use crate::speakable::phrases_for;
use crate::utterance::{Priority, Utterance};

impl Announcer {
    /// What happened since the user was last brought up to date, session by session, and what waits for them.
    pub fn catch_up(&mut self, now: Moment) -> Vec<Utterance> {
        let phrases = self.user_phrases();
        let mut out = Vec::new();
        for (id, session) in &self.sessions {
            if session.news.any {
                out.extend(self.title(session).map(|text| self.about(id, text)));
                let mut parts = news(&session.news, phrases);
                if session.ended.is_none() {
                    parts.push(self.doing(id, session, now));
                }
                if !parts.is_empty() {
                    out.push(self.about(id, Text::new(parts.join(" "), phrases.language())));
                }
                out.extend(session.ended.clone().map(|text| self.about(id, text)));
            }
        }
        if !self.prompts.is_empty() {
            out.extend(self.waiting(now));
        }
        if out.is_empty() {
            out.push(self.fixed(Text::new(phrases.say("nothing-new"), phrases.language()), Priority::Message));
        }
        let said = &mut self.said;
        self.sessions.retain(|id, session| {
            session.news = News::default();
            if session.ended.is_some() {
                said.remove(id.as_str());
            }
            session.ended.is_none()
        });
        out
    }

    /// Which agents are at work, what each does now, and for how long.
    pub fn whereabouts(&self, now: Moment) -> Vec<Utterance> {
        let phrases = self.user_phrases();
        let mut out = Vec::new();
        for (id, session) in self.sessions.iter().filter(|(_, s)| s.ended.is_none()) {
            out.extend(self.title(session).map(|text| self.about(id, text)));
            out.push(self.about(id, Text::new(self.doing(id, session, now), phrases.language())));
        }
        if out.is_empty() {
            out.push(self.fixed(Text::new(phrases.say("nothing-runs"), phrases.language()), Priority::Message));
        }
        if !self.prompts.is_empty() {
            let text = say!(phrases, "waiting-count", count = self.prompts.len());
            out.push(self.fixed(Text::new(text, phrases.language()), Priority::Message));
        }
        out
    }

    /// The questions that wait for an answer, the most pressing one first.
    pub fn waiting(&self, now: Moment) -> Vec<Utterance> {
        let phrases = self.user_phrases();
        if self.prompts.is_empty() {
            return vec![self.fixed(Text::new(phrases.say("nothing-waits"), phrases.language()), Priority::Message)];
        }
        let count = say!(phrases, "waiting-count", count = self.prompts.len());
        let mut out = vec![self.fixed(Text::new(count, phrases.language()), Priority::Message)];
        let mut prompts: Vec<_> = self.prompts.iter().collect();
        prompts.sort_by_key(|(_, prompt)| prompt.deadline);
        for (token, prompt) in prompts {
            let own = phrases_for(&prompt.asked.language, &self.profile.languages);
            let time = own.duration(prompt.deadline.since(now) / 1_000_000);
            let text = say!(own, "waiting-item", agent = &prompt.agent, action = &prompt.asked.text, time = &time);
            let mut utterance = self.fixed(Text::new(text, prompt.asked.language.clone()), Priority::Message);
            utterance.about = Some(token.as_str().to_owned());
            out.push(utterance);
        }
        out
    }

    fn about(&self, id: &SessionId, text: Text) -> Utterance {
        let mut utterance = self.fixed(text, Priority::Message);
        utterance.about = Some(id.as_str().to_owned());
        utterance
    }

    /// The agent and what it was asked to do.
    fn title(&self, session: &Session) -> Option<Text> {
        let title = session.title.as_ref()?;
        let phrases = phrases_for(&title.language, &self.profile.languages);
        let text = say!(phrases, "agent-says", agent = &session.agent, text = &title.text);
        Some(Text::new(crate::speakable::sentence(&text), title.language.clone()))
    }

    /// What a session does now.
    fn doing(&self, id: &SessionId, session: &Session, now: Moment) -> String {
        let phrases = self.user_phrases();
        let time = |since: Moment| phrases.duration(now.since(since) / 1_000_000);
        if self.prompts.values().any(|p| p.session == *id) {
            return phrases.say("now-waiting");
        }
        match (session.oldest_tool(), session.state) {
            (Some(tool), _) => say!(phrases, "now-tool", tool = &tool.name, time = &time(tool.since)),
            (None, State::Thinking) => say!(phrases, "now-thinking", time = &time(session.state_since)),
            (None, State::Writing) => say!(phrases, "now-writing", time = &time(session.state_since)),
            (None, _) => say!(phrases, "now-working", time = &time(session.state_since)),
        }
    }
}

fn news(news: &News, phrases: &Phrases) -> Vec<String> {
    let mut parts = Vec::new();
    if news.tools > 0 {
        parts.push(tool_count(phrases, news.tools, news.failed));
    }
    if news.words > 0 {
        parts.push(say!(phrases, "wrote-words", count = news.words));
    }
    parts
}
