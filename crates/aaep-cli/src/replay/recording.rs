//! A recording, which can be read several times, one document at a time.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Cursor, Read};
use std::path::{Path, PathBuf};

use aaep_proto::framing::{AutoDecoder, Decoded};
use aaep_proto::json::Json;
use aaep_proto::message::{Event, Message};
use aaep_proto::{Severity, Validator, limits};

use crate::input;

/// Maximum size of a recording from a pipe, which is kept in memory because it can be read only once.
const MAX_PIPE_BYTES: u64 = 64 * 1024 * 1024;

/// One document of a recording.
pub(super) enum RecordedItem {
    /// An event to replay.
    Event(Box<Event>),
    /// A reply or another message, which a producer does not emit.
    Message(Box<Message>),
    /// An invalid document, and why.
    Invalid(String),
}

/// Where a recording is read from.
pub(super) enum Recording {
    File(PathBuf),
    Memory(Vec<u8>),
}

impl Recording {
    /// Opens a recording. The error completes a sentence that begins with the path.
    pub(super) fn open(path: &Path) -> Result<Recording, String> {
        if path.as_os_str() == "-" {
            return read_to_memory(io::stdin().lock());
        }
        let file = input::open(path)?;
        match file.metadata() {
            Ok(metadata) if metadata.is_file() => Ok(Recording::File(path.to_owned())),
            _ => read_to_memory(file),
        }
    }

    /// Returns a reader that starts at the beginning.
    pub(super) fn read(&self) -> io::Result<RecordingReader<'_>> {
        let input: Box<dyn Read + Send + '_> = match self {
            Recording::File(path) => Box::new(File::open(path)?),
            Recording::Memory(bytes) => Box::new(Cursor::new(bytes)),
        };
        let decoder = AutoDecoder::new(limits::MESSAGE_BYTES);
        Ok(RecordingReader {
            input,
            decoder,
            validator: Validator::new(),
            buffer: vec![0; 64 * 1024],
            found: VecDeque::new(),
            ended: false,
        })
    }
}

fn read_to_memory(input: impl Read) -> Result<Recording, String> {
    let mut bytes = Vec::new();
    input.take(MAX_PIPE_BYTES + 1).read_to_end(&mut bytes).map_err(|error| format!("cannot be read: {error}"))?;
    if bytes.len() as u64 > MAX_PIPE_BYTES {
        return Err(format!(
            "is not a regular file and is larger than {} MiB; save it to a file first",
            MAX_PIPE_BYTES >> 20
        ));
    }
    Ok(Recording::Memory(bytes))
}

/// Reads documents with their line numbers.
pub(super) struct RecordingReader<'r> {
    input: Box<dyn Read + Send + 'r>,
    decoder: AutoDecoder,
    validator: Validator,
    buffer: Vec<u8>,
    found: VecDeque<(u64, RecordedItem)>,
    ended: bool,
}

impl RecordingReader<'_> {
    /// Returns the next document with its line number, or `None` at the end.
    pub(super) fn next(&mut self) -> io::Result<Option<(u64, RecordedItem)>> {
        loop {
            if let Some(found) = self.found.pop_front() {
                return Ok(Some(found));
            }
            if self.ended {
                return Ok(None);
            }
            let length = match self.input.read(&mut self.buffer) {
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let (found, validator) = (&mut self.found, &self.validator);
            let push = |line, decoded: Decoded<'_>| found.push_back((line, classify(validator, decoded)));
            if length == 0 {
                self.ended = true;
                self.decoder.finish(push);
            } else {
                self.decoder.push(&self.buffer[..length], push);
            }
        }
    }
}

/// Classifies a document. Only valid events are replayed.
fn classify(validator: &Validator, decoded: Decoded<'_>) -> RecordedItem {
    let bytes = match decoded {
        Decoded::Document(bytes) => bytes,
        Decoded::TooLong(length) => {
            return RecordedItem::Invalid(format!(
                "{length} bytes exceed the maximum of {} bytes per event.",
                limits::MESSAGE_BYTES
            ));
        }
        Decoded::Malformed(message) => return RecordedItem::Invalid(format!("This is not JSON: {message}.")),
    };
    let json = match Json::parse(bytes) {
        Ok(json) => json,
        Err(error) => return RecordedItem::Invalid(format!("This is not JSON: {error}.")),
    };
    let report = validator.check_json(&json, Some(bytes.len()));
    if let Some(problem) = report.problems.into_iter().find(|problem| problem.severity == Severity::Error) {
        let place = if problem.pointer.is_empty() { String::new() } else { format!(" at {}", problem.pointer) };
        return RecordedItem::Invalid(format!("{}{place}: {}", problem.rule, problem.message));
    }
    match Message::from_json(&json) {
        Ok(Message::Event(event)) => RecordedItem::Event(event),
        Ok(message) => RecordedItem::Message(Box::new(message)),
        Err(error) => RecordedItem::Invalid(error.to_string()),
    }
}
