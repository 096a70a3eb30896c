//! Waiting until subscribers have received everything, before a producer shuts down.

use std::time::{Duration, Instant};

use aaep::Producer;

/// How long a subscriber may not take what is queued for it before it is no longer waited for.
const STALL_TIMEOUT: Duration = Duration::from_secs(30);

/// How often the queues are checked.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Waits until subscribers have received everything, as long as they take it. Text that is held to keep a pace is waited
/// for, however slow the pace is.
pub(crate) async fn wait_until_drained(producer: &Producer) {
    let (mut latest, mut since) = (None, Instant::now());
    while let Some(stats) = producer.stats().await {
        if stats.held == 0 && stats.queued == 0 {
            return;
        }
        let now = Some((stats.counts.delivered, stats.queued));
        if now != latest || stats.queued == 0 {
            (latest, since) = (now, Instant::now());
        }
        if since.elapsed() > STALL_TIMEOUT {
            return;
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}
