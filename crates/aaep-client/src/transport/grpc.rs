//! gRPC (appendix B.5): one stream in both directions, with the messages of the protocol as JSON.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use aaep_grpc::v1::AaepMessage;
use aaep_grpc::v1::aaep_service_client::AaepServiceClient;
use aaep_proto::limits;
use aaep_proto::message::Message;
use aaep_proto::subscriber::{DisconnectReason, HandshakeMode};
use futures_util::stream;
use http::{HeaderValue, Uri};
use hyper_util::rt::TokioIo;
use tokio::sync::mpsc;
use tonic::metadata::MetadataValue;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status, Streaming};

use super::frames::{Sink, Source, hear, speak};
use super::{Connection, Incoming, to_json};
use crate::address::HttpOrigin;
use crate::net::{Dialer, Stream, loss};

/// What a message may be larger than its JSON.
const ENVELOPE: usize = 1024;

/// How often the connection itself asks for a sign of life, and how long it waits for one.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Opens the stream.
pub(crate) async fn open(
    mut dialer: Dialer,
    site: HttpOrigin,
    token: Option<HeaderValue>,
) -> Result<Connection, DisconnectReason> {
    let timeout = dialer.timeout;
    let mut tls = rustls::ClientConfig::clone(&dialer.tls);
    tls.alpn_protocols = vec![b"h2".to_vec()];
    dialer.tls = Arc::new(tls);
    let wrong = |error: &dyn std::fmt::Display| DisconnectReason::Refused(error.to_string());
    // The connector encrypts, so the library need not know how; the origin says that it is done.
    let plain = Uri::try_from(format!("http://{}:{}", site.host, site.port)).map_err(|e| wrong(&e))?;
    let origin = Uri::try_from(site.uri("/")).map_err(|e| wrong(&e))?;
    let endpoint = Endpoint::from(plain)
        .origin(origin)
        .connect_timeout(timeout)
        .http2_keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(KEEP_ALIVE)
        .keep_alive_while_idle(true);
    let channel = endpoint.connect_with_connector(Fixed { dialer, site }).await.map_err(|error| loss(&error))?;
    let (to, from) = mpsc::channel::<AaepMessage>(1);
    let messages = stream::unfold(from, |mut from| async { from.recv().await.map(|message| (message, from)) });
    let mut request = Request::new(messages);
    if let Some(token) = token {
        let token = MetadataValue::try_from(token.as_bytes()).map_err(|e| wrong(&e))?;
        request.metadata_mut().insert("authorization", token);
    }
    // The connection looks after signs of life itself; nothing of them is seen here.
    let (mut wire, ends) = Connection::new(HandshakeMode::Full, false);
    let heard = ends.heard.clone();
    wire.tasks.spawn(async move {
        // A producer may wait for the request before it answers, so this must not hold up what is said.
        let limit = limits::MESSAGE_BYTES + ENVELOPE;
        let mut client = AaepServiceClient::<Channel>::new(channel).max_decoding_message_size(limit);
        match client.subscribe(request).await {
            Ok(response) => hear(In(response.into_inner()), heard).await,
            Err(status) => drop(heard.send(Incoming::Lost(farewell(&status))).await),
        }
    });
    wire.tasks.spawn(speak(Out(Some(to)), ends.said, ends.heard, timeout));
    Ok(wire)
}

/// Connects to one site, whatever it is asked for.
#[derive(Clone)]
struct Fixed {
    dialer: Dialer,
    site: HttpOrigin,
}

impl tower::Service<Uri> for Fixed {
    type Response = TokioIo<Stream>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<TokioIo<Stream>>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let this = self.clone();
        Box::pin(async move { this.dialer.dial(&this.site).await.map(TokioIo::new) })
    }
}

/// What the end of a call means.
fn farewell(status: &Status) -> DisconnectReason {
    match status.code() {
        Code::Unauthenticated => {
            DisconnectReason::Refused(format!("the credentials are missing or not valid. {}", status.message()))
        }
        Code::PermissionDenied => {
            DisconnectReason::Refused(format!("the credentials do not allow it. {}", status.message()))
        }
        Code::Unimplemented => DisconnectReason::Refused("the host does not know this service".to_owned()),
        code => DisconnectReason::Broken(format!("{code}. {}", status.message())),
    }
}

struct In(Streaming<AaepMessage>);

impl Source for In {
    async fn next(&mut self) -> Result<Incoming, DisconnectReason> {
        match self.0.message().await {
            Ok(Some(message)) => Ok(Incoming::Message(message.json)),
            Ok(None) => Err(DisconnectReason::Broken("the producer ended the stream".to_owned())),
            Err(status) => Err(farewell(&status)),
        }
    }
}

struct Out(Option<mpsc::Sender<AaepMessage>>);

impl Sink for Out {
    async fn send(&mut self, message: &Message) -> io::Result<()> {
        let Some(to) = &self.0 else { return Err(io::ErrorKind::BrokenPipe.into()) };
        let json = to_json(message).into();
        let message_type = type_of(message).to_owned();
        to.send(AaepMessage { json, message_type }).await.map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    async fn probe(&mut self) -> io::Result<()> {
        Ok(())
    }

    async fn close(&mut self) {
        // The end of the stream ends the call.
        self.0 = None;
    }
}

fn type_of(message: &Message) -> &'static str {
    match message {
        Message::SubscriptionRequest(_) => "subscription.request",
        Message::SubscriptionRenegotiate(_) => "subscription.renegotiate",
        Message::SubscriptionClose(_) => "subscription.close",
        Message::ConfirmationReply(_) => "confirmation.reply",
        Message::ClarificationReply(_) => "clarification.reply",
        _ => "",
    }
}
