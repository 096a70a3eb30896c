//! Links have their turn. An agent that says much at once would keep the engine's task busy for as long as the runtime lets
//! it, and nothing would have left by then: the first event would come as late as the last, and a critical one would wait
//! behind all of them.

/// Events that are handed out before links have their turn to send. More would make fewer and larger writes, and let a
/// critical event wait longer; 32 keeps most of the one and little of the other.
const EVENTS: usize = 32;

/// How many tasks have their turn, at least, when one of them yields in a runtime with several threads.
const TASKS: usize = 61;

/// Counts what is handed out.
#[derive(Default)]
pub(crate) struct YieldBudget {
    /// Changes that gave links something.
    changes: usize,
    /// What links were given.
    handed: usize,
    /// The same before the last change.
    before: usize,
}

impl YieldBudget {
    /// A link was given something.
    pub(crate) fn count(&mut self) {
        self.handed += 1;
    }

    /// After a change: lets links have their turn, if it is time. None of them is waited for.
    pub(crate) async fn give(&mut self) {
        self.changes += usize::from(self.handed > self.before);
        self.before = self.handed;
        if self.changes < EVENTS {
            return;
        }
        // About as many links as got each event.
        let links = self.handed / EVENTS;
        *self = YieldBudget::default();
        for _ in 0..=links / TASKS {
            tokio::task::yield_now().await;
        }
    }
}
