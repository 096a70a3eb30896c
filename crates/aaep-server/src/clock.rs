//! The system clock.

use std::time::{SystemTime, UNIX_EPOCH};

use aaep_proto::time::Timestamp;

/// Returns the current time, or 1970 for a clock that is set before it.
pub(crate) fn system_time() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
