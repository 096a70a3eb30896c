//! Server-Sent Events and POST (appendix B.1).

use aaep_proto::binding::SseDecoder;
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

use super::{ABSURD, Connection, Incoming, Outgoing, TransportChannels, endless, to_json, token_of};
use crate::address::HttpOrigin;
use crate::http::{Http, rejection};

/// Posts that may be under way at once: a stuck one must not hold up the next.
const AT_ONCE: usize = 8;

/// Opens the wire. If a stream can be taken up again, it is; else a request must come first.
pub(crate) async fn open(
    http: Http,
    site: HttpOrigin,
    resume: Option<ResumePoint>,
) -> Result<Connection, DisconnectReason> {
    let (mut wire, ends) = Connection::new(HandshakeMode::Full, true);
    let mut first = None;
    if let Some(resume) = resume {
        let path = events_path(&site, resume.subscription_id.as_str());
        let response = http.stream(&site, &path, resume.after.as_ref().map(|id| id.as_str())).await?;
        match response.status() {
            StatusCode::OK => {
                first = Some(response);
                wire.resumed = true;
            }
            // The producer has forgotten it.
            StatusCode::NOT_FOUND | StatusCode::GONE | StatusCode::BAD_REQUEST => {}
            other => return Err(rejection(other)),
        }
    }
    let speaker = Speaker { http, site, heard: ends.heard.clone() };
    wire.tasks.spawn(speaker.speak(ends, first));
    Ok(wire)
}

fn events_path(site: &HttpOrigin, subscription: &str) -> String {
    format!("{}/aaep/v1/events?subscription_id={subscription}", site.path)
}

#[derive(Clone)]
struct Speaker {
    http: Http,
    site: HttpOrigin,
    heard: mpsc::Sender<Incoming>,
}

impl Speaker {
    /// Sends what is said, each in a task of its own, and reads the stream beside it.
    async fn speak(self, mut ends: TransportChannels, first: Option<Response<Body>>) {
        let mut reading = JoinSet::new();
        if let Some(response) = first {
            reading.spawn(read(response, self.heard.clone()));
        }
        let mut posts: JoinSet<Option<String>> = JoinSet::new();
        loop {
            tokio::select! {
                said = ends.said.recv(), if posts.len() < AT_ONCE => match said {
                    Some(Outgoing::Message(message)) => {
                        if matches!(*message, Message::SubscriptionClose(_)) {
                            // What was said before it arrives before it.
                            while posts.join_next().await.is_some() {}
                        }
                        posts.spawn(self.clone().post(message));
                    }
                    // The producer's comments are the signs of life here; they cannot be asked for.
                    Some(Outgoing::Probe) => {}
                    None => break,
                },
                Some(done) = posts.join_next() => {
                    if let Ok(Some(path)) = done {
                        reading.spawn(self.clone().listen(path));
                    }
                }
            }
        }
        while posts.join_next().await.is_some() {}
    }

    /// Posts a message; answers where the events are, if it was a request that was granted.
    async fn post(self, message: Box<Message>) -> Option<String> {
        let is_request = matches!(*message, Message::SubscriptionRequest(_));
        let path = if is_request { "subscriptions" } else { "replies" };
        let path = format!("{}/aaep/v1/{path}", self.site.path);
        let answer = self.http.post(&self.site, &path, to_json(&message)).await;
        if is_request {
            return self.take_terms(answer).await;
        }
        let delivered = match answer {
            Ok(answer) => {
                let answers = matches!(*message, Message::SubscriptionRenegotiate(_)) && !answer.body.is_empty();
                if answers && is_message(&answer.body) {
                    // Nobody listens any more if this fails.
                    let _ = self.heard.send(Incoming::Message(answer.body)).await;
                }
                answer.status.is_success()
            }
            Err(_) => false,
        };
        if let Some(token) = token_of(&message).filter(|_| !delivered) {
            let _ = self.heard.send(Incoming::Undelivered(token.clone())).await;
        }
        None
    }

    async fn take_terms(&self, answer: Result<crate::http::Answer, DisconnectReason>) -> Option<String> {
        let answer = match answer {
            Ok(answer) => answer,
            Err(loss) => {
                let _ = self.heard.send(Incoming::Lost(loss)).await;
                return None;
            }
        };
        // Both terms and refusals are messages; anything else comes from someone in between.
        let Ok(message) = Message::parse(&answer.body) else {
            let _ = self.heard.send(Incoming::Lost(rejection(answer.status))).await;
            return None;
        };
        let path = match &message {
            Message::SubscriptionAccepted(accepted) if answer.status.is_success() => {
                let told = answer.headers.get(LOCATION).and_then(|value| value.to_str().ok());
                // Another host has no business with this subscription.
                let own = told.filter(|path| path.starts_with('/') && !path.starts_with("//"));
                let usual = || events_path(&self.site, accepted.subscription_id.as_str());
                Some(own.map_or_else(usual, str::to_owned))
            }
            _ => None,
        };
        let _ = self.heard.send(Incoming::Message(answer.body)).await;
        path
    }

    /// Opens the stream of a new subscription and reads it.
    async fn listen(self, path: String) {
        match self.http.stream(&self.site, &path, None).await {
            Ok(response) if response.status() == StatusCode::OK => read(response, self.heard).await,
            Ok(response) => drop(self.heard.send(Incoming::Lost(rejection(response.status()))).await),
            Err(loss) => drop(self.heard.send(Incoming::Lost(loss)).await),
        }
    }
}

fn is_message(body: &Bytes) -> bool {
    matches!(Message::parse(body), Ok(Message::SubscriptionAccepted(_) | Message::SubscriptionRejected(_)))
}

/// Reads a stream to its end.
pub(super) async fn read(response: Response<Body>, heard: mpsc::Sender<Incoming>) {
    let lost = read_all(response, &heard).await;
    // Nobody listens any more if this fails.
    let _ = heard.send(Incoming::Lost(lost)).await;
}

async fn read_all(response: Response<Body>, heard: &mpsc::Sender<Incoming>) -> DisconnectReason {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if !kind.trim_start().starts_with("text/event-stream") {
        return DisconnectReason::Broken("the answer is not a stream of events".to_owned());
    }
    let mut body = response.into_body();
    let mut sse = SseDecoder::new(limits::MESSAGE_BYTES);
    let mut events = Vec::new();
    loop {
        let data = match body.frame().await {
            Some(Ok(frame)) => frame.into_data().unwrap_or_default(),
            Some(Err(error)) => return crate::net::loss(&error),
            None => return DisconnectReason::Broken("the stream ended".to_owned()),
        };
        // Also a comment says that the producer is there.
        if heard.send(Incoming::Alive).await.is_err() {
            return DisconnectReason::Broken("nobody listens".to_owned());
        }
        sse.push(&data, |event| events.push(event));
        for event in events.drain(..) {
            let incoming = match event.too_long {
                Some(length) => Incoming::Unreadable(format!("it has {length} bytes.")),
                None => Incoming::Message(event.data.into()),
            };
            if heard.send(incoming).await.is_err() {
                return DisconnectReason::Broken("nobody listens".to_owned());
            }
        }
        if sse.skipped() > ABSURD {
            return endless();
        }
    }
}
