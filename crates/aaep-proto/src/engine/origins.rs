//! Questions by the names that their askers gave them, for askers who come back: an agent that does not know whether it
//! asked gets the outcome instead of asking twice.

use std::collections::{BTreeMap, VecDeque};

use serde_json::{Map, Value};

use super::Engine;
use crate::confirm::{ClarificationOutcome, ConfirmationOutcome, Grant, Permit, Resolution};
use crate::id::{ReplyToken, SessionId};
use crate::limits;
use crate::message::Decision;

/// What became of a question, for an asker who comes back.
#[derive(Debug, PartialEq)]
pub enum QuestionStatus {
    /// It waits for an answer.
    Pending(ReplyToken),
    /// It is decided. The permit is there if there was one, it was not used and it has not expired.
    Decided(ConfirmationOutcome),
    /// It is answered.
    Answered(ClarificationOutcome),
}

/// How questions ended that their askers may look for.
#[derive(Debug, Default)]
pub(super) struct Origins {
    known: BTreeMap<String, Known>,
    order: VecDeque<String>,
}

/// How one question ended.
#[derive(Debug)]
pub(super) enum Known {
    Confirmation {
        session: SessionId,
        decision: Decision,
        resolution: Resolution,
        modified_action: Option<Map<String, Value>>,
        grant: Option<Grant>,
    },
    Clarification(SessionId, ClarificationOutcome),
}

impl Origins {
    pub(super) fn insert(&mut self, origin: &str, known: Known) {
        if self.known.insert(origin.to_owned(), known).is_none() {
            self.order.push_back(origin.to_owned());
        }
        if self.order.len() > limits::REMEMBERED_ORIGINS
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }
}

impl Engine {
    /// What became of a question that its asker calls so. The permit of an accepted one is granted again as long as
    /// none was used: only the first use counts. It does not live longer for that.
    pub fn find_question(&self, origin: &str) -> Option<(SessionId, QuestionStatus)> {
        let open = self.questions.iter().find(|(_, question)| question.origin() == Some(origin));
        if let Some((token, question)) = open {
            return Some((question.session.clone(), QuestionStatus::Pending(token.clone())));
        }
        Some(match self.origins.known.get(origin)? {
            Known::Clarification(session, answer) => (session.clone(), QuestionStatus::Answered(answer.clone())),
            Known::Confirmation { session, decision, resolution, modified_action, grant } => {
                let usable = grant.as_ref().filter(|grant| self.is_usable(grant));
                let outcome = ConfirmationOutcome {
                    decision: decision.clone(),
                    resolution: *resolution,
                    permit: usable.cloned().map(Permit::new),
                    modified_action: modified_action.clone(),
                };
                (session.clone(), QuestionStatus::Decided(outcome))
            }
        })
    }

    /// Whether a permit for this could still be used.
    pub(super) fn is_usable(&self, grant: &Grant) -> bool {
        let used = self.used.contains(grant.token.as_str()) || self.held_calls.contains_key(&grant.token);
        !used && grant.expires > self.latest && self.sessions.contains_key(&grant.session)
    }
}
