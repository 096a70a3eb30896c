//! For those who run the server: health, readiness, numbers.

use aaep_keys::Role;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::HttpProblem;
use crate::context::AppState;
use crate::peer::Peer;

/// The process works.
pub(super) async fn health() -> &'static str {
    "ok\n"
}

/// New subscribers are welcome.
pub(super) async fn ready(State(app): State<AppState>) -> Response {
    let measures = app.context.producer.stats().await.filter(|_| !*app.context.stopping.borrow());
    match measures {
        None => (StatusCode::SERVICE_UNAVAILABLE, "ending\n").into_response(),
        Some(measures) if measures.storage_failing => {
            let text = "the store cannot be written: every question is answered with no\n";
            (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
        }
        Some(_) => "ready\n".into_response(),
    }
}

/// The numbers.
pub(super) async fn metrics(State(app): State<AppState>, peer: Peer) -> Result<Response, HttpProblem> {
    if !peer.may(Role::Admin) {
        return Err(HttpProblem::forbidden());
    }
    let measures = app.context.producer.stats().await.ok_or_else(HttpProblem::ended)?;
    let text =
        app.context.metrics.render(&measures, &app.context.producer.reply_stats(), &app.context.admission.memory);
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response())
}
