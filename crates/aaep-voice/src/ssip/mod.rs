//! Speech through speech-dispatcher and its protocol SSIP.
//!
//! SSIP can cancel only all messages of a client: its CANCEL names a client, not a message. So the [`Voice`] keeps its own
//! queue and sends one message at a time. Queued utterances can then be canceled individually, and canceling the current
//! one leaves the others alone.
//!
//! `address.rs` finds the server, `spawn.rs` starts it, `wire.rs` implements the protocol, `queue.rs` selects the next
//! utterance, `task.rs` runs them all, and `voice.rs` is the public API.

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
