//! Checks that a directory holds a complete store. The database file alone is not one: the last records are in the
//! write-ahead log beside it.

use std::path::Path;

use rusqlite::Connection;

use crate::error::StoreError;
use crate::high_water::Reached;
use crate::schema::FILE;

/// What a directory holds, according to its high-water file and the other files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DirectoryContents {
    /// No store yet, or one that was being created when the process ended.
    Nothing,
    /// A store whose database must reach this record.
    Store(u64),
}

/// Reads the high-water file and checks which files exist.
pub(crate) fn contents(dir: &Path) -> Result<DirectoryContents, StoreError> {
    let reached = Reached::read(dir).map_err(|e| StoreError::io(dir, &e))?;
    let partial = |how: &str| Err(StoreError::Partial(dir.to_owned(), how.to_owned()));
    match (reached, dir.join(FILE).exists()) {
        (Reached::Missing, false) | (Reached::Record(0), _) => Ok(DirectoryContents::Nothing),
        (Reached::Missing, true) => partial("the file mark is missing"),
        (Reached::Damaged, _) => Err(StoreError::Damaged(dir.to_owned(), "the file mark cannot be read".to_owned())),
        (Reached::Record(_), false) => partial("the file aaep.db is missing"),
        (Reached::Record(reached), true) => Ok(DirectoryContents::Store(reached)),
    }
}

/// Checks that the database has all records up to the high-water mark.
pub(crate) fn check_reach(dir: &Path, contents: DirectoryContents, last: i64) -> Result<(), StoreError> {
    match contents {
        DirectoryContents::Store(reached) if reached > u64::try_from(last).unwrap_or(0) => {
            Err(StoreError::Partial(dir.to_owned(), "its last records are missing".to_owned()))
        }
        _ => Ok(()),
    }
}

/// Returns the number of the last record in the database.
pub(crate) fn last_record(dir: &Path, connection: &Connection) -> Result<i64, StoreError> {
    let last = connection.query_row("SELECT value FROM meta WHERE key = 'last'", [], |row| row.get(0));
    last.map_err(|e| StoreError::sql(dir, &e))
}
