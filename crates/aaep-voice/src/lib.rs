//! Speech through speech-dispatcher, braille displays through BRLTTY, and sounds.
//!
//! - [`ssip`]: a [`Voice`] speaks utterances through speech-dispatcher and reports whether each was spoken completely.
//! - [`brlapi`]: a [`Braille`] shows a line on the display that BRLTTY drives and returns its keys.
//! - [`sounds`]: [`Sounds`] plays short sounds with the terminal's bell or an audio player.
//!
//! All three use services of the user's machine. Their replies are not trusted: lengths are bounded, and malformed data
//! is an error, never a panic.

pub mod brlapi;
mod endpoint;
pub mod sounds;
pub mod ssip;

pub use brlapi::{Braille, BrailleError, BrailleKey};
pub use endpoint::Endpoint;
pub use sounds::{SoundError, Sounds};
pub use ssip::{SayError, SpeechId, Voice, VoiceConfig, VoiceError, VoiceEvent};
