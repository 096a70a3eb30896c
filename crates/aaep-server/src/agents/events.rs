//! `POST /aaep/v1/agent/events`: one event, or one on each line.

use std::sync::Arc;
use std::time::Duration;

use aaep_keys::Role;
use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::registry::{AgentLease, Agents, ConnectionKind, is_name};
use super::reply::Reply;
use super::urgent::is_urgent;
use crate::admission::memory_budget::MemoryReservation;
use crate::admission::quota::QuotaExhausted;
use crate::context::AppState;
use crate::context::stopped;
use crate::http::{HttpProblem, body};
use crate::peer::Peer;

/// Events of one request.
const LINES: usize = 10_000;

/// How long a question is waited for, if the agent does not say; and at most.
const WAIT: Duration = Duration::from_secs(30);
const LONGEST: Duration = Duration::from_secs(300);

const KIND: HttpProblem =
    HttpProblem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "Send application/json, or application/x-ndjson for several.");
const LARGE: HttpProblem = HttpProblem::new(StatusCode::PAYLOAD_TOO_LARGE, "The request is too large.");
const NAME: HttpProblem = HttpProblem::new(StatusCode::BAD_REQUEST, "agent must be letters, digits, and - . _");
const FULL: HttpProblem =
    HttpProblem::new(StatusCode::SERVICE_UNAVAILABLE, "All places for agents are taken. Try again later.");
const TOO_MANY_OF_PRINCIPAL: HttpProblem = HttpProblem::new(
    StatusCode::TOO_MANY_REQUESTS,
    "These credentials have as many agents as they may (limits.agents_per_principal). End some first.",
);

/// Takes events and answers each. A question is answered when the user has decided, or with 202 when the time to wait
/// is over; the same event again goes on waiting.
pub(super) async fn take(
    State(app): State<AppState>,
    Extension(agents): Extension<Arc<Agents>>,
    peer: Peer,
    (uri, headers): (Uri, HeaderMap),
    body: Body,
) -> Result<Response, HttpProblem> {
    if !peer.may(Role::Produce) {
        return Err(HttpProblem::forbidden());
    }
    let (body, _memory) = read(&app, &peer, &headers, body).await?;
    // It may have expired while the body came.
    if !peer.is_current() {
        return Err(HttpProblem::unauthenticated());
    }
    let seat = sit(&app, &agents, (&peer, &uri), ConnectionKind::Requests)?;
    // From here on the connection carries an agent, which may wait long for the answer to a question.
    let _held = peer.hold();
    let deadline = Instant::now() + wait_of(&uri, &headers);
    let one = serde_json::from_slice::<serde::de::IgnoredAny>(&body).is_ok();
    // Who hangs up in the middle must not leave an event half done.
    let replies = tokio::spawn(relay(seat, body, one));
    let (seat, replies) = replies.await.map_err(|_| HttpProblem::ended())?.ok_or(LARGE)?;
    let mut answers = Vec::with_capacity(replies.len());
    let mut stopping = app.context.stopping.clone();
    for reply in replies {
        answers.push(match reply {
            Reply::Now(answer) => answer.to_json(),
            Reply::Later(pending) => tokio::select! {
                biased;
                answer = pending.wait() => answer.to_json(),
                () = tokio::time::sleep_until(deadline) => waits(pending.event_id()),
                () = stopped(&mut stopping) => waits(pending.event_id()),
                () = peer.lapsed() => return Err(HttpProblem::unauthenticated()),
            },
        });
    }
    drop(seat);
    Ok(respond(&answers, one))
}

/// A place for the agent of a request.
pub(super) fn sit(
    app: &AppState,
    agents: &Agents,
    (peer, uri): (&Peer, &Uri),
    way: ConnectionKind,
) -> Result<AgentLease, HttpProblem> {
    let name = query(uri, "agent");
    if name.is_some_and(|name| !is_name(name)) {
        return Err(NAME);
    }
    // Where no credentials are asked for, everyone may be anyone.
    let principal = (!app.authenticator.is_open()).then(|| peer.principal());
    agents.enter(principal, name, way).map_err(|error| {
        app.context.metrics.refused_agent();
        tracing::info!(principal = peer.principal(), %error, "an agent was refused");
        match error.reason {
            QuotaExhausted::Total => FULL,
            QuotaExhausted::Principal => TOO_MANY_OF_PRINCIPAL,
        }
    })
}

/// Nothing, if there are too many lines.
async fn relay(seat: AgentLease, body: Bytes, one: bool) -> Option<(AgentLease, Vec<Reply>)> {
    let lines: Vec<&[u8]> = if one {
        vec![&body]
    } else {
        body.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty()).take(LINES + 1).collect()
    };
    if lines.len() > LINES {
        return None;
    }
    let mut replies = Vec::with_capacity(lines.len());
    // Marked before the lock is taken: another request of this agent may hold it while it waits for subscribers.
    let last_urgent = lines.iter().rposition(|line| is_urgent(line));
    let mut urgent = last_urgent.map(|_| seat.urgent().mark());
    let mut relay = seat.relay().lock().await;
    for (index, line) in lines.into_iter().enumerate() {
        replies.push(relay.take(line).await);
        if Some(index) == last_urgent {
            urgent = None;
        }
    }
    drop(urgent);
    relay.flush().await;
    relay.keep_names().await;
    drop(relay);
    Some((seat, replies))
}

fn waits(event_id: &str) -> Value {
    json!({"type": "pending", "event_id": event_id})
}

fn respond(answers: &[Value], one: bool) -> Response {
    let is = |kind: &str| answers.iter().any(|answer| answer["type"] == kind);
    let status = match one {
        _ if is("pending") => StatusCode::ACCEPTED,
        true if is("refused") => StatusCode::UNPROCESSABLE_ENTITY,
        _ => StatusCode::OK,
    };
    let kind = if one { "application/json" } else { "application/x-ndjson" };
    let text: String = answers.iter().map(|answer| format!("{answer}\n")).collect();
    (status, [(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, "no-store")], text).into_response()
}

/// How long the agent wants to wait: `?wait=30`, or `Prefer: wait=30` (RFC 7240).
fn wait_of(uri: &Uri, headers: &HeaderMap) -> Duration {
    let prefer = headers.get_all("prefer").iter().filter_map(|value| value.to_str().ok());
    let preferred = prefer.flat_map(|value| value.split([',', ';'])).find_map(|part| part.trim().strip_prefix("wait="));
    let seconds = query(uri, "wait").or(preferred).and_then(|seconds| seconds.trim().parse().ok());
    seconds.map_or(WAIT, Duration::from_secs).min(LONGEST)
}

fn query<'u>(uri: &'u Uri, name: &str) -> Option<&'u str> {
    let pairs = uri.query().unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
    pairs.filter(|(key, _)| *key == name).map(|(_, value)| value).next()
}

async fn read(
    app: &AppState,
    peer: &Peer,
    headers: &HeaderMap,
    body: Body,
) -> Result<(Bytes, MemoryReservation), HttpProblem> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if !["application/json", "application/x-ndjson", "application/ndjson", "application/jsonl"].contains(&kind.as_str())
    {
        return Err(KIND);
    }
    let memory = app.context.admission.agent_memory(peer.principal());
    body::collect(app, body::BodyLimits { limit: app.context.limits.message_bytes, memory }, body).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_to_wait_is_asked_for_and_bounded() {
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
