//! Peers that keep idle connections open, or send faster than they may.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use aaep_test::{Serving, now, soon, until};
use futures_util::{SinkExt, StreamExt};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

/// What an HTTP/2 client sends before its first request: the preface and empty settings.
const HTTP2_START: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00";

/// Starts `aaep serve` with this configuration. The directory contains the configuration file and the sockets.
fn serve(config: &str) -> (Serving, TempDir) {
    let private = std::fs::Permissions::from_mode(0o700);
    let directory = tempfile::Builder::new().permissions(private).tempdir().unwrap();
    let file = directory.path().join("config.toml");
    let config = config.replace("DIR", directory.path().to_str().unwrap());
    std::fs::write(&file, config).unwrap();
    (Serving::start(&["serve", "--config", file.to_str().unwrap()]), directory)
}

/// Raises the limit of open files. Returns how many attackers fit, at most `most`.
fn attackers(most: usize) -> usize {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).unwrap();
    limit.maximum.map_or(most, |files| most.min(usize::try_from(files).unwrap_or(most).saturating_sub(500)))
}

/// Opens connections that send these bytes and then nothing.
async fn hold(address: SocketAddr, count: usize, bytes: &[u8]) -> Vec<TcpStream> {
    let mut open = Vec::with_capacity(count);
    for _ in 0..count {
        let mut stream = soon("a connection", TcpStream::connect(address)).await.unwrap();
        // An attacker may be closed before it has sent anything.
        let _ = stream.write_all(bytes).await;
        open.push(stream);
    }
    open
}

/// Sends a request on a new connection. Returns the response, or `None` if the connection was closed first.
async fn call(address: SocketAddr, method: &str, path: &str, body: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).await.ok()?;
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = String::new();
    soon("an answer", stream.read_to_string(&mut answer)).await.ok()?;
    Some(answer)
}

async fn post(address: SocketAddr, path: &str, body: &Value) -> String {
    call(address, "POST", path, &body.to_string()).await.unwrap_or_default()
}

fn request() -> Value {
    json!({"type": "subscription.request", "aaep_version": "1.0.0", "subscriber_id": "subscriber", "capabilities":
        {"supports_confirmation_reply": true}})
}

/// Returns a value from the metrics of the server.
async fn metric(address: SocketAddr, name: &str) -> u64 {
    let mut value = None;
    until(name, async || {
        // During a flood the connection may be closed before the response.
        let page = call(address, "GET", "/metrics", "").await.unwrap_or_default();
        value = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok());
        value.is_some()
    })
    .await;
    value.unwrap()
}

/// A subscriber over WebSocket.
struct TestSubscriber {
    socket: WebSocketStream<TcpStream>,
    subscription: String,
}

impl TestSubscriber {
    /// Subscribes. Returns `None` if the server refuses or closes the connection.
    async fn subscribe(address: SocketAddr) -> Option<TestSubscriber> {
        let stream = TcpStream::connect(address).await.ok()?;
        let url = format!("ws://{address}/aaep/v1/ws");
        let (socket, _) = soon("an upgrade", tokio_tungstenite::client_async(url, stream)).await.ok()?;
        let mut subscriber = TestSubscriber { socket, subscription: String::new() };
        subscriber.socket.send(Message::text(request().to_string())).await.ok()?;
        let accepted = subscriber.next().await.ok()?;
        subscriber.subscription = accepted["subscription_id"].as_str()?.to_owned();
        Some(subscriber)
    }

    /// Receives the next message, or the close code.
    async fn next(&mut self) -> Result<Value, u16> {
        loop {
            match soon("a message", self.socket.next()).await {
                Some(Ok(Message::Text(text))) => return Ok(serde_json::from_str(&text).unwrap()),
                Some(Ok(Message::Close(frame))) => return Err(frame.map_or(0, |frame| frame.code.into())),
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return Err(1006),
            }
        }
    }

    /// Receives until an event with this text.
    async fn wait_for_text(&mut self, text: &str) {
        while !self.next().await.unwrap().to_string().contains(text) {}
    }
}

/// Returns a reply that accepts a question.
fn reply(subscription: &str, token: &str) -> Value {
    json!({"type": "confirmation.reply", "reply_token": token, "decision": "accept", "subscription_id": subscription,
        "timestamp": now()})
}

/// Emits an event of an agent with this text.
async fn say(address: SocketAddr, text: &str) {
    let event = json!({"type": "session.started", "summary_normal": text, "session_id": text, "event_id": text});
    let mut answer = String::new();
    until("the agent is heard", async || {
        answer = post(address, "/aaep/v1/agent/events", &event).await;
        answer.starts_with("HTTP/1.1 200")
    })
    .await;
}

/// Idle connections of three kinds, fifteen times as many as the server admits. All are unauthenticated and come from one
/// address, which is the worst case: a subscriber on the same machine cannot be distinguished from the attackers.
#[tokio::test]
async fn idle_connections_do_not_lock_out_others() {
    let (server, _files) = serve("[limits]\nconnections = 200\n[transports]\nunix = false\n");
    let address = server.address();
    let mut existing = TestSubscriber::subscribe(address).await.unwrap();
    let each = attackers(3_000) / 3;
    let start = Instant::now();
    let silent = hold(address, each, b"").await;
    let unfinished = hold(address, each, b"GET / HTTP/1.1\r\nhost: loc").await;
    let http2 = hold(address, each, HTTP2_START).await;
    let opened = start.elapsed();
    let start = Instant::now();
    let mut newcomer = TestSubscriber::subscribe(address).await.expect("a new subscriber is admitted");
    eprintln!("{} idle connections in {opened:?}; then subscribed in {:?}", 3 * each, start.elapsed());
    say(address, "Water the beans.").await;
    newcomer.wait_for_text("Water the beans.").await;
    existing.wait_for_text("Water the beans.").await;
    // Subscribers are admitted one after the other, up to the limit minus a few connections for requests.
    let mut subscribers = Vec::new();
    for _ in 0..150 {
        subscribers.push(TestSubscriber::subscribe(address).await.expect("a new subscriber is admitted"));
    }
    say(address, "All done.").await;
    for subscriber in subscribers.iter_mut().chain([&mut existing, &mut newcomer]) {
        subscriber.wait_for_text("All done.").await;
    }
    assert_eq!(metric(address, "aaep_connections_refused_total").await, 0);
    assert!(metric(address, "aaep_connections_evicted_total").await >= 3 * each as u64 - 200);
    drop((silent, unfinished, http2));
}

/// The attackers never stop opening connections. A subscriber may need several attempts, but only a bounded number.
#[tokio::test]
async fn flood_of_connections_does_not_lock_out_others() {
    let (server, _files) = serve("[limits]\nconnections = 200\n[transports]\nunix = false\n");
    let address = server.address();
    let mut existing = TestSubscriber::subscribe(address).await.unwrap();
    let flood = tokio::spawn(async move {
        let mut open = std::collections::VecDeque::new();
        for n in 0_usize.. {
            let bytes = [b"".as_slice(), b"GET / HTTP/1.1\r\n", HTTP2_START][n % 3];
            open.extend(hold(address, 1, bytes).await);
            if open.len() > 400 {
                open.pop_front();
            }
        }
    });
    until("the places have run out", async || metric(address, "aaep_connections_evicted_total").await > 100).await;
    let mut tries = 0;
    let mut newcomer = None;
    while newcomer.is_none() && tries < 100 {
        tries += 1;
        newcomer = TestSubscriber::subscribe(address).await;
    }
    let mut newcomer = newcomer.expect("a subscriber is admitted within a hundred attempts");
    eprintln!("subscribed at try {tries}");
    say(address, "Still here.").await;
    newcomer.wait_for_text("Still here.").await;
    existing.wait_for_text("Still here.").await;
    flood.abort();
}

fn self_signed(directory: &Path) -> Arc<ClientConfig> {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    std::fs::write(directory.join("cert.pem"), made.cert.pem()).unwrap();
    std::fs::write(directory.join("key.pem"), made.signing_key.serialize_pem()).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    Arc::new(config.with_root_certificates(roots).with_no_client_auth())
}

#[tokio::test]
async fn unfinished_tls_handshakes_do_not_lock_out_others() {
    let keys = tempfile::tempdir().unwrap();
    let client = self_signed(keys.path());
    let path = keys.path().display();
    let (server, _files) = serve(&format!(
        "[limits]\nconnections = 100\n[transports]\nunix = false\n[tls]\ncert = \"{path}/cert.pem\"\nkey = \"{path}/key.pem\"\n"
    ));
    // The first bytes of a handshake record whose length is never reached.
    let open = hold(server.address(), attackers(1_000), b"\x16\x03\x01\x02\x00\x01\x00").await;
    let stream = TcpStream::connect(server.address()).await.unwrap();
    let connecting = TlsConnector::from(client).connect("localhost".try_into().unwrap(), stream);
    let mut stream = soon("a handshake", connecting).await.unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    soon("an answer", stream.read_to_string(&mut answer)).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    drop(open);
}

#[tokio::test]
async fn silent_peers_of_the_local_socket_do_not_lock_out_others() {
    let (_server, files) = serve("[limits]\nconnections = 20\n[transports]\nunix_path = \"DIR/a.sock\"\n");
    let path = files.path().join("a.sock");
    let mut open = Vec::new();
    for _ in 0..200 {
        open.push(soon("a connection", UnixStream::connect(&path)).await.unwrap());
    }
    let mut stream = soon("a connection", UnixStream::connect(&path)).await.unwrap();
    stream.write_all(format!("{}\n", request()).as_bytes()).await.unwrap();
    let mut answer = [0; 1024];
    let read = soon("an answer", stream.read(&mut answer)).await.unwrap();
    let answer = String::from_utf8_lossy(&answer[..read]);
    assert!(answer.contains("subscription.accepted"), "{answer}");
}

/// Silent connections of every kind are closed after `request_seconds`, even while there are free places.
#[tokio::test]
async fn connections_without_a_request_are_closed() {
    let (server, files) =
        serve("[limits]\nrequest_seconds = 1\nidle_seconds = 1\n[transports]\nunix_path = \"DIR/a.sock\"\n");
    let mut local = UnixStream::connect(files.path().join("a.sock")).await.unwrap();
    for start in [&b""[..], b"PRI * HTT", b"GET / HTTP/1.1\r\nhost", HTTP2_START] {
        let mut stream = TcpStream::connect(server.address()).await.unwrap();
        stream.write_all(start).await.unwrap();
        let mut ignored = Vec::new();
        // A reset counts as closed.
        let _ = soon("the end of a silent connection", stream.read_to_end(&mut ignored)).await;
    }
    let mut ignored = Vec::new();
    let _ = soon("the end of a silent socket", local.read_to_end(&mut ignored)).await;
}

/// Without credentials, agents and subscribers are one principal. Neither a fast agent nor replies with unknown tokens
/// prevent a reply to an open question from being accepted.
#[tokio::test]
async fn reply_to_an_open_question_is_never_rate_limited() {
    let (server, _files) = serve("[limits]\nrequests_per_second = 5\n[transports]\nunix = false\n");
    let address = server.address();
    let mut subscriber = TestSubscriber::subscribe(address).await.unwrap();
    let question = json!({"type": "awaiting.confirmation", "event_id": "q", "action": "Delete 12 letters.",
        "consequence": "They cannot be brought back.", "timeout_seconds": 600});
    let asking = tokio::spawn(async move { post(address, "/aaep/v1/agent/events?wait=300", &question).await });
    let token = loop {
        let event = subscriber.next().await.unwrap();
        if let Some(token) = event["reply_token"].as_str() {
            break token.to_owned();
        }
    };
    let refused = async |path: &str, body: &Value| {
        let mut answer = String::new();
        until("too many requests are refused", async || {
            answer = post(address, path, body).await;
            answer.starts_with("HTTP/1.1 429")
        })
        .await;
        assert!(answer.contains("retry-after: 1"), "{answer}");
    };
    refused("/aaep/v1/agent/events", &json!({"type": "progress.updated"})).await;
    let junk = reply(&subscriber.subscription, &token.replace(|c: char| c.is_ascii_digit(), "x"));
    let answer = post(address, "/aaep/v1/replies", &junk).await;
    assert!(answer.starts_with("HTTP/1.1 204"), "replies have a separate budget: {answer}");
    refused("/aaep/v1/replies", &junk).await;
    // Above its rate a subscriber over WebSocket is slowed down, not closed, and its reply is not delayed.
    for _ in 0..12 {
        subscriber.socket.send(Message::text(junk.to_string())).await.unwrap();
    }
    refused("/aaep/v1/replies", &junk).await;
    let answer = post(address, "/aaep/v1/replies", &reply(&subscriber.subscription, &token)).await;
    assert!(answer.starts_with("HTTP/1.1 204"), "{answer}");
    let outcome = soon("an outcome", asking).await.unwrap();
    assert!(outcome.contains("accept") && outcome.contains("\"accepted\""), "{outcome}");
    subscriber.wait_for_text("\"outcome\":\"accepted\"").await;
}

#[tokio::test]
async fn ping_flood_is_slowed_down_and_then_closed() {
    let (server, _files) = serve("[transports]\nunix = false\n");
    let address = server.address();
    let mut other = TestSubscriber::subscribe(address).await.unwrap();
    let (mut sink, mut source) = TestSubscriber::subscribe(address).await.unwrap().socket.split();
    let start = Instant::now();
    let flood = tokio::spawn(async move {
        let mut pings = 0_u64;
        while sink.send(Message::Ping("there?".into())).await.is_ok() {
            pings += 1;
        }
        pings
    });
    let mut pongs = 0_u64;
    let code: u16 = soon("the end of a flood", async {
        loop {
            match source.next().await {
                Some(Ok(Message::Pong(_))) => pongs += 1,
                Some(Ok(Message::Close(frame))) => break frame.map_or(0, |frame| frame.code.into()),
                Some(Ok(_)) => {}
                Some(Err(_)) | None => break 1006,
            }
        }
    })
    .await;
    let seconds = start.elapsed().as_secs();
    flood.abort();
    assert_eq!(code, 4004);
    // A burst of a hundred, then fifty per second; a second more for rounding.
    assert!(pongs <= 100 + 50 * (seconds + 2), "{pongs} pongs in {seconds} s");
    say(address, "Nobody else is closed.").await;
    other.wait_for_text("Nobody else is closed.").await;
}

#[tokio::test]
async fn request_for_two_hosts_is_refused() {
    let (server, _files) = serve("[transports]\nunix = false\n");
    for head in [
        "GET /healthz HTTP/1.1\r\nhost: localhost\r\nhost: localhost",
        "GET /healthz HTTP/1.1\r\nhost: localhost\r\nhost: evil.example",
        "GET /healthz HTTP/1.1\r\nhost: evil.example\r\nhost: localhost",
        "GET http://localhost/healthz HTTP/1.1\r\nhost: evil.example",
        "GET http://evil.example/healthz HTTP/1.1\r\nhost: localhost",
    ] {
        let mut stream = TcpStream::connect(server.address()).await.unwrap();
        stream.write_all(format!("{head}\r\nconnection: close\r\n\r\n").as_bytes()).await.unwrap();
        let mut answer = String::new();
        soon("an answer", stream.read_to_string(&mut answer)).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 400"), "{head}: {answer}");
    }
}
