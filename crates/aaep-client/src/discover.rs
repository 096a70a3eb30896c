//! Finds the producers of this user on this machine.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use aaep_proto::binding::TransportKind;
use aaep_proto::message::Capabilities;

use crate::address::{Address, HttpOrigin};
use crate::http::Http;
use crate::net::{Dialer, tls_config};
use crate::options::{ConnectOptions, TlsOptions};

/// The port on which `aaep` serves unless another one is configured.
pub const DEFAULT_PORT: u16 = 8377;

/// How long each producer may take to respond.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Finds the producers of this user: the sockets that accept connections, and what serves AAEP on this machine at the port.
/// A producer that serves both is returned once, with its socket. `socket_of` returns the path of the socket of an agent;
/// all sockets in that directory count.
///
/// ```no_run
/// # async fn find() {
/// let socket_of = |agent_id: &str| format!("/run/user/1000/aaep/{agent_id}.sock").into();
/// for address in aaep_client::find_local(socket_of, aaep_client::DEFAULT_PORT).await {
///     println!("{address}");
/// }
/// # }
/// ```
pub async fn find_local(socket_of: impl Fn(&str) -> PathBuf, port: u16) -> Vec<Address> {
    let any = socket_of("agent");
    let mut found = match any.parent() {
        Some(directory) => find_sockets(directory).await,
        None => Vec::new(),
    };
    let origin = HttpOrigin { tls: false, host: "127.0.0.1".to_owned(), port, path: String::new() };
    if let Some((agent_id, has_socket)) = ask(&origin).await {
        let socket = socket_of(&agent_id);
        let is_found = found.iter().any(|address| matches!(address, Address::Unix(path) if *path == socket));
        if !(has_socket && is_found) {
            found.push(Address::Http(origin));
        }
    }
    found
}

/// Returns the id of the agent that serves at an origin, and whether it has a socket too.
async fn ask(origin: &HttpOrigin) -> Option<(String, bool)> {
    let tls = TlsOptions { disable_system_roots: true, ..TlsOptions::default() };
    let options = ConnectOptions::new("discovery", Capabilities::default()).timeout(TIMEOUT);
    let dialer = Dialer { tls: Arc::clone(&tls_config(&tls).ok()?), timeout: TIMEOUT };
    let manifest = Http::new(&dialer, &options).ok()?.manifest(origin).await.ok()??;
    let has_socket = manifest.transports_supported.iter().any(|name| name == TransportKind::UnixSocket.as_str());
    Some((manifest.agent_id.clone(), has_socket))
}

#[cfg(not(all(unix, feature = "unix")))]
async fn find_sockets(_: &Path) -> Vec<Address> {
    Vec::new()
}

#[cfg(all(unix, feature = "unix"))]
async fn find_sockets(directory: &Path) -> Vec<Address> {
    use std::os::unix::fs::FileTypeExt;
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let is_socket = |entry: &std::fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_socket());
    let mut paths: Vec<_> = entries.filter(is_socket).map(|entry| entry.path()).collect();
    paths.sort();
    let mut found = Vec::new();
    for path in paths {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        // The control sockets of listeners are in the same directory.
        if !name.ends_with(".sock") || is_listener(name) {
            continue;
        }
        let connecting = tokio::time::timeout(TIMEOUT, tokio::net::UnixStream::connect(&path));
        if matches!(connecting.await, Ok(Ok(_))) {
            found.push(Address::Unix(path));
        }
    }
    found
}

/// Returns whether a socket is the control socket of a listener, by its name.
#[cfg(all(unix, feature = "unix"))]
fn is_listener(name: &str) -> bool {
    let id = name.strip_prefix("listen-").and_then(|rest| rest.strip_suffix(".sock"));
    id.is_some_and(|id| !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(all(test, unix, feature = "unix"))]
mod tests {
    use super::*;

    #[tokio::test]
    async fn sockets_that_accept_are_found_and_others_are_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let _open = tokio::net::UnixListener::bind(path("gardener.sock")).unwrap();
        let _control = tokio::net::UnixListener::bind(path("listen-42.sock")).unwrap();
        drop(tokio::net::UnixListener::bind(path("stale.sock")).unwrap());
        std::fs::write(path("gardener.sock.lock"), "").unwrap();
        // A port that was free a moment ago, so that nothing serves there.
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let socket_of = |agent_id: &str| path(&format!("{agent_id}.sock"));
        assert_eq!(find_local(socket_of, port).await, [Address::Unix(path("gardener.sock"))]);
        assert_eq!(find_local(|_| path("nowhere/agent.sock"), port).await, []);
    }
}
