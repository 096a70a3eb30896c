//! The rules of each transport, as data and as code without I/O: paths, names, close codes, methods and framings.
//! Both ends of a connection take them from here.
//!
//! | Transport | What it needs from here |
//! |---|---|
//! | SSE with POST | [`path`], [`SseDecoder`], [`encode_sse_event`], [`encode_sse_message`] |
//! | WebSocket | [`path::WEBSOCKET`], [`WEBSOCKET_SUBPROTOCOL`], [`CloseCode`] |
//! | Unix socket, named pipe | [`MessageFraming`], [`MessageDecoder`] |
//! | stdio | [`RpcMethod`], [`LineDecoder`] |
//! | gRPC | [`metadata`] |

mod close;
mod lines;
pub mod metadata;
pub mod path;
mod rpc;
mod sse;
mod stream;
mod transport;

pub use close::CloseCode;
pub use lines::{DecodedLine, LineDecoder};
pub use rpc::RpcMethod;
pub use sse::{
    SSE_EVENT, SSE_KEEP_ALIVE, SSE_MESSAGE, SseDecoder, SseEvent, encode_sse_event, encode_sse_message,
    encode_sse_retry,
};
pub use stream::{LENGTH_PREFIX_BYTES, MessageDecoder, MessageFraming, MessageTooLong};
pub use transport::{TransportKind, UnknownTransport};

/// The subprotocol that a WebSocket client offers and a server selects.
pub const WEBSOCKET_SUBPROTOCOL: &str = "aaep.v1";
