//! Tool calls: the first ones are announced singly, many are summed up.

use aaep_proto::id::SessionId;
use aaep_proto::message::{Event, ToolCompleted, ToolInvoked, ToolStatus};
use aaep_proto::time::Moment;

use super::session::{Activity, ToolRun};
use super::words::LocalizedText;
use super::{Announcer, PendingUtterance, priority_of};
use crate::phrases::phrase;
use crate::speakable::{self, phrases_for};
use crate::utterance::Priority;
use aaep_proto::message::Verbosity;

/// How many calls of a run are announced singly, and how many failures.
const MAX_SINGLE_CALLS: u64 = 2;

impl Announcer {
    pub(super) fn tool_invoked(&mut self, now: Moment, event: &Event, tool: &ToolInvoked) -> Vec<PendingUtterance> {
        let id = &event.envelope.session_id;
        let (text, name) = (self.summary(event), speakable::name(&tool.tool, &self.profile));
        let low_load = self.is_low_load();
        let Some(session) = self.sessions.get_mut(id) else { return Vec::new() };
        session.enter(now, Activity::Working);
        session.expect(now, tool.expected_duration_ms);
        session.open_tool(now, key(tool.tool_call_id.as_ref().map(|id| id.as_str()), &tool.tool), name);
        let announced = session.run.count <= MAX_SINGLE_CALLS && !low_load;
        match text {
            Some(text) if announced => vec![PendingUtterance::new(text, priority_of(event), id.as_str()).passing()],
            _ => Vec::new(),
        }
    }

    pub(super) fn tool_completed(&mut self, now: Moment, event: &Event, tool: &ToolCompleted) -> Vec<PendingUtterance> {
        let id = &event.envelope.session_id;
        let failed = tool.status != ToolStatus::Success;
        let terse = self.profile.verbosity == Verbosity::Terse;
        let low_load = self.is_low_load();
        let Some(session) = self.sessions.get_mut(id) else { return Vec::new() };
        session.tools.remove(&key(tool.tool_call_id.as_ref().map(|id| id.as_str()), &tool.tool));
        session.run.last = now;
        session.run.failed += u64::from(failed);
        session.unreported.failed += u64::from(failed);
        let announced = if failed {
            session.run.failed <= MAX_SINGLE_CALLS
        } else {
            session.run.count <= MAX_SINGLE_CALLS && !terse
        };
        if !announced || low_load {
            return Vec::new();
        }
        let text = if failed { Some(self.failure(event, tool)) } else { self.summary(event) };
        let priority = if failed { Priority::Message } else { priority_of(event) };
        text.map(|text| PendingUtterance::new(text, priority, id.as_str())).into_iter().collect()
    }

    fn failure(&self, event: &Event, tool: &ToolCompleted) -> LocalizedText {
        let name = speakable::name(&tool.tool, &self.profile);
        let message = tool.error_message.as_deref().filter(|m| !m.trim().is_empty());
        let message = message.and_then(|m| super::words::field(event, "error_message", m, &self.profile));
        let reason = self.summary(event).or_else(|| message.map(|m| self.spoken(&m))).filter(|r| !r.text.is_empty());
        let phrases = match &reason {
            Some(reason) => phrases_for(&reason.language, &self.profile.languages),
            None => self.user_phrases(),
        };
        match reason {
            Some(reason) => LocalizedText::new(
                phrase!(phrases, "tool-failed", tool = &name, reason = &reason.text),
                reason.language,
            ),
            None if tool.status == ToolStatus::Timeout => {
                LocalizedText::new(phrase!(phrases, "tool-timeout", tool = &name), phrases.language())
            }
            None => LocalizedText::new(phrase!(phrases, "tool-failed-plain", tool = &name), phrases.language()),
        }
    }

    /// Ends a run of tool calls. Returns how many there were, if they were not announced singly.
    pub(super) fn sum_up_tools(&mut self, id: &SessionId) -> Option<PendingUtterance> {
        let phrases = self.user_phrases();
        let low_load = self.is_low_load();
        let session = self.sessions.get_mut(id)?;
        let run = std::mem::take(&mut session.run);
        if run.count <= MAX_SINGLE_CALLS || low_load {
            return None;
        }
        let text = tool_count(phrases, run.count, run.failed);
        Some(PendingUtterance::new(LocalizedText::new(text, phrases.language()), Priority::Message, id.as_str()))
    }

    /// Returns whether a run has to be summed up.
    pub(super) fn is_long(run: &ToolRun) -> bool {
        run.count > MAX_SINGLE_CALLS
    }
}

pub(super) fn tool_count(phrases: &crate::Phrases, count: u64, failed: u64) -> String {
    match failed {
        0 => phrase!(phrases, "tool-calls", count = count),
        _ => phrase!(phrases, "tool-calls-failed", count = count, failed = failed),
    }
}

fn key(call: Option<&str>, tool: &str) -> String {
    call.map_or_else(|| tool.chars().take(256).collect(), str::to_owned)
}
