//! A request's body, within its bounds of size and time.

use std::future::poll_fn;
use std::pin::Pin;

use axum::body::Body;
use axum::http::{HeaderMap, StatusCode, header};
use bytes::{Bytes, BytesMut};
use http_body::Body as _;

use super::{App, Problem};
use crate::context::Peer;
use crate::memory_budget::Reservation;

const TOO_LARGE: Problem = Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "The message is too large.");
const NOT_JSON: Problem = Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "Send JSON, as application/json.");
const BROKEN_OFF: Problem = Problem::new(StatusCode::BAD_REQUEST, "The message broke off.");
const TOO_SLOW: Problem = Problem::new(StatusCode::REQUEST_TIMEOUT, "The message took too long.");

/// Reads a body of JSON. The reservation is for its bytes.
pub(crate) async fn read(
    app: &App,
    peer: &Peer,
    headers: &HeaderMap,
    body: Body,
) -> Result<(Bytes, Reservation), Problem> {
    let memory = app.hub.admission.subscriber_memory(peer.principal());
    read_within(app, headers, body, Room { limit: app.hub.limits.message_bytes, memory }).await
}

/// What a body may have.
pub(crate) struct Room {
    /// Most bytes.
    pub(crate) limit: usize,
    /// Where they are reserved.
    pub(crate) memory: Reservation,
}

/// Reads a body of JSON that fits.
pub(super) async fn read_within(
    app: &App,
    headers: &HeaderMap,
    body: Body,
    room: Room,
) -> Result<(Bytes, Reservation), Problem> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case("application/json") {
        return Err(NOT_JSON);
    }
    let announced = headers.get(header::CONTENT_LENGTH).and_then(|n| n.to_str().ok()?.parse::<usize>().ok());
    if announced.is_some_and(|bytes| bytes > room.limit) {
        return Err(TOO_LARGE);
    }
    collect(app, room, body).await
}

/// Reads a body within the limits of size, time and memory. The memory is reserved as the bytes arrive, so that a peer
/// that announces much and sends little occupies little.
pub(crate) async fn collect(app: &App, room: Room, mut body: Body) -> Result<(Bytes, Reservation), Problem> {
    let Room { limit, mut memory } = room;
    let reading = async {
        let mut bytes = BytesMut::new();
        while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
            // A body that breaks off is no message.
            let Ok(data) = frame.map_err(|_| BROKEN_OFF)?.into_data() else { continue };
            if bytes.len() + data.len() > limit {
                return Err(TOO_LARGE);
            }
            let length = bytes.len() + data.len();
            memory.resize_unfinished(length).map_err(|error| Problem::no_memory(error.message()))?;
            bytes.extend_from_slice(&data);
        }
        Ok((bytes.freeze(), memory))
    };
    tokio::time::timeout(app.hub.limits.request(), reading).await.unwrap_or(Err(TOO_SLOW))
}
