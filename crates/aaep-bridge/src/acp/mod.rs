//! A proxy between an editor and an agent of the Agent Client Protocol.
//!
//! Lines pass unchanged in both directions. Each prompt of the user is one session: its text, its tools and its plan are
//! announced, and a permission that the agent asks for is a question to the user. What an agent does without asking can
//! only be observed.
//!
//! | File | Contents |
//! |---|---|
//! | `client.rs` | lines of the editor |
//! | `agent.rs` | lines of the agent: updates, responses |
//! | `permissions.rs` | permissions and forms of the agent |
//! | `tools.rs` | tool calls of the agent |

mod agent;
mod client;
mod permissions;
#[cfg(test)]
mod tests;
mod tools;

use std::collections::{BTreeMap, VecDeque};

use aaep_proto::message::{CancelledBy, ErrorCategory};
use aaep_proto::time::{Moment, Now};
use serde_json::json;

use crate::effect::{BridgeAnswer, BridgeEffect, CallKey, LineBridge, QuestionKey, SessionEnd, SessionKey};
use crate::form::Form;
use crate::rpc::{RpcId, notification_line, result_line};

use permissions::AcpPermission;
use tools::AcpTool;

/// Who answers a permission of the agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AnswerFrom {
    /// A listener, if one can answer; otherwise the editor.
    #[default]
    Listener,
    /// The editor. Listeners only hear that it asks.
    Editor,
    /// Both are asked, and the first answer counts.
    Both,
}

/// The settings of a proxy.
#[derive(Clone, Debug)]
pub struct AcpConfig {
    /// The name of the agent for people.
    pub agent: String,
    /// Who answers permissions.
    pub answer: AnswerFrom,
    /// How long the user has for an answer, in seconds. Without it, the risk decides.
    pub timeout_seconds: Option<u32>,
}

impl AcpConfig {
    /// Makes the default settings for an agent with this name.
    pub fn new(agent: impl Into<String>) -> AcpConfig {
        AcpConfig { agent: agent.into(), answer: AnswerFrom::default(), timeout_seconds: None }
    }
}

/// A prompt that the agent works on.
#[derive(Debug)]
struct Turn {
    key: SessionKey,
    tools: BTreeMap<String, AcpTool>,
    tool_calls: u64,
    is_thinking: bool,
    has_output: bool,
    was_cancelled: bool,
}

/// A request of the editor whose response matters.
#[derive(Clone, Debug, PartialEq)]
enum EditorRequest {
    Prompt(String),
    /// Updates repeat the history until the response.
    Load(String),
}

/// A form of the agent that the user fills in.
#[derive(Debug)]
struct AgentForm {
    id: RpcId,
    line: Vec<u8>,
    session: String,
    form: Form,
    was_asked: bool,
}

/// What a question is for.
#[derive(Clone, Debug, PartialEq)]
enum AcpPurpose {
    Permission(RpcId),
    Form(RpcId),
}

/// The proxy.
#[derive(Debug)]
pub struct AcpProxy {
    config: AcpConfig,
    turns: BTreeMap<String, Turn>,
    requests: BTreeMap<RpcId, EditorRequest>,
    permissions: BTreeMap<RpcId, AcpPermission>,
    forms: BTreeMap<RpcId, AgentForm>,
    questions: BTreeMap<QuestionKey, AcpPurpose>,
    /// Requests of the agent that were answered here and whose late answer of the editor is dropped.
    answered: VecDeque<RpcId>,
    effects: VecDeque<BridgeEffect>,
    next_key: u64,
}

impl AcpProxy {
    /// Creates a proxy.
    pub fn new(config: AcpConfig) -> AcpProxy {
        AcpProxy {
            config,
            turns: BTreeMap::new(),
            requests: BTreeMap::new(),
            permissions: BTreeMap::new(),
            forms: BTreeMap::new(),
            questions: BTreeMap::new(),
            answered: VecDeque::new(),
            effects: VecDeque::new(),
            next_key: 0,
        }
    }

    fn next_key(&mut self) -> u64 {
        self.next_key += 1;
        self.next_key
    }

    fn push(&mut self, effect: BridgeEffect) {
        self.effects.push_back(effect);
    }

    fn forward_to_agent(&mut self, line: &[u8]) {
        self.push(BridgeEffect::ToServer(line.to_vec()));
    }

    fn forward_to_editor(&mut self, line: &[u8]) {
        self.push(BridgeEffect::ToClient(line.to_vec()));
    }

    /// Starts the session of a prompt.
    fn start_turn(&mut self, session: &str, request: Option<String>) {
        self.end_turn(
            session,
            SessionEnd::Cancelled { by: CancelledBy::System, summary: "A new request came.".to_owned() },
        );
        let key = SessionKey(self.next_key());
        let turn = Turn {
            key,
            tools: BTreeMap::new(),
            tool_calls: 0,
            is_thinking: false,
            has_output: false,
            was_cancelled: false,
        };
        self.turns.insert(session.to_owned(), turn);
        let summary = format!("{} works on your request.", self.config.agent);
        self.push(BridgeEffect::StartSession { session: key, summary, request });
    }

    /// Ends the session of a prompt, with everything in it that is open.
    fn end_turn(&mut self, session: &str, end: SessionEnd) {
        let Some(turn) = self.turns.remove(session) else { return };
        for permission in self.permissions_of(session) {
            self.withdraw_permission(&permission);
        }
        self.complete_open_tools(turn.tools);
        if turn.has_output {
            self.push(BridgeEffect::FinishOutput(turn.key));
        }
        self.push(BridgeEffect::EndSession { session: turn.key, end });
    }

    fn end_all(&mut self, end: &SessionEnd) {
        let sessions: Vec<String> = self.turns.keys().cloned().collect();
        sessions.iter().for_each(|session| self.end_turn(session, end.clone()));
        for question in std::mem::take(&mut self.questions).into_keys() {
            self.push(BridgeEffect::Withdraw(question));
        }
        self.forms.clear();
        self.permissions.clear();
    }
}

impl LineBridge for AcpProxy {
    fn poll_effect(&mut self) -> BridgeEffect {
        self.effects.pop_front().unwrap_or_else(|| BridgeEffect::Idle(self.next_announcement()))
    }

    fn handle_client_line(&mut self, now: Now, line: &[u8]) {
        self.read_editor_line(now, line);
    }

    fn handle_server_line(&mut self, now: Now, line: &[u8]) {
        self.read_agent_line(now, line);
    }

    fn handle_client_closed(&mut self, _: Now) {
        let summary = "The editor has ended.".to_owned();
        self.end_all(&SessionEnd::Cancelled { by: CancelledBy::System, summary });
    }

    fn handle_server_closed(&mut self, _: Now) {
        let summary = format!("{} ended before its work was done.", self.config.agent);
        self.end_all(&SessionEnd::Errored { category: ErrorCategory::Transient, summary });
    }

    fn handle_answer(&mut self, now: Now, question: QuestionKey, answer: BridgeAnswer) {
        match self.questions.remove(&question) {
            Some(AcpPurpose::Permission(id)) => self.handle_permission_answer(now, &id, question, &answer),
            Some(AcpPurpose::Form(id)) => self.handle_form_answer(&id, &answer),
            None => {}
        }
    }

    fn handle_invoked(&mut self, now: Now, call: CallKey, emitted: Result<(), String>) {
        self.finish_invoke(now, call, emitted);
    }

    /// Asks the agent to stop. The session ends when the agent says so.
    fn handle_cancel_request(&mut self, _: Now, key: SessionKey) {
        let Some((session, turn)) = self.turns.iter_mut().find(|(_, turn)| turn.key == key) else { return };
        turn.was_cancelled = true;
        let session = session.clone();
        self.cancel_permissions(&session);
        self.push(BridgeEffect::ToServer(notification_line("session/cancel", &json!({"sessionId": session}))));
    }

    fn handle_timeout(&mut self, now: Now) {
        self.announce_due_tools(now);
    }
}

impl AcpProxy {
    /// Answers a permission of the agent with `cancelled`, as clients do when a prompt is cancelled.
    fn cancel_permissions(&mut self, session: &str) {
        for id in self.permissions_of(session) {
            let was_asked_here_only = self.permissions.get(&id).is_some_and(|permission| !permission.is_with_editor);
            self.withdraw_permission(&id);
            if was_asked_here_only {
                let line = result_line(&id, &json!({"outcome": {"outcome": "cancelled"}}));
                self.push(BridgeEffect::ToServer(line));
            }
        }
    }

    fn next_announcement(&self) -> Option<Moment> {
        self.turns.values().flat_map(|turn| turn.tools.values()).filter_map(AcpTool::announce_at).min()
    }
}
