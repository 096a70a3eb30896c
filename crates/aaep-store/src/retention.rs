//! How much is kept. Old records go a few at a time, between commits, so that nobody waits for it.

use rusqlite::{Connection, OptionalExtension, params};

/// How much is kept: records older than this go, and the oldest when there is more than this.
///
/// ```
/// assert_eq!(aaep_store::Retention::default().days, 30);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Days that events and decisions are kept. Questions that are open and permits that were not used stay.
    pub days: u32,
    /// Bytes that the store may use; above, the oldest events go. Decisions stay.
    pub bytes: u64,
}

impl Default for Retention {
    fn default() -> Retention {
        Retention { days: 30, bytes: 4 << 30 }
    }
}

/// Records that go in one step.
const STEP: i64 = 2000;

/// Pages that are given back to the disk in one step.
const PAGES: i64 = 64;

const DAY_MILLIS: i64 = 86_400_000;

/// One step; answers whether there is more to do.
pub(crate) fn step(connection: &Connection, retention: Retention, now: i64) -> rusqlite::Result<bool> {
    let cutoff = now - i64::from(retention.days).saturating_mul(DAY_MILLIS);
    let oldest = connection
        .prepare_cached("SELECT seq, at FROM log ORDER BY seq LIMIT 1")?
        .query_row([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))
        .optional()?;
    let too_much = used(connection)? > retention.bytes;
    let mut more = false;
    if let Some((seq, at)) = oldest
        && (too_much || at < cutoff)
    {
        let until = seq + STEP;
        let cutoff = if too_much { i64::MAX } else { cutoff };
        let transaction = connection.unchecked_transaction()?;
        let gone =
            transaction.prepare_cached("DELETE FROM log WHERE seq < ? AND at < ?")?.execute(params![until, cutoff])?;
        // A resume point is of use only as long as everything after it is there.
        let first: Option<i64> = transaction.query_row("SELECT min(seq) FROM log", [], |row| row.get(0))?;
        let first = first.unwrap_or(until).min(until);
        transaction.prepare_cached("DELETE FROM sent WHERE seq < ?")?.execute([first])?;
        transaction.commit()?;
        more = gone > 0;
    }
    let old = "DELETE FROM questions WHERE token IN (SELECT token FROM questions INDEXED BY decided_questions
        WHERE state <> 0 AND state <> 2 AND decided_at < ? ORDER BY decided_at LIMIT ?)";
    let gone = connection.prepare_cached(old)?.execute(params![cutoff, STEP])?;
    let free: i64 = connection.pragma_query_value(None, "freelist_count", |row| row.get(0))?;
    if free > PAGES {
        give_back(connection)?;
        more = true;
    }
    Ok(more || gone as i64 == STEP)
}

/// Gives pages back to the disk. Each step of the statement frees one.
fn give_back(connection: &Connection) -> rusqlite::Result<()> {
    let mut vacuum = connection.prepare(&format!("PRAGMA incremental_vacuum({PAGES})"))?;
    let mut rows = vacuum.query([])?;
    while rows.next()?.is_some() {}
    drop(rows);
    // The file gets smaller when the log is written back.
    connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))
}

/// Bytes in use.
pub(crate) fn used(connection: &Connection) -> rusqlite::Result<u64> {
    let number = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let pages = number("page_count")? - number("freelist_count")?;
    Ok(u64::try_from(pages * number("page_size")?).unwrap_or(0))
}
