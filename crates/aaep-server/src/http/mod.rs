//! The HTTP binding: subscriptions, events, replies, WebSocket, manifest, health and metrics.

pub(crate) mod body;
mod endpoint;
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

use std::sync::Arc;

use aaep_keys::Role;
use axum::extract::{FromRequestParts, Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::IntoResponse;
use axum::routing::{MethodFilter, MethodRouter, get, on, post};
use axum::{Extension, Router};

use crate::agents::{self, AgentRegistry};
use crate::config::Transports;
use crate::context::AppState;
use crate::peer::Peer;

pub(crate) use endpoint::HttpEndpoint;
pub(crate) use guard::identify;
pub(crate) use problem::HttpProblem;

const NOT_FOUND: HttpProblem = HttpProblem::new(StatusCode::NOT_FOUND, "Not found.");

/// Returns the router of all endpoints that are served. The host and origin checks also apply to `more`.
pub(crate) fn router(
    app: AppState,
    transports: &Transports,
    agents: Option<Arc<AgentRegistry>>,
    more: Router,
) -> Router {
    let mut router = Router::new();
    for endpoint in HttpEndpoint::ALL {
        if endpoint.is_served(transports, agents.is_some()) {
            let not_allowed = async move || HttpProblem::not_allowed(endpoint.allow());
            let mut handlers = handlers(endpoint).fallback(not_allowed);
            if !endpoint.allow().contains("HEAD") {
                // Otherwise the handler of GET would get it.
                handlers = handlers.head(not_allowed);
            }
            router = router.route(endpoint.path(), handlers);
        }
    }
    if let Some(agents) = agents {
        router = router.layer(Extension(agents));
    }
    guarded(router.fallback(async || NOT_FOUND).with_state(app.clone()).merge(more), app)
}

fn handlers(endpoint: HttpEndpoint) -> MethodRouter<AppState> {
    let upgrade = MethodFilter::GET.or(MethodFilter::CONNECT);
    match endpoint {
        HttpEndpoint::Subscriptions => post(subscriptions::create),
        HttpEndpoint::Events => get(events::stream),
        HttpEndpoint::Replies => post(replies::post),
        HttpEndpoint::WebSocket => on(upgrade, websocket::upgrade),
        HttpEndpoint::AgentEvents => post(agents::post_events),
        HttpEndpoint::AgentWebSocket => on(upgrade, agents::upgrade),
        HttpEndpoint::Manifest => get(manifest::get),
        HttpEndpoint::Keys => get(manifest::get_keys),
        HttpEndpoint::Health => get(operations::health),
        HttpEndpoint::Readiness => get(operations::ready),
        HttpEndpoint::Metrics => get(operations::metrics),
        HttpEndpoint::Status => get(operations::status),
    }
}

/// Returns a router that serves only peers with a role.
pub(crate) fn protected(router: Router, app: AppState, role: Role) -> Router {
    let check = move |State(app): State<AppState>, request: Request, next: Next| async move {
        let (mut parts, body) = request.into_parts();
        match Peer::from_request_parts(&mut parts, &app).await {
            Ok(peer) if peer.may(role) => next.run(Request::from_parts(parts, body)).await,
            Ok(_) => HttpProblem::forbidden().into_response(),
            Err(problem) => problem.into_response(),
        }
    };
    router.route_layer(axum::middleware::from_fn_with_state(app, check))
}

/// Adds the host and origin checks to a router.
pub(crate) fn guarded(router: Router, app: AppState) -> Router {
    router.layer(axum::middleware::from_fn_with_state(app, guard::check))
}
