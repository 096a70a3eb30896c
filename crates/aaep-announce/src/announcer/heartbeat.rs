//! Signs of life in silence, and a remark when nothing comes any more.

use aaep_proto::id::{ReplyToken, SessionId};
use aaep_proto::time::Moment;

use super::prompt::{AnnouncedPrompt, timed_out};
use super::session::{Activity, SessionState};
use super::words::LocalizedText;
use super::{Announcer, PendingUtterance};
use crate::phrases::{Phrases, phrase};
use crate::profile::SubscriberKind;
use crate::utterance::{Earcon, Priority, Utterance};

/// Silence before the first sign of life, in seconds; each further one waits twice as long, up to the longest.
const FIRST_HEARTBEAT_SECS: u64 = 20;
const FIRST_HEARTBEAT_LOW_LOAD_SECS: u64 = 60;
const MAX_INTERVAL_SECS: u64 = 600;
/// Seconds before the user is reminded of a question.
const REMINDER_SECS: u64 = 60;
/// Seconds without any event before the agent may be stuck; each further remark waits four times as long.
const STALL_SECS: u64 = 120;
/// Seconds without a tool before a run of tools is summed up.
const TOOL_RUN_IDLE_SECS: u64 = 10;
/// Seconds after a question's deadline in which its agent may say how it ended.
const RESOLUTION_GRACE_SECS: u64 = 10;

impl Announcer {
    /// When [`Announcer::handle_timeout`] wants to be called, if nothing else happens before.
    pub fn next_deadline(&self) -> Option<Moment> {
        let sessions = self.sessions.iter().filter(|(_, s)| s.ended.is_none());
        let of_session = |(id, session): (&SessionId, &SessionState)| {
            let pulse = self.announces_unprompted().then(|| self.heartbeat_or_stall_due(id, session));
            [run_due(session), pulse].into_iter().flatten().min()
        };
        let prompts = self.prompts.values().map(|prompt| self.prompt_due(prompt));
        sessions.filter_map(of_session).chain(prompts).min()
    }

    /// What is to be said because time has passed.
    pub fn handle_timeout(&mut self, now: Moment) -> Vec<Utterance> {
        let mut out = Vec::new();
        let tokens: Vec<ReplyToken> = self.prompts.keys().cloned().collect();
        for token in tokens {
            out.extend(self.prompt_timeout(now, &token));
        }
        let ids: Vec<SessionId> = self.sessions.keys().cloned().collect();
        for id in ids {
            out.extend(self.session_timeout(now, &id));
        }
        out
    }

    /// A log needs no signs of life, and a lost connection is remarked upon once.
    fn announces_unprompted(&self) -> bool {
        self.connected && !self.quiet && self.profile.kind != SubscriberKind::Logger
    }

    fn waits_for_user(&self, id: &SessionId) -> bool {
        self.prompts.values().any(|p| p.session == *id)
    }

    fn heartbeat_or_stall_due(&self, id: &SessionId, session: &SessionState) -> Moment {
        let stall = stall_due(session);
        // While the user is asked, the agent waits for them and not they for it.
        if self.waits_for_user(id) {
            return Moment::from_micros(u64::MAX);
        }
        if session.stall_notices > 0 || session.state == Activity::Idle {
            return if session.state == Activity::Idle { Moment::from_micros(u64::MAX) } else { stall };
        }
        stall.min(self.heartbeat_due(session))
    }

    fn heartbeat_due(&self, session: &SessionState) -> Moment {
        let first = if self.is_low_load() { FIRST_HEARTBEAT_LOW_LOAD_SECS } else { FIRST_HEARTBEAT_SECS };
        let gap = first.saturating_mul(1 << session.heartbeats.min(10)).min(MAX_INTERVAL_SECS);
        session.last_said.max(self.busy_until).plus_seconds(gap)
    }

    fn prompt_due(&self, prompt: &AnnouncedPrompt) -> Moment {
        let over = prompt.deadline.plus_seconds(RESOLUTION_GRACE_SECS);
        let gap = REMINDER_SECS.saturating_mul(1 << prompt.reminders.min(10)).min(MAX_INTERVAL_SECS);
        let remind = prompt.since.plus_seconds(gap);
        if self.announces_unprompted() && self.profile.can_reply() && remind < prompt.deadline {
            remind.min(over)
        } else {
            over
        }
    }

    fn prompt_timeout(&mut self, now: Moment, token: &ReplyToken) -> Vec<Utterance> {
        let phrases = self.user_phrases();
        let due = self.prompts.get(token).map(|p| self.prompt_due(p));
        let Some(prompt) = self.prompts.get_mut(token).filter(|_| due.is_some_and(|due| due <= now)) else {
            return Vec::new();
        };
        let session = prompt.session.clone();
        let (text, priority, about) = if now >= prompt.deadline.plus_seconds(RESOLUTION_GRACE_SECS) {
            let text = phrases.text(timed_out(prompt));
            self.prompts.remove(token);
            self.said.remove(token.as_str());
            self.restart_silence(now, &session);
            (text, Priority::Message, session.as_str())
        } else {
            prompt.reminders += 1;
            prompt.since = now;
            let left = prompt.deadline.since(now) / 1_000_000;
            (phrase!(phrases, "still-waiting", time = &phrases.duration(left)), Priority::Message, token.as_str())
        };
        let draft = PendingUtterance::new(LocalizedText::new(text, phrases.language()), priority, about);
        self.deliver(now, &session, vec![draft], true)
    }

    /// The agent waited for the user until now: its silence counts from here.
    pub(super) fn restart_silence(&mut self, now: Moment, id: &SessionId) {
        if let Some(session) = self.sessions.get_mut(id) {
            session.last_event = session.last_event.max(now);
        }
    }

    fn session_timeout(&mut self, now: Moment, id: &SessionId) -> Vec<Utterance> {
        let Some(session) = self.sessions.get(id).filter(|s| s.ended.is_none()) else { return Vec::new() };
        let mut drafts = Vec::new();
        let (run, heartbeats) = (run_due(session).is_some_and(|due| due <= now), self.announces_unprompted());
        let pulse = heartbeats && self.heartbeat_or_stall_due(id, session) <= now;
        if run {
            drafts.extend(self.sum_up_tools(id));
            return self.deliver(now, id, drafts, false);
        }
        if !pulse {
            return Vec::new();
        }
        let phrases = self.user_phrases();
        let Some(session) = self.sessions.get_mut(id) else { return Vec::new() };
        let counts = (session.heartbeats, session.stall_notices);
        let draft = if stall_due(session) <= now {
            session.stall_notices += 1;
            let time = phrases.duration(now.since(session.last_event) / 1_000_000);
            let text = phrase!(phrases, "stalled", agent = &session.agent, time = &time);
            let text = LocalizedText::new(text, phrases.language());
            PendingUtterance {
                named: true,
                ..PendingUtterance::new(text, Priority::Message, id.as_str()).earcon(Earcon::Warning)
            }
        } else {
            PendingUtterance::new(
                LocalizedText::new(still(session, now, phrases), phrases.language()),
                Priority::Progress,
                id.as_str(),
            )
        };
        let stalled = session.stall_notices > counts.1;
        let out = self.deliver(now, id, vec![draft], false);
        if let Some(session) = self.sessions.get_mut(id) {
            // Signs of life decay: saying one is no reason to start again.
            session.heartbeats = if stalled { counts.0 } else { counts.0 + 1 };
            session.last_said = now;
        }
        out
    }
}

fn run_due(session: &SessionState) -> Option<Moment> {
    let waits = Announcer::is_long(&session.run) && session.tools.is_empty();
    waits.then(|| session.run.last.plus_seconds(TOOL_RUN_IDLE_SECS))
}

fn stall_due(session: &SessionState) -> Moment {
    let expected = session.expected.since(session.last_event) / 1_000_000;
    let patience = STALL_SECS.max(2 * expected).saturating_mul(1 << (2 * session.stall_notices.min(5)));
    session.last_event.plus_seconds(patience)
}

/// What goes on, and for how long.
fn still(session: &SessionState, now: Moment, phrases: &Phrases) -> String {
    let time = |since: Moment| phrases.duration(now.since(since) / 1_000_000);
    match (session.oldest_tool(), session.state) {
        _ if Announcer::is_long(&session.run) => phrase!(phrases, "still-working", time = &time(session.run.since)),
        (Some(tool), _) => phrase!(phrases, "still-tool", tool = &tool.name, time = &time(tool.since)),
        (None, Activity::Thinking) => phrase!(phrases, "still-thinking", time = &time(session.state_since)),
        (None, Activity::Writing) => phrase!(phrases, "still-writing", time = &time(session.state_since)),
        (None, _) => phrase!(phrases, "still-working", time = &time(session.state_since)),
    }
}
