//! Runs typed lines.

use aaep_announce::{Announcer, Priority, Utterance};
use aaep_proto::message::{CognitiveLoad, Verbosity};
use aaep_proto::subscriber::PromptAnswer;
use aaep_proto::time::Moment;

use crate::answer_router::Route;
use crate::command::{HELP_LINES, TypedCommand, parse, parse_number};
use crate::listener::Listener;
use crate::output::phrase;
use crate::questions::NumberedQuestion;
use crate::{Effect, Line, LineKind};

/// The most that a user can multiply the time for answers by.
const MAX_TIME_FACTOR: u32 = 10;

/// An answer as it was typed.
#[derive(Clone, Debug)]
enum TypedAnswer {
    Yes { whole: bool },
    No,
    Words(String),
}

impl Listener {
    /// Handles a line that the user entered at this moment.
    pub fn handle_line(&mut self, entered: Moment, line: &str) {
        self.observe(entered);
        let command = parse(line);
        // Enter silences speech: what is said next replaces it.
        self.response_pending = command != TypedCommand::Empty;
        if !matches!(command, TypedCommand::Walk { .. }) {
            self.transcript.go_to_end();
        }
        match command {
            TypedCommand::Empty => self.silence(),
            TypedCommand::Stop => {
                self.silence();
                self.respond(phrase!(self, if self.has_voice { "ui-stopped" } else { "ui-nothing-spoken" }));
            }
            TypedCommand::Yes { named, whole } => self.answer(entered, named, TypedAnswer::Yes { whole }),
            TypedCommand::No { named } => self.answer(entered, named, TypedAnswer::No),
            TypedCommand::AnswerTo(number, words) => self.answer(entered, Some(number), TypedAnswer::Words(words)),
            TypedCommand::Answer(words) => self.answer(entered, None, TypedAnswer::Words(words)),
            TypedCommand::Number(text) => self.number(entered, text),
            TypedCommand::Other(words) => self.other_words(entered, words),
            TypedCommand::Repeat(named) => self.repeat(entered, named),
            TypedCommand::Details { named, all } => self.details(entered, named, all),
            TypedCommand::ListQuestions => self.list_questions(entered),
            TypedCommand::Status => self.ask_announcers(|announcer| announcer.status(entered)),
            TypedCommand::CatchUp => self.ask_announcers(|announcer| announcer.catch_up(entered)),
            TypedCommand::Walk { back, kind } => self.walk(back, kind),
            TypedCommand::Less => self.change_verbosity(false),
            TypedCommand::More => self.change_verbosity(true),
            TypedCommand::Mute(name) => self.mute(&name, true),
            TypedCommand::Unmute(name) => self.mute(&name, false),
            TypedCommand::Cancel(which) => self.cancel(entered, &which),
            TypedCommand::MoreTime => self.more_time(entered),
            TypedCommand::Voice(on) => {
                // Speech that waits is dropped, so that a voice that is turned on does not catch up.
                self.pacer.clear();
                self.effects.push(Effect::SetVoice(on));
            }
            TypedCommand::Close { whole } => self.close(whole),
            TypedCommand::Help => HELP_LINES.iter().for_each(|line| self.respond(*line)),
        }
    }

    /// Routes a typed answer to one question or to none. Every typed answer goes through here.
    fn answer(&mut self, entered: Moment, named: Option<u32>, typed: TypedAnswer) {
        match self.router.route(entered, named) {
            Route::To(number) => self.answer_question(entered, number, named, typed),
            Route::NoneOpen => self.respond(phrase!(self, "ui-nothing-waits")),
            Route::Ended(number) => {
                let how = self.questions.get(number).map_or("over-long-ago", |q| q.ended.unwrap_or("over-on-its-way"));
                self.respond(phrase!(self, "ui-not-sent-over", number = number, how = &self.phrases().text(how)));
                if self.questions.open().next().is_some() {
                    self.list_questions(entered);
                }
            }
            Route::Unknown(number) => {
                self.respond(phrase!(self, "ui-not-sent-no-question", number = number));
            }
            Route::TooRecent(number) => {
                self.respond(phrase!(self, "ui-too-new"));
                self.ask_again(entered, number);
            }
            Route::AskAgain(number) => {
                self.respond(phrase!(self, "ui-put-first"));
                self.ask_again(entered, number);
            }
            Route::Ambiguous => {
                self.respond(phrase!(self, "ui-which"));
                self.list_questions(entered);
            }
        }
    }

    fn answer_question(&mut self, entered: Moment, number: u32, named: Option<u32>, typed: TypedAnswer) {
        let Some(question) = self.questions.get(number) else { return };
        // With a number, yes and no are commands: the user may not mean the word itself.
        let word = match typed {
            TypedAnswer::Yes { .. } => "yes",
            _ => "no",
        };
        if named.is_some() && !matches!(typed, TypedAnswer::Words(_)) && question.takes_as_text(word) {
            return self.respond(phrase!(self, "ui-takes-words", number = number, word = word));
        }
        let answer = match &typed {
            TypedAnswer::Yes { whole: false } if question.needs_care() => {
                self.router.focus(entered, number);
                return self.respond(phrase!(self, "ui-whole-word", number = number));
            }
            TypedAnswer::Yes { .. } => question.answer("yes"),
            TypedAnswer::No => question.answer("no"),
            TypedAnswer::Words(words) => question.answer(words),
        };
        match answer {
            Ok(answer) => self.send_reply(number, answer),
            Err(expected) => {
                let why = expected.describe(self.phrases());
                self.respond(phrase!(self, "ui-not-sent-to", number = number, why = &why));
            }
        }
    }

    /// Asks the front end to send an answer, if the question can be answered here.
    pub(crate) fn send_reply(&mut self, number: u32, answer: PromptAnswer) {
        let phrases = self.phrases();
        let Some(question) = self.questions.get_mut(number) else { return };
        match (question.prompt, question.can_answer) {
            (Some(prompt), true) => {
                let producer = question.producer;
                question.sent = question.describe_answer(&answer, phrases);
                self.router.answered(number);
                self.effects.push(Effect::SendReply { producer, prompt, number, answer });
            }
            _ => self.respond(phrase!(self, "ui-not-sent-cannot", number = number)),
        }
    }

    /// Handles a number alone: an answer if the only open question takes numbers, else the number of a question.
    fn number(&mut self, entered: Moment, text: String) {
        let mut open = self.questions.open();
        let (first, second) = (open.next(), open.next());
        let answers = first.is_some_and(|q| !q.is_confirmation()) && second.is_none();
        drop(open);
        match parse_number(&text) {
            Some(number) if !answers => self.repeat(entered, Some(number)),
            _ => self.answer(entered, None, TypedAnswer::Words(text)),
        }
    }

    /// Returns whether an open question takes words.
    pub(crate) fn takes_words(&self) -> bool {
        self.questions.open().any(|q| !q.is_confirmation())
    }

    /// Handles words that are no command: an answer, if an open question takes words.
    pub(crate) fn other_words(&mut self, entered: Moment, words: String) {
        if self.takes_words() && words.chars().count() > 1 {
            return self.answer(entered, None, TypedAnswer::Words(words));
        }
        let hint = if self.questions.open().next().is_some() { "answer-yes-no" } else { "ui-hint-nothing" };
        self.respond(phrase!(self, "ui-not-understood", hint = &self.phrases().text(hint)));
    }

    /// Announces an open question again, all of it, and focuses it.
    fn ask_again(&mut self, now: Moment, number: u32) {
        let Some(question) = self.questions.get(number) else { return };
        let (producer, event, left) = (question.producer, question.event.clone(), question.seconds_left(now));
        self.router.focus(now, number);
        if let Some(token) = event.reply_token() {
            self.cancel_speech(producer, token.as_str());
        }
        let utterances = self.producers[producer].announcer.repeat_question(&event, left);
        let spoken = self.print_utterances(producer, LineKind::Question, Some(number), utterances);
        self.speak_response(spoken);
    }

    fn repeat(&mut self, now: Moment, named: Option<u32>) {
        let newest = self.questions.open().last().map(|q| q.number);
        let Some(number) = named.or(newest) else { return self.repeat_last_line() };
        match self.questions.get(number).map(|q| q.ended) {
            Some(None) => self.ask_again(now, number),
            Some(Some(how)) => {
                self.respond(phrase!(self, "ui-over", number = number, how = &self.phrases().text(how)));
            }
            None => self.respond(phrase!(self, "ui-no-question", number = number)),
        }
    }

    fn repeat_last_line(&mut self) {
        match self.transcript.walk(true, None) {
            Some(line) => {
                self.transcript.go_to_end();
                self.repeat_line(line);
            }
            None => self.respond(phrase!(self, "ui-nothing-said")),
        }
    }

    /// Prints and speaks a line again, without adding it to the transcript.
    fn repeat_line(&mut self, line: Line) {
        let utterance =
            line.utterance.clone().unwrap_or_else(|| Utterance::new(line.text.as_str(), "en", Priority::Message));
        self.effects.push(Effect::PrintLine(line));
        self.speak_response(vec![repeated(utterance)]);
    }

    fn details(&mut self, now: Moment, named: Option<u32>, all: bool) {
        let number = named.or_else(|| self.questions.open().last().map(|q| q.number));
        let Some(question) = number.and_then(|number| self.questions.get(number)) else {
            return self.respond(phrase!(self, "ui-no-such-question"));
        };
        let (number, (lines, shortened)) = (question.number, question.details(now, all));
        self.router.focus(now, number);
        lines.into_iter().for_each(|line| self.respond(line));
        if shortened {
            self.respond(phrase!(self, "ui-shortened"));
        }
    }

    fn list_questions(&mut self, now: Moment) {
        let line = |q: &NumberedQuestion| {
            let time = self.phrases().duration(q.seconds_left(now));
            phrase!(self, "ui-waiting", number = q.number, text = q.headline(), time = &time)
        };
        let lines: Vec<String> = self.questions.open().map(line).collect();
        if lines.is_empty() {
            return self.respond(phrase!(self, "nothing-waits"));
        }
        lines.into_iter().for_each(|line| self.respond(line));
        let mut open = self.questions.open();
        // With one question there is no doubt which one is meant.
        if let (Some(only), None) = (open.next().map(|q| q.number), open.next()) {
            drop(open);
            self.router.focus(now, only);
        }
    }

    /// Announces what each announcer returns; a text that several of them return is announced once.
    fn ask_announcers(&mut self, mut ask: impl FnMut(&mut Announcer) -> Vec<Utterance>) {
        let mut announced: Vec<String> = Vec::new();
        for producer in 0..self.producers.len() {
            let mut utterances = ask(&mut self.producers[producer].announcer);
            utterances.retain(|utterance| !announced.contains(&utterance.text));
            announced.extend(utterances.iter().map(|utterance| utterance.text.clone()));
            self.present(producer, LineKind::Reply, None, utterances);
        }
    }

    fn walk(&mut self, back: bool, kind: Option<LineKind>) {
        match self.transcript.walk(back, kind) {
            Some(line) => self.repeat_line(line),
            None => {
                let phrases = self.phrases();
                let text = phrases.text(if back { "ui-first" } else { "ui-last" });
                self.effects.push(Effect::PrintLine(Line::new(LineKind::Reply, text.as_str())));
                self.speak_response(vec![Utterance::new(text, phrases.language(), Priority::Message)]);
            }
        }
    }

    fn change_verbosity(&mut self, more: bool) {
        let low_load = self.profile.cognitive_load == CognitiveLoad::Low;
        let profile = &mut self.profile;
        let text = match (&profile.verbosity, more) {
            (_, true) if low_load => {
                profile.cognitive_load = CognitiveLoad::Medium;
                "ui-hear-normal-again"
            }
            (Verbosity::Terse, true) => {
                profile.verbosity = Verbosity::Normal;
                "ui-hear-normal"
            }
            (_, true) => {
                profile.verbosity = Verbosity::Detailed;
                "ui-hear-details"
            }
            (Verbosity::Detailed, false) => {
                profile.verbosity = Verbosity::Normal;
                "ui-hear-normal"
            }
            (Verbosity::Terse, false) => {
                profile.cognitive_load = CognitiveLoad::Low;
                "ui-hear-little"
            }
            (_, false) => {
                profile.verbosity = Verbosity::Terse;
                "ui-hear-short"
            }
        };
        self.apply_profile();
        self.respond(self.phrases().text(text));
    }

    /// Doubles the time for answers from the next question on. The deadline of an open question cannot change: its
    /// producer acts when it has passed (6.4).
    fn more_time(&mut self, now: Moment) {
        let factor = (self.profile.time_factor * 2).min(MAX_TIME_FACTOR);
        self.profile.time_factor = factor;
        self.apply_profile();
        self.respond(phrase!(self, "ui-more-time", factor = factor));
        let line = |q: &NumberedQuestion| {
            let time = self.phrases().duration(q.seconds_left(now));
            phrase!(self, "ui-keeps-time", number = q.number, time = &time)
        };
        let lines: Vec<String> = self.questions.open().map(line).collect();
        lines.into_iter().for_each(|line| self.respond(line));
    }

    fn apply_profile(&mut self) {
        self.pacer.set_profile(&self.profile);
        for producer in &mut self.producers {
            producer.announcer.set_profile(self.profile.clone());
        }
        self.effects.push(Effect::Renegotiate(Box::new(self.capabilities())));
    }

    fn mute(&mut self, name: &str, mute: bool) {
        let known = self.agents.names();
        let name = match (name, known.as_slice()) {
            ("", [only]) => only.clone(),
            ("", names) => return self.respond(phrase!(self, "ui-name-agent", names = &names.join(", "))),
            (name, _) => name.to_owned(),
        };
        let Some((agent, was_muted)) = self.agents.set_muted(&name, mute) else {
            let hint = match known.as_slice() {
                [] => phrase!(self, "ui-no-agents"),
                names => phrase!(self, "ui-agents", names = &names.join(", ")),
            };
            return self.respond(phrase!(self, "ui-no-agent", name = &name, hint = &hint));
        };
        let id = match (mute, was_muted) {
            (true, _) => "ui-muted",
            (false, true) => "ui-unmuted",
            (false, false) => "ui-not-muted",
        };
        self.respond(phrase!(self, id, agent = &agent));
    }

    fn close(&mut self, whole: bool) {
        if !whole && self.questions.open().next().is_some() {
            return self.respond(phrase!(self, "ui-close"));
        }
        self.effects.push(Effect::Exit);
    }
}

/// Returns the utterance as it is spoken when the user asks for it again: without interrupting, without a sound.
fn repeated(utterance: Utterance) -> Utterance {
    Utterance { priority: Priority::Message, interrupts: false, earcon: None, ..utterance }
}
