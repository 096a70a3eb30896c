//! Lines of the client.

use aaep_proto::time::Now;
use serde_json::Value;

use crate::effect::BridgeEffect;
use crate::rpc::{RpcId, RpcMessage, error_line};
use crate::splice;

use super::calls::CallPhase;
use super::{McpProxy, PendingRequest};

/// The key of a request's own capabilities, since 2026-07-28.
pub(super) const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";

/// The capability that lets a server ask the user.
const ELICITATION: &str = r#""elicitation":{"form":{},"url":{}}"#;

/// Most requests whose responses are waited for. Further ones are forwarded without being followed.
const MAX_PENDING: usize = 10_000;

impl McpProxy {
    /// Handles a line of the client, without its line break. Only what was read without doubt is forwarded.
    pub(super) fn read_client_line(&mut self, now: Now, line: &[u8]) {
        if line.iter().all(u8::is_ascii_whitespace) {
            return;
        }
        let message = match RpcMessage::read_strict(line) {
            Ok(message) => message,
            Err(refused) => {
                self.warn(format!("A line of the client was not forwarded: {}.", refused.message));
                let text = format!("aaep mcp did not forward this: {}", refused.message);
                self.push(BridgeEffect::ToClient(error_line(refused.id.as_ref(), refused.code, &text)));
                return;
            }
        };
        match message {
            RpcMessage::Request { id, method, params } => {
                self.handle_client_request(now, line, id, (&method, &params));
            }
            RpcMessage::Notification { method, params } => {
                self.handle_client_notification(now, line, &method, &params);
            }
            RpcMessage::Response { id, .. } => {
                // An answer to a question that the user answers here must not compete with that answer.
                if !self.is_asked_here(&id) {
                    self.forward(line);
                }
            }
        }
    }

    fn handle_client_request(&mut self, now: Now, line: &[u8], id: RpcId, (method, params): (&str, &Value)) {
        if self.pending.contains_key(&id) || self.calls.values().any(|call| call.id == id) {
            let text = "aaep mcp did not forward this: a request with this id is open";
            self.warn("A request of the client was not forwarded: its id is in use.");
            // Without the id: an answer with it would be taken for that of the open request.
            self.push(BridgeEffect::ToClient(error_line(None, -32600, text)));
            return;
        }
        match method {
            "tools/call" => self.handle_call_request(now, line, id, params),
            "initialize" => {
                self.client_elicits = params["capabilities"].get("elicitation").is_some();
                self.expect(id, PendingRequest::Handshake);
                let injected = self.with_elicitation(line, &["params", "capabilities"], self.client_elicits);
                self.push(BridgeEffect::ToServer(injected));
            }
            "server/discover" => {
                self.expect(id, PendingRequest::Handshake);
                self.forward(line);
            }
            "tools/list" => {
                self.expect(id, PendingRequest::ToolList);
                self.forward(line);
            }
            "tasks/get" | "tasks/result" => {
                if let Some(call) = params["taskId"].as_str().and_then(|task| self.call_of_task(task)) {
                    self.expect(id, PendingRequest::Task { call, is_result: method == "tasks/result" });
                }
                self.forward(line);
            }
            _ => self.forward(line),
        }
    }

    fn handle_client_notification(&mut self, now: Now, line: &[u8], method: &str, params: &Value) {
        match method {
            "tools/call" => self.warn("A tool call without an id was not forwarded."),
            "notifications/cancelled" => {
                let id = params.get("requestId").and_then(RpcId::from_value);
                let call = id.and_then(|id| self.calls.iter().find(|(_, call)| call.id == id).map(|(key, _)| *key));
                match call {
                    Some(key) if !self.calls[&key].was_forwarded() => self.drop_call(now, key),
                    Some(key) => {
                        self.forward_cancellation(line, key);
                        self.complete_call(now, key, Err("The client cancelled it.".to_owned()));
                    }
                    None => self.forward(line),
                }
            }
            _ => self.forward(line),
        }
    }

    /// Forwards the cancellation of a call, under the id that the server knows.
    fn forward_cancellation(&mut self, line: &[u8], key: super::CallKey) {
        let own = match self.calls.get(&key).map(|call| &call.phase) {
            Some(CallPhase::Running { server_id: Some(id) }) => Some(id.clone()),
            _ => None,
        };
        match own.zip(splice::find(line, &["params", "requestId"])) {
            Some((id, range)) => {
                let changed = splice::replace(line, range, &id.to_string());
                self.push(BridgeEffect::ToServer(changed));
            }
            None => self.forward(line),
        }
    }

    pub(super) fn forward(&mut self, line: &[u8]) {
        self.push(BridgeEffect::ToServer(line.to_vec()));
    }

    pub(super) fn expect(&mut self, id: RpcId, request: PendingRequest) {
        if self.pending.len() < MAX_PENDING {
            self.pending.insert(id, request);
        }
    }

    /// Returns the line with the capability to ask the user, if the client lacks it.
    pub(super) fn with_elicitation(&self, line: &[u8], path: &[&str], has_it: bool) -> Vec<u8> {
        if has_it || !self.config.injects {
            return line.to_vec();
        }
        splice::insert_field(line, path, ELICITATION).unwrap_or_else(|| line.to_vec())
    }
}
