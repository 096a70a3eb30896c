//! What one agent may occupy: its slots for sessions and questions, and memory.

use aaep_keys::UserId;

use super::response::AgentError;
use crate::admission::Admission;
use crate::admission::memory_budget::MemoryReservation;
use crate::admission::quota::{Quota, QuotaError, QuotaSlot};

/// Estimated memory of an idle agent.
const AGENT_BYTES: usize = 4 * 1024;

/// Estimated memory of a session: its order, its state, its tool calls.
const SESSION_BYTES: usize = 8 * 1024;

/// Estimated memory of an output: the text that waits for a boundary, here and in the engine.
const OUTPUT_BYTES: usize = 48 * 1024;

/// Estimated memory of a question until it is resolved, with texts of the greatest usual length.
const QUESTION_BYTES: usize = 16 * 1024;

/// Estimated memory of one cached response.
const CACHED_RESPONSE_BYTES: usize = 320;

/// What an agent occupies at the moment.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ResourceUsage {
    pub(super) sessions: usize,
    pub(super) outputs: usize,
    pub(super) questions: usize,
}

impl ResourceUsage {
    /// Returns the sum of both.
    pub(super) fn plus(self, more: ResourceUsage) -> ResourceUsage {
        ResourceUsage {
            sessions: self.sessions + more.sessions,
            outputs: self.outputs + more.outputs,
            questions: self.questions + more.questions,
        }
    }

    fn bytes(self) -> usize {
        AGENT_BYTES + self.sessions * SESSION_BYTES + self.outputs * OUTPUT_BYTES + self.questions * QUESTION_BYTES
    }
}

/// The resources of one agent. Dropping them releases everything.
#[derive(Debug)]
pub(super) struct AgentResources {
    /// The name that sessions and questions are counted under.
    owner: String,
    sessions: Quota,
    questions: Quota,
    /// Counts by user; `None` if there is one user, whose limits are those of the server.
    user_sessions: Option<Quota>,
    user_questions: Option<Quota>,
    memory: MemoryReservation,
    cache_memory: MemoryReservation,
    /// The agent's own slot.
    _agent_slot: QuotaSlot,
}

/// Slots for a session or a question: one of the agent's owner, and one of the user whom it is for.
#[derive(Debug)]
pub(super) struct UserSlot {
    _owner: QuotaSlot,
    _user: Option<QuotaSlot>,
}

/// Whose resources an agent uses.
#[derive(Debug)]
pub(super) struct ResourceOwner<'a> {
    /// The principal that memory is charged to.
    pub(super) principal: &'a str,
    /// The name that sessions and questions are counted under: the principal, or the agent itself where principals
    /// cannot be told apart.
    pub(super) quota_owner: String,
    /// Whether sessions and questions are also counted by user.
    pub(super) is_per_user: bool,
}

impl AgentResources {
    /// Creates the resources of an agent that holds this slot.
    pub(super) fn new(admission: &Admission, owner: ResourceOwner<'_>, agent_slot: QuotaSlot) -> AgentResources {
        AgentResources {
            owner: owner.quota_owner,
            sessions: admission.sessions.clone(),
            questions: admission.questions.clone(),
            user_sessions: owner.is_per_user.then(|| admission.user_sessions.clone()),
            user_questions: owner.is_per_user.then(|| admission.user_questions.clone()),
            memory: admission.agent_memory(owner.principal),
            cache_memory: admission.remembered_memory(owner.principal),
            _agent_slot: agent_slot,
        }
    }

    /// Acquires slots for one more session for a user.
    pub(super) fn acquire_session(&self, user: &UserId) -> Result<UserSlot, AgentError> {
        self.acquire(&self.sessions, self.user_sessions.as_ref(), user)
    }

    /// Acquires slots for one more question to a user.
    pub(super) fn acquire_question(&self, user: &UserId) -> Result<UserSlot, AgentError> {
        self.acquire(&self.questions, self.user_questions.as_ref(), user)
    }

    fn acquire(&self, of_owner: &Quota, of_user: Option<&Quota>, user: &UserId) -> Result<UserSlot, AgentError> {
        let exhausted = |error: QuotaError| AgentError::new(error.to_string());
        let owner = of_owner.acquire(&self.owner).map_err(exhausted)?;
        let user = of_user.map(|quota| quota.acquire(user.as_str())).transpose().map_err(exhausted)?;
        Ok(UserSlot { _owner: owner, _user: user })
    }

    /// Sets the reserved memory to what the agent occupies or is about to occupy.
    pub(super) fn reserve(&mut self, usage: ResourceUsage) -> Result<(), AgentError> {
        self.memory.resize(usage.bytes()).map_err(|error| AgentError::new(error.message()))
    }

    /// Sets the memory that is reserved for cached responses. Returns whether there was enough.
    pub(super) fn reserve_cache(&mut self, responses: usize) -> bool {
        self.cache_memory.resize(responses * CACHED_RESPONSE_BYTES).is_ok()
    }
}
