//! Ends engines that nobody uses.

use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};
use std::time::Duration;

use aaep::stats::ProducerStats;
use aaep_keys::UserId;
use tokio::time::Instant;

use super::{EngineRef, Engines, PerUser};

/// How often unused engines are looked for.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Ends engines that were idle for this long, until the directory is dropped.
pub(super) async fn retire_idle_engines(engines: Weak<Engines>, idle_after: Duration) {
    let mut idle_since: HashMap<UserId, Instant> = HashMap::new();
    let mut interval = tokio::time::interval(CHECK_INTERVAL.min(idle_after.max(Duration::from_millis(1))));
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        interval.tick().await;
        let Some(engines) = engines.upgrade() else { return };
        let Some(per_user) = &engines.per_user else { return };
        let mut still_idle = HashMap::new();
        for unused in per_user.unused_engines() {
            let user = unused.engine.user().clone();
            let Some(stats) = unused.engine.stats().await.filter(ProducerStats::is_idle) else { continue };
            let since = *idle_since.get(&user).unwrap_or(&Instant::now());
            if since.elapsed() < idle_after {
                still_idle.insert(user, since);
            } else if per_user.remove_if_unused(&unused) {
                tracing::debug!("an idle engine has ended");
                let mut retired = per_user.retired();
                retired.producers += stats;
                retired.replies += unused.engine.reply_stats();
            }
        }
        idle_since = still_idle;
    }
}

/// An engine that nothing but the directory held when this was made.
struct UnusedEngine {
    engine: EngineRef,
    /// How often it had been handed out.
    acquired: u64,
}

impl PerUser {
    fn unused_engines(&self) -> Vec<UnusedEngine> {
        let cells = self.cells();
        let engines = cells.values().filter_map(|cell| cell.get());
        let unused = engines.filter(|engine| Arc::strong_count(&engine.0) == 1);
        unused
            .map(|engine| UnusedEngine { engine: engine.clone(), acquired: engine.0.acquired.load(Relaxed) })
            .collect()
    }

    /// Removes an engine, unless it is held or was handed out meanwhile. An engine without sessions and subscriptions
    /// changes only by somebody who holds it, so one that was idle and is removed here is still idle.
    fn remove_if_unused(&self, unused: &UnusedEngine) -> bool {
        let mut cells = self.cells();
        let slot = &unused.engine.0;
        // One reference is the directory's, one is that of `unused`.
        let is_unused = Arc::strong_count(slot) == 2 && slot.acquired.load(Relaxed) == unused.acquired;
        is_unused && cells.remove(unused.engine.user()).is_some()
    }
}
