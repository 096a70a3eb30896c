//! Slows down peers that exceed their rate, and closes those that do not stop.

use std::time::Duration;

use aaep_keys::Role;
use aaep_proto::inbound::Inbound;
use aaep_proto::message::Message;
use tokio::time::Instant;

use crate::admission::rate::{BucketLevel, ControlFrameAction, ControlFrameRate, EXCESS_SECONDS, RequestPurpose};
use crate::close::{Close, Violation};
use crate::connection::{Received, Source};
use crate::context::ServerContext;
use crate::peer::Peer;

/// The longest pause before the rate is checked again.
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// Keeps the messages of one connection within the rate of its principal.
#[derive(Debug, Default)]
pub(crate) struct MessageThrottle {
    /// Consecutive messages that exceeded the rate.
    in_a_row: u32,
}

impl MessageThrottle {
    /// Waits until a message is within the rate. Nothing is read meanwhile, so the peer is slowed down too. A reply to an
    /// open question never waits. Fails if the peer goes on for [`EXCESS_SECONDS`] worth of messages.
    pub(crate) async fn pass(&mut self, context: &ServerContext, peer: &Peer, message: &Inbound) -> Result<(), Close> {
        let mut pause = match context.rates.take(peer.principal(), RequestPurpose::Reply) {
            Ok(BucketLevel::High) => {
                self.in_a_row = 0;
                return Ok(());
            }
            Ok(BucketLevel::Low) => return Ok(()),
            Err(pause) => pause,
        };
        if answers_open_question(context, peer, message) {
            return Ok(());
        }
        context.metrics.throttled();
        self.in_a_row += 1;
        if self.in_a_row > EXCESS_SECONDS.saturating_mul(context.rates.per_second()) {
            return Err(Close::violation(Violation::TooManyMessages));
        }
        loop {
            tokio::time::sleep(pause).await;
            match context.rates.take(peer.principal(), RequestPurpose::Reply) {
                Ok(_) => return Ok(()),
                // Many connections of one principal may wait for the same budget, so they back off.
                Err(least) => pause = (pause * 2).min(MAX_PAUSE).max(least),
            }
        }
    }
}

/// Returns whether a message is a reply to an open question, by a peer that may reply.
pub(crate) fn answers_open_question(context: &ServerContext, peer: &Peer, message: &Inbound) -> bool {
    let token = match message {
        Inbound::Message(Message::ConfirmationReply(reply)) => &reply.reply_token,
        Inbound::Message(Message::ClarificationReply(reply)) => &reply.reply_token,
        _ => return false,
    };
    peer.may(Role::Reply) && context.engines.awaits_reply(peer, token)
}

/// A source that keeps control frames within their rate.
pub(crate) struct PacedSource<S> {
    source: S,
    frames: ControlFrameRate,
    /// Nothing is read before this time.
    resume_at: Option<Instant>,
}

impl<S> PacedSource<S> {
    pub(crate) fn new(source: S) -> PacedSource<S> {
        PacedSource { source, frames: ControlFrameRate::new(), resume_at: None }
    }
}

impl<S: Source> Source for PacedSource<S> {
    async fn next(&mut self) -> Received {
        // Kept until the pause is over, because the caller may drop this future and call again.
        if let Some(at) = self.resume_at {
            tokio::time::sleep_until(at).await;
            self.resume_at = None;
        }
        let received = self.source.next().await;
        if matches!(received, Received::Alive) {
            match self.frames.count() {
                ControlFrameAction::Pass => {}
                ControlFrameAction::Pause(pause) => self.resume_at = Some(Instant::now() + pause),
                ControlFrameAction::Excessive => return Received::Violation(Violation::TooManyControlFrames),
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
    async fn peer_above_its_rate_is_slowed_down_and_then_closed() {
        let (context, peer) = (context(5), Peer::local(Transport::WebSocket));
        let (mut throttle, start) = (MessageThrottle::default(), Instant::now());
        let mut passed = 0;
        let close = loop {
            match throttle.pass(&context, &peer, &Inbound::read(b"{}")).await {
                Ok(()) => passed += 1,
                Err(close) => break close,
            }
        };
        assert_eq!((close.code, close.reason.as_str()), (CloseCode::Violation, Violation::TooManyMessages.as_str()));
        assert!((50..=70).contains(&passed), "{passed} messages");
        assert!(start.elapsed() >= Duration::from_secs(9), "{:?}", start.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn burst_that_ends_is_tolerated() {
        let (context, peer) = (context(5), Peer::local(Transport::WebSocket));
        let mut throttle = MessageThrottle::default();
        for _ in 0..10 {
            for _ in 0..30 {
                throttle.pass(&context, &peer, &Inbound::read(b"{}")).await.unwrap();
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
    async fn ping_flood_is_slowed_down_and_then_a_violation() {
        let (mut source, start) = (PacedSource::new(Pinging), Instant::now());
        let mut frames = 0;
        while matches!(source.next().await, Received::Alive) {
            frames += 1;
        }
        assert!(start.elapsed() >= Duration::from_secs(10), "{frames} frames in {:?}", start.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn cancelling_a_read_does_not_shorten_the_pause() {
        let (mut source, start) = (PacedSource::new(Pinging), Instant::now());
        for _ in 0..10_000 {
            let _ = tokio::time::timeout(Duration::from_millis(1), source.next()).await;
        }
        assert!(start.elapsed() >= Duration::from_secs(9), "{:?}", start.elapsed());
    }
}
