//! Saying it: speech-dispatcher, braille displays, sounds.
//!
//! - [`ssip`]: a [`Voice`] says utterances through speech-dispatcher and tells whether they were heard to their end.
//! - [`brlapi`]: a [`Braille`] shows a line on the display that BRLTTY drives, and hands on its keys.
//! - [`sounds`]: short sounds beside the words, by the terminal's bell or a player.
//!
//! All three talk to services of the user's machine. What those answer is not trusted: lengths are bounded, and
//! nothing they send can panic.

pub mod brlapi;
mod endpoint;
pub mod sounds;
pub mod ssip;

pub use brlapi::{Braille, BrailleError, BrailleKey};
pub use endpoint::Endpoint;
pub use sounds::{SoundError, Sounds};
pub use ssip::{SayError, SpeechId, Voice, VoiceConfig, VoiceError, VoiceEvent};
