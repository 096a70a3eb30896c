//! The names of agents, so that two agents of one name are told apart.

/// The most agents that are remembered.
const MAX_AGENTS: usize = 256;

/// An agent of one producer.
#[derive(Clone, Debug, PartialEq, Eq)]
struct NamedAgent {
    producer: usize,
    agent_id: String,
    /// The name that it gives itself.
    own: String,
    /// The name that the user knows it by.
    name: String,
    muted: bool,
}

/// All agents that were seen, the newest last.
#[derive(Debug, Default)]
pub(crate) struct AgentNames {
    all: Vec<NamedAgent>,
}

impl AgentNames {
    /// Returns the name of an agent: the one that it gives itself, with a number if another agent has it already.
    pub(crate) fn name(&mut self, producer: usize, agent_id: &str, own: &str) -> String {
        if let Some(agent) = self.find(producer, agent_id)
            && agent.own == own
        {
            return agent.name.clone();
        }
        let muted = self.find(producer, agent_id).is_some_and(|agent| agent.muted);
        self.all.retain(|agent| agent.producer != producer || agent.agent_id != agent_id);
        if self.all.len() >= MAX_AGENTS {
            self.all.remove(0);
        }
        let name = self.unused(own);
        let agent_id = agent_id.to_owned();
        self.all.push(NamedAgent { producer, agent_id, own: own.to_owned(), name: name.clone(), muted });
        name
    }

    fn find(&self, producer: usize, agent_id: &str) -> Option<&NamedAgent> {
        self.all.iter().find(|agent| agent.producer == producer && agent.agent_id == agent_id)
    }

    fn unused(&self, own: &str) -> String {
        let taken = |name: &str| self.all.iter().any(|agent| agent.name.to_lowercase() == name.to_lowercase());
        let numbered = (2..).map(|number: u32| format!("{own} {number}"));
        std::iter::once(own.to_owned()).chain(numbered).find(|name| !taken(name)).unwrap_or_default()
    }

    /// Returns the names, in the order in which the agents were seen.
    pub(crate) fn names(&self) -> Vec<String> {
        self.all.iter().map(|agent| agent.name.clone()).collect()
    }

    /// Returns whether only critical events of an agent are announced.
    pub(crate) fn is_muted(&self, producer: usize, agent_id: &str) -> bool {
        self.find(producer, agent_id).is_some_and(|agent| agent.muted)
    }

    /// Mutes the agent with this name or id, or no longer. Returns its name and whether it was muted before, or `None` if
    /// there is no such agent.
    pub(crate) fn set_muted(&mut self, name: &str, muted: bool) -> Option<(String, bool)> {
        let wanted = name.to_lowercase();
        let by_name = self.all.iter().position(|agent| agent.name.to_lowercase() == wanted);
        let by_id = || self.all.iter().position(|agent| agent.agent_id.to_lowercase() == wanted);
        let index = by_name.or_else(by_id)?;
        let agent = &mut self.all[index];
        Some((agent.name.clone(), std::mem::replace(&mut agent.muted, muted)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_of_one_name_get_numbers_and_keep_them() {
        let mut names = AgentNames::default();
        assert_eq!(names.name(0, "a", "Bank"), "Bank");
        assert_eq!(names.name(1, "a", "bank"), "bank 2");
        assert_eq!(names.name(0, "b", "Bank"), "Bank 3");
        assert_eq!(names.name(0, "a", "Bank"), "Bank");
        assert_eq!(names.name(1, "a", "Garden"), "Garden", "an agent may change its name");
        assert_eq!(names.names(), ["Bank", "Bank 3", "Garden"]);
    }

    #[test]
    fn only_known_agents_are_muted() {
        let mut names = AgentNames::default();
        names.name(0, "bank-1", "Bank");
        names.name(1, "bank-1", "Bank");
        assert_eq!(names.set_muted("nobody", true), None);
        assert_eq!(names.set_muted("BANK 2", true), Some(("Bank 2".into(), false)));
        assert!(names.is_muted(1, "bank-1") && !names.is_muted(0, "bank-1"));
        assert_eq!(names.set_muted("Bank 2", false), Some(("Bank 2".into(), true)));
    }

    #[test]
    fn remembered_agents_are_bounded() {
        let mut names = AgentNames::default();
        (0..1000).for_each(|n| drop(names.name(0, &format!("agent{n}"), "Bank")));
        assert_eq!(names.all.len(), MAX_AGENTS);
    }
}
