//! Service managers such as systemd: sockets that they pass (`LISTEN_FDS`), and states that they are told
//! (`NOTIFY_SOCKET`).

use aaep_server::InheritedListeners;

/// What a process tells its service manager.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ServiceState {
    /// It serves.
    Ready,
    /// It is about to end.
    Stopping,
}

/// Returns the sockets that the service manager has opened for this process. A socket named `grpc` is for gRPC, a Unix socket
/// is the local socket, and any other is for HTTP.
#[cfg(unix)]
pub(crate) fn inherited_listeners() -> Result<InheritedListeners, String> {
    let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
    let mut names = names.split(':');
    let mut sockets = listenfd::ListenFd::from_env();
    let mut listeners = InheritedListeners::default();
    for index in 0..sockets.len() {
        let name = names.next().unwrap_or_default();
        let error = |what: &str| format!("the service manager passed {what} (socket {}, named {name:?})", index + 1);
        if let Ok(Some(listener)) = sockets.take_unix_listener(index) {
            store(&mut listeners.unix, listener).map_err(|()| error("two Unix sockets; pass one"))?;
        } else if let Ok(Some(listener)) = sockets.take_tcp_listener(index) {
            let slot = if name == "grpc" { &mut listeners.grpc } else { &mut listeners.http };
            store(slot, listener).map_err(|()| error("two sockets for the same; name one of them grpc"))?;
        } else {
            return Err(error("something that is not a listening stream socket; use ListenStream="));
        }
    }
    Ok(listeners)
}

#[cfg(unix)]
fn store<T>(slot: &mut Option<T>, listener: T) -> Result<(), ()> {
    match slot.replace(listener) {
        None => Ok(()),
        Some(_) => Err(()),
    }
}

#[cfg(not(unix))]
pub(crate) fn inherited_listeners() -> Result<InheritedListeners, String> {
    Ok(InheritedListeners::default())
}

/// Tells the service manager, if there is one that wants to know.
#[cfg(unix)]
pub(crate) fn notify(state: ServiceState) {
    use std::os::unix::net::{SocketAddr, UnixDatagram};
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let message = match state {
        ServiceState::Ready => "READY=1",
        ServiceState::Stopping => "STOPPING=1",
    };
    // Names that start with @ are those of abstract sockets, which Linux alone has.
    #[cfg(target_os = "linux")]
    let address = match path.as_encoded_bytes().strip_prefix(b"@") {
        Some(name) => <SocketAddr as std::os::linux::net::SocketAddrExt>::from_abstract_name(name),
        None => SocketAddr::from_pathname(&path),
    };
    #[cfg(not(target_os = "linux"))]
    let address = SocketAddr::from_pathname(&path);
    let sent = address.and_then(|address| UnixDatagram::unbound()?.send_to_addr(message.as_bytes(), &address));
    if let Err(error) = sent {
        tracing::warn!(%error, message, "cannot notify the service manager");
    }
}

#[cfg(not(unix))]
pub(crate) fn notify(_: ServiceState) {}
