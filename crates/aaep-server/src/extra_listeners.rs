//! The transports besides HTTP: opened before anything is published, so that the manifest names those that are there.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use crate::config::{Config, ConfigError};
use crate::http::{self, App};
use crate::listener::Listener;
use crate::tls::Certificates;
use crate::{grpc, ipc};

/// What is open besides HTTP.
#[derive(Debug)]
pub(crate) struct ExtraListeners {
    ipc: Option<ipc::Endpoint>,
    grpc: Option<TcpListener>,
    /// Where they are, for people and tests.
    pub(crate) places: BoundAddresses,
}

/// Where they are.
#[derive(Clone, Debug, Default)]
pub(crate) struct BoundAddresses {
    pub(crate) ipc: Option<PathBuf>,
    pub(crate) grpc: Option<SocketAddr>,
}

impl ExtraListeners {
    /// Opens what is switched on. A socket at its usual place that cannot be had is told and left out; whatever was
    /// asked for by its address must be had.
    pub(crate) async fn open(config: &Config) -> Result<ExtraListeners, ConfigError> {
        let transports = &config.transports;
        let ipc = match transports.unix {
            true => match ipc::Endpoint::open(config).await {
                Ok(endpoint) => Some(endpoint),
                Err(error) if transports.unix_path.is_some() => return Err(error),
                Err(error) => {
                    tracing::warn!(%error, "there is no local socket; the other transports are served");
                    None
                }
            },
            false => None,
        };
        let grpc = match transports.grpc {
            Some(address) => {
                let cannot = |e: std::io::Error| ConfigError(format!("cannot listen on {address} for gRPC: {e}"));
                Some(TcpListener::bind(address).await.map_err(cannot)?)
            }
            None => None,
        };
        let places = BoundAddresses {
            ipc: ipc.as_ref().map(|endpoint| endpoint.path().to_owned()),
            grpc: grpc.as_ref().and_then(|listener| listener.local_addr().ok()),
        };
        Ok(ExtraListeners { ipc, grpc, places })
    }

    /// Their names in the manifest.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> {
        let named = [(self.ipc.is_some(), ipc::NAME), (self.grpc.is_some(), crate::grpc::NAME)];
        named.into_iter().filter(|(on, _)| *on).map(|(_, name)| name)
    }

    /// Serves them until the server stops.
    pub(crate) async fn serve(
        self,
        app: &App,
        certificates: Option<&Arc<Certificates>>,
        stopping: &watch::Receiver<bool>,
    ) -> Result<Vec<JoinHandle<()>>, ConfigError> {
        let mut tasks = Vec::new();
        if let Some(endpoint) = self.ipc {
            tracing::info!(path = %endpoint.path().display(), "listening for this user");
            tasks.push(tokio::spawn(endpoint.serve(app.hub.clone(), stopping.clone())));
        }
        if let Some(listener) = self.grpc {
            let tls = certificates.map(|c| c.server_config(&[b"h2"])).transpose()?.map(TlsAcceptor::from);
            let router = http::guarded(grpc::router(app.clone(), stopping.clone()).await?, app.clone());
            tracing::info!(address = ?self.places.grpc, encrypted = tls.is_some(), "listening for gRPC");
            let grpc = Listener { hub: app.hub.clone(), router, tls };
            tasks.push(tokio::spawn(grpc.serve(listener, stopping.clone())));
        }
        Ok(tasks)
    }
}
