//! Peers that send too much are slowed down before they are closed.

use std::time::Duration;

use aaep::id::ReplyToken;
use aaep_keys::Role;
use serde::Deserialize;
use tokio::time::Instant;

use crate::admission::rate::{BucketLevel, ControlFrameAction, ControlFrameRate, EXCESS_SECONDS, RequestPurpose};
use crate::close::{Close, TOO_MANY};
use crate::connection::{Received, Source};
use crate::context::ServerContext;
use crate::peer::Peer;

/// The longest time for which a connection is not read before it is tried again.
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// Why a connection is closed that sends nothing but pings.
pub(crate) const TOO_MANY_CONTROL_FRAMES: &str = "too many control frames";

/// The messages of one connection, within the rate of its principal.
#[derive(Debug, Default)]
pub(crate) struct MessageThrottle {
    /// Messages in a row that had to wait.
    in_a_row: u32,
}

impl MessageThrottle {
    /// Waits until a message is within the rate; nothing more is read meanwhile, so the peer has to wait too. A reply to
    /// an open question never waits. The peer that goes on in spite of this for ten seconds' worth of messages is closed.
    pub(crate) async fn pass(&mut self, context: &ServerContext, peer: &Peer, bytes: &[u8]) -> Result<(), Close> {
        let mut pause = match context.rates.take(peer.principal(), RequestPurpose::Reply) {
            Ok(BucketLevel::Calm) => {
                self.in_a_row = 0;
                return Ok(());
            }
            Ok(BucketLevel::Low) => return Ok(()),
            Err(pause) => pause,
        };
        if answers_open_question(context, peer, bytes) {
            return Ok(());
        }
        context.metrics.throttled();
        self.in_a_row += 1;
        if self.in_a_row > EXCESS_SECONDS.saturating_mul(context.rates.per_second()) {
            return Err(Close::violation(TOO_MANY));
        }
        loop {
            tokio::time::sleep(pause).await;
            match context.rates.take(peer.principal(), RequestPurpose::Reply) {
                Ok(_) => return Ok(()),
                // Many connections of one principal may wait for the same budget; they must not all try all the time.
                Err(least) => pause = (pause * 2).min(MAX_PAUSE).max(least),
            }
        }
    }
}

/// Whether this is a reply to a question that is open, by someone who may reply. It is not read any further here.
pub(crate) fn answers_open_question(context: &ServerContext, peer: &Peer, bytes: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Reply {
        reply_token: String,
    }
    let token = || serde_json::from_slice::<Reply>(bytes).ok()?.reply_token.parse::<ReplyToken>().ok();
    peer.may(Role::Reply) && token().is_some_and(|token| context.producer.awaits_reply(&token))
}

/// A source whose control frames are within their rate.
pub(crate) struct PacedSource<S> {
    source: S,
    frames: ControlFrameRate,
    /// Nothing is read before this.
    resume_at: Option<Instant>,
}

impl<S> PacedSource<S> {
    pub(crate) fn new(source: S) -> PacedSource<S> {
        PacedSource { source, frames: ControlFrameRate::new(), resume_at: None }
    }
}

impl<S: Source> Source for PacedSource<S> {
    async fn next(&mut self) -> Received {
        // It is kept until it is over: the caller may give up waiting and come back.
        if let Some(at) = self.resume_at {
            tokio::time::sleep_until(at).await;
            self.resume_at = None;
        }
        let received = self.source.next().await;
        if matches!(received, Received::Alive) {
            match self.frames.count() {
                ControlFrameAction::Pass => {}
                ControlFrameAction::Pause(pause) => self.resume_at = Some(Instant::now() + pause),
                ControlFrameAction::Excessive => return Received::Violation(TOO_MANY_CONTROL_FRAMES),
            }
        }
        received
    }
}

#[cfg(test)]
mod tests {
    use aaep::Producer;

    use super::*;
    use crate::config::Limits;
    use crate::metrics::Transport;
    use aaep_proto::binding::CloseCode;

    fn context(requests_per_second: u32) -> ServerContext {
        ServerContext::standalone(Producer::builder("a").build())
            .with_limits(Limits { requests_per_second, ..Limits::default() })
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_sends_too_much_is_slowed_down_and_then_closed() {
        let (context, peer) = (context(5), Peer::local(Transport::WebSocket));
        let (mut throttle, start) = (MessageThrottle::default(), Instant::now());
        let mut passed = 0;
        let close = loop {
            match throttle.pass(&context, &peer, b"{}").await {
                Ok(()) => passed += 1,
                Err(close) => break close,
            }
        };
        assert_eq!((close.code, close.reason.as_str()), (CloseCode::Violation, TOO_MANY));
        assert!((50..=70).contains(&passed), "{passed} messages");
        assert!(start.elapsed() >= Duration::from_secs(9), "{:?}", start.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_that_ends_is_forgiven() {
        let (context, peer) = (context(5), Peer::local(Transport::WebSocket));
        let mut throttle = MessageThrottle::default();
        for _ in 0..10 {
            for _ in 0..30 {
                throttle.pass(&context, &peer, b"{}").await.unwrap();
            }
            tokio::time::advance(Duration::from_secs(10)).await;
        }
    }

    struct Pinging;

    impl Source for Pinging {
        async fn next(&mut self) -> Received {
            Received::Alive
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_ping_flood_is_slowed_down_and_then_a_violation() {
        let (mut source, start) = (PacedSource::new(Pinging), Instant::now());
        let mut frames = 0;
        while matches!(source.next().await, Received::Alive) {
            frames += 1;
        }
        assert!(start.elapsed() >= Duration::from_secs(10), "{frames} frames in {:?}", start.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn giving_up_does_not_shorten_the_pause() {
        let (mut source, start) = (PacedSource::new(Pinging), Instant::now());
        for _ in 0..10_000 {
            let _ = tokio::time::timeout(Duration::from_millis(1), source.next()).await;
        }
        assert!(start.elapsed() >= Duration::from_secs(9), "{:?}", start.elapsed());
    }
}
