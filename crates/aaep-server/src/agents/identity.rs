//! The identity of an agent: the `agent_id` it has by default, and those it may claim.

use aaep::LanguageTag;
use aaep::message::Producer;

use super::response::AgentError;

/// Longest `agent_id`, `agent_name`, `agent_version` or `model` that an agent may claim, in characters.
const MAX_CLAIM_CHARS: usize = 256;

/// Who an agent is, as far as its transport knows.
///
/// ```
/// use aaep_server::agents::AgentIdentity;
/// let bank = AgentIdentity::for_principal("bank", "en".parse()?);
/// assert!(bank.can_act_as("bank") && bank.can_act_as("bank/transfers") && !bank.can_act_as("banker"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct AgentIdentity {
    /// The identity of sessions that claim none.
    pub producer: Producer,
    /// The language of sessions that state none.
    pub language: LanguageTag,
    /// The principal whose name every claimed `agent_id` must have or begin with.
    principal: Option<String>,
}

impl AgentIdentity {
    /// Creates the identity of an agent that may claim any `agent_id`: the user started it, or the server asks for no
    /// credentials.
    pub fn unrestricted(agent_id: impl Into<String>, language: LanguageTag) -> AgentIdentity {
        AgentIdentity { producer: Producer::new(agent_id), language, principal: None }
    }

    /// Creates the identity of an agent with credentials. It may claim the principal's name, or a name below it such as
    /// `bank/transfers`.
    pub fn for_principal(principal: impl Into<String>, language: LanguageTag) -> AgentIdentity {
        let principal = principal.into();
        AgentIdentity { producer: Producer::new(principal.clone()), language, principal: Some(principal) }
    }

    /// Returns whether the agent may claim this `agent_id`.
    pub fn can_act_as(&self, agent_id: &str) -> bool {
        let Some(principal) = &self.principal else { return true };
        agent_id.strip_prefix(principal.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// Returns the identity of a session: the one that the agent claims, if it may, or the default.
    pub(super) fn resolve(&self, claimed: Option<Producer>) -> Result<Producer, AgentError> {
        let Some(mut claimed) = claimed else { return Ok(self.producer.clone()) };
        let too_long = |text: &str| text.chars().count() > MAX_CLAIM_CHARS;
        let texts = [&claimed.agent_version, &claimed.agent_name, &claimed.model];
        if too_long(&claimed.agent_id) || texts.into_iter().flatten().any(|text| too_long(text)) {
            let message = format!("Shorten the names of the agent to {MAX_CLAIM_CHARS} characters.");
            return Err(AgentError::at("/producer", message));
        }
        if !self.can_act_as(&claimed.agent_id) {
            let name = self.principal.as_deref().unwrap_or_default();
            let message =
                format!("These credentials are for {name}: set agent_id to {name}, or to a name below {name}/.");
            return Err(AgentError::at("/producer/agent_id", message));
        }
        // The manifest describes the server, so an agent cannot point to another one.
        claimed.manifest_uri = None;
        Ok(claimed)
    }
}
