//! Waiting until subscribers have received everything, before a producer shuts down.

use std::time::{Duration, Instant};

use aaep::Producer;

/// How long a subscriber may receive nothing before it is no longer waited for.
const STALL_TIMEOUT: Duration = Duration::from_secs(30);

/// How often the queues are checked.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Waits until nothing is queued for any subscriber, as long as they make progress.
pub(crate) async fn wait_until_drained(producer: &Producer) {
    let (mut latest, mut since) = (None, Instant::now());
    while let Some(stats) = producer.stats().await {
        if stats.held == 0 && stats.queued == 0 {
            return;
        }
        let now = Some((stats.counts.delivered, stats.queued));
        if now != latest {
            (latest, since) = (now, Instant::now());
        }
        if since.elapsed() > STALL_TIMEOUT {
            return;
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}
