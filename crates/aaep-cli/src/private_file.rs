//! Files that hold what a user was told: only that user may read them. On Unix the mode of the file says so; on Windows the
//! access control list that it inherits from its directory, which in a user's profile admits that user only.

use std::fs::{File, OpenOptions};
use std::path::Path;

/// Returns options that create a missing file, which is then accessible to its owner only.
pub(crate) fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Returns an error if other users may read or write the file.
#[cfg(unix)]
pub(crate) fn check(file: &File, path: &Path) -> Result<(), String> {
    use std::os::unix::fs::PermissionsExt;
    let mode = file.metadata().map_err(|error| error.to_string())?.permissions().mode() & 0o777;
    if mode & 0o077 == 0 {
        return Ok(());
    }
    let path = path.display();
    Err(format!("is accessible to other users (mode {mode:03o}); run: chmod 600 {path}"))
}

/// Returns no error: the file has the access control list of its directory.
#[cfg(not(unix))]
pub(crate) fn check(_: &File, _: &Path) -> Result<(), String> {
    Ok(())
}
