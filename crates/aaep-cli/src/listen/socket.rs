//! The control socket of a running listener, for other processes of the same user only.

use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use aaep_listen::{ControlRequest, ControlResponse};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

/// The longest request.
const MAX_REQUEST_BYTES: u64 = 64 * 1024;
/// The longest response. It contains all open questions.
const MAX_RESPONSE_BYTES: u64 = 16 * 1024 * 1024;
/// How long each side waits for the other.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// The most requests that may wait.
const MAX_WAITING_CALLS: usize = 16;

/// A request, and where its response goes.
pub(crate) struct ControlCall {
    pub(crate) request: ControlRequest,
    pub(crate) respond: oneshot::Sender<ControlResponse>,
}

/// Returns the directory of the user's sockets, or `None` if the environment names none.
pub(crate) fn directory() -> Option<PathBuf> {
    let base = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute())?;
    Some(base.join("aaep"))
}

/// An open socket. Its file is removed on drop.
pub(crate) struct ControlSocket {
    path: PathBuf,
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Opens the socket of this process. Its requests come out of the receiver.
pub(crate) fn open(directory: &Path) -> io::Result<(ControlSocket, mpsc::Receiver<ControlCall>)> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let metadata = std::fs::metadata(directory)?;
    if metadata.uid() != rustix::process::getuid().as_raw() || metadata.permissions().mode() & 0o077 != 0 {
        return Err(io::Error::other(format!(
            "{} is accessible to other users; set its mode to 0700",
            directory.display()
        )));
    }
    let path = directory.join(format!("listen-{}.sock", std::process::id()));
    // A file with the id of this process was left behind by an earlier one.
    let _ = std::fs::remove_file(&path);
    let listener = UnixListener::bind(&path)?;
    let socket = ControlSocket { path };
    std::fs::set_permissions(&socket.path, std::fs::Permissions::from_mode(0o600))?;
    let (sender, receiver) = mpsc::channel(MAX_WAITING_CALLS);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(timeout(CALL_TIMEOUT, serve(stream, sender.clone())));
        }
    });
    Ok((socket, receiver))
}

async fn serve(stream: UnixStream, calls: mpsc::Sender<ControlCall>) -> io::Result<()> {
    let (mine, theirs) = (rustix::process::getuid().as_raw(), stream.peer_cred()?.uid());
    if mine != theirs {
        tracing::warn!(uid = theirs, "connection of another user refused");
        return Ok(());
    }
    let (read, mut write) = stream.into_split();
    let mut line = String::new();
    BufReader::new(read.take(MAX_REQUEST_BYTES)).read_line(&mut line).await?;
    let response = match serde_json::from_str::<ControlRequest>(&line) {
        Ok(request) => {
            let (respond, response) = oneshot::channel();
            let gone = || io::Error::from(io::ErrorKind::BrokenPipe);
            calls.send(ControlCall { request, respond }).await.map_err(|_| gone())?;
            response.await.map_err(|_| gone())?
        }
        Err(_) => ControlResponse { ok: false, text: "That was not understood.".to_owned(), questions: Vec::new() },
    };
    let text = serde_json::to_string(&response).unwrap_or_default();
    write.write_all(format!("{text}\n").as_bytes()).await
}

/// Sends a request to the listener behind this socket and waits for its response.
pub(crate) async fn call(path: &Path, request: &ControlRequest) -> io::Result<ControlResponse> {
    let call = async {
        let stream = UnixStream::connect(path).await?;
        if stream.peer_cred()?.uid() != rustix::process::getuid().as_raw() {
            return Err(io::Error::other("it belongs to another user"));
        }
        let (read, mut write) = stream.into_split();
        let request = serde_json::to_string(request).unwrap_or_default();
        write.write_all(format!("{request}\n").as_bytes()).await?;
        let mut line = String::new();
        BufReader::new(read.take(MAX_RESPONSE_BYTES)).read_line(&mut line).await?;
        serde_json::from_str(&line).map_err(|_| io::Error::other("it gave no answer"))
    };
    timeout(CALL_TIMEOUT, call).await.unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::TimedOut)))
}

/// Returns the sockets in a directory with the ids of their processes.
pub(crate) fn find(directory: &Path) -> Vec<(u32, PathBuf)> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let pid = |path: &Path| path.file_name()?.to_str()?.strip_prefix("listen-")?.strip_suffix(".sock")?.parse().ok();
    let mut found: Vec<(u32, PathBuf)> =
        entries.map(|entry| entry.path()).filter_map(|path| Some((pid(&path)?, path))).collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn request_gets_its_response_and_the_file_is_private() {
        let base = tempfile::tempdir().unwrap();
        let directory = base.path().join("aaep");
        let (socket, mut calls) = open(&directory).unwrap();
        assert_eq!(std::fs::metadata(&socket.path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::metadata(&directory).unwrap().permissions().mode() & 0o777, 0o700);
        let [(_, path)] = &find(&directory)[..] else { panic!("one socket") };
        let request = ControlRequest::Answer { number: Some(3), text: "Lagos".into() };
        let listener = async {
            let call = calls.recv().await.unwrap();
            assert_eq!(call.request, request);
            call.respond.send(ControlResponse { ok: true, text: "Sent.".into(), questions: Vec::new() }).unwrap();
        };
        let (response, ()) = tokio::join!(call(path, &request), listener);
        assert_eq!(response.unwrap().text, "Sent.");
        drop(socket);
        assert!(find(&directory).is_empty());
    }

    #[tokio::test]
    async fn directory_of_other_users_is_not_used() {
        let base = tempfile::tempdir().unwrap();
        std::fs::set_permissions(base.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        assert!(open(base.path()).is_err());
    }

    #[tokio::test]
    async fn malformed_request_is_refused() {
        let base = tempfile::tempdir().unwrap();
        let (socket, _calls) = open(&base.path().join("aaep")).unwrap();
        let mut stream = UnixStream::connect(&socket.path).await.unwrap();
        stream.write_all(b"{\"do\":\"explode\"}\n").await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.contains("\"ok\":false"), "{answer}");
    }
}
