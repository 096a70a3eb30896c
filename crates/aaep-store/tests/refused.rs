//! Directories that a store does not open: unwritable, not a database, of a later version.

use std::fs;

use aaep_store::{Retention, Store, StoreError};

#[test]
fn unwritable_directory_is_refused_with_a_hint() {
    // Root may write to any directory, but not below a file.
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "in the way").unwrap();
    let error = Store::open(&file.join("data"), Retention::default()).unwrap_err().to_string();
    assert!(error.contains("cannot be used"), "{error}");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let closed = dir.path().join("closed");
        fs::create_dir(&closed).unwrap();
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o555)).unwrap();
        if fs::write(closed.join("probe"), "").is_err() {
            let error = Store::open(&closed, Retention::default()).unwrap_err().to_string();
            assert!(error.contains("make it writable"), "{error}");
        }
    }
}

#[test]
fn file_that_is_not_a_database_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    drop(Store::open(dir.path(), Retention::default()).unwrap());
    fs::write(dir.path().join("aaep.db"), b"this is not a database").unwrap();
    let error = Store::open(dir.path(), Retention::default()).unwrap_err();
    assert!(matches!(error, StoreError::Damaged(..)), "{error}");
    assert!(error.to_string().contains("backup"), "{error}");
}

#[test]
fn store_of_a_later_version_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    drop(Store::open(dir.path(), Retention::default()).unwrap());
    let path = dir.path().join("aaep.db");
    let mut bytes = fs::read(&path).unwrap();
    // SQLite keeps `user_version` as a big-endian number at offset 60.
    bytes[63] += 1;
    fs::write(&path, bytes).unwrap();
    let error = Store::open(dir.path(), Retention::default()).unwrap_err();
    assert!(matches!(error, StoreError::Newer(_)), "{error}");
}
