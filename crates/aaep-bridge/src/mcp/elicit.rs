//! Questions of the server to the user.
//!
//! A listener that can answer is asked. If there is none, the question goes to the client if that can ask the user, and is
//! cancelled otherwise.

use std::collections::VecDeque;

use aaep_proto::time::Now;
use serde_json::{Map, Value, json};

use crate::effect::{BridgeAnswer, BridgeEffect, BridgeQuestion, CallKey};
use crate::form::{Form, FormProgress};
use crate::rpc::{RpcId, result_line};
use crate::splice;

use super::calls::CallPhase;
use super::{McpProxy, PendingRequest, QuestionPurpose};

/// Names an elicitation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ElicitationKey(u64);

/// How an elicitation reached the proxy, and so how its result is returned.
#[derive(Clone, Debug, PartialEq)]
enum ElicitationOrigin {
    /// By a request of the server, which gets a response.
    Request { id: RpcId },
    /// By the result of a call, which is repeated with the answers.
    CallResult { call: CallKey, state: Value, rest: VecDeque<(String, Value)>, done: Map<String, Value> },
}

/// A question of the server that the user is asked.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Elicitation {
    origin: ElicitationOrigin,
    /// The line to forward if no listener can answer.
    line: Vec<u8>,
    form: Form,
    /// The name of the current form in the result of a call.
    name: String,
    was_asked: bool,
}

impl McpProxy {
    /// Asks the user what the server wants to know.
    pub(super) fn elicit(&mut self, now: Now, line: &[u8], id: RpcId, params: &Value) {
        let origin = ElicitationOrigin::Request { id };
        let (form, name) = (Form::new(params), String::new());
        self.start_elicitation(now, Elicitation { origin, line: line.to_vec(), form, name, was_asked: false });
    }

    /// Asks the user for the inputs of a call. Returns false if some of them are not questions to the user.
    pub(super) fn elicit_inputs(&mut self, now: Now, call: CallKey, line: &[u8], result: &Value) -> bool {
        let Some(inputs) = result["inputRequests"].as_object().filter(|inputs| !inputs.is_empty()) else {
            return false;
        };
        if !self.config.injects || !inputs.values().all(|input| input["method"] == "elicitation/create") {
            return false;
        }
        let mut rest: VecDeque<(String, Value)> =
            inputs.iter().map(|(name, input)| (name.clone(), input["params"].clone())).collect();
        let Some((name, params)) = rest.pop_front() else { return false };
        let state = result.get("requestState").cloned().unwrap_or_default();
        let origin = ElicitationOrigin::CallResult { call, state, rest, done: Map::new() };
        let form = Form::new(&params);
        self.start_elicitation(now, Elicitation { origin, line: line.to_vec(), form, name, was_asked: false });
        true
    }

    fn start_elicitation(&mut self, now: Now, elicitation: Elicitation) {
        let key = ElicitationKey(self.next_key());
        self.elicitations.insert(key, elicitation);
        self.ask_next(now, key);
    }

    fn ask_next(&mut self, now: Now, key: ElicitationKey) {
        let Some(elicitation) = self.elicitations.get(&key) else { return };
        let mut question = elicitation.form.question();
        if let Some(seconds) = self.config.timeout_seconds {
            question = question.timeout_seconds(seconds);
        }
        self.ask(now, BridgeQuestion::Clarification(Box::new(question)), QuestionPurpose::Form(key));
    }

    pub(super) fn handle_form_answer(&mut self, now: Now, key: ElicitationKey, answer: &BridgeAnswer) {
        let Some(elicitation) = self.elicitations.get_mut(&key) else { return };
        let response = match answer {
            BridgeAnswer::NobodyListens if !elicitation.was_asked && self.client_elicits => {
                return self.return_to_client(now, key);
            }
            BridgeAnswer::Answered { response, .. } => {
                elicitation.was_asked = true;
                response.as_ref()
            }
            BridgeAnswer::NobodyListens | BridgeAnswer::Decided { .. } => None,
        };
        match elicitation.form.answer(response) {
            FormProgress::Continue => self.ask_next(now, key),
            FormProgress::Ended(result) => self.finish_form(now, key, result),
        }
    }

    /// Leaves a question to the client, which can ask the user itself.
    fn return_to_client(&mut self, now: Now, key: ElicitationKey) {
        let Some(elicitation) = self.elicitations.remove(&key) else { return };
        if let ElicitationOrigin::CallResult { call, state, .. } = elicitation.origin {
            self.await_continuation(now, call, &json!({"requestState": state}));
            return self.answer_under_client_id(call, &elicitation.line);
        }
        self.push(BridgeEffect::ToClient(elicitation.line));
    }

    fn finish_form(&mut self, now: Now, key: ElicitationKey, result: Value) {
        let Some(elicitation) = self.elicitations.get_mut(&key) else { return };
        match &mut elicitation.origin {
            ElicitationOrigin::Request { id } => {
                let line = result_line(id, &result);
                self.elicitations.remove(&key);
                self.push(BridgeEffect::ToServer(line));
            }
            ElicitationOrigin::CallResult { call, state, rest, done } => {
                done.insert(std::mem::take(&mut elicitation.name), result);
                if let Some((name, params)) = rest.pop_front() {
                    (elicitation.name, elicitation.form) = (name, Form::new(&params));
                    return self.ask_next(now, key);
                }
                let (call, state, done) = (*call, state.clone(), std::mem::take(done));
                self.elicitations.remove(&key);
                self.repeat_call(call, &state, done);
            }
        }
    }

    /// Calls again with the answers of the user, under an id of the proxy. The user has agreed to the call already.
    fn repeat_call(&mut self, key: CallKey, state: &Value, answers: Map<String, Value>) {
        let id = self.own_id("call");
        let Some(call) = self.calls.get_mut(&key) else { return };
        call.phase = CallPhase::Running { server_id: Some(id.clone()) };
        let line = call.line.clone();
        let has_capability =
            call.meta.as_ref().is_none_or(|meta| meta[super::client::CAPABILITIES_KEY].get("elicitation").is_some());
        let line = self.with_elicitation(&line, &["params", "_meta", super::client::CAPABILITIES_KEY], has_capability);
        let mut fields = format!(r#""inputResponses":{}"#, Value::Object(answers));
        if !state.is_null() {
            fields.push_str(&format!(r#","requestState":{state}"#));
        }
        let line = splice::insert_field(&line, &["params"], &fields).unwrap_or(line);
        let Some(range) = splice::find(&line, &["id"]) else { return };
        let line = splice::replace(&line, range, &id.to_string());
        self.expect(id, PendingRequest::Call { call: key, own: true });
        self.push(BridgeEffect::ToServer(line));
    }

    /// Sends the response to a call that the proxy repeated, under the id of the client.
    pub(super) fn answer_under_client_id(&mut self, key: CallKey, line: &[u8]) {
        let Some(call) = self.calls.get(&key) else { return };
        let id = call.id.to_string();
        let Some(range) = splice::find(line, &["id"]) else { return };
        let line = splice::replace(line, range, &id);
        self.push(BridgeEffect::ToClient(line));
    }

    /// Whether the user is being asked this question of the server here, so that the client must not answer it.
    pub(super) fn is_asked_here(&self, id: &RpcId) -> bool {
        self.elicitations
            .values()
            .any(|asked| matches!(&asked.origin, ElicitationOrigin::Request { id: own } if own == id))
    }

    /// Withdraws a question that the server has cancelled. Returns whether it was asked here.
    pub(super) fn withdraw_elicitation(&mut self, id: &RpcId) -> bool {
        let is_it = |asked: &Elicitation| matches!(&asked.origin, ElicitationOrigin::Request { id: own } if own == id);
        let Some(key) = self.elicitations.iter().find(|(_, asked)| is_it(asked)).map(|(key, _)| *key) else {
            return false;
        };
        self.elicitations.remove(&key);
        let of_it = |purpose: &QuestionPurpose| *purpose == QuestionPurpose::Form(key);
        if let Some(question) = self.questions.iter().find(|(_, purpose)| of_it(purpose)).map(|(question, _)| *question)
        {
            self.questions.remove(&question);
            self.push(BridgeEffect::Withdraw(question));
        }
        true
    }
}
