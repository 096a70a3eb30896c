//! A server in this process, and small clients that expose the bytes on the wire.

use std::net::SocketAddr;

use aaep::message::Decision;
use aaep::{Confirmation, Producer, Session};
use aaep_server::{Config, RunningServer, Server};
pub(crate) use aaep_test::{PATIENCE, now, soon, until};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use tokio::net::TcpStream;

pub(crate) fn config() -> Config {
    let mut config = Config { listen: "127.0.0.1:0".parse().unwrap(), ..Config::default() };
    config.transports.unix = false;
    config.limits.requests_per_second = 100_000;
    config
}

pub(crate) async fn start(config: Config) -> RunningServer {
    let producer = Server::producer(&config);
    Server::new(config, producer).start().await.unwrap()
}

/// Returns a request for all events.
pub(crate) fn request() -> Value {
    request_with(json!({"supports_confirmation_reply": true, "supports_clarification_reply": true}))
}

pub(crate) fn request_with(capabilities: Value) -> Value {
    json!({"type": "subscription.request", "aaep_version": "1.0.0", "subscriber_id": "test", "capabilities": capabilities})
}

/// Returns a reply with the current timestamp.
pub(crate) fn reply(subscription: &str, token: &str, decision: &str) -> Value {
    json!({"type": "confirmation.reply", "reply_token": token, "decision": decision,
        "subscription_id": subscription, "timestamp": now()})
}

/// A complete response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e} in {self:?}"))
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
    }
}

/// Sends a request over a new connection. Returns the response before its body is read.
pub(crate) async fn open(address: SocketAddr, request: Request<Full<Bytes>>) -> Response<Incoming> {
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection.with_upgrades());
    soon("an answer", sender.send_request(request)).await.unwrap()
}

pub(crate) async fn call(address: SocketAddr, request: Request<Full<Bytes>>) -> Answer {
    let response = open(address, request).await;
    let (status, headers) = (response.status(), response.headers().clone());
    let body = soon("a body", response.into_body().collect()).await.unwrap().to_bytes();
    Answer { status, headers, body }
}

/// Connects with HTTP/2 without TLS.
pub(crate) async fn call_http2(address: SocketAddr, request: Request<Full<Bytes>>) -> Answer {
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let response = soon("an answer", sender.send_request(request)).await.unwrap();
    let (status, headers) = (response.status(), response.headers().clone());
    let body = soon("a body", response.into_body().collect()).await.unwrap().to_bytes();
    Answer { status, headers, body }
}

/// Builds a request with these headers and an allowed host.
pub(crate) fn build(
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
    body: impl Into<Bytes>,
) -> Request<Full<Bytes>> {
    let mut request = Request::builder().method(method).uri(path);
    if !headers.iter().any(|(name, _)| *name == "host") {
        request = request.header("host", "localhost");
    }
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(Full::new(body.into())).unwrap()
}

pub(crate) async fn get(address: SocketAddr, path: &str) -> Answer {
    call(address, build(Method::GET, path, &[], "")).await
}

pub(crate) async fn post(address: SocketAddr, path: &str, message: &Value) -> Answer {
    post_as(address, path, message, None).await
}

pub(crate) async fn post_as(address: SocketAddr, path: &str, message: &Value, token: Option<&str>) -> Answer {
    let bearer = format!("Bearer {}", token.unwrap_or_default());
    let mut headers = vec![("content-type", "application/json")];
    if token.is_some() {
        headers.push(("authorization", &bearer));
    }
    call(address, build(Method::POST, path, &headers, message.to_string())).await
}

/// Subscribes over HTTP. Returns the subscription id.
pub(crate) async fn subscribe(address: SocketAddr, request: &Value, token: Option<&str>) -> String {
    let answer = post_as(address, "/aaep/v1/subscriptions", request, token).await;
    assert_eq!(answer.status, StatusCode::CREATED, "{answer:?}");
    answer.json()["subscription_id"].as_str().unwrap().to_owned()
}

/// One event of a stream.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sse {
    pub(crate) name: String,
    pub(crate) id: String,
    pub(crate) data: Value,
}

/// An open event stream.
pub(crate) struct Stream {
    body: Incoming,
    rest: Vec<u8>,
    /// Lines that are not events.
    pub(crate) other: Vec<String>,
}

impl Stream {
    pub(crate) async fn open(address: SocketAddr, subscription: &str, headers: &[(&str, &str)]) -> Stream {
        let path = format!("/aaep/v1/events?subscription_id={subscription}");
        let response = open(address, build(Method::GET, &path, headers, "")).await;
        assert_eq!(response.status(), StatusCode::OK);
        Stream::from(response)
    }

    /// Returns the next event, or `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<Sse> {
        soon("an event", async {
            loop {
                if let Some(event) = self.take() {
                    return Some(event);
                }
                if !self.fill().await {
                    return None;
                }
            }
        })
        .await
    }

    /// Waits for a line that is not an event.
    pub(crate) async fn comment(&mut self, line: &str) {
        soon(line, async {
            while !self.other.iter().any(|other| other == line) {
                assert!(self.take().is_some() || self.fill().await, "the stream ended before {line}");
            }
        })
        .await;
    }

    async fn fill(&mut self) -> bool {
        match self.body.frame().await {
            Some(Ok(frame)) => self.rest.extend_from_slice(&frame.into_data().unwrap_or_default()),
            Some(Err(_)) | None => return false,
        }
        true
    }

    fn take(&mut self) -> Option<Sse> {
        while let Some(end) = self.rest.windows(2).position(|pair| pair == b"\n\n") {
            let block: Vec<u8> = self.rest.drain(..end + 2).collect();
            let block = String::from_utf8(block).unwrap();
            let field = |name: &str| block.lines().find_map(|l| Some(l.strip_prefix(name)?.to_owned()));
            match field("data: ") {
                Some(data) => {
                    let data = serde_json::from_str(&data).unwrap();
                    let name = field("event: ").unwrap_or_default();
                    return Some(Sse { name, id: field("id: ").unwrap_or_default(), data });
                }
                None => self.other.push(block.trim().to_owned()),
            }
        }
        None
    }

    /// Receives until an event of this type.
    pub(crate) async fn find(&mut self, kind: &str) -> Value {
        loop {
            let event = self.next().await.unwrap_or_else(|| panic!("the stream ended before {kind}"));
            if kind_of(&event.data) == kind {
                return event.data;
            }
        }
    }

    /// Receives all events to the end.
    pub(crate) async fn rest(mut self) -> Vec<Sse> {
        let mut all = Vec::new();
        while let Some(event) = self.next().await {
            all.push(event);
        }
        all
    }
}

impl From<Response<Incoming>> for Stream {
    fn from(response: Response<Incoming>) -> Stream {
        Stream { body: response.into_body(), rest: Vec::new(), other: Vec::new() }
    }
}

/// Returns the type without its namespace.
pub(crate) fn kind_of(event: &Value) -> &str {
    event["type"].as_str().unwrap().trim_start_matches("aaep:agent.")
}

/// An agent that asks before it acts, and completes only after it was accepted.
pub(crate) async fn ask(session: &Session) -> bool {
    let question = Confirmation::new("Move 500 dollars.", "Only the bank can bring it back.").timeout_seconds(600);
    session.confirm(question).await.unwrap().decision == Decision::Accept
}

pub(crate) async fn session(producer: &Producer) -> Session {
    producer.session("Working.").await.unwrap()
}
