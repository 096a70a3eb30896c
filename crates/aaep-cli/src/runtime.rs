//! The tokio runtime of commands that do I/O.

use std::io;

/// Builds a multi-threaded runtime.
pub(crate) fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()
}
