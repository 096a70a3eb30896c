//! Waiting in tests, with a timeout.

use std::future::Future;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aaep_proto::time::Timestamp;

use crate::PATIENCE;

/// Waits for a future. Panics after [`PATIENCE`].
#[expect(clippy::panic, reason = "a test that cannot go on should stop")]
pub async fn soon<T>(what: &str, waiting: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("waited too long for {what}"))
}

/// Waits until a condition holds. Panics after [`PATIENCE`].
pub async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    soon(what, async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

/// Returns the current time as a timestamp of the protocol.
pub fn now() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX)).to_string()
}
