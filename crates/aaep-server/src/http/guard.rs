//! Checks before every handler: proxy, host, origin, credentials, rate.

use std::net::IpAddr;

use aaep_proto::binding::path;
use axum::extract::{FromRequestParts, Query, Request, State};
use axum::http::request::Parts;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;

use super::HttpProblem;
use crate::admission::rate::RequestPurpose;
use crate::auth::{AuthError, ConnectionInfo, bearer};
use crate::context::AppState;
use crate::metrics::Transport;
use crate::peer::Peer;
use crate::proxy::RequestOrigin;

/// Checks host and origin. Every failed request for a subscription is answered by a protocol message (5.5).
pub(super) async fn check(state: State<AppState>, request: Request, next: Next) -> Response {
    let subscribes = request.method() == Method::POST && request.uri().path() == path::SUBSCRIPTIONS;
    let mut response = check_source(state, request, next).await;
    let Some(problem) = response.extensions_mut().remove::<HttpProblem>().filter(|_| subscribes) else {
        return response;
    };
    let mut rejected = problem.rejected();
    for (name, value) in response.headers() {
        if name.as_str().starts_with("access-control-") || name == header::VARY {
            rejected.headers_mut().append(name, value.clone());
        }
    }
    rejected
}

/// Checks the proxy, host and origin of a request, and adds the CORS headers for an allowed origin.
async fn check_source(State(app): State<AppState>, mut request: Request, next: Next) -> Response {
    // Orchestrators probe an address, without a host name of ours and past the proxy.
    let is_probe = [path::HEALTH, path::READINESS].contains(&request.uri().path());
    let forwarded_host = match attribute_to_client(&app, &mut request) {
        Ok(host) => host,
        Err(_) if is_probe => None,
        Err(problem) => return problem.into_response(),
    };
    let Some(host) = host_of(request.uri(), request.headers()) else {
        tracing::info!("rejected a request with more than one host name");
        let detail = "Send one host name, in one Host header or in the request target.";
        return HttpProblem::new(StatusCode::BAD_REQUEST, detail).into_response();
    };
    let host = forwarded_host.or(host);
    let own_host = host.as_deref().filter(|host| app.authenticator.is_allowed_host(host));
    if own_host.is_none() && !is_probe {
        tracing::info!(host, client = ?client_of(&request), "rejected a request for an unknown host name");
        let detail = "Unknown host name. Add it to the setting hosts.";
        return HttpProblem::new(StatusCode::MISDIRECTED_REQUEST, detail).into_response();
    }
    let Some(origin) = request.headers().get(header::ORIGIN).cloned() else {
        return next.run(request).await;
    };
    let known = origin.to_str().is_ok_and(|origin| app.authenticator.is_allowed_origin(origin, own_host));
    if !known {
        tracing::info!(?origin, client = ?client_of(&request), "rejected a request of an unknown origin");
        let detail = "Unknown origin. Add it to the setting origins.";
        return HttpProblem::new(StatusCode::FORBIDDEN, detail).into_response();
    }
    let preflight = request.method() == Method::OPTIONS;
    let mut response = if preflight { StatusCode::NO_CONTENT.into_response() } else { next.run(request).await };
    add_cors_headers(response.headers_mut(), &origin, preflight);
    response
}

/// Returns the address of the client of a request.
fn client_of(request: &Request) -> Option<IpAddr> {
    request.extensions().get::<ConnectionInfo>().map(|connection| connection.client)
}

/// Attributes a request of a trusted proxy to the client that the proxy names, and returns the host that the client used.
fn attribute_to_client(app: &AppState, request: &mut Request) -> Result<Option<String>, HttpProblem> {
    let Some(connection) = request.extensions().get::<ConnectionInfo>() else { return Ok(None) };
    let RequestOrigin::Forwarded(client) = app.proxies.origin_of(connection, request.headers())? else {
        return Ok(None);
    };
    if connection.slot.attribute_to(client.address.into()) {
        app.context.metrics.evicted_connection();
    }
    // The certificate is that of the proxy, which does not identify the client.
    let forwarded = ConnectionInfo { client: client.address, certificate: None, ..connection.clone() };
    request.extensions_mut().insert(forwarded);
    Ok(client.host)
}

/// Returns the host of a request, `Some(None)` if it has none, or `None` if it has several that differ: a proxy may have
/// checked another of them than this server does (RFC 9112, 3.2; RFC 9113, 8.3.1).
fn host_of(uri: &Uri, headers: &HeaderMap) -> Option<Option<String>> {
    let mut named = headers.get_all(header::HOST).iter();
    let (host, more) = (named.next(), named.next());
    if more.is_some() {
        return None;
    }
    let host = host.map(|host| host.to_str().ok()).map_or(Some(None), |host| host.map(Some))?;
    match (uri.authority().map(Authority::as_str), host) {
        (Some(authority), Some(host)) if !authority.eq_ignore_ascii_case(host) => None,
        (authority, host) => Some(authority.or(host).map(str::to_owned)),
    }
}

/// Adds the headers that let a web page read the response.
fn add_cors_headers(headers: &mut header::HeaderMap, origin: &HeaderValue, preflight: bool) {
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

/// Extracts the caller of a request, if it has valid credentials and is within its rate.
impl FromRequestParts<AppState> for Peer {
    type Rejection = HttpProblem;

    async fn from_request_parts(parts: &mut Parts, app: &AppState) -> Result<Peer, HttpProblem> {
        let peer = identify(parts, app, Transport::Sse)?;
        if let Some(purpose) = purpose_of(parts.uri.path()) {
            limit(app, &peer, purpose)?;
        }
        Ok(peer)
    }
}

/// Returns the rate that a request counts against. Replies are counted after they are read: a reply to an open question is
/// never rejected.
fn purpose_of(request_path: &str) -> Option<RequestPurpose> {
    match request_path {
        path::REPLIES => None,
        _ if request_path.starts_with("/aaep/v1/agent/") => Some(RequestPurpose::Produce),
        _ => Some(RequestPurpose::Subscribe),
    }
}

/// Rejects a request above the rate of its principal.
pub(super) fn limit(app: &AppState, peer: &Peer, purpose: RequestPurpose) -> Result<(), HttpProblem> {
    app.context.rates.take(peer.principal(), purpose).map(drop).map_err(|_| {
        app.context.metrics.rate_limited();
        HttpProblem::too_fast()
    })
}

#[derive(Deserialize)]
struct TokenQuery {
    access_token: Option<String>,
}

/// Returns the caller of a request. The EventSource and WebSocket of a web page cannot send headers, so a GET may have its
/// token in the query.
pub(crate) fn identify(parts: &Parts, app: &AppState, transport: Transport) -> Result<Peer, HttpProblem> {
    let in_query = if parts.method == Method::GET { Query::<TokenQuery>::try_from_uri(&parts.uri).ok() } else { None };
    let in_query = in_query.and_then(|Query(query)| query.access_token);
    let connection = parts.extensions.get::<ConnectionInfo>();
    let certificate = connection.and_then(|connection| connection.certificate.as_ref());
    let token = bearer(&parts.headers).or(in_query.as_deref());
    let peer = app.authenticator.identify(token, certificate, transport).map_err(|error| {
        let reason = match error {
            AuthError::Missing => "missing",
            AuthError::Invalid(reason) => reason,
        };
        let client = connection.map(|connection| connection.client);
        tracing::info!(reason, ?client, "credentials rejected");
        app.context.metrics.unauthenticated();
        HttpProblem::unauthenticated()
    })?;
    if !app.authenticator.is_open() {
        connection.iter().for_each(|connection| connection.slot.mark_authenticated());
    }
    Ok(peer.with_slot(connection.map(|connection| connection.slot.clone())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(target: &str, hosts: &[&str]) -> Option<Option<String>> {
        let mut headers = HeaderMap::new();
        for host in hosts {
            headers.append(header::HOST, HeaderValue::from_bytes(host.as_bytes()).unwrap());
        }
        host_of(&target.parse().unwrap(), &headers)
    }

    #[test]
    fn request_has_one_host() {
        let known = |name: &str| Some(Some(name.to_owned()));
        assert_eq!(host("/x", &["localhost:1"]), known("localhost:1"));
        assert_eq!(host("http://localhost/x", &[]), known("localhost"));
        assert_eq!(host("http://localhost/x", &["LOCALHOST"]), known("localhost"));
        assert_eq!(host("/x", &[]), Some(None));
        for hosts in [&["localhost", "localhost"][..], &["localhost", "evil.example"], &["", "localhost"], &["l\u{e4}"]]
        {
            assert_eq!(host("/x", hosts), None, "{hosts:?}");
        }
        assert_eq!(host("http://localhost/x", &["evil.example"]), None);
        assert_eq!(host("http://evil.example/x", &["localhost"]), None);
    }
}
