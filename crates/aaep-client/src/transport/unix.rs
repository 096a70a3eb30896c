//! Unix sockets (appendix B.4): four bytes of length, then JSON.

use std::io;
use std::path::Path;

use aaep_proto::limits;
use aaep_proto::message::Message;
use aaep_proto::subscriber::{DisconnectReason, HandshakeMode};
use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::UnixStream;

use super::frames::{Sink, Source, hear, speak};
use super::{ABSURD, Connection, Incoming, to_json};
use crate::options::ConnectOptions;

/// Opens the socket, if it belongs to the same user.
pub(crate) async fn open(path: &Path, options: &ConnectOptions) -> Result<Connection, DisconnectReason> {
    let connecting = tokio::time::timeout(options.timeout, UnixStream::connect(path));
    let stream = match connecting.await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) if error.kind() == io::ErrorKind::PermissionDenied => {
            return Err(DisconnectReason::Refused("the socket belongs to another user".to_owned()));
        }
        Ok(Err(error)) => return Err(DisconnectReason::Broken(error.to_string())),
        Err(_) => return Err(DisconnectReason::Broken("the producer does not answer".to_owned())),
    };
    // Whoever could put a socket in this place could ask for consent in the agent's name.
    let owner = stream.peer_cred().map_err(|error| DisconnectReason::Broken(error.to_string()))?.uid();
    if owner != rustix::process::getuid().as_raw() && !options.allow_other_user {
        return Err(DisconnectReason::Refused("the producer runs as another user".to_owned()));
    }
    let (read, write) = stream.into_split();
    let (mut wire, ends) = Connection::new(HandshakeMode::Full, false);
    wire.tasks.spawn(hear(In(read), ends.heard.clone()));
    wire.tasks.spawn(speak(Out(write), ends.said, ends.heard, options.timeout));
    Ok(wire)
}

struct In<R>(R);

impl<R: AsyncRead + Send + Unpin + 'static> Source for In<R> {
    async fn next(&mut self) -> Result<Incoming, DisconnectReason> {
        let ended = |error: io::Error| match error.kind() {
            io::ErrorKind::UnexpectedEof => DisconnectReason::Broken("the connection ended".to_owned()),
            _ => DisconnectReason::Broken(error.to_string()),
        };
        let length = self.0.read_u32().await.map_err(ended)? as usize;
        if length > ABSURD {
            return Err(DisconnectReason::Broken("what comes is not in the form of messages".to_owned()));
        }
        if length > limits::MESSAGE_BYTES {
            // It is skipped, so that the next one can be read.
            let mut rest = (&mut self.0).take(length as u64);
            tokio::io::copy(&mut rest, &mut tokio::io::sink()).await.map_err(ended)?;
            return Ok(Incoming::Unreadable(format!("it has {length} bytes.")));
        }
        // Memory is taken as bytes come, not as they are announced.
        let mut bytes = Vec::with_capacity(length.min(16 * 1024));
        let read = (&mut self.0).take(length as u64).read_to_end(&mut bytes).await.map_err(ended)?;
        if read < length {
            return Err(DisconnectReason::Broken("the connection ended".to_owned()));
        }
        Ok(Incoming::Message(Bytes::from(bytes)))
    }
}

struct Out<W>(W);

impl<W: AsyncWrite + Send + Unpin + 'static> Sink for Out<W> {
    async fn send(&mut self, message: &Message) -> io::Result<()> {
        let json = to_json(message);
        let length = u32::try_from(json.len()).map_err(io::Error::other)?;
        let mut frame = Vec::with_capacity(json.len() + 4);
        frame.extend_from_slice(&length.to_be_bytes());
        frame.extend_from_slice(&json);
        self.0.write_all(&frame).await?;
        self.0.flush().await
    }

    async fn probe(&mut self) -> io::Result<()> {
        Ok(())
    }

    async fn close(&mut self) {
        // Who has gone need not be told.
        let _ = self.0.shutdown().await;
    }
}
