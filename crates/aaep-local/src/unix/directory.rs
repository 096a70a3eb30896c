//! The directory of a user's sockets.

use std::ffi::OsString;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::own_user;

/// Returns the directory of this user's sockets. It may not exist yet: [`LocalListener::bind`](super::LocalListener::bind)
/// creates it.
///
/// On macOS it is `~/Library/Application Support/AAEP`; elsewhere `$XDG_RUNTIME_DIR/aaep`. Without that variable, as in
/// jobs of cron, it is `/run/user/<uid>/aaep` if that is this user's private directory, and `/tmp/aaep-<uid>` otherwise.
pub fn directory() -> PathBuf {
    let home_first = cfg!(target_os = "macos");
    choose(home_first, |name| std::env::var_os(name), Path::new("/run/user"))
}

fn choose(home_first: bool, variable: impl Fn(&str) -> Option<OsString>, run_user: &Path) -> PathBuf {
    let absolute = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    if home_first && let Some(home) = absolute("HOME") {
        return home.join("Library/Application Support/AAEP");
    }
    if let Some(directory) = absolute("XDG_RUNTIME_DIR") {
        return directory.join("aaep");
    }
    let of_session = run_user.join(own_user().to_string());
    if check_private(&of_session).is_ok() {
        return of_session.join("aaep");
    }
    // Everybody can create this one first. It is used only if it belongs to this user and is private.
    PathBuf::from(format!("/tmp/aaep-{}", own_user()))
}

/// Creates a directory that only its owner can access, or checks that an existing one is such a directory.
pub fn private_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    check_private(path)
}

fn check_private(path: &Path) -> io::Result<()> {
    let found = std::fs::symlink_metadata(path)?;
    let unsafe_directory = |why: &str| Err(io::Error::other(format!("the directory {} {why}", path.display())));
    if !found.is_dir() {
        return unsafe_directory("is a link or not a directory. Choose another path");
    }
    if found.uid() != own_user() {
        return unsafe_directory("belongs to another user. Choose another path");
    }
    if found.mode() & 0o077 != 0 {
        return unsafe_directory("is accessible to other users. Run chmod 700 on it, or choose another path");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn set(variables: &'static [(&str, &str)]) -> impl Fn(&str) -> Option<OsString> {
        move |name| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into())
    }

    #[test]
    fn directory_follows_the_environment_of_each_system() {
        let nowhere = Path::new("/nowhere");
        let both = set(&[("HOME", "/home/ada"), ("XDG_RUNTIME_DIR", "/run/user/7")]);
        assert_eq!(choose(false, &both, nowhere), Path::new("/run/user/7/aaep"));
        assert_eq!(choose(true, &both, nowhere), Path::new("/home/ada/Library/Application Support/AAEP"));
        let relative = set(&[("HOME", "."), ("XDG_RUNTIME_DIR", "run")]);
        let fallback = PathBuf::from(format!("/tmp/aaep-{}", own_user()));
        assert_eq!(choose(false, &relative, nowhere), fallback);
        assert_eq!(choose(true, &relative, nowhere), fallback);
    }

    #[test]
    fn without_the_variable_the_directory_of_the_session_is_used_if_it_is_private() {
        let run_user = tempfile::tempdir().unwrap();
        let of_session = run_user.path().join(own_user().to_string());
        std::fs::create_dir(&of_session).unwrap();
        std::fs::set_permissions(&of_session, Permissions::from_mode(0o700)).unwrap();
        assert_eq!(choose(false, |_| None, run_user.path()), of_session.join("aaep"));
        std::fs::set_permissions(&of_session, Permissions::from_mode(0o755)).unwrap();
        assert_eq!(choose(false, |_| None, run_user.path()), PathBuf::from(format!("/tmp/aaep-{}", own_user())));
    }

    #[test]
    fn directory_of_others_or_open_to_others_is_refused() {
        let base = tempfile::tempdir().unwrap();
        let made = base.path().join("deep/aaep");
        private_directory(&made).unwrap();
        assert_eq!(std::fs::metadata(&made).unwrap().mode() & 0o777, 0o700);
        std::fs::set_permissions(&made, Permissions::from_mode(0o755)).unwrap();
        assert!(private_directory(&made).unwrap_err().to_string().contains("chmod 700"));
        std::fs::set_permissions(&made, Permissions::from_mode(0o700)).unwrap();
        let link = base.path().join("link");
        std::os::unix::fs::symlink(&made, &link).unwrap();
        assert!(private_directory(&link).unwrap_err().to_string().contains("is a link or not a directory"));
    }
}
