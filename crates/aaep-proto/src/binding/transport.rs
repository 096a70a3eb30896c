//! The transports by the names that manifests give them.

use std::fmt;
use std::str::FromStr;

/// A transport of the protocol.
///
/// ```
/// use aaep_proto::binding::TransportKind;
/// assert_eq!("unix-socket".parse(), Ok(TransportKind::UnixSocket));
/// assert_eq!(TransportKind::WebSocket.as_str(), "websocket");
/// assert!("carrier-pigeon".parse::<TransportKind>().is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum TransportKind {
    /// Server-sent events, with replies by POST.
    Sse,
    /// WebSocket.
    WebSocket,
    /// gRPC.
    Grpc,
    /// A Unix socket.
    UnixSocket,
    /// A named pipe of Windows.
    NamedPipe,
    /// JSON-RPC over standard input and output.
    Stdio,
}

impl TransportKind {
    /// All transports.
    pub const ALL: [TransportKind; 6] = [
        TransportKind::Sse,
        TransportKind::WebSocket,
        TransportKind::Grpc,
        TransportKind::UnixSocket,
        TransportKind::NamedPipe,
        TransportKind::Stdio,
    ];

    /// Returns its name in manifests.
    pub const fn as_str(self) -> &'static str {
        match self {
            TransportKind::Sse => "sse",
            TransportKind::WebSocket => "websocket",
            TransportKind::Grpc => "grpc",
            TransportKind::UnixSocket => "unix-socket",
            TransportKind::NamedPipe => "named-pipe",
            TransportKind::Stdio => "stdio",
        }
    }
}

impl fmt::Display for TransportKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A name that no transport has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownTransport;

impl fmt::Display for UnknownTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("unknown transport; use one of")?;
        TransportKind::ALL.iter().try_for_each(|transport| write!(f, " {transport}"))
    }
}

impl std::error::Error for UnknownTransport {}

impl FromStr for TransportKind {
    type Err = UnknownTransport;

    fn from_str(name: &str) -> Result<TransportKind, UnknownTransport> {
        TransportKind::ALL.into_iter().find(|transport| transport.as_str() == name).ok_or(UnknownTransport)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_transport_is_parsed_from_its_name() {
        for transport in TransportKind::ALL {
            assert_eq!(transport.as_str().parse(), Ok(transport));
        }
        assert_eq!("SSE".parse::<TransportKind>(), Err(UnknownTransport));
    }
}
