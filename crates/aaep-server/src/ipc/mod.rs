//! Local IPC: a Unix socket, or on Windows a named pipe. It is open to one user of this machine only, so the system
//! proves who is at the other end.

#[cfg(windows)]
mod pipe;
mod stream;
#[cfg(unix)]
mod unix;

#[cfg(windows)]
pub(crate) use pipe::Endpoint;
#[cfg(windows)]
pub use pipe::usual_path;
#[cfg(unix)]
pub(crate) use unix::Endpoint;
#[cfg(unix)]
pub use unix::usual_path;

/// The name in the manifest.
pub(crate) const NAME: &str = if cfg!(windows) { "named-pipe" } else { "unix-socket" };

/// An agent's id as the name of a file: what cannot stand in one is written as its code.
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
    fn an_id_cannot_leave_the_directory() {
        assert_eq!(file_name("com.example.gardener-1"), "com.example.gardener-1");
        assert_eq!(file_name("../../etc/passwd"), "..%2F..%2Fetc%2Fpasswd");
        assert_eq!(file_name("a%2F\0b"), "a%252F%00b");
        assert_eq!(file_name("Gärtner"), "Gärtner");
    }
}
