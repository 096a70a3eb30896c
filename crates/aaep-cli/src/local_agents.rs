//! The agents of this user on this machine.

use std::path::PathBuf;

use aaep_client::{Address, DEFAULT_PORT, find_local};

/// Returns the directory of the sockets of this user's agents.
pub(crate) fn socket_directory() -> Option<PathBuf> {
    aaep_server::ipc::default_path("agent").parent().map(PathBuf::from)
}

/// Finds the agents of this user on this machine, by their sockets and at the default port.
pub(crate) async fn find_agents() -> Vec<Address> {
    find_local(aaep_server::ipc::default_path, DEFAULT_PORT).await
}
