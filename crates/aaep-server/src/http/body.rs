//! Reading a request body within its limits of size, time and memory.

use std::future::poll_fn;
use std::pin::Pin;

use axum::body::Body;
use axum::http::{HeaderMap, StatusCode, header};
use bytes::{Bytes, BytesMut};
use http_body::Body as _;

use super::HttpProblem;
use crate::admission::memory_budget::MemoryReservation;
use crate::context::AppState;
use crate::peer::Peer;

const TOO_LARGE: HttpProblem = HttpProblem::new(StatusCode::PAYLOAD_TOO_LARGE, "The message is too large.");
const NOT_JSON: HttpProblem = HttpProblem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "Send JSON, as application/json.");
const INCOMPLETE: HttpProblem = HttpProblem::new(StatusCode::BAD_REQUEST, "The message is incomplete.");
const TOO_SLOW: HttpProblem = HttpProblem::new(StatusCode::REQUEST_TIMEOUT, "The message took too long.");

/// Reads a JSON body within `limits.message_bytes`. The reservation covers its bytes.
pub(crate) async fn read(
    app: &AppState,
    peer: &Peer,
    headers: &HeaderMap,
    body: Body,
) -> Result<(Bytes, MemoryReservation), HttpProblem> {
    let memory = app.context.admission.subscriber_memory(peer.principal());
    read_within(app, headers, body, BodyLimits { max_bytes: app.context.limits.message_bytes, memory }).await
}

/// The limits of a body.
pub(crate) struct BodyLimits {
    pub(crate) max_bytes: usize,
    /// Reserves the bytes as they arrive.
    pub(crate) memory: MemoryReservation,
}

/// Reads a JSON body within the given limits.
pub(super) async fn read_within(
    app: &AppState,
    headers: &HeaderMap,
    body: Body,
    limits: BodyLimits,
) -> Result<(Bytes, MemoryReservation), HttpProblem> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case("application/json") {
        return Err(NOT_JSON);
    }
    let content_length = headers.get(header::CONTENT_LENGTH).and_then(|n| n.to_str().ok()?.parse::<usize>().ok());
    if content_length.is_some_and(|bytes| bytes > limits.max_bytes) {
        return Err(TOO_LARGE);
    }
    collect(app, limits, body).await
}

/// Reads a body within the limits of size, time and memory. Memory is reserved as the bytes arrive, so that a peer that
/// declares a large body and sends little reserves little.
pub(crate) async fn collect(
    app: &AppState,
    limits: BodyLimits,
    mut body: Body,
) -> Result<(Bytes, MemoryReservation), HttpProblem> {
    let BodyLimits { max_bytes, mut memory } = limits;
    let reading = async {
        let mut bytes = BytesMut::new();
        while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
            // A body that ends early is not a message.
            let Ok(data) = frame.map_err(|_| INCOMPLETE)?.into_data() else { continue };
            if bytes.len() + data.len() > max_bytes {
                return Err(TOO_LARGE);
            }
            let length = bytes.len() + data.len();
            memory.resize_unfinished(length).map_err(|error| HttpProblem::no_memory(error.message()))?;
            bytes.extend_from_slice(&data);
        }
        Ok((bytes.freeze(), memory))
    };
    tokio::time::timeout(app.context.limits.request(), reading).await.unwrap_or(Err(TOO_SLOW))
}
