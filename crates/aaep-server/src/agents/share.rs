//! What one agent may occupy: places for sessions and questions, and memory.

use super::response::AgentError;
use crate::admission::Admission;
use crate::admission::memory_budget::MemoryReservation;
use crate::admission::quota::{Quota, QuotaSlot};

/// About what an agent occupies that does nothing.
const AGENT_BYTES: usize = 4 * 1024;

/// About what a session occupies: its order, its state, its tool calls.
const SESSION_BYTES: usize = 8 * 1024;

/// About what an output occupies: the text that waits for a boundary, here and in the engine.
const OUTPUT_BYTES: usize = 48 * 1024;

/// About what a question occupies until it ends, with the longest texts that are usual.
const QUESTION_BYTES: usize = 16 * 1024;

/// About what it takes to remember the answer to one event.
const REMEMBERED_BYTES: usize = 320;

/// What an agent has at the moment.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Occupied {
    pub(super) sessions: usize,
    pub(super) outputs: usize,
    pub(super) questions: usize,
}

impl Occupied {
    pub(super) fn plus(self, more: Occupied) -> Occupied {
        Occupied {
            sessions: self.sessions + more.sessions,
            outputs: self.outputs + more.outputs,
            questions: self.questions + more.questions,
        }
    }

    fn bytes(self) -> usize {
        AGENT_BYTES + self.sessions * SESSION_BYTES + self.outputs * OUTPUT_BYTES + self.questions * QUESTION_BYTES
    }
}

/// What one agent may occupy. Dropping it gives everything back.
#[derive(Debug)]
pub(super) struct Share {
    /// Whose places it takes.
    owner: String,
    sessions: Quota,
    questions: Quota,
    memory: MemoryReservation,
    remembered: MemoryReservation,
    /// The agent's own place.
    _place: QuotaSlot,
}

impl Share {
    /// The share of an agent. The owner of its sessions and questions is its principal, or the agent itself where
    /// principals cannot be told apart.
    pub(super) fn new(admission: &Admission, principal: &str, owner: String, place: QuotaSlot) -> Share {
        Share {
            owner,
            sessions: admission.sessions.clone(),
            questions: admission.questions.clone(),
            memory: admission.agent_memory(principal),
            remembered: admission.remembered_memory(principal),
            _place: place,
        }
    }

    /// A place for one more session.
    pub(super) fn session(&self) -> Result<QuotaSlot, AgentError> {
        self.sessions.acquire(&self.owner).map_err(|error| AgentError::new(error.to_string()))
    }

    /// A place for one more question.
    pub(super) fn question(&self) -> Result<QuotaSlot, AgentError> {
        self.questions.acquire(&self.owner).map_err(|error| AgentError::new(error.to_string()))
    }

    /// Reserves memory for what the agent has or is about to begin.
    pub(super) fn reserve(&mut self, occupied: Occupied) -> Result<(), AgentError> {
        self.memory.resize(occupied.bytes()).map_err(|error| AgentError::new(error.message()))
    }

    /// Reserves memory for the answers that are remembered. Answers whether there was enough.
    pub(super) fn remember(&mut self, answers: usize) -> bool {
        self.remembered.resize(answers * REMEMBERED_BYTES).is_ok()
    }
}
