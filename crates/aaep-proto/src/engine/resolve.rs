//! Resolution of questions. Every way in which a question can end goes through [`Engine::resolve`], and every question
//! leaves through [`Engine::finish_resolution`], which takes it out first: it ends only once.

use serde_json::json;

use super::publish::Consent;
use super::question_texts::resolution_summary;
use super::questions::{PendingResolution, Question, QuestionContent, QuestionKind, ResolutionDetails};
use super::recovery::RememberedOutcome;
use super::timers::Timer;
use super::{Cx, Engine, EngineEffect, EngineError, JournalEntry, ResolvedQuestion};
use crate::confirm::{AuditRecord, ClarificationOutcome, ConfirmationOutcome, Grant, Permit, Resolution};
use crate::id::{ReplyToken, SessionId};
use crate::message::{Decision, Payload, StateChanged, state};

impl Engine {
    /// Withdraws a question that is no longer needed, or that is superseded by another one (6.8).
    pub fn withdraw(&mut self, cx: &mut Cx<'_>, token: &ReplyToken, superseded: bool) -> Result<(), EngineError> {
        self.observe_time(cx);
        if !self.questions.contains(token) {
            return Err(EngineError::UnknownQuestion);
        }
        let resolution = if superseded { Resolution::Superseded } else { Resolution::Cancelled };
        self.resolve(cx, token, ResolutionDetails::automatic(resolution));
        Ok(())
    }

    /// Resolves a question whose time is over.
    pub(super) fn time_out(&mut self, cx: &mut Cx<'_>, token: &ReplyToken) {
        self.resolve(cx, token, ResolutionDetails::automatic(Resolution::TimedOut));
    }

    /// Resolves the questions that no subscriber can answer any more with their defaults (decision 2).
    pub(super) fn resolve_unanswerable(&mut self, cx: &mut Cx<'_>) {
        let can_confirm = self.subscriptions.can_answer(QuestionKind::Confirmation);
        let can_clarify = self.subscriptions.can_answer(QuestionKind::Clarification);
        let is_lost = |question: &Question| {
            let answerable = match question.kind() {
                QuestionKind::Confirmation => can_confirm,
                QuestionKind::Clarification => can_clarify,
            };
            question.was_received() && !answerable
        };
        let lost: Vec<ReplyToken> =
            self.questions.iter().filter(|(_, q)| is_lost(q)).map(|(token, _)| token.clone()).collect();
        for token in lost {
            self.resolve(cx, &token, ResolutionDetails::automatic(Resolution::SubscriberLeft));
        }
    }

    /// Cancels all questions of a session that ends. No state change is emitted: the end of the session implies it.
    pub(super) fn cancel_questions(&mut self, cx: &mut Cx<'_>, session: &SessionId) {
        for token in self.questions.tokens_of(session) {
            let cancelled = ResolutionDetails::automatic(Resolution::Cancelled);
            self.resolve(cx, &token, ResolutionDetails { emit: false, ..cancelled });
        }
    }

    /// Resolves a question; the first resolution counts. With a journal the question stays until the resolution is
    /// recorded, unless its session ends.
    pub(super) fn resolve(&mut self, cx: &mut Cx<'_>, token: &ReplyToken, details: ResolutionDetails) {
        let Some(question) = self.questions.get(token) else { return };
        if !self.out.has_journal() || !details.emit {
            return self.resolve_now(cx, token, details);
        }
        if question.is_resolving() {
            return;
        }
        let record = self.record_resolution(cx, token, question, &details);
        self.out.record(|| JournalEntry::Decided(Box::new(record.clone())));
        if let Some(question) = self.questions.get_mut(token) {
            question.set_resolving(PendingResolution { details, record: record.record });
        }
    }

    /// Resolves a question without waiting for the journal.
    fn resolve_now(&mut self, cx: &mut Cx<'_>, token: &ReplyToken, details: ResolutionDetails) {
        let Some(question) = self.questions.get(token) else { return };
        let record = self.record_resolution(cx, token, question, &details);
        let audit = record.record.clone();
        self.out.record(|| JournalEntry::Decided(Box::new(record)));
        self.finish_resolution(cx, token, PendingResolution { details, record: audit });
    }

    /// Resolves a question as not recorded: what cannot be proved later is not done.
    pub(super) fn resolve_unrecorded(&mut self, cx: &mut Cx<'_>, token: &ReplyToken) {
        self.resolve_now(cx, token, ResolutionDetails::automatic(Resolution::NotRecorded));
    }

    /// Goes on with a question after the journal wrote its resolution, or could not.
    pub(super) fn handle_resolution_ack(&mut self, cx: &mut Cx<'_>, token: &ReplyToken, recorded: bool) {
        let pending = self.questions.get_mut(token).and_then(Question::take_pending_resolution);
        match pending {
            Some(pending) if recorded => self.finish_resolution(cx, token, pending),
            Some(_) => self.resolve_unrecorded(cx, token),
            None => {}
        }
    }

    /// Removes a question, gives the agent its outcome and emits the state change. No other place ends a question.
    fn finish_resolution(&mut self, cx: &mut Cx<'_>, token: &ReplyToken, resolved: PendingResolution) {
        let PendingResolution { details, record } = resolved;
        let Some(question) = self.questions.take_resolved(token) else { return };
        self.timers.stop(Timer::Timeout(token.clone()));
        self.timers.stop(Timer::Countdown(token.clone()));
        let decision = question.decision(details.resolution);
        let accepted = decision == Some(Decision::Accept);
        self.out.push(EngineEffect::Audit(Box::new(record)));
        if let Ok(session) = self.sessions.get_mut(question.session()) {
            session.resolve_question(token, accepted);
        }
        match question.content() {
            QuestionContent::Confirmation(_) => {
                let grant = if accepted { question.grant(token, details.resolution, cx.now.moment) } else { None };
                let outcome = ConfirmationOutcome {
                    decision: decision.unwrap_or(Decision::Reject),
                    resolution: details.resolution,
                    permit: grant.as_ref().and_then(|grant| self.issue_permit(grant)),
                    modified_action: details.modified_action,
                };
                self.remember_confirmation(&question, &outcome, grant);
                self.out.push(EngineEffect::Decided(token.clone(), outcome));
            }
            QuestionContent::Clarification(_) => {
                let response = question.response(&details);
                let outcome = ClarificationOutcome { response, resolution: details.resolution };
                if let Some(origin) = question.origin() {
                    let (session, outcome) = (question.session().clone(), outcome.clone());
                    self.recovery.remember_outcome(origin, RememberedOutcome::Clarification { session, outcome });
                }
                self.out.push(EngineEffect::Answered(token.clone(), outcome));
            }
        }
        if details.emit {
            self.emit_resolution(cx, token, &question, details.resolution);
        }
    }

    fn remember_confirmation(&mut self, question: &Question, outcome: &ConfirmationOutcome, grant: Option<Grant>) {
        if let Some(origin) = question.origin() {
            let remembered = RememberedOutcome::Confirmation {
                session: question.session().clone(),
                decision: outcome.decision.clone(),
                resolution: outcome.resolution,
                modified_action: outcome.modified_action.clone(),
                grant,
            };
            self.recovery.remember_outcome(origin, remembered);
        }
    }

    /// Makes the permit of a grant. Returns `None` if one was used already, the grant has expired, or its session has
    /// ended.
    pub(super) fn issue_permit(&self, grant: &Grant) -> Option<Permit> {
        if self.sessions.contains(&grant.session) { self.permits.issue(grant, self.latest) } else { None }
    }

    /// Emits how a question ended: a state change out of waiting (6.7.2).
    fn emit_resolution(&mut self, cx: &mut Cx<'_>, token: &ReplyToken, question: &Question, resolution: Resolution) {
        let Ok(session) = self.sessions.get(question.session()) else { return };
        let accepted = question.decision(resolution) == Some(Decision::Accept);
        let calls_tool =
            matches!(question.content(), QuestionContent::Confirmation(c) if accepted && c.call().is_some());
        let mut change =
            StateChanged::new(session.state(), if calls_tool { state::CALLING_TOOL } else { state::THINKING });
        change.summary_normal = Some(resolution_summary(resolution, accepted, question.kind()).to_owned());
        let consent: Consent = json!({"reply_token": token, "outcome": resolution.as_str()}).as_object().cloned();
        // The session is there and the transition is legal; if not, the agent still has the outcome.
        let emitted = self.change_state(cx, question.session(), change.into(), consent);
        debug_assert!(emitted.is_ok(), "{emitted:?}");
        if self.questions.count_of(question.session()) > 0 {
            let back = self.ensure_state(cx, question.session(), state::AWAITING_INPUT);
            debug_assert!(back.is_ok(), "{back:?}");
        }
    }

    /// Makes the record of a resolution.
    fn record_resolution(
        &self,
        cx: &Cx<'_>,
        token: &ReplyToken,
        question: &Question,
        details: &ResolutionDetails,
    ) -> ResolvedQuestion {
        let subscription = details.subscription.and_then(|key| self.subscriptions.get(key));
        let (shown, consequence, call) = match (&question.event().payload, question.content()) {
            (Payload::AwaitingConfirmation(c), QuestionContent::Confirmation(asked)) => {
                (c.action.clone(), Some(c.consequence.clone()), asked.call().map(|d| d.to_string()))
            }
            (Payload::AwaitingClarification(c), _) => (c.question.clone(), None, None),
            _ => (String::new(), None, None),
        };
        let record = AuditRecord {
            reply_token: token.clone(),
            session_id: question.session().clone(),
            asked_at: question.event().envelope.timestamp,
            decided_at: cx.now.wall,
            resolution: details.resolution,
            decision: question.decision(details.resolution),
            principal: subscription.map(|s| s.principal().to_owned()),
            decided_by: details.decided_by.clone(),
            subscription_id: subscription.map(|s| s.id().clone()),
            shown,
            consequence,
            call,
        };
        ResolvedQuestion { record, modified: details.modified_action.clone(), response: question.response(details) }
    }
}
