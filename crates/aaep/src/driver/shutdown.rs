//! How the driver ends: on request, or when the last handle is dropped. Subscribers that read may get what is
//! queued for them first.

use std::time::Duration;

use aaep_proto::engine::{CloseInfo, SubscriptionKey};
use aaep_proto::message::CloseReason;
use aaep_proto::time::Moment;

use crate::driver::DriverState;
use crate::transport::LinkTx;

/// How long to wait for a subscriber that does not read, after the last handle was dropped.
const DRAIN_TIMEOUT_SECS: u64 = 30;

/// When and how the driver ends.
#[derive(Clone, Debug)]
pub(crate) struct Shutdown {
    deadline: Moment,
    close_info: CloseInfo,
    /// Whether subscribers that keep reading may take longer than the deadline.
    wait_for_readers: bool,
}

fn producer_ended() -> CloseInfo {
    CloseInfo { reason: CloseReason::ProducerEnded, message: "The agent has ended.".to_owned() }
}

impl DriverState {
    /// Cancels all sessions. All subscriptions are closed as soon as nothing is held for them, at the latest after `grace`.
    pub(crate) fn shut_down(&mut self, grace: Duration, summary: &str) {
        self.with_engine(|engine, cx| engine.cancel_all(cx, summary));
        let deadline = self.clock.now().moment.plus_micros(u64::try_from(grace.as_micros()).unwrap_or(u64::MAX));
        let close_info =
            CloseInfo { reason: CloseReason::ProducerShutdown, message: "The producer shuts down.".to_owned() };
        self.shutdown.get_or_insert(Shutdown { deadline, close_info, wait_for_readers: false });
    }

    /// Ends the driver as soon as subscribers that read have got what is held for them. No handle is left, so nothing new
    /// can be emitted.
    pub(crate) fn begin_drain(&mut self) {
        let deadline = self.clock.now().moment.plus_seconds(DRAIN_TIMEOUT_SECS);
        self.shutdown.get_or_insert(Shutdown { deadline, close_info: producer_ended(), wait_for_readers: true });
    }

    /// Restarts the time limit of a drain, because a link was sent something.
    pub(crate) fn extend_drain(&mut self) {
        if self.shutdown.as_ref().is_some_and(|shutdown| shutdown.wait_for_readers) {
            self.shutdown = None;
            self.begin_drain();
        }
    }

    /// Returns the deadline of the shutdown if there is one and it has not passed.
    pub(crate) fn shutdown_deadline(&self) -> Option<Moment> {
        let now = self.clock.now().moment;
        self.shutdown.as_ref().map(|shutdown| shutdown.deadline).filter(|deadline| *deadline > now)
    }

    /// Whether the driver can end now.
    pub(crate) fn is_finished(&self) -> bool {
        let Some(shutdown) = &self.shutdown else { return false };
        let is_late = self.clock.now().moment >= shutdown.deadline;
        let must_wait = |(key, link_tx): (&SubscriptionKey, &LinkTx)| {
            let has_more = link_tx.has_reader() && self.engine.waiting(*key) > 0;
            has_more && (!is_late || (shutdown.wait_for_readers && !link_tx.is_blocked()))
        };
        !self.links.iter().any(must_wait)
    }

    /// Closes all subscriptions and waits until everything is recorded.
    pub(crate) async fn close_all(&mut self) {
        let info = self.shutdown.as_ref().map_or_else(producer_ended, |shutdown| shutdown.close_info.clone());
        for key in self.links.keys().copied().collect::<Vec<_>>() {
            self.with_engine(|engine, cx| engine.close_subscription(cx, key, info.clone()));
        }
        let ticket = self.commit_ticket();
        self.flush();
        if let Some(ticket) = ticket {
            // The driver ends whether the records could be committed or not.
            let _ = ticket.await;
        }
    }
}
