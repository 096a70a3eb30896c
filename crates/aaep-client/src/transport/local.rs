//! Unix sockets and named pipes (appendix B.3 and B.4): messages with a length prefix.

use std::io;
use std::path::Path;

use aaep_local::LocalStream;
use aaep_proto::binding::{MessageFraming, TransportKind};
use aaep_proto::limits;
use aaep_proto::message::Message;
use aaep_proto::subscriber::{DisconnectReason, HandshakeMode};
use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::message_loop::{MessageReader, MessageWriter, read_loop, write_loop};
use super::{MAX_DISCARDED_BYTES, TransportConnection, TransportEvent, to_json};
use crate::options::ConnectOptions;

/// Memory that is reserved for a message before its bytes arrive.
const MAX_RESERVED_BYTES: usize = 16 * 1024;

/// The name of the transport on this system.
const KIND: TransportKind = if cfg!(windows) { TransportKind::NamedPipe } else { TransportKind::UnixSocket };

/// Connects to a socket or pipe, if its process runs as the same user.
pub(crate) async fn open(path: &Path, options: &ConnectOptions) -> Result<TransportConnection, DisconnectReason> {
    let broken = |error: io::Error| DisconnectReason::Broken(error.to_string());
    let stream = match tokio::time::timeout(options.timeout, LocalStream::connect(path)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) if error.kind() == io::ErrorKind::PermissionDenied => {
            return Err(DisconnectReason::Refused("the address belongs to another user".to_owned()));
        }
        Ok(Err(error)) if error.kind() == io::ErrorKind::InvalidInput => {
            return Err(DisconnectReason::Refused(error.to_string()));
        }
        Ok(Err(error)) => return Err(broken(error)),
        Err(_) => return Err(DisconnectReason::Broken("the producer does not respond".to_owned())),
    };
    // Another user who took this path first could ask for consent in the agent's name.
    if !options.allow_other_user && !stream.peer_is_own_user().map_err(broken)? {
        return Err(DisconnectReason::Refused("the producer runs as another user".to_owned()));
    }
    let (reader, writer) = stream.into_split();
    let (mut connection, channels) = TransportConnection::new(KIND, HandshakeMode::Full, false);
    connection.tasks.spawn(read_loop(LocalReader(reader), channels.events.clone()));
    connection.tasks.spawn(write_loop(LocalWriter(writer), channels.commands, channels.events, options.timeout));
    Ok(connection)
}

struct LocalReader<R>(R);

impl<R: AsyncRead + Send + Unpin + 'static> MessageReader for LocalReader<R> {
    async fn next(&mut self) -> Result<TransportEvent, DisconnectReason> {
        let closed = |error: io::Error| match error.kind() {
            io::ErrorKind::UnexpectedEof => DisconnectReason::Broken("the connection ended".to_owned()),
            _ => DisconnectReason::Broken(error.to_string()),
        };
        let length = self.0.read_u32().await.map_err(closed)? as usize;
        if length > MAX_DISCARDED_BYTES {
            return Err(DisconnectReason::Broken(
                "the producer does not send messages with a length prefix".to_owned(),
            ));
        }
        if length > limits::MESSAGE_BYTES {
            // It is skipped, so that the next one can be read.
            let mut rest = (&mut self.0).take(length as u64);
            tokio::io::copy(&mut rest, &mut tokio::io::sink()).await.map_err(closed)?;
            return Ok(TransportEvent::Unreadable(format!("it has {length} bytes.")));
        }
        let mut bytes = Vec::with_capacity(length.min(MAX_RESERVED_BYTES));
        let read = (&mut self.0).take(length as u64).read_to_end(&mut bytes).await.map_err(closed)?;
        if read < length {
            return Err(DisconnectReason::Broken("the connection ended".to_owned()));
        }
        Ok(TransportEvent::Message(Bytes::from(bytes)))
    }
}

struct LocalWriter<W>(W);

impl<W: AsyncWrite + Send + Unpin + 'static> MessageWriter for LocalWriter<W> {
    async fn send(&mut self, message: &Message) -> io::Result<()> {
        let mut frame = BytesMut::new();
        MessageFraming::LengthPrefix.encode(&to_json(message), &mut frame).map_err(io::Error::other)?;
        self.0.write_all(&frame).await?;
        self.0.flush().await
    }

    async fn probe(&mut self) -> io::Result<()> {
        Ok(())
    }

    async fn close(&mut self) {
        // Fails if the peer is gone already.
        let _ = self.0.shutdown().await;
    }
}
