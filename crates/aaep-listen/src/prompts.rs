//! The questions of producers: how they are announced, opened, moved and ended.

use std::sync::Arc;

use aaep_announce::{Phrases, PromptResolution};
use aaep_proto::message::Event;
use aaep_proto::subscriber::{Prompt, PromptEnd, PromptId, PromptReplyError};
use aaep_proto::time::Moment;
use serde_json::json;

use crate::listener::{AnswerError, Listener};
use crate::output::{phrase, speech_key};
use crate::{Effect, LineKind};

/// How long a question may stay without a prompt before it counts as one that cannot be answered here.
const UNOPENED_TIMEOUT_SECS: u64 = 5;

impl Listener {
    /// Handles the event of a question. It gets a number; whether it can be answered follows with its prompt.
    pub(crate) fn question_event(&mut self, now: Moment, producer: usize, event: &Arc<Event>) {
        let token = event.reply_token();
        if token.is_some_and(|token| self.questions.by_token(producer, token).is_some()) {
            // Asked again, or another question under the same token; the latter opens a new prompt.
            let utterances = self.producers[producer].announcer.announce(now, event);
            let number = token.and_then(|token| self.questions.by_token(producer, token)).map(|q| q.number);
            return self.present(producer, LineKind::Question, number, utterances);
        }
        self.add_question(now, producer, event.clone(), now.plus_seconds(UNOPENED_TIMEOUT_SECS));
    }

    /// Announces a question under a new number.
    fn add_question(&mut self, now: Moment, producer: usize, event: Arc<Event>, deadline: Moment) -> u32 {
        let utterances = self.producers[producer].announcer.announce(now, &event);
        let number = self.questions.add(producer, event, deadline, utterances.clone());
        let key_changed = self.producers[producer].key_changed;
        if let Some(question) = self.questions.get_mut(number) {
            question.key_changed = key_changed;
        }
        for dropped in self.questions.evict() {
            self.router.ended(now, dropped);
        }
        self.router.asked(now, number);
        self.present(producer, LineKind::Question, Some(number), utterances);
        number
    }

    pub(crate) fn prompt_opened(&mut self, now: Moment, producer: usize, prompt: &Prompt, deadline: Moment) {
        let token = prompt.token();
        let open = token.and_then(|token| self.questions.by_token(producer, token));
        let same = open.filter(|q| q.prompt.is_none() && q.event.envelope.event_id == prompt.event.envelope.event_id);
        let number = match same.map(|q| q.number) {
            Some(number) => number,
            None => {
                // An answer that did not arrive, or another question under the same token.
                if let Some(token) = token {
                    let _ = self.producers[producer].announcer.prompt_ended(now, token, PromptResolution::Withdrawn);
                }
                self.add_question(now, producer, prompt.event.clone(), deadline)
            }
        };
        let Some(question) = self.questions.get_mut(number) else { return };
        question.prompt = Some(prompt.id);
        question.can_answer = prompt.can_answer;
        question.deadline = deadline;
        let json = question.to_json(now);
        if !prompt.can_answer {
            self.note(phrase!(self, "ui-cannot-answer", number = number));
        }
        self.effects.push(Effect::PrintJson(json.clone()));
        if self.has_prompt_hook && prompt.can_answer {
            self.effects.push(Effect::RunHook { number, question: json });
        }
    }

    pub(crate) fn prompt_moved(&mut self, now: Moment, producer: usize, id: PromptId, deadline: Moment) {
        let number = self.questions.by_prompt(producer, id);
        let Some(question) = number.and_then(|number| self.questions.get_mut(number)) else { return };
        question.deadline = deadline;
        let json = question.to_json(now);
        self.effects.push(Effect::PrintJson(json));
    }

    pub(crate) fn prompt_ended(&mut self, now: Moment, producer: usize, id: PromptId, end: PromptEnd) {
        let Some(number) = self.questions.by_prompt(producer, id) else { return };
        let sent = self.questions.get(number).map(|question| question.sent.clone()).unwrap_or_default();
        let (ended, announced) = match end {
            PromptEnd::AnsweredHere => ("over-answered", PromptResolution::Answered(sent)),
            PromptEnd::ResolvedElsewhere(_) => ("over-elsewhere", PromptResolution::AnsweredElsewhere),
            PromptEnd::Expired => ("over-expired", PromptResolution::TimedOut),
            PromptEnd::Replaced => ("over-replaced", PromptResolution::Withdrawn),
            PromptEnd::SessionEnded => ("over-session", PromptResolution::Withdrawn),
            PromptEnd::ConnectionLost => ("over-connection", PromptResolution::Withdrawn),
            _ => ("over-withdrawn", PromptResolution::Withdrawn),
        };
        let Some(question) = self.questions.get_mut(number) else { return };
        question.ended = Some(ended);
        let token = question.token().cloned();
        let mut json = question.to_json(now);
        // Programs get the reason in English, whatever the user's language is.
        json["reason"] = json!(Phrases::for_languages(&[]).text(ended));
        match end {
            PromptEnd::AnsweredHere => self.router.answered(number),
            _ => self.router.ended(now, number),
        }
        self.effects.push(Effect::PrintJson(json));
        let Some(token) = token else { return };
        let utterances = self.producers[producer].announcer.prompt_ended(now, &token, announced);
        if end == PromptEnd::AnsweredHere {
            // What was sent stops the question, so that nothing else begins in between.
            self.present(producer, LineKind::Answer, Some(number), utterances);
            return self.cancel_speech(producer, token.as_str());
        }
        self.cancel_speech(producer, token.as_str());
        if end == PromptEnd::Replaced {
            return self.note(phrase!(self, "ui-replaced", number = number));
        }
        self.present(producer, LineKind::Answer, Some(number), utterances);
    }

    /// Cancels speech about a question.
    pub(crate) fn cancel_speech(&mut self, producer: usize, token: &str) {
        let key = speech_key(producer, token);
        self.pacer.cancel(&key);
        self.effects.push(Effect::CancelSpeech(key));
    }

    /// Ends questions whose prompt did not come in time: they cannot be answered here.
    pub(crate) fn end_unopened(&mut self, now: Moment) {
        let unopened = self.questions.open().filter(|q| q.prompt.is_none() && q.deadline <= now);
        let numbers: Vec<u32> = unopened.map(|q| q.number).collect();
        for number in numbers {
            self.questions.end(number, "over-unanswerable");
            self.router.ended(now, number);
            self.note(phrase!(self, "ui-cannot-answer", number = number));
        }
    }

    /// Reports what became of an [`Effect::SendReply`]. An answer that was not sent leaves its question open, if the
    /// question still is.
    pub fn handle_reply_result(&mut self, now: Moment, number: u32, result: Result<(), AnswerError>) {
        let Err(error) = result else { return };
        let over = matches!(error, AnswerError::Refused(PromptReplyError::Gone) | AnswerError::SubscriptionEnded);
        if !over {
            self.router.asked(now, number);
            self.router.focus(now, number);
        }
        let why = match error {
            AnswerError::Refused(PromptReplyError::Gone) => "refused-gone",
            AnswerError::Refused(PromptReplyError::NotConnected) => "refused-away",
            AnswerError::Refused(PromptReplyError::NotGranted) => "refused-not-granted",
            AnswerError::Refused(PromptReplyError::NotAllowed) => "refused-not-allowed",
            AnswerError::Refused(PromptReplyError::WrongKind) => "refused-kind",
            AnswerError::SubscriptionEnded => "refused-over",
        };
        self.respond(phrase!(self, "ui-not-sent-to", number = number, why = &self.phrases().text(why)));
    }
}
