//! Signs of life in silence, and a remark when nothing comes any more.

use aaep_proto::id::{ReplyToken, SessionId};
use aaep_proto::time::Moment;

use super::prompt::{Prompt, timed_out};
use super::session::{Session, State};
use super::words::Text;
use super::{Announcer, Draft};
use crate::phrases::{Phrases, say};
use crate::profile::SubscriberKind;
use crate::utterance::{Earcon, Priority, Utterance};

/// Silence before the first sign of life, in seconds; each further one waits twice as long, up to the longest.
const FIRST: u64 = 20;
const FIRST_FOR_LITTLE: u64 = 60;
const LONGEST: u64 = 600;
/// Seconds before the user is reminded of a question.
const REMIND: u64 = 60;
/// Seconds without any event before the agent may be stuck; each further remark waits four times as long.
const STALL: u64 = 120;
/// Seconds without a tool before a run of tools is summed up.
const RUN: u64 = 10;
/// Seconds after a question's deadline in which its agent may say how it ended.
const GRACE: u64 = 10;

impl Announcer {
    /// When [`Announcer::tick`] wants to be called, if nothing else happens before.
    pub fn next_deadline(&self) -> Option<Moment> {
        let sessions = self.sessions.iter().filter(|(_, s)| s.ended.is_none());
        let of_session = |(id, session): (&SessionId, &Session)| {
            let pulse = self.speaks_by_itself().then(|| self.pulse_due(id, session));
            [run_due(session), pulse].into_iter().flatten().min()
        };
        let prompts = self.prompts.values().map(|prompt| self.prompt_due(prompt));
        sessions.filter_map(of_session).chain(prompts).min()
    }

    /// What is to be said because time has passed.
    pub fn tick(&mut self, now: Moment) -> Vec<Utterance> {
        let mut out = Vec::new();
        let tokens: Vec<ReplyToken> = self.prompts.keys().cloned().collect();
        for token in tokens {
            out.extend(self.tick_prompt(now, &token));
        }
        let ids: Vec<SessionId> = self.sessions.keys().cloned().collect();
        for id in ids {
            out.extend(self.tick_session(now, &id));
        }
        out
    }

    /// A log needs no signs of life, and a lost connection is remarked upon once.
    fn speaks_by_itself(&self) -> bool {
        self.connected && !self.quiet && self.profile.kind != SubscriberKind::Logger
    }

    fn waits_for_user(&self, id: &SessionId) -> bool {
        self.prompts.values().any(|p| p.session == *id)
    }

    fn pulse_due(&self, id: &SessionId, session: &Session) -> Moment {
        let stall = stall_due(session);
        // While the user is asked, the agent waits for them and not they for it.
        if self.waits_for_user(id) {
            return Moment::from_micros(u64::MAX);
        }
        if session.stalls > 0 || session.state == State::Idle {
            return if session.state == State::Idle { Moment::from_micros(u64::MAX) } else { stall };
        }
        stall.min(self.beat_due(session))
    }

    fn beat_due(&self, session: &Session) -> Moment {
        let first = if self.wants_little() { FIRST_FOR_LITTLE } else { FIRST };
        let gap = first.saturating_mul(1 << session.beats.min(10)).min(LONGEST);
        session.last_said.max(self.busy_until).plus_seconds(gap)
    }

    fn prompt_due(&self, prompt: &Prompt) -> Moment {
        let over = prompt.deadline.plus_seconds(GRACE);
        let gap = REMIND.saturating_mul(1 << prompt.reminders.min(10)).min(LONGEST);
        let remind = prompt.since.plus_seconds(gap);
        if self.speaks_by_itself() && self.profile.can_reply() && remind < prompt.deadline {
            remind.min(over)
        } else {
            over
        }
    }

    fn tick_prompt(&mut self, now: Moment, token: &ReplyToken) -> Vec<Utterance> {
        let phrases = self.user_phrases();
        let due = self.prompts.get(token).map(|p| self.prompt_due(p));
        let Some(prompt) = self.prompts.get_mut(token).filter(|_| due.is_some_and(|due| due <= now)) else {
            return Vec::new();
        };
        let session = prompt.session.clone();
        let (text, priority, about) = if now >= prompt.deadline.plus_seconds(GRACE) {
            let text = phrases.say(timed_out(prompt));
            self.prompts.remove(token);
            self.said.remove(token.as_str());
            self.be_patient(now, &session);
            (text, Priority::Message, session.as_str())
        } else {
            prompt.reminders += 1;
            prompt.since = now;
            let left = prompt.deadline.since(now) / 1_000_000;
            (say!(phrases, "still-waiting", time = &phrases.duration(left)), Priority::Message, token.as_str())
        };
        let draft = Draft::new(Text::new(text, phrases.language()), priority, about);
        self.deliver(now, &session, vec![draft], true)
    }

    /// The agent waited for the user until now: its silence counts from here.
    pub(super) fn be_patient(&mut self, now: Moment, id: &SessionId) {
        if let Some(session) = self.sessions.get_mut(id) {
            session.last_event = session.last_event.max(now);
        }
    }

    fn tick_session(&mut self, now: Moment, id: &SessionId) -> Vec<Utterance> {
        let Some(session) = self.sessions.get(id).filter(|s| s.ended.is_none()) else { return Vec::new() };
        let mut drafts = Vec::new();
        let (run, beats) = (run_due(session).is_some_and(|due| due <= now), self.speaks_by_itself());
        let pulse = beats && self.pulse_due(id, session) <= now;
        if run {
            drafts.extend(self.sum_up_tools(id));
            return self.deliver(now, id, drafts, false);
        }
        if !pulse {
            return Vec::new();
        }
        let phrases = self.user_phrases();
        let Some(session) = self.sessions.get_mut(id) else { return Vec::new() };
        let counts = (session.beats, session.stalls);
        let draft = if stall_due(session) <= now {
            session.stalls += 1;
            let time = phrases.duration(now.since(session.last_event) / 1_000_000);
            let text = say!(phrases, "stalled", agent = &session.agent, time = &time);
            let text = Text::new(text, phrases.language());
            Draft { named: true, ..Draft::new(text, Priority::Message, id.as_str()).earcon(Earcon::Warning) }
        } else {
            Draft::new(Text::new(still(session, now, phrases), phrases.language()), Priority::Progress, id.as_str())
        };
        let stalled = session.stalls > counts.1;
        let out = self.deliver(now, id, vec![draft], false);
        if let Some(session) = self.sessions.get_mut(id) {
            // Signs of life decay: saying one is no reason to start again.
            session.beats = if stalled { counts.0 } else { counts.0 + 1 };
            session.last_said = now;
        }
        out
    }
}

fn run_due(session: &Session) -> Option<Moment> {
    let waits = Announcer::is_long(&session.run) && session.tools.is_empty();
    waits.then(|| session.run.last.plus_seconds(RUN))
}

fn stall_due(session: &Session) -> Moment {
    let expected = session.expected.since(session.last_event) / 1_000_000;
    let patience = STALL.max(2 * expected).saturating_mul(1 << (2 * session.stalls.min(5)));
    session.last_event.plus_seconds(patience)
}

/// What goes on, and for how long.
fn still(session: &Session, now: Moment, phrases: &Phrases) -> String {
    let time = |since: Moment| phrases.duration(now.since(since) / 1_000_000);
    match (session.oldest_tool(), session.state) {
        _ if Announcer::is_long(&session.run) => say!(phrases, "still-working", time = &time(session.run.since)),
        (Some(tool), _) => say!(phrases, "still-tool", tool = &tool.name, time = &time(tool.since)),
        (None, State::Thinking) => say!(phrases, "still-thinking", time = &time(session.state_since)),
        (None, State::Writing) => say!(phrases, "still-writing", time = &time(session.state_since)),
        (None, _) => say!(phrases, "still-working", time = &time(session.state_since)),
    }
}
