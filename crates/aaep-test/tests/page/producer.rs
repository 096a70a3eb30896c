//! A producer whose every byte the test decides, with the page as it is in the repository. What a real one would never send
//! must not harm the page either.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use futures_util::StreamExt;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::broadcast;

/// A server with the page and one subscription.
#[derive(Clone)]
pub(crate) struct FakeProducer {
    address: SocketAddr,
    state: Arc<Served>,
}

struct Served {
    events: broadcast::Sender<String>,
    /// What was sent before the stream was opened.
    waiting: Mutex<Vec<String>>,
    /// The messages of the page.
    posted: Mutex<Vec<Value>>,
    /// The headers of the real page.
    policy: String,
}

impl FakeProducer {
    pub(crate) async fn start() -> FakeProducer {
        let policy = policy_of_the_page();
        let (events, _) = broadcast::channel(32 * 1024);
        let state = Arc::new(Served { events, waiting: Mutex::default(), posted: Mutex::default(), policy });
        let router = Router::new()
            .route("/", get(async |state| file(state, Path("index.html".to_owned())).await))
            .route("/page/{*path}", get(file))
            .route("/aaep/v1/subscriptions", post(subscribe))
            .route("/aaep/v1/events", get(stream))
            .route("/aaep/v1/replies", post(reply))
            .with_state(state.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, router).await });
        FakeProducer { address, state }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// Sends an event with these fields. Missing fields of the envelope are added.
    pub(crate) fn send(&self, kind: &str, fields: Value) {
        self.send_raw(&event(kind, fields).to_string());
    }

    /// Sends a line of data as an event.
    pub(crate) fn send_raw(&self, data: &str) {
        let text = format!("event: aaep.event\ndata: {}\n\n", data.replace('\n', " "));
        let mut waiting = self.state.waiting.lock().unwrap();
        if self.state.events.send(text.clone()).is_err() {
            waiting.push(text);
        }
    }

    /// The messages that the page has posted.
    pub(crate) fn posted(&self) -> Vec<Value> {
        self.state.posted.lock().unwrap().clone()
    }
}

/// Returns an event with these fields.
pub(crate) fn event(kind: &str, fields: Value) -> Value {
    static COUNT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let id = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let mut event = json!({"@context": "https://aaep-protocol.org/context/v1", "type": format!("aaep:agent.{kind}"),
        "event_id": format!("evt_{id:08}"), "session_id": "sess_1", "timestamp": aaep_test::now(),
        "producer": {"agent_id": "helper", "agent_name": "Helper"}, "urgency": "normal",
        "localization_hints": {"primary_language": "en"}});
    event.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    event
}

/// Returns the policy that the real server sends, from its source: the same one holds here.
fn policy_of_the_page() -> String {
    let source = std::fs::read_to_string(aaep_test::root().join("crates/aaep-server/src/page/mod.rs")).unwrap();
    let text = source.split("CONTENT_SECURITY_POLICY: &str = \"").nth(1).unwrap().split("\";").next().unwrap();
    text.replace("\\\n", "")
}

async fn file(State(served): State<Arc<Served>>, Path(path): Path<String>) -> Response {
    let kind = match path.rsplit('.').next() {
        Some("js") => "text/javascript",
        Some("css") => "text/css",
        Some("svg") => "image/svg+xml",
        Some("json") => "application/json",
        _ => "text/html; charset=utf-8",
    };
    let body = match path.as_str() {
        "settings.json" => json!({"needs_token": false, "has_scenes": false}).to_string().into_bytes(),
        "schemas.json" => {
            let events = aaep_proto::schema::all().into_iter().filter(|file| file.path.starts_with("core/"));
            let all: serde_json::Map<String, Value> =
                events.map(|file| (format!("aaep:{}", file.name), file.schema())).collect();
            Value::from(all).to_string().into_bytes()
        }
        _ => match std::fs::read(aaep_test::root().join("crates/aaep-server/page").join(&path)) {
            Ok(bytes) => bytes,
            Err(_) => return StatusCode::NOT_FOUND.into_response(),
        },
    };
    let headers = [
        (header::CONTENT_TYPE, kind.to_owned()),
        (header::CONTENT_SECURITY_POLICY, served.policy.clone()),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
    ];
    (headers, body).into_response()
}

async fn subscribe(body: String) -> Response {
    let request: Value = serde_json::from_str(&body).unwrap();
    let accepted = json!({"type": "subscription.accepted", "subscription_id": "sub_1", "aaep_version": "1.0.0",
        "producer": {"agent_id": "helper", "agent_name": "Helper"}, "honored_capabilities": request["capabilities"]});
    let headers =
        [(header::CONTENT_TYPE, "application/json"), (header::LOCATION, "/aaep/v1/events?subscription_id=sub_1")];
    (StatusCode::CREATED, headers, accepted.to_string()).into_response()
}

async fn stream(State(served): State<Arc<Served>>) -> Response {
    let (receiver, waiting) = {
        let mut waiting = served.waiting.lock().unwrap();
        (served.events.subscribe(), std::mem::take(&mut *waiting))
    };
    let first = std::iter::once("retry: 200\n\n".to_owned()).chain(waiting);
    let more =
        futures_util::stream::unfold(receiver, async |mut receiver| Some((receiver.recv().await.ok()?, receiver)));
    let bytes = futures_util::stream::iter(first).chain(more).map(|text| Ok::<_, std::io::Error>(Bytes::from(text)));
    ([(header::CONTENT_TYPE, "text/event-stream")], Body::from_stream(bytes)).into_response()
}

async fn reply(State(served): State<Arc<Served>>, body: String) -> Response {
    let message: Value = serde_json::from_str(&body).unwrap();
    let answer = (message["type"] == "subscription.renegotiate").then(|| {
        json!({"type": "subscription.accepted", "subscription_id": "sub_1", "aaep_version": "1.0.0",
            "producer": {"agent_id": "helper", "agent_name": "Helper"}, "honored_capabilities": message["capabilities"]})
    });
    served.posted.lock().unwrap().push(message);
    match answer {
        Some(answer) => ([(header::CONTENT_TYPE, "application/json")], answer.to_string()).into_response(),
        None => StatusCode::NO_CONTENT.into_response(),
    }
}
