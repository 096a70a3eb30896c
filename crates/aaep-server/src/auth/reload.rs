//! Values that are reloaded when their file changes.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use crate::config::ConfigError;

type Loader<T> = Box<dyn Fn(&Path) -> Result<T, String> + Send + Sync>;

/// A value that is read from a file and reloaded when the file changes.
pub(crate) struct ReloadedFile<T> {
    /// The setting that names the file.
    setting: &'static str,
    path: PathBuf,
    read: Loader<T>,
    state: Mutex<ReloadState<T>>,
}

struct ReloadState<T> {
    value: Arc<T>,
    /// The version of the file that was read last, whether it could be used or not.
    read: FileFingerprint,
    /// The version of the file at the last check.
    seen: FileFingerprint,
}

/// Identifies a version of a file.
#[derive(Clone, Debug, Default, PartialEq)]
struct FileFingerprint {
    modified: Option<SystemTime>,
    length: u64,
    /// Inode and time of its last change, where the system has them.
    inode: (u64, i64, i64),
}

impl FileFingerprint {
    fn of(path: &Path) -> FileFingerprint {
        let Ok(metadata) = std::fs::metadata(path) else { return FileFingerprint::default() };
        #[cfg(unix)]
        let inode = {
            use std::os::unix::fs::MetadataExt;
            (metadata.ino(), metadata.ctime(), metadata.ctime_nsec())
        };
        #[cfg(not(unix))]
        let inode = (0, 0, 0);
        FileFingerprint { modified: metadata.modified().ok(), length: metadata.len(), inode }
    }
}

impl<T> ReloadedFile<T> {
    pub(crate) fn load(
        setting: &'static str,
        path: &Path,
        read: impl Fn(&Path) -> Result<T, String> + Send + Sync + 'static,
    ) -> Result<ReloadedFile<T>, ConfigError> {
        let stamp = FileFingerprint::of(path);
        let value = Arc::new(read(path).map_err(|e| ConfigError(format!("{setting}: {} {e}", path.display())))?);
        let state = Mutex::new(ReloadState { value, read: stamp.clone(), seen: stamp });
        Ok(ReloadedFile { setting, path: path.to_owned(), read: Box::new(read), state })
    }

    /// Returns the value in use.
    pub(crate) fn get(&self) -> Arc<T> {
        self.lock().value.clone()
    }

    /// Reloads the file if it has changed and is completely written: the same version was seen in two checks. Returns
    /// whether the value changed. If the file cannot be used, the last good value stays in use.
    pub(super) fn refresh(&self) -> bool {
        let now = FileFingerprint::of(&self.path);
        let mut state = self.lock();
        let settled = std::mem::replace(&mut state.seen, now.clone()) == now;
        if state.read == now || !settled {
            return false;
        }
        state.read = now;
        drop(state);
        let (setting, path) = (self.setting, self.path.display());
        match (self.read)(&self.path) {
            Ok(value) => {
                self.lock().value = Arc::new(value);
                tracing::info!(setting, %path, "reloaded a changed file");
                true
            }
            Err(error) => {
                tracing::error!(setting, %path, %error, "cannot use a changed file; keeping the previous contents");
                false
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, ReloadState<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> fmt::Debug for ReloadedFile<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FromFile").field("path", &self.path).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(path: &Path) -> Result<u32, String> {
        std::fs::read_to_string(path).map_err(|e| e.to_string())?.trim().parse().map_err(|_| "no number".to_owned())
    }

    #[test]
    fn changed_file_is_loaded_when_complete_and_invalid_file_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("number");
        std::fs::write(&path, "1").unwrap();
        let file = ReloadedFile::load("test", &path, number).unwrap();
        assert!(!file.refresh());
        std::fs::write(&path, "22").unwrap();
        assert!(!file.refresh(), "it may still be written to");
        assert!(file.refresh());
        assert_eq!((*file.get(), file.refresh()), (22, false));
        for wrong in ["", "not a number"] {
            std::fs::write(&path, wrong).unwrap();
            assert!(!file.refresh() && !file.refresh());
            assert_eq!(*file.get(), 22, "{wrong:?}");
        }
        std::fs::remove_file(&path).unwrap();
        assert!(!file.refresh() && !file.refresh());
        assert_eq!(*file.get(), 22);
        std::fs::write(&path, "333").unwrap();
        assert!(!file.refresh() && file.refresh());
        assert_eq!(*file.get(), 333);
    }
}
