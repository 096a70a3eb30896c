//! For those who run the server: health, readiness, numbers.

use aaep_keys::Role;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::{App, Problem};
use crate::context::Peer;

/// The process works.
pub(super) async fn health() -> &'static str {
    "ok\n"
}

/// New subscribers are welcome.
pub(super) async fn ready(State(app): State<App>) -> Response {
    let measures = app.hub.producer.stats().await.filter(|_| !*app.hub.stopping.borrow());
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
pub(super) async fn metrics(State(app): State<App>, peer: Peer) -> Result<Response, Problem> {
    if !peer.may(Role::Admin) {
        return Err(Problem::forbidden());
    }
    let measures = app.hub.producer.stats().await.ok_or_else(Problem::ended)?;
    let text = app.hub.metrics.render(&measures, &app.hub.producer.reply_stats(), &app.hub.admission.memory);
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response())
}
