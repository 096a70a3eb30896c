//! Lines of the server.

use aaep_proto::json::Json;
use aaep_proto::message::Progress;
use aaep_proto::record::Decimal;
use aaep_proto::time::Now;
use serde_json::{Value, json};

use crate::describe::shorten;
use crate::effect::{BridgeEffect, CallKey};
use crate::rpc::{RpcId, RpcMessage, request_line};
use crate::strict::{LineError, read_strict};

use super::{McpProxy, PendingRequest};

/// Whether a line of the server goes to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Passage {
    Forward,
    /// It was caused by the proxy, or is answered by it.
    Keep,
}

/// A line of the server.
#[derive(Clone, Copy, Debug)]
struct ServerLine<'l> {
    bytes: &'l [u8],
    /// Whether parsers can disagree on its meaning.
    is_ambiguous: bool,
    is_batch: bool,
}

impl McpProxy {
    /// Handles a line of the server, without its line break. Lines that are not JSON are dropped, everything else reaches the
    /// client unchanged, unless the proxy caused it.
    pub(super) fn read_server_line(&mut self, now: Now, line: &[u8]) {
        if line.iter().all(u8::is_ascii_whitespace) {
            return;
        }
        let (value, is_ambiguous) = match read_strict(line) {
            Ok(value) => (value, false),
            Err(
                LineError::DuplicateKey(_) | LineError::UnusualCase(_) | LineError::Batch | LineError::CarriageReturn,
            ) => match Json::parse(line) {
                Ok(json) => (json.to_value(), true),
                Err(_) => return self.warn("The server wrote a line that is not JSON."),
            },
            Err(error) => {
                let start = shorten(&String::from_utf8_lossy(&line[..line.len().min(200)]), 100);
                return self.warn(format!("A line of the server was not forwarded: {error}. It starts with: {start}"));
            }
        };
        let from = ServerLine { bytes: line, is_ambiguous, is_batch: value.is_array() };
        let messages = if let Value::Array(batch) = value { batch } else { vec![value] };
        let mut passage = Passage::Keep;
        for message in messages {
            let each = match RpcMessage::from_value(message) {
                Ok(message) => self.handle_server_message(now, from, message),
                // The client decides what to make of it.
                Err(_) => Passage::Forward,
            };
            if each == Passage::Forward {
                passage = Passage::Forward;
            }
        }
        if passage == Passage::Forward {
            self.push(BridgeEffect::ToClient(line.to_vec()));
        }
        self.touch(now);
    }

    fn handle_server_message(&mut self, now: Now, line: ServerLine<'_>, message: RpcMessage) -> Passage {
        match message {
            RpcMessage::Response { id, result } => self.handle_response(now, line, &id, result),
            RpcMessage::Request { id, method, params } if method == "elicitation/create" && !line.is_batch => {
                self.elicit(now, line.bytes, id, &params);
                Passage::Keep
            }
            RpcMessage::Request { method, .. } => {
                if method == "sampling/createMessage"
                    && let Some(session) = &self.session
                {
                    let summary = Some("The server asks the model for help.".to_owned());
                    let effect = BridgeEffect::SetState { session: session.key, to: "thinking".to_owned(), summary };
                    self.push(effect);
                }
                Passage::Forward
            }
            RpcMessage::Notification { method, params } => self.handle_server_notification(now, &method, &params),
        }
    }

    fn handle_server_notification(&mut self, now: Now, method: &str, params: &Value) -> Passage {
        match method {
            "notifications/tools/list_changed" => self.catalog.clear(),
            "notifications/progress" => return self.handle_progress(params),
            "notifications/tasks/status" | "notifications/tasks" => self.handle_task_status(now, params),
            "notifications/cancelled" => {
                if let Some(id) = params.get("requestId").and_then(RpcId::from_value) {
                    return if self.withdraw_elicitation(&id) { Passage::Keep } else { Passage::Forward };
                }
            }
            _ => {}
        }
        Passage::Forward
    }

    fn handle_progress(&mut self, params: &Value) -> Passage {
        let token = &params["progressToken"];
        let Some((_, call)) = self.calls.iter().find(|(_, call)| call.progress_token.as_ref() == Some(token)) else {
            let is_ours = token.as_str().is_some_and(|token| token.starts_with("aaep-progress-"));
            return if is_ours { Passage::Keep } else { Passage::Forward };
        };
        let (is_ours, title) = (call.owns_token, call.title.clone());
        if let Some(session) = &self.session {
            let number = |name: &str| params[name].as_f64().filter(|number| number.is_finite());
            let percent = number("progress").zip(number("total").filter(|total| *total > 0.0));
            let percent = percent.map(|(done, total)| Decimal((done / total * 100.0).clamp(0.0, 100.0)));
            let message = params["message"].as_str().map(|text| shorten(text.trim(), 500));
            let description = message.filter(|text| !text.is_empty()).unwrap_or(title);
            let progress = Progress { percent, description: Some(description), ..Progress::default() };
            let session = session.key;
            self.push(BridgeEffect::Progress { session, progress });
        }
        if is_ours { Passage::Keep } else { Passage::Forward }
    }

    fn handle_response(&mut self, now: Now, line: ServerLine<'_>, id: &RpcId, result: Result<Value, Value>) -> Passage {
        let Some(request) = self.pending.remove(id) else { return Passage::Forward };
        match (request, result) {
            (PendingRequest::Abandoned, _) => Passage::Keep,
            (PendingRequest::Handshake, _) => Passage::Forward,
            (PendingRequest::ToolList, result) => {
                if let Ok(result) = result {
                    self.catalog.add(&result, line.is_ambiguous);
                }
                Passage::Forward
            }
            (PendingRequest::OwnToolList, result) => {
                self.handle_own_list(now, result, line.is_ambiguous);
                Passage::Keep
            }
            (PendingRequest::Task { call, is_result }, result) => {
                match result {
                    Ok(result) if is_result => self.complete_with_result(now, call, &result),
                    Ok(result) => self.handle_task_status_of(now, call, &result),
                    Err(error) => self.complete_call(now, call, Err(error_text(&error))),
                }
                Passage::Forward
            }
            (PendingRequest::Call { call, own }, result) => {
                if let Ok(result) = &result
                    && result["resultType"] == "input_required"
                    && self.elicit_inputs(now, call, line.bytes, result)
                {
                    return Passage::Keep;
                }
                if own {
                    self.answer_under_client_id(call, line.bytes);
                }
                match result {
                    Ok(result) => self.complete_with_result(now, call, &result),
                    Err(error) => self.complete_call(now, call, Err(error_text(&error))),
                }
                if own { Passage::Keep } else { Passage::Forward }
            }
        }
    }

    fn handle_own_list(&mut self, now: Now, result: Result<Value, Value>, is_ambiguous: bool) {
        if let Ok(result) = result {
            self.catalog.add(&result, is_ambiguous);
            let cursor = result["nextCursor"].as_str().filter(|cursor| !cursor.is_empty());
            let is_needed = self.calls.values().any(|call| self.catalog.get(&call.tool).is_none());
            if let Some(cursor) = cursor.filter(|_| is_needed) {
                return self.request_tools(Some(cursor));
            }
        }
        self.catalog.finish_listing();
        self.continue_listed_calls(now);
    }

    /// Asks the server for its tools, because the client calls one that it has not listed.
    pub(super) fn request_tools(&mut self, cursor: Option<&str>) {
        self.catalog.start_listing();
        let id = self.own_id("tools");
        let mut params = json!({});
        if let Some(cursor) = cursor {
            params["cursor"] = cursor.into();
        }
        // Since 2026-07-28 each request carries the version and the capabilities.
        if let Some(meta) = self.calls.values().find_map(|call| call.meta.clone()) {
            params["_meta"] = meta;
        }
        self.expect(id.clone(), PendingRequest::OwnToolList);
        self.push(BridgeEffect::ToServer(request_line(&id, "tools/list", &params)));
    }

    fn complete_with_result(&mut self, now: Now, call: CallKey, result: &Value) {
        let task = result["task"]["taskId"].as_str().or_else(|| {
            let is_task = result["resultType"] == "task";
            result["taskId"].as_str().filter(|_| is_task)
        });
        if let Some(task) = task {
            return self.set_task(call, task);
        }
        if result["resultType"] == "input_required" {
            return self.await_continuation(now, call, result);
        }
        if result["isError"] == true {
            let text = result["content"].as_array().into_iter().flatten().find_map(|item| item["text"].as_str());
            let text = shorten(text.map_or("The tool failed.", str::trim), 500);
            return self.complete_call(now, call, Err(text));
        }
        self.complete_call(now, call, Ok(()));
    }

    fn handle_task_status(&mut self, now: Now, params: &Value) {
        if let Some(call) = params["taskId"].as_str().and_then(|task| self.call_of_task(task)) {
            self.handle_task_status_of(now, call, params);
        }
    }

    fn handle_task_status_of(&mut self, now: Now, call: CallKey, status: &Value) {
        let message = status["statusMessage"].as_str().map(|text| shorten(text.trim(), 500)).filter(|t| !t.is_empty());
        match status["status"].as_str() {
            Some("completed") => self.complete_call(now, call, Ok(())),
            Some(end @ ("failed" | "cancelled")) => {
                self.complete_call(now, call, Err(message.unwrap_or_else(|| format!("The task {end}."))));
            }
            _ => {
                if let (Some(session), Some(message)) = (&self.session, message) {
                    let (session, description) = (session.key, Some(message));
                    self.push(BridgeEffect::Progress {
                        session,
                        progress: Progress { description, ..Progress::default() },
                    });
                }
            }
        }
    }
}

fn error_text(error: &Value) -> String {
    let text = error["message"].as_str().map(str::trim).filter(|text| !text.is_empty());
    shorten(text.unwrap_or("The server reported an error."), 500)
}
