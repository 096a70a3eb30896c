//! The server does what its OpenAPI document says: the same paths and methods, and responses of the documented form.

use aaep_server::{RunningServer, Server};
use hyper::Method;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::*;
use crate::identity::write;

const SUBSCRIPTIONS: &str = "/aaep/v1/subscriptions";
const REPLIES: &str = "/aaep/v1/replies";
const EVENTS: &str = "/aaep/v1/events";
const AGENT: &str = "/aaep/v1/agent/events";
const MANIFEST: &str = "/.well-known/aaep-manifest.json";

const JSON: (&str, &str) = ("content-type", "application/json");
const LINES: (&str, &str) = ("content-type", "application/x-ndjson");
const TEXT: (&str, &str) = ("content-type", "text/plain");

/// Starts a server that accepts agents, with these tokens if there are any.
async fn start_with_agents(files: &TempDir, tokens: Option<&str>) -> RunningServer {
    let mut config = config();
    config.auth.tokens = tokens.map(|tokens| write(files, "tokens", tokens));
    let producer = Server::producer(&config);
    Server::new(config, producer).with_agents().start().await.unwrap()
}

/// Asserts that the document has the response: its status, its media type, and its body.
fn assert_conforms(document: &Value, method: &Method, path: &str, answer: &Answer) {
    let path = path.split('?').next().unwrap();
    let operation = &document["paths"][path][method.as_str().to_lowercase()];
    let response = &operation["responses"][answer.status.as_str()];
    assert!(response.is_object(), "{method} {path} {} is not documented: {answer:?}", answer.status);
    if answer.body.is_empty() {
        let content = response["content"].as_object();
        assert!(content.is_none(), "{method} {path} {} has no body", answer.status);
        return;
    }
    let media = answer.header("content-type").split(';').next().unwrap();
    let schema = &response["content"][media]["schema"];
    assert!(schema.is_object(), "{method} {path} {} has the type {media}", answer.status);
    if media.contains("json") && media != "application/x-ndjson" {
        let whole = json!({"components": document["components"], "allOf": [schema]});
        let schema = jsonschema::draft202012::new(&whole).unwrap();
        let errors: Vec<String> = schema.iter_errors(&answer.json()).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{method} {path} {}: {errors:?} in {}", answer.status, answer.json());
    }
}

#[tokio::test]
async fn documented_methods_are_the_ones_that_are_served() {
    let files = TempDir::new().unwrap();
    let server = start_with_agents(&files, None).await;
    let document = aaep_server::api::openapi();
    let paths = document["paths"].as_object().unwrap();
    assert!(paths.len() > 10, "{paths:?}");
    for (path, item) in paths {
        let documented: Vec<String> = item.as_object().unwrap().keys().map(|method| method.to_uppercase()).collect();
        for method in [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
            let answer = call(server.address(), build(method.clone(), path, &[], "")).await;
            let is_documented = documented.iter().any(|name| *name == method.as_str());
            assert_ne!(answer.status, 404, "{method} {path}");
            assert_eq!(answer.status != 405, is_documented, "{method} {path}: {answer:?}");
            if !is_documented {
                assert_eq!(answer.header("allow"), documented.join(", "), "{method} {path}");
            }
        }
    }
}

#[tokio::test]
async fn responses_conform_to_the_document() {
    let files = TempDir::new().unwrap();
    let server = start_with_agents(&files, None).await;
    let address = server.address();
    let document = aaep_server::api::openapi();
    let id = subscribe(address, &request(), None).await;
    let stream = open(address, build(Method::GET, &format!("{EVENTS}?subscription_id={id}"), &[], "")).await;
    assert_eq!(stream.headers()["content-type"], "text/event-stream");
    let responses = &document["paths"][EVENTS]["get"]["responses"];
    assert!(responses[stream.status().as_str()]["content"]["text/event-stream"].is_object());

    let terms = json!({"type": "subscription.renegotiate", "subscription_id": id, "capabilities": {"pace_wpm": 200}})
        .to_string();
    let unknown =
        json!({"type": "subscription.renegotiate", "subscription_id": "sub_0", "capabilities": {}}).to_string();
    let request = request().to_string();
    let late = reply(&id, "rpl_0", "accept").to_string();
    let old =
        json!({"type": "subscription.request", "aaep_version": "9.0.0", "subscriber_id": "x", "capabilities": {}})
            .to_string();
    let started = r#"{"type":"session.started","summary_normal":"Tidying."}"#;
    let question =
        r#"{"type":"awaiting.confirmation","event_id":"q","action":"Delete it.","consequence":"It is gone."}"#;
    let large = "x".repeat(1024 * 1024 + 1);
    let [get, post] = [Method::GET, Method::POST];
    let cases: Vec<(&Method, &str, Vec<(&str, &str)>, &str, u16)> = vec![
        (&post, SUBSCRIPTIONS, vec![JSON], &request, 201),
        (&post, SUBSCRIPTIONS, vec![JSON], "{}", 400),
        (&post, SUBSCRIPTIONS, vec![JSON, ("origin", "https://evil.example")], "{}", 403),
        (&post, SUBSCRIPTIONS, vec![JSON], &large, 413),
        (&post, SUBSCRIPTIONS, vec![TEXT], "{}", 415),
        (&post, SUBSCRIPTIONS, vec![JSON, ("host", "evil.example")], "{}", 421),
        (&post, SUBSCRIPTIONS, vec![JSON], &old, 422),
        (&get, EVENTS, vec![], "", 400),
        (&get, "/aaep/v1/events?subscription_id=sub_0", vec![], "", 404),
        (&get, EVENTS, vec![("accept", "application/json")], "", 406),
        (&get, EVENTS, vec![("host", "evil.example")], "", 421),
        (&post, REPLIES, vec![JSON], &terms, 200),
        (&post, REPLIES, vec![JSON], &late, 204),
        (&post, REPLIES, vec![JSON], "[]", 400),
        (&post, REPLIES, vec![JSON], &request, 400),
        (&post, REPLIES, vec![JSON], &unknown, 404),
        (&post, REPLIES, vec![JSON], &large, 413),
        (&post, REPLIES, vec![TEXT], "{}", 415),
        (&get, "/aaep/v1/ws", vec![], "", 426),
        (&post, AGENT, vec![JSON], started, 200),
        (&post, AGENT, vec![LINES], "{\"type\":\"state.changed\",\"to_state\":\"thinking\"}\n{\"type\":7}\n", 200),
        (&post, "/aaep/v1/agent/events?wait=0", vec![JSON], question, 202),
        (&post, "/aaep/v1/agent/events?agent=a~b", vec![JSON], started, 400),
        (&post, AGENT, vec![JSON], &large, 413),
        (&post, AGENT, vec![TEXT], "{}", 415),
        (&post, AGENT, vec![JSON], "{\"type\":\"session.completed\"}", 422),
        (&get, "/aaep/v1/agent/ws", vec![], "", 426),
        (&get, MANIFEST, vec![], "", 200),
        (&get, MANIFEST, vec![("accept", "application/jose")], "", 406),
        (&get, "/.well-known/aaep-keys.json", vec![], "", 200),
        (&get, "/healthz", vec![], "", 200),
        (&get, "/healthz", vec![("origin", "https://evil.example")], "", 403),
        (&get, "/readyz", vec![], "", 200),
        (&get, "/metrics", vec![], "", 200),
    ];
    for (method, path, headers, body, status) in cases {
        let answer = call(address, build(method.clone(), path, &headers, body.to_owned())).await;
        assert_eq!(answer.status, status, "{method} {path} {headers:?}: {answer:?}");
        assert_conforms(&document, method, path, &answer);
    }
    // The question is resolved when nobody can answer it any more.
    let close = json!({"type": "subscription.close", "subscription_id": id}).to_string();
    for (path, body, status) in [(REPLIES, close.as_str(), 204), (AGENT, question, 200)] {
        let answer = call(address, build(Method::POST, path, &[JSON], body.to_owned())).await;
        assert_eq!(answer.status, status, "{path}: {answer:?}");
        assert_conforms(&document, &Method::POST, path, &answer);
    }
}

#[tokio::test]
async fn responses_to_missing_and_insufficient_credentials_conform_to_the_document() {
    let files = TempDir::new().unwrap();
    let server = start_with_agents(&files, Some("none-secret-none-secret-none-secret nobody audit\n")).await;
    let document = aaep_server::api::openapi();
    let terms = json!({"type": "subscription.renegotiate", "subscription_id": "sub_0", "capabilities": {}}).to_string();
    let reply = reply("sub_0", "rpl_0", "accept").to_string();
    let bearer = ("authorization", "Bearer none-secret-none-secret-none-secret");
    let [get, post] = [Method::GET, Method::POST];
    let cases = [
        (&post, SUBSCRIPTIONS, request().to_string()),
        (&get, "/aaep/v1/events?subscription_id=sub_0", String::new()),
        (&post, REPLIES, terms),
        (&post, REPLIES, reply),
        (&post, AGENT, "{\"type\":\"session.started\",\"summary_normal\":\"Tidying.\"}".to_owned()),
        (&get, "/metrics", String::new()),
    ];
    for (method, path, body) in cases {
        for (headers, status) in [(vec![JSON], 401), (vec![JSON, bearer], 403)] {
            let answer = call(server.address(), build(method.clone(), path, &headers, body.clone())).await;
            assert_eq!(answer.status, status, "{method} {path}: {answer:?}");
            assert_conforms(&document, method, path, &answer);
        }
        let security =
            document["paths"][path.split('?').next().unwrap()][method.as_str().to_lowercase()]["security"].clone();
        assert!(security.as_array().is_some_and(|schemes| schemes.contains(&json!({"bearer": []}))), "{path}");
    }
}
