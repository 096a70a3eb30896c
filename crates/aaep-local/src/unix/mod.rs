//! Unix sockets. The modes of file and directory admit their owner only, and the user of a peer can be checked.

mod directory;
mod listener;
mod stream;

use std::path::{Path, PathBuf};

pub use directory::{directory, private_directory};
pub use listener::LocalListener;
pub use stream::LocalStream;

/// Returns the path of the socket of this name in a directory.
pub fn endpoint(directory: &Path, name: &str) -> PathBuf {
    directory.join(format!("{name}.sock"))
}

fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}
