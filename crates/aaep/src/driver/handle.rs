//! How producers, sessions and their parts reach the driver's task.

use std::sync::Arc;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use crate::backpressure::Backpressure;
use crate::driver::DriverState;
use crate::error::Error;
use crate::transport::LinkEvent;

/// Commands that may wait for the driver. Further callers wait until one of them has run.
pub(crate) const MAX_QUEUED_COMMANDS: usize = 256;

/// Messages of subscribers, received by another way than their links, that may wait for the driver.
pub(crate) const MAX_QUEUED_OUT_OF_BAND: usize = 256;

/// One change to the driver's state. It occupies a slot until it has run.
pub(crate) struct DriverCall {
    pub(crate) run: Box<dyn FnOnce(&mut DriverState) + Send>,
    pub(crate) _slot: Option<OwnedSemaphorePermit>,
}

/// Sends commands to the driver. The driver runs at least as long as a handle exists.
///
/// The channel is unbounded; a semaphore bounds it. So a caller that can wait does so, a `Drop` that cannot wait need
/// not, and all commands stay in order.
#[derive(Clone, Debug)]
pub(crate) struct Handle {
    pub(crate) commands: mpsc::UnboundedSender<DriverCall>,
    pub(crate) command_slots: Arc<Semaphore>,
    pub(crate) link_events: mpsc::UnboundedSender<LinkEvent>,
    pub(crate) out_of_band_slots: Arc<Semaphore>,
    pub(crate) backpressure: Backpressure,
    /// Notified when every subscription keeps up again, if a replay waits for that.
    pub(crate) all_keep_up: Arc<Notify>,
}

impl Handle {
    /// Runs a command in the driver and returns its result. If the caller stops waiting, the result is dropped in the
    /// driver; a result that needs cleaning up does it in its `Drop`.
    pub(crate) async fn call<T: Send + 'static>(
        &self,
        run: impl FnOnce(&mut DriverState) -> T + Send + 'static,
    ) -> Result<T, Error> {
        let slot = self.command_slots.clone().acquire_owned().await.map_err(|_| Error::Gone)?;
        let (result_tx, result) = oneshot::channel();
        self.enqueue(Some(slot), move |driver| drop(result_tx.send(run(driver))))?;
        result.await.map_err(|_| Error::Gone)
    }

    /// Runs a command in the driver without waiting for a slot or for a result. Use it at most once per value returned by
    /// [`Handle::call`]; this bounds the channel.
    pub(crate) fn send(&self, run: impl FnOnce(&mut DriverState) + Send + 'static) {
        // An error means that the driver has ended, and everything that the command could change with it.
        let _ = self.enqueue(None, run);
    }

    /// Waits until the driver has ended.
    pub(crate) async fn ended(&self) {
        self.commands.closed().await;
    }

    fn enqueue(
        &self,
        slot: Option<OwnedSemaphorePermit>,
        run: impl FnOnce(&mut DriverState) + Send + 'static,
    ) -> Result<(), Error> {
        self.commands.send(DriverCall { run: Box::new(run), _slot: slot }).map_err(|_| Error::Gone)
    }
}
