//! `POST /aaep/v1/agent/events`: one event, or a batch with one event on each line.

use std::sync::Arc;
use std::time::Duration;

use aaep_keys::{Role, UserId};
use axum::Extension;
use axum::body::Body;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::complete::CompleteOnDrop;
use super::pending::ResponseState;
use super::raw_event::{ParsedLine, RawEvent};
use super::registry::{AgentConnection, AgentGuard, AgentRegistry, ConnectionKind, is_valid_name};
use super::urgent::is_urgent_line;
use super::users;
use crate::admission::memory_budget::MemoryReservation;
use crate::admission::quota::QuotaExhausted;
use crate::context::{AppState, stopped};
use crate::http::{HttpProblem, body};
use crate::peer::Peer;

/// Most events of one request.
const MAX_BATCH_LINES: usize = 10_000;

/// How long a request waits for questions to be resolved if the agent does not set it.
const DEFAULT_WAIT: Duration = Duration::from_secs(30);

/// The longest time that a request waits for questions to be resolved.
const MAX_WAIT: Duration = Duration::from_secs(300);

/// Media types of a request.
const MEDIA_TYPES: [&str; 4] = ["application/json", "application/x-ndjson", "application/ndjson", "application/jsonl"];

const UNSUPPORTED_MEDIA_TYPE: HttpProblem =
    HttpProblem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "Send application/json, or application/x-ndjson for several.");
const TOO_MANY_LINES: HttpProblem = HttpProblem::new(StatusCode::PAYLOAD_TOO_LARGE, "The request is too large.");
const INVALID_QUERY: HttpProblem =
    HttpProblem::new(StatusCode::BAD_REQUEST, "Give agent, user and wait at most once each in the query.");
const INVALID_NAME: HttpProblem = HttpProblem::new(StatusCode::BAD_REQUEST, "agent must be letters, digits, and - . _");
const NO_SUCH_USER: HttpProblem = HttpProblem::new(StatusCode::FORBIDDEN, users::NO_SUCH_USER);
const TOO_MANY_AGENTS: HttpProblem =
    HttpProblem::new(StatusCode::SERVICE_UNAVAILABLE, "All places for agents are taken. Try again later.");
const TOO_MANY_AGENTS_OF_PRINCIPAL: HttpProblem = HttpProblem::new(
    StatusCode::TOO_MANY_REQUESTS,
    "These credentials have as many agents as they may (limits.agents_per_principal). End some first.",
);

/// Handles events and responds to each. The response to a question comes when it is resolved, or with status 202 when the
/// time to wait is over; the same event can be sent again to continue waiting.
pub(crate) async fn post_events(
    State(app): State<AppState>,
    Extension(registry): Extension<Arc<AgentRegistry>>,
    peer: Peer,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, HttpProblem> {
    if !peer.may(Role::Produce) {
        return Err(HttpProblem::forbidden());
    }
    let (body, _memory) = read_body(&app, &peer, &headers, body).await?;
    // The credentials may have expired while the body was received.
    if !peer.is_current() {
        return Err(HttpProblem::unauthenticated());
    }
    let guard = acquire_agent(&app, &registry, &peer, &uri, ConnectionKind::PerRequest)?;
    // From here on the connection belongs to an agent, which may wait for a question for a long time.
    let _held = peer.hold();
    let deadline = Instant::now() + wait_of(&uri, &headers);
    let events = RequestEvents::parse(body);
    let is_single = matches!(events, RequestEvents::Single(_));
    // An event is handled to its end even if the client disconnects.
    let handling = CompleteOnDrop::new(async move {
        let responses = match events {
            RequestEvents::Single(event) => Some(vec![handle_single(&guard, event).await]),
            RequestEvents::Batch(body) => handle_batch(&guard, &body).await,
        };
        (guard, responses)
    });
    let (guard, responses) = handling.await;
    let responses = responses.ok_or(TOO_MANY_LINES)?;
    let mut json = Vec::with_capacity(responses.len());
    let mut stopping = app.context.stopping.clone();
    for response in responses {
        json.push(match response {
            ResponseState::Ready(response) => response.to_json(),
            ResponseState::Pending(pending) => tokio::select! {
                biased;
                response = pending.wait() => response.to_json(),
                () = tokio::time::sleep_until(deadline) => pending_json(pending.event_id()),
                () = stopped(&mut stopping) => pending_json(pending.event_id()),
                () = peer.lapsed() => return Err(HttpProblem::unauthenticated()),
            },
        });
    }
    for response in &mut json {
        if response["session_id"].as_str().is_some_and(|session_id| guard.cancel_requests().contains(session_id)) {
            response["cancel_requested"] = true.into();
        }
    }
    Ok(http_response(&json, is_single))
}

/// Acquires the agent of a connection or request.
pub(super) fn acquire_agent(
    app: &AppState,
    registry: &AgentRegistry,
    peer: &Peer,
    uri: &Uri,
    kind: ConnectionKind,
) -> Result<AgentGuard, HttpProblem> {
    let query = AgentQuery::of(uri)?;
    let name = query.agent.as_deref();
    if name.is_some_and(|name| !is_valid_name(name)) {
        return Err(INVALID_NAME);
    }
    let user = match query.user {
        None => None,
        Some(user) => match user.parse::<UserId>() {
            Ok(user) if app.authenticator.is_open() || peer.identity.may_for(Role::Produce, &user) => Some(user),
            _ => return Err(NO_SUCH_USER),
        },
    };
    // If the server asks for no credentials, all peers have the same principal, which identifies nobody.
    let identity = if app.authenticator.is_open() { None } else { Some(&peer.identity) };
    let user = user.as_ref().filter(|_| app.context.engines.is_per_user());
    registry.acquire(AgentConnection { identity, name, user, kind }).map_err(|error| {
        app.context.metrics.refused_agent();
        tracing::info!(principal = peer.principal(), %error, "agent refused");
        match error.reason {
            QuotaExhausted::Total => TOO_MANY_AGENTS,
            QuotaExhausted::Principal => TOO_MANY_AGENTS_OF_PRINCIPAL,
        }
    })
}

/// The events of one request.
enum RequestEvents {
    /// The body is one JSON value.
    Single(ParsedLine),
    /// The body has one event on each line, which are parsed when their turn comes: parsed events take much more memory
    /// than the body.
    Batch(Bytes),
}

impl RequestEvents {
    fn parse(body: Bytes) -> RequestEvents {
        let event = RawEvent::parse(&body);
        // JSON that is no valid event is still a single one, and so is a body without any JSON. A batch may have single
        // lines that are wrong.
        let is_batch = event.is_err() && !is_json(&body) && body.split(|byte| *byte == b'\n').any(is_json);
        if is_batch { RequestEvents::Batch(body) } else { RequestEvents::Single(event) }
    }
}

fn is_json(text: &[u8]) -> bool {
    serde_json::from_slice::<serde::de::IgnoredAny>(text).is_ok()
}

async fn handle_single(guard: &AgentGuard, event: ParsedLine) -> ResponseState {
    // Counted before the lock is acquired: another request of this agent may hold it while it waits for subscribers.
    let urgent = guard.urgent_events().guard_if_urgent(&event);
    let mut relay = guard.relay().lock().await;
    let response = relay.handle_event(event).await;
    drop(urgent);
    relay.flush().await;
    relay.record_seen_events().await;
    response
}

/// Returns `None` if there are too many lines.
async fn handle_batch(guard: &AgentGuard, body: &[u8]) -> Option<Vec<ResponseState>> {
    let lines = body.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
    let lines: Vec<&[u8]> = lines.take(MAX_BATCH_LINES + 1).collect();
    if lines.len() > MAX_BATCH_LINES {
        return None;
    }
    let mut responses = Vec::with_capacity(lines.len());
    // Counted before the lock is acquired: another request of this agent may hold it while it waits for subscribers.
    let last_urgent = lines.iter().rposition(|line| is_urgent_line(line));
    let mut urgent = last_urgent.map(|_| guard.urgent_events().guard());
    let mut relay = guard.relay().lock().await;
    for (index, line) in lines.into_iter().enumerate() {
        responses.push(relay.handle_line(line).await);
        if Some(index) == last_urgent {
            urgent = None;
        }
    }
    drop(urgent);
    relay.flush().await;
    relay.record_seen_events().await;
    Some(responses)
}

fn pending_json(event_id: &str) -> Value {
    json!({"type": "pending", "event_id": event_id})
}

fn http_response(responses: &[Value], is_single: bool) -> Response {
    let any_is = |kind: &str| responses.iter().any(|response| response["type"] == kind);
    let status = if any_is("pending") {
        StatusCode::ACCEPTED
    } else if is_single && any_is("refused") {
        StatusCode::UNPROCESSABLE_ENTITY
    } else {
        StatusCode::OK
    };
    let media_type = if is_single { "application/json" } else { "application/x-ndjson" };
    let text: String = responses.iter().map(|response| format!("{response}\n")).collect();
    (status, [(header::CONTENT_TYPE, media_type), (header::CACHE_CONTROL, "no-store")], text).into_response()
}

/// Returns how long the request waits for questions: `?wait=30`, or `Prefer: wait=30` (RFC 7240).
fn wait_of(uri: &Uri, headers: &HeaderMap) -> Duration {
    let prefer = headers.get_all("prefer").iter().filter_map(|value| value.to_str().ok());
    let preferred = prefer.flat_map(|value| value.split([',', ';'])).find_map(|part| part.trim().strip_prefix("wait="));
    let query = AgentQuery::of(uri).unwrap_or_default();
    let seconds = query.wait.as_deref().or(preferred).and_then(|seconds| seconds.trim().parse().ok());
    seconds.map_or(DEFAULT_WAIT, Duration::from_secs).min(MAX_WAIT)
}

/// The query of an agent's address.
#[derive(Debug, Default, Deserialize)]
struct AgentQuery {
    /// The name of the agent.
    agent: Option<String>,
    /// The user whom its sessions are for.
    user: Option<String>,
    /// How many seconds a request waits for questions.
    wait: Option<String>,
}

impl AgentQuery {
    fn of(uri: &Uri) -> Result<AgentQuery, HttpProblem> {
        Query::try_from_uri(uri).map(|Query(query)| query).map_err(|_| INVALID_QUERY)
    }
}

async fn read_body(
    app: &AppState,
    peer: &Peer,
    headers: &HeaderMap,
    body: Body,
) -> Result<(Bytes, MemoryReservation), HttpProblem> {
    let media_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media_type = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if !MEDIA_TYPES.contains(&media_type.as_str()) {
        return Err(UNSUPPORTED_MEDIA_TYPE);
    }
    let memory = app.context.admission.agent_memory(peer.principal());
    body::collect(app, body::BodyLimits { max_bytes: app.context.limits.message_bytes, memory }, body).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn body_without_json_is_a_single_refused_event() {
        let is_single = |body: &'static str| match RequestEvents::parse(Bytes::from_static(body.as_bytes())) {
            RequestEvents::Single(event) => Some(event.is_err()),
            RequestEvents::Batch(_) => None,
        };
        for body in ["", "hello", "hello\nworld", "{\"type\":", "type=session.started", "[]", "{}"] {
            assert_eq!(is_single(body), Some(true), "{body}");
        }
        assert_eq!(is_single("{\"type\":\"session.started\"}"), Some(false));
        assert_eq!(is_single("{\"type\":\"session.started\"}\nhello\n"), None);
    }

    #[test]
    fn time_to_wait_comes_from_the_request_and_is_bounded() {
        let wait = |uri: &str, prefer: Option<&str>| {
            let mut headers = HeaderMap::new();
            prefer.into_iter().for_each(|prefer| drop(headers.insert("prefer", prefer.parse().unwrap())));
            wait_of(&uri.parse().unwrap(), &headers).as_secs()
        };
        assert_eq!(wait("/x", None), 30);
        assert_eq!(wait("/x?wait=5", None), 5);
        assert_eq!(wait("/x", Some("respond-async, wait=7")), 7);
        assert_eq!(wait("/x?wait=0", Some("wait=7")), 0);
        assert_eq!(wait("/x?wait=99999999999", None), 300);
        assert_eq!(wait("/x?wait=soon", None), 30);
    }
}
