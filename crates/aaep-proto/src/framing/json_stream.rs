//! JSON values one after the other, or the items of one array, spread over any number of lines.
//!
//! Only brackets and strings are looked at, so a document of any size passes through in the
//! memory of its largest item.

use super::Decoded;

/// Splits a stream of JSON values, or one JSON array, into values.
///
/// ```
/// use aaep_proto::framing::{Decoded, JsonStreamDecoder};
/// let mut values = JsonStreamDecoder::new(100);
/// let mut seen = Vec::new();
/// values.push(b"[\n  {\"a\": 1},\n  {}\n]", |line, piece| if let Decoded::Document(bytes) = piece { seen.push((line, bytes.to_vec())) });
/// assert_eq!(seen, [(2, b"{\"a\": 1}".to_vec()), (3, b"{}".to_vec())]);
/// ```
#[derive(Clone, Debug)]
pub struct JsonStreamDecoder {
    max: usize,
    line: u64,
    place: Place,
    in_array: bool,
    /// Inside an array: whether a comma or the end must come next.
    after_value: bool,
    /// Inside an array: whether a value must come next.
    after_comma: bool,
    value: Value,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Start,
    Between,
    Inside,
    AfterArray,
}

/// The value that is being read.
#[derive(Clone, Debug, Default)]
struct Value {
    bytes: Vec<u8>,
    length: usize,
    line: u64,
    depth: usize,
    in_string: bool,
    escaped: bool,
    scalar: bool,
}

impl JsonStreamDecoder {
    /// A decoder that skips values longer than the bound.
    pub fn new(max: usize) -> JsonStreamDecoder {
        JsonStreamDecoder {
            max,
            line: 1,
            place: Place::Start,
            in_array: false,
            after_value: false,
            after_comma: false,
            value: Value::default(),
        }
    }

    /// Decodes more bytes and passes the values that they complete to `sink`, with the line each starts on.
    pub fn push(&mut self, bytes: &[u8], mut sink: impl FnMut(u64, Decoded<'_>)) {
        for &b in bytes {
            if self.place == Place::Inside {
                self.inside(b, &mut sink);
            } else {
                self.between(b, &mut sink);
            }
            self.line += u64::from(b == b'\n');
        }
    }

    /// Ends the input.
    pub fn finish(&mut self, mut sink: impl FnMut(u64, Decoded<'_>)) {
        if self.place == Place::Inside && self.value.scalar {
            self.end_value(&mut sink);
        }
        match self.place {
            Place::Inside => sink(self.value.line, Decoded::Malformed("the input ends in the middle of a value")),
            Place::Between if self.in_array => {
                sink(self.line, Decoded::Malformed("the input ends before the array does"))
            }
            _ => {}
        }
    }

    fn between(&mut self, b: u8, sink: &mut impl FnMut(u64, Decoded<'_>)) {
        match (b, self.place) {
            (b' ' | b'\t' | b'\n' | b'\r', _) => {}
            // The bytes of a byte order mark.
            (0xEF | 0xBB | 0xBF, Place::Start) => {}
            (b'[', Place::Start) => {
                self.in_array = true;
                self.place = Place::Between;
            }
            (_, Place::AfterArray) => {
                // Said once; the rest is skipped.
                if self.in_array {
                    self.in_array = false;
                    sink(self.line, Decoded::Malformed("there is more text after the end of the array"));
                }
            }
            (b',', _) if self.in_array => {
                if !self.after_value {
                    sink(self.line, Decoded::Malformed("an item of the array is missing before a comma"));
                }
                self.after_value = false;
                self.after_comma = true;
            }
            (b']', _) if self.in_array => {
                if self.after_comma {
                    sink(self.line, Decoded::Malformed("an item of the array is missing after the last comma"));
                }
                self.place = Place::AfterArray;
            }
            _ => {
                if self.in_array && self.after_value {
                    sink(self.line, Decoded::Malformed("a comma is missing between two items of the array"));
                }
                self.begin_value(b);
            }
        }
    }

    fn begin_value(&mut self, b: u8) {
        let nested = matches!(b, b'{' | b'[');
        self.value = Value {
            bytes: std::mem::take(&mut self.value.bytes),
            line: self.line,
            depth: usize::from(nested),
            in_string: b == b'"',
            scalar: !nested && b != b'"',
            ..Value::default()
        };
        self.value.bytes.clear();
        self.keep(b);
        self.place = Place::Inside;
    }

    fn inside(&mut self, b: u8, sink: &mut impl FnMut(u64, Decoded<'_>)) {
        if self.value.scalar {
            if matches!(b, b' ' | b'\t' | b'\n' | b'\r' | b',' | b']' | b'[' | b'{' | b'"') {
                self.end_value(sink);
                self.between(b, sink);
            } else {
                self.keep(b);
            }
            return;
        }
        self.keep(b);
        let value = &mut self.value;
        if value.in_string {
            match b {
                _ if value.escaped => value.escaped = false,
                b'\\' => value.escaped = true,
                b'"' => value.in_string = false,
                _ => {}
            }
        } else {
            match b {
                b'"' => value.in_string = true,
                b'{' | b'[' => value.depth += 1,
                b'}' | b']' => value.depth -= 1,
                _ => {}
            }
        }
        if !value.in_string && value.depth == 0 {
            self.end_value(sink);
        }
    }

    fn end_value(&mut self, sink: &mut impl FnMut(u64, Decoded<'_>)) {
        let value = &self.value;
        if value.length > self.max {
            sink(value.line, Decoded::TooLong(value.length));
        } else {
            sink(value.line, Decoded::Document(&value.bytes));
        }
        self.place = Place::Between;
        self.after_value = true;
        self.after_comma = false;
    }

    fn keep(&mut self, b: u8) {
        self.value.length += 1;
        if self.value.length <= self.max {
            self.value.bytes.push(b);
        } else if self.value.length == self.max + 1 {
            self.value.bytes = Vec::new();
        }
    }
}
