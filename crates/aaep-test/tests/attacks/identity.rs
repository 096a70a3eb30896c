//! Expired, revoked and confused credentials.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aaep_keys::{Algorithm, KeySet, NamedUsers, NewToken, Role, SigningKey};
use aaep_proto::time::Timestamp;
use aaep_test::{Serving, aaep, soon, until};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

const ADA: &str = "ada-secret-ada-secret-ada-secret";
const EVE: &str = "eve-secret-eve-secret-eve-secret";
const LINES: &str = "ada-secret-ada-secret-ada-secret ada subscribe,reply,produce\n\
                     eve-secret-eve-secret-eve-secret eve subscribe,reply,produce\n";

/// Lifetime of a short-lived token.
const SHORT_SECONDS: u32 = 4;

struct TestServer {
    server: Serving,
    key: SigningKey,
    files: tempfile::TempDir,
}

fn write(path: &Path, text: &str) {
    // Written to another file and renamed, as editors and deployment tools do.
    let beside = path.with_extension("new");
    fs::write(&beside, text).unwrap();
    fs::set_permissions(&beside, fs::Permissions::from_mode(0o600)).unwrap();
    fs::rename(&beside, path).unwrap();
}

impl TestServer {
    fn new() -> TestServer {
        let files = tempfile::tempdir().unwrap();
        let (tokens, keys) = (files.path().join("tokens"), files.path().join("keys.json"));
        let key = SigningKey::generate(Algorithm::EdDsa).unwrap();
        write(&tokens, LINES);
        write(&keys, &KeySet::from_iter([key.public().clone()]).to_jwks());
        let (tokens, keys) = (tokens.to_str().unwrap(), keys.to_str().unwrap());
        let server = Serving::start(&["serve", "--no-unix", "--tokens", tokens, "--jwks", keys]);
        TestServer { server, key, files }
    }

    fn tokens(&self) -> PathBuf {
        self.files.path().join("tokens")
    }

    fn token(&self, subject: &str, lifetime_seconds: u32) -> String {
        let token = NewToken {
            subject: subject.into(),
            issuer: "aaep".into(),
            audience: "aaep".into(),
            roles: [Role::Subscribe, Role::Reply, Role::Produce].into(),
            users: NamedUsers::Nobody,
            issued_at: Timestamp::from_millis(millis()),
            lifetime_seconds,
        };
        token.sign(&self.key).unwrap()
    }

    async fn connect(&self, path: &str, token: &str) -> Socket {
        let url = self.server.url(&format!("{path}?access_token={token}")).replacen("http", "ws", 1);
        soon("a connection", tokio_tungstenite::connect_async(url)).await.unwrap().0
    }

    /// Opens a WebSocket and subscribes.
    async fn subscribed(&self, token: &str) -> Socket {
        let mut socket = self.connect("/aaep/v1/ws", token).await;
        socket.send(Message::text(request().to_string())).await.unwrap();
        let Message::Text(accepted) = soon("an answer", socket.next()).await.unwrap().unwrap() else { panic!() };
        assert!(accepted.contains("subscription.accepted"), "{accepted}");
        socket
    }

    /// Sends a request. Returns the status and the body of the response.
    async fn post(&self, path: &str, token: &str, body: &Value) -> (u16, Value) {
        let body = body.to_string();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\nconnection: close\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        let answer = self.answer(&format!("{head}{body}")).await;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), serde_json::from_str(body).unwrap_or_default())
    }

    /// Sends a request. Returns everything that the server sends until it closes the connection.
    async fn answer(&self, request: &str) -> String {
        soon("the end of an answer", async {
            let mut stream = TcpStream::connect(self.server.address()).await.unwrap();
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).await.unwrap();
            String::from_utf8(answer).unwrap()
        })
        .await
    }

    /// Reads an event stream to its end.
    async fn stream(&self, subscription: &str, token: &str, last: Option<&str>) -> String {
        let last = last.map(|id| format!("last-event-id: {id}\r\n")).unwrap_or_default();
        let path = format!("/aaep/v1/events?subscription_id={subscription}");
        let head = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n{last}\r\n");
        self.answer(&head).await
    }
}

fn millis() -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

fn request() -> Value {
    json!({"type": "subscription.request", "aaep_version": "1.0.0", "subscriber_id": "ear",
        "capabilities": {"supports_confirmation_reply": true}})
}

/// Reads until the connection is closed. Returns the close code and the reason.
async fn end(mut socket: Socket) -> (u16, String) {
    soon("the end of a connection", async {
        loop {
            match socket.next().await {
                Some(Ok(Message::Close(Some(frame)))) => return (frame.code.into(), frame.reason.to_string()),
                Some(Ok(_)) => {}
                other => panic!("closed without a close frame: {other:?}"),
            }
        }
    })
    .await
}

/// Returns whether the peer responds to a ping.
async fn is_open(socket: &mut Socket) -> bool {
    socket.send(Message::Ping("there?".into())).await.is_ok()
        && soon("a pong", async {
            loop {
                match socket.next().await {
                    Some(Ok(Message::Pong(_))) => return true,
                    Some(Ok(Message::Close(_)) | Err(_)) | None => return false,
                    Some(Ok(_)) => {}
                }
            }
        })
        .await
}

fn assert_lapsed((code, reason): (u16, String)) {
    assert!(code == 4002 && reason.starts_with("authentication_required"), "{code} {reason}");
}

#[tokio::test]
async fn websockets_close_when_their_token_expires() {
    let test = TestServer::new();
    let (before, token) = (millis(), test.token("jane", SHORT_SECONDS));
    let subscriber = test.subscribed(&token).await;
    let agent = test.connect("/aaep/v1/agent/ws", &token).await;
    let mut lasting = test.subscribed(&test.token("jane", 3600)).await;
    let (subscriber, agent) = tokio::join!(end(subscriber), end(agent));
    assert_lapsed(subscriber);
    assert_lapsed(agent);
    // The expiry is in whole seconds.
    assert!(millis() - before >= i64::from(SHORT_SECONDS - 1) * 1000, "it was closed before it expired");
    assert!(is_open(&mut lasting).await);
}

#[tokio::test]
async fn event_stream_ends_when_its_token_expires_and_resumes_with_a_new_one() {
    let test = TestServer::new();
    let token = test.token("jane", SHORT_SECONDS);
    let (status, accepted) = test.post("/aaep/v1/subscriptions", &token, &request()).await;
    assert_eq!(status, 201, "{accepted}");
    let id = accepted["subscription_id"].as_str().unwrap();
    let said = |name: &str, text: &str| json!({"type": "session.started", "session_id": name, "summary_normal": text});
    let agent = test.token("jane", 3600);
    let (first, status) = tokio::join!(test.stream(id, &token, None), async {
        test.post("/aaep/v1/agent/events", &agent, &said("a", "Before the expiry.")).await.0
    });
    assert_eq!(status, 200);
    assert!(first.contains("Before the expiry."), "{first}");
    let last_message = first.rsplit("data: ").next().unwrap();
    assert!(last_message.contains("subscription.close") && last_message.contains("authentication_required"), "{first}");
    let last = first.lines().rev().find_map(|line| line.strip_prefix("id: ")).unwrap();
    assert_eq!(test.post("/aaep/v1/agent/events", &agent, &said("b", "In between.")).await.0, 200);
    // Only the same principal can resume it.
    assert!(test.stream(id, EVE, Some(last)).await.starts_with("HTTP/1.1 404"));
    let second = test.stream(id, &test.token("jane", SHORT_SECONDS), Some(last)).await;
    assert!(second.contains("In between.") && !second.contains("Before the expiry."), "{second}");
}

#[tokio::test]
async fn removed_token_loses_its_connections() {
    let test = TestServer::new();
    let (ada, agent) = (test.subscribed(ADA).await, test.connect("/aaep/v1/agent/ws", ADA).await);
    let mut eve = test.subscribed(EVE).await;
    let (_, accepted) = test.post("/aaep/v1/subscriptions", ADA, &request()).await;
    let id = accepted["subscription_id"].as_str().unwrap().to_owned();
    let revoke = async {
        tokio::time::sleep(Duration::from_millis(10)).await;
        write(&test.tokens(), LINES.split_once('\n').unwrap().1);
    };
    let (ada, agent, stream, ()) = tokio::join!(end(ada), end(agent), test.stream(&id, ADA, None), revoke);
    assert_lapsed(ada);
    assert_lapsed(agent);
    assert!(stream.contains("authentication_required"), "{stream}");
    assert_eq!(test.post("/aaep/v1/subscriptions", ADA, &request()).await.0, 401);
    assert!(is_open(&mut eve).await, "other connections stay open");
    assert_eq!(test.post("/aaep/v1/subscriptions", EVE, &request()).await.0, 201);
}

#[tokio::test]
async fn removed_role_ends_its_connections() {
    let test = TestServer::new();
    let ada = test.subscribed(ADA).await;
    write(&test.tokens(), &LINES.replace("ada subscribe,reply,produce", "ada subscribe"));
    assert_lapsed(end(ada).await);
    assert_eq!(test.post("/aaep/v1/agent/events", ADA, &json!({"type": "session.started"})).await.0, 403);
}

#[tokio::test]
async fn removed_key_ends_the_connections_of_its_tokens() {
    let test = TestServer::new();
    let jane = test.subscribed(&test.token("jane", 3600)).await;
    let other = SigningKey::generate(Algorithm::EdDsa).unwrap();
    write(&test.files.path().join("keys.json"), &KeySet::from_iter([other.public().clone()]).to_jwks());
    assert_lapsed(end(jane).await);
    assert_eq!(test.post("/aaep/v1/subscriptions", &test.token("jane", 3600), &request()).await.0, 401);
}

#[tokio::test]
async fn invalid_file_keeps_the_last_valid_one_in_use() {
    let mut test = TestServer::new();
    let mut ada = test.subscribed(ADA).await;
    write(&test.tokens(), "half a li");
    until("an error in the log", async || test.server.process.errors().contains("keeping the previous contents")).await;
    let log = test.server.process.errors();
    assert!(log.contains("ERROR") && log.contains("auth.tokens") && !log.contains(ADA), "{log}");
    assert!(is_open(&mut ada).await);
    assert_eq!(test.post("/aaep/v1/subscriptions", ADA, &request()).await.0, 201);
    write(&test.tokens(), LINES.split_once('\n').unwrap().1);
    assert_lapsed(end(ada).await);
}

#[tokio::test]
async fn token_cannot_name_the_local_user_or_a_certificate() {
    let test = TestServer::new();
    for name in ["local", "Local", "cert:00ff"] {
        let token = test.token(name, 3600);
        assert_eq!(test.post("/aaep/v1/subscriptions", &token, &request()).await.0, 401, "{name}");
        let path = test.files.path().join("other");
        write(&path, &LINES.replace(" ada ", &format!(" {name} ")));
        let started = Command::new(aaep())
            .args(["serve", "--no-unix", "--listen", "127.0.0.1:0", "--tokens", path.to_str().unwrap()])
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&started.stderr);
        assert!(started.status.code() == Some(2) && told.contains("line 1") && told.contains("reserved"), "{told}");
    }
}
