//! What the command says to people.

use std::fmt::{self, Display, Write as _};
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

pub(crate) use aaep_listen::Escaped;
use aaep_listen::is_unsafe_to_print;

/// One line on standard error.
pub(crate) fn complain(message: impl Display) {
    // Nobody is left to tell when standard error is closed.
    let _ = writeln!(std::io::stderr(), "aaep: {}", Escaped(&message.to_string()));
}

/// A JSON document, safe to print: characters that mean something to a terminal or turn the order of the letters are
/// written as JSON writes others. They can stand in strings only, so the document stays the same.
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

/// A writer that outlives its reader: when nobody reads any more it goes on in silence, so that
/// the exit code still tells the whole truth.
pub(crate) struct IgnoreBrokenPipe<W> {
    inner: W,
    closed: bool,
}

impl<W: Write> IgnoreBrokenPipe<W> {
    pub(crate) fn new(inner: W) -> IgnoreBrokenPipe<W> {
        IgnoreBrokenPipe { inner, closed: false }
    }

    fn unless_closed<T>(&mut self, silent: T, work: impl FnOnce(&mut W) -> io::Result<T>) -> io::Result<T> {
        if self.closed {
            return Ok(silent);
        }
        match work(&mut self.inner) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.closed = true;
                Ok(silent)
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

/// Tells how long work is going, on a terminal only: one plain line after a second, then one every
/// ten. No spinner, no redraw: a screen reader reads each line once.
pub(crate) struct Progress {
    started: Instant,
    next: Duration,
    shown: bool,
}

impl Progress {
    pub(crate) fn start() -> Progress {
        Progress { started: Instant::now(), next: Duration::from_secs(1), shown: std::io::stderr().is_terminal() }
    }

    /// Says where the work stands, if it is time to.
    pub(crate) fn tick(&mut self, describe: impl FnOnce() -> String) {
        if self.shown && self.started.elapsed() >= self.next {
            self.next = self.started.elapsed() + Duration::from_secs(10);
            let _ = writeln!(std::io::stderr(), "{}", describe());
        }
    }
}

/// `1 document`, `2 documents`.
pub(crate) fn count(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn nothing_that_is_printed_means_something_to_a_terminal() {
        let all: String = (0..0x3000).filter_map(char::from_u32).collect();
        assert!(!Escaped(&all).to_string().contains(is_unsafe_to_print));
        let object = json!({"text": all, "\u{9b}2J": ["\u{202e}"]});
        let printed = EscapedJson(&object).to_string();
        assert!(!printed.contains(is_unsafe_to_print));
        assert_eq!(serde_json::from_str::<Value>(&printed).unwrap(), object);
    }
}
