//! Braille displays through BRLTTY and its protocol BrlAPI.
//!
//! `address.rs` finds the server, `packet.rs` implements the framing, `key.rs` decodes keys, `display.rs` is the
//! public API. No C library is needed.

mod address;
mod display;
mod error;
mod key;
mod packet;

pub use address::{BrailleConfig, tty_path};
pub use display::Braille;
pub use error::BrailleError;
pub use key::{BrailleKey, KeyKind};
