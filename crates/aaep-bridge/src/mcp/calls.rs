//! Tool calls, from the request of the client to the response.

use aaep_proto::confirm::{CallDigest, Clarification, Confirmation, Resolution};
use aaep_proto::message::{Response, RiskLevel, ToolInvoked, ToolStatus};
use aaep_proto::time::{Moment, Now};
use serde_json::{Map, Value, json};

use crate::describe::{arguments as describe_arguments, tool_name};
use crate::effect::{BridgeAnswer, BridgeEffect, BridgeQuestion, CallKey, QuestionKey};
use crate::gate::{GateVerdict, verdict};
use crate::rpc::{RpcId, error_line, notification_line, result_line};
use crate::rules::{ConsentRule, RuleDecision};
use crate::splice;
use crate::strict::check_numbers;

use super::client::CAPABILITIES_KEY;
use super::{DecidedCall, McpProxy, NoListenerPolicy, PendingRequest, QuestionPurpose, texts};

/// How often the client hears that a call still waits for the user, in milliseconds.
const KEEP_ALIVE_MILLIS: u64 = 5_000;

/// How long a remembered decision lasts if it is not kept, in milliseconds.
const HOUR_MILLIS: i64 = 3_600_000;

/// Most calls at once. Further ones are refused.
const MAX_CALLS: usize = 256;

/// Where a call is on its way.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum CallPhase {
    /// It waits for the list of tools.
    Listing,
    /// The user is asked.
    Asking { question: QuestionKey, next_keep_alive: Moment, kept_alive: u32 },
    /// Its event is being emitted.
    Invoking,
    /// The server has it. `server_id` is the id that the server knows, if it is not that of the client.
    Running { server_id: Option<RpcId> },
    /// The server runs it as a task.
    Task(String),
    /// The server needs input from the client, which calls again with this state.
    Continuing { state: Value },
}

/// A tool call.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ToolCall {
    pub(super) id: RpcId,
    pub(super) tool: String,
    pub(super) title: String,
    pub(super) arguments: Value,
    /// The line as the client sent it.
    pub(super) line: Vec<u8>,
    pub(super) progress_token: Option<Value>,
    /// Whether the proxy made the token.
    pub(super) owns_token: bool,
    /// The metadata of the request without its progress token, since 2026-07-28.
    pub(super) meta: Option<Value>,
    pub(super) phase: CallPhase,
    pub(super) started: Moment,
    pub(super) was_invoked: bool,
}

impl ToolCall {
    pub(super) fn was_forwarded(&self) -> bool {
        matches!(self.phase, CallPhase::Running { .. } | CallPhase::Task(_) | CallPhase::Continuing { .. })
    }

    fn digest(&self) -> CallDigest {
        CallDigest::of(&tool_name(&self.tool), &self.arguments)
    }
}

impl McpProxy {
    pub(super) fn handle_call_request(&mut self, now: Now, line: &[u8], id: RpcId, params: &Value) {
        let refuse = |proxy: &mut McpProxy, why: &str| {
            proxy.warn(format!("A tool call was not forwarded: {why}."));
            proxy.push(BridgeEffect::ToClient(error_line(
                Some(&id),
                -32602,
                &format!("aaep mcp did not forward this: {why}"),
            )));
        };
        let Some(tool) = params["name"].as_str() else { return refuse(self, "it names no tool") };
        let arguments = match params.get("arguments") {
            None => json!({}),
            Some(object @ Value::Object(_)) => object.clone(),
            Some(_) => return refuse(self, "its arguments are not an object"),
        };
        if let Err(error) = check_numbers(line) {
            return refuse(self, &error.to_string());
        }
        if self.calls.len() >= MAX_CALLS {
            return refuse(self, "too many calls are open");
        }
        if let Some(key) = self.continued_call(tool, &arguments, params) {
            return self.continue_call(now, key, id, line);
        }
        let key = CallKey(self.next_key());
        let meta = params.get("_meta").filter(|meta| meta.get(CAPABILITIES_KEY).is_some()).cloned().map(|mut meta| {
            if let Some(meta) = meta.as_object_mut() {
                meta.remove("progressToken");
            }
            meta
        });
        let call = ToolCall {
            id,
            tool: tool.to_owned(),
            title: String::new(),
            arguments,
            line: line.to_vec(),
            progress_token: params["_meta"].get("progressToken").cloned(),
            owns_token: false,
            meta,
            phase: CallPhase::Listing,
            started: now.moment,
            was_invoked: false,
        };
        self.calls.insert(key, call);
        if self.catalog.get(tool).is_some() || self.catalog.is_complete() {
            self.gate_call(now, key);
        } else if !self.catalog.is_listing() {
            self.request_tools(None);
        }
    }

    pub(super) fn continue_listed_calls(&mut self, now: Now) {
        let waiting = self.calls.iter().filter(|(_, call)| call.phase == CallPhase::Listing);
        let waiting: Vec<CallKey> = waiting.map(|(key, _)| *key).collect();
        waiting.into_iter().for_each(|key| self.gate_call(now, key));
    }

    /// Lets a call pass, asks the user about it, or refuses it.
    fn gate_call(&mut self, now: Now, key: CallKey) {
        let Some(call) = self.calls.get_mut(&key) else { return };
        let known = self.catalog.get(&call.tool);
        let info = known.cloned().unwrap_or_default();
        call.title = texts::tool_title(&call.tool, &info);
        let digest = call.digest();
        match verdict(self.config.gate, &self.rules, info.hints, (&call.tool, &digest), now.wall) {
            GateVerdict::Pass { .. } => self.invoke(now, key, None),
            GateVerdict::Deny => {
                let text = texts::refusal_by_rule(&call.tool);
                let summary = format!("{} was refused, as you decided.", call.title);
                self.refuse_call(key, &text);
                let session = self.ensure_session(now);
                self.push(BridgeEffect::SetState { session, to: "thinking".to_owned(), summary: Some(summary) });
            }
            GateVerdict::Ask => {
                let arguments = describe_arguments(call.arguments.as_object().unwrap_or(&Map::new()));
                let action = texts::action(&call.title, &self.config.server, &arguments);
                let consequence = texts::consequence(&info, known.is_some());
                let mut ask = Confirmation::new(action, consequence)
                    .for_call(tool_name(&call.tool), &call.arguments)
                    .risk(info.hints.risk())
                    .reversibility(info.hints.reversibility());
                if let Some(seconds) = self.config.timeout_seconds {
                    ask = ask.timeout_seconds(seconds);
                }
                let question =
                    self.ask(now, BridgeQuestion::Confirmation(Box::new(ask)), QuestionPurpose::Consent(key));
                if let Some(call) = self.calls.get_mut(&key) {
                    let next_keep_alive = now.moment.plus_millis(KEEP_ALIVE_MILLIS);
                    call.phase = CallPhase::Asking { question, next_keep_alive, kept_alive: 0 };
                }
            }
        }
    }

    pub(super) fn ask(&mut self, now: Now, content: BridgeQuestion, purpose: QuestionPurpose) -> QuestionKey {
        let session = self.ensure_session(now);
        let question = QuestionKey(self.next_key());
        self.questions.insert(question, purpose);
        self.push(BridgeEffect::Ask { session, question, content });
        question
    }

    pub(super) fn handle_consent(&mut self, now: Now, key: CallKey, question: QuestionKey, answer: &BridgeAnswer) {
        let Some(call) = self.calls.get(&key) else { return };
        let (tool, digest) = (call.tool.clone(), call.digest().to_string());
        let is_irreversible = self.catalog.get(&tool).cloned().unwrap_or_default().hints.is_irreversible();
        match answer {
            BridgeAnswer::Decided { accepted: true, resolution: Resolution::Accepted } => {
                self.invoke(now, key, Some(question).filter(|_| is_irreversible));
                if !is_irreversible {
                    self.offer_to_remember(now, DecidedCall { tool, digest, is_allowed: true });
                }
            }
            BridgeAnswer::Decided { resolution, .. } => {
                self.refuse_call(key, &texts::refusal(&tool, *resolution));
                if *resolution == Resolution::Rejected {
                    self.offer_to_remember(now, DecidedCall { tool, digest, is_allowed: false });
                }
            }
            BridgeAnswer::NobodyListens if self.config.no_listener == NoListenerPolicy::Pass => {
                self.warn(format!(
                    "{tool} was called without asking: no listener could answer (--no-subscriber pass)."
                ));
                self.invoke(now, key, None);
            }
            BridgeAnswer::NobodyListens | BridgeAnswer::Answered { .. } => {
                self.warn(format!("{tool} was refused: no listener could answer. To listen, run: aaep listen"));
                self.refuse_call(key, &texts::refusal(&tool, Resolution::NobodyCouldAnswer));
            }
        }
    }

    fn offer_to_remember(&mut self, now: Now, decided: DecidedCall) {
        if !self.config.offers_to_remember {
            return;
        }
        let tool = &decided.tool;
        let done = if decided.is_allowed { "Allow" } else { "Refuse" };
        let choices = [
            ("ask", "Ask me every time".to_owned()),
            ("call", format!("{done} this same call for one hour")),
            ("hour", format!("{done} every call of {tool} for one hour")),
            ("keep", format!("{done} every call of {tool} until I remove the rule")),
        ];
        let question = Clarification::choice(format!("What about later calls of {tool}?"), choices);
        let question = question.default_response("ask").timeout_seconds(60);
        let purpose = QuestionPurpose::Remember(decided);
        self.ask(now, BridgeQuestion::Clarification(Box::new(question)), purpose);
    }

    pub(super) fn handle_remember_answer(&mut self, now: Now, decided: DecidedCall, answer: &BridgeAnswer) {
        let DecidedCall { tool, digest, is_allowed } = decided;
        let BridgeAnswer::Answered { response: Some(Response::Text(choice)), .. } = answer else { return };
        let decision = if is_allowed { RuleDecision::Allow } else { RuleDecision::Deny };
        let in_an_hour = Some(now.wall.millis() + HOUR_MILLIS);
        let rule = ConsentRule::for_tool(tool, decision);
        let rule = match choice.as_str() {
            "call" => ConsentRule { call: Some(digest), expires_at_millis: in_an_hour, ..rule },
            "hour" => ConsentRule { expires_at_millis: in_an_hour, ..rule },
            "keep" => rule,
            _ => return,
        };
        let rule = self.rules.add(rule, now.wall);
        self.push(BridgeEffect::Remember(rule));
    }

    /// Has the event of the call emitted. The call is forwarded when that has succeeded.
    fn invoke(&mut self, now: Now, key: CallKey, permit_of: Option<QuestionKey>) {
        let session = self.ensure_session(now);
        let Some(call) = self.calls.get_mut(&key) else { return };
        call.phase = CallPhase::Invoking;
        let info = self.catalog.get(&call.tool).cloned().unwrap_or_default();
        let args_summary = describe_arguments(call.arguments.as_object().unwrap_or(&Map::new()));
        let invoked = ToolInvoked {
            tool: tool_name(&call.tool),
            description: info.description.clone(),
            args_summary: Some(args_summary).filter(|text| !text.is_empty()),
            summary_normal: format!("Using {} of {}.", call.title, self.config.server),
            risk_level: Some(info.hints.risk()).filter(|risk| *risk != RiskLevel::Low),
            ..ToolInvoked::default()
        };
        let arguments = call.arguments.clone();
        self.push(BridgeEffect::Invoke { session, call: key, invoked: Box::new(invoked), arguments, permit_of });
    }

    /// Handles whether a call was emitted. If it was not, it must not run.
    pub(super) fn finish_invoke(&mut self, now: Now, key: CallKey, emitted: Result<(), String>) {
        let Some(call) = self.calls.get_mut(&key).filter(|call| call.phase == CallPhase::Invoking) else { return };
        if let Err(why) = emitted {
            let text = format!("{} was not called, because it could not be announced: {why}", call.tool);
            self.warn(text.clone());
            return self.refuse_call(key, &text);
        }
        (call.was_invoked, call.started) = (true, now.moment);
        call.phase = CallPhase::Running { server_id: None };
        let (id, line, has_capabilities) = (call.id.clone(), call.line.clone(), call.meta.clone());
        let needs_token = call.progress_token.is_none() && self.config.injects;
        if let Some(session) = &mut self.session {
            session.tool_calls += 1;
        }
        let mut line = line;
        if let Some(meta) = has_capabilities {
            let has_it = meta[CAPABILITIES_KEY].get("elicitation").is_some();
            self.client_elicits = has_it;
            line = self.with_elicitation(&line, &["params", "_meta", CAPABILITIES_KEY], has_it);
        }
        if needs_token {
            line = self.with_progress_token(key, line);
        }
        self.expect(id, PendingRequest::Call { call: key, own: false });
        self.push(BridgeEffect::ToServer(line));
    }

    fn with_progress_token(&mut self, key: CallKey, line: Vec<u8>) -> Vec<u8> {
        let token = format!("aaep-progress-{}", self.next_key());
        let field = format!(r#""progressToken":"{token}""#);
        let in_meta = splice::insert_field(&line, &["params", "_meta"], &field);
        let has_meta = splice::find(&line, &["params", "_meta"]).is_some();
        let meta = format!(r#""_meta":{{{field}}}"#);
        let changed = in_meta.or_else(|| splice::insert_field(&line, &["params"], &meta).filter(|_| !has_meta));
        let Some(changed) = changed else { return line };
        if let Some(call) = self.calls.get_mut(&key) {
            (call.progress_token, call.owns_token) = (Some(token.into()), true);
        }
        changed
    }

    /// Answers a call on behalf of the server, which never got it.
    pub(super) fn refuse_call(&mut self, key: CallKey, text: &str) {
        let Some(call) = self.calls.remove(&key) else { return };
        let mut result = json!({"content": [{"type": "text", "text": text}], "isError": true});
        if call.meta.is_some() {
            result["resultType"] = "complete".into();
        }
        self.push(BridgeEffect::ToClient(result_line(&call.id, &result)));
    }

    /// Drops a call that the client cancelled before the server got it. A cancelled request gets no response.
    pub(super) fn drop_call(&mut self, now: Now, key: CallKey) {
        if let Some(call) = self.calls.remove(&key)
            && let CallPhase::Asking { question, .. } = call.phase
        {
            self.questions.remove(&question);
            self.push(BridgeEffect::Withdraw(question));
        }
        self.touch(now);
    }

    /// Stops a call at the user's request.
    pub(super) fn cancel_call(&mut self, now: Now, key: CallKey) {
        let Some(call) = self.calls.get(&key) else { return };
        let text = format!("{} was stopped. The user asked to stop.", call.tool);
        if !call.was_forwarded() {
            if let CallPhase::Asking { question, .. } = call.phase {
                self.questions.remove(&question);
                self.push(BridgeEffect::Withdraw(question));
            }
            return self.refuse_call(key, &text);
        }
        let (id, server_id) = match &call.phase {
            CallPhase::Running { server_id } => (call.id.clone(), server_id.clone().unwrap_or_else(|| call.id.clone())),
            _ => (call.id.clone(), call.id.clone()),
        };
        if let Some(request) = self.pending.get_mut(&server_id) {
            *request = PendingRequest::Abandoned;
            let params = format!(r#"{{"requestId":{server_id},"reason":"The user asked to stop."}}"#);
            let params = serde_json::from_str(&params).unwrap_or_default();
            self.push(BridgeEffect::ToServer(notification_line("notifications/cancelled", &params)));
            let result = json!({"content": [{"type": "text", "text": text}], "isError": true});
            self.push(BridgeEffect::ToClient(result_line(&id, &result)));
        }
        self.complete_call(now, key, Err("You asked to stop.".to_owned()));
    }

    /// Reports the end of a call.
    pub(super) fn complete_call(&mut self, now: Now, key: CallKey, result: Result<(), String>) {
        let Some(call) = self.calls.remove(&key) else { return };
        if call.was_invoked {
            let status = if result.is_ok() { ToolStatus::Success } else { ToolStatus::Error };
            let duration_ms = now.moment.since(call.started) / 1000;
            self.push(BridgeEffect::Complete { call: key, status, error: result.err(), duration_ms });
        }
        self.touch(now);
    }

    pub(super) fn end_all_calls(&mut self, now: Now, why: &str) {
        let keys: Vec<CallKey> = self.calls.keys().copied().collect();
        self.withdraw_all();
        for key in keys {
            self.complete_call(now, key, Err(why.to_owned()));
        }
        self.pending.clear();
    }

    pub(super) fn call_of_task(&self, task: &str) -> Option<CallKey> {
        let is_task = |call: &ToolCall| matches!(&call.phase, CallPhase::Task(id) if id == task);
        self.calls.iter().find(|(_, call)| is_task(call)).map(|(key, _)| *key)
    }

    pub(super) fn set_task(&mut self, key: CallKey, task: &str) {
        if let Some(call) = self.calls.get_mut(&key) {
            call.phase = CallPhase::Task(task.to_owned());
        }
    }

    /// Waits for the client to call again with the input that the server asked for.
    pub(super) fn await_continuation(&mut self, now: Now, key: CallKey, result: &Value) {
        if let Some(call) = self.calls.get_mut(&key) {
            call.phase = CallPhase::Continuing { state: result["requestState"].clone() };
        }
        self.touch(now);
    }

    /// Returns the call that a request continues: the same call, with the state that the server returned for it. The user has
    /// agreed to it already.
    fn continued_call(&self, tool: &str, arguments: &Value, params: &Value) -> Option<CallKey> {
        params.get("inputResponses").or_else(|| params.get("requestState"))?;
        let is_same = |call: &ToolCall| {
            matches!(&call.phase, CallPhase::Continuing { state } if *state == params["requestState"])
                && call.tool == tool
                && call.arguments == *arguments
        };
        self.calls.iter().find(|(_, call)| is_same(call)).map(|(key, _)| *key)
    }

    fn continue_call(&mut self, now: Now, key: CallKey, id: RpcId, line: &[u8]) {
        let Some(call) = self.calls.get_mut(&key) else { return };
        (call.id, call.phase) = (id.clone(), CallPhase::Running { server_id: None });
        self.expect(id, PendingRequest::Call { call: key, own: false });
        self.forward(line);
        self.touch(now);
    }

    pub(super) fn next_keep_alive(&self) -> Option<Moment> {
        let waits = self.calls.values().filter(|call| call.progress_token.is_some());
        let next = |call: &ToolCall| match call.phase {
            CallPhase::Asking { next_keep_alive, .. } => Some(next_keep_alive),
            _ => None,
        };
        waits.filter_map(next).min()
    }

    /// Tells clients that asked for progress that a call waits for the user, so that those that can do so wait longer.
    pub(super) fn send_keep_alives(&mut self, now: Now) {
        let mut lines = Vec::new();
        for call in self.calls.values_mut() {
            let Some(token) = &call.progress_token else { continue };
            if let CallPhase::Asking { next_keep_alive, kept_alive, .. } = &mut call.phase
                && *next_keep_alive <= now.moment
            {
                *kept_alive += 1;
                *next_keep_alive = now.moment.plus_millis(KEEP_ALIVE_MILLIS);
                // Progress has to grow, and the server's own may start at zero.
                let progress = f64::from(*kept_alive) * 1e-6;
                let params =
                    json!({"progressToken": token, "progress": progress, "message": "Waiting for the user's answer"});
                lines.push(notification_line("notifications/progress", &params));
            }
        }
        lines.into_iter().for_each(|line| self.push(BridgeEffect::ToClient(line)));
    }
}
