//! From bytes to documents. Nothing here reads: bytes are pushed in as they come, whole documents
//! come out, and no document can make a decoder keep more than its bound.

mod lines;
mod mixed;
mod sse;
mod values;

pub use lines::{Line, LineDecoder};
pub use mixed::{AutoDecoder, Format};
pub use sse::{SseDecoder, SseEvent};
pub use values::JsonStreamDecoder;

/// What a decoder found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoded<'a> {
    /// The bytes of one document.
    Document(&'a [u8]),
    /// A document of this many bytes, more than the bound; it was skipped.
    TooLong(usize),
    /// The framing itself is broken here.
    Broken(&'static str),
}
