//! Reading decisions, beside a producer that runs or without one.

use std::path::{Path, PathBuf};

use aaep::AuditRecord;
use aaep_proto::engine::ResolvedQuestion;
use aaep_proto::id::SessionId;
use aaep_proto::time::Timestamp;
use rusqlite::{Connection, params};

use crate::apply::QuestionRow;
use crate::backup;
use crate::error::StoreError;
use crate::schema::{OPEN, SPENT};

/// Which decisions to read.
///
/// ```
/// let all = aaep_store::AuditQuery::default();
/// assert!(all.since.is_none());
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AuditQuery {
    /// Those of this time and later.
    pub since: Option<Timestamp>,
    /// Those of this session.
    pub session: Option<SessionId>,
}

/// The audit trail of a store. It reads only.
///
/// ```
/// use aaep_store::{Audit, AuditQuery, Retention, Store};
/// # let dir = tempfile::tempdir()?;
/// # drop(Store::open(dir.path(), Retention::default())?);
/// let audit = Audit::open(dir.path())?;
/// let mut count = 0;
/// audit.read(&AuditQuery::default(), |_record, _used| count += 1)?;
/// assert_eq!(count, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Audit {
    dir: PathBuf,
    connection: Connection,
}

impl Audit {
    /// Opens the trail in a directory.
    pub fn open(dir: &Path) -> Result<Audit, StoreError> {
        Ok(Audit { dir: dir.to_owned(), connection: backup::open_whole(dir)? })
    }

    /// Hands each decision to the caller, the oldest first, with whether its permit was used. Damaged ones are left out;
    /// that there are some is told at the end, as an error.
    pub fn read(&self, query: &AuditQuery, mut take: impl FnMut(AuditRecord, bool)) -> Result<(), StoreError> {
        let sql = format!(
            "SELECT {} FROM questions WHERE state <> {OPEN} AND decided_at >= ?1 AND (?2 = '' OR session = ?2)
             ORDER BY decided_at, token",
            QuestionRow::COLUMNS
        );
        let wrong = |e: rusqlite::Error| StoreError::sql(&self.dir, &e);
        let mut select = self.connection.prepare(&sql).map_err(wrong)?;
        let since = query.since.map_or(i64::MIN, Timestamp::millis);
        let session = query.session.as_ref().map_or("", SessionId::as_str);
        let rows = select.query_map(params![since, session], QuestionRow::read).map_err(wrong)?;
        let mut damaged = 0;
        for row in rows {
            let row = row.map_err(wrong)?;
            let decided = row.as_ref().and_then(|row| serde_json::from_str::<ResolvedQuestion>(&row.decided).ok());
            match (row, decided) {
                (Some(row), Some(decided)) => take(decided.record, row.state == SPENT),
                _ => damaged += 1,
            }
        }
        if damaged == 0 {
            return Ok(());
        }
        let how = format!("records of decisions that were changed or cut and are not shown: {damaged}");
        Err(StoreError::Damaged(self.dir.clone(), how))
    }
}
