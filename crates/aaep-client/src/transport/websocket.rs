//! WebSocket (appendix B.2): one message per text frame.

use std::io;

use aaep_proto::binding::{CloseCode, TransportKind, WEBSOCKET_SUBPROTOCOL, path};
use aaep_proto::limits;
use aaep_proto::message::Message;
use aaep_proto::subscriber::{DisconnectReason, HandshakeMode};
use bytes::Bytes;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use http::HeaderValue;
use http::header::{AUTHORIZATION, SEC_WEBSOCKET_PROTOCOL};
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::error::{ProtocolError, SubProtocolError};
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, WebSocketConfig};
use tokio_tungstenite::tungstenite::{self, Error};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

use super::message_loop::{MessageReader, MessageWriter, read_loop, write_loop};
use super::{TransportConnection, TransportEvent, to_json};
use crate::address::HttpOrigin;
use crate::http::rejection;
use crate::net::{Dialer, OriginStream, disconnect_reason};

/// Opens a WebSocket.
pub(crate) async fn open(
    dialer: Dialer,
    origin: HttpOrigin,
    token: Option<HeaderValue>,
) -> Result<TransportConnection, DisconnectReason> {
    let timeout = dialer.timeout;
    let opening = async {
        match upgrade(&dialer, &origin, token.clone(), true).await {
            // tungstenite reports an error if the producer ignores the offered subprotocol; such a producer is accepted.
            Err(Error::Protocol(ProtocolError::SecWebSocketSubProtocolError(SubProtocolError::NoSubProtocol))) => {
                upgrade(&dialer, &origin, token, false).await
            }
            other => other,
        }
    };
    let socket = match tokio::time::timeout(timeout, opening).await {
        Ok(Ok(socket)) => socket,
        Ok(Err(Error::Http(response))) => return Err(rejection(response.status())),
        Ok(Err(error)) => return Err(disconnect_reason(&error)),
        Err(_) => return Err(DisconnectReason::Broken("the host does not respond".to_owned())),
    };
    let (writer, reader) = socket.split();
    let (mut connection, channels) = TransportConnection::new(TransportKind::WebSocket, HandshakeMode::Full, true);
    connection.tasks.spawn(read_loop(WebSocketReader(reader), channels.events.clone()));
    connection.tasks.spawn(write_loop(WebSocketWriter(writer), channels.commands, channels.events, timeout));
    Ok(connection)
}

async fn upgrade(
    dialer: &Dialer,
    origin: &HttpOrigin,
    token: Option<HeaderValue>,
    offer_subprotocol: bool,
) -> Result<WebSocketStream<OriginStream>, Error> {
    let stream = dialer.dial(origin).await?;
    let path = if origin.path.is_empty() { path::WEBSOCKET } else { &origin.path };
    let scheme = if origin.tls { "wss" } else { "ws" };
    let mut request = format!("{scheme}://{}{path}", origin.authority()).into_client_request()?;
    if offer_subprotocol {
        request.headers_mut().insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(WEBSOCKET_SUBPROTOCOL));
    }
    if let Some(token) = token {
        request.headers_mut().insert(AUTHORIZATION, token);
    }
    let config = WebSocketConfig::default()
        .max_message_size(Some(limits::MESSAGE_BYTES))
        .max_frame_size(Some(limits::MESSAGE_BYTES))
        .read_buffer_size(16 * 1024)
        .write_buffer_size(0);
    let (socket, _) = client_async_with_config(request, stream, Some(config)).await?;
    Ok(socket)
}

struct WebSocketReader(SplitStream<WebSocketStream<OriginStream>>);

impl MessageReader for WebSocketReader {
    async fn next(&mut self) -> Result<TransportEvent, DisconnectReason> {
        match self.0.next().await {
            Some(Ok(tungstenite::Message::Text(text))) => Ok(TransportEvent::Message(Bytes::from(text))),
            Some(Ok(tungstenite::Message::Binary(_))) => Ok(TransportEvent::Unreadable("it is not text.".to_owned())),
            Some(Ok(tungstenite::Message::Close(frame))) => Err(close_reason(frame.as_ref())),
            Some(Ok(_)) => Ok(TransportEvent::Alive),
            Some(Err(Error::Capacity(error))) => {
                Err(DisconnectReason::Broken(format!("a message is too large: {error}")))
            }
            Some(Err(error)) => Err(disconnect_reason(&error)),
            None => Err(DisconnectReason::Broken("the connection ended".to_owned())),
        }
    }
}

/// Classifies the close frame of a producer.
fn close_reason(frame: Option<&CloseFrame>) -> DisconnectReason {
    let Some(frame) = frame else { return DisconnectReason::Broken("the producer ended the connection".to_owned()) };
    let reason = frame.reason.as_str();
    let code = u16::from(frame.code);
    match CloseCode::from_u16(code) {
        Some(CloseCode::Unauthenticated) => {
            DisconnectReason::Refused(format!("the credentials are missing or not valid. {reason}"))
        }
        Some(CloseCode::Unauthorized) => {
            DisconnectReason::Refused(format!("the credentials do not permit it. {reason}"))
        }
        _ => DisconnectReason::Broken(format!("the producer ended the connection with code {code}. {reason}")),
    }
}

struct WebSocketWriter(SplitSink<WebSocketStream<OriginStream>, tungstenite::Message>);

impl MessageWriter for WebSocketWriter {
    async fn send(&mut self, message: &Message) -> io::Result<()> {
        let text = String::from_utf8(to_json(message)).map_err(io::Error::other)?;
        self.0.send(tungstenite::Message::text(text)).await.map_err(io::Error::other)
    }

    async fn probe(&mut self) -> io::Result<()> {
        self.0.send(tungstenite::Message::Ping(Bytes::new())).await.map_err(io::Error::other)
    }

    async fn close(&mut self) {
        let frame = CloseFrame { code: CloseCode::Normal.as_u16().into(), reason: "closed by the subscriber".into() };
        // Fails if the peer is gone already.
        let _ = self.0.send(tungstenite::Message::Close(Some(frame))).await;
    }
}
