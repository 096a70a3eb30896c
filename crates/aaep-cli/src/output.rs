//! What the command says to people.

use std::fmt::Display;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// One line on standard error.
pub(crate) fn complain(message: impl Display) {
    // Nobody is left to tell when standard error is closed.
    let _ = writeln!(std::io::stderr(), "aaep: {message}");
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
