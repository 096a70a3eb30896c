//! Output for people: errors, escaped text, progress.

use std::fmt::{self, Display, Write as _};
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::time::{Duration, Instant};

pub(crate) use aaep_listen::Escaped;
use aaep_listen::is_unsafe_to_print;

use crate::CommandStatus;
use crate::terminal::{width, wrap};

/// Prints one line on standard output, wrapped at words on a terminal.
pub(crate) fn print_line(line: &str) -> io::Result<()> {
    writeln!(io::stdout(), "{}", wrap(&Escaped(line).to_string(), width(io::stdout())))
}

/// Prints one line on standard error, wrapped at words on a terminal.
pub(crate) fn print_error(message: impl Display) {
    // If standard error is closed, nobody reads it.
    let line = format!("aaep: {}", Escaped(&message.to_string()));
    let _ = writeln!(io::stderr(), "{}", wrap(&line, width(io::stderr())));
}

/// Prints an error and returns [`CommandStatus::Failed`].
pub(crate) fn fail(message: impl Display) -> CommandStatus {
    print_error(message);
    CommandStatus::Failed
}

/// Prints an error about a file and returns [`CommandStatus::Failed`].
pub(crate) fn fail_at(path: &Path, error: impl Display) -> CommandStatus {
    fail(format_args!("{} {error}", path.display()))
}

/// A JSON document, safe to print: unsafe characters are written as JSON escapes. They occur in strings only, so the
/// value of the document stays the same.
pub(crate) struct EscapedJson<T>(pub(crate) T);

impl<T: Display> Display for EscapedJson<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.to_string().chars() {
            if is_unsafe_to_print(c) {
                write!(f, "\\u{:04x}", c as u32)?;
            } else {
                f.write_char(c)?;
            }
        }
        Ok(())
    }
}

/// A writer that ignores broken pipes, so that the exit code is right even if nobody reads all of the output.
pub(crate) struct IgnoreBrokenPipe<W> {
    inner: W,
    closed: bool,
}

impl<W: Write> IgnoreBrokenPipe<W> {
    pub(crate) fn new(inner: W) -> IgnoreBrokenPipe<W> {
        IgnoreBrokenPipe { inner, closed: false }
    }

    fn unless_closed<T>(&mut self, if_closed: T, work: impl FnOnce(&mut W) -> io::Result<T>) -> io::Result<T> {
        if self.closed {
            return Ok(if_closed);
        }
        match work(&mut self.inner) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.closed = true;
                Ok(if_closed)
            }
            result => result,
        }
    }
}

impl<W: Write> Write for IgnoreBrokenPipe<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.unless_closed(bytes.len(), |inner| inner.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.unless_closed((), Write::flush)
    }
}

/// Reports progress on a terminal: one plain line after a second, then one every ten seconds. There is no spinner and
/// no redraw, because a screen reader reads each line once.
pub(crate) struct ProgressReporter {
    started: Instant,
    next: Duration,
    enabled: bool,
}

impl ProgressReporter {
    pub(crate) fn start() -> ProgressReporter {
        ProgressReporter {
            started: Instant::now(),
            next: Duration::from_secs(1),
            enabled: std::io::stderr().is_terminal(),
        }
    }

    /// Prints a line if one is due.
    pub(crate) fn tick(&mut self, describe: impl FnOnce() -> String) {
        if self.enabled && self.started.elapsed() >= self.next {
            self.next = self.started.elapsed() + Duration::from_secs(10);
            let _ = writeln!(std::io::stderr(), "{}", describe());
        }
    }
}

/// Formats a number with a noun: `1 document`, `2 documents`.
pub(crate) fn count(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn escaped_text_contains_no_unsafe_characters_and_json_keeps_its_value() {
        let all: String = (0..0x3000).filter_map(char::from_u32).collect();
        assert!(!Escaped(&all).to_string().contains(is_unsafe_to_print));
        let object = json!({"text": all, "\u{9b}2J": ["\u{202e}"]});
        let printed = EscapedJson(&object).to_string();
        assert!(!printed.contains(is_unsafe_to_print));
        assert_eq!(serde_json::from_str::<Value>(&printed).unwrap(), object);
    }
}
