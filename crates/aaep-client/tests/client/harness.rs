//! Producers that tests control, and functions that wait for events of a subscriber.

use std::convert::Infallible;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aaep_client::{ConnectOptions, Notice, NoticeKind, Prompt, PromptEnd, PromptId, Subscriber, SubscriberEvent};
use aaep_proto::message::Capabilities;
use aaep_proto::time::Timestamp;
use bytes::Bytes;
use futures_util::stream;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

/// Deadline of every wait. Long enough for a busy machine; passing tests do not reach it.
const PATIENCE: Duration = Duration::from_secs(60);

pub async fn in_time<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(value) => value,
        Err(_) => panic!("waited too long for {what}"),
    }
}

pub fn replying() -> Value {
    json!({"supports_confirmation_reply": true, "supports_clarification_reply": true})
}

pub fn capabilities(value: Value) -> Capabilities {
    serde_json::from_value(value).unwrap()
}

pub fn options() -> ConnectOptions {
    ConnectOptions::new("reader", capabilities(replying()))
}

pub fn accepted(id: &str) -> Value {
    json!({"type": "subscription.accepted", "subscription_id": id, "aaep_version": "1.0.0",
        "producer": {"agent_id": "tester"}, "honored_capabilities": replying()})
}

pub fn manifest(transports: &[&str]) -> Value {
    json!({"@context": "https://aaep-protocol.org/context/v1", "type": "aaep:producer.manifest", "agent_id": "tester",
        "aaep_versions_supported": ["1.0.0"], "conformance_levels_supported": [1, 2, 3],
        "transports_supported": transports})
}

pub fn now() -> String {
    let since = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
    Timestamp::from_millis(since.as_millis() as i64).to_string()
}

pub fn event(id: &str, kind: &str, fields: Value) -> Value {
    let mut event = json!({"@context": "https://aaep-protocol.org/context/v1", "type": format!("aaep:agent.{kind}"),
        "event_id": id, "session_id": "sess_1", "timestamp": now(), "producer": {"agent_id": "tester"},
        "localization_hints": {"primary_language": "en"}});
    for (name, value) in fields.as_object().unwrap() {
        event[name] = value.clone();
    }
    event
}

pub fn started(id: &str) -> Value {
    event(id, "session.started", json!({"summary_normal": "Working."}))
}

pub fn question(id: &str, token: &str) -> Value {
    event(
        id,
        "awaiting.confirmation",
        json!({"urgency": "critical", "action": "Delete all.", "consequence": "They are gone.", "reply_token": token,
            "timeout_seconds": 3600, "default_decision": "reject"}),
    )
}

/// A subscriber, with the events that were skipped while waiting.
pub trait ReceiveExt {
    fn receive(&mut self) -> impl Future<Output = SubscriberEvent>;

    fn wait_for<T>(&mut self, what: &str, pick: impl FnMut(SubscriberEvent) -> Option<T>) -> impl Future<Output = T>;
}

impl ReceiveExt for Subscriber {
    async fn receive(&mut self) -> SubscriberEvent {
        in_time("anything", self.recv()).await.expect("it is over")
    }

    async fn wait_for<T>(&mut self, what: &str, mut pick: impl FnMut(SubscriberEvent) -> Option<T>) -> T {
        let mut passed = Vec::new();
        let waiting = async {
            loop {
                let received = self.recv().await.unwrap_or_else(|| panic!("it is over before {what}"));
                let told = format!("{received:?}");
                if let Some(found) = pick(received) {
                    return found;
                }
                passed.push(told);
            }
        };
        let result = tokio::time::timeout(PATIENCE, waiting).await;
        result.unwrap_or_else(|_| panic!("waited too long for {what}; received {passed:#?}"))
    }
}

pub fn event_id(received: SubscriberEvent) -> Option<String> {
    if let SubscriberEvent::Event(event) = received { Some(event.envelope.event_id.to_string()) } else { None }
}

pub fn prompt(received: SubscriberEvent) -> Option<Prompt> {
    if let SubscriberEvent::PromptOpened(prompt, _) = received { Some(*prompt) } else { None }
}

pub fn prompt_end(received: SubscriberEvent) -> Option<(PromptId, PromptEnd)> {
    if let SubscriberEvent::PromptEnded(id, end) = received { Some((id, end)) } else { None }
}

pub fn notice(kind: NoticeKind) -> impl FnMut(SubscriberEvent) -> Option<Notice> {
    move |received| {
        if let SubscriberEvent::Notice(notice) = received { Some(notice).filter(|n| n.kind() == kind) } else { None }
    }
}

pub fn end(received: SubscriberEvent) -> Option<aaep_client::EndReason> {
    if let SubscriberEvent::Ended(ended) = received { Some(ended) } else { None }
}

pub fn live(received: SubscriberEvent) -> Option<()> {
    matches!(received, SubscriberEvent::Accepted(_)).then_some(())
}

/// A request that an HTTP producer received.
pub struct ReceivedRequest {
    pub method: Method,
    pub path: String,
    pub headers: hyper::HeaderMap,
    pub body: Value,
    answer: mpsc::Sender<Answer>,
}

pub struct Answer {
    status: u16,
    kind: &'static str,
    body: BoxBody<Bytes, Infallible>,
    location: Option<String>,
}

impl ReceivedRequest {
    /// Responds with JSON.
    pub fn json(self, status: u16, body: &Value) {
        self.text(status, "application/json", body.to_string());
    }

    pub fn text(self, status: u16, kind: &'static str, body: String) {
        let body = Full::new(Bytes::from(body)).boxed();
        self.answer.try_send(Answer { status, kind, body, location: None }).ok();
    }

    pub fn empty(self, status: u16) {
        self.text(status, "text/plain", String::new());
    }

    /// Accepts a subscription.
    pub fn grant(self, body: &Value) {
        let id = body["subscription_id"].as_str().unwrap();
        self.grant_at(body, &format!("/aaep/v1/events?subscription_id={id}"));
    }

    pub fn grant_at(self, body: &Value, location: &str) {
        let location = Some(location.to_owned());
        let body = Full::new(Bytes::from(body.to_string())).boxed();
        self.answer.try_send(Answer { status: 201, kind: "application/json", body, location }).ok();
    }

    /// Responds with a stream that stays open until the test drops its sender.
    pub fn stream(self) -> Stream {
        let (sender, receiver) = mpsc::unbounded_channel::<Bytes>();
        let frames = stream::unfold(receiver, |mut receiver| async {
            receiver.recv().await.map(|bytes| (Ok(Frame::data(bytes)), receiver))
        });
        let body = BodyExt::boxed(StreamBody::new(SyncStream(Mutex::new(Box::pin(frames)))));
        self.answer.try_send(Answer { status: 200, kind: "text/event-stream", body, location: None }).ok();
        Stream(sender)
    }
}

type Frames = std::pin::Pin<Box<dyn futures_util::Stream<Item = Result<Frame<Bytes>, Infallible>> + Send>>;

struct SyncStream(Mutex<Frames>);

impl futures_util::Stream for SyncStream {
    type Item = Result<Frame<Bytes>, Infallible>;

    fn poll_next(
        self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        self.get_mut().0.get_mut().unwrap().as_mut().poll_next(cx)
    }
}

/// The producer's end of a stream of events.
pub struct Stream(mpsc::UnboundedSender<Bytes>);

impl Stream {
    pub fn send(&self, event: &Value) {
        let id = event["event_id"].as_str().unwrap_or("none");
        self.raw(format!("event: aaep.event\nid: {id}\ndata: {event}\n\n"));
    }

    pub fn raw(&self, text: impl Into<Bytes>) {
        self.0.send(text.into()).ok();
    }
}

/// An HTTP producer that the test controls: every request is passed to the test and waits for its response.
pub struct FakeHttp {
    pub port: u16,
    seen: mpsc::UnboundedReceiver<ReceivedRequest>,
    /// Fixed responses, by path.
    fixed: Fixed,
    _accepting: tokio::task::JoinSet<()>,
}

type Fixed = Arc<Mutex<Vec<(String, u16, String)>>>;

impl FakeHttp {
    pub async fn new() -> FakeHttp {
        FakeHttp::with(|stream| async { Some(stream) }).await
    }

    /// Starts a producer with a layer between TCP and HTTP.
    pub async fn with<S, F>(wrap: impl Fn(tokio::net::TcpStream) -> F + Send + Sync + 'static) -> FakeHttp
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
        F: Future<Output = Option<S>> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (sender, seen) = mpsc::unbounded_channel();
        let fixed = Fixed::default();
        let mut accepting = tokio::task::JoinSet::new();
        let known = fixed.clone();
        accepting.spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            loop {
                let Ok((tcp, _)) = listener.accept().await else { return };
                let wrapping = wrap(tcp);
                let (sender, known) = (sender.clone(), known.clone());
                connections.spawn(async move {
                    let Some(stream) = wrapping.await else { return };
                    let service = service_fn(move |request| serve(request, sender.clone(), known.clone()));
                    let _ = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        FakeHttp { port, seen, fixed, _accepting: accepting }
    }

    /// Sets a fixed response for this path.
    pub fn fix(&self, path: &str, status: u16, body: impl ToString) {
        self.fixed.lock().unwrap().push((path.to_owned(), status, body.to_string()));
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Returns the next request.
    pub async fn next(&mut self) -> ReceivedRequest {
        in_time("a request", self.seen.recv()).await.unwrap()
    }

    /// Returns the next request, which must be for this path.
    pub async fn expect(&mut self, method: Method, path: &str) -> ReceivedRequest {
        let seen = self.next().await;
        assert_eq!((&seen.method, seen.path.as_str()), (&method, path));
        seen
    }

    /// Accepts a subscription and opens its stream.
    pub async fn serve(&mut self, id: &str) -> Stream {
        self.expect(Method::POST, "/aaep/v1/subscriptions").await.grant(&accepted(id));
        self.expect(Method::GET, &format!("/aaep/v1/events?subscription_id={id}")).await.stream()
    }
}

async fn serve(
    request: Request<Incoming>,
    sender: mpsc::UnboundedSender<ReceivedRequest>,
    fixed: Fixed,
) -> Result<Response<BoxBody<Bytes, Infallible>>, hyper::Error> {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path_and_query().map(|p| p.as_str().to_owned()).unwrap_or_default();
    let known = fixed.lock().unwrap().iter().rfind(|(p, ..)| *p == path).cloned();
    if let Some((_, status, body)) = known {
        let body = Full::new(Bytes::from(body)).boxed();
        return Ok(Response::builder().status(status).body(body).unwrap());
    }
    let body = body.collect().await?.to_bytes();
    let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
    let (answer, mut answers) = mpsc::channel(1);
    sender.send(ReceivedRequest { method: parts.method, path, headers: parts.headers, body, answer }).ok();
    let Some(answer) = answers.recv().await else {
        // The test does not respond: the producer hangs.
        return std::future::pending().await;
    };
    let mut response = Response::builder().status(answer.status).header("content-type", answer.kind);
    if let Some(location) = answer.location {
        response = response.header("location", location);
    }
    Ok(response.body(answer.body).unwrap())
}
