//! Listeners of the transports besides HTTP. They are bound before the manifest is published, so that it names the
//! transports that are really served.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use crate::auth::tls::Certificates;
use crate::config::{Config, ConfigError};
use crate::context::AppState;
use crate::http::listener::HttpListener;
use crate::{grpc, http, ipc};

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
    pub(crate) async fn open(config: &Config) -> Result<ExtraListeners, ConfigError> {
        let ipc = if config.transports.unix { open_ipc(config).await? } else { None };
        let grpc = match config.transports.grpc {
            Some(address) => {
                let error = |e: std::io::Error| ConfigError(format!("cannot listen on {address} for gRPC: {e}"));
                Some(TcpListener::bind(address).await.map_err(error)?)
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
        let named = [(self.ipc.is_some(), ipc::NAME), (self.grpc.is_some(), grpc::NAME)];
        named.into_iter().filter(|(on, _)| *on).map(|(_, name)| name)
    }

    /// Starts a task for each listener, which ends when the server stops.
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
        if let Some(listener) = self.grpc {
            let tls = certificates.map(|c| c.server_config(&[b"h2"])).transpose()?.map(TlsAcceptor::from);
            let router = http::guarded(grpc::router(app.clone()).await?, app.clone());
            tracing::info!(address = ?self.addresses.grpc, tls = tls.is_some(), "listening for gRPC");
            let grpc = HttpListener { context: app.context.clone(), router, tls, fast_path: true };
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
