//! Backpressure on agents. An agent is slowed only while every connected subscription is blocked: as long as one of them
//! keeps up, the others are served by folding, and closed when too much waits for them. Without a connected subscription
//! there is nobody to wait for.

use std::sync::Arc;

use tokio::sync::watch;

/// The subscriptions of one engine.
#[derive(Clone, Copy, Debug, Default)]
struct Audience {
    /// Subscriptions with a connection.
    connected: usize,
    /// Those of them whose link is full.
    blocked: usize,
}

impl Audience {
    fn is_behind(&self) -> bool {
        self.connected > 0 && self.blocked == self.connected
    }
}

/// Counts subscriptions and lets agents wait for them.
#[derive(Clone, Debug)]
pub(crate) struct Backpressure(Arc<watch::Sender<Audience>>);

impl Backpressure {
    pub(crate) fn new() -> Backpressure {
        Backpressure(Arc::new(watch::Sender::new(Audience::default())))
    }

    /// Counts a subscription as connected, and as keeping up, until the result is dropped.
    pub(crate) fn connect(&self) -> Connected {
        self.change(|audience| audience.connected += 1);
        Connected { pressure: self.clone(), blocked: false }
    }

    /// Waits until a connected subscription keeps up, or none is connected.
    pub(crate) async fn relieved(&self) {
        // This holds the sender, so the channel cannot be closed.
        let _ = self.0.subscribe().wait_for(|audience| !audience.is_behind()).await;
    }

    /// Agents are woken only if the change makes a difference to them.
    fn change(&self, change: impl FnOnce(&mut Audience)) {
        self.0.send_if_modified(|audience| {
            let before = audience.is_behind();
            change(audience);
            audience.is_behind() != before
        });
    }
}

/// A subscription with a connection.
#[derive(Debug)]
pub(crate) struct Connected {
    pressure: Backpressure,
    blocked: bool,
}

impl Connected {
    /// Whether its link is full.
    pub(crate) fn set_blocked(&mut self, blocked: bool) {
        let before = std::mem::replace(&mut self.blocked, blocked);
        self.pressure.change(|audience| {
            audience.blocked -= usize::from(before);
            audience.blocked += usize::from(blocked);
        });
    }
}

impl Drop for Connected {
    fn drop(&mut self) {
        self.pressure.change(|audience| {
            audience.connected -= 1;
            audience.blocked -= usize::from(self.blocked);
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

    /// Whether agents go on.
    async fn is_relieved(pressure: &Backpressure) -> bool {
        tokio::time::timeout(Duration::from_secs(1), pressure.relieved()).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn agents_wait_only_while_every_connected_subscription_is_blocked() {
        let pressure = Backpressure::new();
        assert!(is_relieved(&pressure).await, "nobody is connected");
        let mut first = pressure.connect();
        assert!(is_relieved(&pressure).await);
        first.set_blocked(true);
        first.set_blocked(true);
        assert!(!is_relieved(&pressure).await, "the only one is blocked");
        let mut second = pressure.connect();
        assert!(is_relieved(&pressure).await, "one of two keeps up");
        second.set_blocked(true);
        assert!(!is_relieved(&pressure).await, "both are blocked");
        first.set_blocked(false);
        assert!(is_relieved(&pressure).await, "one of two keeps up again");
        drop(first);
        assert!(!is_relieved(&pressure).await, "the one that is left is blocked");
        drop(second);
        assert!(is_relieved(&pressure).await, "nobody is left");
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
