//! WebSocket (appendix B.2): one message per text frame.

use std::io;

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

use super::frames::{Sink, Source, hear, speak};
use super::{Connection, Incoming, to_json};
use crate::address::HttpOrigin;
use crate::http::rejection;
use crate::net::{Dialer, Stream, loss};

const SUBPROTOCOL: &str = "aaep.v1";

/// Where the socket is, if the address does not say.
const PATH: &str = "/aaep/v1/ws";

/// Opens the socket.
pub(crate) async fn open(
    dialer: Dialer,
    site: HttpOrigin,
    token: Option<HeaderValue>,
) -> Result<Connection, DisconnectReason> {
    let timeout = dialer.timeout;
    let opening = async {
        match upgrade(&dialer, &site, token.clone(), true).await {
            // A producer that knows no subprotocols is served as well; offering one to it is an error to the library.
            Err(Error::Protocol(ProtocolError::SecWebSocketSubProtocolError(SubProtocolError::NoSubProtocol))) => {
                upgrade(&dialer, &site, token, false).await
            }
            other => other,
        }
    };
    let socket = match tokio::time::timeout(timeout, opening).await {
        Ok(Ok(socket)) => socket,
        Ok(Err(Error::Http(response))) => return Err(rejection(response.status())),
        Ok(Err(error)) => return Err(loss(&error)),
        Err(_) => return Err(DisconnectReason::Broken("the host does not answer".to_owned())),
    };
    let (sink, source) = socket.split();
    let (mut wire, ends) = Connection::new(HandshakeMode::Full, true);
    wire.tasks.spawn(hear(In(source), ends.heard.clone()));
    wire.tasks.spawn(speak(Out(sink), ends.said, ends.heard, timeout));
    Ok(wire)
}

async fn upgrade(
    dialer: &Dialer,
    site: &HttpOrigin,
    token: Option<HeaderValue>,
    offer: bool,
) -> Result<WebSocketStream<Stream>, Error> {
    let stream = dialer.dial(site).await?;
    let path = if site.path.is_empty() { PATH } else { &site.path };
    let scheme = if site.tls { "wss" } else { "ws" };
    let mut request = format!("{scheme}://{}{path}", site.authority()).into_client_request()?;
    if offer {
        request.headers_mut().insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(SUBPROTOCOL));
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

struct In(SplitStream<WebSocketStream<Stream>>);

impl Source for In {
    async fn next(&mut self) -> Result<Incoming, DisconnectReason> {
        match self.0.next().await {
            Some(Ok(tungstenite::Message::Text(text))) => Ok(Incoming::Message(Bytes::from(text))),
            Some(Ok(tungstenite::Message::Binary(_))) => Ok(Incoming::Unreadable("it is not a text.".to_owned())),
            Some(Ok(tungstenite::Message::Close(frame))) => Err(farewell(frame.as_ref())),
            Some(Ok(_)) => Ok(Incoming::Alive),
            Some(Err(Error::Capacity(error))) => {
                Err(DisconnectReason::Broken(format!("a message is too large: {error}")))
            }
            Some(Err(error)) => Err(loss(&error)),
            None => Err(DisconnectReason::Broken("the connection ended".to_owned())),
        }
    }
}

/// What the close codes of the protocol mean.
fn farewell(frame: Option<&CloseFrame>) -> DisconnectReason {
    let Some(frame) = frame else { return DisconnectReason::Broken("the producer ended the connection".to_owned()) };
    let reason = frame.reason.as_str();
    match u16::from(frame.code) {
        4002 => DisconnectReason::Refused(format!("the credentials are missing or not valid. {reason}")),
        4003 => DisconnectReason::Refused(format!("the credentials do not allow it. {reason}")),
        code => DisconnectReason::Broken(format!("the producer ended the connection with code {code}. {reason}")),
    }
}

struct Out(SplitSink<WebSocketStream<Stream>, tungstenite::Message>);

impl Sink for Out {
    async fn send(&mut self, message: &Message) -> io::Result<()> {
        let text = String::from_utf8(to_json(message)).map_err(io::Error::other)?;
        self.0.send(tungstenite::Message::text(text)).await.map_err(io::Error::other)
    }

    async fn probe(&mut self) -> io::Result<()> {
        self.0.send(tungstenite::Message::Ping(Bytes::new())).await.map_err(io::Error::other)
    }

    async fn close(&mut self) {
        let frame = CloseFrame { code: 4000.into(), reason: "closed by the subscriber".into() };
        // Who has gone need not be told.
        let _ = self.0.send(tungstenite::Message::Close(Some(frame))).await;
    }
}
