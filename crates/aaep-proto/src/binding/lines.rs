//! Lines of bounded length.

use memchr::{memchr, memchr2};

/// One line without its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodedLine<'a> {
    /// A line.
    Text(&'a [u8]),
    /// A line of this many bytes, more than the bound; it was skipped.
    TooLong(usize),
}

/// Splits bytes into lines. A line within one push is not copied.
///
/// ```
/// use aaep_proto::binding::{DecodedLine, LineDecoder};
/// let mut lines = LineDecoder::new(100);
/// let mut seen = Vec::new();
/// for bytes in [&b"one\ntw"[..], b"o\r\nthree"] {
///     lines.push(bytes, |number, line| if let DecodedLine::Text(text) = line { seen.push((number, text.to_vec())) });
/// }
/// lines.finish(|number, line| if let DecodedLine::Text(text) = line { seen.push((number, text.to_vec())) });
/// assert_eq!(seen, [(1, b"one".to_vec()), (2, b"two".to_vec()), (3, b"three".to_vec())]);
/// ```
#[derive(Clone, Debug)]
pub struct LineDecoder {
    max_bytes: usize,
    carriage_return_ends: bool,
    number: u64,
    partial: Vec<u8>,
    skipped: usize,
    after_carriage_return: bool,
}

impl LineDecoder {
    /// Creates a decoder of lines that end with a line feed, or with a carriage return and a line feed.
    pub fn new(max_bytes: usize) -> LineDecoder {
        LineDecoder {
            max_bytes,
            carriage_return_ends: false,
            number: 1,
            partial: Vec::new(),
            skipped: 0,
            after_carriage_return: false,
        }
    }

    /// Creates a decoder of the lines of server-sent events, which a carriage return alone ends too.
    pub fn for_event_stream(max_bytes: usize) -> LineDecoder {
        LineDecoder { carriage_return_ends: true, ..LineDecoder::new(max_bytes) }
    }

    /// Decodes more bytes and passes the lines that they complete to `sink`, with their numbers from 1.
    pub fn push(&mut self, mut bytes: &[u8], mut sink: impl FnMut(u64, DecodedLine<'_>)) {
        if self.after_carriage_return && !bytes.is_empty() {
            self.after_carriage_return = false;
            bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
        }
        while let Some(end) = self.find_end(bytes) {
            self.end_line(&bytes[..end], &mut sink);
            let was_carriage_return = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            if was_carriage_return {
                self.after_carriage_return = bytes.is_empty();
                bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
            }
        }
        self.buffer(bytes);
    }

    /// Ends the input. A last line without an end is passed to `sink` too.
    pub fn finish(&mut self, mut sink: impl FnMut(u64, DecodedLine<'_>)) {
        if !self.partial.is_empty() || self.skipped > 0 {
            self.end_line(&[], &mut sink);
        }
    }

    /// Returns how many bytes of a line that is too long were skipped so far, 0 if the current line is not.
    pub fn skipped(&self) -> usize {
        self.skipped
    }

    fn find_end(&self, bytes: &[u8]) -> Option<usize> {
        if self.carriage_return_ends { memchr2(b'\n', b'\r', bytes) } else { memchr(b'\n', bytes) }
    }

    fn end_line(&mut self, rest: &[u8], sink: &mut impl FnMut(u64, DecodedLine<'_>)) {
        let whole = if self.partial.is_empty() && self.skipped == 0 && rest.len() <= self.max_bytes {
            rest
        } else {
            self.buffer(rest);
            &self.partial
        };
        if self.skipped > 0 {
            sink(self.number, DecodedLine::TooLong(self.skipped));
        } else {
            sink(self.number, DecodedLine::Text(whole.strip_suffix(b"\r").unwrap_or(whole)));
        }
        self.number += 1;
        self.partial.clear();
        self.skipped = 0;
    }

    fn buffer(&mut self, bytes: &[u8]) {
        if self.skipped > 0 {
            self.skipped += bytes.len();
        } else if self.partial.len() + bytes.len() > self.max_bytes {
            self.skipped = self.partial.len() + bytes.len();
            self.partial = Vec::new();
        } else {
            self.partial.extend_from_slice(bytes);
        }
    }
}
