//! Logging to standard error; standard output is for results.

use std::io;

use aaep_server::LogConfig;
use tracing_subscriber::EnvFilter;

/// Returns an error that says what to do if the filter cannot be used.
pub(crate) fn check_filter(log: &LogConfig) -> Result<(), String> {
    let result = EnvFilter::try_new(&log.filter);
    result
        .map(|_| ())
        .map_err(|error| format!("log.filter cannot be {:?}: {error}; see: aaep serve --help", log.filter))
}

/// Installs the global logger. The filter was checked; an invalid one is replaced by `info`.
pub(crate) fn start_logging(log: &LogConfig) {
    let filter = EnvFilter::try_new(&log.filter).unwrap_or_else(|_| EnvFilter::new("info"));
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).with_ansi(false);
    // This fails only if a logger is installed already, and each command calls this once.
    let _ = if log.json { logs.json().try_init() } else { logs.try_init() };
}
