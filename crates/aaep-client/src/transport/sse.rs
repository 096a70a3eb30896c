//! Server-Sent Events and POST (appendix B.1).

use aaep_proto::binding::{SseDecoder, TransportKind, path};
use aaep_proto::limits;
use aaep_proto::message::Message;
use aaep_proto::subscriber::{DisconnectReason, HandshakeMode, ResumePoint};
use bytes::Bytes;
use http::header::{CONTENT_TYPE, LOCATION};
use http::{Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming as Body;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::{
    MAX_DISCARDED_BYTES, TransportChannels, TransportCommand, TransportConnection, TransportEvent, message_too_long,
    reply_token, to_json,
};
use crate::address::HttpOrigin;
use crate::http::{Http, HttpResponse, rejection};

/// POST requests that may run at once: a request that hangs must not delay the next one.
pub(super) const MAX_CONCURRENT_POSTS: usize = 8;

/// Opens a connection. With a resume point, its event stream is opened here if the producer still has the subscription;
/// otherwise the stream is opened when the producer has accepted a request.
pub(crate) async fn open(
    http: Http,
    origin: HttpOrigin,
    resume: Option<ResumePoint>,
) -> Result<TransportConnection, DisconnectReason> {
    let (mut connection, channels) = TransportConnection::new(TransportKind::Sse, HandshakeMode::Full, true);
    let mut resumed_stream = None;
    if let Some(resume) = resume {
        let path = events_path(&origin, resume.subscription_id.as_str());
        let response = http.stream(&origin, &path, resume.after.as_ref().map(|id| id.as_str())).await?;
        match response.status() {
            StatusCode::OK => {
                resumed_stream = Some(response);
                connection.resumed = true;
            }
            // The producer does not have the subscription any more.
            StatusCode::NOT_FOUND | StatusCode::GONE | StatusCode::BAD_REQUEST => {}
            other => return Err(rejection(other)),
        }
    }
    let client = SseClient { http, origin, events: channels.events.clone() };
    connection.tasks.spawn(client.run(channels, resumed_stream));
    Ok(connection)
}

fn events_path(origin: &HttpOrigin, subscription_id: &str) -> String {
    format!("{}{}", origin.path, path::events_of(subscription_id))
}

/// Reports that a reply could not be delivered. Other messages need no report.
pub(super) async fn report_undelivered(events: &mpsc::Sender<TransportEvent>, message: &Message) {
    if let Some(token) = reply_token(message) {
        let _ = events.send(TransportEvent::Undelivered(token.clone())).await;
    }
}

#[derive(Clone)]
struct SseClient {
    http: Http,
    origin: HttpOrigin,
    events: mpsc::Sender<TransportEvent>,
}

impl SseClient {
    /// Posts messages, each in a task of its own, and reads the event stream at the same time.
    async fn run(self, mut channels: TransportChannels, resumed_stream: Option<Response<Body>>) {
        let mut streams = JoinSet::new();
        if let Some(response) = resumed_stream {
            streams.spawn(read_stream(response, self.events.clone()));
        }
        let mut posts: JoinSet<Option<String>> = JoinSet::new();
        loop {
            tokio::select! {
                command = channels.commands.recv(), if posts.len() < MAX_CONCURRENT_POSTS => match command {
                    Some(TransportCommand::Send(message)) => {
                        if matches!(*message, Message::SubscriptionClose(_)) {
                            // Everything sent before the close must arrive before it.
                            while posts.join_next().await.is_some() {}
                        }
                        posts.spawn(self.clone().post(message));
                    }
                    // The comments of the producer are the signs of life; they cannot be asked for.
                    Some(TransportCommand::Probe) => {}
                    None => break,
                },
                Some(done) = posts.join_next() => {
                    if let Ok(Some(path)) = done {
                        streams.spawn(self.clone().open_stream(path));
                    }
                }
            }
        }
        while posts.join_next().await.is_some() {}
    }

    /// Posts a message. Returns the path of the event stream if it was a request that was accepted.
    async fn post(self, message: Box<Message>) -> Option<String> {
        let is_request = matches!(*message, Message::SubscriptionRequest(_));
        let endpoint = if is_request { path::SUBSCRIPTIONS } else { path::REPLIES };
        let path = format!("{}{endpoint}", self.origin.path);
        let response = self.http.post(&self.origin, &path, to_json(&message)).await;
        if is_request {
            return self.handle_terms(response).await;
        }
        let delivered = match response {
            Ok(response) => {
                let is_answer = match *message {
                    Message::SubscriptionRenegotiate(_) => is_terms_or_rejection(&response.body),
                    Message::CancellationRequest(_) => is_refusal(&response.body),
                    _ => false,
                };
                if is_answer {
                    let _ = self.events.send(TransportEvent::Message(response.body)).await;
                }
                response.status.is_success()
            }
            Err(_) => false,
        };
        if !delivered {
            report_undelivered(&self.events, &message).await;
        }
        None
    }

    /// Handles the response to a request. Returns the path of the event stream if it was accepted.
    async fn handle_terms(&self, response: Result<HttpResponse, DisconnectReason>) -> Option<String> {
        let response = match response {
            Ok(response) => response,
            Err(reason) => {
                let _ = self.events.send(TransportEvent::Disconnected(reason)).await;
                return None;
            }
        };
        // Terms and rejections are messages; anything else is from a proxy.
        let Ok(message) = Message::parse(&response.body) else {
            let _ = self.events.send(TransportEvent::Disconnected(rejection(response.status))).await;
            return None;
        };
        let path = match &message {
            Message::SubscriptionAccepted(accepted) if response.status.is_success() => {
                let location = response.headers.get(LOCATION).and_then(|value| value.to_str().ok());
                // Only a path on the same host is followed.
                let same_host = location.filter(|path| path.starts_with('/') && !path.starts_with("//"));
                let default = || events_path(&self.origin, accepted.subscription_id.as_str());
                Some(same_host.map_or_else(default, str::to_owned))
            }
            _ => None,
        };
        let _ = self.events.send(TransportEvent::Message(response.body)).await;
        path
    }

    /// Opens the event stream of a new subscription and reads it to its end.
    async fn open_stream(self, path: String) {
        match self.http.stream(&self.origin, &path, None).await {
            Ok(response) if response.status() == StatusCode::OK => read_stream(response, self.events).await,
            Ok(response) => {
                drop(self.events.send(TransportEvent::Disconnected(rejection(response.status()))).await);
            }
            Err(reason) => drop(self.events.send(TransportEvent::Disconnected(reason)).await),
        }
    }
}

fn is_terms_or_rejection(body: &Bytes) -> bool {
    matches!(Message::parse(body), Ok(Message::SubscriptionAccepted(_) | Message::SubscriptionRejected(_)))
}

fn is_refusal(body: &Bytes) -> bool {
    matches!(Message::parse(body), Ok(Message::CancellationRefused(_)))
}

/// Reads an event stream to its end and reports that.
pub(super) async fn read_stream(response: Response<Body>, events: mpsc::Sender<TransportEvent>) {
    let reason = read_until_end(response, &events).await;
    let _ = events.send(TransportEvent::Disconnected(reason)).await;
}

async fn read_until_end(response: Response<Body>, events: &mpsc::Sender<TransportEvent>) -> DisconnectReason {
    let content_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if !content_type.trim_start().starts_with("text/event-stream") {
        return DisconnectReason::Broken("the response is not an event stream".to_owned());
    }
    let mut body = response.into_body();
    let mut decoder = SseDecoder::new(limits::MESSAGE_BYTES);
    let mut decoded = Vec::new();
    loop {
        let data = match body.frame().await {
            Some(Ok(frame)) => frame.into_data().unwrap_or_default(),
            Some(Err(error)) => return crate::net::disconnect_reason(&error),
            None => return DisconnectReason::Broken("the stream ended".to_owned()),
        };
        // Any bytes, also a comment, show that the producer is alive.
        if events.send(TransportEvent::Alive).await.is_err() {
            return driver_gone();
        }
        decoder.push(&data, |event| decoded.push(event));
        for event in decoded.drain(..) {
            let event = match event.too_long {
                Some(length) => TransportEvent::Unreadable(format!("it has {length} bytes.")),
                None => TransportEvent::Message(event.data.into()),
            };
            if events.send(event).await.is_err() {
                return driver_gone();
            }
        }
        if decoder.skipped() > MAX_DISCARDED_BYTES {
            return message_too_long();
        }
    }
}

/// Returns the reason to stop reading when the driver dropped the connection. It is not reported to anyone.
fn driver_gone() -> DisconnectReason {
    DisconnectReason::Broken("the subscriber closed the connection".to_owned())
}
