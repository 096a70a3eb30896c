//! The Unix socket: in a directory and with a mode that let its owner in only, and a look at who connects.

use std::fs::{DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::{file_name, stream};
use crate::config::{Config, ConfigError};
use crate::connection::converse;
use crate::context::{Peer, ServerContext, stopped};
use crate::listener::{admit, pause_after};
use crate::metrics::Transport;
use crate::places::{self, Origin, Places};

/// How long a socket that is there already has to answer. One that is too busy to answer is in use.
const ANSWER: Duration = Duration::from_secs(2);

/// Where an agent's socket is, if nothing else is said.
///
/// ```
/// let path = aaep_server::ipc::usual_path("gardener");
/// assert!(path.ends_with("gardener.sock"));
/// ```
pub fn usual_path(agent_id: &str) -> PathBuf {
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

/// A socket that listens.
#[derive(Debug)]
pub(crate) struct Endpoint {
    listener: UnixListener,
    place: Place,
}

/// A socket's place in the file system. It is given back at the end.
#[derive(Debug)]
struct Place {
    path: PathBuf,
    /// Device and number of the socket, so that nothing but this very socket is taken away.
    made: (u64, u64),
    /// Held for as long as the place is: two servers that start at once cannot both have it.
    _lock: File,
}

impl Drop for Place {
    fn drop(&mut self) {
        if std::fs::symlink_metadata(&self.path).is_ok_and(|found| identity(&found) == self.made) {
            // It may be gone already.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

impl Endpoint {
    /// Opens the socket, or says what is in the way.
    pub(crate) async fn open(config: &Config) -> Result<Endpoint, ConfigError> {
        let path = config.transports.unix_path.clone().unwrap_or_else(|| usual_path(&config.agent_id));
        let told = |e: &dyn std::fmt::Display| ConfigError(format!("cannot listen on {}: {e}", path.display()));
        let directory = path.parent().filter(|d| !d.as_os_str().is_empty()).unwrap_or(Path::new("."));
        private_directory(directory).map_err(|e| told(&e))?;
        let lock = lock(&path).map_err(|e| told(&e))?;
        clear(&path).await.map_err(|e| told(&e))?;
        // Until its mode is set, the directory keeps others away.
        let listener = UnixListener::bind(&path).map_err(|e| told(&e))?;
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).map_err(|e| told(&e))?;
        let made = identity(&std::fs::symlink_metadata(&path).map_err(|e| told(&e))?);
        Ok(Endpoint { listener, place: Place { path, made, _lock: lock } })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.place.path
    }

    /// Accepts connections until the server stops, then waits for those that are open.
    pub(crate) async fn serve(self, hub: Arc<ServerContext>, mut stopping: watch::Receiver<bool>) {
        let Endpoint { listener, place } = self;
        let places = Places::new(&hub.limits);
        let mut open = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                Some(_) = open.join_next() => continue,
                () = stopped(&mut stopping) => break,
            };
            match accepted {
                Ok((stream, _)) => match admit(&hub, &places, Origin::Local).await {
                    Some(place) => drop(open.spawn(connection(hub.clone(), stream, place))),
                    None => hub.metrics.refused_connection(),
                },
                Err(error) => pause_after(&error).await,
            }
        }
        drop((place, listener));
        let waiting = async { while open.join_next().await.is_some() {} };
        if tokio::time::timeout(hub.limits.shutdown() * 2, waiting).await.is_err() {
            tracing::warn!(connections = open.len(), "socket connections that did not end in time are cut");
        }
    }
}

/// Serves one connection, if it is the owner's.
async fn connection(hub: Arc<ServerContext>, stream: UnixStream, place: Arc<places::Place>) {
    let user = stream.peer_cred().map(|peer| peer.uid());
    if !user.as_ref().is_ok_and(|user| *user == own_user()) {
        tracing::warn!(?user, "another user's process was turned away from the socket");
        hub.metrics.unauthenticated();
        return;
    }
    let (from, to) = stream.into_split();
    let (source, sink) = stream::halves(&hub, from, to);
    let peer = Peer::local(Transport::Ipc).at(Some(place.clone()));
    tokio::select! {
        _ = converse(&hub, &peer, source, sink) => {}
        () = place.evicted() => {}
    }
}

/// Makes the directory for its owner only, or sees to it that it is such a one.
fn private_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    let found = std::fs::symlink_metadata(path)?;
    let told = |what: &str| Err(io::Error::other(format!("the directory {} {what}", path.display())));
    if !found.is_dir() {
        return told("is not a directory of its own");
    }
    if found.uid() != own_user() {
        return told("belongs to another user");
    }
    if found.mode() & 0o077 != 0 {
        return told("is open to other users. Close it with chmod 700, or choose another with transports.unix_path");
    }
    Ok(())
}

const IN_USE: &str = "another process serves it already. Stop that one, or choose another agent_id";

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

/// Takes away a socket that was left behind, and nothing else.
async fn clear(path: &Path) -> io::Result<()> {
    let found = match std::fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if !found.file_type().is_socket() {
        return Err(io::Error::other("there is a file that is not a socket. It is left alone"));
    }
    match tokio::time::timeout(ANSWER, UnixStream::connect(path)).await {
        Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => std::fs::remove_file(path),
        _ => Err(io::Error::new(io::ErrorKind::AddrInUse, IN_USE)),
    }
}

#[cfg(test)]
mod tests {
    use aaep::Producer;

    use super::*;
    use crate::config::{Limits, Transports};

    fn config(path: &Path) -> Config {
        let transports = Transports { unix_path: Some(path.to_owned()), ..Transports::default() };
        Config { transports, ..Config::default() }
    }

    /// A directory that only its owner may enter.
    fn private() -> tempfile::TempDir {
        tempfile::Builder::new().permissions(Permissions::from_mode(0o700)).tempdir().unwrap()
    }

    fn mode(path: &Path) -> u32 {
        std::fs::symlink_metadata(path).unwrap().mode() & 0o777
    }

    #[tokio::test]
    async fn its_owner_only_and_gone_at_the_end() {
        let directory = private();
        let path = directory.path().join("made/here/a.sock");
        let endpoint = Endpoint::open(&config(&path)).await.unwrap();
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        let (stop, stopping) = watch::channel(false);
        let hub = Arc::new(ServerContext::new(Producer::builder("a").build(), Limits::default(), stopping.clone()));
        let serving = tokio::spawn(endpoint.serve(hub, stopping));
        stop.send(true).unwrap();
        serving.await.unwrap();
        assert!(!path.exists());
        Endpoint::open(&config(&path)).await.unwrap();
    }

    #[tokio::test]
    async fn a_place_in_use_is_left_alone_and_a_stale_one_taken() {
        let directory = private();
        let path = directory.path().join("a.sock");
        let first = Endpoint::open(&config(&path)).await.unwrap();
        let error = Endpoint::open(&config(&path)).await.unwrap_err().to_string();
        assert!(error.contains("another process serves it") && error.contains("a.sock"), "{error}");
        assert!(UnixStream::connect(&path).await.is_ok(), "the first one still serves");
        drop(first);
        // Someone else's, which takes no lock.
        let foreign = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let error = Endpoint::open(&config(&path)).await.unwrap_err().to_string();
        assert!(error.contains("another process serves it"), "{error}");
        drop(foreign);
        assert!(path.exists(), "what it left behind");
        let endpoint = Endpoint::open(&config(&path)).await.unwrap();
        assert_eq!(mode(endpoint.path()), 0o600);
    }

    #[tokio::test]
    async fn what_is_not_a_socket_is_not_taken_away() {
        let directory = private();
        let path = directory.path().join("a.sock");
        std::fs::write(&path, "precious").unwrap();
        let error = Endpoint::open(&config(&path)).await.unwrap_err().to_string();
        assert!(error.contains("not a socket"), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    }

    #[tokio::test]
    async fn another_socket_at_its_place_is_not_taken_away_at_the_end() {
        let directory = private();
        let path = directory.path().join("a.sock");
        let endpoint = Endpoint::open(&config(&path)).await.unwrap();
        std::fs::remove_file(&path).unwrap();
        std::fs::write(directory.path().join("other"), "").unwrap();
        let _other = std::os::unix::net::UnixListener::bind(&path).unwrap();
        drop(endpoint);
        assert!(path.exists());
    }

    #[tokio::test]
    async fn an_open_directory_is_refused() {
        let directory = private();
        std::fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
        let path = directory.path().join("a.sock");
        let error = Endpoint::open(&config(&path)).await.unwrap_err().to_string();
        assert!(error.contains("chmod 700"), "{error}");
        let real = private();
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(real.path(), &link).unwrap();
        let error = Endpoint::open(&config(&link.join("a.sock"))).await.unwrap_err().to_string();
        assert!(error.contains("not a directory of its own"), "{error}");
    }
}
