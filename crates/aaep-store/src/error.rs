//! Errors of the store.

use std::fmt;
use std::path::{Path, PathBuf};

/// Why a store cannot be used. The message says what to do.
///
/// ```
/// use aaep_store::StoreError;
/// let error = StoreError::InUse("/var/lib/aaep".into());
/// assert!(error.to_string().contains("another process"));
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum StoreError {
    /// Another process uses the directory.
    InUse(PathBuf),
    /// The store was written by a later version of this program.
    Newer(PathBuf),
    /// The store was written by an earlier version of this program, and no server has opened it since.
    Outdated(PathBuf),
    /// The directory holds the database of another program.
    Foreign(PathBuf),
    /// The store is damaged. The text says how.
    Damaged(PathBuf, String),
    /// A part of the store is missing. The text says which.
    Partial(PathBuf, String),
    /// Other users may read or write the store.
    Exposed {
        /// The directory of the store.
        dir: PathBuf,
        /// The directory, or the file in it, that others may read or write.
        path: PathBuf,
        /// The permission bits of `path`.
        mode: u32,
    },
    /// The directory for a backup is not empty.
    Occupied(PathBuf),
    /// The directory or a file in it cannot be read or written. The text says why.
    Unusable(PathBuf, String),
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreError::InUse(dir) => {
                write!(f, "{} is used by another process: stop it, or use another directory", dir.display())
            }
            StoreError::Newer(dir) => {
                write!(f, "{} was written by a later version of this program: use that version", dir.display())
            }
            StoreError::Outdated(dir) => {
                let dir = dir.display();
                write!(
                    f,
                    "{dir} was written by an earlier version: start a server once with --data {dir}, then try again"
                )
            }
            StoreError::Foreign(dir) => {
                write!(f, "{} holds another program's data: use another directory", dir.display())
            }
            StoreError::Damaged(dir, how) => write!(
                f,
                "{} is damaged ({how}) and is not used: put a backup in its place, or move it away to start without it",
                dir.display()
            ),
            StoreError::Partial(dir, how) => write!(
                f,
                "{} holds only a part of a store ({how}) and is not used: copy a store with `aaep backup DIR TO`, put a \
                 whole copy in its place, or move it away to start without it",
                dir.display()
            ),
            StoreError::Exposed { dir, path, mode } => write!(
                f,
                "{} is open to other users (mode {mode:03o}), and it holds what users were told and decided; close it \
                 with: chmod -R go= {}",
                path.display(),
                dir.display()
            ),
            StoreError::Occupied(dir) => {
                write!(f, "{} is not empty: name a directory that is new or empty", dir.display())
            }
            StoreError::Unusable(dir, how) => write!(f, "{} cannot be used: {how}", dir.display()),
        }
    }
}

impl std::error::Error for StoreError {}

impl StoreError {
    pub(crate) fn changed_decision(dir: &Path) -> StoreError {
        StoreError::Damaged(dir.to_owned(), "the record of a decision was changed or truncated".to_owned())
    }

    pub(crate) fn io(dir: &Path, error: &std::io::Error) -> StoreError {
        let hint = match error.kind() {
            std::io::ErrorKind::ReadOnlyFilesystem | std::io::ErrorKind::PermissionDenied => {
                "; make it writable for this user"
            }
            std::io::ErrorKind::StorageFull => "; make room on the disk",
            _ => "",
        };
        StoreError::Unusable(dir.to_owned(), format!("{error}{hint}"))
    }

    pub(crate) fn sql(dir: &Path, error: &rusqlite::Error) -> StoreError {
        use rusqlite::ErrorCode::*;
        let hint = match error.sqlite_error_code() {
            Some(DatabaseCorrupt | NotADatabase) => return StoreError::Damaged(dir.to_owned(), error.to_string()),
            Some(ReadOnly | PermissionDenied | CannotOpen) => "; make it writable for this user",
            Some(DiskFull) => "; make room on the disk",
            _ => "",
        };
        StoreError::Unusable(dir.to_owned(), format!("{error}{hint}"))
    }
}
