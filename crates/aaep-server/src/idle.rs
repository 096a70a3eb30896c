//! Connections without a request: they are asked to end, and cut if they do not.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes};
use http_body::{Frame, SizeHint};
use tokio::time::{Instant, Sleep};

use crate::config::Limits;
use crate::places::{Place, Requesting};

/// How long a peer has to end a connection after it was asked to. HTTP/2 needs a round trip for it.
const CLOSING: Duration = Duration::from_secs(1);

/// What is to be done with an idle connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// Ask the peer to end it.
    Close,
    /// Cut it: the peer did not end it in time.
    Cut,
}

/// The deadline of one connection: for its first request, later for the next one.
pub(crate) struct IdleTimer<'a> {
    place: &'a Place,
    limits: &'a Limits,
    sleep: Pin<Box<Sleep>>,
    closing: bool,
}

impl<'a> IdleTimer<'a> {
    pub(crate) fn new(place: &'a Place, limits: &'a Limits) -> IdleTimer<'a> {
        IdleTimer { place, limits, sleep: Box::pin(tokio::time::sleep(limits.request())), closing: false }
    }

    /// Ready when something is to be done: first with [`Due::Close`], then with [`Due::Cut`].
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Due> {
        loop {
            ready!(self.sleep.as_mut().poll(cx));
            let now = Instant::now();
            match self.place.idle_until(self.limits) {
                Some(until) if until <= now => {
                    self.sleep.as_mut().reset(now + CLOSING);
                    let due = if self.closing { Due::Cut } else { Due::Close };
                    self.closing = true;
                    return Poll::Ready(due);
                }
                Some(until) => self.sleep.as_mut().reset(until),
                // It is in use. How long it will be idle afterwards is known then.
                None => self.sleep.as_mut().reset(now + self.limits.idle().max(CLOSING)),
            }
        }
    }
}

/// The body of an answer, whose request is in progress until all of it is sent or thrown away.
pub(crate) struct Tracked {
    body: Body,
    _request: Requesting,
}

impl Tracked {
    pub(crate) fn wrap(body: Body, request: Requesting) -> Body {
        Body::new(Tracked { body, _request: request })
    }
}

impl http_body::Body for Tracked {
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
    use crate::places::{Origin, Places};

    #[tokio::test(start_paused = true)]
    async fn an_idle_connection_is_asked_to_end_and_then_cut() {
        let limits = Limits { request_seconds: 10, idle_seconds: 60, ..Limits::default() };
        let place = Places::new(&limits).admit(Origin::Local).unwrap().place;
        let mut timer = IdleTimer::new(&place, &limits);
        let start = Instant::now();
        assert_eq!(poll_fn(|cx| timer.poll(cx)).await, Due::Close);
        assert_eq!(start.elapsed().as_secs(), 10);
        assert_eq!(poll_fn(|cx| timer.poll(cx)).await, Due::Cut);
        assert_eq!(start.elapsed().as_secs(), 11);
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_in_use_is_left_alone() {
        let limits = Limits { request_seconds: 10, idle_seconds: 60, ..Limits::default() };
        let place = Places::new(&limits).admit(Origin::Local).unwrap().place;
        let mut timer = IdleTimer::new(&place, &limits);
        let request = place.request();
        let waiting = tokio::time::timeout(Duration::from_secs(10_000), poll_fn(|cx| timer.poll(cx)));
        assert!(waiting.await.is_err(), "its request is still in progress");
        drop(request);
        let ended = Instant::now();
        assert_eq!(poll_fn(|cx| timer.poll(cx)).await, Due::Close);
        assert_eq!(ended.elapsed().as_secs(), 60);
    }
}
