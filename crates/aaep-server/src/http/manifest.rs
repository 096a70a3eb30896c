//! The manifest of the producer and the keys that sign it, readable without credentials.

use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};

use super::HttpProblem;
use crate::context::AppState;

const CACHE_ONE_MINUTE: (header::HeaderName, &str) = (header::CACHE_CONTROL, "max-age=60");

/// Returns the manifest as JSON, or as a JWS if the request accepts `application/jose`.
pub(super) async fn get(State(app): State<AppState>, headers: HeaderMap) -> Result<Response, HttpProblem> {
    let accepts = headers.get(header::ACCEPT).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let vary = (header::VARY, "Accept");
    if accepts.contains("application/jose") {
        let signed = app.published.signed();
        let detail = "There is no signed manifest. Set manifest.key.";
        let jws = signed.ok_or(HttpProblem::new(axum::http::StatusCode::NOT_ACCEPTABLE, detail))?;
        return Ok(([(header::CONTENT_TYPE, "application/jose"), CACHE_ONE_MINUTE, vary], jws).into_response());
    }
    let json = app.published.manifest();
    Ok(([(header::CONTENT_TYPE, "application/json"), CACHE_ONE_MINUTE, vary], json).into_response())
}

/// Returns the public keys of the signed manifest.
pub(super) async fn get_keys(State(app): State<AppState>) -> Response {
    ([(header::CONTENT_TYPE, "application/jwk-set+json"), CACHE_ONE_MINUTE], app.published.keys()).into_response()
}
