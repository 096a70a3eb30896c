//! One session of an agent: what it has begun and what it was permitted.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use aaep::id::ToolCallId;
use aaep::message::{ErrorCategory, Localized, SessionErrored, ToolCompleted, ToolInvoked};
use aaep::recovery::PendingWork;
use aaep::{CallDigest, EngineError, Error, Output, Permit, PermitError, Session};
use serde_json::Value;

use super::guarded::Guarded;
use super::response::{AgentError, faults};
use crate::admission::quota::QuotaSlot;

/// Outputs that may be open at once.
pub(super) const OUTPUTS: usize = 64;

/// Tool calls that may be open at once.
const CALLS: usize = 256;

/// Permits of a session that wait to be used. The oldest is given up for a new one.
const PERMITS: usize = 64;

/// One session.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) session: Session,
    /// What the agent calls it.
    pub(super) alias: Option<String>,
    pub(super) outputs: BTreeMap<String, Text>,
    /// Outputs that were complete.
    finished: VecDeque<String>,
    calls: Vec<(String, ToolCallId)>,
    pub(super) permits: Permits,
    pub(super) guarded: Guarded,
    /// Its place among the sessions of its owner.
    _place: Option<QuotaSlot>,
}

/// One output.
#[derive(Debug)]
pub(super) struct Text {
    pub(super) output: Output,
    /// How many characters it has.
    pub(super) chars: u64,
}

/// Permits that wait to be used. Questions end at any time, so it is shared with who waits for them.
#[derive(Clone, Debug, Default)]
pub(super) struct Permits(Arc<Mutex<VecDeque<Held>>>);

#[derive(Debug)]
struct Held {
    tool: String,
    /// The arguments that were asked about; nothing if the question was about the tool as such.
    args: Option<CallDigest>,
    permit: Permit,
}

impl Permits {
    /// Keeps a permit for a call.
    pub(super) fn keep(&self, tool: &str, args: Option<&Value>, permit: Permit) {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if held.len() >= PERMITS {
            held.pop_front();
        }
        // Who asks again after a restart may hold it already.
        held.retain(|held| held.permit.token() != permit.token());
        let args = args.map(|args| CallDigest::of(tool, args));
        held.push_back(Held { tool: tool.to_owned(), args, permit });
    }

    /// Keeps the permits that were given before a restart.
    fn keep_all(&self, permits: Vec<(String, CallDigest, Permit)>) {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (tool, call, permit) in permits.into_iter().take(PERMITS) {
            // A question that named no arguments was about the tool as such.
            let args = (call != CallDigest::of(&tool, &Value::Null)).then_some(call);
            held.push_back(Held { tool, args, permit });
        }
    }

    /// Whether there is a permit for a call of this tool.
    fn has(&self, tool: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().any(|held| held.tool == tool)
    }

    /// Takes the permit for a call, and the arguments that it is for.
    fn take(&self, tool: &str, args: Option<&Value>) -> Result<(Permit, Value), AgentError> {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let digest = args.map(|args| CallDigest::of(tool, args));
        let exact = held.iter().position(|h| h.tool == tool && h.args.is_some() && h.args == digest);
        let by_name = held.iter().position(|h| h.tool == tool && h.args.is_none());
        if let Some(held) = exact.or(by_name).and_then(|at| held.remove(at)) {
            let args = held.args.and(args).cloned().unwrap_or_default();
            return Ok((held.permit, args));
        }
        Err(if held.iter().any(|h| h.tool == tool) {
            let message = format!("The user agreed to {tool} with other arguments. Send those as args, or ask again.");
            AgentError::at("/tool", message)
        } else {
            ask_first(tool)
        })
    }
}

/// What an agent is told about an irreversible tool that it has no permit for.
pub(super) fn ask_first(tool: &str) -> AgentError {
    let message = format!(
        "Ask first: {tool} cannot be undone. Send agent.awaiting.confirmation with tool {tool} and irreversible: true, \
         wait for its outcome, and go on only if the decision is accept. A yes to a question without irreversible: true \
         does not count."
    );
    AgentError::at("/tool", message)
}

/// The end of a session that could not go on.
pub(super) fn errored(summary: &str) -> SessionErrored {
    SessionErrored {
        error_category: ErrorCategory::Unknown,
        error_code: None,
        summary_terse: None,
        summary_normal: summary.to_owned(),
        summary_detailed: None,
        error_uri: None,
        recoverable: None,
        remediation_hint: None,
    }
}

impl Open {
    pub(super) fn new(session: Session, alias: Option<String>, guarded: Guarded, place: Option<QuotaSlot>) -> Open {
        Open {
            session,
            alias,
            outputs: BTreeMap::new(),
            finished: VecDeque::new(),
            calls: Vec::new(),
            permits: Permits::default(),
            guarded,
            _place: place,
        }
    }

    /// Goes on where the session stood before a restart.
    pub(super) fn go_on(&mut self, unfinished: PendingWork) {
        self.calls.extend(unfinished.calls.into_iter().map(|(id, tool)| (tool, id)));
        self.guarded.extend(unfinished.guarded);
        self.permits.keep_all(unfinished.permits);
    }

    /// Announces a tool. What cannot be undone needs the user's permit for this call.
    pub(super) async fn invoke(
        &mut self,
        invoked: Localized<ToolInvoked>,
        args: Option<Value>,
    ) -> Result<(), Vec<AgentError>> {
        if self.calls.len() >= CALLS {
            return Err(vec![AgentError::new(format!("{CALLS} tools are at work. Complete some first."))]);
        }
        let tool = invoked.payload.tool.clone();
        let id = if invoked.payload.irreversible == Some(true) || self.guarded.contains(&tool) {
            self.invoke_irreversible(invoked, args).await?
        } else {
            self.session.invoke_tool(invoked).await.map_err(faults)?
        };
        self.calls.push((tool, id));
        Ok(())
    }

    async fn invoke_irreversible(
        &mut self,
        invoked: Localized<ToolInvoked>,
        args: Option<Value>,
    ) -> Result<ToolCallId, Vec<AgentError>> {
        loop {
            let (permit, agreed) =
                self.permits.take(&invoked.payload.tool, args.as_ref()).map_err(|fault| vec![fault])?;
            match self.session.invoke_irreversible(invoked.clone(), agreed, permit).await {
                // The user may have agreed once more since then.
                Err(Error::Misuse(EngineError::WrongPermit(PermitError::Expired)))
                    if self.permits.has(&invoked.payload.tool) => {}
                result => return result.map_err(faults),
            }
        }
    }

    /// Says how a tool ended. Without an id it is the oldest call of that tool.
    pub(super) async fn complete(&mut self, mut completed: Localized<ToolCompleted>) -> Result<(), Vec<AgentError>> {
        let (tool, given) = (completed.payload.tool.clone(), completed.payload.tool_call_id.clone());
        let is_it = |(name, id): &(String, ToolCallId)| match &given {
            Some(given) => id == given,
            None => *name == tool,
        };
        let at = self.calls.iter().position(is_it);
        if let Some(at) = at {
            completed.payload.tool_call_id = Some(self.calls[at].1.clone());
        }
        self.session.complete_tool(completed).await.map_err(faults)?;
        if let Some(at) = at {
            self.calls.remove(at);
        }
        Ok(())
    }

    /// Whether an output of this name was complete.
    pub(super) fn was_finished(&self, name: &str) -> bool {
        // Without a name there is only one at a time, and then the next.
        !name.is_empty() && self.finished.iter().any(|finished| finished == name)
    }

    /// Ends an output with its last text.
    pub(super) async fn finish(&mut self, name: &str, last: &str) -> Result<(), Vec<AgentError>> {
        let Some(text) = self.outputs.remove(name) else { return Ok(()) };
        if self.finished.len() >= OUTPUTS {
            self.finished.pop_front();
        }
        self.finished.push_back(name.to_owned());
        text.output.finish_with(last).await.map_err(faults)
    }
}
