//! The tools of an agent that the user was asked about as irreversible. From then on they are irreversible in every
//! session of the agent, whatever the agent says of them.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::response::AgentError;

/// Tools of one agent that can be known as irreversible. None is forgotten for another: an agent could make room for a
/// tool to count as harmless again.
const TOOLS: usize = 256;

/// The irreversible tools of one agent, shared by its sessions. Letter case does not matter.
#[derive(Clone, Debug, Default)]
pub(super) struct Guarded(Arc<Mutex<BTreeSet<String>>>);

impl Guarded {
    /// The user is about to be asked about this tool as irreversible.
    pub(super) fn add(&self, tool: &str) -> Result<(), AgentError> {
        let tool = tool.to_ascii_lowercase();
        let mut tools = self.lock();
        if tools.len() >= TOOLS && !tools.contains(&tool) {
            return Err(AgentError::at("/tool", format!("An agent can ask about {TOOLS} irreversible tools at most.")));
        }
        tools.insert(tool);
        Ok(())
    }

    /// Adds what was known before a restart.
    pub(super) fn extend(&self, tools: impl IntoIterator<Item = String>) {
        self.lock().extend(tools.into_iter().map(|tool| tool.to_ascii_lowercase()));
    }

    /// Whether the user was asked about this tool as irreversible.
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
    fn a_tool_stays_irreversible_in_any_case_and_is_never_forgotten() {
        let guarded = Guarded::default();
        guarded.add("Wire").unwrap();
        for n in 1..TOOLS {
            guarded.add(&format!("tool_{n}")).unwrap();
        }
        assert!(guarded.contains("wire") && guarded.contains("WIRE") && !guarded.contains("wires"));
        let fault = guarded.add("one_more").unwrap_err();
        assert!(fault.message.contains("256"), "{fault:?}");
        guarded.add("wIRE").unwrap();
        assert!(guarded.contains("wire"));
    }
}
