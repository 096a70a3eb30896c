//! What the terminal shows and says: lines at once, speech as fast as it can be listened to.

use aaep_announce::{Phrases, Priority, Utterance};
use aaep_proto::escape::without_escapes;
use aaep_proto::time::Moment;

use super::line::{Effect, Kind, Shown};
use super::session::{ListenSession, about};
use crate::output::Escaped;

/// The terminal's own words: `own!(terminal, "own-no-question", number = number)`.
macro_rules! own {
    ($terminal:expr, $id:expr $(, $name:ident = $value:expr)* $(,)?) => {
        $terminal.phrases().say_with($id, &[$( (stringify!($name), aaep_announce::Arg::from($value)) ),*])
    };
}
pub(super) use own;

impl ListenSession {
    /// Shows and says.
    pub(super) fn utter(&mut self, source: usize, kind: Kind, number: Option<u32>, said: Vec<Utterance>) {
        let mut spoken = Vec::new();
        for utterance in said {
            let shown = self.shown(source, kind, number, utterance);
            let utterance = shown.utterance.clone();
            self.show(shown);
            if let Some(utterance) = utterance {
                self.out.extend(utterance.earcon.map(Effect::Sound));
                spoken.push(utterance);
            }
        }
        self.say(spoken, matches!(kind, Kind::Question | Kind::Answer | Kind::Reply));
    }

    /// Hands over what is said: at once if the user waits for it, else as fast as it can be said.
    pub(super) fn say(&mut self, said: Vec<Utterance>, at_once: bool) {
        let said = self.pacer.say(self.now, said, at_once);
        self.out.extend(said.into_iter().map(Effect::Say));
    }

    /// The voice has said something, or left it out.
    pub(crate) fn voice_said(&mut self, now: Moment) {
        self.observe(now);
        let said = self.pacer.has_said(now);
        self.out.extend(said.into_iter().map(Effect::Say));
    }

    /// Ends, after all that waits is handed to the voice.
    pub(super) fn leave(&mut self) {
        let last = self.pacer.flush();
        self.out.extend(last.into_iter().map(Effect::Say));
        self.out.push(Effect::Leave);
    }

    /// Silence.
    pub(super) fn hush(&mut self) {
        self.pacer.hush();
        self.out.push(Effect::Hush);
    }

    pub(super) fn observe(&mut self, now: Moment) {
        self.now = self.now.max(now);
    }

    pub(super) fn shown(&self, source: usize, kind: Kind, number: Option<u32>, mut utterance: Utterance) -> Shown {
        let agent = self.producers[source].name.clone();
        if let Some(name) = agent.as_deref().filter(|_| self.producers.len() > 1)
            && !utterance.text.contains(name)
        {
            utterance.text = format!("{name}: {}", utterance.text);
        }
        utterance.about = utterance.about.map(|own| about(source, &own));
        Shown { kind, number, agent, text: utterance.text.clone(), utterance: Some(utterance) }
    }

    pub(super) fn show(&mut self, shown: Shown) {
        self.transcript.push(&shown);
        self.out.push(Effect::Show(shown));
    }

    /// The words for the terminal's own remarks, in the user's language.
    pub(crate) fn phrases(&self) -> &'static Phrases {
        Phrases::for_languages(&self.profile.languages)
    }

    /// A line about listening itself, said too.
    pub(crate) fn note(&mut self, text: impl Into<String>) {
        // It may carry words of agents.
        let language = self.phrases().language();
        self.own(Kind::Note, without_escapes(&text.into()).into_owned(), language);
    }

    pub(super) fn note_from(&mut self, source: usize, text: String) {
        let several = self.producers.len() > 1;
        let text = if several { format!("{}: {text}", self.producers[source].called()) } else { text };
        // Notices come in English.
        self.own(Kind::Note, without_escapes(&text).into_owned(), "en");
    }

    /// The terminal's reply to what was typed, said too.
    pub(super) fn reply(&mut self, text: impl Into<String>) {
        let language = self.phrases().language();
        self.own(Kind::Reply, text.into(), language);
    }

    fn own(&mut self, kind: Kind, text: String, language: &str) {
        let utterance = Utterance::new(Escaped(&text).to_string(), language, Priority::Message);
        self.show(Shown::own(kind, text));
        self.say(vec![utterance], kind == Kind::Reply);
    }
}
