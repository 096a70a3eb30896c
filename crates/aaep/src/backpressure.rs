//! Backpressure on agents. An agent is slowed down only while every connected subscription is blocked. As long as one of
//! them keeps up, events for the others are coalesced, and a subscription for which too much is queued is closed. Without a
//! connected subscription an agent never waits.

use std::sync::Arc;

use tokio::sync::watch;

/// How many subscriptions of one engine are connected and blocked.
#[derive(Clone, Copy, Debug, Default)]
struct SubscriptionCounts {
    /// Subscriptions with a connection.
    connected: usize,
    /// Connected subscriptions whose link is full.
    blocked: usize,
}

impl SubscriptionCounts {
    fn are_all_blocked(&self) -> bool {
        self.connected > 0 && self.blocked == self.connected
    }
}

/// Counts subscriptions and lets agents wait until one of them keeps up.
#[derive(Clone, Debug)]
pub(crate) struct Backpressure(Arc<watch::Sender<SubscriptionCounts>>);

impl Backpressure {
    pub(crate) fn new() -> Backpressure {
        Backpressure(Arc::new(watch::Sender::new(SubscriptionCounts::default())))
    }

    /// Counts a subscription as connected, and as keeping up, until the guard is dropped.
    pub(crate) fn connect(&self) -> ConnectedGuard {
        self.change(|counts| counts.connected += 1);
        ConnectedGuard { backpressure: self.clone(), blocked: false }
    }

    /// Waits until a connected subscription keeps up, or none is connected.
    pub(crate) async fn wait_clear(&self) {
        // An error would mean that the channel is closed, but `self` holds its sender.
        let _ = self.0.subscribe().wait_for(|counts| !counts.are_all_blocked()).await;
    }

    /// Changes the counts. Waiting agents are woken only if the change makes a difference to them.
    fn change(&self, change: impl FnOnce(&mut SubscriptionCounts)) {
        self.0.send_if_modified(|counts| {
            let before = counts.are_all_blocked();
            change(counts);
            counts.are_all_blocked() != before
        });
    }
}

/// Counts a subscription as connected until it is dropped.
#[derive(Debug)]
pub(crate) struct ConnectedGuard {
    backpressure: Backpressure,
    blocked: bool,
}

impl ConnectedGuard {
    /// Sets whether the link of the subscription is full.
    pub(crate) fn set_blocked(&mut self, blocked: bool) {
        let before = std::mem::replace(&mut self.blocked, blocked);
        self.backpressure.change(|counts| {
            counts.blocked -= usize::from(before);
            counts.blocked += usize::from(blocked);
        });
    }
}

impl Drop for ConnectedGuard {
    fn drop(&mut self) {
        self.backpressure.change(|counts| {
            counts.connected -= 1;
            counts.blocked -= usize::from(self.blocked);
        });
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use aaep_proto::message::Capabilities;

    use super::*;
    use crate::Producer;
    use crate::transport::ResumePolicy;

    /// Whether agents need not wait.
    async fn is_clear(backpressure: &Backpressure) -> bool {
        tokio::time::timeout(Duration::from_secs(1), backpressure.wait_clear()).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn agents_wait_only_while_every_connected_subscription_is_blocked() {
        let backpressure = Backpressure::new();
        assert!(is_clear(&backpressure).await, "nobody is connected");
        let mut first = backpressure.connect();
        assert!(is_clear(&backpressure).await);
        first.set_blocked(true);
        first.set_blocked(true);
        assert!(!is_clear(&backpressure).await, "the only one is blocked");
        let mut second = backpressure.connect();
        assert!(is_clear(&backpressure).await, "one of two keeps up");
        second.set_blocked(true);
        assert!(!is_clear(&backpressure).await, "both are blocked");
        first.set_blocked(false);
        assert!(is_clear(&backpressure).await, "one of two keeps up again");
        drop(first);
        assert!(!is_clear(&backpressure).await, "the one that is left is blocked");
        drop(second);
        assert!(is_clear(&backpressure).await, "nobody is left");
    }

    #[tokio::test(start_paused = true)]
    async fn a_subscription_whose_connection_is_lost_neither_keeps_up_nor_blocks() {
        let producer = Producer::builder("patient").build();
        let request = aaep_proto::subscriber::SubscriberConfig::new("away", Capabilities::default()).request;
        let away = producer.subscribe(&request, "away", ResumePolicy::Resumable).await.unwrap();
        let stalled = producer.subscribe_local("stalled", Capabilities::default()).await.unwrap();
        let session = producer.session("Working.").await.unwrap();
        let output = session.output().await.unwrap();
        for _ in 0..600 {
            output.write("This is a sentence. ").await.unwrap();
        }
        let ready = async || {
            // Simulated time passes only when every task is idle, so the engine has handled everything by then.
            tokio::time::sleep(Duration::from_secs(1)).await;
            tokio::time::timeout(Duration::from_secs(1), producer.wait_for_capacity()).await.is_ok()
        };
        assert!(!ready().await, "both are blocked");
        let id = away.id().clone();
        drop(away);
        assert!(!ready().await, "the one that is connected is blocked");
        let mut back = producer.resume(&id, "away", None).await.unwrap();
        while tokio::time::timeout(Duration::from_secs(1), back.recv()).await.is_ok() {}
        assert!(ready().await, "one of two has read everything");
        drop(back);
        assert!(!ready().await, "the one that is connected is blocked");
        drop(stalled);
        assert!(ready().await, "nobody is connected");
    }
}
