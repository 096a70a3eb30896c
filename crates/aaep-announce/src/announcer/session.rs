//! What is remembered of a session, all of it bounded.

use std::collections::BTreeMap;

use aaep_proto::message::{Event, state};
use aaep_proto::time::Moment;

use super::output::Output;
use super::words::Text;
use crate::phrases::Phrases;
use crate::profile::Profile;
use crate::speakable;

/// The most tools and outputs that are open at once in one session.
const TOOLS: usize = 64;
pub(super) const OUTPUTS: usize = 16;

/// A session.
pub(super) struct Session {
    pub(super) agent_id: String,
    /// The agent's name as it is said.
    pub(super) agent: String,
    /// What it is about, short.
    pub(super) title: Option<Text>,
    pub(super) state: State,
    pub(super) state_since: Moment,
    pub(super) tools: BTreeMap<String, Tool>,
    pub(super) run: Run,
    pub(super) outputs: BTreeMap<String, Output>,
    /// When anything came from the agent.
    pub(super) last_event: Moment,
    /// When anything was said of the session.
    pub(super) last_said: Moment,
    /// Signs of life since then.
    pub(super) beats: u32,
    /// Remarks that nothing comes any more.
    pub(super) stalls: u32,
    /// By when the agent expects to have something new.
    pub(super) expected: Moment,
    /// The last percentage that was said, and when.
    pub(super) progress: Option<(f64, Moment)>,
    pub(super) news: News,
    /// The words of its end.
    pub(super) ended: Option<Text>,
}

/// What an agent is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Idle,
    Thinking,
    Writing,
    Working,
}

impl State {
    pub(super) fn named(name: &str) -> State {
        match name {
            state::IDLE => State::Idle,
            state::THINKING | "planning" | "reasoning" => State::Thinking,
            state::WRITING_OUTPUT => State::Writing,
            _ => State::Working,
        }
    }
}

/// A tool that runs.
pub(super) struct Tool {
    pub(super) name: String,
    pub(super) since: Moment,
}

/// Tool calls that follow on each other.
#[derive(Default)]
pub(super) struct Run {
    pub(super) count: u64,
    pub(super) failed: u64,
    pub(super) since: Moment,
    pub(super) last: Moment,
}

/// What happened since the user was brought up to date.
#[derive(Default)]
pub(super) struct News {
    pub(super) any: bool,
    pub(super) tools: u64,
    pub(super) failed: u64,
    pub(super) words: u64,
}

impl Session {
    pub(super) fn new(now: Moment, event: &Event, profile: &Profile) -> Session {
        let producer = &event.envelope.producer;
        Session {
            agent_id: producer.agent_id.chars().take(128).collect(),
            agent: agent_name(event, profile),
            title: None,
            state: State::Working,
            state_since: now,
            tools: BTreeMap::new(),
            run: Run::default(),
            outputs: BTreeMap::new(),
            last_event: now,
            last_said: now,
            beats: 0,
            stalls: 0,
            expected: now,
            progress: None,
            news: News { any: true, ..News::default() },
            ended: None,
        }
    }

    pub(super) fn enter(&mut self, now: Moment, state: State) {
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
        self.news.tools += 1;
        if self.tools.len() < TOOLS {
            self.tools.insert(key, Tool { name, since: now });
        }
    }

    /// The tool that runs longest.
    pub(super) fn oldest_tool(&self) -> Option<&Tool> {
        self.tools.values().min_by_key(|tool| tool.since)
    }
}

/// The name of the agent behind an event, fit to be said.
pub(super) fn agent_name(event: &Event, profile: &Profile) -> String {
    let producer = &event.envelope.producer;
    let name = producer.agent_name.as_deref().map(|n| speakable::name(n, profile)).filter(|n| !n.is_empty());
    let id = || speakable::name(&producer.agent_id.replace('-', " "), profile);
    let found = name.unwrap_or_else(id);
    if found.is_empty() { Phrases::for_languages(&profile.languages).say("agent-unknown") } else { found }
}
