//! The HTTP binding: subscriptions, events, replies, WebSocket, manifest, health and metrics.

pub(crate) mod body;
mod events;
mod fast_path;
mod guard;
pub(crate) mod listener;
mod manifest;
mod operations;
mod problem;
mod replies;
mod sse;
mod subscriptions;
mod websocket;

use aaep_proto::binding::path;
use axum::Router;
use axum::http::StatusCode;
use axum::routing::{MethodFilter, MethodRouter, get, on, post};

use crate::config::Transports;
use crate::context::AppState;

pub(crate) use guard::identify;
pub(crate) use problem::HttpProblem;

const NOT_FOUND: HttpProblem = HttpProblem::new(StatusCode::NOT_FOUND, "Not found.");

/// Returns the router of all endpoints. The host and origin checks also apply to `more`.
pub(crate) fn router(app: AppState, transports: &Transports, more: Router) -> Router {
    let mut router = Router::new();
    if transports.sse {
        router = router
            .route(path::SUBSCRIPTIONS, only(post(subscriptions::create), "POST"))
            .route(path::EVENTS, only(get(events::stream), "GET"))
            .route(path::REPLIES, only(post(replies::post), "POST"));
    }
    if transports.websocket {
        let upgrade = on(MethodFilter::GET.or(MethodFilter::CONNECT), websocket::upgrade);
        router = router.route(path::WEBSOCKET, only(upgrade, "GET"));
    }
    let router = router
        .route(path::MANIFEST, only(get(manifest::get), "GET, HEAD"))
        .route(path::KEYS, only(get(manifest::get_keys), "GET, HEAD"))
        .route(path::HEALTH, only(get(operations::health), "GET, HEAD"))
        .route(path::READINESS, only(get(operations::ready), "GET, HEAD"))
        .route(path::METRICS, only(get(operations::metrics), "GET, HEAD"))
        .fallback(async || NOT_FOUND)
        .with_state(app.clone())
        .merge(more);
    guarded(router, app)
}

/// Adds the host and origin checks to a router.
pub(crate) fn guarded(router: Router, app: AppState) -> Router {
    router.layer(axum::middleware::from_fn_with_state(app, guard::check))
}

fn only(methods: MethodRouter<AppState>, allow: &'static str) -> MethodRouter<AppState> {
    methods.fallback(async move || HttpProblem::not_allowed(allow))
}
