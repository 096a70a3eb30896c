//! Connections between processes of one user on one machine: Unix sockets, and named pipes on Windows.
//!
//! A [`LocalListener`] admits its own user only: the system refuses others by the modes of a socket and its directory, or by
//! the access control list of a pipe. Both sides can check that the peer is the same user as well
//! ([`LocalStream::peer_is_own_user`]), because another user may have taken the path first.
//!
//! ```
//! use aaep_local::{LocalListener, LocalStream, endpoint};
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> std::io::Result<()> {
//! # let directory = tempfile::tempdir()?;
//! let path = endpoint(&directory.path().join("private"), "gardener");
//! let listener = LocalListener::bind(&path).await?;
//! let mut client = LocalStream::connect(&path).await?;
//! assert!(client.peer_is_own_user()?);
//! client.write_all(b"hello").await?;
//! let mut bytes = [0; 5];
//! listener.accept().await?.read_exact(&mut bytes).await?;
//! assert_eq!(&bytes, b"hello");
//! # Ok(())
//! # }
//! ```

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

use std::path::PathBuf;

#[cfg(unix)]
pub use unix::{LocalListener, LocalStream, directory, endpoint, private_directory};
#[cfg(windows)]
pub use windows::{LocalListener, LocalStream, directory, endpoint, private_directory};

/// Returns where an agent listens, unless its configuration sets another path: a socket in [`directory`], or a pipe on
/// Windows.
///
/// ```
/// let path = aaep_local::agent_path("gardener");
/// assert!(path.to_string_lossy().contains("gardener"));
/// ```
pub fn agent_path(agent_id: &str) -> PathBuf {
    endpoint(&directory(), &file_name(agent_id))
}

/// Returns an agent's id as a file name. Bytes that a file name cannot contain are percent-encoded.
fn file_name(agent_id: &str) -> String {
    let plain = |byte: &u8| !byte.is_ascii_control() && !b"/\\%:*?\"<>|".contains(byte);
    let mut name = Vec::with_capacity(agent_id.len());
    for byte in agent_id.as_bytes() {
        if plain(byte) {
            name.push(*byte);
        } else {
            name.extend_from_slice(format!("%{byte:02X}").as_bytes());
        }
    }
    String::from_utf8_lossy(&name).into_owned()
}

#[cfg(test)]
mod tests {
    use super::file_name;

    #[test]
    fn agent_id_cannot_escape_the_directory() {
        assert_eq!(file_name("com.example.gardener-1"), "com.example.gardener-1");
        assert_eq!(file_name("../../etc/passwd"), "..%2F..%2Fetc%2Fpasswd");
        assert_eq!(file_name(r"..\x"), "..%5Cx");
        assert_eq!(file_name("a%2F\0b"), "a%252F%00b");
        assert_eq!(file_name("Gärtner"), "Gärtner");
    }
}
