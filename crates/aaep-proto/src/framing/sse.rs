//! Server-Sent Events as the HTML standard reads them.

use super::lines::{Line, LineDecoder};

/// The most bytes of an `id`. A longer one is passed over.
const LONGEST_ID: usize = 1024;

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
    /// How many bytes the data had if that is more than the bound; then `data` is empty.
    pub too_long: Option<usize>,
}

/// Cuts a stream into events.
///
/// ```
/// use aaep_proto::framing::SseDecoder;
/// let mut sse = SseDecoder::new(1000);
/// let mut seen = Vec::new();
/// sse.push(b": hello\nevent: aaep.event\nid: evt_1\ndata: {}\n\n", |event| seen.push(event));
/// assert_eq!((seen[0].event.as_str(), seen[0].id.as_str(), &seen[0].data[..]), ("aaep.event", "evt_1", &b"{}"[..]));
/// ```
#[derive(Clone, Debug)]
pub struct SseDecoder {
    lines: LineDecoder,
    state: State,
}

#[derive(Clone, Debug)]
struct State {
    max: usize,
    pending: SseEvent,
    has_data: bool,
    retry: Option<u64>,
}

impl SseDecoder {
    /// A decoder that refuses data longer than the bound.
    pub fn new(max: usize) -> SseDecoder {
        // A field name, a colon and a space come on top of the data.
        let lines = LineDecoder::of_event_stream(max.saturating_add(16));
        SseDecoder { lines, state: State { max, pending: SseEvent::default(), has_data: false, retry: None } }
    }

    /// Takes more bytes and hands out the events that they complete.
    pub fn push(&mut self, bytes: &[u8], mut sink: impl FnMut(SseEvent)) {
        let state = &mut self.state;
        self.lines.push(bytes, |number, line| state.line(number, line, &mut sink));
    }

    /// Ends the input; an event that was not ended by an empty line is handed out too.
    pub fn finish(&mut self, mut sink: impl FnMut(SseEvent)) {
        let state = &mut self.state;
        self.lines.finish(|number, line| state.line(number, line, &mut sink));
        state.dispatch(&mut sink);
    }

    /// How many bytes of an event that is too long came so far; 0 if there is none.
    pub fn skipped(&self) -> usize {
        self.lines.skipped() + self.state.pending.too_long.unwrap_or(0)
    }

    /// The reconnection time that the stream last asked for, in milliseconds.
    pub fn retry(&self) -> Option<u64> {
        self.state.retry
    }
}

impl State {
    fn line(&mut self, number: u64, line: Line<'_>, sink: &mut impl FnMut(SseEvent)) {
        let text = match line {
            Line::Text(text) => text,
            Line::TooLong(length) => {
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
            // Each event that follows carries it, so it must be short.
            b"id" if !value.contains(&0) && value.len() <= LONGEST_ID => {
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
        } else if pending.data.len() + value.len() > self.max {
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
