//! Server-sent events: the encoder of a producer, and a decoder as the HTML standard defines it.

use bytes::{BufMut, BytesMut};

use super::lines::{DecodedLine, LineDecoder};

/// The `event` field of protocol events.
pub const SSE_EVENT: &str = "aaep.event";

/// The `event` field of the other messages of the protocol.
pub const SSE_MESSAGE: &str = "aaep.message";

/// A comment that keeps an idle connection open.
pub const SSE_KEEP_ALIVE: &[u8] = b": alive\n\n";

/// The most bytes of an `id`. Every event that follows carries it, so a longer one is ignored.
const MAX_ID_BYTES: usize = 1024;

/// Appends a protocol event, whose JSON must be one line.
///
/// ```
/// let mut stream = bytes::BytesMut::new();
/// aaep_proto::binding::encode_sse_event("evt_1", b"{}", &mut stream);
/// assert_eq!(&stream[..], b"event: aaep.event\nid: evt_1\ndata: {}\n\n");
/// ```
pub fn encode_sse_event(event_id: &str, json: &[u8], out: &mut BytesMut) {
    put_fields(SSE_EVENT, Some(event_id), json, out);
}

/// Appends a message that is not an event, whose JSON must be one line.
pub fn encode_sse_message(json: &[u8], out: &mut BytesMut) {
    put_fields(SSE_MESSAGE, None, json, out);
}

/// Appends the reconnection time that the client should use.
pub fn encode_sse_retry(millis: u64, out: &mut BytesMut) {
    out.put_slice(format!("retry: {millis}\n\n").as_bytes());
}

fn put_fields(event: &str, id: Option<&str>, json: &[u8], out: &mut BytesMut) {
    out.put_slice(b"event: ");
    out.put_slice(event.as_bytes());
    if let Some(id) = id {
        out.put_slice(b"\nid: ");
        out.put_slice(id.as_bytes());
    }
    out.put_slice(b"\ndata: ");
    out.put_slice(json);
    out.put_slice(b"\n\n");
}

/// One dispatched event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SseEvent {
    /// The line on which its data begins, from 1.
    pub line: u64,
    /// The `event` field, empty if there was none.
    pub event: String,
    /// The last `id` of the stream so far.
    pub id: String,
    /// The lines of `data`, joined with line feeds.
    pub data: Vec<u8>,
    /// The length of data that exceeds the bound; `data` is empty then.
    pub too_long: Option<usize>,
}

/// Splits a stream into events.
///
/// ```
/// use aaep_proto::binding::SseDecoder;
/// let mut sse = SseDecoder::new(1000);
/// let mut seen = Vec::new();
/// sse.push(b": hello\nevent: aaep.event\nid: evt_1\ndata: {}\n\n", |event| seen.push(event));
/// assert_eq!((seen[0].event.as_str(), seen[0].id.as_str(), &seen[0].data[..]), ("aaep.event", "evt_1", &b"{}"[..]));
/// ```
#[derive(Clone, Debug)]
pub struct SseDecoder {
    lines: LineDecoder,
    fields: FieldState,
}

#[derive(Clone, Debug)]
struct FieldState {
    max_bytes: usize,
    pending: SseEvent,
    has_data: bool,
    retry: Option<u64>,
}

impl SseDecoder {
    /// Creates a decoder that skips events with more than `max_bytes` of data.
    pub fn new(max_bytes: usize) -> SseDecoder {
        // A field name, a colon and a space come on top of the data.
        let lines = LineDecoder::for_event_stream(max_bytes.saturating_add(16));
        SseDecoder {
            lines,
            fields: FieldState { max_bytes, pending: SseEvent::default(), has_data: false, retry: None },
        }
    }

    /// Decodes more bytes and passes the events that they complete to `sink`.
    pub fn push(&mut self, bytes: &[u8], mut sink: impl FnMut(SseEvent)) {
        let fields = &mut self.fields;
        self.lines.push(bytes, |number, line| fields.line(number, line, &mut sink));
    }

    /// Ends the input. An event that lacks its empty line is passed to `sink` too.
    pub fn finish(&mut self, mut sink: impl FnMut(SseEvent)) {
        let fields = &mut self.fields;
        self.lines.finish(|number, line| fields.line(number, line, &mut sink));
        fields.dispatch(&mut sink);
    }

    /// Returns how many bytes of an event that is too long were skipped so far, 0 if the current event is not.
    pub fn skipped(&self) -> usize {
        self.lines.skipped() + self.fields.pending.too_long.unwrap_or(0)
    }

    /// Returns the reconnection time that the stream last asked for, in milliseconds.
    pub fn retry(&self) -> Option<u64> {
        self.fields.retry
    }
}

impl FieldState {
    fn line(&mut self, number: u64, line: DecodedLine<'_>, sink: &mut impl FnMut(SseEvent)) {
        let text = match line {
            DecodedLine::Text(text) => text,
            DecodedLine::TooLong(length) => {
                self.begin_data(number);
                self.pending.too_long = Some(self.pending.too_long.unwrap_or(0) + length);
                return;
            }
        };
        let text = if number == 1 { text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(text) } else { text };
        if text.is_empty() {
            return self.dispatch(sink);
        }
        let (name, value) = match text.iter().position(|b| *b == b':') {
            Some(colon) => (&text[..colon], &text[colon + 1..]),
            None => (text, &[][..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match name {
            b"data" => self.data(number, value),
            b"event" => self.pending.event = String::from_utf8_lossy(value).into_owned(),
            b"id" if !value.contains(&0) && value.len() <= MAX_ID_BYTES => {
                self.pending.id = String::from_utf8_lossy(value).into_owned()
            }
            b"retry" if !value.is_empty() && value.iter().all(u8::is_ascii_digit) => {
                self.retry = std::str::from_utf8(value).ok().and_then(|v| v.parse().ok());
            }
            _ => {}
        }
    }

    fn begin_data(&mut self, number: u64) {
        if !self.has_data {
            self.pending.line = number;
            self.has_data = true;
        } else if self.pending.too_long.is_none() {
            self.pending.data.push(b'\n');
        }
    }

    fn data(&mut self, number: u64, value: &[u8]) {
        self.begin_data(number);
        let pending = &mut self.pending;
        if let Some(length) = &mut pending.too_long {
            *length += value.len() + 1;
        } else if pending.data.len() + value.len() > self.max_bytes {
            pending.too_long = Some(pending.data.len() + value.len());
            pending.data = Vec::new();
        } else {
            pending.data.extend_from_slice(value);
        }
    }

    fn dispatch(&mut self, sink: &mut impl FnMut(SseEvent)) {
        let next = SseEvent { id: self.pending.id.clone(), ..SseEvent::default() };
        let event = std::mem::replace(&mut self.pending, next);
        if std::mem::take(&mut self.has_data) {
            sink(event);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_decoded() {
        let mut stream = BytesMut::new();
        encode_sse_retry(2000, &mut stream);
        encode_sse_event("evt_1", b"{\"a\":1}", &mut stream);
        stream.extend_from_slice(SSE_KEEP_ALIVE);
        encode_sse_message(b"{}", &mut stream);
        assert!(stream.starts_with(b"retry: 2000\n\n"));
        let (mut decoder, mut events) = (SseDecoder::new(100), Vec::new());
        decoder.push(&stream, |event| events.push(event));
        let seen: Vec<_> = events.iter().map(|e| (e.event.as_str(), e.id.as_str(), &e.data[..])).collect();
        // The id of a stream stays until another one is sent.
        assert_eq!(seen, [(SSE_EVENT, "evt_1", &b"{\"a\":1}"[..]), (SSE_MESSAGE, "evt_1", b"{}")]);
        assert_eq!(decoder.retry(), Some(2000));
    }
}
