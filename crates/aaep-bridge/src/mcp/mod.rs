//! A proxy between a client and a server of the Model Context Protocol.
//!
//! Lines pass unchanged in both directions, except for tool calls that the user has to agree to first. Both generations of
//! MCP are supported: connections that start with `initialize` (up to 2025-11-25), and requests that carry their own
//! metadata (2026-07-28).
//!
//! | File | Contents |
//! |---|---|
//! | `client.rs` | lines of the client |
//! | `server.rs` | lines of the server |
//! | `calls.rs` | tool calls, from the request to the response |
//! | `elicit.rs` | questions of the server to the user |
//! | `catalog.rs` | what the tools of the server say about themselves |
//! | `texts.rs` | sentences for the user and for the client |

mod calls;
mod catalog;
mod client;
mod elicit;
mod server;
#[cfg(test)]
mod tests;
mod texts;

use std::collections::{BTreeMap, VecDeque};

use aaep_proto::message::{CancelledBy, ErrorCategory};
use aaep_proto::time::{Moment, Now};

use crate::effect::{BridgeAnswer, BridgeEffect, CallKey, LineBridge, QuestionKey, SessionEnd, SessionKey};
use crate::gate::GateMode;
use crate::rpc::RpcId;
use crate::rules::{ConsentRule, RuleBook};

use calls::ToolCall;
use catalog::ToolCatalog;
use elicit::Elicitation;

/// What happens to a call that needs a yes if no listener can give it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NoListenerPolicy {
    /// It is refused.
    #[default]
    Deny,
    /// It passes without a question.
    Pass,
    /// It waits until a listener connects, or until its timeout. The driver asks although nobody listens.
    Wait,
}

/// The settings of a proxy.
#[derive(Clone, Debug)]
pub struct McpConfig {
    /// The name of the server for people.
    pub server: String,
    /// Which calls the user is asked about.
    pub gate: GateMode,
    /// What happens if no listener can answer.
    pub no_listener: NoListenerPolicy,
    /// Decisions that were made before.
    pub rules: Vec<ConsentRule>,
    /// Whether the user is asked after a decision whether it applies to later calls too.
    pub offers_to_remember: bool,
    /// How long the user has for an answer, in seconds. Without it, the risk decides.
    pub timeout_seconds: Option<u32>,
    /// How long a session stays open after its last call, in milliseconds.
    pub idle_millis: u64,
    /// Whether requests get what the client lacks: the capability `elicitation`, and progress tokens.
    pub injects: bool,
}

impl McpConfig {
    /// Makes the default settings for a server with this name.
    pub fn new(server: impl Into<String>) -> McpConfig {
        McpConfig {
            server: server.into(),
            gate: GateMode::default(),
            no_listener: NoListenerPolicy::default(),
            rules: Vec::new(),
            offers_to_remember: false,
            timeout_seconds: None,
            idle_millis: 10_000,
            injects: true,
        }
    }
}

/// A request that was forwarded to the server and whose response matters.
#[derive(Clone, Debug, PartialEq)]
enum PendingRequest {
    /// `initialize` or `server/discover`.
    Handshake,
    /// `tools/list` of the client.
    ToolList,
    /// `tools/list` of the proxy itself.
    OwnToolList,
    /// A tool call. `own` if the proxy repeated it with answers of the user, under an id of its own.
    Call { call: CallKey, own: bool },
    /// A request about the task of a call. `is_result` if its response is the result of the task.
    Task { call: CallKey, is_result: bool },
    /// A call that was answered on behalf of the server, whose late response is dropped.
    Abandoned,
}

/// What a question is for.
#[derive(Clone, Debug, PartialEq)]
enum QuestionPurpose {
    /// Whether a call may run.
    Consent(CallKey),
    /// A form of the server.
    Form(elicit::ElicitationKey),
    /// Whether a decision is remembered.
    Remember(DecidedCall),
}

/// A call that the user has decided about.
#[derive(Clone, Debug, PartialEq)]
struct DecidedCall {
    tool: String,
    digest: String,
    is_allowed: bool,
}

/// The session of a burst of calls.
#[derive(Clone, Debug, PartialEq)]
struct OpenSession {
    key: SessionKey,
    tool_calls: u64,
    quiet_since: Moment,
}

/// The proxy.
///
/// A user's request to stop refuses the calls that wait and cancels those that run.
#[derive(Debug)]
pub struct McpProxy {
    config: McpConfig,
    rules: RuleBook,
    catalog: ToolCatalog,
    client_elicits: bool,
    pending: BTreeMap<RpcId, PendingRequest>,
    calls: BTreeMap<CallKey, ToolCall>,
    questions: BTreeMap<QuestionKey, QuestionPurpose>,
    elicitations: BTreeMap<elicit::ElicitationKey, Elicitation>,
    session: Option<OpenSession>,
    effects: VecDeque<BridgeEffect>,
    next_key: u64,
}

impl McpProxy {
    /// Creates a proxy.
    pub fn new(config: McpConfig) -> McpProxy {
        let rules = RuleBook::new(config.server.clone(), config.rules.clone());
        McpProxy {
            config,
            rules,
            catalog: ToolCatalog::default(),
            client_elicits: false,
            pending: BTreeMap::new(),
            calls: BTreeMap::new(),
            questions: BTreeMap::new(),
            elicitations: BTreeMap::new(),
            session: None,
            effects: VecDeque::new(),
            next_key: 0,
        }
    }

    fn next_key(&mut self) -> u64 {
        self.next_key += 1;
        self.next_key
    }

    fn own_id(&mut self, purpose: &str) -> RpcId {
        RpcId::from_text(&format!("aaep-{purpose}-{}", self.next_key()))
    }

    fn push(&mut self, effect: BridgeEffect) {
        self.effects.push_back(effect);
    }

    fn warn(&mut self, text: impl Into<String>) {
        self.push(BridgeEffect::Warn(text.into()));
    }

    /// Whether nothing is open that a session is needed for.
    fn is_quiet(&self) -> bool {
        self.calls.is_empty() && self.questions.is_empty() && self.elicitations.is_empty()
    }

    /// Restarts the time after which a session ends.
    fn touch(&mut self, now: Now) {
        if let Some(session) = &mut self.session {
            session.quiet_since = now.moment;
        }
    }

    /// Returns the open session, or starts one.
    fn ensure_session(&mut self, now: Now) -> SessionKey {
        if let Some(session) = &self.session {
            return session.key;
        }
        let key = SessionKey(self.next_key());
        self.session = Some(OpenSession { key, tool_calls: 0, quiet_since: now.moment });
        let summary = format!("Using the tools of {}.", self.config.server);
        self.push(BridgeEffect::StartSession { session: key, summary, request: None });
        key
    }

    fn end_session(&mut self) {
        let Some(session) = &self.session else { return };
        let tool_calls = session.tool_calls;
        let summary = match tool_calls {
            0 => format!("No tool of {} was used.", self.config.server),
            1 => format!("Used one tool of {}.", self.config.server),
            count => format!("Used {count} tools of {}.", self.config.server),
        };
        self.finish_session(SessionEnd::Completed { summary, tool_calls });
    }

    fn finish_session(&mut self, end: SessionEnd) {
        if let Some(session) = self.session.take() {
            self.push(BridgeEffect::EndSession { session: session.key, end });
        }
    }

    fn withdraw_all(&mut self) {
        for question in std::mem::take(&mut self.questions).into_keys() {
            self.push(BridgeEffect::Withdraw(question));
        }
        self.elicitations.clear();
    }

    fn next_deadline(&self) -> Option<Moment> {
        let idle = self.session.as_ref().filter(|_| self.is_quiet());
        let idle = idle.map(|session| session.quiet_since.plus_millis(self.config.idle_millis));
        idle.into_iter().chain(self.next_keep_alive()).min()
    }
}

impl LineBridge for McpProxy {
    fn poll_effect(&mut self) -> BridgeEffect {
        self.effects.pop_front().unwrap_or_else(|| BridgeEffect::Idle(self.next_deadline()))
    }

    fn handle_client_line(&mut self, now: Now, line: &[u8]) {
        self.read_client_line(now, line);
    }

    fn handle_server_line(&mut self, now: Now, line: &[u8]) {
        self.read_server_line(now, line);
    }

    fn handle_invoked(&mut self, now: Now, call: CallKey, emitted: Result<(), String>) {
        self.finish_invoke(now, call, emitted);
    }

    fn handle_answer(&mut self, now: Now, question: QuestionKey, answer: BridgeAnswer) {
        let Some(purpose) = self.questions.remove(&question) else { return };
        match purpose {
            QuestionPurpose::Consent(call) => self.handle_consent(now, call, question, &answer),
            QuestionPurpose::Form(key) => self.handle_form_answer(now, key, &answer),
            QuestionPurpose::Remember(decided) => self.handle_remember_answer(now, decided, &answer),
        }
        self.touch(now);
    }

    fn handle_timeout(&mut self, now: Now) {
        self.send_keep_alives(now);
        let is_over = |session: &OpenSession, idle: u64| now.moment >= session.quiet_since.plus_millis(idle);
        if self.is_quiet() && self.session.as_ref().is_some_and(|session| is_over(session, self.config.idle_millis)) {
            self.end_session();
        }
    }

    fn handle_cancel_request(&mut self, now: Now, session: SessionKey) {
        if self.session.as_ref().is_none_or(|open| open.key != session) {
            return;
        }
        let calls: Vec<CallKey> = self.calls.keys().copied().collect();
        for call in calls {
            self.cancel_call(now, call);
        }
        self.withdraw_all();
        let summary = "Stopped at your request.".to_owned();
        self.finish_session(SessionEnd::Cancelled { by: CancelledBy::User, summary });
    }

    fn handle_server_closed(&mut self, now: Now) {
        let had_calls = !self.calls.is_empty();
        self.end_all_calls(now, "The server has ended.");
        let server = &self.config.server;
        if had_calls {
            let summary = format!("The server {server} ended before its work was done.");
            self.finish_session(SessionEnd::Errored { category: ErrorCategory::Transient, summary });
        } else {
            self.end_session();
        }
    }

    fn handle_client_closed(&mut self, now: Now) {
        let had_calls = !self.calls.is_empty();
        self.end_all_calls(now, "The client has ended.");
        if had_calls {
            let summary = "The client ended before the work was done.".to_owned();
            self.finish_session(SessionEnd::Cancelled { by: CancelledBy::System, summary });
        } else {
            self.end_session();
        }
    }
}
