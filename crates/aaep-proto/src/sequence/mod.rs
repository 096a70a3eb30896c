//! Checks that a stream of events and replies follows the order that the protocol requires (4.5, 6, appendix A).

mod questions;
pub(crate) mod recent;
pub(crate) mod session;

use std::collections::BTreeMap;

use recent::{Recent, fingerprint, fingerprint_of};
use session::{Scope, SessionOrder};

use crate::id::{ReplyToken, SessionId};
use crate::limits;
use crate::message::{CoreType, Event, Message};
use crate::rule::{Problem, Rule};

/// The part of a stream that is visible to the checker. A subscription with a filter receives less than the producer
/// emits, and one that joins late misses the beginning. The checker reports nothing that depends on invisible events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceView {
    types: u16,
    midway: bool,
}

impl SequenceView {
    /// All core types, from the beginning of every session.
    pub const WHOLE: SequenceView = SequenceView { types: u16::MAX, midway: false };

    /// Creates a view of the core types for which the predicate holds.
    ///
    /// ```
    /// use aaep_proto::message::CoreType;
    /// use aaep_proto::sequence::SequenceView;
    /// let view = SequenceView::of(|core| core != CoreType::ProgressUpdated);
    /// assert!(view.shows(CoreType::SessionStarted) && !view.shows(CoreType::ProgressUpdated));
    /// ```
    pub fn of(mut shown: impl FnMut(CoreType) -> bool) -> SequenceView {
        let types = CoreType::ALL.iter().filter(|c| shown(**c)).fold(0, |bits, c| bits | 1 << *c as u16);
        SequenceView { types, midway: false }
    }

    /// Returns this view for a stream that may begin in the middle of sessions.
    pub fn midway(self) -> SequenceView {
        SequenceView { midway: true, ..self }
    }

    /// Returns whether events of this type are visible.
    pub fn shows(self, core: CoreType) -> bool {
        self.types & (1 << core as u16) != 0
    }

    /// Returns whether sessions may have begun before the stream did.
    pub fn is_midway(self) -> bool {
        self.midway
    }
}

/// Checks the order of a stream with any number of producers and interleaved sessions.
///
/// Ids are unique per producer, so each producer is checked separately.
///
/// Memory is bounded: the state of ended sessions is dropped, but their ids are not accepted again.
///
/// ```
/// use aaep_proto::{Rule, SequenceChecker, message::Message};
/// let line = br#"{"@context":"https://aaep-protocol.org/context/v1","type":"aaep:agent.state.changed",
///   "event_id":"evt_1","session_id":"sess_1","timestamp":"2026-05-24T14:22:13Z",
///   "producer":{"agent_id":"a"},"from_state":"idle","to_state":"thinking"}"#;
/// let mut sequence = SequenceChecker::new();
/// let problems = sequence.observe(&Message::parse(line)?);
/// assert_eq!(problems[0].rule, Rule::StartedFirst);
/// # Ok::<(), aaep_proto::message::MessageError>(())
/// ```
#[derive(Clone, Debug)]
pub struct SequenceChecker {
    view: SequenceView,
    sessions: BTreeMap<Key, SessionOrder>,
    ended: Recent,
    let_go: Recent,
    event_ids: Recent,
    tokens: Recent,
    /// Tokens of sessions that are no longer checked. Replies to them are not checked either.
    unfollowed: Recent,
    /// The session and the producer that asked each open question.
    asked_by: BTreeMap<(ReplyToken, Agent), SessionId>,
    /// Whether the stream contains replies. If not, acceptance is inferred from later events.
    replies: bool,
    /// The number of observed messages, to find the least recently used session.
    clock: u64,
}

/// The fingerprint of a producer's name. Names have no length limit, and there are many keys.
type Agent = u64;

/// A producer and one of its sessions.
type Key = (Agent, SessionId);

/// Returns the id qualified by its producer.
fn scoped(agent: Agent, id: &str) -> String {
    format!("{agent:x} {id}")
}

impl Default for SequenceChecker {
    fn default() -> Self {
        SequenceChecker::new()
    }
}

impl SequenceChecker {
    /// Creates a checker for a complete stream.
    pub fn new() -> SequenceChecker {
        SequenceChecker::with_view(SequenceView::WHOLE)
    }

    /// Creates a checker for a part of a stream.
    pub fn with_view(view: SequenceView) -> SequenceChecker {
        SequenceChecker {
            view,
            sessions: BTreeMap::new(),
            ended: Recent::new(limits::ENDED_SESSIONS),
            let_go: Recent::new(limits::ENDED_SESSIONS),
            event_ids: Recent::new(limits::EVENT_IDS),
            // Each token is stored twice: with its producer, and alone for replies, which name no producer.
            tokens: Recent::new(2 * limits::REPLY_TOKENS),
            unfollowed: Recent::new(limits::REPLY_TOKENS),
            asked_by: BTreeMap::new(),
            replies: false,
            clock: 0,
        }
    }

    /// Declares that the stream contains replies, so that a question without a reply counts as unanswered. Otherwise
    /// the first reply in the stream declares it.
    pub fn with_replies(mut self) -> SequenceChecker {
        self.replies = true;
        self
    }

    /// Returns the number of open sessions.
    pub fn open_sessions(&self) -> usize {
        self.sessions.len()
    }

    /// Checks the next message of the stream and returns its violations.
    pub fn observe(&mut self, message: &Message) -> Vec<Problem> {
        self.clock += 1;
        let mut out = Vec::new();
        match message {
            Message::Event(event) => self.observe_event(event, &mut out),
            Message::ConfirmationReply(reply) => {
                self.replies = true;
                if let Some(session) = self.session_of(&reply.reply_token, &mut out) {
                    session.questions.confirm(reply, &mut out);
                }
            }
            Message::ClarificationReply(reply) => {
                self.replies = true;
                if let Some(session) = self.session_of(&reply.reply_token, &mut out) {
                    session.questions.clarify(reply, &mut out);
                }
            }
            _ => {}
        }
        out
    }

    /// Ends the stream and returns a problem for each session that did not end.
    pub fn finish(self) -> Vec<(SessionId, Problem)> {
        let unended = |(_, id): Key| {
            let message = format!("End {id} with completed, errored or cancelled: the stream stops before.");
            (id, Problem::new(Rule::Unended, "/session_id", message))
        };
        self.sessions.into_keys().map(unended).collect()
    }

    /// Records that an event of this session cannot be read. The order of the session is no longer checked, since
    /// later events would be reported for the missing one.
    pub fn lose(&mut self, session: &SessionId) -> Vec<Problem> {
        let keys: Vec<Key> = self.sessions.keys().filter(|(_, id)| id == session).cloned().collect();
        keys.iter().for_each(|key| self.unfollow(key));
        if !self.let_go.insert(session.as_str()) {
            return Vec::new();
        }
        let message = format!("An event of {session} cannot be read: its order is no longer checked.");
        vec![Problem::new(Rule::Forgotten, "/session_id", message)]
    }

    fn observe_event(&mut self, event: &Event, out: &mut Vec<Problem>) {
        let agent = fingerprint(&event.envelope.producer.agent_id);
        if self.is_redelivered(agent, event, out) {
            return;
        }
        let key = (agent, event.envelope.session_id.clone());
        if self.let_go.contains(key.1.as_str()) || self.let_go.contains(&scoped(agent, key.1.as_str())) {
            if let Some(token) = event.reply_token() {
                self.unfollowed.insert(token.as_str());
            }
            return;
        }
        if !self.sessions.contains_key(&key) && !self.open(&key, event, out) {
            return;
        }
        let scope = Scope { view: self.view, replies: self.replies };
        let Some(session) = self.sessions.get_mut(&key) else { return };
        session.last_seen = self.clock;
        let asked = session.observe(event, scope, out);
        if let Some(token) = session.questions.take_evicted() {
            self.asked_by.remove(&(token, agent));
        }
        if let Some(token) = asked {
            self.note_token(token, &key, out);
        }
        if event.core_type().is_some_and(CoreType::is_terminal) {
            self.close(&key);
            self.ended.insert(&scoped(agent, key.1.as_str()));
        }
    }

    /// Returns whether this event was observed before. A transport may deliver an event twice (8.2.4); a different
    /// event with the same id is a fault of the producer.
    fn is_redelivered(&mut self, agent: Agent, event: &Event, out: &mut Vec<Problem>) -> bool {
        let content = fingerprint_of(event);
        let id = scoped(agent, event.envelope.event_id.as_str());
        match self.event_ids.remember(&id, content) {
            None => false,
            Some(known) if known == content => {
                let message = "This event came before; it is not checked again.";
                out.push(Problem::new(Rule::Redelivered, "/event_id", message));
                true
            }
            Some(_) => {
                out.push(Problem::new(Rule::EventIdReused, "/event_id", "Give every event an id of its own."));
                false
            }
        }
    }

    fn note_token(&mut self, token: &ReplyToken, (agent, id): &Key, out: &mut Vec<Problem>) {
        if !self.tokens.insert(&scoped(*agent, token.as_str())) {
            let message = "Make a fresh reply token for every question.";
            out.push(Problem::new(Rule::TokenReused, "/reply_token", message));
        }
        self.tokens.insert(token.as_str());
        self.asked_by.insert((token.clone(), *agent), id.clone());
    }

    /// Opens a session. Returns whether its events can be checked.
    fn open(&mut self, key: &Key, event: &Event, out: &mut Vec<Problem>) -> bool {
        let (agent, id) = key;
        let starts = event.core_type() == Some(CoreType::SessionStarted);
        if self.ended.contains(&scoped(*agent, id.as_str())) {
            out.push(if starts {
                Problem::new(
                    Rule::SessionReused,
                    "/session_id",
                    format!("Give the new session an id of its own: {id} has ended."),
                )
            } else {
                Problem::new(Rule::AfterTerminal, "/session_id", format!("Send nothing after the end of {id}."))
            });
            return false;
        }
        if !starts && !self.view.midway && self.view.shows(CoreType::SessionStarted) {
            let message = format!("Begin {id} with agent.session.started.");
            out.push(Problem::new(Rule::StartedFirst, "/type", message));
        }
        if self.sessions.len() >= limits::CHECKED_SESSIONS {
            self.let_go_one(out);
        }
        self.sessions.insert(key.clone(), SessionOrder::new(starts));
        true
    }

    fn let_go_one(&mut self, out: &mut Vec<Problem>) {
        let silent = self.sessions.iter().min_by_key(|(_, s)| s.last_seen).map(|(key, _)| key.clone());
        if let Some(key) = silent {
            let (most, id) = (limits::CHECKED_SESSIONS, &key.1);
            let message = format!("More than {most} sessions are open: {id} is no longer checked.");
            out.push(Problem::new(Rule::Forgotten, "/session_id", message));
            self.unfollow(&key);
            self.let_go.insert(&scoped(key.0, key.1.as_str()));
        }
    }

    fn unfollow(&mut self, key: &Key) {
        for token in self.sessions.get(key).into_iter().flat_map(|session| session.questions.tokens()) {
            self.unfollowed.insert(token.as_str());
        }
        self.close(key);
    }

    fn close(&mut self, key: &Key) {
        let Some(session) = self.sessions.remove(key) else { return };
        for token in session.questions.tokens() {
            // A token that was issued again belongs to the session that issued it last.
            let asked = (token.clone(), key.0);
            if self.asked_by.get(&asked) == Some(&key.1) {
                self.asked_by.remove(&asked);
            }
        }
    }

    fn session_of(&mut self, token: &ReplyToken, out: &mut Vec<Problem>) -> Option<&mut SessionOrder> {
        let key = self.key_of(token);
        if key.is_none() && !self.unfollowed.contains(token.as_str()) {
            out.push(if self.tokens.contains(token.as_str()) {
                Problem::new(Rule::ReplyDuplicate, "/reply_token", "This question is settled; the reply is ignored.")
            } else {
                Problem::new(Rule::ReplyUnknownToken, "/reply_token", "Echo the token of a question that was asked.")
            });
        }
        key.and_then(|key| self.sessions.get_mut(&key))
    }

    /// Returns the session that a token belongs to. A reply names no producer; if several issued the same token, the
    /// reply counts for a question that is still open.
    fn key_of(&self, token: &ReplyToken) -> Option<Key> {
        let all = (token.clone(), Agent::MIN)..=(token.clone(), Agent::MAX);
        let mut keys = self.asked_by.range(all).map(|((_, agent), id)| (*agent, id.clone()));
        let first = keys.next()?;
        let is_open = |key: &Key| self.sessions.get(key).is_some_and(|s| s.questions.is_pending(token));
        if is_open(&first) { Some(first) } else { keys.find(is_open).or(Some(first)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_dropped_with_their_questions() {
        let mut sequence = SequenceChecker::with_view(SequenceView::WHOLE.midway());
        for i in 0..3 * limits::CHECKED_ITEMS_PER_SESSION {
            let text = format!(
                r#"{{"@context":"https://aaep-protocol.org/context/v1","type":"aaep:agent.awaiting.clarification",
                "event_id":"evt_{i}","session_id":"sess_1","timestamp":"2026-05-24T14:22:13Z",
                "producer":{{"agent_id":"a"}},"question":"Which?","reply_token":"rpl_{i}","timeout_seconds":60}}"#
            );
            sequence.observe(&Message::parse(text.as_bytes()).unwrap());
        }
        assert_eq!(sequence.asked_by.len(), limits::CHECKED_ITEMS_PER_SESSION);
        sequence.lose(&"sess_1".parse().unwrap());
        assert_eq!(sequence.asked_by.len(), 0);
    }
}
