//! Reads recorded decisions, whether or not a producer uses the store at the same time.

use std::path::{Path, PathBuf};

use aaep::AuditRecord;
use aaep_proto::engine::ResolvedQuestion;
use aaep_proto::id::SessionId;
use aaep_proto::time::Timestamp;
use rusqlite::{Connection, params};

use crate::apply::QuestionRow;
use crate::backup;
use crate::calls;
use crate::error::StoreError;
use crate::schema::{OPEN, SPENT};
use crate::users::UserNumbers;

/// Selects the decisions to read. The default selects all of them.
///
/// ```
/// let all = aaep_store::AuditQuery::default();
/// assert!(all.since.is_none());
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AuditQuery {
    /// Selects decisions made at this time or later.
    pub since: Option<Timestamp>,
    /// Selects decisions of this session.
    pub session: Option<SessionId>,
    /// Selects decisions that were made for this user.
    pub user: Option<String>,
}

/// A recorded decision.
#[derive(Clone, Debug, PartialEq)]
pub struct Decided<'a> {
    /// The user whom it was made for.
    pub user: &'a str,
    /// The decision.
    pub record: AuditRecord,
    /// What became of the permit that it gave.
    pub permit: PermitUse,
}

/// What became of the permission that a decision gave.
///
/// ```
/// assert_ne!(aaep_store::PermitUse::Used, aaep_store::PermitUse::Completed("success".to_owned()));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PermitUse {
    /// There was none, or it was not used.
    Unused,
    /// It was used for a call. Whether the tool completed is not recorded.
    Used,
    /// It was used for a call, and the tool completed with this status.
    Completed(String),
}

/// A read-only view of the decisions in a store.
///
/// ```
/// use aaep_store::{Audit, AuditQuery, Retention, Store};
/// # let dir = tempfile::tempdir()?;
/// # drop(Store::open(dir.path(), Retention::default())?);
/// let audit = Audit::open(dir.path())?;
/// let mut count = 0;
/// audit.read(&AuditQuery::default(), |_decided| count += 1)?;
/// assert_eq!(count, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Audit {
    dir: PathBuf,
    connection: Connection,
}

impl Audit {
    /// Opens the store in a directory for reading.
    pub fn open(dir: &Path) -> Result<Audit, StoreError> {
        Ok(Audit { dir: dir.to_owned(), connection: backup::open_complete(dir)? })
    }

    /// Calls `visit` for each selected decision, oldest first, with the user, and with what became of its permit. Skips damaged records and
    /// returns [`StoreError::Damaged`] after the last one if there were any.
    pub fn read(&self, query: &AuditQuery, mut visit: impl FnMut(Decided<'_>)) -> Result<(), StoreError> {
        let sql = format!(
            "SELECT {} FROM questions WHERE state <> {OPEN} AND decided_at >= ?1 AND (?2 = '' OR session = ?2)
             AND (?3 = 0 OR user = ?3) ORDER BY decided_at, token",
            QuestionRow::COLUMNS
        );
        let wrong = |e: rusqlite::Error| StoreError::sql(&self.dir, &e);
        let mut select = self.connection.prepare(&sql).map_err(wrong)?;
        let since = query.since.map_or(i64::MIN, Timestamp::millis);
        let session = query.session.as_ref().map_or("", SessionId::as_str);
        let users = UserNumbers::read(&self.connection).map_err(wrong)?;
        let user = match &query.user {
            None => 0,
            // Numbers begin at 1, so a user that the store does not know has no decisions.
            Some(name) => users.find(name).unwrap_or(-1),
        };
        let rows = select.query_map(params![since, session, user], QuestionRow::read).map_err(wrong)?;
        let mut damaged = 0;
        for row in rows {
            let row = row.map_err(wrong)?;
            let decided = row.as_ref().and_then(|row| serde_json::from_str::<ResolvedQuestion>(&row.decided).ok());
            match (row, decided) {
                (Some(row), Some(decided)) => visit(Decided {
                    user: users.name(row.user).unwrap_or_default(),
                    record: decided.record,
                    permit: self.permit_use(&row).map_err(wrong)?,
                }),
                _ => damaged += 1,
            }
        }
        if damaged == 0 {
            return Ok(());
        }
        let how = format!("{damaged} records of decisions were changed or truncated and are not shown");
        Err(StoreError::Damaged(self.dir.clone(), how))
    }

    fn permit_use(&self, row: &QuestionRow) -> rusqlite::Result<PermitUse> {
        if row.state != SPENT {
            return Ok(PermitUse::Unused);
        }
        Ok(calls::status(&self.connection, &row.token)?.map_or(PermitUse::Used, PermitUse::Completed))
    }
}
