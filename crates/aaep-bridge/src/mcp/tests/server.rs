//! What the server asks, reports and returns.

use super::*;

#[test]
fn form_of_the_server_is_asked_here_and_answered_once() {
    let mut peer = Peer::new(|_| ());
    peer.proxy.client_elicits = true;
    let form = json!({"jsonrpc": "2.0", "id": 5, "method": "elicitation/create", "params": {"message": "Name?",
        "requestedSchema": {"properties": {"name": {"type": "string"}}, "required": ["name"]}}});
    let effects = peer.server(form.clone());
    let question = asked(&effects).unwrap();
    assert!(to_client(&effects).is_empty());
    let client = peer.client(json!({"jsonrpc": "2.0", "id": 5, "result": {"action": "accept"}}));
    assert!(to_server(&client).is_empty(), "only the user answers");
    let response = Some(Response::Text("Ada".to_owned()));
    let effects = peer.answer(question, BridgeAnswer::Answered { response, resolution: Resolution::Answered });
    let sent: Value = serde_json::from_str(&to_server(&effects)[0]).unwrap();
    assert_eq!(sent, json!({"jsonrpc": "2.0", "id": 5, "result": {"action": "accept", "content": {"name": "Ada"}}}));
    // Without a listener, a client that can ask gets it.
    let question = asked(&peer.server(form.clone())).unwrap();
    assert_eq!(to_client(&peer.answer(question, BridgeAnswer::NobodyListens)), std::slice::from_ref(&form));
    peer.proxy.client_elicits = false;
    let question = asked(&peer.server(form)).unwrap();
    let effects = peer.answer(question, BridgeAnswer::NobodyListens);
    assert!(to_server(&effects)[0].contains(r#""action":"cancel""#));
}

#[test]
fn input_that_a_call_needs_is_asked_for_and_the_call_repeated_under_the_clients_id() {
    let mut peer = Peer::new(|config| config.injects = true);
    let meta = json!({(client::CAPABILITIES_KEY): {}, "io.modelcontextprotocol/protocolVersion": "2026-07-28"});
    let call = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call",
        "params": {"name": "read_file", "arguments": {}, "_meta": meta}});
    let (key, _) = invoking(&peer.client(call)).unwrap();
    let sent: Value = serde_json::from_str(&to_server(&peer.invoked(key))[0]).unwrap();
    assert!(sent["params"]["_meta"][client::CAPABILITIES_KEY]["elicitation"].is_object());
    let needs = json!({"jsonrpc": "2.0", "id": 7, "result": {"resultType": "input_required", "requestState": "s1",
        "inputRequests": {"q": {"method": "elicitation/create", "params": {"message": "Sure?", "requestedSchema": {}}}}}});
    let effects = peer.server(needs);
    assert!(to_client(&effects).is_empty());
    let question = asked(&effects).unwrap();
    let response = Some(Response::Boolean(true));
    let effects = peer.answer(question, BridgeAnswer::Answered { response, resolution: Resolution::Answered });
    let again: Value = serde_json::from_str(&to_server(&effects)[0]).unwrap();
    assert_eq!(again["params"]["requestState"], "s1");
    assert_eq!(again["params"]["inputResponses"]["q"]["action"], "accept");
    let effects =
        peer.server(json!({"jsonrpc": "2.0", "id": again["id"], "result": {"content": [], "resultType": "complete"}}));
    assert_eq!(to_client(&effects)[0]["id"], 7);
    assert!(effects.iter().any(|e| matches!(e, BridgeEffect::Complete { status: ToolStatus::Success, .. })));
}

#[test]
fn repeated_call_of_the_client_needs_no_second_yes_but_another_call_does() {
    let mut peer = Peer::new(|_| ());
    let question = asked(&peer.call(1, "delete_file")).unwrap();
    let (key, _) = invoking(&peer.decide(question, true)).unwrap();
    peer.invoked(key);
    let needs = json!({"jsonrpc": "2.0", "id": 1, "result": {"resultType": "input_required", "requestState": "s1"}});
    assert_eq!(to_client(&peer.server(needs)).len(), 1);
    let again = |path: &str, state: &str| {
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call",
            "params": {"name": "delete_file", "arguments": {"path": path}, "requestState": state, "inputResponses": {}}})
    };
    assert!(asked(&peer.client(again("/b", "s1"))).is_some(), "other arguments");
    peer.client(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}}));
    assert!(asked(&peer.client(again("/a", "s2"))).is_some(), "another state");
    peer.client(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}}));
    assert_eq!(to_server(&peer.client(again("/a", "s1"))).len(), 1);
}

#[test]
fn task_is_complete_when_its_status_says_so() {
    let mut peer = Peer::new(|_| ());
    let (key, _) = invoking(&peer.call(1, "read_file")).unwrap();
    peer.invoked(key);
    let effects =
        peer.server(json!({"jsonrpc": "2.0", "id": 1, "result": {"task": {"taskId": "t", "status": "working"}}}));
    assert!(!effects.iter().any(|e| matches!(e, BridgeEffect::Complete { .. })));
    let working = json!({"jsonrpc": "2.0", "method": "notifications/tasks/status",
        "params": {"taskId": "t", "status": "working", "statusMessage": "Half done"}});
    assert!(peer.server(working).iter().any(|e| matches!(e, BridgeEffect::Progress { .. })));
    peer.client(json!({"jsonrpc": "2.0", "id": 2, "method": "tasks/get", "params": {"taskId": "t"}}));
    let effects = peer.server(json!({"jsonrpc": "2.0", "id": 2, "result": {"taskId": "t", "status": "failed"}}));
    assert!(effects.iter().any(|e| matches!(e, BridgeEffect::Complete { status: ToolStatus::Error, .. })));
}

#[test]
fn injected_progress_stays_here_and_progress_of_the_client_passes() {
    let mut peer = Peer::new(|config| config.injects = true);
    let (key, _) = invoking(&peer.call(1, "read_file")).unwrap();
    let sent: Value = serde_json::from_str(&to_server(&peer.invoked(key))[0]).unwrap();
    let token = sent["params"]["_meta"]["progressToken"].clone();
    let progress = |token: &Value| json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": token, "progress": 1, "total": 4}});
    let effects = peer.server(progress(&token));
    let [BridgeEffect::Progress { progress: shown, .. }] = &effects[..] else { panic!("{effects:?}") };
    assert_eq!(shown.percent.as_ref().map(|percent| percent.0), Some(25.0));
    assert_eq!(to_client(&peer.server(progress(&json!("other")))).len(), 1);
}

#[test]
fn client_that_asked_for_progress_is_kept_waiting() {
    let mut peer = Peer::new(|_| ());
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "delete_file", "_meta": {"progressToken": 3}}});
    asked(&peer.client(call)).unwrap();
    assert_eq!(peer.proxy.poll_effect(), BridgeEffect::Idle(Some(Moment::from_millis(5000))));
    let mut last = 0.0;
    for seconds in [5, 10, 15] {
        peer.now = at(seconds * 1000);
        peer.proxy.handle_timeout(peer.now);
        let sent = to_client(&peer.drain());
        assert_eq!(sent[0]["params"]["progressToken"], 3);
        let progress = sent[0]["params"]["progress"].as_f64().unwrap();
        assert!(progress > last && progress < 0.001);
        last = progress;
    }
}
