//! What stands before every handler: the name the server is called by, the page that calls, who calls, how often.

use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::HttpProblem;
use crate::admission::rate::RequestPurpose;
use crate::auth::{AuthError, ConnectionInfo, bearer};
use crate::context::AppState;
use crate::metrics::Transport;
use crate::peer::Peer;

/// Answers every request for a subscription by a message of the protocol, whatever is in its way (5.5).
pub(super) async fn check(state: State<AppState>, request: Request, next: Next) -> Response {
    let subscribes = request.method() == Method::POST && request.uri().path() == super::SUBSCRIPTIONS;
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

/// Host and origin of a request, and the headers that a page of a known origin needs.
async fn check_source(State(app): State<AppState>, request: Request, next: Next) -> Response {
    let Some(host) = host_of(request.uri(), request.headers()) else {
        tracing::info!("a request that names more than one host was refused");
        let detail = "Name one host, in one Host header or in the request's target.";
        return HttpProblem::new(StatusCode::BAD_REQUEST, detail).into_response();
    };
    if !host.as_deref().is_some_and(|host| app.authenticator.is_allowed_host(host)) {
        tracing::info!(host, "a request for a name that is not ours was refused");
        let detail = "This server does not go by that name. Add it to the setting hosts.";
        return HttpProblem::new(StatusCode::MISDIRECTED_REQUEST, detail).into_response();
    }
    let Some(origin) = request.headers().get(header::ORIGIN).cloned() else {
        return next.run(request).await;
    };
    let known = origin.to_str().is_ok_and(|origin| app.authenticator.is_allowed_origin(origin, host.as_deref()));
    if !known {
        tracing::info!(?origin, "a page of a foreign origin was refused");
        let detail = "Pages of this origin may not use this server. Add it to the setting origins.";
        return HttpProblem::new(StatusCode::FORBIDDEN, detail).into_response();
    }
    let preflight = request.method() == Method::OPTIONS;
    let mut response = if preflight { StatusCode::NO_CONTENT.into_response() } else { next.run(request).await };
    share(response.headers_mut(), &origin, preflight);
    response
}

/// The host that a request is for, if it names one; nothing if it contradicts itself. Whoever stands between the client
/// and this server may have looked at another of several names than this server does (RFC 9112, 3.2; RFC 9113, 8.3.1).
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

/// What a request is counted as. Replies are counted when they were read: one to an open question is never refused.
fn purpose_of(path: &str) -> Option<RequestPurpose> {
    match path {
        "/aaep/v1/replies" => None,
        _ if path.starts_with("/aaep/v1/agent/") => Some(RequestPurpose::Produce),
        _ => Some(RequestPurpose::Subscribe),
    }
}

/// Refuses what is above the rate of its principal.
pub(super) fn limit(app: &AppState, peer: &Peer, purpose: RequestPurpose) -> Result<(), HttpProblem> {
    app.context.rates.take(peer.principal(), purpose).map(drop).map_err(|_| {
        app.context.metrics.rate_limited();
        HttpProblem::too_fast()
    })
}

/// Who calls. A page's EventSource and WebSocket cannot send headers, so a GET may bring its token in the address.
pub(crate) fn identify(parts: &Parts, app: &AppState, transport: Transport) -> Result<Peer, HttpProblem> {
    let query = parts.uri.query().filter(|_| parts.method == Method::GET).unwrap_or_default();
    let in_query = query.split('&').find_map(|pair| pair.strip_prefix("access_token="));
    let connection = parts.extensions.get::<ConnectionInfo>();
    let certificate = connection.and_then(|connection| connection.certificate.as_ref());
    let token = bearer(&parts.headers).or(in_query);
    let peer = app.authenticator.identify(token, certificate, transport).map_err(|unknown| {
        let reason = match unknown {
            AuthError::Missing => "missing",
            AuthError::Invalid(reason) => reason,
        };
        let address = connection.map(|connection| connection.address);
        tracing::info!(reason, ?address, "credentials were refused");
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
    fn a_request_names_one_host() {
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
