//! The gRPC binding: `aaep.v1.AaepService`, with health and reflection, behind the same connections, encryption and
//! guard as HTTP.

use aaep_proto::binding::CloseCode;
use std::io;
use std::pin::Pin;
use std::str::FromStr;
use std::time::Duration;

use aaep::id::SubscriptionId;
use aaep::transport::{Outbound, Rejection, ResumePolicy};
use aaep_grpc::v1::aaep_service_server::{AaepService, AaepServiceServer};
use aaep_grpc::v1::{AaepMessage, GetManifestRequest, Manifest};
use aaep_keys::Role;
use aaep_proto::message::{CloseReason, Message, ReasonCode};
use axum::Router;
use axum::body::Body;
use axum::extract::State;
use bytes::Bytes;
use futures_util::{Stream, stream};
use tokio::sync::{mpsc, watch};
use tonic::metadata::MetadataMap;
use tonic::service::Routes;
use tonic::{Code, Request, Response, Status, Streaming};
use tonic_health::server::{HealthReporter, health_reporter};

use crate::admission::message_memory::{MessageMemory, MeteredBody};
use crate::admission::rate::RequestPurpose;
use crate::admission::throttle::TOO_MANY_CONTROL_FRAMES;
use crate::auth::{ConnectionInfo, bearer};
use crate::close::CloseNotifier;
use crate::close::{Close, TOO_LARGE, TOO_MANY, unauthenticated};
use crate::config::ConfigError;
use crate::connection::{Received, Sink, Source, SubscribeMode, serve_connection};
use crate::context::AppState;
use crate::context::stopped;
use crate::metrics::Transport;
use crate::peer::Peer;

/// The name in the manifest.
pub(crate) const NAME: &str = "grpc";

/// Metadata of a caller that means to return if its stream is lost, and of one that returns: to this subscription, after
/// this event.
const RESUMABLE: &str = "aaep-resumable";
const SUBSCRIPTION: &str = "aaep-subscription-id";
const LAST_EVENT: &str = "aaep-last-event-id";

/// Messages that wait to be written to a stream.
const MAX_QUEUED_MESSAGES: usize = 16;

/// What a message may be larger than its JSON.
const ENVELOPE_BYTES: usize = 1024;

/// All services.
pub(crate) async fn router(app: AppState) -> Result<Router, ConfigError> {
    let limit = app.context.limits.message_bytes + ENVELOPE_BYTES;
    let app_stopping = app.context.stopping.clone();
    let counted = app.clone();
    let service = AaepServiceServer::new(GrpcService(app)).max_decoding_message_size(limit);
    let (reporter, health) = health_reporter();
    reporter.set_serving::<AaepServiceServer<GrpcService>>().await;
    tokio::spawn(report_shutdown(reporter, app_stopping));
    let told = |e: tonic_reflection::server::Error| ConfigError(format!("grpc: {e}"));
    let described = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(aaep_grpc::FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let routes = Routes::new(service)
        .add_service(health)
        .add_service(described().build_v1().map_err(told)?)
        // What many tools still ask for.
        .add_service(described().build_v1alpha().map_err(told)?);
    Ok(routes.into_axum_router().layer(axum::middleware::map_request_with_state(counted, count_body)))
}

/// Counts the bytes of messages that are not complete yet.
async fn count_body(State(app): State<AppState>, request: axum::extract::Request) -> axum::extract::Request {
    let (mut parts, body) = request.into_parts();
    let certificate = parts.extensions.get::<ConnectionInfo>().and_then(|connection| connection.certificate.as_ref());
    // A caller that is not known is refused later.
    let peer = app.authenticator.identify(bearer(&parts.headers), certificate, Transport::Grpc).ok();
    let principal = peer.as_ref().map(Peer::principal).unwrap_or_default();
    let unfinished = MessageMemory::new(app.context.admission.subscriber_memory(principal));
    parts.extensions.insert(unfinished.clone());
    axum::extract::Request::from_parts(parts, Body::new(MeteredBody { body, unfinished }))
}

/// Tells those who watch that the service ends, and lets them go.
async fn report_shutdown(mut reporter: HealthReporter, mut stopping: watch::Receiver<bool>) {
    stopped(&mut stopping).await;
    reporter.set_not_serving::<AaepServiceServer<GrpcService>>().await;
    for name in ["", "aaep.v1.AaepService"] {
        reporter.clear_service_status(name).await;
    }
}

struct GrpcService(AppState);

#[tonic::async_trait]
impl AaepService for GrpcService {
    type SubscribeStream = Pin<Box<dyn Stream<Item = Result<AaepMessage, Status>> + Send>>;

    async fn subscribe(
        &self,
        request: Request<Streaming<AaepMessage>>,
    ) -> Result<Response<Self::SubscribeStream>, Status> {
        let peer = match self.identify(&request) {
            Ok(peer) => peer,
            Err((rejection, status)) => return Ok(Response::new(rejected(&rejection, status))),
        };
        let deadline = deadline(request.metadata())?;
        let mode = self.subscribe_mode(&peer, request.metadata()).await?;
        let (to, mut from) = mpsc::channel(MAX_QUEUED_MESSAGES);
        let context = self.0.context.clone();
        let unfinished = request.extensions().get::<MessageMemory>().cloned();
        let source = GrpcSource {
            unfinished,
            from: request.into_inner(),
            left: to.clone(),
            limit: context.limits.message_bytes,
            quiet: context.limits.silence() / 2,
        };
        let sink = GrpcSink { to: to.clone(), close_notifier: CloseNotifier::default(), refused: None };
        tokio::spawn(async move {
            let talk = serve_connection(&context, &peer, mode, source, sink);
            let late = tokio::time::timeout(deadline.unwrap_or(Duration::MAX), talk).await.is_err();
            if late {
                let told = to.send(Err(Status::deadline_exceeded("the deadline of the call has passed")));
                // Who has gone need not be told.
                let _ = tokio::time::timeout(context.limits.write_timeout(), told).await;
            }
        });
        Ok(Response::new(Box::pin(stream::poll_fn(move |cx| from.poll_recv(cx)))))
    }

    async fn get_manifest(&self, _: Request<GetManifestRequest>) -> Result<Response<Manifest>, Status> {
        Ok(Response::new(Manifest { json: self.0.published.manifest().into() }))
    }
}

impl GrpcService {
    /// Who calls, within its rate.
    fn identify<T>(&self, request: &Request<T>) -> Result<Peer, (Rejection, Status)> {
        let connection = request.extensions().get::<ConnectionInfo>();
        let certificate = connection.and_then(|connection| connection.certificate.as_ref());
        let headers = request.metadata().clone().into_headers();
        let peer =
            self.0.authenticator.identify(bearer(&headers), certificate, Transport::Grpc).map_err(|unknown| {
                tracing::info!(?unknown, "credentials were refused");
                self.0.context.metrics.unauthenticated();
                (unauthenticated(), Status::unauthenticated("credentials are missing or wrong"))
            })?;
        if self.0.context.rates.take(peer.principal(), RequestPurpose::Subscribe).is_err() {
            self.0.context.metrics.rate_limited();
            let mut rejection = Rejection::new(ReasonCode::RateLimit, "Too many requests. Wait a second.");
            rejection.retry_after_seconds = Some(1);
            return Err((rejection, Status::resource_exhausted(TOO_MANY)));
        }
        if !self.0.authenticator.is_open() {
            connection.iter().for_each(|connection| connection.slot.mark_authenticated());
        }
        Ok(peer.with_slot(connection.map(|connection| connection.slot.clone())))
    }

    /// Whether the caller comes anew or back: 8.7 wants a stream to be known again that returns within a short time. A
    /// caller that means to return says so, since its questions wait for it then.
    async fn subscribe_mode(&self, peer: &Peer, metadata: &MetadataMap) -> Result<SubscribeMode, Status> {
        let Some(id) = read::<SubscriptionId>(metadata, SUBSCRIPTION)? else {
            let binding =
                if metadata.contains_key(RESUMABLE) { ResumePolicy::Resumable } else { ResumePolicy::Connection };
            return Ok(SubscribeMode::New(binding));
        };
        let last = metadata.get(LAST_EVENT).and_then(|last| last.to_str().ok()).filter(|last| !last.is_empty());
        let may = if peer.may(Role::Subscribe) {
            self.0.context.producer.resume(&id, peer.principal(), last).await
        } else {
            None
        };
        // Whose it is or whether it ever was is not told.
        may.map(SubscribeMode::Resume).ok_or_else(|| Status::not_found("there is no such subscription; subscribe anew"))
    }
}

/// The stream of who is not let in: the answer to its request, then the status.
fn rejected(rejection: &Rejection, status: Status) -> <GrpcService as AaepService>::SubscribeStream {
    let message: Message = rejection.to_message().into();
    // Messages hold text, numbers and maps with text keys only: they can always be written.
    let json = serde_json::to_vec(&message).unwrap_or_default().into();
    let message = AaepMessage { json, message_type: "subscription.rejected".to_owned() };
    Box::pin(stream::iter([Ok(message), Err(status)]))
}

/// An id from the metadata of a call.
fn read<T: FromStr>(metadata: &MetadataMap, name: &str) -> Result<Option<T>, Status> {
    let Some(value) = metadata.get(name) else { return Ok(None) };
    let id = value.to_str().ok().and_then(|text| text.parse().ok());
    id.map(Some).ok_or_else(|| Status::invalid_argument(format!("{name} cannot be read")))
}

/// How long the caller wants to wait: up to eight digits and a unit.
fn deadline(metadata: &MetadataMap) -> Result<Option<Duration>, Status> {
    let Some(value) = metadata.get("grpc-timeout") else { return Ok(None) };
    let wrong = || Status::invalid_argument("grpc-timeout cannot be read");
    let text = value.to_str().map_err(|_| wrong())?;
    let (digits, unit) = text.split_at_checked(text.len().wrapping_sub(1)).ok_or_else(wrong)?;
    let digits = Some(digits).filter(|d| (1..=8).contains(&d.len()) && d.bytes().all(|b| b.is_ascii_digit()));
    let number: u64 = digits.and_then(|digits| digits.parse().ok()).ok_or_else(wrong)?;
    let time = match unit {
        "H" => Duration::from_secs(number * 3600),
        "M" => Duration::from_secs(number * 60),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return Err(wrong()),
    };
    Ok(Some(time))
}

struct GrpcSource {
    /// Counts the bytes of the message that is being received.
    unfinished: Option<MessageMemory>,
    from: Streaming<AaepMessage>,
    /// Closed when the caller has given up the call.
    left: mpsc::Sender<Result<AaepMessage, Status>>,
    limit: usize,
    /// How long to wait before saying that all is well: the connection looks after signs of life itself.
    quiet: Duration,
}

impl Source for GrpcSource {
    async fn next(&mut self) -> Received {
        let message = tokio::select! {
            message = self.from.message() => message,
            () = self.left.closed() => return Received::End,
            () = tokio::time::sleep(self.quiet) => return Received::Alive,
        };
        if let (Some(unfinished), Ok(_)) = (&self.unfinished, &message) {
            unfinished.finish();
        }
        match message {
            Ok(Some(message)) if message.json.len() > self.limit => Received::Violation(TOO_LARGE),
            Ok(Some(message)) => Received::Message(message.json),
            Err(status) if status.code() == Code::OutOfRange => Received::Violation(TOO_LARGE),
            Err(status) if status.code() == Code::Internal => Received::Violation("the frame is malformed"),
            Ok(None) | Err(_) => Received::End,
        }
    }
}

struct GrpcSink {
    to: mpsc::Sender<Result<AaepMessage, Status>>,
    close_notifier: CloseNotifier,
    refused: Option<ReasonCode>,
}

impl GrpcSink {
    async fn say(&mut self, json: Bytes, message_type: &str) -> io::Result<()> {
        let message = AaepMessage { json, message_type: message_type.to_owned() };
        self.to.send(Ok(message)).await.map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    async fn say_message(&mut self, message: &Message) -> io::Result<()> {
        let json = serde_json::to_vec(message).map_err(io::Error::other)?;
        let kind = match message {
            Message::SubscriptionAccepted(_) => "subscription.accepted",
            Message::SubscriptionRejected(_) => "subscription.rejected",
            Message::SubscriptionClose(_) => "subscription.close",
            _ => "",
        };
        self.say(json.into(), kind).await
    }
}

impl Sink for GrpcSink {
    async fn send(&mut self, batch: &[Outbound]) -> io::Result<()> {
        for item in batch {
            match item {
                Outbound::Event(frame) => self.say(frame.json().clone(), frame.event().type_name()).await?,
                Outbound::Message(message) => {
                    self.close_notifier.note(message);
                    if let Message::SubscriptionRejected(rejected) = &**message {
                        self.refused = Some(rejected.reason_code.clone());
                    }
                    self.say_message(message).await?;
                }
                Outbound::Closed(_) => {}
            }
        }
        Ok(())
    }

    async fn ping(&mut self) -> io::Result<()> {
        Ok(())
    }

    async fn close(&mut self, close: &Close) {
        if let Some(message) = self.close_notifier.final_message(close) {
            // Who has gone need not be told.
            let _ = self.say_message(&message).await;
        }
        if let Some(status) = status_of(close, self.refused.as_ref()) {
            let _ = self.to.send(Err(status)).await;
        }
    }
}

/// The end in gRPC's words; nothing is a good end.
fn status_of(close: &Close, refused: Option<&ReasonCode>) -> Option<Status> {
    let code = match (close.code, refused) {
        (CloseCode::Normal | CloseCode::SubscriberClosed, _) => return None,
        (CloseCode::Unauthenticated, _) | (_, Some(ReasonCode::AuthenticationRequired)) => Code::Unauthenticated,
        (CloseCode::Unauthorized, _) | (_, Some(ReasonCode::AuthorizationDenied)) => Code::PermissionDenied,
        (_, Some(ReasonCode::RateLimit)) => Code::ResourceExhausted,
        (_, Some(ReasonCode::TransportUnavailable)) => Code::Unavailable,
        (CloseCode::Violation, _)
            if [TOO_LARGE, TOO_MANY, TOO_MANY_CONTROL_FRAMES].contains(&close.reason.as_str()) =>
        {
            Code::ResourceExhausted
        }
        _ if close.cause == Some(CloseReason::TooSlow) => Code::ResourceExhausted,
        _ => Code::InvalidArgument,
    };
    Some(Status::new(code, close.reason.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_are_read_as_grpc_writes_them() {
        let read = |text: &str| {
            let mut metadata = MetadataMap::new();
            metadata.insert("grpc-timeout", text.parse().unwrap());
            deadline(&metadata).ok().flatten()
        };
        assert_eq!(read("2H"), Some(Duration::from_secs(7200)));
        assert_eq!(read("3M"), Some(Duration::from_secs(180)));
        assert_eq!(read("99999999S"), Some(Duration::from_secs(99_999_999)));
        assert_eq!(read("5m"), Some(Duration::from_millis(5)));
        assert_eq!(read("6u"), Some(Duration::from_micros(6)));
        assert_eq!(read("7n"), Some(Duration::from_nanos(7)));
        for wrong in ["", "S", "5", "5x", "-5S", "123456789S", "+5S"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
        assert_eq!(deadline(&MetadataMap::new()).unwrap(), None);
    }

    #[test]
    fn ends_have_their_status() {
        let code = |code, reason: &str, refused| status_of(&Close::new(code, reason), refused).map(|s| s.code());
        assert_eq!(code(CloseCode::Normal, "", None), None);
        assert_eq!(code(CloseCode::SubscriberClosed, "", None), None);
        assert_eq!(code(CloseCode::Violation, TOO_LARGE, None), Some(Code::ResourceExhausted));
        let slow = aaep::transport::CloseInfo { reason: CloseReason::TooSlow, message: "x".to_owned() };
        assert_eq!(status_of(&Close::of(&slow), None).map(|s| s.code()), Some(Code::ResourceExhausted));
        assert_eq!(code(CloseCode::Violation, "the frame is malformed", None), Some(Code::InvalidArgument));
        assert_eq!(code(CloseCode::Rejected, "", Some(&ReasonCode::RateLimit)), Some(Code::ResourceExhausted));
        assert_eq!(code(CloseCode::Rejected, "", Some(&ReasonCode::VersionUnsupported)), Some(Code::InvalidArgument));
        assert_eq!(code(CloseCode::Unauthorized, "", None), Some(Code::PermissionDenied));
    }
}
