//! Named pipes: duplex, in message mode, accessible to one user and never over the network.

mod listener;
mod security;
mod stream;

use std::io;
use std::path::{Path, PathBuf};

pub use listener::LocalListener;
pub use stream::LocalStream;

/// The pipes of this protocol on this machine.
const PIPES: &str = r"\\.\pipe\aaep\";

/// Returns the pipe of this name. Pipes are not in directories.
pub fn endpoint(_: &Path, name: &str) -> PathBuf {
    PathBuf::from(format!("{PIPES}{name}"))
}

/// Returns the directory for files of this user's running programs, below `%LOCALAPPDATA%`. It may not exist yet.
pub fn directory() -> PathBuf {
    let base = std::env::var_os("LOCALAPPDATA").map(PathBuf::from).filter(|path| path.is_absolute());
    base.unwrap_or_else(std::env::temp_dir).join("aaep")
}

/// Creates a directory. It has the access control list of the directory above, which in a user's profile admits that
/// user only.
pub fn private_directory(path: &Path) -> io::Result<()> {
    std::fs::create_dir_all(path)
}

/// Returns an error unless the path names a pipe of this machine: that of another one could be anybody's.
fn check_path(path: &Path) -> io::Result<()> {
    let text = path.to_string_lossy();
    if [r"\\.\pipe\", r"\\?\pipe\"].iter().any(|local| text.len() > local.len() && text.starts_with(local)) {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::InvalidInput,
        format!(r"{text} is no pipe of this machine; one is \\.\pipe\aaep\name"),
    ))
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::windows::named_pipe::{ClientOptions, PipeMode};

    use super::*;

    fn unique(name: &str) -> PathBuf {
        endpoint(Path::new(""), &format!("test-{name}-{}", std::process::id()))
    }

    #[test]
    fn pipe_is_named_after_the_agent() {
        assert_eq!(crate::agent_path("gardener"), Path::new(r"\\.\pipe\aaep\gardener"));
        assert_eq!(crate::agent_path(r"a\b"), Path::new(r"\\.\pipe\aaep\a%5Cb"));
    }

    #[tokio::test]
    async fn pipe_is_duplex_and_in_message_mode() {
        let path = unique("mode");
        let _listener = LocalListener::bind(&path).await.unwrap();
        // These options ask for both directions.
        let client = ClientOptions::new().open(&path).unwrap();
        assert_eq!(client.info().unwrap().mode, PipeMode::Message);
    }

    #[tokio::test]
    async fn pipe_carries_long_messages_both_ways_and_what_was_sent_before_the_end() {
        let path = unique("long");
        let listener = LocalListener::bind(&path).await.unwrap();
        let mut client = LocalStream::connect(&path).await.unwrap();
        let mut server = listener.accept().await.unwrap();
        // Longer than any buffer of the pipe, and read in smaller pieces than it was written.
        let sent: Vec<u8> = (0..1_000_000_u32).map(|n| n as u8).collect();
        let mut received = vec![0; sent.len()];
        let (written, read) = tokio::join!(client.write_all(&sent), server.read_exact(&mut received));
        assert!(written.is_ok() && read.is_ok());
        assert!(received == sent);
        server.write_all(b"first").await.unwrap();
        server.write_all(b"last").await.unwrap();
        drop(server);
        let mut rest = Vec::new();
        client.read_to_end(&mut rest).await.unwrap();
        assert_eq!(rest, b"firstlast");
    }

    #[tokio::test]
    async fn clients_are_accepted_one_after_the_other_and_served_at_once() {
        let path = unique("many");
        let listener = LocalListener::bind(&path).await.unwrap();
        let mut open = Vec::new();
        for _ in 0..20 {
            let (client, server) = tokio::join!(LocalStream::connect(&path), listener.accept());
            open.push((client.unwrap(), server.unwrap()));
        }
        for (number, (client, server)) in open.iter_mut().enumerate() {
            client.write_all(&[number as u8]).await.unwrap();
            assert_eq!(usize::from(server.read_u8().await.unwrap()), number);
        }
        drop((listener, open));
        let error = LocalStream::connect(&path).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }

    #[tokio::test]
    async fn client_that_leaves_at_once_does_not_stop_the_listener() {
        let path = unique("leaves");
        let listener = LocalListener::bind(&path).await.unwrap();
        drop(LocalStream::connect(&path).await.unwrap());
        let accepting = async {
            loop {
                if let Ok(mut server) = listener.accept().await
                    && server.read_u8().await.is_ok()
                {
                    return;
                }
            }
        };
        let connecting = async {
            let mut client = LocalStream::connect(&path).await.unwrap();
            client.write_all(b"x").await.unwrap();
            client
        };
        let ((), _client) = tokio::join!(accepting, connecting);
    }

    #[tokio::test]
    async fn only_the_current_user_has_access_and_owns_the_pipe() {
        let path = unique("acl");
        let listener = LocalListener::bind(&path).await.unwrap();
        let client = LocalStream::connect(&path).await.unwrap();
        let server = listener.accept().await.unwrap();
        let user = security::own_user().unwrap();
        assert!(user.starts_with("S-1-5-21-"), "{user}");
        let expected = format!("O:{user}D:P(A;;FA;;;{user})");
        assert_eq!(security::describe(&client).unwrap(), expected);
        assert_eq!(security::describe(&server).unwrap(), expected);
        assert!(client.peer_is_own_user().unwrap() && server.peer_is_own_user().unwrap());
    }

    #[test]
    fn user_of_a_process_is_found_by_its_number() {
        assert_eq!(security::user_of_process(std::process::id()).unwrap(), security::own_user().unwrap());
    }

    #[tokio::test]
    async fn pipe_of_another_user_is_recognized_and_not_listened_on() {
        let path = unique("foreign");
        // The local system, S-1-5-18, owns this one. Everybody may use it.
        let _foreign = security::create_pipe(&path, true, "O:SYD:P(A;;FA;;;WD)").unwrap();
        let client = LocalStream::connect(&path).await.unwrap();
        assert!(!client.peer_is_own_user().unwrap());
        let error = LocalListener::bind(&path).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse, "{error}");
    }

    #[tokio::test]
    async fn pipes_of_other_machines_are_refused() {
        for path in [r"\\server\pipe\aaep\x", r"C:\pipe\aaep\x", "aaep", r"\\.\pipe\"] {
            let error = LocalStream::connect(Path::new(path)).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{path}: {error}");
        }
    }
}
