//! Endpoints for operators: health, readiness, metrics.

use aaep_keys::Role;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

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
