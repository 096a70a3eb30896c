//! What stands before every handler: the name the server is called by, the page that calls, who calls, how often.

use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::uri::Authority;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::{App, Problem};
use crate::gate::{Connection, Unknown, bearer};
use crate::hub::Peer;
use crate::metrics::Transport;

/// Host and origin of a request, and the headers that a page of a known origin needs.
pub(super) async fn check(State(app): State<App>, request: Request, next: Next) -> Response {
    let authority = request.uri().authority().map(Authority::as_str);
    let host = authority.or_else(|| request.headers().get(header::HOST)?.to_str().ok()).map(str::to_owned);
    if !host.as_deref().is_some_and(|host| app.gate.knows_host(host)) {
        tracing::info!(host, "a request for a name that is not ours was refused");
        let detail = "This server does not go by that name. Add it to the setting hosts.";
        return Problem::new(StatusCode::MISDIRECTED_REQUEST, detail).into_response();
    }
    let Some(origin) = request.headers().get(header::ORIGIN).cloned() else {
        return next.run(request).await;
    };
    let known = origin.to_str().is_ok_and(|origin| app.gate.knows_origin(origin, host.as_deref()));
    if !known {
        tracing::info!(?origin, "a page of a foreign origin was refused");
        let detail = "Pages of this origin may not use this server. Add it to the setting origins.";
        return Problem::new(StatusCode::FORBIDDEN, detail).into_response();
    }
    let preflight = request.method() == Method::OPTIONS;
    let mut response = if preflight { StatusCode::NO_CONTENT.into_response() } else { next.run(request).await };
    share(response.headers_mut(), &origin, preflight);
    response
}

/// Lets the browser hand the answer to the page.
fn share(headers: &mut header::HeaderMap, origin: &HeaderValue, preflight: bool) {
    let fixed = HeaderValue::from_static;
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
    headers.append(header::VARY, fixed("Origin"));
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, fixed("Location, Retry-After"));
    if preflight {
        headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, fixed("GET, POST, DELETE"));
        headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, fixed("Authorization, Content-Type, Last-Event-ID"));
        headers.insert(header::ACCESS_CONTROL_MAX_AGE, fixed("600"));
    }
}

/// The caller of an HTTP request, known and within its rate.
impl FromRequestParts<App> for Peer {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Peer, Problem> {
        let peer = identify(parts, app, Transport::Sse)?;
        if !app.hub.rates.take(peer.principal()) {
            app.hub.metrics.rate_limited();
            return Err(Problem::too_fast());
        }
        Ok(peer)
    }
}

/// Who calls. A page's EventSource and WebSocket cannot send headers, so a GET may bring its token in the address.
pub(crate) fn identify(parts: &Parts, app: &App, transport: Transport) -> Result<Peer, Problem> {
    let query = parts.uri.query().filter(|_| parts.method == Method::GET).unwrap_or_default();
    let in_query = query.split('&').find_map(|pair| pair.strip_prefix("access_token="));
    let connection = parts.extensions.get::<Connection>();
    let certificate = connection.and_then(|connection| connection.certificate.as_ref());
    let token = bearer(&parts.headers).or(in_query);
    app.gate.identify(token, certificate, transport).map_err(|unknown| {
        let reason = match unknown {
            Unknown::Missing => "missing",
            Unknown::Invalid(reason) => reason,
        };
        let address = connection.map(|connection| connection.address);
        tracing::info!(reason, ?address, "credentials were refused");
        app.hub.metrics.unauthenticated();
        Problem::unauthenticated()
    })
}
