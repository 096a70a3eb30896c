//! Links have their turn. An agent that says much at once could keep the engine's task busy until all of it was handed
//! out, and nothing would have left by then: the first event would come as late as the last, and a critical one would wait
//! behind everything.

/// What every link may be handed before all have their turn to send. More would make fewer and larger writes, and let a
/// critical event wait longer; 32 keeps most of the one and little of the other.
const EVENTS: usize = 32;

/// About how many tasks have their turn when one of them yields.
const TASKS: usize = 61;

/// Counts what is handed out.
#[derive(Default)]
pub(crate) struct Turns {
    handed: usize,
}

impl Turns {
    /// Something was handed to a link.
    pub(crate) fn count(&mut self) {
        self.handed += 1;
    }

    /// Lets so many links have their turn, if it is time. None of them is waited for.
    pub(crate) async fn give(&mut self, links: usize) {
        if self.handed < links.max(1) * EVENTS {
            return;
        }
        self.handed = 0;
        for _ in 0..=links / TASKS {
            tokio::task::yield_now().await;
        }
    }
}
