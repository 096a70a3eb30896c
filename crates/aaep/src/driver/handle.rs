//! How producers, sessions and their parts reach the driver.

use std::sync::Arc;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot};

use crate::backpressure::Backpressure;
use crate::driver::DriverState;
use crate::error::Error;
use crate::transport::LinkEvent;
use crate::worker::DriverInputs;

/// Commands that may wait for the driver. Further callers wait until one of them has run.
const MAX_QUEUED_COMMANDS: usize = 256;

/// Messages of subscribers, received by another way than their links, that may wait for the driver.
const MAX_QUEUED_OUT_OF_BAND: usize = 256;

/// One change to the driver's state. It occupies a slot until it has run.
pub(crate) struct DriverCall {
    pub(crate) run: Box<dyn FnOnce(&mut DriverState) + Send>,
    pub(crate) _slot: Option<OwnedSemaphorePermit>,
}

/// Sends commands to the driver. The driver runs at least as long as a handle exists. Clones share everything.
///
/// The channel is unbounded; a semaphore bounds it. So a caller that can wait does so, a `Drop` that cannot wait need
/// not, and all commands stay in order.
#[derive(Clone, Debug)]
pub(crate) struct Handle(Arc<HandleState>);

#[derive(Debug)]
struct HandleState {
    inputs: DriverInputs,
    command_slots: Arc<Semaphore>,
    out_of_band_slots: Arc<Semaphore>,
    backpressure: Backpressure,
    /// Notified when every subscription keeps up again, if a replay waits for that.
    all_keep_up: Arc<Notify>,
}

impl Drop for HandleState {
    fn drop(&mut self) {
        self.inputs.drain();
    }
}

impl Handle {
    pub(crate) fn new(inputs: DriverInputs, backpressure: Backpressure, all_keep_up: Arc<Notify>) -> Handle {
        Handle(Arc::new(HandleState {
            inputs,
            command_slots: Arc::new(Semaphore::new(MAX_QUEUED_COMMANDS)),
            out_of_band_slots: Arc::new(Semaphore::new(MAX_QUEUED_OUT_OF_BAND)),
            backpressure,
            all_keep_up,
        }))
    }

    /// Waits until a connected subscription keeps up, or none is connected.
    pub(crate) async fn wait_for_capacity(&self) {
        self.0.backpressure.wait_clear().await;
    }

    /// Returns what is notified when every subscription keeps up again.
    pub(crate) fn all_keep_up(&self) -> &Notify {
        &self.0.all_keep_up
    }

    /// Waits for a slot for a message that was received by another way than its link.
    pub(crate) async fn out_of_band_slot(&self) -> Result<OwnedSemaphorePermit, Error> {
        self.0.out_of_band_slots.clone().acquire_owned().await.map_err(|_| Error::Gone)
    }

    /// Sends a link event to the driver.
    pub(crate) fn send_link_event(&self, event: LinkEvent) -> Result<(), Error> {
        self.0.inputs.send_link_event(event)
    }

    /// Runs a command in the driver and returns its result. If the caller stops waiting, the result is dropped in the
    /// driver; a result that needs cleaning up does it in its `Drop`.
    pub(crate) async fn call<T: Send + 'static>(
        &self,
        run: impl FnOnce(&mut DriverState) -> T + Send + 'static,
    ) -> Result<T, Error> {
        let slot = self.0.command_slots.clone().acquire_owned().await.map_err(|_| Error::Gone)?;
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
        self.0.inputs.ended().await;
    }

    fn enqueue(
        &self,
        slot: Option<OwnedSemaphorePermit>,
        run: impl FnOnce(&mut DriverState) + Send + 'static,
    ) -> Result<(), Error> {
        self.0.inputs.send_command(DriverCall { run: Box::new(run), _slot: slot })
    }
}
