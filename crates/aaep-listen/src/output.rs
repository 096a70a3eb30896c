//! What is printed and spoken: lines at once, speech as fast as the user can listen.

use aaep_announce::{Arg, Phrases, Priority, Utterance};
use aaep_proto::escape::without_escapes;
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
        let mut spoken = Vec::new();
        for utterance in utterances {
            let line = self.line_for(producer, kind, number, utterance);
            let utterance = line.utterance.clone();
            self.print(line);
            if let Some(utterance) = utterance {
                self.effects.extend(utterance.earcon.map(Effect::PlaySound));
                spoken.push(utterance);
            }
        }
        self.speak(spoken, matches!(kind, LineKind::Question | LineKind::Answer | LineKind::Reply));
    }

    /// Speaks: at once if the user waits for it, else at the pace of the voice.
    pub(crate) fn speak(&mut self, utterances: Vec<Utterance>, at_once: bool) {
        let due = self.pacer.push(self.now, utterances, at_once);
        self.effects.extend(due.into_iter().map(Effect::Speak));
    }

    /// Reports that the voice finished or cancelled an utterance.
    pub fn handle_speech_finished(&mut self, now: Moment) {
        self.observe(now);
        let due = self.pacer.speech_finished(now);
        self.effects.extend(due.into_iter().map(Effect::Speak));
    }

    /// Exits after all speech that waits was passed to the voice.
    pub(crate) fn exit(&mut self) {
        let rest = self.pacer.flush();
        self.effects.extend(rest.into_iter().map(Effect::Speak));
        self.effects.push(Effect::Exit);
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
        self.speak(vec![utterance], kind == LineKind::Reply);
    }
}
