//! A listening named pipe.

use std::io;
use std::path::{Path, PathBuf};

use tokio::net::windows::named_pipe::NamedPipeServer;
use tokio::sync::Mutex;

use super::stream::LocalStream;
use super::{check_path, security};

/// The system's word for a pipe that another process created first.
const ACCESS_DENIED: i32 = 5;

const IN_USE: &str = "it is in use by another process. Stop that process, or choose another name";

/// A listener for other processes of this user. The pipe ends when it is dropped.
#[derive(Debug)]
pub struct LocalListener {
    path: PathBuf,
    /// The instance of the pipe to which the next client connects.
    next: Mutex<NamedPipeServer>,
}

impl LocalListener {
    /// Creates a pipe that this user owns and that nobody else can access. Fails if a pipe of this name exists.
    pub async fn bind(path: &Path) -> io::Result<LocalListener> {
        check_path(path)?;
        let in_use = || io::Error::new(io::ErrorKind::AddrInUse, IN_USE);
        let next =
            create(path, true).map_err(|e| if e.raw_os_error() == Some(ACCESS_DENIED) { in_use() } else { e })?;
        // The system refuses a second first instance. If it did not, the pipe would still be that of its first owner.
        if security::owner(&next)? != security::own_user()? {
            return Err(in_use());
        }
        Ok(LocalListener { path: path.to_owned(), next: Mutex::new(next) })
    }

    /// Accepts the next connection. Cancel-safe.
    pub async fn accept(&self) -> io::Result<LocalStream> {
        let mut next = self.next.lock().await;
        if let Err(error) = next.connect().await {
            // The client has left already. Another one can use the instance.
            next.disconnect()?;
            return Err(io::Error::new(io::ErrorKind::ConnectionAborted, error));
        }
        let fresh = create(&self.path, false)?;
        Ok(LocalStream::from_server(std::mem::replace(&mut next, fresh)))
    }

    /// Returns the name of the pipe.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Creates an instance of the pipe.
fn create(path: &Path, first: bool) -> io::Result<NamedPipeServer> {
    let user = security::own_user()?;
    // The owner is named, because objects of an administrator belong to the group of administrators otherwise.
    security::create_pipe(path, first, &format!("O:{user}D:P(A;;FA;;;{user})"))
}
