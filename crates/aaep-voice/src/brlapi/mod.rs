//! A braille display, through BRLTTY's programming interface BrlAPI.
//!
//! `address.rs` finds the server, `packet.rs` is the protocol's envelope, `key.rs` names keys, `display.rs` is what
//! callers hold. No library of C is needed.

mod address;
mod display;
mod error;
mod key;
mod packet;

pub use address::{BrailleConfig, tty_path};
pub use display::Braille;
pub use error::BrailleError;
pub use key::{BrailleKey, KeyKind};
