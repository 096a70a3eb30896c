//! The Windows named pipe: duplex, message mode, accessible to its owner only and never over the network.
//!
//! It is compiled for Windows and has not been run: see `docs/reference/transports.md`.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use interprocess::os::windows::named_pipe::pipe_mode::Bytes;
use interprocess::os::windows::named_pipe::tokio::{DuplexPipeStream, PipeListener};
use interprocess::os::windows::named_pipe::{PipeListenerOptions, PipeMode};
use interprocess::os::windows::security_descriptor::SecurityDescriptor;
use tokio::task::JoinSet;

use super::{IpcService, file_name, serve_stream};
use crate::accept::{Acceptor, ServeConnection};
use crate::admission::connection_slots::{ConnectionOrigin, ConnectionSlot};
use crate::config::{Config, ConfigError};

/// Grants full access to the owner, who is the user of this process, and none to others.
const OWNER_ONLY: &widestring::U16CStr = widestring::u16cstr!("D:P(A;;GA;;;OW)");

/// Returns the path of an agent's pipe, unless the configuration sets another.
pub fn default_path(agent_id: &str) -> PathBuf {
    PathBuf::from(format!(r"\\.\pipe\aaep\{}", file_name(agent_id)))
}

/// A listening named pipe.
#[derive(Debug)]
pub(crate) struct IpcListener {
    listener: PipeListener<Bytes, Bytes>,
    path: PathBuf,
}

impl IpcListener {
    /// Creates the pipe. Fails if another process has created a pipe of this name.
    pub(crate) async fn open(config: &Config) -> Result<IpcListener, ConfigError> {
        let path = config.transports.unix_path.clone().unwrap_or_else(|| default_path(&config.agent_id));
        let error = |e: &dyn std::fmt::Display| ConfigError(format!("cannot listen on {}: {e}", path.display()));
        let owner = SecurityDescriptor::deserialize(OWNER_ONLY).map_err(|e| error(&e))?;
        let options = PipeListenerOptions::new()
            .path(path.clone())
            .mode(PipeMode::Messages)
            .accept_remote(false)
            .security_descriptor(Some(owner));
        let listener = options.create_tokio_duplex::<Bytes>().map_err(|e| error(&e))?;
        Ok(IpcListener { listener, path })
    }

    /// Returns the path of the pipe.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Acceptor for IpcListener {
    type Connection = DuplexPipeStream<Bytes>;

    async fn accept(&self) -> io::Result<DuplexPipeStream<Bytes>> {
        self.listener.accept().await
    }

    fn origin(_: &DuplexPipeStream<Bytes>) -> ConnectionOrigin {
        ConnectionOrigin::Local
    }
}

/// The system has already rejected every user but the owner.
impl ServeConnection<DuplexPipeStream<Bytes>> for IpcService {
    fn serve(&self, stream: DuplexPipeStream<Bytes>, slot: Arc<ConnectionSlot>, tasks: &mut JoinSet<()>) {
        let (reader, writer) = stream.split();
        tasks.spawn(serve_stream(self.0.clone(), reader, writer, slot));
    }

    fn refuse(&self, _: DuplexPipeStream<Bytes>, _: &mut JoinSet<()>) {}
}
