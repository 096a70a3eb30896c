//! The tokio runtime of commands that do I/O.

use std::io;
use std::num::NonZeroUsize;

/// Builds a multi-threaded runtime.
pub(crate) fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()
}

/// Builds a runtime with this many threads.
pub(crate) fn runtime_with(threads: NonZeroUsize) -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(threads.get()).enable_all().build()
}
