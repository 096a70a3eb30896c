//! The permits of a session: each allows one irreversible tool call that the user has accepted.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aaep::recovery::PendingPermit;
use aaep::{CallDigest, Permit};
use serde_json::Value;

use super::response::AgentError;

/// Most unused permits of a session. The oldest is dropped for a new one.
const MAX_PERMITS: usize = 64;

/// The unused permits of one session. Questions are resolved at any time, so the tasks that wait for them share this.
#[derive(Clone, Debug, Default)]
pub(super) struct UnusedPermits(Arc<Mutex<VecDeque<UnusedPermit>>>);

#[derive(Debug)]
struct UnusedPermit {
    tool: String,
    /// The digest of the call that the user accepted, or `None` if the question named no arguments.
    call: Option<CallDigest>,
    permit: Permit,
}

/// A permit for one call, with the arguments it was granted for.
#[derive(Debug)]
pub(super) struct PermittedCall {
    pub(super) permit: Permit,
    /// `null` if the question named no arguments.
    pub(super) args: Value,
}

impl UnusedPermits {
    /// Adds a permit for a call of a tool with these arguments, or with any if there are none.
    pub(super) fn add(&self, tool: &str, args: Option<&Value>, permit: Permit) {
        let mut permits = self.lock();
        if permits.len() >= MAX_PERMITS {
            permits.pop_front();
        }
        // After a restart an agent may ask again, and get a permit that was recovered already.
        permits.retain(|unused| unused.permit.token() != permit.token());
        let call = args.map(|args| CallDigest::of(tool, args));
        permits.push_back(UnusedPermit { tool: tool.to_owned(), call, permit });
    }

    /// Adds the permits that were granted before a restart.
    pub(super) fn add_recovered(&self, recovered: Vec<PendingPermit>) {
        let mut permits = self.lock();
        for PendingPermit { tool, call, permit } in recovered.into_iter().take(MAX_PERMITS) {
            // The engine records a question without arguments as one with `null`.
            let names_args = call != CallDigest::of(&tool, &Value::Null);
            permits.push_back(UnusedPermit { tool, call: if names_args { Some(call) } else { None }, permit });
        }
    }

    /// Returns whether there is a permit for this tool.
    pub(super) fn contains(&self, tool: &str) -> bool {
        self.lock().iter().any(|unused| unused.tool == tool)
    }

    /// Removes and returns the permit for a call. One for exactly these arguments comes before one for any arguments.
    pub(super) fn take(&self, tool: &str, args: Option<&Value>) -> Result<PermittedCall, AgentError> {
        let mut permits = self.lock();
        let call = args.map(|args| CallDigest::of(tool, args));
        let exact = permits.iter().position(|p| p.tool == tool && p.call.is_some() && p.call == call);
        let any_args = permits.iter().position(|p| p.tool == tool && p.call.is_none());
        if let Some(unused) = exact.or(any_args).and_then(|at| permits.remove(at)) {
            let args = unused.call.and(args).cloned().unwrap_or_default();
            return Ok(PermittedCall { permit: unused.permit, args });
        }
        Err(if permits.iter().any(|unused| unused.tool == tool) {
            let message = format!("The user agreed to {tool} with other arguments. Send those as args, or ask again.");
            AgentError::at("/tool", message)
        } else {
            ask_first(tool)
        })
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<UnusedPermit>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the error for a call of an irreversible tool that there is no permit for.
pub(super) fn ask_first(tool: &str) -> AgentError {
    let message = format!(
        "Ask first: {tool} cannot be undone. Send agent.awaiting.confirmation with tool {tool} and irreversible: true, \
         wait for its outcome, and continue only if the decision is accept. A yes to a question without \
         irreversible: true does not count."
    );
    AgentError::at("/tool", message)
}
