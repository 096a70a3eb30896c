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
    /// Binds the configured path, or that of the agent. If another server of the same agent uses that of the agent, the id of
    /// this process is added to the name, so that both can be found.
    pub(crate) async fn open(config: &Config) -> Result<IpcListener, ConfigError> {
        if let Some(path) = &config.transports.unix_path {
            return LocalListener::bind(path).await.map(IpcListener).map_err(|error| bind_error(path, &error));
        }
        let path = default_path(&config.agent_id);
        match LocalListener::bind(&path).await {
            Ok(listener) => Ok(IpcListener(listener)),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                let path = default_path(&format!("{}-{}", config.agent_id, std::process::id()));
                LocalListener::bind(&path).await.map(IpcListener).map_err(|error| bind_error(&path, &error))
            }
            Err(error) => Err(bind_error(&path, &error)),
        }
    }

    /// Takes over a listening socket of another process, such as a service manager. The user of each peer is checked as
    /// for any other.
    #[cfg(unix)]
    pub(crate) fn inherited(listener: std::os::unix::net::UnixListener) -> Result<IpcListener, ConfigError> {
        let listener = LocalListener::from_std(listener);
        listener.map(IpcListener).map_err(|e| ConfigError(format!("cannot use the inherited Unix socket: {e}")))
    }

    /// Returns the path of the socket, or the name of the pipe.
    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}

fn bind_error(path: &Path, error: &io::Error) -> ConfigError {
    let hint = "transports.unix_path sets another path, agent_id another name";
    ConfigError(format!("cannot listen on {}: {error} ({hint})", path.display()))
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
