//! What a listener hears: events and a user's profile become utterances.

mod utterance;

pub use utterance::{Earcon, Priority, Utterance};
