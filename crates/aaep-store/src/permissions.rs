//! Permissions of the store. It holds texts, questions and decisions, so only its owner may use the directory and the
//! files, whatever the umask is. A store that others can open is refused.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

use crate::error::StoreError;
use crate::schema::FILE;

/// What SQLite appends to the name of the database file for each file that it may create.
const SUFFIXES: [&str; 4] = ["-wal", "-shm", "-journal", ""];

/// Creates the directory for its owner only, or checks that it and the files in it are private.
pub(crate) fn directory(dir: &Path) -> Result<(), StoreError> {
    let failed = |e: io::Error| StoreError::io(dir, &e);
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(dir).map_err(failed)?;
    close_if_empty(dir).map_err(failed)?;
    check(dir, dir, &std::fs::metadata(dir).map_err(failed)?)?;
    let database = SUFFIXES.map(|suffix| format!("{FILE}{suffix}"));
    for name in database.iter().map(String::as_str).chain(["lock", "mark"]) {
        match std::fs::metadata(dir.join(name)) {
            Ok(metadata) => check(dir, &dir.join(name), &metadata)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error)),
        }
    }
    Ok(())
}

/// Opens a file for reading and writing; a new file is for its owner only. SQLite gives its log the mode of the database.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Syncs the directory, so that the names of new files survive a loss of power.
pub(crate) fn sync_directory(dir: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(dir)?.sync_all() } else { Ok(()) }
}

/// Restricts an empty directory to its owner, if only the owner can write to it.
#[cfg(unix)]
fn close_if_empty(dir: &Path) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let metadata = std::fs::metadata(dir)?;
    let ours = metadata.uid() == rustix::process::geteuid().as_raw() && metadata.mode() & 0o7022 == 0;
    if ours && metadata.mode() & 0o077 != 0 && std::fs::read_dir(dir)?.next().is_none() {
        std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o700))?;
    }
    Ok(())
}

#[cfg(not(unix))]
fn close_if_empty(_: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(unix)]
fn check(dir: &Path, path: &Path, metadata: &std::fs::Metadata) -> Result<(), StoreError> {
    use std::os::unix::fs::MetadataExt;
    let mode = metadata.mode() & 0o777;
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        let how = format!("{} belongs to another user; run as that user, or use another directory", path.display());
        return Err(StoreError::Unusable(dir.to_owned(), how));
    }
    if mode & 0o077 != 0 {
        return Err(StoreError::Exposed { dir: dir.to_owned(), path: path.to_owned(), mode });
    }
    Ok(())
}

#[cfg(not(unix))]
fn check(_: &Path, _: &Path, _: &std::fs::Metadata) -> Result<(), StoreError> {
    Ok(())
}

#[cfg(all(test, unix))]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::{Retention, Store};

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn directory_and_every_file_in_it_are_for_their_owner_only() {
        let work = tempfile::tempdir().unwrap();
        let dir = work.path().join("new/data");
        let (store, _) = Store::open_single(&dir, Retention::default()).unwrap();
        assert_eq!(mode(&dir), 0o700);
        let files: Vec<_> = std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(files.iter().any(|path| path.ends_with("aaep.db-wal")), "{files:?}");
        for file in files {
            assert_eq!(mode(&file), 0o600, "{}", file.display());
        }
        drop(store);
    }

    #[test]
    fn empty_directory_is_made_private_unless_others_can_write_to_it() {
        let work = tempfile::tempdir().unwrap();
        for (wide, closed) in [(0o755, true), (0o775, false), (0o1777, false)] {
            let dir = work.path().join(format!("{wide:o}"));
            std::fs::create_dir(&dir).unwrap();
            std::fs::set_permissions(&dir, Permissions::from_mode(wide)).unwrap();
            let opened = Store::open(&dir, Retention::default());
            assert_eq!((opened.is_ok(), mode(&dir)), (closed, if closed { 0o700 } else { wide & 0o777 }), "{wide:o}");
        }
    }

    #[test]
    fn store_that_others_can_open_is_refused_with_the_command_that_fixes_it() {
        let work = tempfile::tempdir().unwrap();
        let dir = work.path().join("data");
        drop(Store::open(&dir, Retention::default()).unwrap());
        for (path, wide, narrow) in
            [(dir.clone(), 0o750, 0o700), (dir.join("aaep.db"), 0o644, 0o600), (dir.join("lock"), 0o606, 0o600)]
        {
            std::fs::set_permissions(&path, Permissions::from_mode(wide)).unwrap();
            let error = Store::open(&dir, Retention::default()).unwrap_err().to_string();
            let fix = format!("chmod -R go= {}", dir.display());
            assert!(error.contains(&fix) && error.contains(&format!("{wide:03o}")), "{error}");
            std::fs::set_permissions(&path, Permissions::from_mode(narrow)).unwrap();
        }
        drop(Store::open(&dir, Retention::default()).unwrap());
    }
}
