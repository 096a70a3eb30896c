//! Requests from other processes of the user: list the open questions, answer one. Also the answers of the user's own
//! command.

use aaep_proto::subscriber::PromptAnswer;
use aaep_proto::time::Moment;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::answer_router::{AnswerRouter, Route};
use crate::command::{TypedCommand, parse};
use crate::listener::Listener;
use crate::output::phrase;

/// A request from another process of the user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ControlRequest {
    /// Lists the open questions.
    Pending,
    /// Accepts a question.
    Accept {
        /// The number of the question. Without it, the only one is meant.
        number: Option<u32>,
    },
    /// Rejects a question.
    Reject {
        /// The number of the question. Without it, the only one is meant.
        number: Option<u32>,
    },
    /// Answers a question in words.
    Answer {
        /// The number of the question. Without it, the only one is meant.
        number: Option<u32>,
        /// The answer.
        text: String,
    },
}

/// The response to a [`ControlRequest`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ControlResponse {
    /// Whether the request was carried out.
    pub ok: bool,
    /// What happened, for people.
    pub text: String,
    /// The open questions, or the one that was answered.
    #[serde(default)]
    pub questions: Vec<Value>,
}

impl Listener {
    /// Handles a request from another process. A request that names a number comes from someone who has seen the
    /// question; one without a number may only accept what is harmless, and only if exactly one question is open.
    pub fn handle_request(&mut self, now: Moment, request: &ControlRequest) -> ControlResponse {
        self.observe(now);
        let (named, words) = match request {
            ControlRequest::Pending => return self.pending(now),
            ControlRequest::Accept { number } => (*number, "yes"),
            ControlRequest::Reject { number } => (*number, "no"),
            ControlRequest::Answer { number, text } => (*number, text.as_str()),
        };
        let checked = self.choose(now, named).and_then(|number| Ok((number, self.check_answer(number, named, words)?)));
        match checked {
            Ok((number, answer)) => {
                let questions = self.questions.get(number).map(|q| q.to_json(now)).into_iter().collect();
                self.send_reply(number, answer);
                self.respond(phrase!(self, "ui-other-window", number = number, words = words));
                ControlResponse { ok: true, text: phrase!(self, "ui-on-its-way", number = number), questions }
            }
            Err(text) => ControlResponse { ok: false, text, questions: self.pending(now).questions },
        }
    }

    fn pending(&self, now: Moment) -> ControlResponse {
        let questions: Vec<Value> = self.questions.open().map(|q| q.to_json(now)).collect();
        let text = match questions.len() {
            0 => phrase!(self, "nothing-waits"),
            count => phrase!(self, "waiting-count", count = count),
        };
        ControlResponse { ok: true, text, questions }
    }

    /// Returns the question that is meant, or why none is.
    fn choose(&mut self, now: Moment, named: Option<u32>) -> Result<u32, String> {
        if let Some(number) = named {
            let question =
                self.questions.get(number).ok_or_else(|| phrase!(self, "ui-no-question", number = number))?;
            return match question.ended {
                None if self.router.is_open(number) => Ok(number),
                None => Err(phrase!(self, "ui-on-its-way-already", number = number)),
                Some(how) => Err(phrase!(self, "ui-over", number = number, how = &self.phrases().text(how))),
            };
        }
        let mut open = self.questions.open();
        let (Some(only), None) = (open.next().map(|q| q.number), open.next()) else {
            let none = self.questions.open().next().is_none();
            return Err(phrase!(self, if none { "ui-hint-nothing" } else { "ui-name-number" }));
        };
        drop(open);
        // The rules for a question that was just announced apply to the other process too.
        let mut router = AnswerRouter::default();
        router.asked(self.router.asked_at(only).unwrap_or(now), only);
        match router.route(now, None) {
            Route::To(number) if self.router.is_open(number) => Ok(number),
            _ => Err(phrase!(self, "ui-just-came", number = only)),
        }
    }

    /// Returns the answer that may be sent, or why it may not.
    fn check_answer(&self, number: u32, named: Option<u32>, words: &str) -> Result<PromptAnswer, String> {
        let question = self.questions.get(number).ok_or_else(|| phrase!(self, "ui-no-such-question"))?;
        if named.is_none() && question.needs_care() && matches!(parse(words), TypedCommand::Yes { .. }) {
            return Err(phrase!(self, "ui-needs-care", number = number));
        }
        if question.prompt.is_none() || !question.can_answer {
            return Err(phrase!(self, "ui-cannot-answer", number = number));
        }
        question.answer(words).map_err(|expected| expected.describe(self.phrases()))
    }

    /// Handles the result of an [`Effect::RunHook`](crate::Effect::RunHook): the line that the user's own command
    /// printed, or why it failed. A command that fails answers nothing.
    pub fn handle_hook_result(&mut self, now: Moment, number: u32, result: Result<String, String>) {
        self.observe(now);
        if self.questions.get(number).is_none_or(|q| q.ended.is_some()) || !self.router.is_open(number) {
            return;
        }
        let line = match result {
            Ok(line) => line,
            Err(why) => return self.note(phrase!(self, "ui-command-failed", number = number, why = &why)),
        };
        let words = match line.split_once(char::is_whitespace) {
            _ if line == "accept" => "yes",
            _ if line == "reject" => "no",
            Some(("answer", text)) => text,
            _ => return self.note(phrase!(self, "ui-command-silent", number = number)),
        };
        match self.check_answer(number, Some(number), words) {
            Ok(answer) => {
                self.send_reply(number, answer);
                self.note(phrase!(self, "ui-command-answered", number = number, words = &line));
            }
            Err(why) => self.note(phrase!(self, "ui-command-not-sent", why = &why)),
        }
    }
}
