//! What is printed and spoken: lines at once, speech as fast as the user can listen.

use aaep_announce::{Arg, Phrases, Priority, Turn, Utterance};
use aaep_proto::escape::without_escapes;
use aaep_proto::language::LanguageTag;
use aaep_proto::time::Moment;

use crate::listener::Listener;
use crate::{Effect, Escaped, Line, LineKind};

/// Formats a fixed phrase in the user's language: `phrase!(listener, "ui-no-question", number = number)`.
macro_rules! phrase {
    ($listener:expr, $id:expr $(, $name:ident = $value:expr)* $(,)?) => {
        $listener.phrases().format($id, &[$( (stringify!($name), aaep_announce::Arg::from($value)) ),*])
    };
}
pub(crate) use phrase;

/// Returns the key of speech about a subject of one producer. Without the producer, one could cancel the speech of
/// another.
pub(crate) fn speech_key(producer: usize, about: &str) -> String {
    format!("{producer}/{about}")
}

impl Listener {
    /// Prints and speaks what an announcer returned.
    pub(crate) fn present(&mut self, producer: usize, kind: LineKind, number: Option<u32>, utterances: Vec<Utterance>) {
        let spoken = self.print_utterances(producer, kind, number, utterances);
        match kind {
            LineKind::Answer | LineKind::Reply => self.speak_response(spoken),
            _ => self.speak(spoken),
        }
    }

    /// Prints utterances with their sounds, and returns them as they are spoken.
    pub(crate) fn print_utterances(
        &mut self,
        producer: usize,
        kind: LineKind,
        number: Option<u32>,
        utterances: Vec<Utterance>,
    ) -> Vec<Utterance> {
        let mut spoken = Vec::new();
        for (index, utterance) in utterances.into_iter().enumerate() {
            let mut line = self.line_for(producer, kind, number, utterance);
            if let (LineKind::Question, 0, Some(number @ 2..), Some(utterance)) =
                (kind, index, number, &mut line.utterance)
            {
                // The printed line starts with the number already.
                utterance.text = numbered(number, utterance, &self.profile.languages);
            }
            let utterance = line.utterance.clone();
            self.print(line);
            if let Some(utterance) = utterance {
                self.effects.extend(utterance.earcon.map(Effect::PlaySound));
                spoken.push(utterance);
            }
        }
        spoken
    }

    /// Speaks at the pace of the voice, or at once what is first in turn.
    pub(crate) fn speak(&mut self, utterances: Vec<Utterance>) {
        let due = self.pacer.push(self.now, utterances);
        self.effects.extend(due.into_iter().map(Effect::Speak));
    }

    /// Speaks what the user waits for. The first response to a typed line stops what is being spoken.
    pub(crate) fn speak_response(&mut self, utterances: Vec<Utterance>) {
        let first = |utterance| Utterance { turn: Turn::First, ..utterance };
        let due = self.pacer.push(self.now, utterances.into_iter().map(first).collect());
        for utterance in due {
            let stops = utterance.turn == Turn::First && std::mem::take(&mut self.response_pending);
            if stops {
                self.pacer.drop_passing();
            }
            self.effects.push(if stops { Effect::Respond(utterance) } else { Effect::Speak(utterance) });
        }
    }

    /// Reports that the voice finished or cancelled an utterance.
    pub fn handle_speech_finished(&mut self, now: Moment) {
        self.observe(now);
        let due = self.pacer.speech_finished(now);
        self.effects.extend(due.into_iter().map(Effect::Speak));
    }

    /// Returns whether speech waits that was not passed to the voice yet.
    pub fn has_unspoken(&self) -> bool {
        self.pacer.has_waiting()
    }

    /// Exits after everything was spoken.
    pub(crate) fn exit(&mut self) {
        self.effects.push(Effect::ExitWhenSpoken);
    }

    /// Stops all speech, also that which waits.
    pub(crate) fn silence(&mut self) {
        self.pacer.clear();
        self.effects.push(Effect::Silence);
    }

    pub(crate) fn observe(&mut self, now: Moment) {
        self.now = self.now.max(now);
    }

    /// Makes the line of an utterance. With several producers, the name of the agent goes before its text.
    pub(crate) fn line_for(
        &self,
        producer: usize,
        kind: LineKind,
        number: Option<u32>,
        mut utterance: Utterance,
    ) -> Line {
        let agent = utterance.agent.clone().or_else(|| self.producers[producer].name.clone());
        if self.producers.len() > 1
            && let Some(name) = &agent
            && !utterance.text.contains(name.as_str())
        {
            utterance.text = format!("{name}: {}", utterance.text);
        }
        utterance.about = utterance.about.map(|about| speech_key(producer, &about));
        let kind = if utterance.heading { LineKind::Heading } else { kind };
        Line { kind, number, agent, text: utterance.text.clone(), utterance: Some(utterance) }
    }

    /// Prints a line and keeps it in the transcript.
    pub(crate) fn print(&mut self, line: Line) {
        self.transcript.push(&line);
        self.effects.push(Effect::PrintLine(line));
    }

    /// Returns the phrases of the program itself in the user's language.
    pub fn phrases(&self) -> &'static Phrases {
        Phrases::for_languages(&self.profile.languages)
    }

    /// Prints and speaks a remark of the program itself.
    pub fn note(&mut self, text: impl Into<String>) {
        // It may contain text of agents.
        let language = self.phrases().language();
        self.print_own(LineKind::Note, without_escapes(&text.into()).into_owned(), language);
    }

    /// Prints and speaks a remark of the program itself: the phrase with this id and these values.
    pub fn note_phrase(&mut self, id: &str, values: &[(&str, Arg<'_>)]) {
        self.note(self.phrases().format(id, values));
    }

    /// Prints and speaks a remark about a producer. Notices are in English.
    pub(crate) fn note_from(&mut self, producer: usize, text: String) {
        let several = self.producers.len() > 1;
        let text = if several { format!("{}: {text}", self.producers[producer].display_name()) } else { text };
        self.print_own(LineKind::Note, without_escapes(&text).into_owned(), "en");
    }

    /// Prints and speaks the response to a typed line.
    pub(crate) fn respond(&mut self, text: impl Into<String>) {
        let language = self.phrases().language();
        self.print_own(LineKind::Reply, text.into(), language);
    }

    fn print_own(&mut self, kind: LineKind, text: String, language: &str) {
        let utterance = Utterance::new(Escaped(&text).to_string(), language, Priority::Message);
        self.print(Line::new(kind, text));
        match kind {
            LineKind::Reply => self.speak_response(vec![utterance]),
            _ => self.speak(vec![utterance]),
        }
    }
}

/// Returns the text of a question with its number. An utterance has one language: the number is spoken in that of the
/// question.
fn numbered(number: u32, utterance: &Utterance, languages: &[LanguageTag]) -> String {
    let own = utterance.language.parse().ok();
    let languages: Vec<LanguageTag> = own.into_iter().chain(languages.iter().cloned()).collect();
    let values = [("number", number.into()), ("text", utterance.text.as_str().into())];
    Phrases::for_languages(&languages).format("ui-number", &values)
}
