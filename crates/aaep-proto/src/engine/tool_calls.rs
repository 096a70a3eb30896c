//! Tool calls: emitted before they start and when they end. An irreversible call needs a permit, and with a journal it is
//! emitted only after the use of that permit was written (decision 62).

use serde_json::Value;

use super::permits::PendingCall;
use super::{Cx, Engine, EngineEffect, EngineError, JournalEntry};
use crate::confirm::{CallDigest, Permit, PermitError};
use crate::id::{ReplyToken, SessionId, ToolCallId};
use crate::message::{Localized, ToolCompleted, ToolInvoked, state};

/// Why an irreversible call was not emitted after its permit was accepted. It must not run.
#[derive(Clone, Debug, PartialEq)]
pub enum InvokeError {
    /// The use of its permit could not be written to the journal.
    NotRecorded,
    /// It became illegal while that was written, for example because its session ended.
    Misuse(EngineError),
}

impl Engine {
    /// Emits the call of a tool that can be undone, before it runs.
    pub fn invoke_tool(
        &mut self,
        cx: &mut Cx<'_>,
        session: &SessionId,
        tool: impl Into<Localized<ToolInvoked>>,
    ) -> Result<ToolCallId, EngineError> {
        self.observe_time(cx);
        let mut tool = tool.into();
        if tool.payload.irreversible == Some(true) {
            return Err(EngineError::NeedsPermit);
        }
        let id = tool.payload.tool_call_id.get_or_insert_with(|| ToolCallId::random(cx.entropy)).clone();
        self.emit_call(cx, session, tool)?;
        Ok(id)
    }

    /// Emits the call of a tool that cannot be undone. The permit must be for this call and is used up. The tool may
    /// start only after [`EngineEffect::Invoked`] reported, with the token of the permit, that the call was emitted.
    pub fn invoke_irreversible(
        &mut self,
        cx: &mut Cx<'_>,
        session: &SessionId,
        tool: impl Into<Localized<ToolInvoked>>,
        arguments: &Value,
        permit: Permit,
    ) -> Result<ToolCallId, EngineError> {
        self.observe_time(cx);
        let mut tool = tool.into();
        let token = permit.token().clone();
        if self.permits.is_used(&token) {
            return Err(EngineError::WrongPermit(PermitError::Used));
        }
        let call = CallDigest::of(&tool.payload.tool, arguments);
        permit.spend(session, &call, cx.now.moment).map_err(EngineError::WrongPermit)?;
        tool.payload.irreversible = Some(true);
        let id = tool.payload.tool_call_id.get_or_insert_with(|| ToolCallId::random(cx.entropy)).clone();
        if self.out.has_journal() {
            self.record_call(cx, session, token, id.clone(), tool)?;
        } else {
            self.emit_call(cx, session, tool)?;
            self.permits.mark_used(&token);
            self.out.push(EngineEffect::Invoked(token, Ok(id.clone())));
        }
        Ok(id)
    }

    /// Writes the use of a permit to the journal. The call is emitted when the write is acknowledged.
    fn record_call(
        &mut self,
        cx: &mut Cx<'_>,
        session: &SessionId,
        token: ReplyToken,
        id: ToolCallId,
        tool: Localized<ToolInvoked>,
    ) -> Result<(), EngineError> {
        let name = tool.payload.tool.clone();
        let event = self.draft_next(cx, session, tool.into_payload())?;
        self.ensure_state(cx, session, state::CALLING_TOOL)?;
        self.out.record(|| JournalEntry::Spent(token.clone(), Box::new(event.clone())));
        self.permits.add_pending(token, PendingCall { session: session.clone(), id, tool: name, event });
        Ok(())
    }

    /// Continues a call after the journal recorded the use of its permit, or failed to.
    pub(super) fn handle_call_ack(&mut self, cx: &mut Cx<'_>, token: &ReplyToken, recorded: bool) {
        let Some(call) = self.permits.take_pending(token) else { return };
        let session = call.session.clone();
        let result = if recorded {
            self.permits.mark_used(token);
            self.emit_recorded_call(cx, call).map_err(InvokeError::Misuse)
        } else {
            Err(InvokeError::NotRecorded)
        };
        if result.is_err() {
            self.leave_calling_tool(cx, &session);
        }
        self.out.push(EngineEffect::Invoked(token.clone(), result));
    }

    fn emit_recorded_call(&mut self, cx: &mut Cx<'_>, call: PendingCall) -> Result<ToolCallId, EngineError> {
        let PendingCall { session, id, tool, mut event } = call;
        self.ensure_state(cx, &session, state::CALLING_TOOL)?;
        self.release_held_text(cx, &session);
        let found = self.sessions.get_mut(&session)?;
        // Other events may have been emitted while it was recorded.
        event.envelope.timestamp = found.not_before(event.envelope.timestamp);
        found.commit(&event)?;
        found.add_call(id.clone(), tool);
        self.stats.published += 1;
        self.deliver_to_all(cx, &event);
        Ok(id)
    }

    /// Abandons the calls of an ended session that wait for the journal.
    pub(super) fn drop_pending_calls(&mut self, session: &SessionId) {
        for token in self.permits.drop_pending(session) {
            self.out.push(EngineEffect::Invoked(token, Err(InvokeError::Misuse(EngineError::UnknownSession))));
        }
    }

    /// Goes back to thinking if no tool runs and none is about to.
    fn leave_calling_tool(&mut self, cx: &mut Cx<'_>, session: &SessionId) {
        let idle = self.sessions.get(session).is_ok_and(|s| s.calls().is_empty() && s.state() == state::CALLING_TOOL);
        if idle && !self.permits.has_pending(session) {
            let back = self.ensure_state(cx, session, state::THINKING);
            debug_assert!(back.is_ok(), "{back:?}");
        }
    }

    fn emit_call(
        &mut self,
        cx: &mut Cx<'_>,
        session: &SessionId,
        tool: Localized<ToolInvoked>,
    ) -> Result<(), EngineError> {
        self.ensure_state(cx, session, state::CALLING_TOOL)?;
        let (id, name) = (tool.payload.tool_call_id.clone(), tool.payload.tool.clone());
        self.publish(cx, session, tool.into_payload())?;
        if let (Ok(session), Some(id)) = (self.sessions.get_mut(session), id) {
            session.add_call(id, name);
        }
        Ok(())
    }

    /// Reports how a tool call ended.
    pub fn complete_tool(
        &mut self,
        cx: &mut Cx<'_>,
        session: &SessionId,
        completed: impl Into<Localized<ToolCompleted>>,
    ) -> Result<(), EngineError> {
        self.observe_time(cx);
        let completed = completed.into();
        let id = completed.payload.tool_call_id.clone();
        self.publish(cx, session, completed.into_payload())?;
        let Ok(found) = self.sessions.get_mut(session) else { return Ok(()) };
        if let Some(id) = id {
            found.remove_call(&id);
        }
        self.leave_calling_tool(cx, session);
        Ok(())
    }
}
