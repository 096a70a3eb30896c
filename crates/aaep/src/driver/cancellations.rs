//! Who waits for a user that asks the agent of a session to stop.

use std::collections::BTreeMap;

use aaep_proto::engine::{CancelRequest, EngineError};
use aaep_proto::id::SessionId;
use tokio::sync::watch;

use crate::driver::{DriverState, Handle};
use crate::error::Error;

/// How many entries of ended sessions are kept before they are looked for.
const MAX_STALE_ENTRIES: usize = 64;

/// The receivers of requests, by session.
#[derive(Debug, Default)]
pub(crate) struct Cancellations {
    waiting: BTreeMap<SessionId, watch::Sender<Option<CancelRequest>>>,
}

impl Cancellations {
    /// Passes a request to those who wait for it.
    pub(crate) fn notify(&mut self, session: &SessionId, request: CancelRequest) {
        if let Some(waiting) = self.waiting.remove(session) {
            waiting.send_replace(Some(request));
        }
    }
}

impl DriverState {
    /// Lets the agent of a session wait for a request to cancel it.
    fn watch_cancellation(
        &mut self,
        session: &SessionId,
    ) -> Result<watch::Receiver<Option<CancelRequest>>, EngineError> {
        if let Some(request) = self.with_engine(|engine, _| engine.accept_cancel_requests(session))? {
            return Ok(watch::channel(Some(request)).1);
        }
        let waiting = &mut self.cancellations.waiting;
        if waiting.len() >= 2 * self.engine.open_sessions() + MAX_STALE_ENTRIES {
            waiting.retain(|_, sender| !sender.is_closed());
        }
        Ok(waiting.entry(session.clone()).or_insert_with(|| watch::channel(None).0).subscribe())
    }
}

impl Handle {
    /// Waits until a user asks the agent of a session to stop.
    pub(crate) async fn cancel_requested(self, session: SessionId) -> Result<CancelRequest, Error> {
        let mut request = self.call(move |driver| driver.watch_cancellation(&session)).await??;
        // Who waits does not keep the driver running.
        drop(self);
        let request = request.wait_for(Option::is_some).await.map_err(|_| Error::Gone)?;
        request.clone().ok_or(Error::Gone)
    }
}
