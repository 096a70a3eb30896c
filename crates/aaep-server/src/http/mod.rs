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

use axum::Router;
use axum::http::StatusCode;
use axum::routing::{MethodFilter, MethodRouter, get, on, post};

use crate::config::Transports;
use crate::context::AppState;

pub(crate) use guard::identify;
pub(crate) use problem::HttpProblem;

/// The path of subscription requests.
const SUBSCRIPTIONS: &str = "/aaep/v1/subscriptions";

const NOT_FOUND: HttpProblem = HttpProblem::new(StatusCode::NOT_FOUND, "Not found.");

/// Returns the router of all endpoints. The host and origin checks also apply to `more`.
pub(crate) fn router(app: AppState, transports: &Transports, more: Router) -> Router {
    let mut router = Router::new();
    if transports.sse {
        router = router
            .route(SUBSCRIPTIONS, only(post(subscriptions::create), "POST"))
            .route("/aaep/v1/events", only(get(events::stream), "GET"))
            .route("/aaep/v1/replies", only(post(replies::post), "POST"));
    }
    if transports.websocket {
        let upgrade = on(MethodFilter::GET.or(MethodFilter::CONNECT), websocket::upgrade);
        router = router.route("/aaep/v1/ws", only(upgrade, "GET"));
    }
    let router = router
        .route("/.well-known/aaep-manifest.json", only(get(manifest::get), "GET, HEAD"))
        .route("/.well-known/aaep-keys.json", only(get(manifest::get_keys), "GET, HEAD"))
        .route("/healthz", only(get(operations::health), "GET, HEAD"))
        .route("/readyz", only(get(operations::ready), "GET, HEAD"))
        .route("/metrics", only(get(operations::metrics), "GET, HEAD"))
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
