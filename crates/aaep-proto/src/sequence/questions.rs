//! The open and settled questions of one session.

use std::collections::BTreeMap;

use crate::id::ReplyToken;
use crate::limits;
use crate::message::{
    AwaitingClarification, AwaitingConfirmation, ClarificationReply, ConfirmationReply, Decision, Response,
    ResponseKind, RiskLevel, state,
};
use crate::rule::{Problem, Rule};
use crate::time::Timestamp;

#[derive(Clone, Debug)]
struct Question {
    /// Which one it is in the session, to find the oldest.
    number: u64,
    asked: Timestamp,
    deadline: Timestamp,
    what: What,
    state: State,
}

#[derive(Clone, Debug)]
enum What {
    Confirmation(Confirmation),
    Clarification { kinds: Vec<ResponseKind>, choices: Vec<String> },
}

#[derive(Clone, Debug)]
struct Confirmation {
    action: String,
    default: Decision,
    allowed: Vec<String>,
    /// Whether it was asked as irreversible (decision 14).
    irreversible: bool,
    /// Whether 6.4.1 lets silence accept it.
    default_allowed: bool,
    /// The tool that it is about, if the consent extension says so.
    tool: Option<String>,
}

impl Confirmation {
    fn is_about(&self, tool: &str) -> bool {
        self.tool.as_ref().is_none_or(|known| known == tool)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Pending,
    Accepted,
    /// Nobody answered, and the default was to accept.
    Defaulted,
    Refused,
    /// Left for another state, which looks like a refusal where replies are not seen.
    Doubted,
    /// Settled, and its permission used up if it gave one.
    Spent,
}

/// Whether an irreversible tool call was agreed to.
pub(super) enum Permission {
    /// By the question with this token, or by one that may have been forgotten.
    Granted(Option<ReplyToken>),
    Refused,
    /// Accepted was only a question that was not asked as irreversible.
    NotAsked,
    /// Nobody accepted: the default was applied, and 6.4.1 does not allow that default.
    ByDefault,
    Missing,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Questions {
    asked: BTreeMap<ReplyToken, Question>,
    count: u64,
    /// The token of the question that was let go last, until it is fetched.
    evicted: Option<ReplyToken>,
    /// Whether one that could still give permission was let go.
    lost: bool,
}

impl Questions {
    pub(super) fn tokens(&self) -> impl Iterator<Item = &ReplyToken> {
        self.asked.keys()
    }

    /// Settles a question by decree: the producer knows the outcome without a reply.
    pub(crate) fn settle(&mut self, token: &ReplyToken, accepted: bool) {
        if let Some(question) = self.asked.get_mut(token) {
            question.state = match (&question.what, accepted) {
                (What::Clarification { .. }, _) => State::Spent,
                (What::Confirmation(_), true) => State::Accepted,
                (What::Confirmation(_), false) => State::Refused,
            };
        }
    }

    /// The token of the question that the last one pushed out, if it did.
    pub(super) fn take_evicted(&mut self) -> Option<ReplyToken> {
        self.evicted.take()
    }

    pub(super) fn is_pending(&self, token: &ReplyToken) -> bool {
        self.asked.get(token).is_some_and(|q| q.state == State::Pending)
    }

    pub(super) fn pending(&self) -> usize {
        self.asked.values().filter(|q| q.state == State::Pending).count()
    }

    /// Checks that the same action is not being asked about already.
    pub(super) fn check_confirmation(&self, asked: &AwaitingConfirmation, at: Timestamp, out: &mut Vec<Problem>) {
        let again = self.asked.values().any(|q| {
            q.state == State::Pending
                && at < q.deadline
                && matches!(&q.what, What::Confirmation(known) if known.action == asked.action)
        });
        if again {
            let message = "Wait for the answer: the same action is already being asked about.";
            out.push(Problem::new(Rule::ConfirmAgain, "/action", message));
        }
    }

    pub(super) fn ask_confirmation(&mut self, asked: &AwaitingConfirmation, tool: Option<&str>, at: Timestamp) {
        let allowed = asked.allowed_replies.clone().unwrap_or_else(|| vec!["accept".into(), "reject".into()]);
        let irreversible = asked.is_irreversible();
        let confirmation = Confirmation {
            action: asked.action.clone(),
            default: asked.default_decision.clone(),
            allowed,
            irreversible,
            default_allowed: !irreversible || asked.risk_level == Some(RiskLevel::Low),
            tool: tool.map(str::to_owned),
        };
        self.add(&asked.reply_token, asked.timeout_seconds, What::Confirmation(confirmation), at);
    }

    pub(super) fn ask_clarification(&mut self, asked: &AwaitingClarification, at: Timestamp) {
        let kinds = asked.accepted_response_kinds.clone().unwrap_or_default();
        let choices = asked.choices.iter().flatten().map(|c| c.value.clone()).collect();
        self.add(&asked.reply_token, asked.timeout_seconds, What::Clarification { kinds, choices }, at);
    }

    fn add(&mut self, token: &ReplyToken, timeout: u32, what: What, at: Timestamp) {
        if self.asked.len() >= limits::CHECKED_ITEMS_PER_SESSION && !self.asked.contains_key(token) {
            self.evict(at);
        }
        let deadline = at.plus_seconds(timeout.into());
        self.count += 1;
        let question = Question { number: self.count, asked: at, deadline, what, state: State::Pending };
        self.asked.insert(token.clone(), question);
    }

    /// Lets go of the question that matters least: the oldest of those that are settled, then of
    /// those whose time is over, then of those that can still give permission.
    fn evict(&mut self, now: Timestamp) {
        let rank = |q: &Question| match q.state {
            State::Spent => 0,
            State::Refused | State::Doubted => 1,
            State::Pending if now >= q.deadline => 2,
            State::Accepted | State::Defaulted => 3,
            State::Pending => 4,
        };
        let least = self.asked.iter().min_by_key(|(_, q)| (rank(q), q.number));
        let Some((token, rank)) = least.map(|(token, q)| (token.clone(), rank(q))) else { return };
        self.lost |= rank >= 2;
        self.asked.remove(&token);
        self.evicted = Some(token);
    }

    pub(super) fn confirm(&mut self, reply: &ConfirmationReply, out: &mut Vec<Problem>) {
        let Some(question) = self.open(&reply.reply_token, reply.timestamp, out) else { return };
        let What::Confirmation(Confirmation { allowed, .. }) = &question.what else {
            out.push(Problem::new(
                Rule::ReplyUnknownToken,
                "/reply_token",
                "Answer a clarification with clarification.reply.",
            ));
            return;
        };
        if !allowed.iter().any(|a| a == reply.decision.as_str()) {
            let message = format!("Decide one of: {}.", allowed.join(", "));
            out.push(Problem::new(Rule::ReplyDecision, "/decision", message));
            return;
        }
        // A modified action is a refusal of the action that was asked about (6.3.2).
        let accepted = reply.decision == Decision::Accept && reply.modified_action.is_none();
        question.state = if accepted { State::Accepted } else { State::Refused };
    }

    pub(super) fn clarify(&mut self, reply: &ClarificationReply, out: &mut Vec<Problem>) {
        let Some(question) = self.open(&reply.reply_token, reply.timestamp, out) else { return };
        let What::Clarification { kinds, choices } = &question.what else {
            out.push(Problem::new(
                Rule::ReplyUnknownToken,
                "/reply_token",
                "Answer a confirmation with confirmation.reply.",
            ));
            return;
        };
        let takes = |kind: &ResponseKind| match (kind, &reply.response) {
            (ResponseKind::Freetext, Response::Text(_)) => true,
            (ResponseKind::MultipleChoice, Response::Text(text)) => choices.is_empty() || choices.contains(text),
            (ResponseKind::YesNo, Response::Boolean(_)) => true,
            (ResponseKind::Numeric, Response::Number(_)) => true,
            (ResponseKind::Other(_), _) => true,
            _ => false,
        };
        if !kinds.is_empty() && !kinds.iter().any(takes) {
            let words: Vec<&str> = kinds.iter().map(ResponseKind::as_str).collect();
            let message = format!("Answer with one of these kinds: {}.", words.join(", "));
            out.push(Problem::new(Rule::ReplyResponse, "/response", message));
            return;
        }
        question.state = State::Spent;
    }

    fn open(&mut self, token: &ReplyToken, at: Timestamp, out: &mut Vec<Problem>) -> Option<&mut Question> {
        let question = self.asked.get_mut(token)?;
        if question.state != State::Pending {
            out.push(Problem::new(
                Rule::ReplyDuplicate,
                "/reply_token",
                "This question is settled; the reply is ignored.",
            ));
            return None;
        }
        if at.plus_seconds(limits::CLOCK_SKEW_SECONDS) < question.asked {
            let message = "This answer is older than its question; the reply is ignored.";
            out.push(Problem::new(Rule::ReplyLate, "/timestamp", message));
            return None;
        }
        if at >= question.deadline {
            out.push(Problem::new(
                Rule::ReplyLate,
                "/timestamp",
                "The time for this answer is over; the reply is ignored.",
            ));
            return None;
        }
        Some(question)
    }

    /// A state change that carries the outcome of a question in the consent extension settles that question. Where
    /// replies are a part of the stream, a yes has to be among them.
    pub(super) fn settle_by_outcome(&mut self, token: &ReplyToken, outcome: &str, replies: bool) {
        let Some(question) = self.asked.get_mut(token).filter(|q| q.state == State::Pending) else { return };
        let What::Confirmation(confirmation) = &question.what else {
            question.state = State::Spent;
            return;
        };
        question.state = match outcome {
            "accepted" if replies => State::Pending,
            "accepted" => State::Accepted,
            "timed_out" | "nobody_could_answer" | "subscriber_left" if confirmation.default == Decision::Accept => {
                State::Defaulted
            }
            _ => State::Refused,
        };
    }

    /// A state change out of waiting settles a question: towards the tool it was accepted, back to
    /// thinking it was refused or withdrawn (6.7.2, 6.8). Of several open ones nobody can tell which.
    pub(super) fn settle_by_state(&mut self, to_state: &str, replies: bool) {
        let mut pending = self.asked.values_mut().filter(|q| q.state == State::Pending);
        let (Some(question), None) = (pending.next(), pending.next()) else { return };
        match to_state {
            state::CALLING_TOOL if !replies => question.state = State::Accepted,
            state::THINKING | state::DECIDING if !replies => question.state = State::Doubted,
            state::THINKING | state::DECIDING => question.state = State::Refused,
            _ => {}
        }
    }

    /// Where replies are not seen, an agent may think between the answer and the tool: on the way to
    /// the tool, what looked like a refusal was none.
    pub(super) fn reconsider(&mut self) {
        let doubted = self.asked.values_mut().filter(|q| q.state == State::Doubted);
        if let Some(question) = doubted.max_by_key(|q| q.number) {
            question.state = State::Accepted;
        }
    }

    /// Uses up the permission that a question gave.
    pub(super) fn spend(&mut self, token: &ReplyToken) {
        if let Some(question) = self.asked.get_mut(token) {
            question.state = State::Spent;
        }
    }

    /// Returns whether one irreversible call of this tool is permitted. It needs a question that was itself asked as
    /// irreversible and accepted by a reply, or by the one default that 6.4.1 allows (decision 60).
    pub(super) fn permission(&self, tool: &str, at: Timestamp, replies: bool) -> Permission {
        let accepted = |q: &Question, known: &Confirmation| match q.state {
            State::Accepted => Some(State::Accepted),
            State::Defaulted => Some(State::Defaulted),
            State::Pending if !replies => Some(State::Accepted),
            State::Pending => (known.default == Decision::Accept && at >= q.deadline).then_some(State::Defaulted),
            State::Refused | State::Doubted | State::Spent => None,
        };
        let about = |q: &Question| match &q.what {
            What::Confirmation(known) if known.is_about(tool) => Some((accepted(q, known)?, known.clone())),
            _ => None,
        };
        let grants = |q: &Question| {
            about(q)
                .is_some_and(|(state, known)| known.irreversible && (state == State::Accepted || known.default_allowed))
        };
        let accepted_first = |(_, q): &(&ReplyToken, &Question)| u8::from(q.state != State::Accepted);
        if let Some((token, _)) = self.asked.iter().filter(|(_, q)| grants(q)).min_by_key(accepted_first) {
            return Permission::Granted(Some(token.clone()));
        }
        // It may have been given by a question that had to be forgotten.
        if self.lost {
            return Permission::Granted(None);
        }
        let refuses = |q: &Question| {
            let of_tool = matches!(&q.what, What::Confirmation(known) if known.is_about(tool));
            of_tool && matches!(q.state, State::Refused | State::Doubted)
        };
        if self.asked.values().any(refuses) {
            return Permission::Refused;
        }
        let accepted: Vec<bool> = self.asked.values().filter_map(about).map(|(_, known)| known.irreversible).collect();
        match accepted.contains(&false) {
            true => Permission::NotAsked,
            false if accepted.is_empty() => Permission::Missing,
            false => Permission::ByDefault,
        }
    }
}
