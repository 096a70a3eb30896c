//! Irreversible calls. A tool may start only after the engine has emitted its `tool.invoked`, and the engine does that
//! after the use of the permit is recorded.

use aaep_proto::confirm::Permit;
use aaep_proto::engine::{EngineError, InvokeError};
use aaep_proto::id::{ReplyToken, SessionId, ToolCallId};
use aaep_proto::message::{Localized, ToolCompleted, ToolInvoked, ToolStatus};
use aaep_proto::time::Moment;
use serde_json::Value;
use tokio::sync::oneshot;

use crate::driver::{DriverState, Handle, Waiter};
use crate::error::Error;

/// Called once, in the driver, with the id of the call or with the reason why it must not run. If the caller no longer
/// waits, the value that the callback creates is dropped, which reports the call as abandoned.
pub(crate) type InvokeCallback = Box<dyn FnOnce(Result<ToolCallId, Error>, Moment) + Send>;

/// An irreversible call that was not emitted yet.
pub(crate) struct IrreversibleCall {
    pub(crate) session: SessionId,
    pub(crate) invoked: Localized<ToolInvoked>,
    pub(crate) arguments: Value,
    pub(crate) permit: Permit,
}

impl DriverState {
    fn invoke_irreversible(&mut self, call: IrreversibleCall, callback: InvokeCallback) -> Result<(), EngineError> {
        let IrreversibleCall { session, invoked, arguments, permit } = call;
        let token = permit.token().clone();
        self.with_engine(|engine, cx| engine.invoke_irreversible(cx, &session, invoked, &arguments, permit))?;
        self.waiters.insert(token, Waiter::Invocation(callback));
        Ok(())
    }

    /// Passes on whether the call that a permit was used for was announced.
    pub(crate) fn handle_invoked(&mut self, token: &ReplyToken, result: Result<ToolCallId, InvokeError>) {
        let Some(Waiter::Invocation(callback)) = self.waiters.remove(token) else { return };
        let now = self.clock.now().moment;
        let result = result.map_err(|error| match error {
            InvokeError::NotRecorded => Error::NotRecorded,
            InvokeError::Misuse(error) => Error::Misuse(error),
        });
        callback(result, now);
    }
}

impl Handle {
    /// Emits a call and waits until that is done. `make` turns the call's id into the result. If the caller has
    /// stopped waiting by then, the result is dropped in the driver; a result that needs cleaning up does it in its `Drop`.
    pub(crate) async fn invoke_irreversible<T: Send + 'static>(
        &self,
        call: IrreversibleCall,
        make: impl FnOnce(ToolCallId, Moment) -> T + Send + 'static,
    ) -> Result<T, Error> {
        let (result_tx, result) = oneshot::channel();
        let callback: InvokeCallback =
            Box::new(move |result, now| drop(result_tx.send(result.map(|id| make(id, now)))));
        self.call(move |driver| driver.invoke_irreversible(call, callback)).await??;
        result.await.map_err(|_| Error::Gone)?
    }
}

/// The id of an emitted call whose end its caller will report. If this is dropped before the caller takes the id, the
/// call is reported as abandoned.
pub(crate) struct AbandonOnDrop {
    handle: Handle,
    session: SessionId,
    tool: String,
    id: Option<ToolCallId>,
}

impl AbandonOnDrop {
    pub(crate) fn new(handle: Handle, session: SessionId, tool: String, id: ToolCallId) -> AbandonOnDrop {
        AbandonOnDrop { handle, session, tool, id: Some(id) }
    }

    /// Returns the id; from now on its caller reports the end of the call.
    pub(crate) fn into_id(mut self) -> Option<ToolCallId> {
        self.id.take()
    }
}

impl Drop for AbandonOnDrop {
    fn drop(&mut self) {
        let Some(id) = self.id.take() else { return };
        let abandoned = ToolCompleted {
            tool_call_id: Some(id),
            error_message: Some("The tool was given up.".to_owned()),
            ..ToolCompleted::new(std::mem::take(&mut self.tool), ToolStatus::Timeout)
        };
        let session = self.session.clone();
        self.handle.send(move |driver| {
            // An error means that the session has ended meanwhile, and the call with it.
            let _ = driver.with_engine(|engine, cx| engine.complete_tool(cx, &session, abandoned));
        });
    }
}
