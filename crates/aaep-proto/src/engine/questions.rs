//! The questions that are not resolved yet, and the tokens of those that are.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::subscription::SubscriptionKey;
use crate::confirm::{Acceptance, AuditRecord, Clarification, Confirmation, Grant, Resolution};
use crate::id::{ReplyToken, SessionId};
use crate::limits;
use crate::message::{Decision, Event, Payload, Response};
use crate::sequence::recent::Recent;
use crate::time::{Moment, Timestamp};

/// The two kinds of questions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QuestionKind {
    Confirmation,
    Clarification,
}

/// What the agent asked.
pub(super) enum QuestionContent {
    Confirmation(Confirmation),
    Clarification(Clarification),
}

impl QuestionContent {
    pub(super) fn kind(&self) -> QuestionKind {
        match self {
            QuestionContent::Confirmation(_) => QuestionKind::Confirmation,
            QuestionContent::Clarification(_) => QuestionKind::Clarification,
        }
    }
}

/// How a question is resolved, and by which subscription if it was by a reply.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ResolutionDetails {
    pub(super) resolution: Resolution,
    /// Whether a state change is emitted. The end of a session implies the end of its questions.
    pub(super) emit: bool,
    pub(super) subscription: Option<SubscriptionKey>,
    pub(super) decided_by: Option<String>,
    pub(super) response: Option<Response>,
    pub(super) modified_action: Option<Map<String, Value>>,
}

impl ResolutionDetails {
    /// A resolution that no reply brought about.
    pub(super) fn automatic(resolution: Resolution) -> ResolutionDetails {
        ResolutionDetails {
            resolution,
            emit: true,
            subscription: None,
            decided_by: None,
            response: None,
            modified_action: None,
        }
    }
}

/// A resolution that waits until the journal has it.
pub(super) struct PendingResolution {
    pub(super) details: ResolutionDetails,
    pub(super) record: AuditRecord,
}

/// Where a question is in its life.
pub(super) enum Phase {
    /// Being written to the journal: not delivered yet.
    Recording,
    /// Waiting for a reply.
    Open,
    /// Resolved, and the resolution is being written to the journal: not reported to the agent yet.
    Resolving(Box<PendingResolution>),
}

/// A message that this many seconds are left to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Countdown {
    pub(super) at: Moment,
    pub(super) seconds_left: u32,
}

/// How a question is set up.
pub(super) struct NewQuestion {
    pub(super) session: SessionId,
    pub(super) content: QuestionContent,
    pub(super) event: Event,
    pub(super) asked_at: Timestamp,
    pub(super) deadline: Moment,
    pub(super) countdowns: Vec<Countdown>,
    pub(super) phase: Phase,
}

/// A question that is not resolved.
pub(super) struct Question {
    session: SessionId,
    content: QuestionContent,
    event: Event,
    /// The wall clock when it was asked. The event may be later, if the clock was set back.
    asked_at: Timestamp,
    deadline: Moment,
    /// When it expires by the latest event that any subscription got of it.
    expires: Option<Timestamp>,
    /// The subscriptions that got it.
    received: BTreeSet<SubscriptionKey>,
    /// The countdowns that were not emitted yet.
    countdowns: Vec<Countdown>,
    phase: Phase,
}

impl Question {
    pub(super) fn new(new: NewQuestion) -> Question {
        Question {
            session: new.session,
            content: new.content,
            event: new.event,
            asked_at: new.asked_at,
            deadline: new.deadline,
            expires: None,
            received: BTreeSet::new(),
            countdowns: new.countdowns,
            phase: new.phase,
        }
    }

    pub(super) fn session(&self) -> &SessionId {
        &self.session
    }

    pub(super) fn content(&self) -> &QuestionContent {
        &self.content
    }

    pub(super) fn kind(&self) -> QuestionKind {
        self.content.kind()
    }

    /// Returns the event that asks it.
    pub(super) fn event(&self) -> &Event {
        &self.event
    }

    /// Gives the event a later time, since it is emitted later than it was made.
    pub(super) fn set_timestamp(&mut self, at: Timestamp) {
        self.event.envelope.timestamp = at;
    }

    pub(super) fn asked_at(&self) -> Timestamp {
        self.asked_at
    }

    /// Returns the earliest time that a reply to it can have.
    pub(super) fn earliest_reply(&self) -> Timestamp {
        self.asked_at.min(self.event.envelope.timestamp)
    }

    pub(super) fn deadline(&self) -> Moment {
        self.deadline
    }

    pub(super) fn expires(&self) -> Option<Timestamp> {
        self.expires
    }

    /// Whether it waits for a reply.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open)
    }

    /// Whether its resolution is being written to the journal.
    pub(super) fn is_resolving(&self) -> bool {
        matches!(self.phase, Phase::Resolving(_))
    }

    /// Goes on after the question was written to the journal. Returns whether it is to be asked now.
    pub(super) fn set_recorded(&mut self) -> bool {
        let was_recording = matches!(self.phase, Phase::Recording);
        if was_recording {
            self.phase = Phase::Open;
        }
        was_recording
    }

    pub(super) fn set_resolving(&mut self, pending: PendingResolution) {
        self.phase = Phase::Resolving(Box::new(pending));
    }

    /// Returns the resolution that waited for the journal, and opens the question until it is resolved with that or with
    /// another one.
    pub(super) fn take_pending_resolution(&mut self) -> Option<PendingResolution> {
        match std::mem::replace(&mut self.phase, Phase::Open) {
            Phase::Resolving(pending) => Some(*pending),
            phase => {
                self.phase = phase;
                None
            }
        }
    }

    /// Returns the name that its asker gave it.
    pub(super) fn origin(&self) -> Option<&str> {
        match &self.content {
            QuestionContent::Confirmation(asked) => asked.origin_key(),
            QuestionContent::Clarification(asked) => asked.origin_key(),
        }
    }

    pub(super) fn was_received(&self) -> bool {
        !self.received.is_empty()
    }

    pub(super) fn was_received_by(&self, key: SubscriptionKey) -> bool {
        self.received.contains(&key)
    }

    /// Notes that these subscriptions get this event of the question.
    pub(super) fn add_received(&mut self, keys: &BTreeSet<SubscriptionKey>, event: &Event) {
        self.received.extend(keys);
        self.expires = self.expires.max(event.question_expires());
    }

    /// Notes that a subscription lost the question. Returns whether it had it.
    pub(super) fn remove_received(&mut self, key: SubscriptionKey) -> bool {
        self.received.remove(&key)
    }

    /// Returns when the next countdown is due.
    pub(super) fn next_countdown(&self) -> Option<Moment> {
        self.countdowns.first().map(|countdown| countdown.at)
    }

    /// Takes the next countdown. Returns how many seconds are left then.
    pub(super) fn take_countdown(&mut self) -> Option<u32> {
        (!self.countdowns.is_empty()).then(|| self.countdowns.remove(0).seconds_left)
    }

    /// Returns the decision that applies to a confirmation that is resolved so. Nothing but the user's yes, or an allowed
    /// default after silence, starts anything. Returns `None` for a clarification.
    pub(super) fn decision(&self, resolution: Resolution) -> Option<Decision> {
        let Payload::AwaitingConfirmation(asked) = &self.event.payload else { return None };
        Some(match resolution {
            Resolution::Accepted => Decision::Accept,
            Resolution::TimedOut | Resolution::NobodyCouldAnswer | Resolution::SubscriberLeft => {
                asked.default_decision.clone()
            }
            Resolution::Rejected
            | Resolution::Answered
            | Resolution::Cancelled
            | Resolution::Superseded
            | Resolution::NotRecorded => Decision::Reject,
        })
    }

    /// Returns the response to a clarification: the user's, or the agent's own default if nobody gave one.
    pub(super) fn response(&self, details: &ResolutionDetails) -> Option<Response> {
        let QuestionContent::Clarification(clarification) = &self.content else { return None };
        let withdrawn =
            matches!(details.resolution, Resolution::Cancelled | Resolution::Superseded | Resolution::NotRecorded);
        match &details.response {
            Some(response) => Some(response.clone()),
            None if withdrawn => None,
            None => clarification.fallback(),
        }
    }

    /// Returns what the question permits if it is resolved so now.
    pub(super) fn grant(&self, token: &ReplyToken, resolution: Resolution, now: Moment) -> Option<Grant> {
        let (QuestionContent::Confirmation(asked), Payload::AwaitingConfirmation(payload)) =
            (&self.content, &self.event.payload)
        else {
            return None;
        };
        Some(Grant {
            session: self.session.clone(),
            token: token.clone(),
            call: asked.call()?,
            acceptance: Acceptance::of(payload, resolution)?,
            expires: now.plus_seconds(limits::PERMIT_LIFETIME_SECONDS),
        })
    }
}

/// All questions that are not resolved, and the tokens of the latest that are.
pub(super) struct Questions {
    unresolved: BTreeMap<ReplyToken, Question>,
    resolved: Recent,
}

impl Questions {
    pub(super) fn new() -> Questions {
        Questions { unresolved: BTreeMap::new(), resolved: Recent::new(limits::REPLY_TOKENS) }
    }

    pub(super) fn len(&self) -> usize {
        self.unresolved.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.unresolved.is_empty()
    }

    pub(super) fn contains(&self, token: &ReplyToken) -> bool {
        self.unresolved.contains_key(token)
    }

    pub(super) fn get(&self, token: &ReplyToken) -> Option<&Question> {
        self.unresolved.get(token)
    }

    pub(super) fn get_mut(&mut self, token: &ReplyToken) -> Option<&mut Question> {
        self.unresolved.get_mut(token)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&ReplyToken, &Question)> {
        self.unresolved.iter()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (&ReplyToken, &mut Question)> {
        self.unresolved.iter_mut()
    }

    pub(super) fn insert(&mut self, token: ReplyToken, question: Question) {
        self.unresolved.insert(token, question);
    }

    /// Takes a question out for good: it can be resolved only once.
    pub(super) fn take_resolved(&mut self, token: &ReplyToken) -> Option<Question> {
        let question = self.unresolved.remove(token)?;
        self.resolved.insert(token.as_str());
        Some(question)
    }

    /// Remembers the token of a question that was resolved before the restart.
    pub(super) fn remember_resolved(&mut self, token: &ReplyToken) {
        self.resolved.insert(token.as_str());
    }

    /// Whether this is the token of a question that was resolved not too long ago.
    pub(super) fn was_resolved(&self, token: &ReplyToken) -> bool {
        self.resolved.contains(token.as_str())
    }

    pub(super) fn count_of(&self, session: &SessionId) -> usize {
        self.unresolved.values().filter(|question| question.session == *session).count()
    }

    pub(super) fn tokens_of(&self, session: &SessionId) -> Vec<ReplyToken> {
        let of_session = self.iter().filter(|(_, question)| question.session == *session);
        of_session.map(|(token, _)| token.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Cx;
    use crate::engine::session_state::SessionState;
    use crate::id::Entropy;
    use crate::message::{LocalizationHints, Producer};
    use crate::time::Now;

    struct Zeros;

    impl Entropy for Zeros {
        fn fill(&mut self, bytes: &mut [u8]) {
            bytes.fill(0);
        }
    }

    fn token() -> ReplyToken {
        "rpl_1".parse().unwrap()
    }

    fn question(phase: Phase) -> Question {
        let now = Now { moment: Moment::default(), wall: Timestamp::from_millis(0) };
        let session = SessionState::new("sess_1".parse().unwrap(), Producer::new("a"), LocalizationHints::default());
        let confirmation = Confirmation::new("Delete it.", "It is gone.");
        let payload = confirmation.payload(token(), 60).into();
        Question::new(NewQuestion {
            session: session.id().clone(),
            content: QuestionContent::Confirmation(confirmation),
            event: session.draft(&mut Cx { now, entropy: &mut Zeros }, payload),
            asked_at: now.wall,
            deadline: now.moment.plus_seconds(60),
            countdowns: vec![Countdown { at: now.moment.plus_seconds(30), seconds_left: 30 }],
            phase,
        })
    }

    #[test]
    fn a_question_is_taken_out_once() {
        let mut questions = Questions::new();
        questions.insert(token(), question(Phase::Open));
        assert!(!questions.was_resolved(&token()));
        assert!(questions.take_resolved(&token()).is_some());
        assert!(questions.take_resolved(&token()).is_none());
        assert!(questions.was_resolved(&token()));
    }

    #[test]
    fn a_question_is_asked_once_after_it_was_recorded() {
        let mut question = question(Phase::Recording);
        assert!(!question.is_open());
        assert!(question.set_recorded());
        assert!(question.is_open());
        assert!(!question.set_recorded());
    }

    #[test]
    fn only_an_acceptance_or_a_default_of_accept_decides_to_accept() {
        let question = question(Phase::Open);
        assert_eq!(question.decision(Resolution::Accepted), Some(Decision::Accept));
        for resolution in [Resolution::Rejected, Resolution::TimedOut, Resolution::Cancelled, Resolution::NotRecorded] {
            assert_eq!(question.decision(resolution), Some(Decision::Reject), "{resolution:?}");
        }
    }

    #[test]
    fn countdowns_are_taken_in_order() {
        let mut question = question(Phase::Open);
        assert_eq!(question.next_countdown(), Some(Moment::default().plus_seconds(30)));
        assert_eq!((question.take_countdown(), question.take_countdown()), (Some(30), None));
    }
}
