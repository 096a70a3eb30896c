//! Open questions: how they are asked, answered, counted down and settled (chapter 6). Every way that a
//! question can end goes through [`Engine::settle`], so there is one place to review.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::notice::{countdowns, notice};
use super::origins::Known;
use super::publish::add_consent;
use super::subscriptions::SubscriptionKey;
use super::{Cx, Engine, EngineError, EngineOutput, NoSubscriberPolicy, Timer};
use crate::confirm::{
    Acceptance, AuditRecord, Clarification, ClarificationOutcome, Confirmation, ConfirmationOutcome, Grant, Permit,
    Resolution,
};
use crate::id::{ReplyToken, SessionId};
use crate::limits;
use crate::message::{Decision, Event, Localized, Payload, Progress, ProgressUpdated, Response, StateChanged};
use crate::time::{Moment, Timestamp};

/// A question that waits for its answer.
pub(super) struct Question {
    pub(super) session: SessionId,
    pub(super) asked: Asked,
    pub(super) event: Event,
    /// The wall clock when it was asked; the event may claim to be later if the clock was set back.
    pub(super) asked_wall: Timestamp,
    pub(super) deadline: Moment,
    /// When it expires by the latest word of those who got it.
    pub(super) expires: Option<Timestamp>,
    pub(super) received: BTreeSet<SubscriptionKey>,
    countdowns: Vec<(Moment, u32)>,
    /// It is not on record yet, so nobody was asked.
    pub(super) asking: bool,
    /// How it ends, as soon as that is on record.
    pub(super) ending: Option<(ResolutionDetails, AuditRecord)>,
}

pub(super) enum Asked {
    Confirmation(Confirmation),
    Clarification(Clarification),
}

impl Question {
    /// A question that waited before a restart. How much time is left is said again only when it is put again.
    pub(super) fn restored(
        (session, asked): (SessionId, Asked),
        event: Event,
        asked_wall: Timestamp,
        deadline: Moment,
    ) -> Question {
        Question {
            session,
            asked,
            event,
            asked_wall,
            deadline,
            expires: None,
            received: BTreeSet::new(),
            countdowns: Vec::new(),
            asking: false,
            ending: None,
        }
    }

    /// Whether it waits for an answer.
    pub(super) fn is_open(&self) -> bool {
        !self.asking && self.ending.is_none()
    }

    /// What its asker calls it.
    pub(super) fn origin(&self) -> Option<&str> {
        match &self.asked {
            Asked::Confirmation(asked) => asked.origin_key(),
            Asked::Clarification(asked) => asked.origin_key(),
        }
    }

    pub(super) fn is_confirmation(&self) -> bool {
        matches!(self.asked, Asked::Confirmation(_))
    }

    /// What the end of this question permits, if it ends with this verdict now.
    fn grant(&self, token: &ReplyToken, resolution: Resolution, now: Moment) -> Option<Grant> {
        let (Asked::Confirmation(asked), Payload::AwaitingConfirmation(payload)) = (&self.asked, &self.event.payload)
        else {
            return None;
        };
        Some(Grant {
            session: self.session.clone(),
            token: token.clone(),
            call: asked.call()?,
            acceptance: Acceptance::of(payload, resolution)?,
            expires: now.plus_seconds(limits::PERMIT_SECONDS),
        })
    }
}

/// How a question ends, and who ended it, if it was someone.
pub(super) struct ResolutionDetails {
    pub(super) resolution: Resolution,
    /// Whether a state change tells of it; the end of a session tells by itself.
    pub(super) told: bool,
    pub(super) subscription: Option<SubscriptionKey>,
    pub(super) decided_by: Option<String>,
    pub(super) response: Option<Response>,
    pub(super) modified: Option<Map<String, Value>>,
}

impl ResolutionDetails {
    /// An end that no reply brought about.
    pub(super) fn by_itself(resolution: Resolution) -> ResolutionDetails {
        ResolutionDetails {
            resolution,
            told: true,
            subscription: None,
            decided_by: None,
            response: None,
            modified: None,
        }
    }
}

impl Engine {
    /// Asks for the user's consent. The outcome comes as [`EngineOutput::Decided`] with this token.
    pub fn ask(
        &mut self,
        cx: &mut Cx<'_>,
        session: &SessionId,
        confirmation: Confirmation,
    ) -> Result<ReplyToken, EngineError> {
        confirmation.check().map_err(EngineError::UnsafeDefault)?;
        let token = ReplyToken::random(cx.entropy);
        let timeout = self.stretched(confirmation.timeout(), true);
        let payload = confirmation.payload(token.clone(), timeout).into();
        self.open_question(cx, session, payload, (token.clone(), timeout, Asked::Confirmation(confirmation)))?;
        Ok(token)
    }

    /// Asks the user for what the agent needs to know. The answer comes as [`EngineOutput::Answered`].
    pub fn clarify(
        &mut self,
        cx: &mut Cx<'_>,
        session: &SessionId,
        clarification: Clarification,
    ) -> Result<ReplyToken, EngineError> {
        clarification.check().map_err(EngineError::Unanswerable)?;
        let token = ReplyToken::random(cx.entropy);
        let timeout = self.stretched(clarification.timeout(), false);
        let payload = clarification.payload(token.clone(), timeout).into();
        self.open_question(cx, session, payload, (token.clone(), timeout, Asked::Clarification(clarification)))?;
        Ok(token)
    }

    /// Withdraws a question that is no longer needed, or that another takes the place of (6.8).
    pub fn withdraw(&mut self, cx: &mut Cx<'_>, token: &ReplyToken, superseded: bool) -> Result<(), EngineError> {
        self.observe_time(cx);
        if !self.questions.contains_key(token) {
            return Err(EngineError::UnknownQuestion);
        }
        let resolution = if superseded { Resolution::Superseded } else { Resolution::Cancelled };
        self.settle(cx, token, ResolutionDetails::by_itself(resolution));
        Ok(())
    }

    /// How many questions wait for an answer.
    pub fn open_questions(&self) -> usize {
        self.questions.len()
    }

    /// The longest time that anyone who could answer asks for (6.4.2).
    fn stretched(&self, seconds: u32, confirmation: bool) -> u32 {
        let able = self.subscriptions.iter().filter(|(_, s)| Self::can_answer(s, confirmation));
        able.map(|(_, s)| s.terms.more_time().stretch(seconds)).max().unwrap_or(seconds).max(seconds)
    }

    fn open_question(
        &mut self,
        cx: &mut Cx<'_>,
        session: &SessionId,
        payload: Payload,
        (token, timeout_seconds, asked): (ReplyToken, u32, Asked),
    ) -> Result<(), EngineError> {
        self.observe_time(cx);
        if self.questions.values().filter(|q| q.session == *session).count() >= limits::OPEN_QUESTIONS {
            return Err(EngineError::TooMany("questions"));
        }
        let (consent, (variants, meta)) = match &asked {
            Asked::Confirmation(confirmation) => (confirmation.consent(), confirmation.rest()),
            Asked::Clarification(clarification) => (None, clarification.rest()),
        };
        let said = Localized { payload, variants, meta };
        let event = self.admit(cx, session, said, |event| add_consent(event, consent))?;
        self.ensure_state(cx, session, "awaiting_input")?;
        let asked_at = cx.now.moment;
        let deadline = asked_at.plus_seconds(timeout_seconds.into());
        let question = Question {
            session: session.clone(),
            asked,
            event,
            asked_wall: cx.now.wall,
            deadline,
            expires: None,
            received: BTreeSet::new(),
            countdowns: countdowns(asked_at, timeout_seconds),
            asking: self.config.journal && self.recording,
            ending: None,
        };
        self.timers.insert((deadline, Timer::Timeout(token.clone())));
        if let Some((at, _)) = question.countdowns.first() {
            self.timers.insert((*at, Timer::Countdown(token.clone())));
        }
        self.questions.insert(token.clone(), question);
        if !self.config.journal {
            self.put_question(cx, &token);
        } else if self.recording {
            self.note_question(&token, timeout_seconds);
        } else {
            self.fail_closed(cx, &token);
        }
        Ok(())
    }

    /// Puts a question to the user, or applies its default if nobody could answer (decision 1).
    pub(super) fn put_question(&mut self, cx: &mut Cx<'_>, token: &ReplyToken) {
        let Some(session) = self.questions.get(token).map(|question| question.session.clone()) else { return };
        self.settle_text(cx, &session, None);
        let Some(question) = self.questions.get_mut(token) else { return };
        let confirmation = question.is_confirmation();
        if let Some(session) = self.sessions.get_mut(&question.session).filter(|_| self.config.journal) {
            // Other things may have been said while it was put on record.
            question.event.envelope.timestamp = session.not_before(question.event.envelope.timestamp);
        }
        let able = self.subscriptions.iter().any(|(_, s)| Self::can_answer(s, confirmation));
        let alone = self.has_no_subscribers();
        if able {
            self.note_put(token);
            self.hand_over(cx, Some(token), &[]);
        } else if !alone || self.config.no_subscriber_policy == NoSubscriberPolicy::ApplyDefault {
            self.settle(cx, token, ResolutionDetails::by_itself(Resolution::NobodyCouldAnswer));
        }
    }

    /// Hands open questions to a subscription that joined, came back or changed its terms, if someone could answer
    /// them (decision 1). It gets them with the time that is left.
    pub(super) fn hand_over_questions(&mut self, cx: &mut Cx<'_>, newcomer: SubscriptionKey) {
        if !self.questions.is_empty() {
            self.hand_over(cx, None, &[newcomer]);
        }
    }

    /// Hands over again what a subscription got and lost, except for these.
    pub(super) fn repeat_questions(&mut self, cx: &mut Cx<'_>, key: SubscriptionKey, known: &BTreeSet<ReplyToken>) {
        let mut lost = self.questions.iter_mut().filter(|(token, _)| !known.contains(*token));
        let again = lost.by_ref().fold(false, |any, (_, question)| question.received.remove(&key) | any);
        if again {
            self.hand_over(cx, None, &[key]);
        }
    }

    /// A question that nobody has got goes to everyone; one that is out already is missing to newcomers only.
    pub(super) fn hand_over(
        &mut self,
        cx: &mut Cx<'_>,
        just_asked: Option<&ReplyToken>,
        newcomers: &[SubscriptionKey],
    ) {
        let able = |confirmation| self.subscriptions.iter().any(|(_, s)| Self::can_answer(s, confirmation));
        let (can_confirm, can_clarify) = (able(true), able(false));
        let mut to_send = Vec::new();
        for (token, question) in &mut self.questions {
            let able = if question.is_confirmation() { can_confirm } else { can_clarify };
            let missing: BTreeSet<SubscriptionKey> = if !able || !question.is_open() {
                BTreeSet::new()
            } else if question.received.is_empty() {
                self.subscriptions.iter().map(|(key, _)| key).collect()
            } else {
                newcomers.iter().copied().filter(|key| !question.received.contains(key)).collect()
            };
            if missing.is_empty() {
                continue;
            }
            let event = match self.sessions.get_mut(&question.session) {
                Some(session) if just_asked != Some(token) => session.ask_again(cx, &question.event, question.deadline),
                _ => question.event.clone(),
            };
            question.received.extend(&missing);
            question.expires = question.expires.max(expiry_of(&event));
            to_send.push((token.clone(), event, missing));
        }
        for (token, event, missing) in to_send {
            // Handing over one may close who cannot keep up, and so settle another.
            if !self.questions.contains_key(&token) {
                continue;
            }
            match missing.first() {
                Some(only) if missing.len() == 1 => self.deliver_to(cx, *only, &event),
                _ => self.deliver_if(cx, &event, |key| missing.contains(&key)),
            }
        }
    }

    pub(super) fn time_out(&mut self, cx: &mut Cx<'_>, token: &ReplyToken) {
        self.settle(cx, token, ResolutionDetails::by_itself(Resolution::TimedOut));
    }

    /// Settles with the default what nobody can answer any more (decision 2).
    pub(super) fn default_what_nobody_can_answer(&mut self, cx: &mut Cx<'_>) {
        let able = |confirmation| self.subscriptions.iter().any(|(_, s)| Self::can_answer(s, confirmation));
        let (can_confirm, can_clarify) = (able(true), able(false));
        let lost: Vec<ReplyToken> = self
            .questions
            .iter()
            .filter(|(_, q)| !q.received.is_empty() && !if q.is_confirmation() { can_confirm } else { can_clarify })
            .map(|(token, _)| token.clone())
            .collect();
        for token in lost {
            self.settle(cx, &token, ResolutionDetails::by_itself(Resolution::SubscriberLeft));
        }
    }

    /// Settles all questions of a session that ends; its end is the notice.
    pub(super) fn settle_all(&mut self, cx: &mut Cx<'_>, session: &SessionId, resolution: Resolution) {
        let tokens: Vec<ReplyToken> =
            self.questions.iter().filter(|(_, q)| q.session == *session).map(|(t, _)| t.clone()).collect();
        for token in tokens {
            self.settle(cx, &token, ResolutionDetails { told: false, ..ResolutionDetails::by_itself(resolution) });
        }
    }

    /// Every end comes here; the first counts. With a journal it waits until it is on record, unless its session ends.
    pub(super) fn settle(&mut self, cx: &mut Cx<'_>, token: &ReplyToken, ending: ResolutionDetails) {
        let Some(question) = self.questions.get(token) else { return };
        if !self.config.journal || !ending.told {
            return self.settle_now(cx, token, ending);
        }
        if question.ending.is_some() {
            return;
        }
        let record = self.record(cx, token, question, &ending);
        self.note_ending(question_response(question, &ending), &ending, &record);
        if let Some(question) = self.questions.get_mut(token) {
            question.ending = Some((ending, record));
        }
    }

    /// Ends a question without waiting for the record of it.
    pub(super) fn settle_now(&mut self, cx: &mut Cx<'_>, token: &ReplyToken, ending: ResolutionDetails) {
        let Some(question) = self.questions.get(token) else { return };
        let record = self.record(cx, token, question, &ending);
        self.note_ending(question_response(question, &ending), &ending, &record);
        self.conclude(cx, token, ending, record);
    }

    /// The one place where a question ends. It is taken out first, so it can end only once.
    pub(super) fn conclude(
        &mut self,
        cx: &mut Cx<'_>,
        token: &ReplyToken,
        ending: ResolutionDetails,
        record: AuditRecord,
    ) {
        let resolution = ending.resolution;
        let Some(question) = self.questions.remove(token) else { return };
        self.spent.insert(token.as_str());
        self.timers.remove(&(question.deadline, Timer::Timeout(token.clone())));
        for (at, _) in &question.countdowns {
            self.timers.remove(&(*at, Timer::Countdown(token.clone())));
        }
        let decision = decision_of(&question, resolution);
        let accepted = decision == Some(Decision::Accept);
        self.out.push_back(EngineOutput::Audit(Box::new(record)));
        if let Some(session) = self.sessions.get_mut(&question.session) {
            session.settle(token, accepted);
        }
        match &question.asked {
            Asked::Confirmation(_) => {
                let decision = decision.unwrap_or(Decision::Reject);
                let grant = question.grant(token, resolution, cx.now.moment).filter(|_| accepted);
                if let Some(origin) = question.origin() {
                    let (session, modified_action) = (question.session.clone(), ending.modified.clone());
                    let (decision, grant) = (decision.clone(), grant.clone());
                    self.origins
                        .insert(origin, Known::Confirmation { session, decision, resolution, modified_action, grant });
                }
                let permit = grant.map(Permit::new);
                let outcome = ConfirmationOutcome { decision, resolution, permit, modified_action: ending.modified };
                self.out.push_back(EngineOutput::Decided(token.clone(), outcome));
            }
            Asked::Clarification(_) => {
                let answer = ClarificationOutcome { response: question_response(&question, &ending), resolution };
                if let Some(origin) = question.origin() {
                    self.origins.insert(origin, Known::Clarification(question.session.clone(), answer.clone()));
                }
                self.out.push_back(EngineOutput::Answered(token.clone(), answer));
            }
        }
        if ending.told {
            self.tell_outcome(cx, token, &question, (resolution, accepted));
        }
    }

    /// Tells everyone how a question ended: a state change out of waiting (6.7.2).
    fn tell_outcome(
        &mut self,
        cx: &mut Cx<'_>,
        token: &ReplyToken,
        question: &Question,
        (resolution, accepted): (Resolution, bool),
    ) {
        let Some(from) = self.sessions.get(&question.session).map(|s| s.state.clone()) else { return };
        let calls = matches!(&question.asked, Asked::Confirmation(c) if accepted && c.call().is_some());
        let mut change = StateChanged::new(from, if calls { "calling_tool" } else { "thinking" });
        change.summary_normal = Some(notice(resolution, accepted, question.is_confirmation()).to_owned());
        let consent = json!({"reply_token": token, "outcome": resolution.as_str()}).as_object().cloned();
        // The session is there and the transition is legal; if not, the outcome itself is already out.
        let told = self.change_state(cx, &question.session, change.into(), consent);
        debug_assert!(told.is_ok(), "{told:?}");
        if self.questions.values().any(|q| q.session == question.session) {
            let back = self.ensure_state(cx, &question.session, "awaiting_input");
            debug_assert!(back.is_ok(), "{back:?}");
        }
    }

    /// Says how much time is left, within the rate and in the background.
    pub(super) fn count_down(&mut self, cx: &mut Cx<'_>, token: &ReplyToken) {
        let Some(question) = self.questions.get_mut(token) else { return };
        if question.countdowns.is_empty() || question.ending.is_some() {
            return;
        }
        let (_, seconds) = question.countdowns.remove(0);
        if let Some((at, _)) = question.countdowns.first() {
            self.timers.insert((*at, Timer::Countdown(token.clone())));
        }
        let session = question.session.clone();
        let text = format!("{seconds} seconds left to answer.");
        let progress = Progress { description: Some(text.clone()), ..Progress::default() };
        let updated = ProgressUpdated { progress, summary_normal: Some(text), ..ProgressUpdated::default() };
        let consent = json!({"reply_token": token, "seconds_left": seconds}).as_object().cloned();
        let told = self.publish_with(cx, &session, Payload::from(updated).into(), |event| {
            event.envelope.localization_hints = "en".parse().ok().map(crate::message::LocalizationHints::in_language);
            add_consent(event, consent);
        });
        debug_assert!(told.is_ok(), "{told:?}");
    }

    fn record(&self, cx: &Cx<'_>, token: &ReplyToken, question: &Question, ending: &ResolutionDetails) -> AuditRecord {
        let decision = decision_of(question, ending.resolution);
        let subscription = ending.subscription.and_then(|key| self.subscriptions.get(key));
        let (shown, consequence, call) = match (&question.event.payload, &question.asked) {
            (Payload::AwaitingConfirmation(c), Asked::Confirmation(asked)) => {
                (c.action.clone(), Some(c.consequence.clone()), asked.call().map(|d| d.to_string()))
            }
            (Payload::AwaitingClarification(c), _) => (c.question.clone(), None, None),
            _ => (String::new(), None, None),
        };
        AuditRecord {
            reply_token: token.clone(),
            session_id: question.session.clone(),
            asked_at: question.event.envelope.timestamp,
            decided_at: cx.now.wall,
            resolution: ending.resolution,
            decision,
            principal: subscription.map(|s| s.principal.to_string()),
            decided_by: ending.decided_by.clone(),
            subscription_id: subscription.map(|s| s.id.clone()),
            shown,
            consequence,
            call,
        }
    }
}

/// When a question expires by its own words.
fn expiry_of(event: &Event) -> Option<Timestamp> {
    let seconds = match &event.payload {
        Payload::AwaitingConfirmation(question) => question.timeout_seconds,
        Payload::AwaitingClarification(question) => question.timeout_seconds,
        _ => return None,
    };
    Some(event.envelope.timestamp.plus_seconds(seconds.into()))
}

/// What applies to a confirmation that ended so. Nothing but the user's yes, or an allowed default
/// after silence, starts anything.
fn decision_of(question: &Question, resolution: Resolution) -> Option<Decision> {
    let Payload::AwaitingConfirmation(asked) = &question.event.payload else { return None };
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

/// The answer to a clarification: the user's, or the agent's own where nobody gave one.
fn question_response(question: &Question, ending: &ResolutionDetails) -> Option<Response> {
    let Asked::Clarification(clarification) = &question.asked else { return None };
    let withdrawn =
        matches!(ending.resolution, Resolution::Cancelled | Resolution::Superseded | Resolution::NotRecorded);
    ending.response.clone().or_else(|| clarification.fallback().filter(|_| !withdrawn))
}
