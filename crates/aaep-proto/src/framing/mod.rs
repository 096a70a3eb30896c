//! Splits files and pipes of recorded documents into documents. Bytes are pushed in as they are read, whole documents
//! come out, and no document makes a decoder buffer more than its bound.

mod auto;
mod json_stream;

pub use auto::{AutoDecoder, Format};
pub use json_stream::JsonStreamDecoder;

/// What a decoder found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoded<'a> {
    /// The bytes of one document.
    Document(&'a [u8]),
    /// A document of this many bytes, more than the bound; it was skipped.
    TooLong(usize),
    /// The framing itself is malformed here; the text says how.
    Malformed(&'static str),
}
