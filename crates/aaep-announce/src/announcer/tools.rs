//! Tools: the first are told one by one, many are summed up.

use aaep_proto::id::SessionId;
use aaep_proto::message::{Event, ToolCompleted, ToolInvoked, ToolStatus};
use aaep_proto::time::Moment;

use super::session::{Run, State};
use super::words::Text;
use super::{Announcer, Draft, priority_of};
use crate::phrases::say;
use crate::speakable::{self, phrases_for};
use crate::utterance::Priority;
use aaep_proto::message::Verbosity;

/// So many calls of a run are told one by one, and so many failures.
const TOLD: u64 = 2;

impl Announcer {
    pub(super) fn tool_invoked(&mut self, now: Moment, event: &Event, tool: &ToolInvoked) -> Vec<Draft> {
        let id = &event.envelope.session_id;
        let (text, name) = (self.summary(event), speakable::name(&tool.tool, &self.profile));
        let little = self.wants_little();
        let Some(session) = self.sessions.get_mut(id) else { return Vec::new() };
        session.enter(now, State::Working);
        session.expect(now, tool.expected_duration_ms);
        session.open_tool(now, key(tool.tool_call_id.as_ref().map(|id| id.as_str()), &tool.tool), name);
        let told = session.run.count <= TOLD && !little;
        text.filter(|_| told).map(|text| Draft::new(text, priority_of(event), id.as_str())).into_iter().collect()
    }

    pub(super) fn tool_completed(&mut self, now: Moment, event: &Event, tool: &ToolCompleted) -> Vec<Draft> {
        let id = &event.envelope.session_id;
        let failed = tool.status != ToolStatus::Success;
        let terse = self.profile.verbosity == Verbosity::Terse;
        let little = self.wants_little();
        let Some(session) = self.sessions.get_mut(id) else { return Vec::new() };
        session.tools.remove(&key(tool.tool_call_id.as_ref().map(|id| id.as_str()), &tool.tool));
        session.run.last = now;
        session.run.failed += u64::from(failed);
        session.news.failed += u64::from(failed);
        let told = if failed { session.run.failed <= TOLD } else { session.run.count <= TOLD && !terse };
        if !told || little {
            return Vec::new();
        }
        let text = if failed { Some(self.failure(event, tool)) } else { self.summary(event) };
        let priority = if failed { Priority::Message } else { priority_of(event) };
        text.map(|text| Draft::new(text, priority, id.as_str())).into_iter().collect()
    }

    fn failure(&self, event: &Event, tool: &ToolCompleted) -> Text {
        let name = speakable::name(&tool.tool, &self.profile);
        let message = tool.error_message.as_deref().filter(|m| !m.trim().is_empty());
        let message = message.and_then(|m| super::words::field(event, "error_message", m, &self.profile));
        let reason = self.summary(event).or_else(|| message.map(|m| self.spoken(&m))).filter(|r| !r.text.is_empty());
        let phrases = match &reason {
            Some(reason) => phrases_for(&reason.language, &self.profile.languages),
            None => self.user_phrases(),
        };
        match reason {
            Some(reason) => {
                Text::new(say!(phrases, "tool-failed", tool = &name, reason = &reason.text), reason.language)
            }
            None if tool.status == ToolStatus::Timeout => {
                Text::new(say!(phrases, "tool-timeout", tool = &name), phrases.language())
            }
            None => Text::new(say!(phrases, "tool-failed-plain", tool = &name), phrases.language()),
        }
    }

    /// Ends a run of tool calls: says how many there were if they were not told one by one.
    pub(super) fn sum_up_tools(&mut self, id: &SessionId) -> Option<Draft> {
        let phrases = self.user_phrases();
        let little = self.wants_little();
        let session = self.sessions.get_mut(id)?;
        let run = std::mem::take(&mut session.run);
        if run.count <= TOLD || little {
            return None;
        }
        let text = tool_count(phrases, run.count, run.failed);
        Some(Draft::new(Text::new(text, phrases.language()), Priority::Message, id.as_str()))
    }

    /// Whether a run waits to be summed up.
    pub(super) fn is_long(run: &Run) -> bool {
        run.count > TOLD
    }
}

pub(super) fn tool_count(phrases: &crate::Phrases, count: u64, failed: u64) -> String {
    match failed {
        0 => say!(phrases, "tool-calls", count = count),
        _ => say!(phrases, "tool-calls-failed", count = count, failed = failed),
    }
}

fn key(call: Option<&str>, tool: &str) -> String {
    call.map_or_else(|| tool.chars().take(256).collect(), str::to_owned)
}
