//! Tests of the proxy: lines and answers in, effects out.

use aaep_proto::confirm::Resolution;
use aaep_proto::message::{Response, ToolStatus};
use aaep_proto::time::{Moment, Now, Timestamp};
use serde_json::{Value, json};

mod server;

use super::*;
use crate::effect::BridgeQuestion;
use crate::rules::RuleDecision;

struct Peer {
    proxy: McpProxy,
    now: Now,
}

fn at(millis: u64) -> Now {
    Now { moment: Moment::from_millis(millis), wall: Timestamp::from_millis(millis as i64) }
}

fn files() -> Value {
    json!({"tools": [
        {"name": "read_file", "annotations": {"readOnlyHint": true}},
        {"name": "append", "annotations": {"destructiveHint": false}},
        {"name": "delete_file", "title": "Delete file", "annotations": {"destructiveHint": true}},
        {"name": "silent"},
    ]})
}

impl Peer {
    /// A proxy without injection, whose client has listed the tools.
    fn new(change: impl FnOnce(&mut McpConfig)) -> Peer {
        let mut config = McpConfig::new("files");
        config.injects = false;
        change(&mut config);
        let mut peer = Peer { proxy: McpProxy::new(config), now: at(0) };
        peer.client(json!({"jsonrpc": "2.0", "id": "list", "method": "tools/list"}));
        peer.server(json!({"jsonrpc": "2.0", "id": "list", "result": files()}));
        peer
    }

    fn drain(&mut self) -> Vec<BridgeEffect> {
        let mut effects = Vec::new();
        loop {
            match self.proxy.poll_effect() {
                BridgeEffect::Idle(_) => return effects,
                effect => effects.push(effect),
            }
        }
    }

    fn client_line(&mut self, line: &str) -> Vec<BridgeEffect> {
        self.proxy.handle_client_line(self.now, line.as_bytes());
        self.drain()
    }

    fn client(&mut self, message: Value) -> Vec<BridgeEffect> {
        self.client_line(&message.to_string())
    }

    fn server(&mut self, message: Value) -> Vec<BridgeEffect> {
        self.proxy.handle_server_line(self.now, message.to_string().as_bytes());
        self.drain()
    }

    fn call(&mut self, id: u64, tool: &str) -> Vec<BridgeEffect> {
        self.client(json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": {"path": "/a"}}}))
    }

    fn answer(&mut self, question: QuestionKey, answer: BridgeAnswer) -> Vec<BridgeEffect> {
        self.proxy.handle_answer(self.now, question, answer);
        self.drain()
    }

    fn decide(&mut self, question: QuestionKey, accepted: bool) -> Vec<BridgeEffect> {
        let resolution = if accepted { Resolution::Accepted } else { Resolution::Rejected };
        self.answer(question, BridgeAnswer::Decided { accepted, resolution })
    }

    fn invoked(&mut self, call: CallKey) -> Vec<BridgeEffect> {
        self.proxy.handle_invoked(self.now, call, Ok(()));
        self.drain()
    }
}

fn asked(effects: &[BridgeEffect]) -> Option<QuestionKey> {
    effects.iter().find_map(|effect| match effect {
        BridgeEffect::Ask { question, .. } => Some(*question),
        _ => None,
    })
}

fn invoking(effects: &[BridgeEffect]) -> Option<(CallKey, bool)> {
    effects.iter().find_map(|effect| match effect {
        BridgeEffect::Invoke { call, permit_of, .. } => Some((*call, permit_of.is_some())),
        _ => None,
    })
}

fn lines(effects: &[BridgeEffect], to_server: bool) -> Vec<String> {
    let line = |effect: &BridgeEffect| match effect {
        BridgeEffect::ToServer(line) if to_server => Some(String::from_utf8(line.clone()).unwrap()),
        BridgeEffect::ToClient(line) if !to_server => Some(String::from_utf8(line.clone()).unwrap()),
        _ => None,
    };
    effects.iter().filter_map(line).collect()
}

fn to_server(effects: &[BridgeEffect]) -> Vec<String> {
    lines(effects, true)
}

fn to_client(effects: &[BridgeEffect]) -> Vec<Value> {
    lines(effects, false).iter().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn refusal_text(effects: &[BridgeEffect]) -> String {
    let lines = to_client(effects);
    assert_eq!(lines.len(), 1, "{effects:?}");
    assert_eq!(lines[0]["result"]["isError"], true);
    lines[0]["result"]["content"][0]["text"].as_str().unwrap().to_owned()
}

#[test]
fn reading_passes_after_its_event_and_unchanged() {
    let mut peer = Peer::new(|_| ());
    let line = r#"{ "jsonrpc":"2.0", "id":1,"method":"tools/call","params":{"name":"read_file","arguments":{}}}"#;
    let effects = peer.client_line(line);
    assert!(matches!(effects[0], BridgeEffect::StartSession { .. }));
    let (call, has_permit) = invoking(&effects).unwrap();
    assert!(!has_permit && to_server(&effects).is_empty(), "nothing is forwarded before the event");
    assert_eq!(to_server(&peer.invoked(call)), [line]);
    let effects = peer.server(json!({"jsonrpc": "2.0", "id": 1, "result": {"content": []}}));
    assert!(matches!(effects[0], BridgeEffect::Complete { status: ToolStatus::Success, .. }), "{effects:?}");
    assert_eq!(to_client(&effects).len(), 1);
}

#[test]
fn destructive_call_is_forwarded_only_after_a_yes_and_with_its_permit() {
    let mut peer = Peer::new(|_| ());
    let effects = peer.call(1, "delete_file");
    assert!(to_server(&effects).is_empty() && invoking(&effects).is_none());
    let question = asked(&effects).unwrap();
    let effects = peer.decide(question, true);
    let (call, has_permit) = invoking(&effects).unwrap();
    assert!(has_permit && to_server(&effects).is_empty());
    assert_eq!(to_server(&peer.invoked(call)).len(), 1);
}

#[test]
fn call_without_a_yes_is_never_forwarded() {
    let answers = [
        BridgeAnswer::Decided { accepted: false, resolution: Resolution::Rejected },
        BridgeAnswer::Decided { accepted: false, resolution: Resolution::TimedOut },
        BridgeAnswer::Decided { accepted: true, resolution: Resolution::TimedOut },
        BridgeAnswer::Decided { accepted: false, resolution: Resolution::SubscriberLeft },
        BridgeAnswer::Decided { accepted: true, resolution: Resolution::NotRecorded },
        BridgeAnswer::Answered { response: Some(Response::Boolean(true)), resolution: Resolution::Answered },
        BridgeAnswer::NobodyListens,
    ];
    for answer in answers {
        let mut peer = Peer::new(|_| ());
        let question = asked(&peer.call(1, "delete_file")).unwrap();
        let effects = peer.answer(question, answer.clone());
        assert!(to_server(&effects).is_empty() && invoking(&effects).is_none(), "{answer:?}: {effects:?}");
        assert!(refusal_text(&effects).starts_with("delete_file was not called."));
        let late = peer.decide(question, true);
        assert!(late.is_empty(), "a second answer has no effect: {late:?}");
    }
}

#[test]
fn call_that_could_not_be_announced_is_not_forwarded() {
    let mut peer = Peer::new(|_| ());
    let question = asked(&peer.call(1, "delete_file")).unwrap();
    let (call, _) = invoking(&peer.decide(question, true)).unwrap();
    peer.proxy.handle_invoked(peer.now, call, Err("the permit has expired; ask again".to_owned()));
    let effects = peer.drain();
    assert!(to_server(&effects).is_empty());
    assert!(refusal_text(&effects).contains("the permit has expired"));
}

#[test]
fn tool_that_the_client_did_not_list_is_looked_up_on_all_pages() {
    let mut peer = Peer { proxy: McpProxy::new(McpConfig::new("files")), now: at(0) };
    let effects = peer.call(1, "delete_file");
    let list: Value = serde_json::from_str(&to_server(&effects)[0]).unwrap();
    assert_eq!((&list["method"], effects.len()), (&json!("tools/list"), 1));
    let effects = peer.server(json!({"jsonrpc": "2.0", "id": list["id"], "result": {"tools": [], "nextCursor": "2"}}));
    assert!(to_client(&effects).is_empty(), "the client did not ask for it");
    let list: Value = serde_json::from_str(&to_server(&effects)[0]).unwrap();
    assert_eq!(list["params"]["cursor"], "2");
    let effects = peer.server(json!({"jsonrpc": "2.0", "id": list["id"], "result": files()}));
    assert!(asked(&effects).is_some() && to_client(&effects).is_empty());
}

#[test]
fn unknown_and_silent_tools_are_asked_about_in_every_mode() {
    for mode in [GateMode::All, GateMode::Writes, GateMode::Destructive] {
        for tool in ["silent", "nobody_lists_this"] {
            let mut peer = Peer::new(|config| config.gate = mode);
            let mut effects = peer.call(1, tool);
            if let [line] = &to_server(&effects)[..] {
                let list: Value = serde_json::from_str(line).unwrap();
                effects = peer.server(json!({"id": list["id"], "error": {"code": 1, "message": "no"}}));
            }
            assert!(asked(&effects).is_some(), "{mode:?} {tool}: {effects:?}");
        }
    }
}

#[test]
fn nothing_ambiguous_reaches_the_server() {
    for line in [
        r#"[{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"delete_file"}}]"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call","params":{"name":"delete_file"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read_file","name":"delete_file"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read_file","Name":"delete_file"}}"#,
        r#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"delete_file"}}"#,
        r#"{"jsonrpc":"2.0","id":null,"method":"tools/call","params":{"name":"delete_file"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"arguments":{}}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"delete_file","arguments":[1]}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"delete_file","arguments":{"n":99999999999999999999}}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","result":{},"params":{"name":"delete_file"}}"#,
        "{\"x\":\r{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"delete_file\"}}\r}",
        "not json",
        "{\"id\":1,",
    ] {
        let mut peer = Peer::new(|config| config.gate = GateMode::Destructive);
        let effects = peer.client_line(line);
        assert!(to_server(&effects).is_empty() && asked(&effects).is_none() && invoking(&effects).is_none(), "{line}");
        assert!(effects.iter().any(|effect| matches!(effect, BridgeEffect::Warn(_))), "{line} is not reported");
    }
}

#[test]
fn request_with_the_id_of_an_open_one_is_not_forwarded() {
    let mut peer = Peer::new(|_| ());
    asked(&peer.call(1, "delete_file")).unwrap();
    let effects = peer.call(1, "read_file");
    assert!(to_server(&effects).is_empty() && invoking(&effects).is_none());
    assert_eq!(to_client(&effects)[0]["id"], Value::Null, "the open request must not be answered by this");
}

#[test]
fn ambiguous_annotations_count_as_none() {
    let mut peer = Peer::new(|_| ());
    peer.client(json!({"jsonrpc": "2.0", "id": 9, "method": "tools/list"}));
    let line =
        r#"{"id":9,"result":{"tools":[{"name":"wipe","annotations":{"readOnlyHint":false,"readOnlyHint":true}}]}}"#;
    peer.proxy.handle_server_line(peer.now, line.as_bytes());
    assert_eq!(lines(&peer.drain(), false), [line], "the client gets the line as it is");
    assert!(asked(&peer.call(1, "wipe")).is_some());
}

#[test]
fn cancelled_question_is_withdrawn_and_nobody_is_answered() {
    let mut peer = Peer::new(|_| ());
    let question = asked(&peer.call(1, "delete_file")).unwrap();
    let effects =
        peer.client(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}));
    assert_eq!(effects, [BridgeEffect::Withdraw(question)]);
    assert!(peer.decide(question, true).is_empty(), "a late yes has no effect");
}

#[test]
fn cancelled_running_call_is_forwarded_and_reported() {
    let mut peer = Peer::new(|_| ());
    let (call, _) = invoking(&peer.call(1, "read_file")).unwrap();
    peer.invoked(call);
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
    let effects = peer.client(cancel.clone());
    assert_eq!(to_server(&effects), [cancel.to_string()]);
    assert!(effects.iter().any(|e| matches!(e, BridgeEffect::Complete { status: ToolStatus::Error, .. })));
}

#[test]
fn stop_of_the_user_cancels_what_runs_and_refuses_what_waits() {
    let mut peer = Peer::new(|_| ());
    let effects = peer.call(1, "read_file");
    let BridgeEffect::StartSession { session, .. } = &effects[0] else { panic!("{effects:?}") };
    let (session, (call, _)) = (*session, invoking(&effects).unwrap());
    peer.invoked(call);
    let question = asked(&peer.call(2, "delete_file")).unwrap();
    peer.proxy.handle_cancel_request(peer.now, session);
    let effects = peer.drain();
    assert_eq!(to_client(&effects).len(), 2, "both calls are answered: {effects:?}");
    assert!(to_server(&effects)[0].contains("notifications/cancelled"));
    assert!(effects.contains(&BridgeEffect::Withdraw(question)));
    assert!(matches!(effects.last(), Some(BridgeEffect::EndSession { end: SessionEnd::Cancelled { .. }, .. })));
    let late = peer.server(json!({"jsonrpc": "2.0", "id": 1, "result": {"content": []}}));
    assert!(late.is_empty(), "the client has its answer: {late:?}");
}

#[test]
fn end_of_the_server_ends_everything_that_is_open() {
    let mut peer = Peer::new(|_| ());
    let (call, _) = invoking(&peer.call(1, "read_file")).unwrap();
    peer.invoked(call);
    let question = asked(&peer.call(2, "delete_file")).unwrap();
    peer.proxy.handle_server_closed(peer.now);
    let effects = peer.drain();
    assert!(effects.contains(&BridgeEffect::Withdraw(question)));
    assert!(effects.iter().any(|e| matches!(e, BridgeEffect::Complete { call: ended, .. } if *ended == call)));
    assert!(matches!(effects.last(), Some(BridgeEffect::EndSession { end: SessionEnd::Errored { .. }, .. })));
}

#[test]
fn session_ends_after_a_quiet_time_and_counts_its_calls() {
    let mut peer = Peer::new(|config| config.idle_millis = 1000);
    for id in [1, 2] {
        let (call, _) = invoking(&peer.call(id, "read_file")).unwrap();
        peer.invoked(call);
        peer.server(json!({"jsonrpc": "2.0", "id": id, "result": {"content": []}}));
    }
    assert_eq!(peer.proxy.poll_effect(), BridgeEffect::Idle(Some(Moment::from_millis(1000))));
    peer.now = at(999);
    peer.proxy.handle_timeout(peer.now);
    assert!(peer.drain().is_empty());
    peer.now = at(1000);
    peer.proxy.handle_timeout(peer.now);
    let effects = peer.drain();
    assert!(
        matches!(&effects[..], [BridgeEffect::EndSession { end: SessionEnd::Completed { tool_calls: 2, .. }, .. }]),
        "{effects:?}"
    );
}

#[test]
fn remembered_decision_applies_to_later_calls_but_not_to_irreversible_ones() {
    let mut peer = Peer::new(|config| config.offers_to_remember = true);
    let question = asked(&peer.call(1, "append")).unwrap();
    let effects = peer.decide(question, true);
    let remember = asked(&effects).expect("a question about later calls");
    let response = Some(Response::Text("hour".to_owned()));
    let effects = peer.answer(remember, BridgeAnswer::Answered { response, resolution: Resolution::Answered });
    assert!(matches!(&effects[..], [BridgeEffect::Remember(rule)] if rule.decision == RuleDecision::Allow));
    assert!(asked(&peer.call(2, "append")).is_none(), "it is remembered");
    peer.now = at(3_600_000);
    assert!(asked(&peer.call(3, "append")).is_some(), "it has expired");
    let question = asked(&peer.call(4, "delete_file")).unwrap();
    assert!(asked(&peer.decide(question, true)).is_none(), "an irreversible call is asked about each time");
}

#[test]
fn rules_of_the_command_line_decide_without_a_question() {
    let rules = |tool: &str, decision| vec![ConsentRule::for_tool(tool, decision)];
    let mut peer = Peer::new(|config| config.rules = rules("delete_file", RuleDecision::AllowAlways));
    assert!(invoking(&peer.call(1, "delete_file")).is_some());
    let mut peer = Peer::new(|config| config.rules = rules("delete_file", RuleDecision::Allow));
    assert!(asked(&peer.call(1, "delete_file")).is_some(), "a remembered rule does not cover it");
    let mut peer = Peer::new(|config| config.rules = rules("read_file", RuleDecision::Deny));
    assert!(refusal_text(&peer.call(1, "read_file")).contains("decided to refuse"));
}

#[test]
fn without_a_listener_the_policy_decides() {
    let mut peer = Peer::new(|config| config.no_listener = NoListenerPolicy::Pass);
    let question = asked(&peer.call(1, "delete_file")).unwrap();
    let (_, has_permit) = invoking(&peer.answer(question, BridgeAnswer::NobodyListens)).unwrap();
    assert!(!has_permit);
    let mut peer = Peer::new(|_| ());
    let question = asked(&peer.call(1, "delete_file")).unwrap();
    let effects = peer.answer(question, BridgeAnswer::NobodyListens);
    assert!(refusal_text(&effects).contains("aaep listen"));
}

#[test]
fn everything_else_passes_unchanged_in_both_directions() {
    let mut peer = Peer::new(|_| ());
    for line in [
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        r#"{ "jsonrpc" : "2.0","id":"ä","method":"resources/read","params":{"uri":"x"} }"#,
        r#"{"id":77,"jsonrpc":"2.0","result":{"roots":[]}}"#,
        "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"ping\"}\r",
        r#"{"jsonrpc":"2.0","id":4,"method":"initialize","params":{"capabilities":{}}}"#,
    ] {
        let effects = peer.client_line(line);
        assert_eq!(effects, [BridgeEffect::ToServer(line.as_bytes().to_vec())]);
    }
    for line in [
        r#"{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{}}"#,
        r#"{"jsonrpc":"2.0","id":99,"result":{"n":1.0}}"#,
        r#"[{"jsonrpc":"2.0","method":"notifications/message"}]"#,
        r#"{"unknown":true}"#,
    ] {
        peer.proxy.handle_server_line(peer.now, line.as_bytes());
        assert_eq!(peer.drain(), [BridgeEffect::ToClient(line.as_bytes().to_vec())]);
    }
    peer.proxy.handle_server_line(peer.now, b"Server is running...");
    assert!(matches!(&peer.drain()[..], [BridgeEffect::Warn(_)]), "what is not JSON would break the client");
}

#[test]
fn question_says_what_the_call_does() {
    let mut peer = Peer::new(|_| ());
    let effects = peer.call(1, "delete_file");
    let content = effects.iter().find_map(|effect| match effect {
        BridgeEffect::Ask { content: BridgeQuestion::Confirmation(confirmation), .. } => {
            Some(format!("{confirmation:?}"))
        }
        _ => None,
    });
    let content = content.unwrap();
    for part in ["Delete file, a tool of files with path: /a.", "can destroy or overwrite data", "High", "Reject"] {
        assert!(content.contains(part), "{part} is missing in {content}");
    }
}
