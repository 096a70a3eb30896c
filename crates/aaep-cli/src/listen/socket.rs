//! The control socket of a running listener, for other processes of the same user only.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use aaep_listen::{ControlRequest, ControlResponse};
use aaep_local::{LocalListener, LocalStream};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

/// How the names of control sockets begin and end. The id of the process is in between.
const PREFIX: &str = "listen-";
const SUFFIX: &str = ".sock";
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

/// An open control socket. Its file is removed on drop.
///
/// On Windows the socket is a pipe, which is in no directory; the file only tells other processes that the pipe exists.
pub(crate) struct ControlSocket {
    path: PathBuf,
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Opens the socket of this process. Its requests come out of the receiver.
pub(crate) async fn open(directory: &Path) -> io::Result<(ControlSocket, mpsc::Receiver<ControlCall>)> {
    aaep_local::private_directory(directory)?;
    let name = format!("{PREFIX}{}", std::process::id());
    let socket = ControlSocket { path: directory.join(format!("{name}{SUFFIX}")) };
    let listener = LocalListener::bind(&aaep_local::endpoint(directory, &name)).await?;
    if cfg!(windows) {
        std::fs::write(&socket.path, "")?;
    }
    let (sender, receiver) = mpsc::channel(MAX_WAITING_CALLS);
    tokio::spawn(async move {
        while let Ok(stream) = listener.accept().await {
            tokio::spawn(timeout(CALL_TIMEOUT, serve(stream, sender.clone())));
        }
    });
    Ok((socket, receiver))
}

async fn serve(stream: LocalStream, calls: mpsc::Sender<ControlCall>) -> io::Result<()> {
    if !stream.peer_is_own_user()? {
        tracing::warn!("connection of another user refused");
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
        let stream = LocalStream::connect(path).await?;
        if !stream.peer_is_own_user()? {
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

/// Returns the control sockets of a directory with the ids of their processes.
pub(crate) fn find(directory: &Path) -> Vec<(u32, PathBuf)> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let pid = |name: &OsStr| name.to_str()?.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?.parse::<u32>().ok();
    let pids = entries.filter_map(|entry| pid(&entry.file_name()));
    let endpoint = |pid| aaep_local::endpoint(directory, &format!("{PREFIX}{pid}"));
    let mut found: Vec<(u32, PathBuf)> = pids.map(|pid| (pid, endpoint(pid))).collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn request_gets_its_response_and_the_file_is_removed() {
        let base = tempfile::tempdir().unwrap();
        let directory = base.path().join("aaep");
        let (socket, mut calls) = open(&directory).await.unwrap();
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
    #[cfg(unix)]
    async fn directory_of_other_users_is_not_used() {
        let base = tempfile::tempdir().unwrap();
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(base.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        assert!(open(base.path()).await.is_err());
    }

    #[tokio::test]
    async fn malformed_request_is_refused() {
        let base = tempfile::tempdir().unwrap();
        let (_socket, _calls) = open(&base.path().join("aaep")).await.unwrap();
        let mut stream = LocalStream::connect(&find(&base.path().join("aaep"))[0].1).await.unwrap();
        stream.write_all(b"{\"do\":\"explode\"}\n").await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.contains("\"ok\":false"), "{answer}");
    }
}
