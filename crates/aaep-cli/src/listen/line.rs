//! What comes out of the terminal's core: lines for people, objects for programs, and what else is to be done.

use aaep_announce::{Earcon, Utterance};
use aaep_client::{PromptAnswer, PromptId};
use aaep_proto::message::{Capabilities, CoreType, Event};
use serde_json::{Map, Value, json};

use crate::output::Escaped;

/// What a line is about. Its word stands before the line, and is what users walk by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Question,
    Answer,
    Text,
    Tool,
    Start,
    End,
    Progress,
    State,
    Handover,
    Note,
    Reply,
}

impl Kind {
    const ALL: [(Kind, &'static str, &'static str); 11] = [
        (Kind::Question, "question", "Question"),
        (Kind::Answer, "answer", "Answer"),
        (Kind::Text, "text", "Text"),
        (Kind::Tool, "tool", "Tool"),
        (Kind::Start, "start", "Start"),
        (Kind::End, "end", "End"),
        (Kind::Progress, "progress", "Progress"),
        (Kind::State, "state", "State"),
        (Kind::Handover, "handover", "Handover"),
        (Kind::Note, "note", "Note"),
        (Kind::Reply, "reply", "Reply"),
    ];

    /// The kind of this name.
    pub(crate) fn named(name: &str) -> Option<Kind> {
        let one = name.strip_suffix('s');
        Kind::ALL.iter().find(|(_, word, _)| *word == name || Some(*word) == one).map(|(kind, _, _)| *kind)
    }

    /// Its name for programs and for the transcript.
    pub(crate) fn name(self) -> &'static str {
        Kind::ALL.iter().find(|(kind, _, _)| *kind == self).map_or("note", |(_, word, _)| word)
    }

    /// Its name at the start of a line.
    fn label(self) -> &'static str {
        Kind::ALL.iter().find(|(kind, _, _)| *kind == self).map_or("Note", |(_, _, label)| label)
    }

    /// The kind of what is said of an event.
    pub(crate) fn of(event: &Event) -> Kind {
        match event.core_type() {
            Some(CoreType::SessionStarted) => Kind::Start,
            Some(CoreType::SessionCompleted | CoreType::SessionErrored | CoreType::SessionCancelled) => Kind::End,
            Some(CoreType::ToolInvoked | CoreType::ToolCompleted) => Kind::Tool,
            Some(CoreType::OutputStreaming) => Kind::Text,
            Some(CoreType::AwaitingConfirmation | CoreType::AwaitingClarification) => Kind::Question,
            Some(CoreType::ProgressUpdated) => Kind::Progress,
            Some(CoreType::HandoffRequested) => Kind::Handover,
            Some(CoreType::StateChanged) => Kind::State,
            None => Kind::Note,
        }
    }
}

/// One line.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Shown {
    pub(crate) kind: Kind,
    /// The question that it belongs to.
    pub(crate) number: Option<u32>,
    /// The agent that it comes from.
    pub(crate) agent: Option<String>,
    pub(crate) text: String,
    /// How it is said, if it is.
    pub(crate) utterance: Option<Utterance>,
}

impl Shown {
    /// A line of the terminal's own.
    pub(crate) fn own(kind: Kind, text: impl Into<String>) -> Shown {
        Shown { kind, number: None, agent: None, text: text.into(), utterance: None }
    }

    /// The line for people. What agents send cannot move the cursor or forge another line.
    pub(crate) fn line(&self) -> String {
        let text = Escaped(&self.text);
        match self.number {
            Some(number) => format!("{} {number}: {text}", self.kind.label()),
            None => format!("{}: {text}", self.kind.label()),
        }
    }

    /// The object for programs.
    pub(crate) fn json(&self) -> Value {
        let mut object = Map::new();
        let what = if self.utterance.is_some() { "utterance" } else { "notice" };
        object.insert("type".into(), what.into());
        object.insert("kind".into(), self.kind.name().into());
        if let Some(number) = self.number {
            object.insert("number".into(), number.into());
        }
        if let Some(agent) = &self.agent {
            object.insert("agent".into(), agent.as_str().into());
        }
        match self.utterance.as_ref().map(|utterance| json!(utterance)) {
            Some(Value::Object(utterance)) => object.extend(utterance),
            _ => drop(object.insert("text".into(), self.text.as_str().into())),
        }
        Value::Object(object)
    }
}

/// What the shell has to do.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Effect {
    /// Print this, and keep it.
    Show(Shown),
    /// Print this for programs only.
    Tell(Value),
    /// Say this.
    Say(Utterance),
    /// Take back what was to be said about this.
    Unsay(String),
    /// Silence.
    Hush,
    /// A short sound.
    Sound(Earcon),
    /// Send this answer; hand the result to `Terminal::sent`.
    Reply { source: usize, id: PromptId, number: u32, answer: PromptAnswer },
    /// Ask all producers for other terms.
    Renegotiate(Box<Capabilities>),
    /// Ask the user's own command about this question.
    Ask { number: u32, question: Value },
    /// Turn the voice on or off.
    Voice(bool),
    /// End.
    Leave,
}

#[cfg(test)]
mod tests {
    use super::*;
    use aaep_announce::Priority;

    #[test]
    fn a_line_cannot_be_forged() {
        let shown = Shown::own(Kind::Text, "fine\nQuestion 1: \u{1b}[2Jpay\u{202e}");
        assert_eq!(shown.line(), "Text: fine\\u{000A}Question 1: \\u{001B}[2Jpay\\u{202E}");
    }

    #[test]
    fn programs_get_everything_about_an_utterance() {
        let utterance = Utterance::new("Done.", "en", Priority::Message);
        let shown = Shown { utterance: Some(utterance), ..Shown::own(Kind::End, "Done.") };
        let json = shown.json();
        assert_eq!(json["type"], "utterance");
        assert_eq!(
            (&json["kind"], &json["priority"], &json["language"]),
            (&json!("end"), &json!("message"), &json!("en"))
        );
        assert_eq!(Shown::own(Kind::Note, "x").json(), json!({"type": "notice", "kind": "note", "text": "x"}));
    }

    #[test]
    fn kinds_are_found_by_their_names() {
        for (kind, word, _) in Kind::ALL {
            assert_eq!(Kind::named(word), Some(kind));
            assert_eq!(kind.name(), word);
        }
        assert_eq!(Kind::named("questions"), Some(Kind::Question));
        assert_eq!(Kind::named("week"), None);
    }
}
