//! Tool calls: announced before they start, reported when they end. An irreversible call needs a permit, and with a
//! journal it is announced only after the use of that permit is on record (decision 62).

use serde_json::Value;

use super::{Cx, Engine, EngineError, EngineOutput, JournalEntry};
use crate::confirm::{CallDigest, Permit, PermitError};
use crate::id::{ReplyToken, SessionId, ToolCallId};
use crate::message::{Event, Localized, ToolCompleted, ToolInvoked};

/// Why an irreversible call was not announced after all. It must not run.
#[derive(Clone, Debug, PartialEq)]
pub enum AnnounceError {
    /// The use of its permit could not be put on record.
    NotRecorded,
    /// It became illegal while that was put on record, for example because its session ended.
    Misuse(EngineError),
}

/// An irreversible call whose announcement waits until the use of its permit is on record.
pub(super) struct PendingCall {
    session: SessionId,
    id: ToolCallId,
    tool: String,
    event: Event,
}

impl Engine {
    /// Announces a tool that can be undone, before it runs.
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
        self.announce_tool(cx, session, tool)?;
        Ok(id)
    }

    /// Announces a tool that cannot be undone. The permit is for this call, and is spent by it. The tool may start only
    /// after [`EngineOutput::Invoked`] said with the token of the permit that the call is announced.
    pub fn invoke_irreversible(
        &mut self,
        cx: &mut Cx<'_>,
        session: &SessionId,
        (tool, arguments): (impl Into<Localized<ToolInvoked>>, &Value),
        permit: Permit,
    ) -> Result<ToolCallId, EngineError> {
        self.observe_time(cx);
        let mut tool = tool.into();
        let token = permit.token().clone();
        if self.used.contains(token.as_str()) || self.held_calls.contains_key(&token) {
            return Err(EngineError::WrongPermit(PermitError::Used));
        }
        let call = CallDigest::of(&tool.payload.tool, arguments);
        permit.spend(session, &call, cx.now.moment).map_err(EngineError::WrongPermit)?;
        tool.payload.irreversible = Some(true);
        let id = tool.payload.tool_call_id.get_or_insert_with(|| ToolCallId::random(cx.entropy)).clone();
        if self.config.journal {
            self.hold_call(cx, session, (&token, &id), tool)?;
        } else {
            self.announce_tool(cx, session, tool)?;
            self.used.insert(token.as_str());
            self.out.push_back(EngineOutput::Invoked(token, Ok(id.clone())));
        }
        Ok(id)
    }

    /// Keeps a call back until the use of its permit is on record.
    fn hold_call(
        &mut self,
        cx: &mut Cx<'_>,
        session: &SessionId,
        (token, id): (&ReplyToken, &ToolCallId),
        tool: Localized<ToolInvoked>,
    ) -> Result<(), EngineError> {
        let name = tool.payload.tool.clone();
        let event = self.draft(cx, session, tool.into_payload())?;
        self.ensure_state(cx, session, "calling_tool")?;
        self.note(|| JournalEntry::Spent(token.clone(), Box::new(event.clone())));
        let held = PendingCall { session: session.clone(), id: id.clone(), tool: name, event };
        self.held_calls.insert(token.clone(), held);
        Ok(())
    }

    /// The use of a permit is on record, or could not be. Only now the call is announced.
    pub(super) fn call_recorded(&mut self, cx: &mut Cx<'_>, token: &ReplyToken, kept: bool) {
        let Some(held) = self.held_calls.remove(token) else { return };
        let session = held.session.clone();
        let result = if kept {
            self.used.insert(token.as_str());
            self.announce_held(cx, held).map_err(AnnounceError::Misuse)
        } else {
            Err(AnnounceError::NotRecorded)
        };
        if result.is_err() {
            self.leave_calling_tool(cx, &session);
        }
        self.out.push_back(EngineOutput::Invoked(token.clone(), result));
    }

    fn announce_held(&mut self, cx: &mut Cx<'_>, held: PendingCall) -> Result<ToolCallId, EngineError> {
        let PendingCall { session, id, tool, mut event } = held;
        self.ensure_state(cx, &session, "calling_tool")?;
        self.release_text(cx, &session);
        let found = self.sessions.get_mut(&session).ok_or(EngineError::UnknownSession)?;
        // Other events may have been emitted while it was put on record.
        event.envelope.timestamp = found.not_before(event.envelope.timestamp);
        found.take_in(&event)?;
        found.calls.insert(id.clone(), tool);
        self.counts.published += 1;
        self.deliver(cx, &event);
        Ok(id)
    }

    /// Whether a call of this session waits for the record.
    pub(super) fn has_held_call(&self, session: &SessionId) -> bool {
        self.held_calls.values().any(|held| held.session == *session)
    }

    /// The session ends: what it holds back is not announced any more.
    pub(super) fn drop_held_calls(&mut self, session: &SessionId) {
        let ended: Vec<ReplyToken> =
            self.held_calls.iter().filter(|(_, held)| held.session == *session).map(|(t, _)| t.clone()).collect();
        for token in ended {
            self.held_calls.remove(&token);
            self.used.insert(token.as_str());
            self.out.push_back(EngineOutput::Invoked(token, Err(AnnounceError::Misuse(EngineError::UnknownSession))));
        }
    }

    /// Goes back to thinking if no tool runs and none is about to.
    fn leave_calling_tool(&mut self, cx: &mut Cx<'_>, session: &SessionId) {
        let idle = self.sessions.get(session).is_some_and(|s| s.calls.is_empty() && s.state == "calling_tool");
        if idle && !self.has_held_call(session) {
            let back = self.ensure_state(cx, session, "thinking");
            debug_assert!(back.is_ok(), "{back:?}");
        }
    }

    fn announce_tool(
        &mut self,
        cx: &mut Cx<'_>,
        session: &SessionId,
        tool: Localized<ToolInvoked>,
    ) -> Result<(), EngineError> {
        self.ensure_state(cx, session, "calling_tool")?;
        let (id, name) = (tool.payload.tool_call_id.clone(), tool.payload.tool.clone());
        self.publish_with(cx, session, tool.into_payload(), |_| {})?;
        if let (Some(session), Some(id)) = (self.sessions.get_mut(session), id) {
            session.calls.insert(id, name);
        }
        Ok(())
    }

    /// Says how a tool ended.
    pub fn complete_tool(
        &mut self,
        cx: &mut Cx<'_>,
        session: &SessionId,
        completed: impl Into<Localized<ToolCompleted>>,
    ) -> Result<(), EngineError> {
        self.observe_time(cx);
        let completed = completed.into();
        let id = completed.payload.tool_call_id.clone();
        self.publish_with(cx, session, completed.into_payload(), |_| {})?;
        let Some(found) = self.sessions.get_mut(session) else { return Ok(()) };
        if let Some(id) = id {
            found.calls.remove(&id);
        }
        self.leave_calling_tool(cx, session);
        Ok(())
    }
}
