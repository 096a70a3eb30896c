//! The tables and the version of the database, and how it is opened.

use std::path::Path;

use rusqlite::{Connection, OpenFlags};

use crate::completeness::DirectoryContents;
use crate::error::StoreError;
use crate::{calls, permissions, seen, users};

pub(crate) const FILE: &str = "aaep.db";

/// "aaep" as a number: the `application_id` that distinguishes a store from databases of other programs.
const APPLICATION: i64 = 0x6161_6570;

/// The version of the tables, kept as `user_version`.
const VERSION: i64 = 2;

/// The version of stores from before there were users.
const WITHOUT_USERS: i64 = 1;

// States of a question.
pub(crate) const OPEN: i64 = 0;
pub(crate) const SETTLED: i64 = 1;
pub(crate) const PERMITTED: i64 = 2;
pub(crate) const SPENT: i64 = 3;

// Kinds of records in the log.
pub(crate) const EVENT: i64 = 0;
pub(crate) const TEXT: i64 = 1;
pub(crate) const FINISHED: i64 = 2;
pub(crate) const ENDING: i64 = 3;

const TABLES: &str = "
CREATE TABLE meta(key TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE log(seq INTEGER PRIMARY KEY, at INTEGER NOT NULL, kind INTEGER NOT NULL, session TEXT NOT NULL,
    output TEXT NOT NULL, position INTEGER NOT NULL, body TEXT NOT NULL, sum INTEGER NOT NULL);
CREATE INDEX endings ON log(seq) WHERE kind = 3;
CREATE TABLE sent(seq INTEGER PRIMARY KEY, event TEXT NOT NULL, output TEXT NOT NULL, reached INTEGER NOT NULL,
    sum INTEGER NOT NULL);
CREATE INDEX sent_event ON sent(event);
CREATE TABLE holes(seq INTEGER PRIMARY KEY);
CREATE TABLE sessions(id TEXT PRIMARY KEY, first INTEGER NOT NULL, body TEXT NOT NULL, sum INTEGER NOT NULL)
    WITHOUT ROWID;
CREATE TABLE questions(token TEXT PRIMARY KEY, session TEXT NOT NULL, state INTEGER NOT NULL,
    decided_at INTEGER NOT NULL, asked TEXT NOT NULL, decided TEXT NOT NULL, sum INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX active_questions ON questions(state) WHERE state IN (0, 2);
CREATE INDEX questions_of_session ON questions(session);
CREATE INDEX decided_questions ON questions(decided_at, token) WHERE state <> 0;
CREATE TABLE subscriptions(id TEXT PRIMARY KEY, opened INTEGER NOT NULL, held INTEGER NOT NULL,
    changed INTEGER NOT NULL, body TEXT NOT NULL, sum INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO meta VALUES('last', 0), ('active', 0);
";

/// Opens the database for writing. Creates the tables only if the directory holds no store yet.
pub(crate) fn open(dir: &Path, contents: DirectoryContents) -> Result<Connection, StoreError> {
    let wrong = |e: &rusqlite::Error| StoreError::sql(dir, e);
    let path = dir.join(FILE);
    permissions::open(&path).map_err(|e| StoreError::io(dir, &e))?;
    let connection = Connection::open(&path).map_err(|e| wrong(&e))?;
    let number = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let version = number("user_version").map_err(|e| wrong(&e))?;
    let application = number("application_id").map_err(|e| wrong(&e))?;
    let empty = number("schema_version").map_err(|e| wrong(&e))? == 0;
    match (empty, application == APPLICATION, version) {
        (true, ..) if contents != DirectoryContents::Nothing => return Err(no_tables(dir)),
        (true, ..) => create(&connection).map_err(|e| wrong(&e))?,
        (false, true, VERSION) => {}
        (false, true, WITHOUT_USERS) => add_users(&connection).map_err(|e| wrong(&e))?,
        (false, true, version) if version > VERSION => return Err(StoreError::Newer(dir.to_owned())),
        (false, true, _) => return Err(StoreError::Damaged(dir.to_owned(), "its version makes no sense".to_owned())),
        (false, false, _) => return Err(StoreError::Foreign(dir.to_owned())),
    }
    tune(&connection).map_err(|e| wrong(&e))?;
    Ok(connection)
}

/// Returns the error for a database whose tables are in a write-ahead log that was not copied with it.
fn no_tables(dir: &Path) -> StoreError {
    StoreError::Partial(dir.to_owned(), "the file aaep.db has no tables".to_owned())
}

/// Sets the pragmas. `synchronous = FULL` syncs the log at every commit, so that acknowledged records survive a power
/// failure and not only a crash of the process.
fn tune(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "journal_size_limit", 64 << 20)?;
    connection.pragma_update(None, "temp_store", "MEMORY")
}

fn create(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.execute_batch(&format!(
        "BEGIN; {TABLES} {} {} {} PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {VERSION}; COMMIT;",
        seen::TABLE,
        calls::TABLE,
        users::add_to_schema(),
    ))
}

/// Adds users to a store from before there were any. Everything in it is of the local user.
fn add_users(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(&format!(
        "BEGIN IMMEDIATE; {} {} {} PRAGMA user_version = {VERSION}; COMMIT;",
        seen::TABLE,
        calls::TABLE,
        users::add_to_schema(),
    ))
}

/// Opens the database for reading. Another connection may write at the same time.
pub(crate) fn open_to_read(dir: &Path) -> Result<Connection, StoreError> {
    let wrong = |e: &rusqlite::Error| StoreError::sql(dir, e);
    let connection =
        Connection::open_with_flags(dir.join(FILE), OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)
            .map_err(|e| wrong(&e))?;
    let number = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let application = number("application_id").map_err(|e| wrong(&e))?;
    match (application == APPLICATION, number("user_version").map_err(|e| wrong(&e))?) {
        (true, VERSION) => {}
        (true, WITHOUT_USERS) => return Err(StoreError::Outdated(dir.to_owned())),
        (true, version) if version > VERSION => return Err(StoreError::Newer(dir.to_owned())),
        (false, 0) if number("schema_version").map_err(|e| wrong(&e))? == 0 => return Err(no_tables(dir)),
        _ => return Err(StoreError::Foreign(dir.to_owned())),
    }
    connection.busy_timeout(std::time::Duration::from_secs(5)).map_err(|e| wrong(&e))?;
    Ok(connection)
}
