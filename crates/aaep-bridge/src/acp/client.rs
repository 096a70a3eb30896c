//! Lines of the editor.

use aaep_proto::time::Now;
use serde_json::Value;

use crate::describe::shorten;
use crate::effect::BridgeEffect;
use crate::rpc::{RpcMessage, error_line};

use super::{AcpProxy, EditorRequest};

/// Most requests whose responses are waited for.
const MAX_REQUESTS: usize = 10_000;

impl AcpProxy {
    pub(super) fn read_editor_line(&mut self, now: Now, line: &[u8]) {
        if line.iter().all(u8::is_ascii_whitespace) {
            return;
        }
        let message = match RpcMessage::read_strict(line) {
            Ok(message) => message,
            Err(refused) => {
                self.push(BridgeEffect::Warn(format!("A line of the editor was not forwarded: {}.", refused.message)));
                let text = format!("aaep acp did not forward this: {}", refused.message);
                self.push(BridgeEffect::ToClient(error_line(refused.id.as_ref(), refused.code, &text)));
                return;
            }
        };
        match message {
            RpcMessage::Request { id, method, params } => {
                let session = params["sessionId"].as_str().map(str::to_owned);
                if let (Some(session), true) = (session, self.requests.len() < MAX_REQUESTS) {
                    match method.as_str() {
                        "session/prompt" => {
                            self.start_turn(&session, prompt_text(&params));
                            self.requests.insert(id, EditorRequest::Prompt(session));
                        }
                        "session/load" => drop(self.requests.insert(id, EditorRequest::Load(session))),
                        _ => {}
                    }
                }
                self.forward_to_agent(line);
            }
            RpcMessage::Notification { method, params } => {
                if method == "session/cancel"
                    && let Some(session) = params["sessionId"].as_str()
                {
                    if let Some(turn) = self.turns.get_mut(session) {
                        turn.was_cancelled = true;
                    }
                    self.cancel_permissions(session);
                }
                self.forward_to_agent(line);
            }
            RpcMessage::Response { id, result } => {
                if let Some(at) = self.answered.iter().position(|answered| *answered == id) {
                    // The user has answered it here.
                    self.answered.remove(at);
                } else if self.forms.contains_key(&id) || !self.takes_editor_answer(now, &id, &result) {
                    self.push(BridgeEffect::Warn(
                        "An answer of the editor to a question of the listener was dropped.".into(),
                    ));
                } else {
                    self.forward_to_agent(line);
                }
            }
        }
    }
}

/// Returns the text of a prompt, without its attachments.
fn prompt_text(params: &Value) -> Option<String> {
    let texts = params["prompt"].as_array()?.iter().filter_map(|part| part["text"].as_str());
    let text = texts.collect::<Vec<_>>().join("\n");
    Some(shorten(text.trim(), 4000)).filter(|text| !text.is_empty())
}
