//! A recording, read from its beginning as often as it is needed, a document at a time.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Cursor, Read};
use std::path::{Path, PathBuf};

use aaep_proto::framing::{AutoDecoder, Decoded};
use aaep_proto::json::Json;
use aaep_proto::message::{Event, Message};
use aaep_proto::{Severity, Validator, limits};

/// What comes from a pipe can be read once only, so it is kept. This much of it is.
const KEPT: u64 = 64 * 1024 * 1024;

/// One document of a recording.
pub(super) enum Entry {
    /// To be told.
    Event(Box<Event>),
    /// A reply or another message: known of, but nothing that a producer says.
    Other(Box<Message>),
    /// What cannot be used, and why.
    Bad(String),
}

/// Where a recording is.
pub(super) enum Recording {
    File(PathBuf),
    Kept(Vec<u8>),
}

impl Recording {
    /// Finds it, or says what is wrong with it.
    pub(super) fn open(path: &Path) -> Result<Recording, String> {
        if path.as_os_str() == "-" {
            return keep(io::stdin().lock());
        }
        let file = File::open(path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => "does not exist".to_owned(),
            io::ErrorKind::PermissionDenied => "may not be read; check its permissions".to_owned(),
            _ => format!("cannot be opened: {error}"),
        })?;
        match file.metadata() {
            Ok(metadata) if metadata.is_dir() => Err("is a directory; name a file".to_owned()),
            Ok(metadata) if metadata.is_file() => Ok(Recording::File(path.to_owned())),
            _ => keep(file),
        }
    }

    /// Reads it from its beginning.
    pub(super) fn read(&self) -> io::Result<Reader<'_>> {
        let input: Box<dyn Read + Send + '_> = match self {
            Recording::File(path) => Box::new(File::open(path)?),
            Recording::Kept(bytes) => Box::new(Cursor::new(bytes)),
        };
        let mixed = AutoDecoder::new(limits::MESSAGE_BYTES);
        Ok(Reader {
            input,
            mixed,
            validator: Validator::new(),
            buffer: vec![0; 64 * 1024],
            found: VecDeque::new(),
            ended: false,
        })
    }
}

fn keep(input: impl Read) -> Result<Recording, String> {
    let mut bytes = Vec::new();
    input.take(KEPT + 1).read_to_end(&mut bytes).map_err(|error| format!("cannot be read: {error}"))?;
    if bytes.len() as u64 > KEPT {
        return Err(format!("is no file and has more than {} MiB; save it as a file first", KEPT >> 20));
    }
    Ok(Recording::Kept(bytes))
}

/// Reads documents, with the lines they begin on.
pub(super) struct Reader<'r> {
    input: Box<dyn Read + Send + 'r>,
    mixed: AutoDecoder,
    validator: Validator,
    buffer: Vec<u8>,
    found: VecDeque<(u64, Entry)>,
    ended: bool,
}

impl Reader<'_> {
    /// The next document; nothing at the end.
    pub(super) fn next(&mut self) -> io::Result<Option<(u64, Entry)>> {
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
            let sink = |line, piece: Decoded<'_>| found.push_back((line, judge(validator, piece)));
            if length == 0 {
                self.ended = true;
                self.mixed.finish(sink);
            } else {
                self.mixed.push(&self.buffer[..length], sink);
            }
        }
    }
}

/// What a document is worth. Only what keeps the rules is told again.
fn judge(validator: &Validator, piece: Decoded<'_>) -> Entry {
    let bytes = match piece {
        Decoded::Document(bytes) => bytes,
        Decoded::TooLong(length) => {
            return Entry::Bad(format!(
                "{length} bytes are more than the {} that one event may have.",
                limits::MESSAGE_BYTES
            ));
        }
        Decoded::Malformed(message) => return Entry::Bad(format!("This is not JSON: {message}.")),
    };
    let json = match Json::parse(bytes) {
        Ok(json) => json,
        Err(error) => return Entry::Bad(format!("This is not JSON: {error}.")),
    };
    let report = validator.check_json(&json, Some(bytes.len()));
    if let Some(problem) = report.problems.into_iter().find(|problem| problem.severity == Severity::Error) {
        let place = if problem.pointer.is_empty() { String::new() } else { format!(" at {}", problem.pointer) };
        return Entry::Bad(format!("{}{place}: {}", problem.rule, problem.message));
    }
    match Message::from_json(&json) {
        Ok(Message::Event(event)) => Entry::Event(event),
        Ok(message) => Entry::Other(Box::new(message)),
        Err(error) => Entry::Bad(error.to_string()),
    }
}
