//! gRPC (appendix B.5): one stream in both directions, with the messages of the protocol as JSON.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use aaep_grpc::v1::AaepMessage;
use aaep_grpc::v1::aaep_service_client::AaepServiceClient;
use aaep_proto::binding::TransportKind;
use aaep_proto::limits;
use aaep_proto::message::{Message, MessageType};
use aaep_proto::subscriber::{DisconnectReason, HandshakeMode};
use futures_util::stream;
use http::{HeaderValue, Uri};
use hyper_util::rt::TokioIo;
use tokio::sync::mpsc;
use tonic::metadata::MetadataValue;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status, Streaming};

use super::message_loop::{MessageReader, MessageWriter, read_loop, write_loop};
use super::{TransportConnection, TransportEvent, to_json};
use crate::address::HttpOrigin;
use crate::net::{Dialer, OriginStream, disconnect_reason};

/// Bytes by which a Protobuf message may exceed its JSON.
const MAX_OVERHEAD_BYTES: usize = 1024;

/// How often HTTP/2 pings are sent, and how long their answer may take.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);

/// Opens a connection.
pub(crate) async fn open(
    mut dialer: Dialer,
    origin: HttpOrigin,
    token: Option<HeaderValue>,
) -> Result<TransportConnection, DisconnectReason> {
    let timeout = dialer.timeout;
    let mut tls = rustls::ClientConfig::clone(&dialer.tls);
    tls.alpn_protocols = vec![b"h2".to_vec()];
    dialer.tls = Arc::new(tls);
    let refused = |error: &dyn std::fmt::Display| DisconnectReason::Refused(error.to_string());
    // The dialer encrypts, so tonic must not: it gets an http URI to connect to and the true one as origin.
    let target = Uri::try_from(format!("http://{}:{}", origin.host, origin.port)).map_err(|e| refused(&e))?;
    let endpoint = Endpoint::from(target)
        .origin(Uri::try_from(origin.uri("/")).map_err(|e| refused(&e))?)
        .connect_timeout(timeout)
        .http2_keep_alive_interval(KEEPALIVE_INTERVAL)
        .keep_alive_timeout(KEEPALIVE_INTERVAL)
        .keep_alive_while_idle(true);
    let connector = OriginConnector { dialer, origin };
    let channel = endpoint.connect_with_connector(connector).await.map_err(|error| disconnect_reason(&error))?;
    let (sender, receiver) = mpsc::channel::<AaepMessage>(1);
    let messages = stream::unfold(receiver, |mut messages| async { messages.recv().await.map(|m| (m, messages)) });
    let mut request = Request::new(messages);
    if let Some(token) = token {
        let token = MetadataValue::try_from(token.as_bytes()).map_err(|e| refused(&e))?;
        request.metadata_mut().insert("authorization", token);
    }
    // HTTP/2 sends the pings; their answers are not visible here.
    let (mut connection, channels) = TransportConnection::new(TransportKind::Grpc, HandshakeMode::Full, false);
    let events = channels.events.clone();
    connection.tasks.spawn(async move {
        // A producer may respond only after the first message, so the call must not delay the writer.
        let limit = limits::MESSAGE_BYTES + MAX_OVERHEAD_BYTES;
        let mut client = AaepServiceClient::<Channel>::new(channel).max_decoding_message_size(limit);
        match client.subscribe(request).await {
            Ok(response) => read_loop(GrpcReader(response.into_inner()), events).await,
            Err(status) => drop(events.send(TransportEvent::Disconnected(status_reason(&status))).await),
        }
    });
    connection.tasks.spawn(write_loop(GrpcWriter(Some(sender)), channels.commands, channels.events, timeout));
    Ok(connection)
}

/// Connects to one origin, whatever URI it is asked for.
#[derive(Clone)]
struct OriginConnector {
    dialer: Dialer,
    origin: HttpOrigin,
}

impl tower::Service<Uri> for OriginConnector {
    type Response = TokioIo<OriginStream>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<TokioIo<OriginStream>>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let this = self.clone();
        Box::pin(async move { this.dialer.dial(&this.origin).await.map(TokioIo::new) })
    }
}

/// Classifies the status that ended a call.
fn status_reason(status: &Status) -> DisconnectReason {
    match status.code() {
        Code::Unauthenticated => {
            DisconnectReason::Refused(format!("the credentials are missing or not valid. {}", status.message()))
        }
        Code::PermissionDenied => {
            DisconnectReason::Refused(format!("the credentials do not permit it. {}", status.message()))
        }
        Code::Unimplemented => DisconnectReason::Refused("the host does not offer this service".to_owned()),
        code => DisconnectReason::Broken(format!("{code}. {}", status.message())),
    }
}

struct GrpcReader(Streaming<AaepMessage>);

impl MessageReader for GrpcReader {
    async fn next(&mut self) -> Result<TransportEvent, DisconnectReason> {
        match self.0.message().await {
            Ok(Some(message)) => Ok(TransportEvent::Message(message.json)),
            Ok(None) => Err(DisconnectReason::Broken("the producer ended the stream".to_owned())),
            Err(status) => Err(status_reason(&status)),
        }
    }
}

struct GrpcWriter(Option<mpsc::Sender<AaepMessage>>);

impl MessageWriter for GrpcWriter {
    async fn send(&mut self, message: &Message) -> io::Result<()> {
        let Some(messages) = &self.0 else { return Err(io::ErrorKind::BrokenPipe.into()) };
        let json = to_json(message).into();
        let message_type = message_type(message).to_owned();
        messages.send(AaepMessage { json, message_type }).await.map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    async fn probe(&mut self) -> io::Result<()> {
        Ok(())
    }

    async fn close(&mut self) {
        // The end of the request stream ends the call.
        self.0 = None;
    }
}

/// Returns the wire name of a message that a subscriber sends.
fn message_type(message: &Message) -> &'static str {
    let message_type = match message {
        Message::SubscriptionRequest(_) => MessageType::SubscriptionRequest,
        Message::SubscriptionRenegotiate(_) => MessageType::SubscriptionRenegotiate,
        Message::SubscriptionClose(_) => MessageType::SubscriptionClose,
        Message::ConfirmationReply(_) => MessageType::ConfirmationReply,
        Message::ClarificationReply(_) => MessageType::ClarificationReply,
        Message::CancellationRequest(_) => MessageType::CancellationRequest,
        _ => return "",
    };
    message_type.as_str()
}
