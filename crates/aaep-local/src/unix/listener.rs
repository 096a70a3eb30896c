//! A listening Unix socket.

use std::fs::{File, Metadata, OpenOptions, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::net::{UnixListener, UnixStream};
use tokio::time::{Instant, sleep, timeout};

use super::LocalStream;
use super::directory::private_directory;

/// How long to wait for an existing socket to accept. One that is too busy to accept counts as in use.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// How long to wait for other processes that bind sockets in the same directory.
const LOCK_TIMEOUT: Duration = Duration::from_secs(20);

const LOCK_RETRY: Duration = Duration::from_millis(10);

const IN_USE: &str = "it is in use by another process. Stop that process, or choose another name";

/// A listener for other processes of this user. Its socket is removed when it is dropped.
#[derive(Debug)]
pub struct LocalListener {
    /// Dropped first, so that no client finds a file that nobody serves. A socket that another process has bound keeps
    /// its file.
    _file: Option<SocketFile>,
    path: PathBuf,
    listener: UnixListener,
}

/// The file of a socket. It is removed when this is dropped.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    /// Device and inode, so that a file that has replaced this socket is not removed.
    identity: (u64, u64),
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if std::fs::symlink_metadata(&self.path).is_ok_and(|found| identity(&found) == self.identity) {
            // The file may have been removed already.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

impl LocalListener {
    /// Binds a socket, with a file and a directory that only their owner can access. The directory is created if it is
    /// missing. A socket that no process serves any more is replaced; anything else that exists at the path is an error.
    pub async fn bind(path: &Path) -> io::Result<LocalListener> {
        let directory = path.parent().filter(|d| !d.as_os_str().is_empty()).unwrap_or(Path::new("."));
        private_directory(directory)?;
        // Two processes that find the same stale socket must not both replace it.
        let _lock = lock(directory).await?;
        remove_stale(path).await?;
        // Until the mode of the file is set, the directory keeps other users out.
        let listener = UnixListener::bind(path)?;
        std::fs::set_permissions(path, Permissions::from_mode(0o600))?;
        let identity = identity(&std::fs::symlink_metadata(path)?);
        let file = Some(SocketFile { path: path.to_owned(), identity });
        Ok(LocalListener { listener, path: path.to_owned(), _file: file })
    }

    /// Uses a listening socket that another process has bound, such as a service manager.
    pub fn from_std(listener: std::os::unix::net::UnixListener) -> io::Result<LocalListener> {
        let address = listener.local_addr()?;
        let path = address.as_pathname().ok_or_else(|| io::Error::other("the socket has no path"))?.to_owned();
        listener.set_nonblocking(true)?;
        Ok(LocalListener { listener: UnixListener::from_std(listener)?, path, _file: None })
    }

    /// Accepts the next connection. Cancel-safe.
    pub async fn accept(&self) -> io::Result<LocalStream> {
        Ok(LocalStream(self.listener.accept().await?.0))
    }

    /// Returns the path of the socket.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Locks a directory until the returned file is dropped.
async fn lock(directory: &Path) -> io::Result<File> {
    let path = directory.join(".lock");
    let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
    let deadline = Instant::now() + LOCK_TIMEOUT;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => sleep(LOCK_RETRY).await,
            Err(error) => return Err(error.into()),
        }
    }
}

/// Removes a socket that no process serves any more, and nothing else.
async fn remove_stale(path: &Path) -> io::Result<()> {
    let found = match std::fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if !found.file_type().is_socket() {
        return Err(io::Error::other("a file that is not a socket exists there. Remove it, or choose another path"));
    }
    match timeout(PROBE_TIMEOUT, UnixStream::connect(path)).await {
        Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => std::fs::remove_file(path),
        _ => Err(io::Error::new(io::ErrorKind::AddrInUse, IN_USE)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a directory that only its owner can access.
    fn private() -> tempfile::TempDir {
        tempfile::Builder::new().permissions(Permissions::from_mode(0o700)).tempdir().unwrap()
    }

    fn mode(path: &Path) -> u32 {
        std::fs::symlink_metadata(path).unwrap().mode() & 0o777
    }

    async fn refusal(path: &Path) -> String {
        LocalListener::bind(path).await.unwrap_err().to_string()
    }

    #[tokio::test]
    async fn socket_is_private_and_removed_at_the_end() {
        let directory = private();
        let path = directory.path().join("made/here/a.sock");
        let listener = LocalListener::bind(&path).await.unwrap();
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        let client = LocalStream::connect(&path).await.unwrap();
        let server = listener.accept().await.unwrap();
        assert!(client.peer_is_own_user().unwrap() && server.peer_is_own_user().unwrap());
        drop(listener);
        assert!(!path.exists());
        LocalListener::bind(&path).await.unwrap();
    }

    #[tokio::test]
    async fn socket_in_use_is_kept_and_stale_socket_is_replaced() {
        let directory = private();
        let path = directory.path().join("a.sock");
        let first = LocalListener::bind(&path).await.unwrap();
        assert!(refusal(&path).await.contains("in use by another process"));
        assert!(LocalStream::connect(&path).await.is_ok(), "the first listener still listens");
        drop(first);
        // A socket of another program, which takes no lock.
        let foreign = std::os::unix::net::UnixListener::bind(&path).unwrap();
        assert!(refusal(&path).await.contains("in use by another process"));
        drop(foreign);
        assert!(path.exists(), "the stale file");
        let listener = LocalListener::bind(&path).await.unwrap();
        assert_eq!(mode(listener.path()), 0o600);
    }

    #[tokio::test]
    async fn of_two_that_replace_a_stale_socket_at_once_one_succeeds() {
        let directory = private();
        let path = directory.path().join("a.sock");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        let (one, two) = tokio::join!(LocalListener::bind(&path), LocalListener::bind(&path));
        assert_eq!([&one, &two].iter().filter(|bound| bound.is_ok()).count(), 1, "{one:?} {two:?}");
        assert!(LocalStream::connect(&path).await.is_ok());
    }

    #[tokio::test]
    async fn file_that_is_not_a_socket_is_kept() {
        let directory = private();
        let path = directory.path().join("a.sock");
        std::fs::write(&path, "precious").unwrap();
        assert!(refusal(&path).await.contains("not a socket"));
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    }

    #[tokio::test]
    async fn socket_that_replaced_ours_is_not_removed() {
        let directory = private();
        let path = directory.path().join("a.sock");
        let listener = LocalListener::bind(&path).await.unwrap();
        std::fs::remove_file(&path).unwrap();
        std::fs::write(directory.path().join("other"), "").unwrap();
        let _other = std::os::unix::net::UnixListener::bind(&path).unwrap();
        drop(listener);
        assert!(path.exists());
    }

    #[tokio::test]
    async fn socket_of_another_process_keeps_its_file() {
        let directory = private();
        let path = directory.path().join("a.sock");
        let listener = LocalListener::from_std(std::os::unix::net::UnixListener::bind(&path).unwrap()).unwrap();
        assert_eq!(listener.path(), path);
        let (client, server) = tokio::join!(LocalStream::connect(&path), listener.accept());
        assert!(client.is_ok() && server.unwrap().peer_is_own_user().unwrap());
        drop(listener);
        assert!(path.exists());
    }

    #[tokio::test]
    async fn directory_open_to_others_is_refused() {
        let directory = private();
        std::fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
        assert!(refusal(&directory.path().join("a.sock")).await.contains("chmod 700"));
    }
}
