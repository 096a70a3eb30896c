//! Irreversible calls on their way: the tool may start only after the engine announced the call, which it does after the
//! use of the permit is on record.

use aaep_proto::confirm::Permit;
use aaep_proto::engine::{AnnounceError, EngineError};
use aaep_proto::id::{ReplyToken, SessionId, ToolCallId};
use aaep_proto::message::{Localized, ToolCompleted, ToolInvoked, ToolStatus};
use aaep_proto::time::Moment;
use serde_json::Value;
use tokio::sync::oneshot;

use crate::driver::{DriverState, Handle, Waiter};
use crate::error::Error;

/// Told once whether a call was announced, and when. It runs in the driver: if nobody waits for the call any more, this
/// is where that is noticed and the call is reported as given up.
pub(crate) type Announced = Box<dyn FnOnce(Result<ToolCallId, Error>, Moment) + Send>;

/// An irreversible call that is to be announced.
pub(crate) struct IrreversibleCall {
    pub(crate) session: SessionId,
    pub(crate) invoked: Localized<ToolInvoked>,
    pub(crate) arguments: Value,
    pub(crate) permit: Permit,
}

impl DriverState {
    fn invoke_irreversible(&mut self, call: IrreversibleCall, announced: Announced) -> Result<(), EngineError> {
        let IrreversibleCall { session, invoked, arguments, permit } = call;
        let token = permit.token().clone();
        self.act(|engine, cx| engine.invoke_irreversible(cx, &session, invoked, &arguments, permit))?;
        self.waiting.insert(token, Waiter::Call(announced));
        Ok(())
    }

    pub(crate) fn hear_announced(&mut self, token: &ReplyToken, result: Result<ToolCallId, AnnounceError>) {
        let Some(Waiter::Call(announced)) = self.waiting.remove(token) else { return };
        let now = self.clock.now().moment;
        announced(
            result.map_err(|error| match error {
                AnnounceError::NotRecorded => Error::NotRecorded,
                AnnounceError::Misuse(misuse) => Error::Misuse(misuse),
            }),
            now,
        );
    }
}

impl Handle {
    /// Announces a call and waits until that is done. What is made of the announced call is dropped in the driver if
    /// the caller is gone by then; a value that must be cleaned up does it in its `Drop`.
    pub(crate) async fn invoke_irreversible<T: Send + 'static>(
        &self,
        call: IrreversibleCall,
        made: impl FnOnce(ToolCallId, Moment) -> T + Send + 'static,
    ) -> Result<T, Error> {
        let (told, announced) = oneshot::channel();
        let tell: Announced = Box::new(move |result, now| drop(told.send(result.map(|id| made(id, now)))));
        self.call(move |desk| desk.invoke_irreversible(call, tell)).await??;
        announced.await.map_err(|_| Error::Gone)?
    }
}

/// The id of an announced call for a caller who reports its end. If the caller is gone before it gets the id, the call is
/// reported as given up.
pub(crate) struct Unclaimed {
    handle: Handle,
    session: SessionId,
    tool: String,
    id: Option<ToolCallId>,
}

impl Unclaimed {
    pub(crate) fn new(handle: Handle, session: SessionId, tool: String, id: ToolCallId) -> Unclaimed {
        Unclaimed { handle, session, tool, id: Some(id) }
    }

    /// The id; nothing the second time.
    pub(crate) fn claim(mut self) -> Option<ToolCallId> {
        self.id.take()
    }
}

impl Drop for Unclaimed {
    fn drop(&mut self) {
        let Some(id) = self.id.take() else { return };
        let given_up = ToolCompleted {
            tool: std::mem::take(&mut self.tool),
            tool_call_id: Some(id),
            status: ToolStatus::Timeout,
            duration_ms: None,
            summary_terse: None,
            summary_normal: None,
            summary_detailed: None,
            error_message: Some("The tool was given up.".to_owned()),
        };
        let session = self.session.clone();
        self.handle.tell(move |desk| {
            // The session may have ended meanwhile, and the call with it.
            let _ = desk.act(|engine, cx| engine.complete_tool(cx, &session, given_up));
        });
    }
}
