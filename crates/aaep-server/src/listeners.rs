//! Listeners of the transports besides HTTP. They are bound before the manifest is published, so that it names the
//! transports that are really served.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use aaep_proto::binding::TransportKind;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::auth::tls::Certificates;
use crate::config::{Config, ConfigError};
use crate::context::AppState;
#[cfg(feature = "grpc")]
use crate::http::listener::HttpListener;
use crate::ipc;
#[cfg(feature = "grpc")]
use crate::{grpc, http};

/// Listening sockets that another process has opened, such as a service manager. A server uses them instead of binding the
/// addresses of its configuration.
#[derive(Debug, Default)]
pub struct InheritedListeners {
    /// For HTTP.
    pub http: Option<std::net::TcpListener>,
    /// For gRPC.
    pub grpc: Option<std::net::TcpListener>,
    /// For the local socket.
    #[cfg(unix)]
    pub unix: Option<std::os::unix::net::UnixListener>,
}

impl InheritedListeners {
    /// Sets the addresses of these listeners in a configuration, so that they are checked like any others.
    pub(crate) fn configure(&self, config: &mut Config) -> Result<(), ConfigError> {
        let error = |e: std::io::Error| ConfigError(format!("cannot use an inherited socket: {e}"));
        if let Some(http) = &self.http {
            config.listen = http.local_addr().map_err(error)?;
        }
        if let Some(grpc) = &self.grpc {
            config.transports.grpc = Some(grpc.local_addr().map_err(error)?);
        }
        #[cfg(unix)]
        if let Some(unix) = &self.unix {
            let address = unix.local_addr().map_err(error)?;
            config.transports.unix = true;
            config.transports.unix_path = address.as_pathname().map(std::path::Path::to_owned);
        }
        Ok(())
    }

    #[cfg(unix)]
    fn take_ipc(&mut self) -> Result<Option<ipc::IpcListener>, ConfigError> {
        self.unix.take().map(ipc::IpcListener::inherited).transpose()
    }

    #[cfg(not(unix))]
    fn take_ipc(&mut self) -> Result<Option<ipc::IpcListener>, ConfigError> {
        Ok(None)
    }
}

/// Returns a listener for an address: the inherited one, or a new one.
pub(crate) async fn listen_tcp(
    inherited: Option<std::net::TcpListener>,
    address: SocketAddr,
) -> std::io::Result<TcpListener> {
    match inherited {
        None => TcpListener::bind(address).await,
        Some(listener) => {
            listener.set_nonblocking(true)?;
            TcpListener::from_std(listener)
        }
    }
}

/// The listeners besides HTTP.
#[derive(Debug)]
pub(crate) struct ExtraListeners {
    ipc: Option<ipc::IpcListener>,
    grpc: Option<TcpListener>,
    pub(crate) addresses: BoundAddresses,
}

/// Where the listeners besides HTTP are bound.
#[derive(Clone, Debug, Default)]
pub(crate) struct BoundAddresses {
    pub(crate) ipc: Option<PathBuf>,
    pub(crate) grpc: Option<SocketAddr>,
}

impl ExtraListeners {
    /// Binds the listeners of the enabled transports. If the local socket cannot be bound at its default path, it is left
    /// out with a warning; an address that was configured must be bound.
    pub(crate) async fn open(
        config: &Config,
        mut inherited: InheritedListeners,
    ) -> Result<ExtraListeners, ConfigError> {
        let ipc = match inherited.take_ipc()? {
            Some(listener) => Some(listener),
            None if config.transports.unix => open_ipc(config).await?,
            None => None,
        };
        let grpc = match config.transports.grpc {
            Some(address) => {
                let error = |e: std::io::Error| ConfigError(format!("cannot listen on {address} for gRPC: {e}"));
                Some(listen_tcp(inherited.grpc, address).await.map_err(error)?)
            }
            None => None,
        };
        let addresses = BoundAddresses {
            ipc: ipc.as_ref().map(|listener| listener.path().to_owned()),
            grpc: grpc.as_ref().and_then(|listener| listener.local_addr().ok()),
        };
        Ok(ExtraListeners { ipc, grpc, addresses })
    }

    /// Returns the names of the transports in the manifest.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> {
        let named = [(self.ipc.is_some(), ipc::NAME), (self.grpc.is_some(), TransportKind::Grpc.as_str())];
        named.into_iter().filter(|(on, _)| *on).map(|(_, name)| name)
    }

    /// Starts a task for each listener, which ends when the server stops.
    #[cfg_attr(not(feature = "grpc"), expect(unused_variables, reason = "the local socket uses no TLS"))]
    pub(crate) async fn serve(
        self,
        app: &AppState,
        certificates: Option<&Arc<Certificates>>,
    ) -> Result<Vec<JoinHandle<()>>, ConfigError> {
        let mut tasks = Vec::new();
        if let Some(listener) = self.ipc {
            tracing::info!(path = %listener.path().display(), "listening on the local socket");
            tasks.push(tokio::spawn(ipc::serve(listener, app.context.clone())));
        }
        #[cfg(feature = "grpc")]
        if let Some(listener) = self.grpc {
            let tls = certificates.map(|c| c.acceptor(&[b"h2"])).transpose()?;
            let router = http::guarded(grpc::router(app.clone()).await?, app.clone());
            tracing::info!(address = ?self.addresses.grpc, tls = tls.is_some(), "listening for gRPC");
            let (context, proxies) = (app.context.clone(), app.proxies.clone());
            let grpc = HttpListener { context, router, tls, proxies, fast_path: true };
            tasks.push(tokio::spawn(grpc.run(listener)));
        }
        Ok(tasks)
    }
}

async fn open_ipc(config: &Config) -> Result<Option<ipc::IpcListener>, ConfigError> {
    match ipc::IpcListener::open(config).await {
        Ok(listener) => Ok(Some(listener)),
        Err(error) if config.transports.unix_path.is_some() => Err(error),
        Err(error) => {
            tracing::warn!(%error, "no local socket; serving the other transports");
            Ok(None)
        }
    }
}
