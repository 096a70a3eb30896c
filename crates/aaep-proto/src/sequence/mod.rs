//! Whether a stream of events and replies keeps the order that the protocol demands (4.5, 6, appendix A).

mod questions;
pub(crate) mod recent;
pub(crate) mod session;

use std::collections::BTreeMap;

use recent::Recent;
use session::{Scope, Session};

use crate::id::{ReplyToken, SessionId};
use crate::limits;
use crate::message::{CoreType, Event, Message};
use crate::rule::{Problem, Rule};

/// Which part of a stream is looked at. A subscription that filters sees less than the producer
/// emits, and one that joins late missed the beginning; what it cannot see is not held against
/// the producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    types: u16,
    midway: bool,
}

impl View {
    /// Everything from the beginning.
    pub const WHOLE: View = View { types: u16::MAX, midway: false };

    /// The core types for which the predicate holds.
    ///
    /// ```
    /// use aaep_proto::message::CoreType;
    /// use aaep_proto::sequence::View;
    /// let view = View::of(|core| core != CoreType::ProgressUpdated);
    /// assert!(view.shows(CoreType::SessionStarted) && !view.shows(CoreType::ProgressUpdated));
    /// ```
    pub fn of(mut shown: impl FnMut(CoreType) -> bool) -> View {
        let types = CoreType::ALL.iter().filter(|c| shown(**c)).fold(0, |bits, c| bits | 1 << *c as u16);
        View { types, midway: false }
    }

    /// The same, but sessions may already have begun.
    pub fn midway(self) -> View {
        View { midway: true, ..self }
    }

    /// Whether events of this type are seen.
    pub fn shows(self, core: CoreType) -> bool {
        self.types & (1 << core as u16) != 0
    }

    /// Whether sessions may have begun before the stream did.
    pub fn is_midway(self) -> bool {
        self.midway
    }
}

/// A checker over a stream: one producer, any number of interleaved sessions.
///
/// Memory is bounded: ended sessions are forgotten, but their ids are not accepted again.
///
/// ```
/// use aaep_proto::{Rule, Sequence, message::Message};
/// let line = br#"{"@context":"https://aaep-protocol.org/context/v1","type":"aaep:agent.state.changed",
///   "event_id":"evt_1","session_id":"sess_1","timestamp":"2026-05-24T14:22:13Z",
///   "producer":{"agent_id":"a"},"from_state":"idle","to_state":"thinking"}"#;
/// let mut sequence = Sequence::new();
/// let problems = sequence.observe(&Message::parse(line)?);
/// assert_eq!(problems[0].rule, Rule::StartedFirst);
/// # Ok::<(), aaep_proto::message::Unreadable>(())
/// ```
#[derive(Clone, Debug)]
pub struct Sequence {
    view: View,
    sessions: BTreeMap<SessionId, Session>,
    ended: Recent,
    let_go: Recent,
    event_ids: Recent,
    tokens: Recent,
    /// Which session asked an open question.
    asked_by: BTreeMap<ReplyToken, SessionId>,
    /// Whether the stream holds replies; if not, acceptance is inferred from what follows.
    replies: bool,
    /// Counts observations, to find the session that was silent longest.
    clock: u64,
}

impl Default for Sequence {
    fn default() -> Self {
        Sequence::new()
    }
}

impl Sequence {
    /// A checker for a whole stream.
    pub fn new() -> Sequence {
        Sequence::with_view(View::WHOLE)
    }

    /// A checker for a part of a stream.
    pub fn with_view(view: View) -> Sequence {
        Sequence {
            view,
            sessions: BTreeMap::new(),
            ended: Recent::new(limits::ENDED_SESSIONS),
            let_go: Recent::new(limits::ENDED_SESSIONS),
            event_ids: Recent::new(limits::EVENT_IDS),
            tokens: Recent::new(limits::REPLY_TOKENS),
            asked_by: BTreeMap::new(),
            replies: false,
            clock: 0,
        }
    }

    /// Declares that the stream holds the replies too, so that a question without a reply counts
    /// as unanswered. Otherwise the first reply in the stream declares it.
    pub fn with_replies(mut self) -> Sequence {
        self.replies = true;
        self
    }

    /// How many sessions are open.
    pub fn open_sessions(&self) -> usize {
        self.sessions.len()
    }

    /// Looks at the next message of the stream and reports what it breaks.
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

    /// Ends the stream and reports the sessions that did not end.
    pub fn finish(self) -> Vec<(SessionId, Problem)> {
        let unended = |id: SessionId| {
            let message = format!("End {id} with completed, errored or cancelled: the stream stops before.");
            (id, Problem::new(Rule::Unended, "/session_id", message))
        };
        self.sessions.into_keys().map(unended).collect()
    }

    fn observe_event(&mut self, event: &Event, out: &mut Vec<Problem>) {
        let id = &event.envelope.session_id;
        if !self.event_ids.insert(event.envelope.event_id.as_str()) {
            out.push(Problem::new(Rule::EventIdReused, "/event_id", "Give every event an id of its own."));
        }
        if self.let_go.contains(id.as_str()) {
            return;
        }
        let core = event.core_type();
        if !self.sessions.contains_key(id) && !self.open(event, out) {
            return;
        }
        let scope = Scope { view: self.view, replies: self.replies };
        let Some(session) = self.sessions.get_mut(id) else { return };
        session.last_seen = self.clock;
        if let Some(token) = session.observe(event, scope, out) {
            if !self.tokens.insert(token.as_str()) {
                out.push(Problem::new(
                    Rule::TokenReused,
                    "/reply_token",
                    "Make a fresh reply token for every question.",
                ));
            }
            self.asked_by.insert(token.clone(), id.clone());
        }
        if core.is_some_and(CoreType::is_terminal) {
            self.close(id);
            self.ended.insert(id.as_str());
        }
    }

    /// Opens a session; answers whether its events can be followed.
    fn open(&mut self, event: &Event, out: &mut Vec<Problem>) -> bool {
        let id = &event.envelope.session_id;
        let starts = event.core_type() == Some(CoreType::SessionStarted);
        if self.ended.contains(id.as_str()) {
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
        if self.sessions.len() >= limits::OPEN_SESSIONS {
            self.let_go_one(out);
        }
        self.sessions.insert(id.clone(), Session::new(starts));
        true
    }

    fn let_go_one(&mut self, out: &mut Vec<Problem>) {
        let silent = self.sessions.iter().min_by_key(|(_, s)| s.last_seen).map(|(id, _)| id.clone());
        if let Some(id) = silent {
            let message = format!("More than {} sessions are open: {id} is no longer checked.", limits::OPEN_SESSIONS);
            out.push(Problem::new(Rule::Forgotten, "/session_id", message));
            self.close(&id);
            self.let_go.insert(id.as_str());
        }
    }

    fn close(&mut self, id: &SessionId) {
        if let Some(session) = self.sessions.remove(id) {
            for token in session.questions.tokens() {
                self.asked_by.remove(token);
            }
        }
    }

    fn session_of(&mut self, token: &ReplyToken, out: &mut Vec<Problem>) -> Option<&mut Session> {
        let session = self.asked_by.get(token).and_then(|id| self.sessions.get_mut(id));
        if session.is_none() {
            out.push(if self.tokens.contains(token.as_str()) {
                Problem::new(Rule::ReplyDuplicate, "/reply_token", "This question is settled; the reply is ignored.")
            } else {
                Problem::new(Rule::ReplyUnknownToken, "/reply_token", "Echo the token of a question that was asked.")
            });
        }
        session
    }
}
