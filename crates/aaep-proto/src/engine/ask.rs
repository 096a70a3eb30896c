//! Asking: how questions are opened, delivered and counted down (chapter 6).

use std::collections::BTreeSet;

use serde_json::json;

use super::publish::{add_consent, engine_hints};
use super::question_texts::{countdown_text, countdowns};
use super::questions::{NewQuestion, Phase, Question, QuestionContent, QuestionKind, ResolutionDetails};
use super::subscription::SubscriptionKey;
use super::timers::Timer;
use super::{AskedCall, AskedQuestion, Cx, Engine, EngineError, JournalEntry, NoSubscriberPolicy};
use crate::confirm::{Clarification, Confirmation, Resolution};
use crate::id::{ReplyToken, SessionId};
use crate::limits;
use crate::message::{Event, Localized, Payload, Progress, ProgressUpdated, state};

impl Engine {
    /// Asks for the user's consent. The outcome is returned as [`EngineEffect::Decided`](super::EngineEffect::Decided)
    /// with this token.
    pub fn ask(
        &mut self,
        cx: &mut Cx<'_>,
        session: &SessionId,
        confirmation: Confirmation,
    ) -> Result<ReplyToken, EngineError> {
        confirmation.check().map_err(EngineError::UnsafeDefault)?;
        let token = ReplyToken::random(cx.entropy);
        let timeout = self.effective_timeout(confirmation.timeout(), QuestionKind::Confirmation);
        let payload = confirmation.payload(token.clone(), timeout).into();
        let content = QuestionContent::Confirmation(confirmation);
        self.open_question(cx, session, &token, payload, content, timeout)?;
        Ok(token)
    }

    /// Asks the user for information that the agent needs. The outcome is returned as
    /// [`EngineEffect::Answered`](super::EngineEffect::Answered) with this token.
    pub fn clarify(
        &mut self,
        cx: &mut Cx<'_>,
        session: &SessionId,
        clarification: Clarification,
    ) -> Result<ReplyToken, EngineError> {
        clarification.check().map_err(EngineError::Unanswerable)?;
        let token = ReplyToken::random(cx.entropy);
        let timeout = self.effective_timeout(clarification.timeout(), QuestionKind::Clarification);
        let payload = clarification.payload(token.clone(), timeout).into();
        let content = QuestionContent::Clarification(clarification);
        self.open_question(cx, session, &token, payload, content, timeout)?;
        Ok(token)
    }

    /// Returns how many questions are not resolved.
    pub fn open_questions(&self) -> usize {
        self.questions.len()
    }

    /// Returns the timeout in seconds, extended for the subscriber that could answer and needs the most time (6.4.2).
    fn effective_timeout(&self, seconds: u32, kind: QuestionKind) -> u32 {
        let able = self.subscriptions.iter().filter(|(_, s)| s.can_answer(kind));
        able.map(|(_, s)| s.terms().more_time().stretch(seconds)).max().unwrap_or(seconds).max(seconds)
    }

    fn open_question(
        &mut self,
        cx: &mut Cx<'_>,
        session: &SessionId,
        token: &ReplyToken,
        payload: Payload,
        content: QuestionContent,
        timeout_seconds: u32,
    ) -> Result<(), EngineError> {
        self.observe_time(cx);
        if self.questions.count_of(session) >= limits::OPEN_QUESTIONS {
            return Err(EngineError::TooMany("questions"));
        }
        let (consent, (variants, meta)) = match &content {
            QuestionContent::Confirmation(confirmation) => (confirmation.consent(), confirmation.rest()),
            QuestionContent::Clarification(clarification) => (None, clarification.rest()),
        };
        let localized = Localized { payload, variants, meta };
        let event = self.commit_unrecorded(cx, session, localized, |event| add_consent(event, consent))?;
        self.ensure_state(cx, session, state::AWAITING_INPUT)?;
        let asked_at = cx.now.moment;
        let deadline = asked_at.plus_seconds(timeout_seconds.into());
        let records_first = self.out.has_journal() && self.out.is_journal_healthy();
        let question = Question::new(NewQuestion {
            session: session.clone(),
            content,
            event,
            asked_at: cx.now.wall,
            deadline,
            countdowns: countdowns(asked_at, timeout_seconds),
            phase: if records_first { Phase::Recording } else { Phase::Open },
        });
        self.timers.set(Timer::Timeout(token.clone()), deadline);
        self.timers.set_or_stop(Timer::Countdown(token.clone()), question.next_countdown());
        if records_first {
            let asked = asked_question(token, &question, timeout_seconds);
            self.out.record(|| JournalEntry::Asked(Box::new(asked)));
        }
        self.questions.insert(token.clone(), question);
        if !self.out.has_journal() {
            self.ask_subscribers(cx, token);
        } else if !records_first {
            self.resolve_unrecorded(cx, token);
        }
        Ok(())
    }

    /// Goes on with a question after the journal wrote it, or could not.
    pub(super) fn handle_question_ack(&mut self, cx: &mut Cx<'_>, token: &ReplyToken, recorded: bool) {
        let Some(question) = self.questions.get_mut(token) else { return };
        if question.is_open() {
            return;
        }
        if !recorded {
            self.resolve_unrecorded(cx, token);
        } else if question.set_recorded() {
            self.ask_subscribers(cx, token);
        }
    }

    /// Delivers a question, or applies its default if nobody could answer it (decision 1).
    fn ask_subscribers(&mut self, cx: &mut Cx<'_>, token: &ReplyToken) {
        let Some(session) = self.questions.get(token).map(|question| question.session().clone()) else { return };
        self.deliver_complete_text(cx, &session, None);
        let Some(question) = self.questions.get_mut(token) else { return };
        if self.out.has_journal()
            && let Ok(session) = self.sessions.get(&session)
        {
            // Other events may have been emitted while it was recorded.
            question.set_timestamp(session.not_before(question.event().envelope.timestamp));
        }
        if self.subscriptions.can_answer(question.kind()) {
            let event = question.event();
            self.out.record(|| JournalEntry::Event(Box::new(event.clone())));
            self.deliver_questions(cx, Some(token), None);
        } else if !self.subscriptions.nobody_is_there()
            || self.config.no_subscriber_policy == NoSubscriberPolicy::ApplyDefault
        {
            self.resolve(cx, token, ResolutionDetails::automatic(Resolution::NobodyCouldAnswer));
        }
    }

    /// Delivers the open questions to a subscription that subscribed, resumed or changed its terms, if someone could
    /// answer them (decision 1).
    pub(super) fn deliver_open_questions(&mut self, cx: &mut Cx<'_>, to: SubscriptionKey) {
        if !self.questions.is_empty() {
            self.deliver_questions(cx, None, Some(to));
        }
    }

    /// Delivers the questions again that a subscription got and lost, except for these.
    pub(super) fn repeat_lost_questions(
        &mut self,
        cx: &mut Cx<'_>,
        to: SubscriptionKey,
        except: &BTreeSet<ReplyToken>,
    ) {
        let mut any_lost = false;
        for (token, question) in self.questions.iter_mut() {
            any_lost |= !except.contains(token) && question.remove_received(to);
        }
        if any_lost {
            self.deliver_questions(cx, None, Some(to));
        }
    }

    /// Delivers open questions that can be answered: one that no subscription received to all, any other to the new one only.
    /// Except for the one that was just asked, they are repeated with the time that is left.
    pub(super) fn deliver_questions(
        &mut self,
        cx: &mut Cx<'_>,
        just_asked: Option<&ReplyToken>,
        newcomer: Option<SubscriptionKey>,
    ) {
        let can_confirm = self.subscriptions.can_answer(QuestionKind::Confirmation);
        let can_clarify = self.subscriptions.can_answer(QuestionKind::Clarification);
        let mut to_send = Vec::new();
        for (token, question) in self.questions.iter_mut() {
            let answerable = match question.kind() {
                QuestionKind::Confirmation => can_confirm,
                QuestionKind::Clarification => can_clarify,
            };
            if !answerable || !question.is_open() {
                continue;
            }
            let missing: BTreeSet<SubscriptionKey> = if question.was_received() {
                newcomer.into_iter().filter(|key| !question.was_received_by(*key)).collect()
            } else {
                self.subscriptions.iter().map(|(key, _)| key).collect()
            };
            if missing.is_empty() {
                continue;
            }
            let event = match self.sessions.get_mut(question.session()) {
                Ok(session) if just_asked != Some(token) => {
                    session.repeat_question(cx, question.event(), question.deadline())
                }
                _ => question.event().clone(),
            };
            question.add_received(&missing, &event);
            to_send.push((token.clone(), event, missing));
        }
        for (token, event, missing) in to_send {
            // The delivery of one may close a subscription that cannot keep up, and so resolve another.
            if self.questions.contains(&token) {
                self.deliver_question(cx, &event, &missing);
            }
        }
    }

    fn deliver_question(&mut self, cx: &mut Cx<'_>, event: &Event, to: &BTreeSet<SubscriptionKey>) {
        match to.first() {
            Some(only) if to.len() == 1 => self.deliver_to_one(cx, *only, event),
            _ => self.deliver_to_some(cx, event, |key| to.contains(&key)),
        }
    }

    /// Emits how much time is left, within the rate and in the background.
    pub(super) fn count_down(&mut self, cx: &mut Cx<'_>, token: &ReplyToken) {
        let Some(question) = self.questions.get_mut(token) else { return };
        if question.is_resolving() {
            return;
        }
        let Some(seconds) = question.take_countdown() else { return };
        let session = question.session().clone();
        self.timers.set_or_stop(Timer::Countdown(token.clone()), question.next_countdown());
        let text = countdown_text(seconds);
        let progress = Progress { description: Some(text.clone()), ..Progress::default() };
        let updated = ProgressUpdated { progress, summary_normal: Some(text), ..ProgressUpdated::default() };
        let consent = json!({"reply_token": token, "seconds_left": seconds}).as_object().cloned();
        let emitted = self.publish_with(cx, &session, Payload::from(updated).into(), |event| {
            event.envelope.localization_hints = engine_hints();
            add_consent(event, consent);
        });
        debug_assert!(emitted.is_ok(), "{emitted:?}");
    }
}

/// Returns what the journal keeps of a question.
fn asked_question(token: &ReplyToken, question: &Question, timeout_seconds: u32) -> AskedQuestion {
    let (call, takes_modified) = match question.content() {
        QuestionContent::Confirmation(asked) => (asked.bound_call(), asked.takes_modified()),
        QuestionContent::Clarification(_) => (None, false),
    };
    AskedQuestion {
        token: token.clone(),
        event: question.event().clone(),
        asked_at: question.asked_at(),
        deadline: question.asked_at().plus_seconds(timeout_seconds.into()),
        call: call.map(|call| AskedCall { tool: call.tool.clone(), digest: call.digest.to_string() }),
        takes_modified,
        origin: question.origin().map(str::to_owned),
    }
}
