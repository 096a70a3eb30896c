//! A request's body, within its bounds of size and time.

use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, StatusCode, header};
use bytes::Bytes;

use super::{App, Problem};

const TOO_LARGE: Problem = Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "The message is too large.");
const NOT_JSON: Problem = Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "Send JSON, as application/json.");
const TOO_SLOW: Problem = Problem::new(StatusCode::REQUEST_TIMEOUT, "The message took too long.");

/// Reads a body of JSON.
pub(crate) async fn read(app: &App, headers: &HeaderMap, body: Body) -> Result<Bytes, Problem> {
    read_within(app, headers, body, app.hub.limits.message_bytes).await
}

/// Reads a body of JSON that has at most so many bytes.
pub(super) async fn read_within(app: &App, headers: &HeaderMap, body: Body, limit: usize) -> Result<Bytes, Problem> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case("application/json") {
        return Err(NOT_JSON);
    }
    let announced = headers.get(header::CONTENT_LENGTH).and_then(|n| n.to_str().ok()?.parse::<usize>().ok());
    if announced.is_some_and(|bytes| bytes > limit) {
        return Err(TOO_LARGE);
    }
    let reading = tokio::time::timeout(app.hub.limits.request(), to_bytes(body, limit));
    reading.await.map_err(|_| TOO_SLOW)?.map_err(|_| TOO_LARGE)
}
