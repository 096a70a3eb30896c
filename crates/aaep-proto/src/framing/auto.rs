//! Input of unknown format: one object, an array, a line per document, or a captured event stream. The first bytes
//! decide which it is.

use super::{Decoded, JsonStreamDecoder};
use crate::binding::{DecodedLine, LineDecoder, SSE_EVENT, SseDecoder, SseEvent};
use crate::json::{IS_UTF_16, Json, is_utf_16};

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// How documents are separated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// One document per line (NDJSON).
    Lines,
    /// One array, or documents that span lines.
    Values,
    /// Server-Sent Events.
    EventStream,
}

/// Splits input of any of the formats into documents.
///
/// ```
/// use aaep_proto::framing::{Format, AutoDecoder, Decoded};
/// let mut mixed = AutoDecoder::new(1000);
/// let mut documents = 0;
/// mixed.push(b"data: {}\n\ndata: {}\n\n", |_, piece| documents += usize::from(matches!(piece, Decoded::Document(_))));
/// mixed.finish(|_, _| {});
/// assert_eq!((documents, mixed.format()), (2, Some(Format::EventStream)));
/// ```
#[derive(Clone, Debug)]
pub struct AutoDecoder {
    max: usize,
    decoder: Decoder,
}

#[derive(Clone, Debug)]
enum Decoder {
    Undecided(Vec<u8>),
    Lines(LineDecoder),
    Values(JsonStreamDecoder),
    EventStream(Box<SseDecoder>),
    /// Input that cannot be JSON; it has been reported.
    Refused,
}

impl AutoDecoder {
    /// Creates a decoder that skips documents longer than the bound.
    pub fn new(max: usize) -> AutoDecoder {
        AutoDecoder { max, decoder: Decoder::Undecided(Vec::new()) }
    }

    /// Returns the format, once it is known.
    pub fn format(&self) -> Option<Format> {
        match self.decoder {
            Decoder::Undecided(_) | Decoder::Refused => None,
            Decoder::Lines(_) => Some(Format::Lines),
            Decoder::Values(_) => Some(Format::Values),
            Decoder::EventStream(_) => Some(Format::EventStream),
        }
    }

    /// Decodes more bytes and passes the documents that they complete to `sink`, with the line each starts on.
    pub fn push(&mut self, bytes: &[u8], mut sink: impl FnMut(u64, Decoded<'_>)) {
        if let Decoder::Undecided(start) = &mut self.decoder {
            start.extend_from_slice(bytes);
            if is_utf_16(start) {
                self.decoder = Decoder::Refused;
                sink(1, Decoded::Malformed(IS_UTF_16));
            } else if let Some(format) = recognize(start, self.max, false) {
                self.decide(format, &mut sink);
            }
            return;
        }
        self.decode(bytes, &mut sink);
    }

    /// Ends the input.
    pub fn finish(&mut self, mut sink: impl FnMut(u64, Decoded<'_>)) {
        if let Decoder::Undecided(start) = &self.decoder
            && let Some(format) = recognize(start, self.max, true)
        {
            self.decide(format, &mut sink);
        }
        match &mut self.decoder {
            Decoder::Undecided(_) | Decoder::Refused => {}
            Decoder::Lines(lines) => lines.finish(|number, line| document(number, line, &mut sink)),
            Decoder::Values(values) => values.finish(sink),
            Decoder::EventStream(sse) => sse.finish(|event| dispatched(event, &mut sink)),
        }
    }

    fn decide(&mut self, format: Format, sink: &mut impl FnMut(u64, Decoded<'_>)) {
        let decoder = match format {
            Format::Lines => Decoder::Lines(LineDecoder::new(self.max)),
            Format::Values => Decoder::Values(JsonStreamDecoder::new(self.max)),
            Format::EventStream => Decoder::EventStream(Box::new(SseDecoder::new(self.max))),
        };
        if let Decoder::Undecided(start) = std::mem::replace(&mut self.decoder, decoder) {
            self.decode(&start, sink);
        }
    }

    fn decode(&mut self, bytes: &[u8], sink: &mut impl FnMut(u64, Decoded<'_>)) {
        match &mut self.decoder {
            Decoder::Undecided(start) => start.extend_from_slice(bytes),
            Decoder::Lines(lines) => lines.push(bytes, |number, line| document(number, line, sink)),
            Decoder::Values(values) => values.push(bytes, sink),
            Decoder::EventStream(sse) => sse.push(bytes, |event| dispatched(event, sink)),
            Decoder::Refused => {}
        }
    }
}

fn document(number: u64, line: DecodedLine<'_>, sink: &mut impl FnMut(u64, Decoded<'_>)) {
    match line {
        DecodedLine::Text(text) => {
            let text = if number == 1 { text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text) } else { text };
            if !text.iter().all(u8::is_ascii_whitespace) {
                sink(number, Decoded::Document(text));
            }
        }
        DecodedLine::TooLong(length) => sink(number, Decoded::TooLong(length)),
    }
}

/// Other kinds of events share the stream: pings, messages of an application.
fn dispatched(event: SseEvent, sink: &mut impl FnMut(u64, Decoded<'_>)) {
    if !matches!(event.event.as_str(), "" | "message" | SSE_EVENT) {
        return;
    }
    match event.too_long {
        Some(length) => sink(event.line, Decoded::TooLong(length)),
        None => sink(event.line, Decoded::Document(&event.data)),
    }
}

/// Recognizes the format from the start of the input, or returns `None` if more is needed. Only as many bytes are used as
/// one document may have, so that the result does not depend on how they arrive.
fn recognize(start: &[u8], max: usize, ended: bool) -> Option<Format> {
    let ended = ended || start.len() > max;
    let window = &start[..start.len().min(max.saturating_add(1))];
    if !ended && (BYTE_ORDER_MARK.starts_with(window) || matches!(window, [0xFF] | [0xFE])) {
        return None;
    }
    let text = window.strip_prefix(BYTE_ORDER_MARK).unwrap_or(window).trim_ascii_start();
    match text.first() {
        None => ended.then_some(Format::Lines),
        Some(b'[') => Some(Format::Values),
        Some(b'{') => recognize_object(text, ended),
        Some(_) => recognize_field(text, ended),
    }
}

/// An object on one line starts a line-by-line file; so does a broken one if the next line
/// starts another. Anything else spans lines.
fn recognize_object(text: &[u8], ended: bool) -> Option<Format> {
    let Some(end) = memchr::memchr(b'\n', text) else { return ended.then_some(Format::Lines) };
    if Json::parse(&text[..end]).is_ok() {
        return Some(Format::Lines);
    }
    match text[end..].trim_ascii_start().first() {
        Some(b'{') => Some(Format::Lines),
        Some(_) => Some(Format::Values),
        None => ended.then_some(Format::Lines),
    }
}

fn recognize_field(text: &[u8], ended: bool) -> Option<Format> {
    const FIELDS: [&[u8]; 4] = [b"data", b"event", b"id", b"retry"];
    // A name alone on its line is a field without a value.
    let is_field = |name: &&[u8]| matches!(text.strip_prefix(*name), Some([b':' | b'\n' | b'\r', ..]));
    if text.starts_with(b":") || FIELDS.iter().any(is_field) {
        return Some(Format::EventStream);
    }
    let may_become = !ended && FIELDS.iter().any(|name| name.starts_with(text));
    (!may_become).then_some(Format::Lines)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cut(bytes: &[u8], step: usize, max: usize) -> Vec<(u64, String)> {
        let mut mixed = AutoDecoder::new(max);
        let mut seen = Vec::new();
        let mut sink = |line: u64, piece: Decoded<'_>| {
            seen.push((
                line,
                match piece {
                    Decoded::Document(bytes) => String::from_utf8_lossy(bytes).into_owned(),
                    Decoded::TooLong(length) => format!("too long: {length}"),
                    Decoded::Malformed(message) => format!("broken: {message}"),
                },
            ));
        };
        for chunk in bytes.chunks(step.max(1)) {
            mixed.push(chunk, &mut sink);
        }
        mixed.finish(&mut sink);
        seen
    }

    fn check(input: &str, expected: &[(u64, &str)]) {
        for step in [1, 2, 7, 10_000] {
            let seen = cut(input.as_bytes(), step, 20);
            let seen: Vec<(u64, &str)> = seen.iter().map(|(l, t)| (*l, t.as_str())).collect();
            assert_eq!(seen, expected, "{input:?} in steps of {step}");
        }
    }

    #[test]
    fn formats_are_recognized() {
        check("", &[]);
        check(" \n\n", &[]);
        check("{\"a\":1}", &[(1, "{\"a\":1}")]);
        check("{\"a\":1}\n{\"b\":2}\r\n\n{}", &[(1, "{\"a\":1}"), (2, "{\"b\":2}"), (4, "{}")]);
        check("\u{feff}{\"a\":1}\n{}", &[(1, "{\"a\":1}"), (2, "{}")]);
        check("\n{\n \"a\": 1\n}\n{}\n", &[(2, "{\n \"a\": 1\n}"), (5, "{}")]);
        check("[{},\n{\"a\":\"]\"}]\n", &[(1, "{}"), (2, "{\"a\":\"]\"}")]);
        check("[1, \"x,\\\"\", null]", &[(1, "1"), (1, "\"x,\\\"\""), (1, "null")]);
        check("data: {}\n\nevent: message\ndata: {\"a\":\ndata: 1}\n\n", &[(1, "{}"), (4, "{\"a\":\n1}")]);
        check("data\ndata: {}\n\n", &[(1, "\n{}")]);
        check("retry\ndata: {}\n\n", &[(2, "{}")]);
        check("event: ping\ndata: 1\n\nevent: aaep.event\ndata: {}\n\n", &[(5, "{}")]);
        check(": alive\n\n: alive\n\n", &[]);
        check("data", &[(1, "data")]);
        check("[]", &[]);
        check(": c\r\rdata:{}\r\r", &[(3, "{}")]);
        check("data: {}", &[(1, "{}")]);
        check("\u{feff}data: {}\n\n", &[(1, "{}")]);
        check("hello\nworld", &[(1, "hello"), (2, "world")]);
        check("{\"a\":\n{\"b\":1}\n{", &[(1, "{\"a\":"), (2, "{\"b\":1}"), (3, "{")]);
    }

    #[test]
    fn broken_framing_is_named() {
        check("[{}", &[(1, "{}"), (1, "broken: the input ends before the array does")]);
        check("[{} {}]", &[(1, "{}"), (1, "broken: a comma is missing between two items of the array"), (1, "{}")]);
        check("[] []", &[(1, "broken: there is more text after the end of the array")]);
        check("{\n\"a", &[(1, "broken: the input ends in the middle of a value")]);
    }

    #[test]
    fn missing_items_of_an_array_are_named() {
        check("[{},]", &[(1, "{}"), (1, "broken: an item of the array is missing after the last comma")]);
        check("[,{}]", &[(1, "broken: an item of the array is missing before a comma"), (1, "{}")]);
        check("[{},,{}]", &[(1, "{}"), (1, "broken: an item of the array is missing before a comma"), (1, "{}")]);
    }

    #[test]
    fn utf_16_is_named_once() {
        for bytes in [&b"\xFF\xFE{\0}\0\n\0{\0}\0"[..], b"\xFE\xFF\0{\0}\0\n\0{\0}"] {
            for step in [1, 2, 100] {
                let expected = [(1, "broken: it is UTF-16; convert it to UTF-8".to_owned())];
                assert_eq!(cut(bytes, step, 20), expected);
            }
        }
    }

    #[test]
    fn long_documents_are_skipped_not_kept() {
        check("{\"a\":\"0123456789012345\"}\n{}", &[(1, "too long: 24"), (2, "{}")]);
        check("[{\"a\":\"0123456789012345\"},{}]", &[(1, "too long: 24"), (1, "{}")]);
        check("data: {\"a\":\"0123456789012345\"}\n\ndata: {}\n\n", &[(1, "too long: 24"), (3, "{}")]);
    }

    proptest! {
        /// Where the input is cut never changes what is found, and no bytes panic.
        #[test]
        fn cutting_changes_nothing(bytes in proptest::collection::vec(prop_oneof![
            Just(b'{'), Just(b'}'), Just(b'['), Just(b']'), Just(b'"'), Just(b'\\'), Just(b','), Just(b':'),
            Just(b'\n'), Just(b'\r'), Just(b' '), Just(b'd'), Just(b'a'), Just(b't'), any::<u8>()
        ], 0..200), step in 1usize..40, max in 4usize..60) {
            let strip = |v: Vec<(u64, String)>| v.into_iter().filter(|(_, t)| !t.starts_with("too long")).collect::<Vec<_>>();
            prop_assert_eq!(strip(cut(&bytes, step, max)), strip(cut(&bytes, usize::MAX, max)));
        }
    }
}
