//! Who an agent is, and whom it may say it is.

use aaep::LanguageTag;
use aaep::message::Producer;

use super::response::AgentError;

/// Most characters of a name.
const NAME: usize = 256;

/// An agent, as the transport knows it.
///
/// ```
/// use aaep_server::agents::AgentIdentity;
/// let bank = AgentIdentity::of_principal("bank", "en".parse()?);
/// assert!(bank.may_be("bank") && bank.may_be("bank/transfers") && !bank.may_be("banker"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct AgentIdentity {
    /// Who it is when it does not say so itself.
    pub producer: Producer,
    /// The language of its texts when it does not say so itself.
    pub language: LanguageTag,
    /// Under whose name it must stay.
    principal: Option<String>,
}

impl AgentIdentity {
    /// An agent that may call itself anything: it was started by who runs it, or it is on a machine of its own.
    pub fn anyone(agent_id: impl Into<String>, language: LanguageTag) -> AgentIdentity {
        AgentIdentity { producer: Producer::new(agent_id), language, principal: None }
    }

    /// An agent with credentials. It may call itself by the name of these, or by a name under it: `bank/transfers`.
    pub fn of_principal(principal: impl Into<String>, language: LanguageTag) -> AgentIdentity {
        let principal = principal.into();
        AgentIdentity { producer: Producer::new(principal.clone()), language, principal: Some(principal) }
    }

    /// Whether it may call itself so.
    pub fn may_be(&self, agent_id: &str) -> bool {
        let Some(principal) = &self.principal else { return true };
        agent_id.strip_prefix(principal.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// The identity of a session: what the agent says of itself, if it may.
    pub(super) fn identity(&self, said: Option<Producer>) -> Result<Producer, AgentError> {
        let Some(mut said) = said else { return Ok(self.producer.clone()) };
        let long = |text: &str| text.chars().count() > NAME;
        let texts = [&said.agent_version, &said.agent_name, &said.model];
        if long(&said.agent_id) || texts.into_iter().flatten().any(|text| long(text)) {
            return Err(AgentError::at("/producer", format!("Shorten the names of the agent to {NAME} characters.")));
        }
        if !self.may_be(&said.agent_id) {
            let name = self.principal.as_deref().unwrap_or_default();
            let message = format!("These credentials are for {name}: use that as agent_id, or {name}/ and more.");
            return Err(AgentError::at("/producer/agent_id", message));
        }
        // The manifest is that of who serves the agent.
        said.manifest_uri = None;
        Ok(said)
    }
}
