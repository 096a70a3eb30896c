//! The idle timeout of HTTP connections: they are closed gracefully, and aborted if that takes too long.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes};
use http_body::{Frame, SizeHint};
use tokio::time::{Instant, Sleep};

use crate::admission::connection_slots::{ConnectionSlot, RequestGuard};
use crate::config::Limits;

/// How long a graceful close may take. HTTP/2 needs a round trip for it.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// What to do with an idle connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IdleAction {
    /// Close it gracefully.
    Close,
    /// Abort it: the graceful close took too long.
    Abort,
}

/// The idle timer of one connection: until its first request, later until the next one.
pub(crate) struct IdleTimer<'a> {
    slot: &'a ConnectionSlot,
    limits: &'a Limits,
    sleep: Pin<Box<Sleep>>,
    closing: bool,
}

impl<'a> IdleTimer<'a> {
    pub(crate) fn new(slot: &'a ConnectionSlot, limits: &'a Limits) -> IdleTimer<'a> {
        IdleTimer { slot, limits, sleep: Box::pin(tokio::time::sleep(limits.request())), closing: false }
    }

    /// Ready when the connection is idle for too long: first with [`IdleAction::Close`], then with [`IdleAction::Abort`].
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<IdleAction> {
        loop {
            ready!(self.sleep.as_mut().poll(cx));
            let now = Instant::now();
            match self.slot.idle_until(self.limits) {
                Some(until) if until <= now => {
                    self.sleep.as_mut().reset(now + CLOSE_TIMEOUT);
                    let due = if self.closing { IdleAction::Abort } else { IdleAction::Close };
                    self.closing = true;
                    return Poll::Ready(due);
                }
                Some(until) => self.sleep.as_mut().reset(until),
                // It is in use: check again after the shortest time in which it could be idle for too long.
                None => self.sleep.as_mut().reset(now + self.limits.idle().max(CLOSE_TIMEOUT)),
            }
        }
    }
}

/// A response body. Its request counts as in progress until the body is sent or dropped.
pub(crate) struct TrackedBody {
    body: Body,
    _request: RequestGuard,
}

impl TrackedBody {
    pub(crate) fn wrap(body: Body, request: RequestGuard) -> Body {
        Body::new(TrackedBody { body, _request: request })
    }
}

impl http_body::Body for TrackedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;
    use crate::admission::connection_slots::{ConnectionOrigin, ConnectionSlots};

    #[tokio::test(start_paused = true)]
    async fn idle_connection_is_closed_and_then_aborted() {
        let limits = Limits { request_seconds: 10, idle_seconds: 60, ..Limits::default() };
        let slot = ConnectionSlots::new(&limits).admit(ConnectionOrigin::Local).unwrap().slot;
        let mut timer = IdleTimer::new(&slot, &limits);
        let start = Instant::now();
        assert_eq!(poll_fn(|cx| timer.poll(cx)).await, IdleAction::Close);
        assert_eq!(start.elapsed().as_secs(), 10);
        assert_eq!(poll_fn(|cx| timer.poll(cx)).await, IdleAction::Abort);
        assert_eq!(start.elapsed().as_secs(), 11);
    }

    #[tokio::test(start_paused = true)]
    async fn connection_in_use_is_kept() {
        let limits = Limits { request_seconds: 10, idle_seconds: 60, ..Limits::default() };
        let slot = ConnectionSlots::new(&limits).admit(ConnectionOrigin::Local).unwrap().slot;
        let mut timer = IdleTimer::new(&slot, &limits);
        let request = slot.start_request();
        let waiting = tokio::time::timeout(Duration::from_secs(10_000), poll_fn(|cx| timer.poll(cx)));
        assert!(waiting.await.is_err(), "its request is still in progress");
        drop(request);
        let ended = Instant::now();
        assert_eq!(poll_fn(|cx| timer.poll(cx)).await, IdleAction::Close);
        assert_eq!(ended.elapsed().as_secs(), 60);
    }
}
