//! The lines that are printed, as text for people and as JSON for programs.

use aaep_announce::Utterance;
use aaep_proto::message::{CoreType, Event};
use serde_json::{Map, Value, json};

use crate::Escaped;

/// The subject of a line. Its label is printed before the line, and users walk the transcript by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum LineKind {
    /// A question of an agent.
    Question,
    /// The resolution of a question.
    Answer,
    /// Output of an agent.
    Text,
    /// A heading in the output of an agent.
    Heading,
    /// A tool call.
    Tool,
    /// The start of a session.
    Start,
    /// The end of a session.
    End,
    /// Progress of a session.
    Progress,
    /// A new state of a session.
    State,
    /// An agent hands its task over.
    Handover,
    /// A remark about the connection or the program itself.
    Note,
    /// The program's response to a typed line.
    Reply,
}

impl LineKind {
    /// Each kind with its name for programs and its label for people.
    const ALL: [(LineKind, &'static str, &'static str); 12] = [
        (LineKind::Question, "question", "Question"),
        (LineKind::Answer, "answer", "Answer"),
        (LineKind::Text, "text", "Text"),
        (LineKind::Heading, "heading", "Heading"),
        (LineKind::Tool, "tool", "Tool"),
        (LineKind::Start, "start", "Start"),
        (LineKind::End, "end", "End"),
        (LineKind::Progress, "progress", "Progress"),
        (LineKind::State, "state", "State"),
        (LineKind::Handover, "handover", "Handover"),
        (LineKind::Note, "note", "Note"),
        (LineKind::Reply, "reply", "Reply"),
    ];

    /// Returns the kind with this name, in the singular or the plural.
    pub(crate) fn from_name(name: &str) -> Option<LineKind> {
        let singular = name.strip_suffix('s');
        LineKind::ALL.iter().find(|(_, word, _)| *word == name || Some(*word) == singular).map(|(kind, _, _)| *kind)
    }

    /// Returns the name that programs and transcript files use.
    pub fn name(self) -> &'static str {
        LineKind::ALL.iter().find(|(kind, _, _)| *kind == self).map_or("note", |(_, word, _)| word)
    }

    /// Returns the label at the start of a printed line.
    fn label(self) -> &'static str {
        LineKind::ALL.iter().find(|(kind, _, _)| *kind == self).map_or("Note", |(_, _, label)| label)
    }

    /// Returns the kind of the lines that announce this event.
    pub(crate) fn for_event(event: &Event) -> LineKind {
        match event.core_type() {
            Some(CoreType::SessionStarted) => LineKind::Start,
            Some(CoreType::SessionCompleted | CoreType::SessionErrored | CoreType::SessionCancelled) => LineKind::End,
            Some(CoreType::ToolInvoked | CoreType::ToolCompleted) => LineKind::Tool,
            Some(CoreType::OutputStreaming) => LineKind::Text,
            Some(CoreType::AwaitingConfirmation | CoreType::AwaitingClarification) => LineKind::Question,
            Some(CoreType::ProgressUpdated) => LineKind::Progress,
            Some(CoreType::HandoffRequested) => LineKind::Handover,
            Some(CoreType::StateChanged) => LineKind::State,
            // An extension, or a type that is newer than this crate.
            _ => LineKind::Note,
        }
    }
}

/// One line to print and to keep in the transcript.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// The subject of the line.
    pub kind: LineKind,
    /// The number of the question that it belongs to.
    pub number: Option<u32>,
    /// The name of the agent that it comes from.
    pub agent: Option<String>,
    /// The text, as it came. [`Line::to_text`] makes it safe to print.
    pub text: String,
    /// The announcement that the line shows. `None` for lines of the program itself.
    pub utterance: Option<Utterance>,
}

impl Line {
    /// Creates a line that comes from the program itself, not from an agent.
    pub fn new(kind: LineKind, text: impl Into<String>) -> Line {
        Line { kind, number: None, agent: None, text: text.into(), utterance: None }
    }

    /// Returns the line for people. Text of agents cannot move the cursor or forge another line.
    pub fn to_text(&self) -> String {
        let text = Escaped(&self.text);
        match self.number {
            Some(number) => format!("{} {number}: {text}", self.kind.label()),
            None => format!("{}: {text}", self.kind.label()),
        }
    }

    /// Returns the object for programs.
    pub fn to_json(&self) -> Value {
        let mut object = Map::new();
        let object_type = if self.utterance.is_some() { "utterance" } else { "notice" };
        object.insert("type".into(), object_type.into());
        object.insert("kind".into(), self.kind.name().into());
        if let Some(number) = self.number {
            object.insert("number".into(), number.into());
        }
        if let Some(agent) = &self.agent {
            object.insert("agent".into(), agent.as_str().into());
        }
        match self.utterance.as_ref().map(|utterance| json!(utterance)) {
            Some(Value::Object(utterance)) => object.extend(utterance),
            _ => {
                object.insert("text".into(), self.text.as_str().into());
            }
        }
        Value::Object(object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aaep_announce::Priority;

    #[test]
    fn agent_text_cannot_forge_a_line() {
        let line = Line::new(LineKind::Text, "fine\nQuestion 1: \u{1b}[2Jpay\u{202e}");
        assert_eq!(line.to_text(), "Text: fine\\u{000A}Question 1: \\u{001B}[2Jpay\\u{202E}");
    }

    #[test]
    fn json_has_every_field_of_the_utterance() {
        let utterance = Utterance::new("Done.", "en", Priority::Message);
        let line = Line { utterance: Some(utterance), ..Line::new(LineKind::End, "Done.") };
        let json = line.to_json();
        assert_eq!(json["type"], "utterance");
        assert_eq!(
            (&json["kind"], &json["priority"], &json["language"]),
            (&json!("end"), &json!("message"), &json!("en"))
        );
        assert_eq!(Line::new(LineKind::Note, "x").to_json(), json!({"type": "notice", "kind": "note", "text": "x"}));
    }

    #[test]
    fn kinds_have_the_documented_names_in_singular_and_plural() {
        for (kind, name, label) in [
            (LineKind::Question, "question", "Question: x"),
            (LineKind::Answer, "answer", "Answer: x"),
            (LineKind::Text, "text", "Text: x"),
            (LineKind::Heading, "heading", "Heading: x"),
            (LineKind::Tool, "tool", "Tool: x"),
            (LineKind::Start, "start", "Start: x"),
            (LineKind::End, "end", "End: x"),
            (LineKind::Progress, "progress", "Progress: x"),
            (LineKind::State, "state", "State: x"),
            (LineKind::Handover, "handover", "Handover: x"),
            (LineKind::Note, "note", "Note: x"),
            (LineKind::Reply, "reply", "Reply: x"),
        ] {
            assert_eq!((LineKind::from_name(name), kind.name()), (Some(kind), name));
            assert_eq!(Line::new(kind, "x").to_text(), label);
        }
        for (plural, kind) in [("questions", LineKind::Question), ("tools", LineKind::Tool), ("notes", LineKind::Note)]
        {
            assert_eq!(LineKind::from_name(plural), Some(kind));
        }
        for unknown in ["week", "", "s", "Question"] {
            assert_eq!(LineKind::from_name(unknown), None, "{unknown:?}");
        }
    }
}
