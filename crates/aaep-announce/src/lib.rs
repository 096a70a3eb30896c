//! What a listener hears: events and a user's profile become utterances.

mod announcer;
pub mod listenable;
mod phrases;
mod profile;
mod utterance;

pub use announcer::{Announcer, PromptEnd, Remark};
pub use phrases::Phrases;
pub use profile::{CodePolicy, InvalidProfile, Kind, Profile, Punctuation, QuietHours, TimeOfDay};
pub use utterance::{Earcon, Priority, Utterance};
