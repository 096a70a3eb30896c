//! The socket of a running terminal, for other processes of the same user and for nobody else.

use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::control::{Outcome, Request, Wish};

/// The longest wish and the longest answer.
const WISH: u64 = 64 * 1024;
const ANSWER: u64 = 16 * 1024 * 1024;
/// How long each side waits for the other.
const PATIENCE: Duration = Duration::from_secs(10);
/// Wishes that may wait.
const WISHES: usize = 16;

/// The directory of the user's sockets.
pub(crate) fn directory() -> Option<PathBuf> {
    let base = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute())?;
    Some(base.join("aaep"))
}

/// An open socket; its file goes with it.
pub(crate) struct Socket {
    path: PathBuf,
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Opens the socket of this process. Its wishes come out of the receiver.
pub(crate) fn open(directory: &Path) -> io::Result<(Socket, mpsc::Receiver<Request>)> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let about = std::fs::metadata(directory)?;
    if about.uid() != rustix::process::getuid().as_raw() || about.permissions().mode() & 0o077 != 0 {
        return Err(io::Error::other(format!("{} is open to others", directory.display())));
    }
    let path = directory.join(format!("listen-{}.sock", std::process::id()));
    // Only a process that is gone can have left one with our number.
    let _ = std::fs::remove_file(&path);
    let listener = UnixListener::bind(&path)?;
    let socket = Socket { path };
    std::fs::set_permissions(&socket.path, std::fs::Permissions::from_mode(0o600))?;
    let (sender, receiver) = mpsc::channel(WISHES);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(timeout(PATIENCE, serve(stream, sender.clone())));
        }
    });
    Ok((socket, receiver))
}

async fn serve(stream: UnixStream, wishes: mpsc::Sender<Request>) -> io::Result<()> {
    let (mine, theirs) = (rustix::process::getuid().as_raw(), stream.peer_cred()?.uid());
    if mine != theirs {
        tracing::warn!(uid = theirs, "another user wanted to answer");
        return Ok(());
    }
    let (read, mut write) = stream.into_split();
    let mut line = String::new();
    BufReader::new(read.take(WISH)).read_line(&mut line).await?;
    let outcome = match serde_json::from_str::<Wish>(&line) {
        Ok(wish) => {
            let (answer, answered) = oneshot::channel();
            let gone = || io::Error::from(io::ErrorKind::BrokenPipe);
            wishes.send(Request { wish, answer }).await.map_err(|_| gone())?;
            answered.await.map_err(|_| gone())?
        }
        Err(_) => Outcome { ok: false, text: "That was not understood.".to_owned(), questions: Vec::new() },
    };
    let text = serde_json::to_string(&outcome).unwrap_or_default();
    write.write_all(format!("{text}\n").as_bytes()).await
}

/// Asks the terminal behind this socket.
pub(crate) async fn ask(path: &Path, wish: &Wish) -> io::Result<Outcome> {
    let asking = async {
        let stream = UnixStream::connect(path).await?;
        if stream.peer_cred()?.uid() != rustix::process::getuid().as_raw() {
            return Err(io::Error::other("it belongs to another user"));
        }
        let (read, mut write) = stream.into_split();
        let wish = serde_json::to_string(wish).unwrap_or_default();
        write.write_all(format!("{wish}\n").as_bytes()).await?;
        let mut line = String::new();
        BufReader::new(read.take(ANSWER)).read_line(&mut line).await?;
        serde_json::from_str(&line).map_err(|_| io::Error::other("it gave no answer"))
    };
    timeout(PATIENCE, asking).await.unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::TimedOut)))
}

/// The sockets in a directory, by the number of their process.
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
    async fn a_wish_gets_its_answer_and_the_file_is_private() {
        let base = tempfile::tempdir().unwrap();
        let directory = base.path().join("aaep");
        let (socket, mut wishes) = open(&directory).unwrap();
        assert_eq!(std::fs::metadata(&socket.path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::metadata(&directory).unwrap().permissions().mode() & 0o777, 0o700);
        let [(_, path)] = &find(&directory)[..] else { panic!("one socket") };
        let wish = Wish::Answer { number: Some(3), text: "Lagos".into() };
        let terminal = async {
            let request = wishes.recv().await.unwrap();
            assert_eq!(request.wish, wish);
            request.answer.send(Outcome { ok: true, text: "Sent.".into(), questions: Vec::new() }).unwrap();
        };
        let (outcome, ()) = tokio::join!(ask(path, &wish), terminal);
        assert_eq!(outcome.unwrap().text, "Sent.");
        drop(socket);
        assert!(find(&directory).is_empty());
    }

    #[tokio::test]
    async fn a_directory_that_others_may_enter_is_not_used() {
        let base = tempfile::tempdir().unwrap();
        std::fs::set_permissions(base.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        assert!(open(base.path()).is_err());
    }

    #[tokio::test]
    async fn nonsense_is_answered_with_no() {
        let base = tempfile::tempdir().unwrap();
        let (socket, _wishes) = open(&base.path().join("aaep")).unwrap();
        let mut stream = UnixStream::connect(&socket.path).await.unwrap();
        stream.write_all(b"{\"do\":\"explode\"}\n").await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.contains("\"ok\":false"), "{answer}");
    }
}
