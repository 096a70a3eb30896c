//! Heartbeats in silence, reminders of questions, and announcements that an agent may be stuck.

use aaep_proto::id::{ReplyToken, SessionId};
use aaep_proto::time::Moment;

use super::prompt::{AnnouncedPrompt, timed_out};
use super::session::{Activity, SessionState};
use super::words::LocalizedText;
use super::{Announcer, PendingUtterance};
use crate::phrases::{Phrases, phrase};
use crate::profile::SubscriberKind;
use crate::utterance::{Earcon, Priority, Utterance};

/// Silence before the first heartbeat. Each further one waits twice as long.
const FIRST_HEARTBEAT_SECS: u64 = 20;
/// Silence before the first heartbeat for users with low cognitive load.
const FIRST_HEARTBEAT_LOW_LOAD_SECS: u64 = 60;
/// The longest interval between heartbeats, and between reminders.
const MAX_INTERVAL_SECS: u64 = 600;
/// Time before the first reminder of a question. Each further one waits twice as long.
const REMINDER_SECS: u64 = 60;
/// Time without any event after which the agent may be stuck. Each further announcement waits four times as long.
const STALL_SECS: u64 = 120;
/// Time without a tool call after which a run of tool calls is summed up.
const TOOL_RUN_IDLE_SECS: u64 = 10;
/// Time after the deadline of a question in which its agent may report how it was resolved.
const RESOLUTION_GRACE_SECS: u64 = 10;

impl Announcer {
    /// Returns when [`Announcer::handle_timeout`] is due, or `None` if nothing waits for time.
    pub fn next_deadline(&self) -> Option<Moment> {
        let sessions = self.sessions.iter().filter(|(_, s)| s.ended.is_none());
        let of_session = |(id, session): (&SessionId, &SessionState)| {
            let due = self.announces_unprompted().then(|| self.heartbeat_or_stall_due(id, session));
            [run_due(session), due].into_iter().flatten().min()
        };
        let prompts = self.prompts.values().map(|prompt| self.prompt_due(prompt));
        sessions.filter_map(of_session).chain(prompts).min()
    }

    /// Announces what is due because time has passed.
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

    /// Returns whether heartbeats and reminders are announced: not in a log, nor while the connection is lost.
    fn announces_unprompted(&self) -> bool {
        self.connected && !self.quiet && self.profile.kind != SubscriberKind::Logger
    }

    fn waits_for_user(&self, id: &SessionId) -> bool {
        self.prompts.values().any(|p| p.session == *id)
    }

    fn heartbeat_or_stall_due(&self, id: &SessionId, session: &SessionState) -> Moment {
        let stall = stall_due(session);
        // While a question is open, the agent waits for the user.
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
        session.last_announced.max(self.busy_until).plus_seconds(gap)
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
        let over = now >= prompt.deadline.plus_seconds(RESOLUTION_GRACE_SECS);
        let (text, priority, about) = if over {
            let text = phrases.text(timed_out(prompt));
            self.prompts.remove(token);
            self.fingerprints.remove(token.as_str());
            self.restart_silence(now, &session);
            (text, Priority::Message, session.as_str())
        } else {
            prompt.reminders += 1;
            prompt.since = now;
            let left = prompt.deadline.since(now) / 1_000_000;
            (phrase!(phrases, "still-waiting", time = &phrases.duration(left)), Priority::Message, token.as_str())
        };
        let draft = PendingUtterance::new(LocalizedText::new(text, phrases.language()), priority, about);
        let draft = if over { draft.first() } else { draft };
        self.finish(now, &session, vec![draft], true)
    }

    /// Counts the silence of the agent from now, because it waited for the user before.
    pub(super) fn restart_silence(&mut self, now: Moment, id: &SessionId) {
        if let Some(session) = self.sessions.get_mut(id) {
            session.last_event = session.last_event.max(now);
        }
    }

    fn session_timeout(&mut self, now: Moment, id: &SessionId) -> Vec<Utterance> {
        let Some(session) = self.sessions.get(id).filter(|s| s.ended.is_none()) else { return Vec::new() };
        let mut drafts = Vec::new();
        let run = run_due(session).is_some_and(|due| due <= now);
        let due = self.announces_unprompted() && self.heartbeat_or_stall_due(id, session) <= now;
        if run {
            drafts.extend(self.sum_up_tools(id));
            return self.finish(now, id, drafts, false);
        }
        if !due {
            return Vec::new();
        }
        let phrases = self.user_phrases();
        let Some(session) = self.sessions.get_mut(id) else { return Vec::new() };
        let (heartbeats, stall_notices) = (session.heartbeats, session.stall_notices);
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
                LocalizedText::new(still_busy(session, now, phrases), phrases.language()),
                Priority::Progress,
                id.as_str(),
            )
            .passing()
        };
        let stalled = session.stall_notices > stall_notices;
        let out = self.finish(now, id, vec![draft], false);
        if let Some(session) = self.sessions.get_mut(id) {
            // `finish` resets the count for every announcement, but heartbeats must become rarer.
            session.heartbeats = if stalled { heartbeats } else { heartbeats + 1 };
            session.last_announced = now;
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
    let timeout = STALL_SECS.max(2 * expected).saturating_mul(1 << (2 * session.stall_notices.min(5)));
    session.last_event.plus_seconds(timeout)
}

/// Returns a sentence about what the agent still does, and for how long.
fn still_busy(session: &SessionState, now: Moment, phrases: &Phrases) -> String {
    let time = |since: Moment| phrases.duration(now.since(since) / 1_000_000);
    match (session.oldest_tool(), session.state) {
        _ if Announcer::is_long(&session.run) => phrase!(phrases, "still-working", time = &time(session.run.since)),
        (Some(tool), _) => phrase!(phrases, "still-tool", tool = &tool.name, time = &time(tool.since)),
        (None, Activity::Thinking) => phrase!(phrases, "still-thinking", time = &time(session.state_since)),
        (None, Activity::Writing) => phrase!(phrases, "still-writing", time = &time(session.state_since)),
        (None, _) => phrase!(phrases, "still-working", time = &time(session.state_since)),
    }
}
