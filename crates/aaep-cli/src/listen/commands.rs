//! What happens when the user types something.

use aaep_announce::{Priority, Utterance};
use aaep_client::PromptAnswer;
use aaep_proto::message::{CognitiveLoad, Verbosity};
use aaep_proto::time::Moment;

use super::answer_router::Verdict;
use super::command::{Command, HELP, number_of, parse};
use super::line::{Effect, Kind, Shown};
use super::session::ListenSession;
use super::speak::own;

/// An answer as it was typed.
#[derive(Clone, Debug)]
pub(super) enum Typed {
    Yes { whole: bool },
    No,
    Words(String),
}

impl ListenSession {
    /// A line was entered at this moment.
    pub(crate) fn line(&mut self, entered: Moment, line: &str) {
        self.observe(entered);
        let command = parse(line);
        if !matches!(command, Command::Walk { .. }) {
            self.transcript.go_to_end();
        }
        match command {
            Command::Nothing | Command::Stop => self.hush(),
            Command::Yes { named, whole } => self.answer(entered, named, Typed::Yes { whole }),
            Command::No { named } => self.answer(entered, named, Typed::No),
            Command::To(number, words) => self.answer(entered, Some(number), Typed::Words(words)),
            Command::Answer(words) => self.answer(entered, None, Typed::Words(words)),
            Command::Number(text) => self.number(entered, text),
            Command::Words(words) => self.words(entered, words),
            Command::Repeat(named) => self.repeat(entered, named),
            Command::Details(named) => self.details(entered, named),
            Command::Waiting => self.waiting(entered),
            Command::Where => self.ask_all(|announcer| announcer.whereabouts(entered)),
            Command::CatchUp => self.ask_all(|announcer| announcer.catch_up(entered)),
            Command::Walk { back, kind } => self.walk(back, kind),
            Command::Terser => self.verbosity(false),
            Command::More => self.verbosity(true),
            Command::Mute(name) => self.mute(&name, true),
            Command::Unmute(name) => self.mute(&name, false),
            Command::MoreTime => self.more_time(entered),
            Command::Voice(on) => {
                // What was not said is not made up for.
                self.pacer.hush();
                self.out.push(Effect::Voice(on));
            }
            Command::Close { whole } => self.close(whole),
            Command::Help => HELP.iter().for_each(|line| self.reply(*line)),
        }
    }

    /// The one way of an answer that was typed: through the guard, to one question or to none.
    pub(super) fn answer(&mut self, entered: Moment, named: Option<u32>, typed: Typed) {
        match self.guard.answer(entered, named) {
            Verdict::To(number) => self.send(entered, number, typed),
            Verdict::NothingWaits => self.reply(own!(self, "own-nothing-waits")),
            Verdict::Over(number) => {
                let how = self.questions.get(number).map_or("over-long-ago", |q| q.over.unwrap_or("over-on-its-way"));
                self.reply(own!(self, "own-not-sent-over", number = number, how = &self.phrases().say(how)));
                if self.questions.open().next().is_some() {
                    self.waiting(entered);
                }
            }
            Verdict::Unknown(number) => {
                self.reply(own!(self, "own-not-sent-no-question", number = number));
            }
            Verdict::TooNew(number) => {
                self.reply(own!(self, "own-too-new"));
                self.put(entered, number);
            }
            Verdict::PutFirst(number) => {
                self.reply(own!(self, "own-put-first"));
                self.put(entered, number);
            }
            Verdict::Which => {
                self.reply(own!(self, "own-which"));
                self.waiting(entered);
            }
        }
    }

    fn send(&mut self, entered: Moment, number: u32, typed: Typed) {
        let Some(question) = self.questions.get(number) else { return };
        let answer = match &typed {
            Typed::Yes { whole: false } if question.needs_care() => {
                self.guard.put(entered, number);
                return self.reply(own!(self, "own-whole-word", number = number));
            }
            Typed::Yes { .. } => question.answer("yes"),
            Typed::No => question.answer("no"),
            Typed::Words(words) => question.answer(words),
        };
        match answer {
            Ok(answer) => self.dispatch(number, answer),
            Err(takes) => {
                let why = takes.say(self.phrases());
                self.reply(own!(self, "own-not-sent-to", number = number, why = &why));
            }
        }
    }

    /// Hands an answer over to be sent.
    pub(super) fn dispatch(&mut self, number: u32, answer: PromptAnswer) {
        let Some(question) = self.questions.get(number) else { return };
        match (question.id, question.can_answer) {
            (Some(id), true) => {
                let source = question.source;
                self.guard.answered(number);
                self.out.push(Effect::Reply { source, id, number, answer });
            }
            _ => self.reply(own!(self, "own-not-sent-cannot", number = number)),
        }
    }

    /// A number alone: the answer to the question in mind if that takes numbers, else the question of that number.
    fn number(&mut self, entered: Moment, text: String) {
        let mut open = self.questions.open();
        let takes_numbers = |q: &super::questions::Question| !q.is_confirmation();
        let (first, second) = (open.next(), open.next());
        let answers = first.is_some_and(takes_numbers) && second.is_none();
        drop(open);
        match number_of(&text) {
            Some(number) if !answers => self.repeat(entered, Some(number)),
            _ => self.answer(entered, None, Typed::Words(text)),
        }
    }

    /// Words that are no command: an answer, if a question waits that takes any.
    fn words(&mut self, entered: Moment, words: String) {
        let takes = self.questions.open().any(|q| !q.is_confirmation());
        if takes && words.chars().count() > 1 {
            return self.answer(entered, None, Typed::Words(words));
        }
        let hint = if self.questions.open().next().is_some() { "answer-yes-no" } else { "own-hint-nothing" };
        self.reply(own!(self, "own-not-understood", hint = &self.phrases().say(hint)));
    }

    /// Puts a question again, all of it.
    pub(super) fn put(&mut self, now: Moment, number: u32) {
        let Some(question) = self.questions.get(number) else { return };
        let (source, said, left) = (question.source, question.said.clone(), question.seconds_left(now));
        self.guard.put(now, number);
        let plain = |utterance: Utterance| Utterance {
            priority: Priority::Message,
            interrupts: false,
            earcon: None,
            ..utterance
        };
        self.hush();
        self.utter(source, Kind::Question, Some(number), said.into_iter().map(plain).collect());
        self.reply(own!(self, "own-waits-for", number = number, time = &self.phrases().duration(left)));
    }

    fn repeat(&mut self, now: Moment, named: Option<u32>) {
        let newest = self.questions.open().last().map(|q| q.number);
        match named.or(newest) {
            Some(number) => match self.questions.get(number).map(|q| q.over) {
                Some(None) => self.put(now, number),
                Some(Some(how)) => {
                    self.reply(own!(self, "own-over", number = number, how = &self.phrases().say(how)));
                }
                None => self.reply(own!(self, "own-no-question", number = number)),
            },
            None => match self.transcript.walk(true, None) {
                Some(shown) => {
                    self.transcript.go_to_end();
                    self.again(shown);
                }
                None => self.reply(own!(self, "own-nothing-said")),
            },
        }
    }

    /// Shows and says an entry again, without keeping it twice.
    fn again(&mut self, shown: Shown) {
        let spoken =
            shown.utterance.clone().unwrap_or_else(|| Utterance::new(shown.text.as_str(), "en", Priority::Message));
        self.out.push(Effect::Show(shown));
        self.say(vec![Utterance { priority: Priority::Message, interrupts: false, earcon: None, ..spoken }], true);
    }

    fn details(&mut self, now: Moment, named: Option<u32>) {
        let number = named.or_else(|| self.questions.open().last().map(|q| q.number));
        let Some(question) = number.and_then(|number| self.questions.get(number)) else {
            return self.reply(own!(self, "own-no-such-question"));
        };
        let (number, lines) = (question.number, question.details(now));
        self.guard.put(now, number);
        lines.into_iter().for_each(|line| self.reply(line));
    }

    fn waiting(&mut self, now: Moment) {
        let line = |q: &super::questions::Question| {
            let time = self.phrases().duration(q.seconds_left(now));
            own!(self, "own-waiting", number = q.number, text = q.headline(), time = &time)
        };
        let lines: Vec<String> = self.questions.open().map(line).collect();
        if lines.is_empty() {
            return self.reply(own!(self, "nothing-waits"));
        }
        lines.into_iter().for_each(|line| self.reply(line));
        let mut open = self.questions.open();
        // With one question there is no doubt which one is meant.
        if let (Some(only), None) = (open.next().map(|q| q.number), open.next()) {
            drop(open);
            self.guard.put(now, only);
        }
    }

    fn ask_all(&mut self, mut ask: impl FnMut(&mut aaep_announce::Announcer) -> Vec<Utterance>) {
        let mut told: Vec<String> = Vec::new();
        for source in 0..self.producers.len() {
            let mut said = ask(&mut self.producers[source].announcer);
            said.retain(|utterance| !told.contains(&utterance.text));
            told.extend(said.iter().map(|utterance| utterance.text.clone()));
            self.utter(source, Kind::Reply, None, said);
        }
    }

    fn walk(&mut self, back: bool, kind: Option<Kind>) {
        match self.transcript.walk(back, kind) {
            Some(shown) => self.again(shown),
            None => {
                let words = self.phrases();
                let text = words.say(if back { "own-first" } else { "own-last" });
                self.out.push(Effect::Show(Shown::own(Kind::Reply, text.as_str())));
                self.say(vec![Utterance::new(text, words.language(), Priority::Message)], true);
            }
        }
    }

    fn verbosity(&mut self, more: bool) {
        let low = self.profile.cognitive_load == CognitiveLoad::Low;
        let profile = &mut self.profile;
        let text = match (&profile.verbosity, more) {
            (_, true) if low => {
                profile.cognitive_load = CognitiveLoad::Medium;
                "own-hear-normal-again"
            }
            (Verbosity::Terse, true) => {
                profile.verbosity = Verbosity::Normal;
                "own-hear-normal"
            }
            (_, true) => {
                profile.verbosity = Verbosity::Detailed;
                "own-hear-details"
            }
            (Verbosity::Detailed, false) => {
                profile.verbosity = Verbosity::Normal;
                "own-hear-normal"
            }
            (Verbosity::Terse, false) => {
                profile.cognitive_load = CognitiveLoad::Low;
                "own-hear-little"
            }
            (_, false) => {
                profile.verbosity = Verbosity::Terse;
                "own-hear-short"
            }
        };
        self.change_profile();
        self.reply(self.phrases().say(text));
    }

    /// The protocol lets nobody change the time of a question that is open: its producer acts when that is over (6.4).
    fn more_time(&mut self, now: Moment) {
        let factor = (self.profile.time_factor * 2).min(10);
        self.profile.time_factor = factor;
        self.change_profile();
        self.reply(own!(self, "own-more-time", factor = factor));
        let keeps = |q: &super::questions::Question| {
            let time = self.phrases().duration(q.seconds_left(now));
            own!(self, "own-keeps-time", number = q.number, time = &time)
        };
        let open: Vec<String> = self.questions.open().map(keeps).collect();
        open.into_iter().for_each(|line| self.reply(line));
    }

    fn change_profile(&mut self) {
        self.pacer.set_profile(&self.profile);
        for producer in &mut self.producers {
            producer.announcer.set_profile(self.profile.clone());
        }
        self.out.push(Effect::Renegotiate(Box::new(self.profile.capabilities())));
    }

    fn mute(&mut self, name: &str, mute: bool) {
        let known: Vec<String> = self.producers.iter().filter_map(|p| p.name.clone()).collect();
        let name = match (name, known.as_slice()) {
            ("", [only]) => only.clone(),
            ("", names) => return self.reply(own!(self, "own-name-agent", names = &names.join(", "))),
            (name, _) => name.to_owned(),
        };
        if mute {
            self.muted.insert(name.to_lowercase());
            self.reply(own!(self, "own-muted", agent = &name));
        } else if self.muted.remove(&name.to_lowercase()) {
            self.reply(own!(self, "own-unmuted", agent = &name));
        } else {
            self.reply(own!(self, "own-not-muted", agent = &name));
        }
    }

    fn close(&mut self, whole: bool) {
        if !whole && self.questions.open().next().is_some() {
            return self.reply(own!(self, "own-close"));
        }
        self.out.push(Effect::Leave);
    }
}
