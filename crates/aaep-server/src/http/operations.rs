//! Endpoints for operators: health, readiness, metrics, status.

use aaep_keys::Role;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::HttpProblem;
use crate::context::AppState;
use crate::peer::Peer;

/// Returns that the process is alive.
pub(super) async fn health() -> &'static str {
    "ok\n"
}

/// Returns whether new subscribers are accepted.
pub(super) async fn ready(State(app): State<AppState>) -> Response {
    let stopping = *app.context.stopping.borrow();
    let stats = if stopping { None } else { app.context.engines.stats().await };
    match stats {
        None => (StatusCode::SERVICE_UNAVAILABLE, "shutting down\n").into_response(),
        Some(stats) if stats.storage_failing => {
            let text = "storage is failing: every confirmation is rejected until it recovers\n";
            (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
        }
        Some(_) => "ready\n".into_response(),
    }
}

/// Returns the metrics.
pub(super) async fn metrics(State(app): State<AppState>, peer: Peer) -> Result<Response, HttpProblem> {
    if !peer.may(Role::Admin) {
        return Err(HttpProblem::forbidden());
    }
    let engines = &app.context.engines;
    let stats = engines.stats().await.ok_or_else(HttpProblem::ended)?;
    let text =
        app.context.metrics.render(&stats, &engines.reply_stats(), &app.context.admission.memory, engines.count());
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response())
}

/// Returns the subscriptions, the open questions and the last decisions.
pub(super) async fn status(State(app): State<AppState>, peer: Peer) -> Result<Response, HttpProblem> {
    if !peer.may(Role::Admin) {
        return Err(HttpProblem::forbidden());
    }
    let snapshot = app.context.engines.snapshot().await.ok_or_else(HttpProblem::ended)?;
    let subscriptions = snapshot.subscriptions.iter().map(|(subscription, queued)| {
        json!({
            "subscription_id": subscription.id,
            "principal": subscription.principal,
            "honored_capabilities": subscription.honored,
            "delivered": subscription.delivered,
            "held": subscription.held,
            "coalesced": subscription.coalesced(),
            "queued": queued,
        })
    });
    let questions = snapshot.questions.iter().map(
        |question| json!({"session_id": question.session_id, "asked_at": question.asked_at, "shown": question.shown}),
    );
    let decisions = snapshot.decisions.iter().map(|record| {
        json!({
            "session_id": record.session_id,
            "asked_at": record.asked_at,
            "decided_at": record.decided_at,
            "resolution": record.resolution.as_str(),
            "principal": record.principal,
            "shown": record.shown,
        })
    });
    let status = json!({
        "sessions": snapshot.stats.sessions,
        "published": snapshot.stats.counts.published,
        "delivered": snapshot.stats.counts.delivered,
        "subscriptions": subscriptions.collect::<Vec<Value>>(),
        "questions": questions.collect::<Vec<Value>>(),
        "decisions": decisions.collect::<Vec<Value>>(),
    });
    let kind = [(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "no-store")];
    Ok((kind, status.to_string()).into_response())
}
