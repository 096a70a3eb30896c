//! The Unix socket. The modes of its file and directory admit its owner only, and the user of each peer is checked.

use std::fs::{DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinSet;

use super::{IpcService, file_name, serve_stream};
use crate::accept::{Acceptor, ServeConnection};
use crate::admission::connection_slots::{ConnectionOrigin, ConnectionSlot};
use crate::config::{Config, ConfigError};

/// How long to wait for an existing socket to accept. One that is too busy to accept counts as in use.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// Returns the path of an agent's socket, unless the configuration sets another.
///
/// ```
/// let path = aaep_server::ipc::default_path("gardener");
/// assert!(path.ends_with("gardener.sock"));
/// ```
pub fn default_path(agent_id: &str) -> PathBuf {
    let name = format!("{}.sock", file_name(agent_id));
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    if cfg!(target_os = "macos")
        && let Some(home) = variable("HOME")
    {
        return home.join("Library/Application Support/AAEP").join(name);
    }
    match variable("XDG_RUNTIME_DIR") {
        Some(directory) => directory.join("aaep").join(name),
        None => PathBuf::from(format!("/tmp/aaep-{}", own_user())).join(name),
    }
}

fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// A listening Unix socket.
#[derive(Debug)]
pub(crate) struct IpcListener {
    /// Dropped first, so that no client finds a file that nobody serves. An inherited socket belongs to the process that
    /// opened it, and its file stays.
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
    /// Held while the socket is served, so that two servers that start at once cannot both bind it.
    _lock: File,
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

impl IpcListener {
    /// Binds the socket at the configured path or at the default one. If another server of the same agent uses the default
    /// one, the id of this process is added to the name, so that both can be found.
    pub(crate) async fn open(config: &Config) -> Result<IpcListener, ConfigError> {
        let path = config.transports.unix_path.clone();
        let default = path.is_none();
        let path = path.unwrap_or_else(|| default_path(&config.agent_id));
        match IpcListener::bind(path.clone()).await {
            Err(error) if default && error.kind() == io::ErrorKind::AddrInUse => {
                let other = default_path(&format!("{}-{}", config.agent_id, std::process::id()));
                IpcListener::bind(other.clone()).await.map_err(|error| (other, error))
            }
            result => result.map_err(|error| (path, error)),
        }
        .map_err(|(path, error)| ConfigError(format!("cannot listen on {}: {error}", path.display())))
    }

    /// Binds the socket, with a file and a directory that only their owner can access.
    async fn bind(path: PathBuf) -> io::Result<IpcListener> {
        let directory = path.parent().filter(|d| !d.as_os_str().is_empty()).unwrap_or(Path::new("."));
        private_directory(directory)?;
        let lock = lock(&path)?;
        remove_stale(&path).await?;
        // Until the mode of the file is set, the directory keeps other users out.
        let listener = UnixListener::bind(&path)?;
        std::fs::set_permissions(&path, Permissions::from_mode(0o600))?;
        let identity = identity(&std::fs::symlink_metadata(&path)?);
        let file = SocketFile { path: path.clone(), identity, _lock: lock };
        Ok(IpcListener { listener, path, _file: Some(file) })
    }

    /// Takes over a listening socket of another process, such as a service manager. The user of each peer is checked as
    /// for any other.
    pub(crate) fn inherited(listener: std::os::unix::net::UnixListener) -> Result<IpcListener, ConfigError> {
        let error = |e: io::Error| ConfigError(format!("cannot use the inherited Unix socket: {e}"));
        let address = listener.local_addr().map_err(error)?;
        let path = address.as_pathname().ok_or_else(|| error(io::Error::other("it has no path")))?.to_owned();
        listener.set_nonblocking(true).map_err(error)?;
        Ok(IpcListener { listener: UnixListener::from_std(listener).map_err(error)?, path, _file: None })
    }

    /// Returns the path of the socket.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Acceptor for IpcListener {
    type Connection = UnixStream;

    async fn accept(&self) -> io::Result<UnixStream> {
        Ok(self.listener.accept().await?.0)
    }

    fn origin(_: &UnixStream) -> ConnectionOrigin {
        ConnectionOrigin::Local
    }
}

impl ServeConnection<UnixStream> for IpcService {
    fn serve(&self, stream: UnixStream, slot: Arc<ConnectionSlot>, tasks: &mut JoinSet<()>) {
        let user = stream.peer_cred().map(|peer| peer.uid());
        if !user.as_ref().is_ok_and(|user| *user == own_user()) {
            tracing::warn!(?user, "rejected a connection of another user to the local socket");
            self.0.metrics.unauthenticated();
            return;
        }
        let (reader, writer) = stream.into_split();
        tasks.spawn(serve_stream(self.0.clone(), reader, writer, slot));
    }

    fn refuse(&self, _: UnixStream, _: &mut JoinSet<()>) {}
}

/// Creates a directory that only its owner can access, or checks that an existing one is such a directory.
fn private_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    let found = std::fs::symlink_metadata(path)?;
    let unsafe_directory = |why: &str| Err(io::Error::other(format!("the directory {} {why}", path.display())));
    if !found.is_dir() {
        return unsafe_directory("is a link or not a directory. Choose another with transports.unix_path");
    }
    if found.uid() != own_user() {
        return unsafe_directory("belongs to another user. Choose another with transports.unix_path");
    }
    if found.mode() & 0o077 != 0 {
        return unsafe_directory(
            "is accessible to other users. Run chmod 700 on it, or choose another with transports.unix_path",
        );
    }
    Ok(())
}

const IN_USE: &str = "it is in use by another process. Stop that process, or choose another agent_id";

fn lock(path: &Path) -> io::Result<File> {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(name)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(std::fs::TryLockError::WouldBlock) => Err(io::Error::new(io::ErrorKind::AddrInUse, IN_USE)),
        Err(std::fs::TryLockError::Error(error)) => Err(error),
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
    match tokio::time::timeout(PROBE_TIMEOUT, UnixStream::connect(path)).await {
        Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => std::fs::remove_file(path),
        _ => Err(io::Error::new(io::ErrorKind::AddrInUse, IN_USE)),
    }
}

#[cfg(test)]
mod tests {
    use aaep::Producer;
    use tokio::sync::watch;

    use super::super::serve;
    use super::*;
    use crate::config::{Limits, Transports};
    use crate::context::ServerContext;

    fn config(path: &Path) -> Config {
        let transports = Transports { unix_path: Some(path.to_owned()), ..Transports::default() };
        Config { transports, ..Config::default() }
    }

    /// Creates a directory that only its owner can access.
    fn private() -> tempfile::TempDir {
        tempfile::Builder::new().permissions(Permissions::from_mode(0o700)).tempdir().unwrap()
    }

    fn mode(path: &Path) -> u32 {
        std::fs::symlink_metadata(path).unwrap().mode() & 0o777
    }

    #[tokio::test]
    async fn socket_is_private_and_removed_at_the_end() {
        let directory = private();
        let path = directory.path().join("made/here/a.sock");
        let listener = IpcListener::open(&config(&path)).await.unwrap();
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        let (stop, stopping) = watch::channel(false);
        let context = Arc::new(ServerContext::new(Producer::builder("a").build(), Limits::default(), stopping));
        let serving = tokio::spawn(serve(listener, context));
        stop.send(true).unwrap();
        serving.await.unwrap();
        assert!(!path.exists());
        IpcListener::open(&config(&path)).await.unwrap();
    }

    #[tokio::test]
    async fn socket_in_use_is_kept_and_stale_socket_is_replaced() {
        let directory = private();
        let path = directory.path().join("a.sock");
        let first = IpcListener::open(&config(&path)).await.unwrap();
        let error = IpcListener::open(&config(&path)).await.unwrap_err().to_string();
        assert!(error.contains("in use by another process") && error.contains("a.sock"), "{error}");
        assert!(UnixStream::connect(&path).await.is_ok(), "the first server still serves");
        drop(first);
        // A foreign socket, whose owner takes no lock.
        let foreign = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let error = IpcListener::open(&config(&path)).await.unwrap_err().to_string();
        assert!(error.contains("in use by another process"), "{error}");
        drop(foreign);
        assert!(path.exists(), "the stale file");
        let listener = IpcListener::open(&config(&path)).await.unwrap();
        assert_eq!(mode(listener.path()), 0o600);
    }

    #[tokio::test]
    async fn file_that_is_not_a_socket_is_kept() {
        let directory = private();
        let path = directory.path().join("a.sock");
        std::fs::write(&path, "precious").unwrap();
        let error = IpcListener::open(&config(&path)).await.unwrap_err().to_string();
        assert!(error.contains("not a socket"), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    }

    #[tokio::test]
    async fn socket_that_replaced_ours_is_not_removed() {
        let directory = private();
        let path = directory.path().join("a.sock");
        let listener = IpcListener::open(&config(&path)).await.unwrap();
        std::fs::remove_file(&path).unwrap();
        std::fs::write(directory.path().join("other"), "").unwrap();
        let _other = std::os::unix::net::UnixListener::bind(&path).unwrap();
        drop(listener);
        assert!(path.exists());
    }

    #[tokio::test]
    async fn directory_open_to_others_is_rejected() {
        let directory = private();
        std::fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
        let path = directory.path().join("a.sock");
        let error = IpcListener::open(&config(&path)).await.unwrap_err().to_string();
        assert!(error.contains("chmod 700"), "{error}");
        let real = private();
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(real.path(), &link).unwrap();
        let error = IpcListener::open(&config(&link.join("a.sock"))).await.unwrap_err().to_string();
        assert!(error.contains("is a link or not a directory"), "{error}");
    }
}
