//! Permissions and forms of the agent.

use aaep_proto::confirm::{Confirmation, Resolution};
use aaep_proto::time::Now;
use serde_json::{Value, json};

use crate::describe::{sentence, shorten};
use crate::effect::{BridgeAnswer, BridgeEffect, BridgeQuestion, QuestionKey};
use crate::form::{Form, FormProgress};
use crate::rpc::{RpcId, notification_line, result_line};

use super::tools::AcpToolPhase;
use super::{AcpProxy, AcpPurpose, AgentForm, AnswerFrom};

/// Most answered requests that are remembered for late answers of the editor.
const MAX_ANSWERED: usize = 256;

/// A permission that the agent asks for.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct AcpPermission {
    session: String,
    tool: String,
    line: Vec<u8>,
    /// The option that allows this call only.
    allow: String,
    /// The option that refuses this call only.
    reject: Option<String>,
    question: Option<QuestionKey>,
    pub(super) is_with_editor: bool,
}

impl AcpProxy {
    pub(super) fn request_permission(&mut self, now: Now, line: &[u8], id: RpcId, params: &Value) {
        let session = params["sessionId"].as_str().unwrap_or_default().to_owned();
        let tool_id = params["toolCall"]["toolCallId"].as_str().unwrap_or_default().to_owned();
        let option = |kind: &str| {
            let options = params["options"].as_array()?;
            options.iter().find(|option| option["kind"] == kind)?["optionId"].as_str().map(str::to_owned)
        };
        let (allow, reject) = (option("allow_once"), option("reject_once").or_else(|| option("reject_always")));
        let is_ours = self.config.answer != AnswerFrom::Editor && self.turns.contains_key(&session);
        let tool = self.tool(now, &session, &tool_id);
        let (Some(tool), Some(allow), true) = (tool, allow, is_ours) else {
            return self.leave_to_editor(&session, &tool_id, line);
        };
        tool.merge(&params["toolCall"]);
        // Some agents ask so late that the call was announced. Then its end is announced too, whatever the answer.
        if tool.phase != AcpToolPhase::Announced {
            tool.phase = AcpToolPhase::Asking;
        }
        let (described, risk, is_irreversible) = (tool.describe(), tool.risk(), tool.is_irreversible());
        let (name, arguments) = (tool.name(), tool.bound_arguments(&tool_id));
        let action = sentence(&shorten(&described, 4000));
        let mut ask = Confirmation::new(action, format!("{} does it only if you agree.", self.config.agent));
        ask = ask.for_call(name, &arguments).risk(risk);
        if is_irreversible {
            ask = ask.irreversible();
        }
        if let Some(seconds) = self.config.timeout_seconds {
            ask = ask.timeout_seconds(seconds);
        }
        let is_with_editor = self.config.answer == AnswerFrom::Both;
        let question =
            self.ask(&session, BridgeQuestion::Confirmation(Box::new(ask)), AcpPurpose::Permission(id.clone()));
        let permission =
            AcpPermission { session, tool: tool_id, line: line.to_vec(), allow, reject, question, is_with_editor };
        self.permissions.insert(id, permission);
        if is_with_editor {
            self.forward_to_editor(line);
        }
    }

    /// Lets the editor ask, and says so.
    fn leave_to_editor(&mut self, session: &str, tool: &str, line: &[u8]) {
        self.forward_to_editor(line);
        let Some(turn) = self.turns.get_mut(session) else { return };
        let asked = turn.tools.get_mut(tool).map(|tool| {
            if tool.phase != AcpToolPhase::Announced {
                tool.phase = AcpToolPhase::Asking;
            }
            tool.describe()
        });
        let what = asked.map(|what| format!(" {}", sentence(&shorten(&what, 1000)))).unwrap_or_default();
        let summary = Some(format!("{} asks in the editor.{what}", self.config.agent));
        let session = turn.key;
        self.push(BridgeEffect::SetState { session, to: "awaiting_input".to_owned(), summary });
    }

    fn ask(&mut self, session: &str, content: BridgeQuestion, purpose: AcpPurpose) -> Option<QuestionKey> {
        let question = QuestionKey(self.next_key());
        let session = self.turns.get(session)?.key;
        self.questions.insert(question, purpose);
        self.push(BridgeEffect::Ask { session, question, content });
        Some(question)
    }

    pub(super) fn handle_permission_answer(
        &mut self,
        now: Now,
        id: &RpcId,
        question: QuestionKey,
        answer: &BridgeAnswer,
    ) {
        let Some(permission) = self.permissions.get_mut(id) else { return };
        permission.question = None;
        let (session, tool) = (permission.session.clone(), permission.tool.clone());
        match answer {
            BridgeAnswer::Decided { accepted: true, resolution: Resolution::Accepted } => {
                let Some(asked) = self.tool(now, &session, &tool) else { return };
                if asked.phase == AcpToolPhase::Announced {
                    return self.answer_permission(id, true);
                }
                let permit = Some(question).filter(|_| asked.is_irreversible());
                self.invoke(&session, &tool, Some((id.clone(), permit)), None);
            }
            // Nobody can answer here, so the editor asks, or goes on asking.
            BridgeAnswer::NobodyListens
            | BridgeAnswer::Decided {
                resolution: Resolution::SubscriberLeft | Resolution::NobodyCouldAnswer, ..
            } => {
                let Some(permission) = self.permissions.remove(id) else { return };
                if !permission.is_with_editor {
                    self.leave_to_editor(&session, &tool, &permission.line);
                }
            }
            BridgeAnswer::Decided { .. } | BridgeAnswer::Answered { .. } => {
                self.complete_refused(now, &session, &tool);
                self.answer_permission(id, false);
            }
        }
    }

    /// Answers the agent. Only the option for this one call is ever chosen.
    pub(super) fn answer_permission(&mut self, id: &RpcId, allow: bool) {
        let Some(permission) = self.permissions.remove(id) else { return };
        let option = if allow { Some(permission.allow) } else { permission.reject };
        let outcome = match option {
            Some(option) => json!({"outcome": {"outcome": "selected", "optionId": option}}),
            None => json!({"outcome": {"outcome": "cancelled"}}),
        };
        self.push(BridgeEffect::ToServer(result_line(id, &outcome)));
        if permission.is_with_editor {
            let request = serde_json::from_str::<Value>(&id.to_string()).unwrap_or_default();
            let cancel = notification_line("$/cancel_request", &json!({"requestId": request}));
            self.push(BridgeEffect::ToClient(cancel));
            if self.answered.len() >= MAX_ANSWERED {
                self.answered.pop_front();
            }
            self.answered.push_back(id.clone());
        }
    }

    /// Whether an answer of the editor goes to the agent. If the user was asked here too, that question is withdrawn.
    pub(super) fn takes_editor_answer(&mut self, now: Now, id: &RpcId, result: &Result<Value, Value>) -> bool {
        let Some(permission) = self.permissions.get(id) else { return true };
        // While the event of an accepted call is emitted, the decision has been made.
        if !permission.is_with_editor || permission.question.is_none() {
            return false;
        }
        let (session, tool) = (permission.session.clone(), permission.tool.clone());
        let is_allowed = result.as_ref().is_ok_and(|result| {
            let chosen = result["outcome"]["optionId"].as_str();
            chosen.is_some() && chosen != permission.reject.as_deref()
        });
        self.withdraw_permission(id);
        // What the editor allowed is announced when its end is reported.
        if !is_allowed {
            self.complete_refused(now, &session, &tool);
        }
        true
    }

    pub(super) fn permissions_of(&self, session: &str) -> Vec<RpcId> {
        let of_session = self.permissions.iter().filter(|(_, permission)| permission.session == session);
        of_session.map(|(id, _)| id.clone()).collect()
    }

    /// Forgets a permission and withdraws its question.
    pub(super) fn withdraw_permission(&mut self, id: &RpcId) {
        if let Some(question) = self.permissions.remove(id).and_then(|permission| permission.question) {
            self.questions.remove(&question);
            self.push(BridgeEffect::Withdraw(question));
        }
    }

    /// Withdraws what the agent does not want to know any more.
    pub(super) fn handle_agent_cancel(&mut self, params: &Value) {
        let Some(id) = params.get("requestId").and_then(RpcId::from_value) else { return };
        self.withdraw_permission(&id);
        self.forms.remove(&id);
        let of_form = |purpose: &AcpPurpose| *purpose == AcpPurpose::Form(id.clone());
        if let Some(question) = self.questions.iter().find(|(_, purpose)| of_form(purpose)).map(|(key, _)| *key) {
            self.questions.remove(&question);
            self.push(BridgeEffect::Withdraw(question));
        }
    }

    pub(super) fn start_form(&mut self, line: &[u8], id: RpcId, params: &Value) {
        let session = params["sessionId"].as_str().unwrap_or_default().to_owned();
        if self.config.answer == AnswerFrom::Editor || !self.turns.contains_key(&session) {
            return self.forward_to_editor(line);
        }
        let form =
            AgentForm { id: id.clone(), line: line.to_vec(), session, form: Form::new(params), was_asked: false };
        self.forms.insert(id.clone(), form);
        self.ask_form(&id);
    }

    fn ask_form(&mut self, id: &RpcId) {
        let Some(form) = self.forms.get(id) else { return };
        let (question, session) = (form.form.question(), form.session.clone());
        let asked = self.ask(&session, BridgeQuestion::Clarification(Box::new(question)), AcpPurpose::Form(id.clone()));
        if asked.is_none() {
            self.forms.remove(id);
            self.push(BridgeEffect::ToServer(result_line(id, &json!({"action": "cancel"}))));
        }
    }

    pub(super) fn handle_form_answer(&mut self, id: &RpcId, answer: &BridgeAnswer) {
        let Some(form) = self.forms.get_mut(id) else { return };
        let response = match answer {
            BridgeAnswer::Answered { response, .. } => response.as_ref(),
            BridgeAnswer::NobodyListens if !form.was_asked => {
                let line = std::mem::take(&mut form.line);
                self.forms.remove(id);
                return self.forward_to_editor(&line);
            }
            BridgeAnswer::NobodyListens | BridgeAnswer::Decided { .. } => None,
        };
        form.was_asked = true;
        match form.form.answer(response) {
            FormProgress::Continue => self.ask_form(id),
            FormProgress::Ended(result) => {
                let line = result_line(&form.id, &result);
                self.forms.remove(id);
                self.push(BridgeEffect::ToServer(line));
            }
        }
    }
}
