//! The SSE binding: paths, statuses, headers, framing.

use hyper::{Method, StatusCode};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::*;

const SUBSCRIPTIONS: &str = "/aaep/v1/subscriptions";
const REPLIES: &str = "/aaep/v1/replies";
/// Headers of a request.
type Headers = Vec<(&'static str, &'static str)>;

const JSON: (&str, &str) = ("content-type", "application/json");

#[tokio::test]
async fn subscription_is_created_streamed_replied_to_and_closed() {
    let server = start(config()).await;
    let address = server.address();
    let answer = post(address, SUBSCRIPTIONS, &request()).await;
    assert_eq!(answer.status, StatusCode::CREATED);
    let accepted = answer.json();
    assert_eq!(accepted["type"], "subscription.accepted");
    let id = accepted["subscription_id"].as_str().unwrap().to_owned();
    let location = format!("/aaep/v1/events?subscription_id={id}");
    assert_eq!((answer.header("location"), answer.header("content-type")), (&*location, "application/json"));
    assert_eq!(accepted["manifest_uri"], format!("http://{address}/.well-known/aaep-manifest.json"));

    let response = open(address, build(Method::GET, &location, &[("accept", "text/event-stream")], "")).await;
    for (name, value) in [
        ("content-type", "text/event-stream"),
        ("cache-control", "no-cache, no-transform"),
        ("x-accel-buffering", "no"),
    ] {
        assert_eq!(response.headers().get(name).unwrap(), value);
    }
    let mut stream = Stream::from(response);
    let producer = server.producer().clone();
    let agent = tokio::spawn(async move {
        let session = session(&producer).await;
        let permitted = ask(&session).await;
        session.complete("Done.").await.unwrap();
        permitted
    });
    let first = stream.next().await.unwrap();
    assert_eq!((first.name.as_str(), first.id.as_str()), ("aaep.event", first.data["event_id"].as_str().unwrap()));
    assert_eq!(kind_of(&first.data), "session.started");
    assert_eq!(stream.other, ["retry: 2000"]);
    let question = stream.find("awaiting.confirmation").await;
    let token = question["reply_token"].as_str().unwrap();
    let answer = post(address, REPLIES, &reply(&id, token, "accept")).await;
    assert_eq!((answer.status, answer.body.len()), (StatusCode::NO_CONTENT, 0));
    assert!(agent.await.unwrap(), "the yes is a permit");
    stream.find("session.completed").await;

    let close = json!({"type": "subscription.close", "subscription_id": id, "reason_code": "done"});
    assert_eq!(post(address, REPLIES, &close).await.status, StatusCode::NO_CONTENT);
    assert_eq!(stream.rest().await, [], "the stream ends");
    assert_eq!(get(address, &location).await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn invalid_requests_get_the_right_status() {
    let server = start(config()).await;
    let large = "x".repeat(1024 * 1024 + 1);
    let [get, post, put] = [Method::GET, Method::POST, Method::PUT];
    let events = "/aaep/v1/events?subscription_id=sub_1";
    let cases: Vec<(Method, &str, Headers, &str, u16)> = vec![
        (get.clone(), SUBSCRIPTIONS, vec![], "", 405),
        (put.clone(), REPLIES, vec![JSON], "{}", 405),
        (post.clone(), events, vec![JSON], "{}", 405),
        (post.clone(), "/.well-known/aaep-manifest.json", vec![], "", 405),
        (get.clone(), "/nowhere", vec![], "", 404),
        (get.clone(), events, vec![], "", 404),
        (get.clone(), "/aaep/v1/events", vec![], "", 400),
        (get.clone(), "/aaep/v1/events?subscription_id=nonsense", vec![], "", 400),
        (get.clone(), events, vec![("accept", "application/json")], "", 406),
        (post.clone(), SUBSCRIPTIONS, vec![], "{}", 415),
        (post.clone(), SUBSCRIPTIONS, vec![("content-type", "text/plain")], "{}", 415),
        (post.clone(), SUBSCRIPTIONS, vec![JSON], "{", 400),
        (post.clone(), SUBSCRIPTIONS, vec![JSON], "{\"type\":\"subscription.request\"}", 400),
        (post.clone(), SUBSCRIPTIONS, vec![JSON], &large, 413),
        (post.clone(), REPLIES, vec![JSON], &large, 413),
        (post.clone(), REPLIES, vec![JSON], "[]", 400),
        (post.clone(), REPLIES, vec![JSON], "{\"type\":\"confirmation.reply\",\"reply_token\":\"rpl_1\"}", 400),
        (get.clone(), "/aaep/v1/ws", vec![], "", 426),
        (get.clone(), "/metrics", vec![("host", "evil.example")], "", 421),
        (get.clone(), "/healthz", vec![("origin", "https://evil.example")], "", 403),
        (get.clone(), "/.well-known/aaep-manifest.json", vec![("accept", "application/jose")], "", 406),
    ];
    for (method, path, headers, body, status) in cases {
        let answer = call(server.address(), build(method.clone(), path, &headers, body.to_owned())).await;
        assert_eq!(answer.status, status, "{method} {path} {headers:?}: {answer:?}");
        if method == Method::POST && path == SUBSCRIPTIONS {
            let rejected = answer.json();
            assert_eq!(answer.header("content-type"), "application/json", "{method} {path}");
            assert_eq!(rejected["type"], "subscription.rejected", "{method} {path}");
            assert!(rejected["reason_message"].as_str().is_some_and(|text| text.ends_with('.')), "{rejected}");
            continue;
        }
        assert_eq!(answer.header("content-type"), "application/problem+json", "{method} {path}");
        let problem = answer.json();
        assert_eq!(problem["status"], status);
        assert!(problem["detail"].as_str().is_some_and(|detail| detail.ends_with('.')), "{problem}");
        assert_eq!(answer.header("allow").is_empty(), status != 405, "{method} {path}");
    }
}

#[tokio::test]
async fn chunked_body_over_the_limit_is_refused() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let server = start(config()).await;
    let mut stream = tokio::net::TcpStream::connect(server.address()).await.unwrap();
    let head = "POST /aaep/v1/replies HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
        transfer-encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
    let mut answer = String::new();
    let (mut reader, mut writer) = stream.split();
    let sending = async {
        // The server may respond before the whole request is written.
        while writer.write_all(chunk.as_bytes()).await.is_ok() {}
        std::future::pending::<()>().await;
    };
    soon("an answer", async {
        tokio::select! {
            () = sending => {}
            _ = async {
                let mut buffer = [0; 1024];
                while !answer.contains("\r\n\r\n") {
                    let read = reader.read(&mut buffer).await.unwrap_or(0);
                    answer.push_str(&String::from_utf8_lossy(&buffer[..read]));
                    if read == 0 { break; }
                }
            } => {}
        }
    })
    .await;
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
}

#[tokio::test]
async fn rejections_have_a_reason_code_and_a_status() {
    let mut one = config();
    one.limits.subscriptions = 1;
    let server = start(one).await;
    let address = server.address();
    let cases = [
        (json!({"aaep_version": "2.0.0"}), json!({}), 422, "version_unsupported"),
        (json!({}), json!({"accept_signed_manifests_only": true}), 422, "manifest_signature_required"),
    ];
    for (fields, capabilities, status, reason) in cases {
        let mut message = request_with(capabilities);
        message.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let answer = post(address, SUBSCRIPTIONS, &message).await;
        assert_eq!((answer.status.as_u16(), &answer.json()["reason_code"]), (status, &json!(reason)));
        assert_eq!(answer.json()["type"], "subscription.rejected");
    }
    subscribe(address, &request(), None).await;
    let answer = post(address, SUBSCRIPTIONS, &request()).await;
    assert_eq!((answer.status.as_u16(), &answer.json()["reason_code"]), (429, &json!("rate_limit")));
    assert_eq!(answer.header("retry-after"), answer.json()["retry_after_seconds"].to_string());
    server.stop("Over.").await;
    assert!(tokio::net::TcpStream::connect(address).await.is_err(), "the port is closed");
}

#[tokio::test]
async fn renegotiation_returns_the_new_terms_and_applies_them() {
    let server = start(config()).await;
    let address = server.address();
    let id = subscribe(address, &request(), None).await;
    let mut stream = Stream::open(address, &id, &[]).await;
    let change = json!({"type": "subscription.renegotiate", "subscription_id": id,
        "capabilities": {"event_filters": {"exclude": ["aaep:agent.state.*"]}}});
    let answer = post(address, REPLIES, &change).await;
    assert_eq!(answer.status, StatusCode::OK);
    let accepted = answer.json();
    assert_eq!(accepted["honored_capabilities"]["event_filters"]["exclude"], json!(["aaep:agent.state.*"]));
    let session = session(server.producer()).await;
    session.complete("Done.").await.unwrap();
    let kinds = [stream.next().await.unwrap(), stream.next().await.unwrap()].map(|e| kind_of(&e.data).to_owned());
    assert_eq!(kinds, ["session.started", "session.completed"], "no states");
    let unknown = json!({"type": "subscription.renegotiate", "subscription_id": "sub_1", "capabilities": {}});
    assert_eq!(post(address, REPLIES, &unknown).await.status, StatusCode::NOT_FOUND);
}

/// Over HTTP/1.1 a stream takes over its connection. Earlier responses on that connection and the end of the stream are
/// still valid HTTP.
#[tokio::test]
async fn stream_on_a_reused_connection_is_well_formed_chunked_encoding() {
    let server = start(config()).await;
    let id = subscribe(server.address(), &request(), None).await;
    let mut connection = TcpStream::connect(server.address()).await.unwrap();
    let health = "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";
    connection.write_all(health.as_bytes()).await.unwrap();
    let mut before = String::new();
    while !before.ends_with("ok\n") {
        before.push(char::from(soon("the first answer", connection.read_u8()).await.unwrap()));
    }
    let events = format!("GET /aaep/v1/events?subscription_id={id} HTTP/1.1\r\nhost: localhost\r\n\r\n");
    connection.write_all(events.as_bytes()).await.unwrap();
    session(server.producer()).await.complete("Done.").await.unwrap();
    let close = json!({"type": "subscription.close", "subscription_id": id, "reason_code": "done"});
    let mut answer = String::new();
    while !answer.contains("session.completed") {
        answer.push(char::from(soon("the events", connection.read_u8()).await.unwrap()));
    }
    assert_eq!(post(server.address(), REPLIES, &close).await.status, StatusCode::NO_CONTENT);
    soon("the end", connection.read_to_string(&mut answer)).await.unwrap();
    let (head, mut chunks) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200") && head.contains("transfer-encoding: chunked"), "{head}");
    let mut text = String::new();
    loop {
        let (size, rest) = chunks.split_once("\r\n").unwrap();
        let (chunk, rest) = rest.split_at(usize::from_str_radix(size, 16).unwrap());
        text.push_str(chunk);
        chunks = rest.strip_prefix("\r\n").unwrap();
        if chunk.is_empty() {
            break;
        }
    }
    assert_eq!(chunks, "", "nothing follows the last chunk");
    assert!(text.starts_with("retry: 2000\n\nevent: aaep.event\nid: ") && text.ends_with("\n\n"), "{text}");
    assert_eq!(text.matches("\ndata: ").count(), 3, "{text}");
}

/// A HEAD request for a stream must not disconnect its reader.
#[tokio::test]
async fn head_request_does_not_open_a_stream() {
    let server = start(config()).await;
    let id = subscribe(server.address(), &request(), None).await;
    let mut stream = Stream::open(server.address(), &id, &[]).await;
    let path = format!("/aaep/v1/events?subscription_id={id}");
    let answer = call(server.address(), build(Method::HEAD, &path, &[], "")).await;
    assert_eq!((answer.status, answer.header("allow")), (StatusCode::METHOD_NOT_ALLOWED, "GET"));
    session(server.producer()).await.complete("Done.").await.unwrap();
    assert_eq!(kind_of(&stream.next().await.unwrap().data), "session.started");
}

#[tokio::test]
async fn idle_stream_gets_keep_alive_comments() {
    let mut config = config();
    config.limits.keep_alive_seconds = 1;
    let server = start(config).await;
    let id = subscribe(server.address(), &request(), None).await;
    let mut stream = Stream::open(server.address(), &id, &[]).await;
    stream.comment(": alive").await;
}

#[tokio::test]
async fn configured_origins_pass_cors() {
    let mut config = config();
    config.origins = vec!["https://app.example".to_owned()];
    let server = start(config).await;
    let address = server.address();
    let preflight = [("origin", "https://app.example"), ("access-control-request-method", "POST")];
    let answer = call(address, build(Method::OPTIONS, SUBSCRIPTIONS, &preflight, "")).await;
    assert_eq!(answer.status, StatusCode::NO_CONTENT);
    assert_eq!(answer.header("access-control-allow-origin"), "https://app.example");
    assert!(answer.header("access-control-allow-headers").contains("Last-Event-ID"));
    assert!(answer.header("access-control-allow-methods").contains("POST"));
    let headers = [JSON, ("origin", "https://app.example")];
    let answer = call(address, build(Method::POST, SUBSCRIPTIONS, &headers, request().to_string())).await;
    assert_eq!((answer.status, answer.header("vary")), (StatusCode::CREATED, "Origin"));
    let own = format!("http://{address}");
    let headers = [("origin", own.as_str()), ("host", own.trim_start_matches("http://"))];
    assert_eq!(call(address, build(Method::GET, "/healthz", &headers, "")).await.status, StatusCode::OK);
    let plain = get(address, "/healthz").await;
    assert_eq!(plain.header("access-control-allow-origin"), "", "only if it was requested");
}

#[tokio::test]
async fn subscribing_over_http_2_works() {
    let server = start(config()).await;
    let address = server.address();
    let uri = format!("http://{address}{SUBSCRIPTIONS}");
    let message = hyper::Request::builder().method(Method::POST).uri(uri).header(JSON.0, JSON.1);
    let message = message.body(http_body_util::Full::new(request().to_string().into())).unwrap();
    let answer = call_http2(address, message).await;
    assert_eq!((answer.status, answer.json()["type"].as_str()), (StatusCode::CREATED, Some("subscription.accepted")));
}

#[tokio::test]
async fn health_readiness_and_metrics_are_served() {
    let server = start(config()).await;
    let address = server.address();
    assert_eq!(get(address, "/healthz").await.status, StatusCode::OK);
    assert_eq!(get(address, "/readyz").await.status, StatusCode::OK);
    let id = subscribe(address, &request(), None).await;
    let mut stream = Stream::open(address, &id, &[]).await;
    session(server.producer()).await.complete("Done.").await.unwrap();
    stream.find("session.completed").await;
    let numbers = get(address, "/metrics").await;
    assert!(numbers.header("content-type").starts_with("text/plain; version=0.0.4"));
    let text = String::from_utf8(numbers.body.to_vec()).unwrap();
    for line in [
        "aaep_subscriptions 1",
        "aaep_sessions_total 1",
        "aaep_deliveries_total{transport=\"sse\"} 3",
        "aaep_events_dropped_total 0",
    ] {
        assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
    }
    // Every family has its type, and every line is a name and a number.
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, value) = line.rsplit_once(' ').unwrap();
        assert!(value.parse::<f64>().is_ok(), "{line}");
        let family = name.split('{').next().unwrap();
        let family = ["_bucket", "_sum", "_count"].iter().fold(family, |f, s| f.strip_suffix(s).unwrap_or(f));
        assert!(text.contains(&format!("# TYPE {family} ")), "{line}");
    }
    server.producer().shut_down(std::time::Duration::ZERO, "Over.").await;
    assert_eq!(get(address, "/readyz").await.status, StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test]
async fn manifest_lists_the_enabled_transports() {
    let mut without = config();
    without.transports.websocket = false;
    for (config, transports) in [(config(), json!(["sse", "websocket"])), (without, json!(["sse"]))] {
        let server = start(config).await;
        let manifest = get(server.address(), "/.well-known/aaep-manifest.json").await;
        assert_eq!(manifest.json()["transports_supported"], transports);
        assert!(aaep_proto::validate(&manifest.body).is_valid());
    }
}
