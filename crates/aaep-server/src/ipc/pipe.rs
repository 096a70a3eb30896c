//! The named pipe of Windows: duplex, message mode, open to its owner only and never over the network.
//!
//! It is compiled for Windows and has not been run: see `docs/reference/transports.md`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use interprocess::os::windows::named_pipe::pipe_mode::Bytes;
use interprocess::os::windows::named_pipe::tokio::{DuplexPipeStream, PipeListener};
use interprocess::os::windows::named_pipe::{PipeListenerOptions, PipeMode};
use interprocess::os::windows::security_descriptor::SecurityDescriptor;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::{file_name, stream};
use crate::config::{Config, ConfigError};
use crate::connection::converse;
use crate::context::{Peer, ServerContext, stopped};
use crate::listener::{admit, pause_after};
use crate::metrics::Transport;
use crate::places::{Origin, Place, Places};

/// Full access for the owner, who is the user that runs this, and for nobody else.
const OWNER_ONLY: &widestring::U16CStr = widestring::u16cstr!("D:P(A;;GA;;;OW)");

/// Where an agent's pipe is, if nothing else is said.
pub fn usual_path(agent_id: &str) -> PathBuf {
    PathBuf::from(format!(r"\\.\pipe\aaep\{}", file_name(agent_id)))
}

/// A pipe that listens.
#[derive(Debug)]
pub(crate) struct Endpoint {
    listener: PipeListener<Bytes, Bytes>,
    path: PathBuf,
}

impl Endpoint {
    /// Opens the pipe, or says what is in the way. The first instance must be ours: a pipe of this name that another
    /// process has made is not joined.
    pub(crate) async fn open(config: &Config) -> Result<Endpoint, ConfigError> {
        let path = config.transports.unix_path.clone().unwrap_or_else(|| usual_path(&config.agent_id));
        let told = |e: &dyn std::fmt::Display| ConfigError(format!("cannot listen on {}: {e}", path.display()));
        let owner = SecurityDescriptor::deserialize(OWNER_ONLY).map_err(|e| told(&e))?;
        let options = PipeListenerOptions::new()
            .path(path.clone())
            .mode(PipeMode::Messages)
            .accept_remote(false)
            .security_descriptor(Some(owner));
        let listener = options.create_tokio_duplex::<Bytes>().map_err(|e| told(&e))?;
        Ok(Endpoint { listener, path })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Accepts connections until the server stops, then waits for those that are open.
    pub(crate) async fn serve(self, hub: Arc<ServerContext>, mut stopping: watch::Receiver<bool>) {
        let places = Places::new(&hub.limits);
        let mut open = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                Some(_) = open.join_next() => continue,
                () = stopped(&mut stopping) => break,
            };
            match accepted {
                Ok(stream) => match admit(&hub, &places, Origin::Local).await {
                    Some(place) => drop(open.spawn(connection(hub.clone(), stream, place))),
                    None => hub.metrics.refused_connection(),
                },
                Err(error) => pause_after(&error).await,
            }
        }
        drop(self.listener);
        let waiting = async { while open.join_next().await.is_some() {} };
        if tokio::time::timeout(hub.limits.shutdown() * 2, waiting).await.is_err() {
            tracing::warn!(connections = open.len(), "pipe connections that did not end in time are cut");
        }
    }
}

/// Serves one connection. The system has let in nobody but the owner.
async fn connection(hub: Arc<ServerContext>, stream: DuplexPipeStream<Bytes>, place: Arc<Place>) {
    let (from, to) = stream.split();
    let (source, sink) = stream::halves(&hub, from, to);
    let peer = Peer::local(Transport::Ipc).at(Some(place.clone()));
    tokio::select! {
        _ = converse(&hub, &peer, source, sink) => {}
        () = place.evicted() => {}
    }
}
