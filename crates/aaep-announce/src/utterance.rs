//! Utterances: announcements for a voice, a braille display or a line of text.

use serde::{Deserialize, Serialize};

/// The priority of an utterance. The names are those of speech-dispatcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Priority {
    /// Spoken only if nothing else is: background events.
    Notification,
    /// Replaced by a newer one; the last one is spoken: progress.
    Progress,
    /// Spoken in turn: everything normal, and the details of a question.
    Message,
    /// Spoken at once and to its end: the headline of a question or of a failure. Must be short.
    Important,
}

/// Where an utterance stands among others that wait to be spoken.
///
/// ```
/// use aaep_announce::{Priority, Turn, Utterance};
/// assert_eq!(Utterance::new("Done.", "en", Priority::Message).turn, Turn::Normal);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Turn {
    /// Spoken in turn. Dropped if a question comes before it was spoken, because it is out of date then: "Looking up your
    /// balance."
    Passing,
    /// Spoken in turn, after questions that came meanwhile: text, results, ends.
    #[default]
    Normal,
    /// Spoken before all others, behind those that are first too, and not interrupted by them: a question with all that
    /// belongs to it, a failure, the outcome of a question, a response to the user.
    First,
}

/// A short sound that goes with an utterance. No information is in the sound alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Earcon {
    /// A session starts.
    Started,
    /// A question waits for the user.
    Prompt,
    /// A session completed.
    Completed,
    /// A session failed.
    Failed,
    /// A session was cancelled.
    Cancelled,
    /// A warning: a changed key, a gap, a flood.
    Warning,
}

/// One text to speak, with its language and priority.
///
/// ```
/// use aaep_announce::{Priority, Utterance};
/// let utterance = Utterance::new("Done.", "en", Priority::Message);
/// assert!(!utterance.interrupts);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Utterance {
    /// The text, ready to be spoken.
    pub text: String,
    /// Its language, as a BCP 47 tag.
    pub language: String,
    /// Its priority.
    pub priority: Priority,
    /// Whether current speech should stop for it.
    pub interrupts: bool,
    /// Where it stands among others that wait.
    #[serde(default)]
    pub turn: Turn,
    /// Whether it is a heading in a text of the agent.
    #[serde(default)]
    pub heading: bool,
    /// A sound to go with it.
    pub earcon: Option<Earcon>,
    /// Its subject (the reply token of a question, or a session), so that it can be cancelled when that has ended.
    pub about: Option<String>,
    /// The name of the agent that it comes from, as it is spoken. `None` if it comes from no agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
}

impl Utterance {
    /// Creates an utterance that does not interrupt and has no sound.
    pub fn new(text: impl Into<String>, language: impl Into<String>, priority: Priority) -> Utterance {
        Utterance {
            text: text.into(),
            language: language.into(),
            priority,
            interrupts: false,
            turn: Turn::Normal,
            heading: false,
            earcon: None,
            about: None,
            agent: None,
        }
    }
}
