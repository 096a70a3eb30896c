//! The state of a session. All of it is bounded.

use std::collections::BTreeMap;

use aaep_proto::message::{Event, state};
use aaep_proto::time::Moment;

use super::output::StreamedOutput;
use super::words::LocalizedText;

/// The most tool calls that are followed at once in one session.
const MAX_OPEN_TOOLS: usize = 64;
/// The most unfinished outputs of one session.
pub(super) const MAX_SESSION_OUTPUTS: usize = 16;

/// The most characters of an `agent_id` that are kept.
pub(super) const MAX_AGENT_ID_CHARS: usize = 128;

/// What the announcer knows of one session.
pub(super) struct SessionState {
    pub(super) agent_id: String,
    /// The agent's name as it is spoken.
    pub(super) agent: String,
    /// Whether anything about the session was announced.
    pub(super) introduced: bool,
    /// The first sentence of its first summary.
    pub(super) title: Option<LocalizedText>,
    pub(super) state: Activity,
    pub(super) state_since: Moment,
    pub(super) tools: BTreeMap<String, RunningTool>,
    pub(super) run: ToolRun,
    pub(super) outputs: BTreeMap<String, StreamedOutput>,
    /// When the last event came.
    pub(super) last_event: Moment,
    /// When the session was last announced.
    pub(super) last_announced: Moment,
    /// How many heartbeats were announced since then.
    pub(super) heartbeats: u32,
    /// How often the user was told that no events come.
    pub(super) stall_notices: u32,
    /// When the agent expects to have something new.
    pub(super) expected: Moment,
    /// The last percentage that was announced, and when.
    pub(super) progress: Option<(f64, Moment)>,
    pub(super) unreported: CatchUpCounts,
    /// The announcement of its end. `None` while it runs.
    pub(super) ended: Option<LocalizedText>,
}

/// What an agent does, as far as it matters for announcements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Activity {
    Idle,
    Thinking,
    Writing,
    Working,
}

impl Activity {
    /// Returns the activity for a state of the protocol.
    pub(super) fn from_state(name: &str) -> Activity {
        match name {
            state::IDLE => Activity::Idle,
            state::THINKING | "planning" | "reasoning" => Activity::Thinking,
            state::WRITING_OUTPUT => Activity::Writing,
            _ => Activity::Working,
        }
    }
}

/// A tool call that runs.
pub(super) struct RunningTool {
    pub(super) name: String,
    pub(super) since: Moment,
}

/// Consecutive tool calls, to sum them up.
#[derive(Default)]
pub(super) struct ToolRun {
    pub(super) count: u64,
    pub(super) failed: u64,
    pub(super) since: Moment,
    pub(super) last: Moment,
}

/// What happened since the user last caught up.
#[derive(Default)]
pub(super) struct CatchUpCounts {
    pub(super) any: bool,
    pub(super) tools: u64,
    pub(super) failed: u64,
    pub(super) words: u64,
}

impl SessionState {
    pub(super) fn new(now: Moment, event: &Event, agent: String) -> SessionState {
        let producer = &event.envelope.producer;
        SessionState {
            agent_id: producer.agent_id.chars().take(MAX_AGENT_ID_CHARS).collect(),
            agent,
            introduced: false,
            title: None,
            state: Activity::Working,
            state_since: now,
            tools: BTreeMap::new(),
            run: ToolRun::default(),
            outputs: BTreeMap::new(),
            last_event: now,
            last_announced: now,
            heartbeats: 0,
            stall_notices: 0,
            expected: now,
            progress: None,
            unreported: CatchUpCounts { any: true, ..CatchUpCounts::default() },
            ended: None,
        }
    }

    pub(super) fn enter(&mut self, now: Moment, state: Activity) {
        if self.state != state {
            self.state = state;
            self.state_since = now;
        }
    }

    pub(super) fn expect(&mut self, now: Moment, millis: Option<u64>) {
        if let Some(millis) = millis {
            self.expected = self.expected.max(now.plus_millis(millis));
        }
    }

    pub(super) fn open_tool(&mut self, now: Moment, key: String, name: String) {
        if self.run.count == 0 {
            self.run.since = now;
        }
        self.run.count += 1;
        self.run.last = now;
        self.unreported.tools += 1;
        if self.tools.len() < MAX_OPEN_TOOLS {
            self.tools.insert(key, RunningTool { name, since: now });
        }
    }

    /// Returns the tool call that has run longest.
    pub(super) fn oldest_tool(&self) -> Option<&RunningTool> {
        self.tools.values().min_by_key(|tool| tool.since)
    }
}
