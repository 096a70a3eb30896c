//! Who holds up the flow: readers that do not keep up. Agents that can wait do, so that nothing is lost and nothing
//! grows.

use std::sync::Arc;

use tokio::sync::watch;

/// How many readers do not keep up.
#[derive(Clone, Debug)]
pub(crate) struct Pressure(Arc<watch::Sender<usize>>);

impl Pressure {
    pub(crate) fn new() -> Pressure {
        Pressure(Arc::new(watch::Sender::new(0)))
    }

    /// Counts a reader for as long as the mark is there.
    pub(crate) fn mark(&self) -> Mark {
        self.0.send_modify(|count| *count += 1);
        Mark(self.clone())
    }

    /// Waits until all readers keep up.
    pub(crate) async fn gone(&self) {
        // The sender is here, so it cannot be gone.
        let _ = self.0.subscribe().wait_for(|count| *count == 0).await;
    }
}

/// One reader that does not keep up.
#[derive(Debug)]
pub(crate) struct Mark(Pressure);

impl Drop for Mark {
    fn drop(&mut self) {
        self.0.0.send_modify(|count| *count -= 1);
    }
}
