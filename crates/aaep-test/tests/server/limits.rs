//! Limits on what one client can use.

use std::time::Duration;

use hyper::StatusCode;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::*;
use crate::ws::subscribed;

/// Sends bytes on a raw connection. Returns everything received until it is closed.
async fn raw(address: std::net::SocketAddr, text: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    // A reset is an end too.
    let _ = soon("the end of the connection", stream.read_to_end(&mut answer)).await;
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn unfinished_request_times_out() {
    let mut config = config();
    config.limits.request_seconds = 1;
    let server = start(config).await;
    let head = raw(server.address(), "GET /healthz HTTP/1.1\r\nhost: local").await;
    assert!(head.is_empty() || head.starts_with("HTTP/1.1 408"), "{head}");
    let head = "POST /aaep/v1/replies HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: 50\r\n\r\n{";
    let body = raw(server.address(), head).await;
    assert!(body.starts_with("HTTP/1.1 408"), "{body}");
    assert!(body.contains("application/problem+json"), "{body}");
}

#[tokio::test]
async fn oversized_request_head_is_refused() {
    let server = start(config()).await;
    let head = format!("GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: {}\r\n\r\n", "x".repeat(100_000));
    let answer = raw(server.address(), &head).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431") || answer.starts_with("HTTP/1.1 400"), "{answer}");
}

#[tokio::test]
async fn principal_over_its_request_rate_gets_retry_after() {
    let mut config = config();
    config.limits.requests_per_second = 2;
    let server = start(config).await;
    let mut last = None;
    for _ in 0..100 {
        let answer = post(server.address(), "/aaep/v1/replies", &json!({})).await;
        if answer.status == StatusCode::TOO_MANY_REQUESTS {
            last = Some(answer);
            break;
        }
    }
    let answer = last.expect("a hundred requests are too many");
    assert_eq!(answer.header("retry-after"), "1");
    assert_eq!(get(server.address(), "/healthz").await.status, StatusCode::OK, "health is not counted");
}

#[tokio::test]
async fn idle_connections_are_closed_for_new_ones() {
    let mut config = config();
    config.limits.connections = 2;
    config.limits.unauthenticated_per_address = Some(2);
    let server = start(config).await;
    let mut first = TcpStream::connect(server.address()).await.unwrap();
    let second = TcpStream::connect(server.address()).await.unwrap();
    let line = "GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let answer = raw(server.address(), line).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let mut rest = Vec::new();
    // A reset is an end too.
    let _ = soon("the end of the oldest", first.read_to_end(&mut rest)).await;
    drop(second);
}

#[tokio::test]
async fn websocket_counts_as_a_connection_until_it_ends() {
    let mut config = config();
    config.limits.connections = 2;
    let server = start(config).await;
    let (first, _) = subscribed(server.address()).await;
    let (second, _) = subscribed(server.address()).await;
    let line = "GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let answer = raw(server.address(), line).await;
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("retry-after"), "{answer}");
    drop(first);
    until("there is a place again", async || raw(server.address(), line).await.starts_with("HTTP/1.1 200")).await;
    drop(second);
}

/// For a subscriber that does not read, events are coalesced, then it is closed. Others are not affected.
#[tokio::test]
async fn slow_reader_is_closed_with_a_reason() {
    let server = start(config()).await;
    let address = server.address();
    let (mut slow, _) = crate::ws::subscribed(address).await;
    let session = session(server.producer()).await;
    let filler = "x".repeat(8000);
    until("the slow one is given up", async || {
        for _ in 0..50 {
            // None of these events can be coalesced.
            let tool = session.tool("look").summary(filler.clone());
            tool.run(async { Ok::<_, String>(()) }).await.unwrap();
        }
        server.producer().subscriber_counts().await.subscriptions == 0
    })
    .await;
    // When it reads again, it receives everything that was sent, and the close reason.
    let mut reason = None;
    let code = loop {
        match crate::ws::receive(&mut slow).await {
            Ok(message) if message["type"] == "subscription.close" => reason = Some(message["reason_code"].clone()),
            Ok(_) => {}
            Err(code) => break code,
        }
    };
    assert_eq!((reason, code), (Some(json!("too_slow")), 4004));
}

/// A peer that vanished without closing is detected by unanswered pings.
#[tokio::test]
async fn connection_without_pongs_is_closed() {
    let mut config = config();
    config.limits.keep_alive_seconds = 1;
    config.limits.silence_seconds = 3;
    let server = start(config).await;
    let (socket, _) = crate::ws::subscribed(server.address()).await;
    // The socket stays open but is not read, so no pong is ever sent.
    until("the silent one is given up", async || server.producer().subscriber_counts().await.subscriptions == 0).await;
    drop(socket);
    let (mut lively, _) = crate::ws::subscribed(server.address()).await;
    let waiting = tokio::time::timeout(Duration::from_secs(6), crate::ws::receive(&mut lively)).await;
    assert!(waiting.is_err(), "a peer that answers pings stays connected: {waiting:?}");
}
