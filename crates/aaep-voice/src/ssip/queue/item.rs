//! An utterance in the queue of a voice.

use aaep_announce::{Priority, Turn, Utterance};

use super::SpeechId;

/// An utterance in the queue.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) id: SpeechId,
    pub(super) utterance: Utterance,
    /// Whether it was already sent on a connection that was lost.
    pub(super) again: bool,
}

impl Item {
    pub(super) fn matters(&self) -> bool {
        self.utterance.priority >= Priority::Message
    }

    /// Returns whether it is spoken again from its start after a question interrupted it.
    pub(super) fn comes_again(&self) -> bool {
        self.utterance.turn == Turn::Normal && self.matters()
    }

    pub(super) fn is_first(&self) -> bool {
        self.utterance.turn == Turn::First
    }

    pub(super) fn is_about(&self, about: &str) -> bool {
        self.utterance.about.as_deref() == Some(about)
    }
}

/// Returns whether a new utterance makes a queued one obsolete: a notification, which needs silence, progress about the
/// same subject, which would be spoken after newer information, or passing news before a question.
pub(super) fn makes_obsolete(new: &Utterance, old: &Utterance) -> bool {
    match old.priority {
        _ if old.turn == Turn::Passing && new.turn == Turn::First && new.interrupts => true,
        Priority::Notification => true,
        Priority::Progress if new.priority == Priority::Progress => new.about == old.about,
        Priority::Progress => new.about.is_some() && new.about == old.about,
        Priority::Message | Priority::Important => false,
    }
}
