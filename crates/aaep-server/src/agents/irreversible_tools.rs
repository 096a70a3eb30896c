//! The tools of an agent that the user was asked about as irreversible. From then on they count as irreversible in every
//! session of the agent, even if the agent states otherwise.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::response::AgentError;

/// Most irreversible tools of one agent. None is evicted for another: an agent could otherwise make a tool count as
/// reversible again.
const MAX_TOOLS: usize = 256;

/// The irreversible tools of one agent, shared by its sessions. Names are compared without regard to ASCII case.
#[derive(Clone, Debug, Default)]
pub(super) struct IrreversibleTools(Arc<Mutex<BTreeSet<String>>>);

impl IrreversibleTools {
    /// Adds a tool. Called before the user is asked about it.
    pub(super) fn add(&self, tool: &str) -> Result<(), AgentError> {
        let tool = tool.to_ascii_lowercase();
        let mut tools = self.lock();
        if tools.len() >= MAX_TOOLS && !tools.contains(&tool) {
            let message = format!("An agent can ask about {MAX_TOOLS} irreversible tools at most.");
            return Err(AgentError::at("/tool", message));
        }
        tools.insert(tool);
        Ok(())
    }

    /// Adds the tools of a session that was recovered after a restart.
    pub(super) fn extend(&self, tools: impl IntoIterator<Item = String>) {
        self.lock().extend(tools.into_iter().map(|tool| tool.to_ascii_lowercase()));
    }

    /// Returns whether the user was asked about this tool as irreversible.
    pub(super) fn contains(&self, tool: &str) -> bool {
        self.lock().contains(&tool.to_ascii_lowercase())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_ignore_case_and_are_never_evicted() {
        let tools = IrreversibleTools::default();
        tools.add("Wire").unwrap();
        for n in 1..MAX_TOOLS {
            tools.add(&format!("tool_{n}")).unwrap();
        }
        assert!(tools.contains("wire") && tools.contains("WIRE") && !tools.contains("wires"));
        let error = tools.add("one_more").unwrap_err();
        assert!(error.message.contains("256"), "{error:?}");
        tools.add("wIRE").unwrap();
        assert!(tools.contains("wire"));
    }
}
