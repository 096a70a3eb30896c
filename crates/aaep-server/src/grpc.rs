//! The gRPC binding: `aaep.v1.AaepService` with health and reflection, over the same listener, TLS and host checks as
//! HTTP.

use aaep_proto::binding::{CloseCode, metadata};
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

use crate::admission::message_memory::MessageMemory;
use crate::admission::metered_body::MeteredBody;
use crate::admission::rate::RequestPurpose;
use crate::auth::{ConnectionInfo, bearer};
use crate::close::CloseNotifier;
use crate::close::{Close, Violation, unauthenticated};
use crate::config::ConfigError;
use crate::connection::{Received, Sink, Source, SubscribeMode, serve_connection};
use crate::context::AppState;
use crate::context::stopped;
use crate::metrics::Transport;
use crate::peer::Peer;

/// Messages that wait to be written to a stream.
const MAX_QUEUED_MESSAGES: usize = 16;

/// How much larger than its JSON a message may be.
const ENVELOPE_BYTES: usize = 1024;

/// Returns the router of all gRPC services.
pub(crate) async fn router(app: AppState) -> Result<Router, ConfigError> {
    let limit = app.context.limits.message_bytes + ENVELOPE_BYTES;
    let app_stopping = app.context.stopping.clone();
    let counted = app.clone();
    let service = AaepServiceServer::new(GrpcService(app)).max_decoding_message_size(limit);
    let (reporter, health) = health_reporter();
    reporter.set_serving::<AaepServiceServer<GrpcService>>().await;
    tokio::spawn(report_shutdown(reporter, app_stopping));
    let error = |e: tonic_reflection::server::Error| ConfigError(format!("grpc: {e}"));
    let described = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(aaep_grpc::FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let routes = Routes::new(service)
        .add_service(health)
        .add_service(described().build_v1().map_err(error)?)
        // Many tools still use the old version of the reflection service.
        .add_service(described().build_v1alpha().map_err(error)?);
    Ok(routes.into_axum_router().layer(axum::middleware::map_request_with_state(counted, count_body)))
}

/// Reserves memory for the bytes of incomplete messages.
async fn count_body(State(app): State<AppState>, request: axum::extract::Request) -> axum::extract::Request {
    let (mut parts, body) = request.into_parts();
    let certificate = parts.extensions.get::<ConnectionInfo>().and_then(|connection| connection.certificate.as_ref());
    // A caller without valid credentials is rejected by the service.
    let peer = app.authenticator.identify(bearer(&parts.headers), certificate, Transport::Grpc).ok();
    let principal = peer.as_ref().map(Peer::principal).unwrap_or_default();
    let memory = MessageMemory::new(app.context.admission.subscriber_memory(principal));
    parts.extensions.insert(memory.clone());
    axum::extract::Request::from_parts(parts, Body::new(MeteredBody { body, memory }))
}

/// Reports the shutdown to clients that watch the health service, and ends their streams.
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
        let memory = request.extensions().get::<MessageMemory>().cloned();
        let source = GrpcSource {
            memory,
            from: request.into_inner(),
            cancelled: to.clone(),
            limit: context.limits.message_bytes,
            alive_interval: context.limits.silence() / 2,
        };
        let sink = GrpcSink { to: to.clone(), close_notifier: CloseNotifier::default(), rejected: None };
        tokio::spawn(async move {
            let talk = serve_connection(&context, &peer, mode, source, sink);
            let late = tokio::time::timeout(deadline.unwrap_or(Duration::MAX), talk).await.is_err();
            if late {
                let status = to.send(Err(Status::deadline_exceeded("the deadline of the call has passed")));
                // The call ends next, whether or not the caller received this.
                let _ = tokio::time::timeout(context.limits.write_timeout(), status).await;
            }
        });
        Ok(Response::new(Box::pin(stream::poll_fn(move |cx| from.poll_recv(cx)))))
    }

    async fn get_manifest(&self, _: Request<GetManifestRequest>) -> Result<Response<Manifest>, Status> {
        Ok(Response::new(Manifest { json: self.0.published.manifest().into() }))
    }
}

impl GrpcService {
    /// Returns the caller, if it has valid credentials and is within its rate.
    fn identify<T>(&self, request: &Request<T>) -> Result<Peer, (Rejection, Status)> {
        let connection = request.extensions().get::<ConnectionInfo>();
        let certificate = connection.and_then(|connection| connection.certificate.as_ref());
        let headers = request.metadata().clone().into_headers();
        let peer = self.0.authenticator.identify(bearer(&headers), certificate, Transport::Grpc).map_err(|error| {
            tracing::info!(?error, "credentials rejected");
            self.0.context.metrics.unauthenticated();
            (unauthenticated(), Status::unauthenticated("credentials are missing or wrong"))
        })?;
        if self.0.context.rates.take(peer.principal(), RequestPurpose::Subscribe).is_err() {
            self.0.context.metrics.rate_limited();
            let mut rejection = Rejection::new(ReasonCode::RateLimit, "Too many requests. Wait a second.");
            rejection.retry_after_seconds = Some(1);
            return Err((rejection, Status::resource_exhausted(Violation::TooManyMessages.as_str())));
        }
        if !self.0.authenticator.is_open() {
            connection.iter().for_each(|connection| connection.slot.mark_authenticated());
        }
        Ok(peer.with_slot(connection.map(|connection| connection.slot.clone())))
    }

    /// Returns whether the caller opens a new subscription or resumes one (8.7). A caller that intends to resume declares
    /// it with the first call, because its questions then wait for it.
    async fn subscribe_mode(&self, peer: &Peer, metadata: &MetadataMap) -> Result<SubscribeMode, Status> {
        let Some(id) = read_id::<SubscriptionId>(metadata, metadata::SUBSCRIPTION_ID)? else {
            let binding = if metadata.contains_key(metadata::RESUMABLE) {
                ResumePolicy::Resumable
            } else {
                ResumePolicy::Connection
            };
            return Ok(SubscribeMode::New(binding));
        };
        let last =
            metadata.get(metadata::LAST_EVENT_ID).and_then(|last| last.to_str().ok()).filter(|last| !last.is_empty());
        let may = if peer.may(Role::Subscribe) { self.0.context.resume(peer, &id, last).await } else { None };
        // The status does not reveal whether the subscription exists and belongs to another principal.
        may.map(SubscribeMode::Resume).ok_or_else(|| Status::not_found("no such subscription; subscribe again"))
    }
}

/// Returns the stream of a rejected caller: the rejection, then the status.
fn rejected(rejection: &Rejection, status: Status) -> <GrpcService as AaepService>::SubscribeStream {
    let message: Message = rejection.to_message().into();
    // Messages hold text, numbers and maps with text keys only, so serialization cannot fail.
    let json = serde_json::to_vec(&message).unwrap_or_default().into();
    let message = AaepMessage { json, message_type: "subscription.rejected".to_owned() };
    Box::pin(stream::iter([Ok(message), Err(status)]))
}

/// Returns an id from the metadata of a call.
fn read_id<T: FromStr>(metadata: &MetadataMap, name: &str) -> Result<Option<T>, Status> {
    let Some(value) = metadata.get(name) else { return Ok(None) };
    let id = value.to_str().ok().and_then(|text| text.parse().ok());
    id.map(Some).ok_or_else(|| Status::invalid_argument(format!("{name} cannot be read")))
}

/// Returns the deadline of a call: up to eight digits and a unit.
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
    /// Memory of the message that is being received.
    memory: Option<MessageMemory>,
    from: Streaming<AaepMessage>,
    /// Closed when the caller has cancelled the call.
    cancelled: mpsc::Sender<Result<AaepMessage, Status>>,
    limit: usize,
    /// How often to report a quiet caller as alive: HTTP/2 has its own keep-alive.
    alive_interval: Duration,
}

impl Source for GrpcSource {
    async fn next(&mut self) -> Received {
        let message = tokio::select! {
            message = self.from.message() => message,
            () = self.cancelled.closed() => return Received::End,
            () = tokio::time::sleep(self.alive_interval) => return Received::Alive,
        };
        if let (Some(memory), Ok(_)) = (&self.memory, &message) {
            memory.finish();
        }
        match message {
            Ok(Some(message)) if message.json.len() > self.limit => Received::Violation(Violation::MessageTooLarge),
            Ok(Some(message)) => Received::Message(message.json),
            Err(status) if status.code() == Code::OutOfRange => Received::Violation(Violation::MessageTooLarge),
            Err(status) if status.code() == Code::Internal => {
                Received::Violation(Violation::Other("the frame is malformed"))
            }
            Ok(None) | Err(_) => Received::End,
        }
    }
}

struct GrpcSink {
    to: mpsc::Sender<Result<AaepMessage, Status>>,
    close_notifier: CloseNotifier,
    rejected: Option<ReasonCode>,
}

impl GrpcSink {
    async fn send_json(&mut self, json: Bytes, message_type: &str) -> io::Result<()> {
        let message = AaepMessage { json, message_type: message_type.to_owned() };
        self.to.send(Ok(message)).await.map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    async fn send_message(&mut self, message: &Message) -> io::Result<()> {
        let json = serde_json::to_vec(message).map_err(io::Error::other)?;
        let kind = match message {
            Message::SubscriptionAccepted(_) => "subscription.accepted",
            Message::SubscriptionRejected(_) => "subscription.rejected",
            Message::SubscriptionClose(_) => "subscription.close",
            Message::CancellationRefused(_) => "cancellation:refused",
            _ => "",
        };
        self.send_json(json.into(), kind).await
    }
}

impl Sink for GrpcSink {
    async fn send(&mut self, batch: &[Outbound]) -> io::Result<()> {
        for item in batch {
            match item {
                Outbound::Event(frame) => self.send_json(frame.json().clone(), frame.event().type_name()).await?,
                Outbound::Message(message) => {
                    self.close_notifier.note(message);
                    if let Message::SubscriptionRejected(rejected) = &**message {
                        self.rejected = Some(rejected.reason_code.clone());
                    }
                    self.send_message(message).await?;
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
            // The stream ends next, whether or not the caller received this.
            let _ = self.send_message(&message).await;
        }
        if let Some(status) = status_of(close, self.rejected.as_ref()) {
            let _ = self.to.send(Err(status)).await;
        }
    }
}

/// Returns the gRPC status of a close, or `None` for OK.
fn status_of(close: &Close, refused: Option<&ReasonCode>) -> Option<Status> {
    let code = match (close.code, refused) {
        (CloseCode::Normal | CloseCode::SubscriberClosed, _) => return None,
        (CloseCode::Unauthenticated, _) | (_, Some(ReasonCode::AuthenticationRequired)) => Code::Unauthenticated,
        (CloseCode::Unauthorized, _) | (_, Some(ReasonCode::AuthorizationDenied)) => Code::PermissionDenied,
        (_, Some(ReasonCode::RateLimit)) => Code::ResourceExhausted,
        (_, Some(ReasonCode::TransportUnavailable)) => Code::Unavailable,
        _ if is_over_limit(close) => Code::ResourceExhausted,
        _ => Code::InvalidArgument,
    };
    Some(Status::new(code, close.reason.clone()))
}

fn is_over_limit(close: &Close) -> bool {
    let of_peer = [Violation::MessageTooLarge, Violation::TooManyMessages, Violation::TooManyControlFrames];
    close.cause == Some(CloseReason::TooSlow) || close.violation.is_some_and(|violation| of_peer.contains(&violation))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_are_parsed_as_grpc_defines_them() {
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
    fn closes_have_their_status() {
        let code = |code, reason: &str, refused| status_of(&Close::new(code, reason), refused).map(|s| s.code());
        assert_eq!(code(CloseCode::Normal, "", None), None);
        assert_eq!(code(CloseCode::SubscriberClosed, "", None), None);
        let violation = |violation| status_of(&Close::violation(violation), None).map(|s| s.code());
        assert_eq!(violation(Violation::MessageTooLarge), Some(Code::ResourceExhausted));
        assert_eq!(violation(Violation::TooManyMessages), Some(Code::ResourceExhausted));
        assert_eq!(violation(Violation::TooManyControlFrames), Some(Code::ResourceExhausted));
        assert_eq!(violation(Violation::Other("the frame is malformed")), Some(Code::InvalidArgument));
        let slow = aaep::transport::CloseInfo { reason: CloseReason::TooSlow, message: "x".to_owned() };
        assert_eq!(status_of(&Close::of(&slow), None).map(|s| s.code()), Some(Code::ResourceExhausted));
        assert_eq!(code(CloseCode::Violation, "the frame is malformed", None), Some(Code::InvalidArgument));
        assert_eq!(code(CloseCode::Rejected, "", Some(&ReasonCode::RateLimit)), Some(Code::ResourceExhausted));
        assert_eq!(code(CloseCode::Rejected, "", Some(&ReasonCode::VersionUnsupported)), Some(Code::InvalidArgument));
        assert_eq!(code(CloseCode::Unauthorized, "", None), Some(Code::PermissionDenied));
    }
}
