//! Fairness of a worker towards links. Without it, an agent that emits much at once would keep the worker's task busy
//! for as long as the runtime lets it: the first event would leave as late as the last, and a critical event would wait
//! behind all of them. So the worker yields regularly, and the tasks of links write what they were given.

/// Changes after which the worker yields. A larger number makes fewer and larger writes, but lets a critical event wait
/// longer; 32 gives most of the first and little of the second.
const CHANGES_PER_TURN: usize = 32;

/// Other tasks that a busy worker of tokio's multi-threaded runtime runs before it wakes a task that has yielded. It wakes
/// such tasks when it polls its I/O driver, and it does that once per event interval, which is 61 tasks unless
/// `tokio::runtime::Builder::event_interval` says otherwise.
const TOKIO_EVENT_INTERVAL: usize = 61;

/// Counts what links were given since the worker last yielded.
#[derive(Default)]
pub(crate) struct YieldBudget {
    /// Changes after which at least one link had something to send.
    changes: usize,
    /// Items that were pushed to links.
    pushed: usize,
}

impl YieldBudget {
    /// Counts items that were pushed to links.
    pub(crate) fn add(&mut self, pushed: usize) {
        self.pushed += pushed;
        self.changes += usize::from(pushed > 0);
    }

    /// To be called after changes: yields if enough of them were made, often enough that every link that got something can
    /// run. It does not wait for any link.
    pub(crate) async fn yield_if_spent(&mut self) {
        if self.changes < CHANGES_PER_TURN {
            return;
        }
        let links_per_change = self.pushed / CHANGES_PER_TURN;
        *self = YieldBudget::default();
        for _ in 0..=links_per_change / TOKIO_EVENT_INTERVAL {
            tokio::task::yield_now().await;
        }
    }
}
