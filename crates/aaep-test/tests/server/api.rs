//! The server does what its OpenAPI document says: the same paths and methods, and responses of the documented form.

use std::net::SocketAddr;

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

/// A request and the status of its response.
struct Case<'a>(Method, &'a str, &'a [(&'a str, &'a str)], &'a str, u16);

/// Sends the requests and asserts that each response has its status and is documented.
async fn assert_responses(address: SocketAddr, document: &Value, cases: Vec<Case<'_>>) {
    for Case(method, path, headers, body, status) in cases {
        let answer = call(address, build(method.clone(), path, headers, body.to_owned())).await;
        assert_eq!(answer.status, status, "{method} {path} {headers:?}: {answer:?}");
        assert_conforms(document, &method, path, &answer);
    }
}

fn get<'a>(path: &'a str, headers: &'a [(&'a str, &'a str)], status: u16) -> Case<'a> {
    Case(Method::GET, path, headers, "", status)
}

fn post<'a>(path: &'a str, body: &'a str, status: u16) -> Case<'a> {
    Case(Method::POST, path, &[JSON], body, status)
}

#[tokio::test]
async fn responses_to_subscribers_conform_to_the_document() {
    let files = TempDir::new().unwrap();
    let server = start_with_agents(&files, None).await;
    let address = server.address();
    let document = aaep_server::api::openapi();
    let id = subscribe(address, &request(), None).await;
    let stream = open(address, build(Method::GET, &format!("{EVENTS}?subscription_id={id}"), &[], "")).await;
    assert_eq!(stream.headers()["content-type"], "text/event-stream");
    let responses = &document["paths"][EVENTS]["get"]["responses"];
    assert!(responses[stream.status().as_str()]["content"]["text/event-stream"].is_object());

    let renegotiate = |id: &str| {
        json!({"type": "subscription.renegotiate", "subscription_id": id, "capabilities": {"pace_wpm": 200}})
            .to_string()
    };
    let (terms, unknown) = (renegotiate(&id), renegotiate("sub_0"));
    let request = request().to_string();
    let late = reply(&id, "rpl_0", "accept").to_string();
    let old =
        json!({"type": "subscription.request", "aaep_version": "9.0.0", "subscriber_id": "x", "capabilities": {}});
    let old = old.to_string();
    let large = "x".repeat(1024 * 1024 + 1);
    let cases = vec![
        post(SUBSCRIPTIONS, &request, 201),
        post(SUBSCRIPTIONS, "{}", 400),
        Case(Method::POST, SUBSCRIPTIONS, &[JSON, ("origin", "https://evil.example")], "{}", 403),
        post(SUBSCRIPTIONS, &large, 413),
        Case(Method::POST, SUBSCRIPTIONS, &[TEXT], "{}", 415),
        Case(Method::POST, SUBSCRIPTIONS, &[JSON, ("host", "evil.example")], "{}", 421),
        post(SUBSCRIPTIONS, &old, 422),
        get(EVENTS, &[], 400),
        get("/aaep/v1/events?subscription_id=sub_0", &[], 404),
        get(EVENTS, &[("accept", "application/json")], 406),
        get(EVENTS, &[("host", "evil.example")], 421),
        post(REPLIES, &terms, 200),
        post(REPLIES, &late, 204),
        post(REPLIES, "[]", 400),
        post(REPLIES, &request, 400),
        post(REPLIES, &unknown, 404),
        post(REPLIES, &large, 413),
        Case(Method::POST, REPLIES, &[TEXT], "{}", 415),
        get("/aaep/v1/ws", &[], 426),
    ];
    assert_responses(address, &document, cases).await;
}

#[tokio::test]
async fn responses_to_agents_and_operators_conform_to_the_document() {
    let files = TempDir::new().unwrap();
    let server = start_with_agents(&files, None).await;
    let address = server.address();
    let document = aaep_server::api::openapi();
    let id = subscribe(address, &request(), None).await;
    let started = r#"{"type":"session.started","summary_normal":"Tidying."}"#;
    let question =
        r#"{"type":"awaiting.confirmation","event_id":"q","action":"Delete it.","consequence":"It is gone."}"#;
    let lines = "{\"type\":\"state.changed\",\"to_state\":\"thinking\"}\n{\"type\":7}\n";
    let large = "x".repeat(1024 * 1024 + 1);
    let close = json!({"type": "subscription.close", "subscription_id": id}).to_string();
    let cases = vec![
        post(AGENT, started, 200),
        Case(Method::POST, AGENT, &[LINES], lines, 200),
        post("/aaep/v1/agent/events?wait=0", question, 202),
        post("/aaep/v1/agent/events?agent=a~b", started, 400),
        post(AGENT, &large, 413),
        Case(Method::POST, AGENT, &[TEXT], "{}", 415),
        post(AGENT, "{\"type\":\"session.completed\"}", 422),
        get("/aaep/v1/agent/ws", &[], 426),
        get(MANIFEST, &[], 200),
        get(MANIFEST, &[("accept", "application/jose")], 406),
        get("/.well-known/aaep-keys.json", &[], 200),
        get("/healthz", &[], 200),
        get("/healthz", &[("origin", "https://evil.example")], 403),
        get("/readyz", &[], 200),
        get("/metrics", &[], 200),
        // The question is resolved when nobody can answer it any more.
        post(REPLIES, &close, 204),
        post(AGENT, question, 200),
    ];
    assert_responses(address, &document, cases).await;
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
