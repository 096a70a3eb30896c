//! What is to be said, in the form that a voice, a braille display or a line of text takes.

use serde::{Deserialize, Serialize};

/// How an utterance stands among others. The words are those of speech-dispatcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Priority {
    /// Said only when nothing else is: background events.
    Notification,
    /// May be passed over for a newer one; the last one is said: progress.
    Progress,
    /// Waits for its turn and is said: everything normal, and the details of a question.
    Message,
    /// Said at once and to its end: the headline of a question or of a failure. Must be short.
    Important,
}

/// A short sound that goes with an utterance. Never the only bearer of a meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Earcon {
    /// A session begins.
    Started,
    /// Something waits for the user.
    Prompt,
    /// A session ended well.
    Completed,
    /// A session failed.
    Failed,
    /// A session was cancelled.
    Cancelled,
    /// Something the user should know: a changed key, a gap, a flood.
    Warning,
}

/// One thing to say.
///
/// ```
/// use aaep_announce::{Priority, Utterance};
/// let utterance = Utterance::new("Done.", "en", Priority::Message);
/// assert!(!utterance.interrupts);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Utterance {
    /// The words, ready to be spoken.
    pub text: String,
    /// Their language, as a BCP 47 tag.
    pub language: String,
    /// How it stands among others.
    pub priority: Priority,
    /// Whether what is being said now should stop for it.
    pub interrupts: bool,
    /// A sound to go with it.
    pub earcon: Option<Earcon>,
    /// What it belongs to (a question's reply token, a session), so that it can be taken back when that is over.
    pub about: Option<String>,
}

impl Utterance {
    /// An utterance that interrupts nothing and has no sound.
    pub fn new(text: impl Into<String>, language: impl Into<String>, priority: Priority) -> Utterance {
        Utterance {
            text: text.into(),
            language: language.into(),
            priority,
            interrupts: false,
            earcon: None,
            about: None,
        }
    }
}
