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
    /// The number of the question in its session, to find the oldest.
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
    /// Whether the question was asked as irreversible (decision 14).
    irreversible: bool,
    /// Whether 6.4.1 allows acceptance by default.
    default_allowed: bool,
    /// The tool of the call, if the consent extension names it.
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
    /// Accepted by default, without a reply.
    Defaulted,
    Refused,
    /// The session left `awaiting_input`, which looks like a rejection if replies are not visible.
    Doubted,
    /// Resolved, and its permission used if it gave one.
    Spent,
}

/// Whether an irreversible tool call was accepted.
pub(super) enum Permission {
    /// Accepted by the question with this token, or, without one, possibly by a question that was evicted.
    Granted(Option<ReplyToken>),
    Refused,
    /// Only a question that was not asked as irreversible was accepted.
    NotAsked,
    /// Accepted by a default that 6.4.1 does not allow.
    ByDefault,
    Missing,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Questions {
    asked: BTreeMap<ReplyToken, Question>,
    count: u64,
    /// The token of the question that was evicted last, until it is taken.
    evicted: Option<ReplyToken>,
    /// Whether a question that could still give permission was evicted.
    lost: bool,
}

impl Questions {
    pub(super) fn tokens(&self) -> impl Iterator<Item = &ReplyToken> {
        self.asked.keys()
    }

    /// Settles a question whose outcome the producer knows without a reply.
    pub(crate) fn settle(&mut self, token: &ReplyToken, accepted: bool) {
        if let Some(question) = self.asked.get_mut(token) {
            question.state = match (&question.what, accepted) {
                (What::Clarification { .. }, _) => State::Spent,
                (What::Confirmation(_), true) => State::Accepted,
                (What::Confirmation(_), false) => State::Refused,
            };
        }
    }

    /// Takes the token of the question that the last one evicted. Returns `None` if it evicted none.
    pub(super) fn take_evicted(&mut self) -> Option<ReplyToken> {
        self.evicted.take()
    }

    pub(super) fn is_pending(&self, token: &ReplyToken) -> bool {
        self.asked.get(token).is_some_and(|q| q.state == State::Pending)
    }

    pub(super) fn pending(&self) -> usize {
        self.asked.values().filter(|q| q.state == State::Pending).count()
    }

    /// Checks that no question about the same action is open.
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

    /// Evicts the least important question: the oldest settled one, else the oldest expired one, else the oldest one
    /// that can still give permission.
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
        // A modified action rejects the action that was asked about (6.3.2).
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

    /// Settles a question by a state change that carries its outcome in the consent extension. If the stream contains
    /// replies, acceptance needs one of them.
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

    /// Settles the only open question by a change out of `awaiting_input`: a change to `calling_tool` means accepted,
    /// one to `thinking` means rejected or withdrawn (6.7.2, 6.8). With several open questions it is ambiguous.
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

    /// Treats the newest doubted question as accepted. If replies are not visible, an agent may pass through `thinking`
    /// between the reply and the tool call.
    pub(super) fn reconsider(&mut self) {
        let doubted = self.asked.values_mut().filter(|q| q.state == State::Doubted);
        if let Some(question) = doubted.max_by_key(|q| q.number) {
            question.state = State::Accepted;
        }
    }

    /// Marks the permission of a question as used.
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
        // A question that was evicted may have given permission.
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
