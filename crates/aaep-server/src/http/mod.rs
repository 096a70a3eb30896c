//! The HTTP binding: subscriptions, events, replies, WebSocket, manifest, operations.

pub(crate) mod body;
mod events;
mod guard;
mod manifest;
mod operations;
mod problem;
mod replies;
mod socket;
mod sse;
mod subscriptions;
mod takeover;
mod ws;

use std::sync::Arc;

use axum::Router;
use axum::routing::{MethodFilter, MethodRouter, get, on, post};

use crate::auth::Authenticator;
use crate::config::Transports;
use crate::context::ServerContext;
use crate::published_manifest::Published;

pub(crate) use guard::identify;
pub(crate) use problem::Problem;
pub(crate) use takeover::{Takeover, TakeoverTarget, carry, lend};

/// Where subscriptions are asked for.
const SUBSCRIPTIONS: &str = "/aaep/v1/subscriptions";

/// What handlers share.
#[derive(Clone)]
pub(crate) struct App {
    pub(crate) hub: Arc<ServerContext>,
    pub(crate) gate: Arc<Authenticator>,
    pub(crate) published: Arc<Published>,
}

/// All endpoints. What is added by the caller stands behind the same guard.
pub(crate) fn router(app: App, transports: &Transports, more: Router) -> Router {
    let mut router = Router::new();
    if transports.sse {
        router = router
            .route(SUBSCRIPTIONS, only(post(subscriptions::create), "POST"))
            .route("/aaep/v1/events", only(get(events::stream), "GET"))
            .route("/aaep/v1/replies", only(post(replies::take), "POST"));
    }
    if transports.websocket {
        router = router.route("/aaep/v1/ws", only(on(MethodFilter::GET.or(MethodFilter::CONNECT), ws::upgrade), "GET"));
    }
    let router = router
        .route("/.well-known/aaep-manifest.json", only(get(manifest::show), "GET, HEAD"))
        .route("/.well-known/aaep-keys.json", only(get(manifest::keys), "GET, HEAD"))
        .route("/healthz", only(get(operations::health), "GET, HEAD"))
        .route("/readyz", only(get(operations::ready), "GET, HEAD"))
        .route("/metrics", only(get(operations::metrics), "GET, HEAD"))
        .fallback(async || Problem::new(axum::http::StatusCode::NOT_FOUND, "There is nothing here."))
        .with_state(app.clone())
        .merge(more);
    guarded(router, app)
}

/// Puts the guard before all that a router has.
pub(crate) fn guarded(router: Router, app: App) -> Router {
    router.layer(axum::middleware::from_fn_with_state(app, guard::check))
}

fn only(methods: MethodRouter<App>, allow: &'static str) -> MethodRouter<App> {
    methods.fallback(async move || Problem::not_allowed(allow))
}
