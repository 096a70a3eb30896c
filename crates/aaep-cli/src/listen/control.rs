//! What other processes of the user may ask a running terminal: what waits, and to answer it.

use aaep_client::PromptAnswer;
use aaep_proto::time::Moment;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::oneshot;

use super::answer_router::{AnswerRouter, Verdict};
use super::command::{Command, parse};
use super::session::ListenSession;
use super::speak::own;

/// What is wanted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub(crate) enum Wish {
    /// What waits?
    Pending,
    /// Yes.
    Accept { number: Option<u32> },
    /// No.
    Reject { number: Option<u32> },
    /// An answer in words.
    Answer { number: Option<u32>, text: String },
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Outcome {
    /// Whether it was done.
    pub(crate) ok: bool,
    /// What happened, for people.
    pub(crate) text: String,
    /// The questions that wait, or the one that was answered.
    #[serde(default)]
    pub(crate) questions: Vec<Value>,
}

/// A wish and where its answer goes.
pub(crate) struct Request {
    pub(crate) wish: Wish,
    pub(crate) answer: oneshot::Sender<Outcome>,
}

impl ListenSession {
    /// Does what another process wants. Who names a number has seen the question; who names none gets only what is
    /// harmless, and only if there is no doubt.
    pub(crate) fn request(&mut self, now: Moment, wish: &Wish) -> Outcome {
        self.observe(now);
        let (number, words) = match wish {
            Wish::Pending => return self.pending(now),
            Wish::Accept { number } => (*number, "yes"),
            Wish::Reject { number } => (*number, "no"),
            Wish::Answer { number, text } => (*number, text.as_str()),
        };
        match self.choose(now, number).and_then(|chosen| self.settle(chosen, number, words)) {
            Ok((number, answer)) => {
                let questions = self.questions.get(number).map(|q| q.json(now)).into_iter().collect();
                self.dispatch(number, answer);
                self.reply(own!(self, "own-other-window", number = number, words = words));
                Outcome { ok: true, text: own!(self, "own-on-its-way", number = number), questions }
            }
            Err(text) => Outcome { ok: false, text, questions: self.pending(now).questions },
        }
    }

    fn pending(&self, now: Moment) -> Outcome {
        let questions: Vec<Value> = self.questions.open().map(|q| q.json(now)).collect();
        let text = match questions.len() {
            0 => own!(self, "nothing-waits"),
            count => own!(self, "waiting-count", count = count),
        };
        Outcome { ok: true, text, questions }
    }

    fn choose(&mut self, now: Moment, named: Option<u32>) -> Result<u32, String> {
        if let Some(number) = named {
            let question = self.questions.get(number).ok_or_else(|| own!(self, "own-no-question", number = number))?;
            return match question.over {
                None if self.guard.is_open(number) => Ok(number),
                None => Err(own!(self, "own-on-its-way-already", number = number)),
                Some(how) => Err(own!(self, "own-over", number = number, how = &self.phrases().say(how))),
            };
        }
        let mut open = self.questions.open();
        let (Some(only), None) = (open.next().map(|q| q.number), open.next()) else {
            let none = self.questions.open().next().is_none();
            return Err(own!(self, if none { "own-hint-nothing" } else { "own-name-number" }));
        };
        drop(open);
        // The same rules as for a question that was just put to this process.
        let mut guard = AnswerRouter::default();
        guard.asked(self.guard.since(only).unwrap_or(now), only);
        match guard.answer(now, None) {
            Verdict::To(number) if self.guard.is_open(number) => Ok(number),
            _ => Err(own!(self, "own-just-came", number = only)),
        }
    }

    fn settle(&self, number: u32, named: Option<u32>, words: &str) -> Result<(u32, PromptAnswer), String> {
        let question = self.questions.get(number).ok_or_else(|| own!(self, "own-no-such-question"))?;
        if named.is_none() && question.needs_care() && matches!(parse(words), Command::Yes { .. }) {
            return Err(own!(self, "own-needs-care", number = number));
        }
        if question.id.is_none() || !question.can_answer {
            return Err(own!(self, "own-cannot-answer", number = number));
        }
        Ok((number, question.answer(words).map_err(|takes| takes.say(self.phrases()))?))
    }

    /// The user's own command answered. A failing command answers nothing.
    pub(crate) fn command_answered(&mut self, now: Moment, number: u32, answer: Result<String, String>) {
        self.observe(now);
        if self.questions.get(number).is_none_or(|q| q.over.is_some()) || !self.guard.is_open(number) {
            return;
        }
        let line = match answer {
            Ok(line) => line,
            Err(why) => {
                return self.note(own!(self, "own-command-failed", number = number, why = &why));
            }
        };
        let words = match line.split_once(char::is_whitespace) {
            _ if line == "accept" => "yes",
            _ if line == "reject" => "no",
            Some(("answer", text)) => text,
            _ => {
                return self.note(own!(self, "own-command-silent", number = number));
            }
        };
        match self.settle(number, Some(number), words) {
            Ok((number, answer)) => {
                self.dispatch(number, answer);
                self.note(own!(self, "own-command-answered", number = number, words = &line));
            }
            Err(why) => self.note(own!(self, "own-command-not-sent", why = &why)),
        }
    }
}
