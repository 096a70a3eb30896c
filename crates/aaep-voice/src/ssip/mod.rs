//! Speech through speech-dispatcher, by its protocol SSIP.
//!
//! SSIP can take back a client's speech only as a whole: its CANCEL names a client, not a message. So the [`Voice`]
//! keeps its own queue and hands over one message at a time. What waits can then be taken back one by one, and what
//! is being said can be cut without harm to the rest.
//!
//! `address.rs` finds the server, `spawn.rs` starts it, `wire.rs` talks to it, `queue.rs` decides what is said next,
//! `task.rs` brings them together, `voice.rs` is what callers hold.

mod address;
mod error;
mod queue;
mod spawn;
mod task;
mod voice;
mod wire;

pub use error::{SayError, VoiceError};
pub use queue::{SpeechId, VoiceEvent};
pub use voice::{Events, Punctuation, Voice, VoiceConfig};
