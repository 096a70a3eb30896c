//! What stops a command, how a child process is told, and how its end becomes an exit code. Each system has its own way.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(crate) use unix::{ForwardedSignals, exit_code, forward, separate_from_terminal, shutdown_signal};
#[cfg(windows)]
pub(crate) use windows::{ForwardedSignals, exit_code, forward, separate_from_terminal, shutdown_signal};
