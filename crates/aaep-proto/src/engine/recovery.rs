//! State that is kept for agents and subscribers that reconnect after a restart.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::{Map, Value};

use super::Engine;
use crate::confirm::{ClarificationOutcome, ConfirmationOutcome, Grant, Resolution};
use crate::id::{ReplyToken, SessionId};
use crate::limits;
use crate::message::{Decision, Envelope};

/// The state of a question, for an agent that asks it again.
#[derive(Debug, PartialEq)]
pub enum QuestionStatus {
    /// It waits for an answer.
    Pending(ReplyToken),
    /// It is decided. The permit is there if one was granted, it was not used and it has not expired.
    Decided(ConfirmationOutcome),
    /// It is answered.
    Answered(ClarificationOutcome),
}

/// A question that was found by the name that its asker gave it.
#[derive(Debug, PartialEq)]
pub struct FoundQuestion<Status = QuestionStatus> {
    /// The session in which it was asked.
    pub session: SessionId,
    /// What became of it.
    pub status: Status,
}

/// A session whose agent has not adopted it after the restart.
#[derive(Debug, Default)]
pub(super) struct OrphanedSession {
    /// The name that the agent's side gave the session.
    pub(super) origin: Option<String>,
    /// Tools that the user was asked about as irreversible.
    pub(super) guarded: BTreeSet<String>,
    /// The irreversible calls that were accepted.
    pub(super) grants: Vec<ToolGrant>,
}

/// An irreversible call that was accepted.
#[derive(Debug)]
pub(super) struct ToolGrant {
    pub(super) tool: String,
    pub(super) grant: Grant,
}

/// The state of a session at the restart.
#[derive(Debug)]
pub(super) struct StateAtRestart {
    pub(super) envelope: Envelope,
    pub(super) state: String,
}

/// How a question ended that its asker may look for.
#[derive(Debug)]
pub(super) enum RememberedOutcome {
    Confirmation {
        session: SessionId,
        decision: Decision,
        resolution: Resolution,
        modified_action: Option<Map<String, Value>>,
        grant: Option<Grant>,
    },
    Clarification {
        session: SessionId,
        outcome: ClarificationOutcome,
    },
}

/// Sessions that wait for their agents, their states at the restart, and outcomes by the names that askers gave their
/// questions.
#[derive(Debug, Default)]
pub(super) struct Recovery {
    orphans: BTreeMap<SessionId, OrphanedSession>,
    states: BTreeMap<SessionId, StateAtRestart>,
    outcomes: BTreeMap<String, RememberedOutcome>,
    /// The names of the outcomes, the oldest first.
    outcome_order: VecDeque<String>,
}

impl Recovery {
    pub(super) fn add_orphan(&mut self, session: SessionId, orphan: OrphanedSession) {
        self.orphans.insert(session, orphan);
    }

    pub(super) fn take_orphan(&mut self, session: &SessionId) -> Option<OrphanedSession> {
        self.orphans.remove(session)
    }

    pub(super) fn orphans(&self) -> impl Iterator<Item = (&SessionId, &OrphanedSession)> {
        self.orphans.iter()
    }

    /// Adds the grant of an accepted question to its session, until the agent adopts that.
    pub(super) fn add_grant(&mut self, tool: &str, grant: &Grant) {
        if let Some(orphan) = self.orphans.get_mut(&grant.session) {
            orphan.grants.push(ToolGrant { tool: tool.to_owned(), grant: grant.clone() });
        }
    }

    pub(super) fn set_state(&mut self, session: SessionId, state: StateAtRestart) {
        self.states.insert(session, state);
    }

    pub(super) fn states(&self) -> impl Iterator<Item = &StateAtRestart> {
        self.states.values()
    }

    /// Remembers how a question ended; the oldest outcome is forgotten when there are too many.
    pub(super) fn remember_outcome(&mut self, origin: &str, outcome: RememberedOutcome) {
        if self.outcomes.insert(origin.to_owned(), outcome).is_none() {
            self.outcome_order.push_back(origin.to_owned());
        }
        if self.outcome_order.len() > limits::REMEMBERED_ORIGINS
            && let Some(oldest) = self.outcome_order.pop_front()
        {
            self.outcomes.remove(&oldest);
        }
    }

    pub(super) fn outcome(&self, origin: &str) -> Option<&RememberedOutcome> {
        self.outcomes.get(origin)
    }
}

impl Engine {
    /// Finds a question by the name that its asker gave it, so that an agent which does not know whether it asked need
    /// not ask twice. The permit of an accepted question is issued again as long as none was used; it does not expire
    /// later for that.
    pub fn find_question(&self, origin: &str) -> Option<FoundQuestion> {
        let unresolved = self.questions.iter().find(|(_, question)| question.origin() == Some(origin));
        if let Some((token, question)) = unresolved {
            let (session, status) = (question.session().clone(), QuestionStatus::Pending(token.clone()));
            return Some(FoundQuestion { session, status });
        }
        Some(match self.recovery.outcome(origin)? {
            RememberedOutcome::Clarification { session, outcome } => {
                FoundQuestion { session: session.clone(), status: QuestionStatus::Answered(outcome.clone()) }
            }
            RememberedOutcome::Confirmation { session, decision, resolution, modified_action, grant } => {
                let outcome = ConfirmationOutcome {
                    decision: decision.clone(),
                    resolution: *resolution,
                    permit: grant.as_ref().and_then(|grant| self.issue_permit(grant)),
                    modified_action: modified_action.clone(),
                };
                FoundQuestion { session: session.clone(), status: QuestionStatus::Decided(outcome) }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_outcome_is_forgotten_first() {
        let mut recovery = Recovery::default();
        for number in 0..=limits::REMEMBERED_ORIGINS {
            let outcome = ClarificationOutcome { response: None, resolution: Resolution::Cancelled };
            let session = "sess_1".parse().unwrap();
            recovery.remember_outcome(&number.to_string(), RememberedOutcome::Clarification { session, outcome });
        }
        assert!(recovery.outcome("0").is_none());
        assert!(recovery.outcome("1").is_some());
    }
}
