//! Lines of the agent.

use aaep_proto::json::Json;
use aaep_proto::message::{CancelledBy, ErrorCategory, Progress};
use aaep_proto::record::Decimal;
use aaep_proto::time::Now;
use serde_json::Value;

use crate::describe::shorten;
use crate::effect::{BridgeEffect, SessionEnd};
use crate::rpc::{RpcId, RpcMessage};

use super::{AcpProxy, EditorRequest};

impl AcpProxy {
    pub(super) fn read_agent_line(&mut self, now: Now, line: &[u8]) {
        if line.iter().all(u8::is_ascii_whitespace) {
            return;
        }
        let Ok(json) = Json::parse(line) else {
            let start = shorten(&String::from_utf8_lossy(&line[..line.len().min(200)]), 100);
            self.push(BridgeEffect::Warn(format!("A line of the agent is not JSON and was dropped: {start}")));
            return;
        };
        match RpcMessage::from_value(json.to_value()) {
            Ok(RpcMessage::Request { id, method, params }) => match method.as_str() {
                "session/request_permission" => self.request_permission(now, line, id, &params),
                "elicitation/create" => self.start_form(line, id, &params),
                _ => self.forward_to_editor(line),
            },
            Ok(RpcMessage::Notification { method, params }) => {
                if method == "session/update" {
                    self.handle_update(now, &params);
                } else if method == "$/cancel_request" {
                    self.handle_agent_cancel(&params);
                }
                self.forward_to_editor(line);
            }
            Ok(RpcMessage::Response { id, result }) => {
                // The session ends before the editor can start the next one.
                self.handle_response(&id, &result);
                self.forward_to_editor(line);
            }
            Err(_) => self.forward_to_editor(line),
        }
    }

    fn handle_response(&mut self, id: &RpcId, result: &Result<Value, Value>) {
        let Some(EditorRequest::Prompt(session)) = self.requests.remove(id) else { return };
        match result {
            Ok(result) => {
                // In version 2 the result only says that the prompt was taken.
                if let Some(reason) = result["stopReason"].as_str() {
                    self.stop_turn(&session, reason);
                }
            }
            Err(error) => {
                let message = shorten(error["message"].as_str().unwrap_or("The agent reported an error."), 500);
                let needs_login = error["code"] == -32000;
                let category = if needs_login { ErrorCategory::RequiresUser } else { ErrorCategory::Unknown };
                self.end_turn(&session, SessionEnd::Errored { category, summary: message });
            }
        }
    }

    fn stop_turn(&mut self, session: &str, reason: &str) {
        let Some(turn) = self.turns.get(session) else { return };
        let (agent, tool_calls) = (&self.config.agent, turn.tool_calls);
        let end = match reason {
            "cancelled" => SessionEnd::Cancelled { by: CancelledBy::User, summary: format!("{agent} has stopped.") },
            "max_tokens" | "max_turn_requests" => SessionEnd::Errored {
                category: ErrorCategory::RequiresUser,
                summary: format!("{agent} stopped at a limit before it was done."),
            },
            "refusal" => SessionEnd::Errored {
                category: ErrorCategory::Permanent,
                summary: format!("{agent} refuses this request."),
            },
            _ => SessionEnd::Completed { summary: format!("{agent} has finished."), tool_calls },
        };
        self.end_turn(session, end);
    }

    fn handle_update(&mut self, now: Now, params: &Value) {
        let Some(session) = params["sessionId"].as_str() else { return };
        let is_loading = self.requests.values().any(|request| *request == EditorRequest::Load(session.to_owned()));
        if is_loading || !self.turns.contains_key(session) {
            return;
        }
        let update = &params["update"];
        match update["sessionUpdate"].as_str() {
            Some("agent_message_chunk" | "agent_message") => self.write(session, update),
            Some("agent_thought_chunk" | "agent_thought") => self.think(session),
            Some("tool_call" | "tool_call_update") => self.update_tool(now, session, update),
            Some("plan") => self.report_plan(session, update),
            Some("state_update") if update["state"] == "idle" => {
                let reason = update["stopReason"].as_str().unwrap_or("end_turn").to_owned();
                self.stop_turn(session, &reason);
            }
            _ => {}
        }
    }

    fn write(&mut self, session: &str, update: &Value) {
        let content = &update["content"];
        let parts = content.as_array().map_or_else(|| vec![content], |parts| parts.iter().collect());
        let text: String = parts.iter().filter_map(|part| part["text"].as_str()).collect();
        if text.is_empty() {
            return;
        }
        if let Some(turn) = self.turns.get_mut(session) {
            (turn.is_thinking, turn.has_output) = (false, true);
            let session = turn.key;
            self.push(BridgeEffect::Write { session, text });
        }
    }

    /// Thoughts are not spoken, only that there are some.
    fn think(&mut self, session: &str) {
        let Some(turn) = self.turns.get_mut(session).filter(|turn| !turn.is_thinking) else { return };
        turn.is_thinking = true;
        let session = turn.key;
        self.push(BridgeEffect::SetState { session, to: "thinking".to_owned(), summary: None });
    }

    fn report_plan(&mut self, session: &str, update: &Value) {
        let Some(turn) = self.turns.get(session) else { return };
        let Some(entries) = update["entries"].as_array().filter(|entries| !entries.is_empty()) else { return };
        let done = entries.iter().filter(|entry| entry["status"] == "completed").count();
        let current = entries.iter().find(|entry| entry["status"] == "in_progress").or_else(|| entries.get(done));
        let description = current.and_then(|entry| entry["content"].as_str()).map(|text| shorten(text.trim(), 500));
        let progress = Progress {
            percent: Some(Decimal(done as f64 / entries.len() as f64 * 100.0)),
            step: Some((done as u64 + 1).min(entries.len() as u64)),
            total_steps: Some(entries.len() as u64),
            description: description.filter(|text| !text.is_empty()),
        };
        let session = turn.key;
        self.push(BridgeEffect::Progress { session, progress });
    }
}
