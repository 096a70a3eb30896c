//! Problem details of failed HTTP requests (RFC 9457).

use aaep::transport::Rejection;
use aaep_proto::message::ReasonCode;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

/// A failed request: its status and a detail that says what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HttpProblem {
    status: StatusCode,
    detail: &'static str,
    header: Option<(header::HeaderName, HeaderValue)>,
}

impl HttpProblem {
    pub(crate) const fn new(status: StatusCode, detail: &'static str) -> HttpProblem {
        HttpProblem { status, detail, header: None }
    }

    fn with(status: StatusCode, detail: &'static str, name: header::HeaderName, value: &'static str) -> HttpProblem {
        HttpProblem { status, detail, header: Some((name, HeaderValue::from_static(value))) }
    }

    pub(crate) fn unauthenticated() -> HttpProblem {
        let detail = crate::close::UNAUTHENTICATED;
        HttpProblem::with(StatusCode::UNAUTHORIZED, detail, header::WWW_AUTHENTICATE, "Bearer realm=\"aaep\"")
    }

    pub(crate) fn forbidden() -> HttpProblem {
        HttpProblem::new(StatusCode::FORBIDDEN, "These credentials do not permit that.")
    }

    pub(crate) fn too_fast() -> HttpProblem {
        HttpProblem::with(StatusCode::TOO_MANY_REQUESTS, "Too many requests. Wait a second.", header::RETRY_AFTER, "1")
    }

    pub(crate) fn no_memory(detail: &'static str) -> HttpProblem {
        HttpProblem::with(StatusCode::SERVICE_UNAVAILABLE, detail, header::RETRY_AFTER, "30")
    }

    pub(crate) fn no_subscription() -> HttpProblem {
        HttpProblem::new(StatusCode::NOT_FOUND, "There is no such subscription. Subscribe again.")
    }

    pub(crate) fn not_allowed(allow: &'static str) -> HttpProblem {
        HttpProblem::with(
            StatusCode::METHOD_NOT_ALLOWED,
            "Method not allowed. See the Allow header.",
            header::ALLOW,
            allow,
        )
    }

    /// Returns this problem as a protocol rejection, for a request for a subscription or for other terms.
    pub(super) fn rejected(self) -> Response {
        let reason_code = match self.status {
            StatusCode::UNAUTHORIZED => ReasonCode::AuthenticationRequired,
            StatusCode::FORBIDDEN => ReasonCode::AuthorizationDenied,
            StatusCode::TOO_MANY_REQUESTS => ReasonCode::RateLimit,
            StatusCode::NOT_FOUND | StatusCode::SERVICE_UNAVAILABLE => ReasonCode::TransportUnavailable,
            _ => ReasonCode::Unknown,
        };
        let mut rejection = Rejection::new(reason_code, self.detail);
        rejection.retry_after_seconds = match &self.header {
            Some((header::RETRY_AFTER, value)) => value.to_str().ok().and_then(|seconds| seconds.parse().ok()),
            _ => None,
        };
        let mut response = super::subscriptions::json(self.status, &rejection.to_message().into());
        if let Some((name, value)) = self.header {
            response.headers_mut().insert(name, value);
        }
        response
    }

    pub(crate) fn ended() -> HttpProblem {
        HttpProblem::with(StatusCode::SERVICE_UNAVAILABLE, "The producer has ended.", header::RETRY_AFTER, "5")
    }
}

impl IntoResponse for HttpProblem {
    fn into_response(self) -> Response {
        let title = self.status.canonical_reason().unwrap_or("Error");
        let body =
            json!({"type": "about:blank", "title": title, "status": self.status.as_u16(), "detail": self.detail});
        let mut response = (self.status, body.to_string()).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some((name, value)) = &self.header {
            headers.insert(name, value.clone());
        }
        // For the guard, which answers requests for subscriptions by a protocol message instead.
        response.extensions_mut().insert(self);
        response
    }
}
