//! Tests of the proxy: lines and answers in, effects out.

use aaep_proto::confirm::Resolution;
use aaep_proto::message::ToolStatus;
use aaep_proto::time::Timestamp;
use serde_json::{Value, json};

use super::*;

struct Peer {
    proxy: AcpProxy,
    now: Now,
}

fn at(millis: u64) -> Now {
    Now { moment: Moment::from_millis(millis), wall: Timestamp::from_millis(millis as i64) }
}

impl Peer {
    /// A proxy with a prompt that the agent works on.
    fn new(answer: AnswerFrom) -> Peer {
        let mut config = AcpConfig::new("Coder");
        config.answer = answer;
        let mut peer = Peer { proxy: AcpProxy::new(config), now: at(0) };
        let prompt = json!({"sessionId": "s", "prompt": [{"type": "text", "text": "tidy up"}]});
        let effects = peer.editor(json!({"jsonrpc": "2.0", "id": 1, "method": "session/prompt", "params": prompt}));
        assert!(matches!(&effects[0], BridgeEffect::StartSession { request: Some(text), .. } if text == "tidy up"));
        peer
    }

    fn drain(&mut self) -> Vec<BridgeEffect> {
        let mut effects = Vec::new();
        loop {
            match self.proxy.poll_effect() {
                BridgeEffect::Idle(_) => return effects,
                BridgeEffect::Invoke { call, session, invoked, arguments, permit_of } => {
                    // As the driver does.
                    self.proxy.handle_invoked(self.now, call, Ok(()));
                    effects.push(BridgeEffect::Invoke { call, session, invoked, arguments, permit_of });
                }
                effect => effects.push(effect),
            }
        }
    }

    fn editor(&mut self, message: Value) -> Vec<BridgeEffect> {
        self.proxy.handle_client_line(self.now, message.to_string().as_bytes());
        self.drain()
    }

    fn agent(&mut self, message: Value) -> Vec<BridgeEffect> {
        self.proxy.handle_server_line(self.now, message.to_string().as_bytes());
        self.drain()
    }

    fn update(&mut self, update: Value) -> Vec<BridgeEffect> {
        self.agent(
            json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": update}}),
        )
    }

    fn permission(&mut self, kind: &str) -> Vec<BridgeEffect> {
        let options = json!([{"optionId": "a!", "name": "Always", "kind": "allow_always"},
            {"optionId": "y", "name": "Yes", "kind": "allow_once"}, {"optionId": "n", "name": "No", "kind": "reject_once"}]);
        let tool = json!({"toolCallId": "t", "title": "rm x", "kind": kind, "rawInput": {"command": "rm x"}});
        self.agent(json!({"jsonrpc": "2.0", "id": 9, "method": "session/request_permission",
            "params": {"sessionId": "s", "toolCall": tool, "options": options}}))
    }

    fn decide(&mut self, question: QuestionKey, resolution: Resolution) -> Vec<BridgeEffect> {
        let accepted = resolution == Resolution::Accepted;
        self.proxy.handle_answer(self.now, question, BridgeAnswer::Decided { accepted, resolution });
        self.drain()
    }
}

fn asked(effects: &[BridgeEffect]) -> Option<QuestionKey> {
    effects.iter().find_map(|e| if let BridgeEffect::Ask { question, .. } = e { Some(*question) } else { None })
}

fn to_agent(effects: &[BridgeEffect]) -> Vec<Value> {
    let line =
        |e: &BridgeEffect| if let BridgeEffect::ToServer(line) = e { serde_json::from_slice(line).ok() } else { None };
    effects.iter().filter_map(line).collect()
}

fn to_editor(effects: &[BridgeEffect]) -> Vec<Value> {
    let line =
        |e: &BridgeEffect| if let BridgeEffect::ToClient(line) = e { serde_json::from_slice(line).ok() } else { None };
    effects.iter().filter_map(line).collect()
}

fn has_invoke(effects: &[BridgeEffect]) -> bool {
    effects.iter().any(|effect| matches!(effect, BridgeEffect::Invoke { .. }))
}

#[test]
fn turn_is_a_session_with_text_plan_and_end() {
    let mut peer = Peer::new(AnswerFrom::Listener);
    let effects =
        peer.update(json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "Hello"}}));
    assert!(matches!(&effects[0], BridgeEffect::Write { text, .. } if text == "Hello"));
    assert_eq!(to_editor(&effects).len(), 1, "the editor gets it too");
    let think = json!({"sessionUpdate": "agent_thought_chunk", "content": {"text": "secret"}});
    assert!(matches!(peer.update(think.clone())[0], BridgeEffect::SetState { .. }));
    assert_eq!(peer.update(think).len(), 1, "it is said once");
    let entries = json!([{"content": "one", "status": "completed"}, {"content": "two", "status": "in_progress"}]);
    let effects = peer.update(json!({"sessionUpdate": "plan", "entries": entries}));
    let BridgeEffect::Progress { progress, .. } = &effects[0] else { panic!("{effects:?}") };
    assert_eq!((progress.step, progress.total_steps, progress.description.as_deref()), (Some(2), Some(2), Some("two")));
    let effects = peer.agent(json!({"jsonrpc": "2.0", "id": 1, "result": {"stopReason": "end_turn"}}));
    assert!(matches!(effects[1], BridgeEffect::EndSession { end: SessionEnd::Completed { .. }, .. }), "{effects:?}");
    let late = peer.update(json!({"sessionUpdate": "agent_message_chunk", "content": {"text": "late"}}));
    assert_eq!(late.len(), 1, "updates after the end are only forwarded");
}

#[test]
fn how_a_turn_ends_follows_from_its_reason() {
    let end = |result: Value| {
        let mut peer = Peer::new(AnswerFrom::Listener);
        let mut message = json!({"jsonrpc": "2.0", "id": 1});
        message.as_object_mut().unwrap().extend(result.as_object().unwrap().clone());
        let effects = peer.agent(message);
        effects.into_iter().find_map(|e| if let BridgeEffect::EndSession { end, .. } = e { Some(end) } else { None })
    };
    let stopped = |reason: &str| end(json!({"result": {"stopReason": reason}}));
    assert!(matches!(stopped("cancelled"), Some(SessionEnd::Cancelled { by: CancelledBy::User, .. })));
    assert!(matches!(stopped("max_tokens"), Some(SessionEnd::Errored { category: ErrorCategory::RequiresUser, .. })));
    assert!(matches!(stopped("refusal"), Some(SessionEnd::Errored { category: ErrorCategory::Permanent, .. })));
    let error = end(json!({"error": {"code": -32000, "message": "log in"}}));
    assert!(matches!(error, Some(SessionEnd::Errored { category: ErrorCategory::RequiresUser, .. })));
    assert_eq!(end(json!({"result": {}})), None, "version 2 ends a turn by an update");
    let mut peer = Peer::new(AnswerFrom::Listener);
    peer.agent(json!({"jsonrpc": "2.0", "id": 1, "result": {}}));
    let effects = peer.update(json!({"sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn"}));
    assert!(matches!(effects[0], BridgeEffect::EndSession { .. }), "{effects:?}");
}

#[test]
fn permission_is_answered_by_the_listener_and_never_for_always() {
    let mut peer = Peer::new(AnswerFrom::Listener);
    peer.update(json!({"sessionUpdate": "tool_call", "toolCallId": "t", "kind": "execute", "status": "in_progress"}));
    let effects = peer.permission("execute");
    assert!(to_editor(&effects).is_empty(), "the editor does not ask");
    let question = asked(&effects).unwrap();
    peer.now = at(10_000);
    peer.proxy.handle_timeout(peer.now);
    assert!(peer.drain().is_empty(), "a call that is asked about is not announced");
    let effects = peer.decide(question, Resolution::Accepted);
    assert!(matches!(&effects[0], BridgeEffect::Invoke { permit_of: Some(of), .. } if *of == question));
    assert_eq!(
        to_agent(&effects),
        [json!({"jsonrpc": "2.0", "id": 9, "result": {"outcome": {"outcome": "selected", "optionId": "y"}}})]
    );
    let effects = peer.update(json!({"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "completed"}));
    assert!(matches!(effects[0], BridgeEffect::Complete { status: ToolStatus::Success, .. }));
}

#[test]
fn without_a_yes_the_agent_gets_a_refusal_and_no_tool_is_announced() {
    for resolution in [Resolution::Rejected, Resolution::TimedOut, Resolution::Cancelled, Resolution::NotRecorded] {
        let mut peer = Peer::new(AnswerFrom::Listener);
        let question = asked(&peer.permission("edit")).unwrap();
        let effects = peer.decide(question, resolution);
        assert_eq!(to_agent(&effects)[0]["result"]["outcome"]["optionId"], "n", "{resolution:?}");
        assert!(!has_invoke(&effects));
        let effects = peer.update(json!({"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "failed"}));
        assert!(!effects.iter().any(|e| matches!(e, BridgeEffect::Complete { .. })), "nothing was announced");
    }
}

#[test]
fn call_that_could_not_be_announced_is_refused() {
    let mut peer = Peer::new(AnswerFrom::Listener);
    let question = asked(&peer.permission("execute")).unwrap();
    peer.proxy.handle_answer(
        peer.now,
        question,
        BridgeAnswer::Decided { accepted: true, resolution: Resolution::Accepted },
    );
    let BridgeEffect::Invoke { call, .. } = peer.proxy.poll_effect() else { panic!("no call") };
    peer.proxy.handle_invoked(peer.now, call, Err("the permit has expired".to_owned()));
    assert_eq!(to_agent(&peer.drain())[0]["result"]["outcome"]["optionId"], "n");
}

#[test]
fn without_a_listener_the_editor_asks() {
    let mut peer = Peer::new(AnswerFrom::Listener);
    let question = asked(&peer.permission("edit")).unwrap();
    peer.proxy.handle_answer(peer.now, question, BridgeAnswer::NobodyListens);
    let effects = peer.drain();
    assert_eq!(to_editor(&effects)[0]["method"], "session/request_permission");
    assert!(to_agent(&effects).is_empty());
    let answer = json!({"jsonrpc": "2.0", "id": 9, "result": {"outcome": {"outcome": "selected", "optionId": "y"}}});
    assert_eq!(to_agent(&peer.editor(answer.clone())), [answer]);
}

#[test]
fn of_two_answers_the_first_counts() {
    let answer = json!({"jsonrpc": "2.0", "id": 9, "result": {"outcome": {"outcome": "selected", "optionId": "n"}}});
    let mut peer = Peer::new(AnswerFrom::Both);
    let effects = peer.permission("edit");
    let question = asked(&effects).unwrap();
    assert_eq!(to_editor(&effects).len(), 1);
    let effects = peer.editor(answer.clone());
    assert!(effects.contains(&BridgeEffect::Withdraw(question)));
    assert_eq!(to_agent(&effects), std::slice::from_ref(&answer));
    assert!(peer.decide(question, Resolution::Accepted).is_empty(), "a late yes has no effect");

    let mut peer = Peer::new(AnswerFrom::Both);
    let question = asked(&peer.permission("edit")).unwrap();
    let effects = peer.decide(question, Resolution::Accepted);
    assert_eq!(to_editor(&effects)[0]["method"], "$/cancel_request");
    assert!(to_agent(&peer.editor(answer)).is_empty(), "the late answer of the editor is dropped");
}

#[test]
fn in_the_mode_of_the_editor_nothing_is_held() {
    let mut peer = Peer::new(AnswerFrom::Editor);
    let effects = peer.permission("edit");
    assert!(asked(&effects).is_none() && to_editor(&effects).len() == 1);
}

#[test]
fn cancelling_withdraws_the_question_and_tells_the_agent() {
    let mut peer = Peer::new(AnswerFrom::Listener);
    let question = asked(&peer.permission("edit")).unwrap();
    let effects = peer.editor(json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "s"}}));
    assert!(effects.contains(&BridgeEffect::Withdraw(question)));
    let sent = to_agent(&effects);
    assert_eq!(sent[0]["result"]["outcome"]["outcome"], "cancelled");
    assert_eq!(sent[1]["method"], "session/cancel");
}

#[test]
fn stop_of_the_user_is_a_cancellation_for_the_agent() {
    let mut peer = Peer::new(AnswerFrom::Listener);
    let key = peer.proxy.turns["s"].key;
    peer.proxy.handle_cancel_request(peer.now, key);
    let effects = peer.drain();
    assert_eq!(to_agent(&effects)[0]["method"], "session/cancel");
}

#[test]
fn reported_call_is_announced_after_a_moment() {
    let mut peer = Peer::new(AnswerFrom::Listener);
    let call = json!({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "Reading", "kind": "read", "status": "pending"});
    assert!(!has_invoke(&peer.update(call)));
    assert_eq!(peer.proxy.poll_effect(), BridgeEffect::Idle(Some(Moment::from_millis(300))));
    peer.now = at(300);
    peer.proxy.handle_timeout(peer.now);
    assert!(has_invoke(&peer.drain()));
    let effects = peer.agent(json!({"jsonrpc": "2.0", "id": 1, "result": {"stopReason": "end_turn"}}));
    assert!(matches!(effects[0], BridgeEffect::Complete { .. }), "no call stays open: {effects:?}");
}

#[test]
fn history_of_a_loaded_session_is_silent() {
    let mut peer = Peer::new(AnswerFrom::Listener);
    peer.editor(json!({"jsonrpc": "2.0", "id": 5, "method": "session/load", "params": {"sessionId": "s"}}));
    let effects = peer.update(json!({"sessionUpdate": "agent_message_chunk", "content": {"text": "old"}}));
    assert_eq!(effects.len(), 1);
}

#[test]
fn end_of_the_agent_ends_the_session() {
    let mut peer = Peer::new(AnswerFrom::Listener);
    let question = asked(&peer.permission("edit")).unwrap();
    peer.proxy.handle_server_closed(peer.now);
    let effects = peer.drain();
    assert!(effects.contains(&BridgeEffect::Withdraw(question)));
    assert!(matches!(effects.last(), Some(BridgeEffect::EndSession { end: SessionEnd::Errored { .. }, .. })));
}

#[test]
fn refused_call_that_was_announced_before_the_question_gets_its_end() {
    for (resolution, ends) in [(Resolution::Rejected, true), (Resolution::Accepted, false)] {
        let mut peer = Peer::new(AnswerFrom::Listener);
        peer.update(json!({"sessionUpdate": "tool_call", "toolCallId": "t", "kind": "edit", "status": "in_progress"}));
        peer.now = at(1999);
        peer.proxy.handle_timeout(peer.now);
        assert!(!has_invoke(&peer.drain()), "what may be asked about is held longer");
        peer.now = at(2000);
        peer.proxy.handle_timeout(peer.now);
        assert!(has_invoke(&peer.drain()));
        let question = asked(&peer.permission("edit")).unwrap();
        let effects = peer.decide(question, resolution);
        assert!(!has_invoke(&effects), "it is not announced twice");
        assert_eq!(effects.iter().any(|e| matches!(e, BridgeEffect::Complete { .. })), ends, "{resolution:?}");
    }
}
