//! Peers that try to exhaust connections, memory or quotas.

#![cfg(unix)]

use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, Instant};

use aaep_test::{Process, aaep, soon, until};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

/// Address space of the attacked server, in KiB.
const ADDRESS_SPACE_KIB: u32 = 400_000;

/// Hostile peers of each kind.
const HOSTILE: usize = 250;

/// A little less than the largest message.
const UNFINISHED_BYTES: usize = 1_000_000;

/// How long the agent floods its subscribers.
const FLOOD: Duration = Duration::from_secs(8);

/// A server with little address space.
struct Confined {
    process: Process,
    address: SocketAddr,
    _runtime: TempDir,
}

impl Confined {
    /// Starts `aaep serve`, with a request rate that the tests do not reach.
    fn start(arguments: &[&str]) -> Confined {
        let runtime = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", &format!("ulimit -v {ADDRESS_SPACE_KIB}; exec \"$0\" \"$@\"")]);
        command.arg(aaep()).args(["serve", "--listen", "127.0.0.1:0"]).args(arguments);
        command.env("XDG_RUNTIME_DIR", runtime.path()).env("AAEP_LIMITS__REQUESTS_PER_SECOND", "100000");
        let process = Process::start(&mut command);
        let address = process.find("an address", |line| {
            let (_, rest) = line.split_once("://")?;
            rest.split(['/', ' ']).next()?.parse().ok()
        });
        Confined { process, address, _runtime: runtime }
    }

    fn is_running(&self) -> bool {
        // A zombie process reports no memory.
        self.process.peak_kib().is_some()
    }

    async fn post(&self, path: &str, body: &str) -> (u16, Value) {
        let kind = if body.trim_end().contains('\n') { "application/x-ndjson" } else { "application/json" };
        self.send(path, body, &format!("content-type: {kind}\r\n")).await
    }

    async fn send(&self, path: &str, body: &str, headers: &str) -> (u16, Value) {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: {}\r\n{headers}connection: close\r\ncontent-length: {}\r\n\r\n",
            self.address,
            body.len()
        );
        // A server that rejects a request may respond before it has read all of it.
        let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
        let mut answer = Vec::new();
        let _ = soon("an answer", stream.read_to_end(&mut answer)).await;
        let text = String::from_utf8_lossy(&answer);
        let status = text.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
        let body = text.split_once("\r\n\r\n").map(|(_, body)| body).unwrap_or_default();
        (status, serde_json::from_str(body).unwrap_or_default())
    }

    async fn web_socket(&self, path: &str) -> WebSocketStream<MaybeTlsStream<TcpStream>> {
        let connecting = tokio_tungstenite::connect_async(format!("ws://{}{path}", self.address));
        soon("a WebSocket", connecting).await.unwrap().0
    }

    /// Checks that a subscriber with default capabilities receives its events.
    async fn serves_a_normal_subscriber(&self) {
        let (status, accepted) = self.post("/aaep/v1/subscriptions", &request(json!({})).to_string()).await;
        assert_eq!(status, 201, "{accepted}");
        let id = accepted["subscription_id"].as_str().unwrap();
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let head = format!("GET /aaep/v1/events?subscription_id={id} HTTP/1.1\r\nhost: {}\r\n\r\n", self.address);
        stream.write_all(head.as_bytes()).await.unwrap();
        let line = json!({"type": "session.started", "session_id": "n", "summary_normal": "An honest agent works."});
        let (status, answer) = self.post("/aaep/v1/agent/events?agent=honest", &line.to_string()).await;
        assert_eq!(status, 200, "{answer}");
        let mut seen = String::new();
        let mut buffer = vec![0; 64 * 1024];
        while !seen.contains("An honest agent works.") {
            let read = soon("the event", stream.read(&mut buffer)).await.unwrap();
            assert!(read > 0, "the stream ended after {seen}");
            seen.push_str(&String::from_utf8_lossy(&buffer[..read]));
        }
    }
}

fn request(capabilities: Value) -> Value {
    json!({"type": "subscription.request", "aaep_version": "1.0.0", "subscriber_id": "s", "capabilities": capabilities})
}

/// Returns filters with this many patterns of the maximum length, different for each subscriber.
fn large_filters(n: usize, patterns: usize) -> Value {
    let list = |name: &str| (0..patterns).map(|i| format!("{name}{n}-{i}:{:x<200}", "")).collect::<Vec<_>>();
    json!({"event_filters": {"include": list("i"), "exclude": list("e")}})
}

#[tokio::test(flavor = "multi_thread")]
async fn filters_over_the_limit_are_rejected_with_the_field() {
    let server = Confined::start(&[]);
    for list in ["include", "exclude"] {
        let patterns: Vec<String> = (0..257).map(|n| format!("x:{n}")).collect();
        let filters = json!({"event_filters": {list: patterns}});
        let mut socket = server.web_socket("/aaep/v1/ws").await;
        socket.send(Message::text(request(filters).to_string())).await.unwrap();
        let answer = soon("an answer", socket.next()).await.unwrap().unwrap().into_text().unwrap();
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(answer["type"], "subscription.rejected", "{answer}");
    }
    let filters = large_filters(0, 256);
    assert_eq!(server.post("/aaep/v1/subscriptions", &request(filters).to_string()).await.0, 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn large_filters_cannot_exhaust_memory() {
    let server = Confined::start(&[]);
    let before = server.process.peak_kib().unwrap();
    let mut refused = 0;
    for n in 0..HOSTILE {
        // Far too many patterns first, then as many as allowed.
        let huge = large_filters(n, 2200);
        let (status, answer) = server.post("/aaep/v1/subscriptions", &request(huge).to_string()).await;
        assert!(matches!(status, 400 | 422 | 503), "{status} {answer}");
        let (status, answer) = server.post("/aaep/v1/subscriptions", &request(large_filters(n, 256)).to_string()).await;
        match status {
            201 => {}
            // The memory budget is exhausted for the terms, or already for the request.
            429 | 503 => {
                let text = answer["reason_message"].as_str().or(answer["detail"].as_str()).unwrap_or_default();
                assert!(text.contains("limits.memory_bytes"), "{answer}");
                refused += 1;
            }
            other => panic!("{other} {answer}"),
        }
    }
    assert!(refused > 0, "the budget is never exhausted");
    let grown = server.process.peak_kib().unwrap() - before;
    assert!(grown < 100 * 1024, "grew by {grown} KiB");
    server.serves_a_normal_subscriber().await;
}

/// Starts a message over one of the transports and never finishes it.
async fn begin_message(server: &Confined, way: usize) -> TcpStream {
    let filler = vec![b' '; UNFINISHED_BYTES];
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let host = server.address;
    let length = UNFINISHED_BYTES + 10;
    let post = |path: &str| {
        format!(
            "POST {path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
        )
    };
    let upgrade = |path: &str| {
        format!(
            "GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
             sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        )
    };
    let (head, is_socket) = match way % 4 {
        0 => (post("/aaep/v1/subscriptions"), false),
        1 => (post("/aaep/v1/agent/events?agent=eve"), false),
        2 => (upgrade("/aaep/v1/ws"), true),
        _ => (upgrade("/aaep/v1/agent/ws"), true),
    };
    let _ = stream.write_all(head.as_bytes()).await;
    if is_socket {
        let mut answer = [0; 12];
        let _ = soon("an upgrade", stream.read_exact(&mut answer)).await;
        // A text frame of this length, masked with zeros.
        let mut frame = vec![0x81, 0xFF];
        frame.extend_from_slice(&(length as u64).to_be_bytes());
        frame.extend_from_slice(&[0; 4]);
        let _ = stream.write_all(&frame).await;
    }
    // A server without memory for it may close the connection or stop reading.
    let _ = tokio::time::timeout(Duration::from_secs(2), stream.write_all(&filler)).await;
    stream
}

#[tokio::test(flavor = "multi_thread")]
async fn unfinished_messages_cannot_exhaust_memory() {
    let server = Confined::start(&[]);
    let before = server.process.peak_kib().unwrap();
    let streams = futures_util::future::join_all((0..HOSTILE).map(|n| begin_message(&server, n))).await;
    assert!(server.is_running(), "the server has died");
    server.serves_a_normal_subscriber().await;
    let grown = server.process.peak_kib().unwrap() - before;
    assert!(grown < 150 * 1024, "grew by {grown} KiB");
    drop(streams);
}

/// Subscribes and then never reads.
async fn stop_reading(server: &Confined, n: usize) -> WebSocketStream<MaybeTlsStream<TcpStream>> {
    let mut socket = server.web_socket("/aaep/v1/ws").await;
    // Terms that no other subscriber has, so that as little memory as possible is shared.
    let filters = json!({"include": ["aaep:agent.*", format!("x{n}:*")]});
    let terms = json!({"event_filters": filters, "coalesce_boundaries": ["none"]});
    socket.send(Message::text(request(terms).to_string())).await.unwrap();
    soon("terms", socket.next()).await.unwrap().unwrap();
    socket
}

#[tokio::test(flavor = "multi_thread")]
async fn subscribers_that_never_read_cannot_exhaust_memory() {
    let server = Confined::start(&[]);
    let sockets = futures_util::future::join_all((0..HOSTILE).map(|n| stop_reading(&server, n))).await;
    let before = server.process.peak_kib().unwrap();
    let line = |n: usize| {
        let text = format!("{n} {:y<8000}. ", "");
        let tool = json!({"type": "tool.invoked", "session_id": "f", "tool": format!("t{n}"), "summary_normal": text});
        let done = json!({"type": "tool.completed", "session_id": "f", "tool": format!("t{n}"), "status": "success"});
        let text = json!({"type": "output.streaming", "session_id": "f", "chunk": text});
        format!("{tool}\n{done}\n{text}\n")
    };
    let started = Instant::now();
    let mut n = 0;
    while started.elapsed() < FLOOD {
        let body: String = (n..n + 20).map(line).collect();
        n += 20;
        let flooding = server.post("/aaep/v1/agent/events?agent=flood", &body);
        // The agent may be slowed down by its subscribers.
        let _ = tokio::time::timeout(FLOOD, flooding).await;
        assert!(server.is_running(), "the server has died");
    }
    let grown = server.process.peak_kib().unwrap() - before;
    assert!(grown < 250 * 1024, "grew by {grown} KiB");
    server.serves_a_normal_subscriber().await;
    drop(sockets);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_principal_cannot_use_every_subscription() {
    use std::os::unix::fs::PermissionsExt;
    let files = tempfile::tempdir().unwrap();
    let tokens = files.path().join("tokens");
    std::fs::write(
        &tokens,
        "eve-secret-eve-secret-eve-secret eve subscribe\nada-secret-ada-secret-ada-secret ada subscribe\n",
    )
    .unwrap();
    std::fs::set_permissions(&tokens, std::fs::Permissions::from_mode(0o600)).unwrap();
    let config = files.path().join("aaep.toml");
    std::fs::write(&config, "[limits]\nsubscriptions = 40\nsubscriptions_per_principal = 100\n").unwrap();
    let paths = [&tokens, &config].map(|path| path.to_str().unwrap());
    let server = Confined::start(&["--tokens", paths[0], "--config", paths[1]]);
    let subscribe = async |who: &str| {
        let headers = format!(
            "content-type: application/json\r\nauthorization: Bearer {who}-secret-{who}-secret-{who}-secret\r\n"
        );
        server.send("/aaep/v1/subscriptions", &request(json!({})).to_string(), &headers).await
    };
    let mut taken = 0;
    let rejection = loop {
        match subscribe("eve").await {
            (201, _) => taken += 1,
            (status, answer) => break (status, answer),
        }
        assert!(taken < 40, "one principal took every place");
    };
    assert_eq!((rejection.0, &rejection.1["reason_code"]), (429, &json!("rate_limit")), "{rejection:?}");
    assert_eq!(subscribe("ada").await.0, 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_events_do_not_count_against_the_agent_limit() {
    let server = Confined::start(&[]);
    let started = Instant::now();
    for n in 0..1100 {
        let path = format!("/aaep/v1/agent/events?agent=a{n}");
        let (status, answer) = server.post(&path, r#"{"type":"tool.invoked"}"#).await;
        assert_eq!(status, 422, "{answer} after {n} in {:?}", started.elapsed());
    }
    let line = json!({"type": "session.started", "summary_normal": "An honest agent works."}).to_string();
    let (status, answer) = server.post("/aaep/v1/agent/events?agent=honest", &line).await;
    assert_eq!(status, 200, "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_agent_cannot_use_every_session() {
    let server = Confined::start(&[]);
    let mut started = 0;
    for agent in 0..20 {
        let lines: String = (0..256)
            .map(|n| json!({"type": "session.started", "session_id": format!("s{n}"), "summary_normal": "Busy."}))
            .map(|line| format!("{line}\n"))
            .collect();
        let path = format!("/aaep/v1/agent/events?agent=a{agent}");
        let (status, _) = server.post(&path, &lines).await;
        assert_eq!(status, 200);
        started += 256;
    }
    assert!(started > 4096);
    let line = json!({"type": "session.started", "summary_normal": "An honest agent works."}).to_string();
    until("a session of an honest agent", async || {
        server.post("/aaep/v1/agent/events?agent=honest", &line).await.0 == 200
    })
    .await;
}
