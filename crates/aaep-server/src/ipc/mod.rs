//! Local IPC: a Unix socket, or a named pipe on Windows. Only one user of this machine can connect, so the operating
//! system authenticates the peer.

mod framed;
#[cfg(windows)]
mod pipe;
#[cfg(unix)]
mod unix;

use std::sync::Arc;

use aaep::transport::ResumePolicy;
use aaep_proto::binding::TransportKind;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::accept::accept_loop;
use crate::admission::connection_slots::ConnectionSlot;
use crate::connection::{SubscribeMode, serve_connection};
use crate::context::ServerContext;
use crate::metrics::Transport;
use crate::peer::Peer;

#[cfg(windows)]
pub(crate) use pipe::IpcListener;
#[cfg(windows)]
pub use pipe::default_path;
#[cfg(unix)]
pub(crate) use unix::IpcListener;
#[cfg(unix)]
pub use unix::default_path;

/// The name of the transport in the manifest.
pub(crate) const NAME: &str =
    if cfg!(windows) { TransportKind::NamedPipe.as_str() } else { TransportKind::UnixSocket.as_str() };

/// Serves the connections of an [`IpcListener`].
struct IpcService(Arc<ServerContext>);

/// Accepts and serves connections until the server stops.
pub(crate) async fn serve(listener: IpcListener, context: Arc<ServerContext>) {
    let service = IpcService(context.clone());
    accept_loop(listener, &context, &service).await;
}

/// Serves one connection of the owner until it ends or is evicted.
async fn serve_stream(
    context: Arc<ServerContext>,
    reader: impl AsyncRead + Unpin + Send,
    writer: impl AsyncWrite + Unpin + Send,
    slot: Arc<ConnectionSlot>,
) {
    let (source, sink) = framed::halves(&context, reader, writer);
    let peer = Peer::local(Transport::Ipc).with_slot(Some(slot.clone()));
    let mode = SubscribeMode::New(ResumePolicy::Connection);
    tokio::select! {
        _ = serve_connection(&context, &peer, mode, source, sink) => {}
        () = slot.evicted() => {}
    }
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
        assert_eq!(file_name("a%2F\0b"), "a%252F%00b");
        assert_eq!(file_name("Gärtner"), "Gärtner");
    }
}
