//! Conformance of the stdio transport with JSON-RPC 2.0.

use aaep_server::{Limits, ServerContext, stdio};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::clients::{Client, Stdio};
use crate::harness::*;

/// Sends one line. Returns the response.
async fn ask(client: &mut Stdio, line: &str) -> Value {
    client.line(line).await;
    client.answer().await.unwrap()
}

fn error(id: &Value, code: i32, answer: &Value) {
    assert_eq!((&answer["jsonrpc"], &answer["id"]), (&json!("2.0"), id), "{answer}");
    assert_eq!(answer["error"]["code"], code, "{answer}");
    assert!(answer["error"]["message"].as_str().is_some_and(|text| !text.is_empty()), "{answer}");
    assert_eq!(answer.get("result"), None);
}

#[tokio::test]
async fn errors_have_the_json_rpc_codes() {
    let test = TestServer::start().await;
    let mut client = Stdio::connect(&test).await;
    let null = Value::Null;
    for broken in ["{", "not JSON", "{\"jsonrpc\": \"2.0\", \"method\": \"aaep.ping\", \"id\": 1}}", "[1,"] {
        error(&null, -32700, &ask(&mut client, broken).await);
    }
    for wrong in [
        "1",
        "\"text\"",
        "[]",
        "{}",
        r#"{"jsonrpc":"1.0","method":"aaep.ping","id":1}"#,
        r#"{"jsonrpc":"2.0","method":1,"id":1}"#,
        r#"{"jsonrpc":"2.0","method":"aaep.ping","params":"text","id":1}"#,
        r#"{"jsonrpc":"2.0","method":"aaep.ping","id":{}}"#,
        r#"{"jsonrpc":"2.0","method":"aaep.ping","id":true}"#,
    ] {
        error(&null, -32600, &ask(&mut client, wrong).await);
    }
    error(&json!("a"), -32601, &ask(&mut client, r#"{"jsonrpc":"2.0","method":"aaep.dance","id":"a"}"#).await);
    let wrong = r#"{"jsonrpc":"2.0","method":"aaep.subscribe","params":{"type":"subscription.request"},"id":7}"#;
    let answer = ask(&mut client, wrong).await;
    error(&json!(7), -32602, &answer);
    assert_eq!(answer["error"]["data"]["type"], "subscription.rejected", "{answer}");
    let by_position = r#"{"jsonrpc":"2.0","method":"aaep.subscribe","params":[1],"id":8}"#;
    error(&json!(8), -32602, &ask(&mut client, by_position).await);
    let early = json!({"jsonrpc": "2.0", "id": 9, "method": "aaep.renegotiate", "params":
        {"type": "subscription.renegotiate", "subscription_id": "sub_1", "capabilities": {}}});
    error(&json!(9), -32600, &ask(&mut client, &early.to_string()).await);
    // The connection still accepts a subscription.
    client.send(&replying_request()).await;
    assert_eq!(kind_of(&client.receive().await.unwrap()), "subscription.accepted");
    let again = json!({"jsonrpc": "2.0", "id": 10, "method": "aaep.subscribe", "params": replying_request()});
    error(&json!(10), -32000, &ask(&mut client, &again.to_string()).await);
}

#[tokio::test]
async fn ids_are_returned_unchanged() {
    let test = TestServer::start().await;
    let mut client = Stdio::connect(&test).await;
    for id in ["1", "-5", "\"a b\"", "null", "12345678901234567890123", "1.50"] {
        client.line(&format!("{{\"jsonrpc\":\"2.0\",\"method\":\"aaep.ping\",\"id\":{id}}}")).await;
        let expected: Value =
            serde_json::from_str(&format!("{{\"jsonrpc\":\"2.0\",\"result\":{{}},\"id\":{id}}}")).unwrap();
        assert_eq!(client.answer().await.unwrap(), expected);
    }
}

#[tokio::test]
async fn batch_gets_one_response() {
    let test = TestServer::start().await;
    let mut client = Stdio::connect(&test).await;
    let batch = json!([
        {"jsonrpc": "2.0", "id": 1, "method": "aaep.ping"},
        {"jsonrpc": "2.0", "method": "aaep.ping"},
        {"jsonrpc": "2.0", "id": 2, "method": "aaep.subscribe", "params": replying_request()},
        {"jsonrpc": "2.0", "id": 3, "method": "aaep.dance"},
        {"foo": "bar"},
    ]);
    client.line(&batch.to_string()).await;
    let answers = client.answer().await.unwrap();
    let answers = answers.as_array().unwrap();
    assert_eq!(answers.len(), 4, "{answers:?}");
    let find = |id: Value| answers.iter().find(|answer| answer["id"] == id).unwrap();
    assert_eq!(find(json!(1))["result"], json!({}));
    assert_eq!(kind_of(&find(json!(2))["result"]), "subscription.accepted");
    error(&json!(3), -32601, find(json!(3)));
    error(&Value::Null, -32600, find(Value::Null));
    let all_wrong = ask(&mut client, "[1,2,3]").await;
    assert_eq!(all_wrong.as_array().unwrap().len(), 3);
    // A batch of notifications gets no response: the next line is the next response.
    client.line(r#"[{"jsonrpc":"2.0","method":"aaep.ping"}]"#).await;
    let next = ask(&mut client, r#"{"jsonrpc":"2.0","id":"next","method":"aaep.ping"}"#).await;
    assert_eq!(next["id"], "next");
}

#[tokio::test]
async fn notifications_get_no_response() {
    let test = TestServer::start().await;
    let (mut client, _) = Stdio::subscribed(&test, &replying_request()).await;
    for method in ["aaep.ping", "aaep.dance", "aaep.reply", "aaep.subscribe"] {
        client.line(&format!("{{\"jsonrpc\":\"2.0\",\"method\":\"{method}\",\"params\":{{}}}}")).await;
    }
    let next = ask(&mut client, r#"{"jsonrpc":"2.0","id":"next","method":"aaep.ping"}"#).await;
    assert_eq!(next["id"], "next");
}

#[tokio::test]
async fn rejection_is_an_error_with_its_reason() {
    let test = TestServer::start().await;
    let mut client = Stdio::connect(&test).await;
    let mut wrong = replying_request();
    wrong["aaep_version"] = json!("9.0.0");
    let line = json!({"jsonrpc": "2.0", "id": "s", "method": "aaep.subscribe", "params": wrong}).to_string();
    let answer = ask(&mut client, &line).await;
    error(&json!("s"), -32000, &answer);
    assert_eq!(answer["error"]["data"]["type"], "subscription.rejected");
    assert_eq!(client.answer().await, None);
}

#[tokio::test]
async fn producer_sends_pings() {
    let test = TestServer::start().await;
    let hub =
        ServerContext::standalone(test.producer().clone()).with_limits(Limits { keep_alive_seconds: 1, ..limits() });
    let (parent, child) = tokio::io::duplex(64 * 1024);
    tokio::spawn(async move {
        let (input, output) = tokio::io::split(child);
        stdio::serve(&hub, input, output).await;
    });
    let (from, mut to) = tokio::io::split(parent);
    let line = json!({"jsonrpc": "2.0", "id": 1, "method": "aaep.subscribe", "params": replying_request()});
    tokio::io::AsyncWriteExt::write_all(&mut to, format!("{line}\n").as_bytes()).await.unwrap();
    let mut lines = BufReader::new(from).lines();
    let ping = loop {
        let line: Value = serde_json::from_str(&soon("a line", lines.next_line()).await.unwrap().unwrap()).unwrap();
        if line["method"] == "aaep.ping" {
            break line;
        }
    };
    assert!(ping["id"].is_string(), "it is a request: {ping}");
}
