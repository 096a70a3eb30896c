//! The user asks an agent to stop.

use aaep_proto::id::SessionId;
use aaep_proto::message::Event;
use aaep_proto::subscriber::CancelRequestError;
use aaep_proto::time::Moment;

use crate::Effect;
use crate::command::parse_number;
use crate::listener::Listener;
use crate::output::phrase;

/// The most sessions that are remembered.
const MAX_SESSIONS: usize = 256;

/// A session that has not ended, as far as its events tell.
#[derive(Clone, Debug, PartialEq, Eq)]
struct OpenSession {
    /// The number that the user names it by. It stays the same.
    number: u32,
    producer: usize,
    id: SessionId,
    agent: String,
}

/// The open sessions of all agents, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct OpenSessions {
    all: Vec<OpenSession>,
    last_number: u32,
}

impl OpenSessions {
    /// Notes an event of an agent with this name: its session is open, or has ended.
    pub(crate) fn note(&mut self, producer: usize, event: &Event, agent: &str) {
        let id = &event.envelope.session_id;
        let known = self.all.iter().position(|session| session.producer == producer && session.id == *id);
        let has_ended = event.core_type().is_some_and(|core| core.is_terminal());
        match (known, has_ended) {
            (Some(at), true) => drop(self.all.remove(at)),
            (None, false) => {
                if self.all.len() >= MAX_SESSIONS {
                    self.all.remove(0);
                }
                self.last_number += 1;
                let (number, id, agent) = (self.last_number, id.clone(), agent.to_owned());
                self.all.push(OpenSession { number, producer, id, agent });
            }
            _ => {}
        }
    }

    /// Forgets the sessions of a producer whose subscription has ended.
    pub(crate) fn forget(&mut self, producer: usize) {
        self.all.retain(|session| session.producer != producer);
    }

    /// Returns the sessions that a number or the name of an agent stands for. Nothing stands for all of them.
    fn find(&self, which: &str) -> Vec<OpenSession> {
        let (number, name) = (parse_number(which), which.to_lowercase());
        let matches = |session: &&OpenSession| match number {
            Some(number) => session.number == number,
            None => which.is_empty() || session.agent.to_lowercase() == name,
        };
        self.all.iter().filter(matches).cloned().collect()
    }
}

impl Listener {
    /// Asks the agent of a session to stop. Without a number or a name that must be the only one; a name stands for all
    /// sessions of the agent.
    pub(crate) fn cancel(&mut self, entered: Moment, which: &str) {
        let found = self.open_sessions.find(which);
        match found.as_slice() {
            [] if which.is_empty() || self.open_sessions.all.is_empty() => self.respond(phrase!(self, "ui-no-work")),
            // It may be the answer to a question, such as: cancel my order.
            [] if self.takes_words() => self.other_words(entered, format!("cancel {which}")),
            [] => {
                self.respond(phrase!(self, "ui-no-such-work", name = which));
                self.list_sessions();
            }
            [_, _, ..] if which.is_empty() => self.list_sessions(),
            sessions => {
                for OpenSession { producer, id, agent, .. } in sessions.iter().cloned() {
                    self.effects.push(Effect::RequestCancel { producer, session: id, agent });
                }
            }
        }
    }

    fn list_sessions(&mut self) {
        let line = |session: &OpenSession| phrase!(self, "ui-work", number = session.number, agent = &session.agent);
        let lines: Vec<String> = self.open_sessions.all.iter().map(line).collect();
        self.respond(phrase!(self, "ui-cancel-which"));
        lines.into_iter().for_each(|line| self.respond(line));
    }

    /// Handles the result of [`Effect::RequestCancel`]. If the producer refuses it, that is reported later.
    pub fn handle_cancel_result(&mut self, agent: &str, result: Result<(), CancelRequestError>) {
        let id = match result {
            Ok(()) => "ui-cancel-asked",
            Err(CancelRequestError::NotOffered) => "ui-cancel-not-offered",
            Err(CancelRequestError::NotConnected) => "ui-cancel-not-connected",
        };
        self.respond(phrase!(self, id, agent = agent));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::test_support::SessionHarness;

    /// Returns the agents that were asked to stop.
    fn asked(harness: &SessionHarness) -> Vec<(usize, &str)> {
        let effects = harness.effects.iter();
        effects
            .filter_map(|effect| match effect {
                Effect::RequestCancel { producer, session, .. } => Some((*producer, session.as_str())),
                _ => None,
            })
            .collect()
    }

    fn start(harness: &mut SessionHarness, producer: usize, session: &str) {
        harness.event(producer, "session.started", json!({"session_id": session, "summary_normal": "Digging."}));
    }

    #[test]
    fn only_session_is_cancelled_without_a_name() {
        let mut harness = SessionHarness::new(&["one"]);
        harness.enter("cancel");
        assert!(asked(&harness).is_empty());
        start(&mut harness, 0, "sess_7");
        harness.enter("cancel");
        assert_eq!(asked(&harness), [(0, "sess_7")]);
        harness.effects.clear();
        harness.event(0, "session.completed", json!({"session_id": "sess_7", "summary_normal": "Done."}));
        harness.enter("cancel");
        assert!(asked(&harness).is_empty(), "it has ended");
    }

    #[test]
    fn one_of_several_sessions_is_named_by_its_number_or_its_agent() {
        let mut harness = SessionHarness::new(&["one", "two"]);
        start(&mut harness, 0, "sess_1");
        start(&mut harness, 0, "sess_2");
        start(&mut harness, 1, "sess_1");
        harness.enter("cancel");
        harness.enter("cancel nobody");
        harness.enter("cancel 9");
        assert!(asked(&harness).is_empty(), "it is not clear which one is meant");
        harness.enter("cancel 2");
        assert_eq!(asked(&harness), [(0, "sess_2")]);
        harness.effects.clear();
        harness.event(0, "session.completed", json!({"session_id": "sess_1", "summary_normal": "Done."}));
        harness.enter("cancel 2");
        assert_eq!(asked(&harness), [(0, "sess_2")], "numbers stay the same");
        harness.effects.clear();
        harness.enter("cancel agent 1");
        assert_eq!(asked(&harness), [(1, "sess_1")]);
    }

    #[test]
    fn words_after_cancel_can_be_the_answer_to_a_question() {
        let mut harness = SessionHarness::new(&["one"]);
        let fields = json!({"urgency": "critical", "question": "What shall I do?", "reply_token": "rpl_1",
            "timeout_seconds": 600, "accepted_response_kinds": ["freetext"]});
        harness.event(0, "awaiting.clarification", fields);
        harness.advance_ms(60_000);
        harness.enter("cancel my order");
        assert!(asked(&harness).is_empty());
        assert!(harness.effects.iter().any(|effect| matches!(effect, Effect::SendReply { .. })));
    }

    #[test]
    fn remembered_sessions_are_bounded() {
        let mut harness = SessionHarness::new(&["one"]);
        for n in 0..MAX_SESSIONS + 5 {
            start(&mut harness, 0, &format!("sess_{n}"));
            // The client drops events beyond a rate.
            harness.advance_ms(1000);
        }
        assert_eq!(harness.listener.open_sessions.all.len(), MAX_SESSIONS);
    }
}
