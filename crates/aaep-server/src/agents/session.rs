//! One session of an agent: its open outputs and tool calls, and its permits.

use std::collections::{BTreeMap, VecDeque};

use aaep::id::ToolCallId;
use aaep::message::{ErrorCategory, Localized, SessionErrored, ToolCompleted, ToolInvoked};
use aaep::recovery::PendingWork;
use aaep::{EngineError, Error, Output, PermitError, Session};
use serde_json::Value;
use tokio::task::JoinSet;

use super::irreversible_tools::IrreversibleTools;
use super::permits::{PermittedCall, UnusedPermits};
use super::resources::UserSlot;
use super::response::{AgentError, agent_errors};
use crate::engines::EngineRef;

/// Most open outputs of a session, and most completed ones that are remembered.
pub(super) const MAX_OUTPUTS: usize = 64;

/// Most open tool calls of a session.
const MAX_TOOL_CALLS: usize = 256;

/// One open session of an agent.
#[derive(Debug)]
pub(super) struct AgentSession {
    pub(super) session: Session,
    /// The engine of the user whom the session is for.
    pub(super) engine: EngineRef,
    /// The agent's `session_id`, if it uses one.
    pub(super) alias: Option<String>,
    /// Open outputs by the agent's `output_id`; the empty text for an output without one.
    pub(super) outputs: BTreeMap<String, AgentOutput>,
    /// The `output_id`s of completed outputs, oldest first.
    completed_outputs: VecDeque<String>,
    open_calls: Vec<OpenCall>,
    pub(super) permits: UnusedPermits,
    pub(super) irreversible_tools: IrreversibleTools,
    /// Waits for a user that asks for the end of the session.
    pub(super) cancel_watch: JoinSet<()>,
    /// Its slot among the sessions of its owner.
    _slot: Option<UserSlot>,
}

/// One open output.
#[derive(Debug)]
pub(super) struct AgentOutput {
    pub(super) output: Output,
    /// The number of characters that the agent has written.
    pub(super) written_chars: u64,
}

/// A tool call that is not completed.
#[derive(Debug)]
struct OpenCall {
    tool: String,
    id: ToolCallId,
}

impl AgentSession {
    pub(super) fn new(
        session: Session,
        engine: EngineRef,
        alias: Option<String>,
        irreversible_tools: IrreversibleTools,
        slot: Option<UserSlot>,
    ) -> AgentSession {
        AgentSession {
            session,
            engine,
            alias,
            outputs: BTreeMap::new(),
            completed_outputs: VecDeque::new(),
            open_calls: Vec::new(),
            permits: UnusedPermits::default(),
            irreversible_tools,
            cancel_watch: JoinSet::new(),
            _slot: slot,
        }
    }

    /// Restores what the session had open before a restart.
    pub(super) fn restore(&mut self, pending: PendingWork) {
        self.open_calls.extend(pending.calls.into_iter().map(|(id, tool)| OpenCall { tool, id }));
        self.irreversible_tools.extend(pending.guarded);
        self.permits.add_recovered(pending.permits);
    }

    /// Emits `tool.invoked`. An irreversible tool needs a permit for this call.
    pub(super) async fn invoke_tool(
        &mut self,
        invoked: Localized<ToolInvoked>,
        args: Option<Value>,
    ) -> Result<(), Vec<AgentError>> {
        if self.open_calls.len() >= MAX_TOOL_CALLS {
            let message = format!("{MAX_TOOL_CALLS} tool calls are open. Complete some first.");
            return Err(AgentError::new(message).into());
        }
        let tool = invoked.payload.tool.clone();
        let id = if invoked.payload.irreversible == Some(true) || self.irreversible_tools.contains(&tool) {
            self.invoke_irreversible(invoked, args).await?
        } else {
            self.session.invoke_tool(invoked).await.map_err(agent_errors)?
        };
        self.open_calls.push(OpenCall { tool, id });
        Ok(())
    }

    async fn invoke_irreversible(
        &mut self,
        invoked: Localized<ToolInvoked>,
        args: Option<Value>,
    ) -> Result<ToolCallId, Vec<AgentError>> {
        loop {
            let PermittedCall { permit, args } = self.permits.take(&invoked.payload.tool, args.as_ref())?;
            match self.session.invoke_irreversible(invoked.clone(), args, permit).await {
                // There may be a newer permit for the same call.
                Err(Error::Misuse(EngineError::WrongPermit(PermitError::Expired)))
                    if self.permits.contains(&invoked.payload.tool) => {}
                result => return result.map_err(agent_errors),
            }
        }
    }

    /// Emits `tool.completed`. Without a `tool_call_id` it completes the oldest open call of that tool.
    pub(super) async fn complete_tool(
        &mut self,
        mut completed: Localized<ToolCompleted>,
    ) -> Result<(), Vec<AgentError>> {
        let (tool, call_id) = (&completed.payload.tool, &completed.payload.tool_call_id);
        let at = self.open_calls.iter().position(|call| match call_id {
            Some(id) => call.id == *id,
            None => call.tool == *tool,
        });
        if let Some(at) = at {
            completed.payload.tool_call_id = Some(self.open_calls[at].id.clone());
        }
        self.session.complete_tool(completed).await.map_err(agent_errors)?;
        if let Some(at) = at {
            self.open_calls.remove(at);
        }
        Ok(())
    }

    /// Returns whether an output with this id was completed. Without an id, a new output may always follow.
    pub(super) fn was_completed(&self, output_id: &str) -> bool {
        !output_id.is_empty() && self.completed_outputs.iter().any(|completed| completed == output_id)
    }

    /// Completes an output with its last text.
    pub(super) async fn complete_output(&mut self, output_id: &str, last_text: &str) -> Result<(), Vec<AgentError>> {
        let Some(output) = self.outputs.remove(output_id) else { return Ok(()) };
        if self.completed_outputs.len() >= MAX_OUTPUTS {
            self.completed_outputs.pop_front();
        }
        self.completed_outputs.push_back(output_id.to_owned());
        output.output.finish_with(last_text).await.map_err(agent_errors)
    }
}

/// Returns the terminal event of a session that failed for an unknown reason.
pub(super) fn session_errored(summary: &str) -> SessionErrored {
    SessionErrored::new(ErrorCategory::Unknown, summary)
}
