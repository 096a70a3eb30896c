//! The end of a producer that has nothing more to say: listeners who hear it at their own pace get all of it.

use std::time::{Duration, Instant};

use aaep::Producer;

/// How long who does not take anything is waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// How often it is looked whether subscribers have got everything.
const LOOK: Duration = Duration::from_millis(20);

/// Waits until subscribers have got everything, as long as they take it.
pub(crate) async fn linger(producer: &Producer) {
    let (mut latest, mut since) = (None, Instant::now());
    while let Some(measures) = producer.stats().await {
        if measures.held == 0 && measures.queued == 0 {
            return;
        }
        let now = Some((measures.counts.delivered, measures.queued));
        if now != latest {
            (latest, since) = (now, Instant::now());
        }
        if since.elapsed() > PATIENCE {
            return;
        }
        tokio::time::sleep(LOOK).await;
    }
}
