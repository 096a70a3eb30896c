//! Copies a store consistently, also while a server uses it.

use std::path::Path;

use rusqlite::Connection;

use crate::completeness::{self, DirectoryContents};
use crate::error::StoreError;
use crate::high_water::{self, HighWaterFile};
use crate::schema::{self, FILE};
use crate::{check, permissions, read};

/// The contents of a backup, as returned by [`backup`].
///
/// ```
/// use aaep_store::{Retention, Store, backup};
/// # let work = tempfile::tempdir()?;
/// # let (dir, copy) = (work.path().join("data"), work.path().join("copy"));
/// let (store, _) = Store::open_single(&dir, Retention::default())?;
/// assert_eq!(backup(&dir, &copy)?.decisions, 0);
/// # drop(store);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backup {
    /// How many decisions it holds.
    pub decisions: u64,
    /// The size of its database file, in bytes.
    pub bytes: u64,
}

/// Copies the store in a directory to another directory, which must be new or empty. The copy is a snapshot; it is checked
/// and synced before this returns. [`Store::open`](crate::Store::open) refuses a copy that was not finished.
pub fn backup(from: &Path, to: &Path) -> Result<Backup, StoreError> {
    let source = open_complete(from)?;
    let existed = to.exists();
    if std::fs::read_dir(to).is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(StoreError::Occupied(to.to_owned()));
    }
    permissions::directory(to)?;
    copy(from, &source, to).inspect_err(|_| {
        // Leftover files would make the next attempt fail.
        for name in [FILE, high_water::FILE] {
            let _ = std::fs::remove_file(to.join(name));
        }
        if !existed {
            let _ = std::fs::remove_dir(to);
        }
    })
}

/// Opens a store for reading and checks that it is complete. A server may write to it at the same time.
pub(crate) fn open_complete(dir: &Path) -> Result<Connection, StoreError> {
    // The high-water mark is read first: the database can only grow after that.
    let contents = completeness::contents(dir)?;
    if contents == DirectoryContents::Nothing && !dir.join(FILE).exists() {
        return Err(StoreError::Unusable(dir.to_owned(), "there is no store in it".to_owned()));
    }
    let connection = schema::open_to_read(dir)?;
    completeness::check_reach(dir, contents, completeness::last_record(dir, &connection)?)?;
    Ok(connection)
}

fn copy(from: &Path, source: &Connection, to: &Path) -> Result<Backup, StoreError> {
    let failed = |e: std::io::Error| StoreError::io(to, &e);
    let path = to.join(FILE);
    let file = permissions::open(&path).map_err(failed)?;
    let name = path.to_str().ok_or_else(|| StoreError::Unusable(to.to_owned(), "its name is not UTF-8".to_owned()))?;
    // `VACUUM INTO` is one read transaction: it copies a snapshot that includes the write-ahead log.
    source.execute("VACUUM INTO ?", [name]).map_err(|e| StoreError::sql(from, &e))?;
    file.sync_all().map_err(failed)?;
    // Damage is reported now and not when the copy is needed.
    let copied = schema::open_to_read(to)?;
    let of_source = |error| match error {
        StoreError::Damaged(_, how) => StoreError::Damaged(from.to_owned(), how),
        other => other,
    };
    check::every_page(to, &copied).map_err(of_source)?;
    check::every_decision(to, &copied).map_err(of_source)?;
    read::load(to, &copied).map_err(of_source)?;
    let last = completeness::last_record(to, &copied)?;
    let decisions = copied.query_row("SELECT count(*) FROM questions WHERE state <> 0", [], |row| row.get::<_, i64>(0));
    let decisions = decisions.map_err(|e| StoreError::sql(to, &e))?;
    drop(copied);
    // The high-water mark is written last: a copy without it is refused.
    let mut mark = HighWaterFile::open(to).map_err(failed)?;
    mark.set(u64::try_from(last).unwrap_or(0)).and_then(|()| mark.sync(to)).map_err(failed)?;
    let bytes = file.metadata().map_err(failed)?.len();
    Ok(Backup { decisions: u64::try_from(decisions).unwrap_or(0), bytes })
}
