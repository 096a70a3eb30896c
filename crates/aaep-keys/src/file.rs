//! Files with secrets: only their owner may read them, and none is overwritten.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;

/// The largest file with keys or tokens, in bytes.
pub const FILE_BYTES: u64 = 1024 * 1024;

/// Why a file cannot be used. The text follows the name of the file and says what to do.
///
/// ```
/// use aaep_keys::{KeyFileError, file::read_secret};
/// assert_eq!(read_secret("no/such/file".as_ref()), Err(KeyFileError::NotFound));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyFileError {
    /// It does not exist.
    NotFound,
    /// This user may not read or write it.
    Denied,
    /// It exists already and is not overwritten.
    Exists,
    /// It is a directory.
    Directory,
    /// It is larger than [`FILE_BYTES`].
    TooLarge,
    /// It is not UTF-8.
    NotText,
    /// Other users may use it. Holds its permission bits.
    TooOpen(u32),
    /// Any other error of the system.
    Other(String),
}

impl fmt::Display for KeyFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyFileError::NotFound => f.write_str("does not exist"),
            KeyFileError::Denied => f.write_str("may not be used; check its permissions"),
            KeyFileError::Exists => f.write_str("exists already; choose another name or remove it first"),
            KeyFileError::Directory => f.write_str("is a directory; name a file"),
            KeyFileError::TooLarge => write!(f, "is larger than {FILE_BYTES} bytes; it holds something else"),
            KeyFileError::NotText => f.write_str("is not UTF-8 text"),
            KeyFileError::TooOpen(mode) => {
                write!(f, "is open to other users (mode {mode:03o}); close it with chmod 600")
            }
            KeyFileError::Other(message) => write!(f, "cannot be used: {message}"),
        }
    }
}

impl std::error::Error for KeyFileError {}

impl From<io::Error> for KeyFileError {
    fn from(error: io::Error) -> KeyFileError {
        match error.kind() {
            io::ErrorKind::NotFound => KeyFileError::NotFound,
            io::ErrorKind::PermissionDenied => KeyFileError::Denied,
            io::ErrorKind::AlreadyExists => KeyFileError::Exists,
            io::ErrorKind::IsADirectory => KeyFileError::Directory,
            _ => KeyFileError::Other(error.to_string()),
        }
    }
}

/// Reads a file that is not secret.
pub fn read_public(path: &Path) -> Result<String, KeyFileError> {
    read(open(path)?)
}

/// Reads a secret file. Fails if all users may read it or if its group may write it. That the group may read it is
/// allowed, since services get their secrets that way.
pub fn read_secret(path: &Path) -> Result<String, KeyFileError> {
    let file = open(path)?;
    check_mode(&file)?;
    read(file)
}

fn open(path: &Path) -> Result<File, KeyFileError> {
    let file = File::open(path)?;
    if file.metadata()?.is_dir() { Err(KeyFileError::Directory) } else { Ok(file) }
}

fn read(file: File) -> Result<String, KeyFileError> {
    let mut bytes = Vec::new();
    file.take(FILE_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > FILE_BYTES {
        return Err(KeyFileError::TooLarge);
    }
    String::from_utf8(bytes).map_err(|_| KeyFileError::NotText)
}

// Checks the opened file and not its path, which may point elsewhere in between.
#[cfg(unix)]
fn check_mode(file: &File) -> Result<(), KeyFileError> {
    use std::os::unix::fs::PermissionsExt;
    let metadata = file.metadata()?;
    let mode = metadata.permissions().mode() & 0o777;
    // Pipes (`<(command)`) have no lasting name that others could open.
    if metadata.is_file() && mode & 0o037 != 0 { Err(KeyFileError::TooOpen(mode)) } else { Ok(()) }
}

#[cfg(not(unix))]
fn check_mode(_: &File) -> Result<(), KeyFileError> {
    Ok(())
}

/// Writes a new file that only its owner may read, and syncs it to the disk. Fails if the file exists.
pub fn write_secret(path: &Path, text: &str) -> Result<(), KeyFileError> {
    write_new(path, text, 0o600)
}

/// Writes a new file that everyone may read. Fails if the file exists.
pub fn write_public(path: &Path, text: &str) -> Result<(), KeyFileError> {
    write_new(path, text, 0o644)
}

fn write_new(path: &Path, text: &str, mode: u32) -> Result<(), KeyFileError> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, mode);
    #[cfg(not(unix))]
    let _ = mode;
    let mut file = options.open(path)?;
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
    if let Err(error) = written {
        // An incomplete file is of no use and would block the next attempt.
        let _ = std::fs::remove_file(path);
        return Err(error.into());
    }
    Ok(())
}
