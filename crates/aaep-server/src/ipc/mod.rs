//! Local IPC: a Unix socket, or a named pipe on Windows. Only one user of this machine can connect, so the operating
//! system authenticates the peer.

mod framed;

use std::io;
use std::path::Path;
use std::sync::Arc;

use aaep::transport::ResumePolicy;
pub use aaep_local::agent_path as default_path;
use aaep_local::{LocalListener, LocalStream};
use aaep_proto::binding::TransportKind;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;

use crate::accept::{Acceptor, ServeConnection, accept_loop};
use crate::admission::connection_slots::{ConnectionOrigin, ConnectionSlot};
use crate::config::{Config, ConfigError};
use crate::connection::{SubscribeMode, serve_connection};
use crate::context::ServerContext;
use crate::metrics::Transport;
use crate::peer::Peer;

/// The name of the transport in the manifest.
pub(crate) const NAME: &str =
    if cfg!(windows) { TransportKind::NamedPipe.as_str() } else { TransportKind::UnixSocket.as_str() };

/// The listening socket or pipe of a server.
#[derive(Debug)]
pub(crate) struct IpcListener(LocalListener);

impl IpcListener {
    /// Binds the configured path, or that of the agent.
    pub(crate) async fn open(config: &Config) -> Result<IpcListener, ConfigError> {
        let path = config.transports.unix_path.clone().unwrap_or_else(|| default_path(&config.agent_id));
        let describe = |error: io::Error| {
            let hint = "transports.unix_path sets another path, agent_id another name";
            ConfigError(format!("cannot listen on {}: {error} ({hint})", path.display()))
        };
        LocalListener::bind(&path).await.map(IpcListener).map_err(describe)
    }

    /// Returns the path of the socket, or the name of the pipe.
    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Acceptor for IpcListener {
    type Connection = LocalStream;

    async fn accept(&self) -> io::Result<LocalStream> {
        self.0.accept().await
    }

    fn origin(_: &LocalStream) -> ConnectionOrigin {
        ConnectionOrigin::Local
    }
}

/// Serves the connections of an [`IpcListener`].
struct IpcService(Arc<ServerContext>);

impl ServeConnection<LocalStream> for IpcService {
    fn serve(&self, stream: LocalStream, slot: Arc<ConnectionSlot>, tasks: &mut JoinSet<()>) {
        let own_user = stream.peer_is_own_user();
        if !matches!(own_user, Ok(true)) {
            tracing::warn!(error = ?own_user.err(), "rejected a local connection that is not of this user");
            self.0.metrics.unauthenticated();
            return;
        }
        let (reader, writer) = stream.into_split();
        tasks.spawn(serve_stream(self.0.clone(), reader, writer, slot));
    }

    fn refuse(&self, _: LocalStream, _: &mut JoinSet<()>) {}
}

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
