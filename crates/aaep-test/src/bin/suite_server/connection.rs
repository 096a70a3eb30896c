//! One connection of the suite: a subscription, the sessions it started, and its outbound messages.

use std::collections::VecDeque;
use std::pin::pin;
use std::time::{SystemTime, UNIX_EPOCH};

use aaep::Producer;
use aaep::id::SessionId;
use aaep::message::{Capabilities, CloseReason, Message, SubscriptionRequest};
use aaep::transport::{Link, Outbound, ResumePolicy};
use aaep_proto::time::Timestamp;
use serde_json::{Map, Value, json};
use tokio::task::JoinSet;

use super::scripts::SuiteScript;

/// The principal of the suite. Nothing authenticates it, but only loopback clients are served.
const PRINCIPAL: &str = "conformance-suite";

/// Maximum number of concurrent sessions. The suite leaves one open at most.
const MAX_SESSIONS: usize = 32;

/// Maximum number of sessions remembered as started by this connection.
const MAX_OWN_SESSIONS: usize = 256;

/// Maximum number of queued messages. The subscription itself applies backpressure much earlier.
const MAX_QUEUED_MESSAGES: usize = 1024;

/// The document is not a JSON object.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NotAnObject;

/// A connection of the suite. Dropping it ends its subscription and its sessions.
pub(super) struct SuiteConnection {
    producer: Producer,
    /// `None` after the subscriber has closed the subscription.
    link: Option<Link>,
    /// Messages to send before anything that the link yields.
    queued: VecDeque<String>,
    /// The sessions started here. If there are any, events of other sessions are not sent: the suite counts messages.
    own: VecDeque<SessionId>,
    playing: JoinSet<()>,
    ended: bool,
}

impl SuiteConnection {
    /// Opens a connection that is subscribed to every event and may reply. Returns `None` if the producer is full.
    pub(super) async fn open(producer: Producer) -> Option<SuiteConnection> {
        let link = Some(subscribe_implicitly(&producer).await?);
        let (queued, own) = (VecDeque::new(), VecDeque::new());
        Some(SuiteConnection { producer, link, queued, own, playing: JoinSet::new(), ended: false })
    }

    /// Returns the next message to send, or `None` after the producer has ended. Cancel-safe.
    pub(super) async fn next(&mut self) -> Option<String> {
        loop {
            if let Some(text) = self.queued.pop_front() {
                return Some(text);
            }
            if self.ended {
                return None;
            }
            match &mut self.link {
                Some(link) => {
                    let outgoing = link.recv().await;
                    self.handle_outbound(outgoing);
                }
                None => std::future::pending().await,
            }
        }
    }

    /// Handles a message of the suite. Unknown messages are ignored.
    pub(super) async fn handle_message(&mut self, document: &[u8]) -> Result<(), NotAnObject> {
        let mut object: Map<String, Value> = serde_json::from_slice(document).map_err(|_| NotAnObject)?;
        let text = |name| object.get(name).and_then(Value::as_str).unwrap_or_default();
        match (text("kind"), text("type")) {
            ("user_input", _) => self.start_session(SuiteScript::choose(text("text"))).await,
            (_, "subscription.request") => match parse(&object) {
                Some(Message::SubscriptionRequest(request)) => self.subscribe(&request).await,
                _ => tracing::debug!("ignored a malformed subscription request"),
            },
            (_, "confirmation.reply" | "clarification.reply") => {
                self.complete_reply(&mut object);
                self.forward(&object).await;
            }
            (_, "subscription.renegotiate" | "subscription.close") => self.forward(&object).await,
            _ => tracing::debug!("ignored an unknown message"),
        }
        Ok(())
    }

    /// Starts a session and queues its acknowledgement before its first event.
    async fn start_session(&mut self, script: SuiteScript) {
        while self.playing.try_join_next().is_some() {}
        if self.playing.len() >= MAX_SESSIONS {
            return tracing::debug!("too many concurrent sessions; no other is started");
        }
        match self.producer.session(script.opening()).await {
            Ok(session) => {
                self.queued.push_back(json!({"kind": "user_input.ack", "session_id": session.id()}).to_string());
                self.own.push_back(session.id().clone());
                if self.own.len() > MAX_OWN_SESSIONS {
                    self.own.pop_front();
                }
                self.playing.spawn(async move {
                    if let Err(error) = script.play(session).await {
                        tracing::warn!(?script, %error, "session failed");
                    }
                });
            }
            Err(error) => tracing::warn!(%error, "cannot start a session"),
        }
    }

    /// Replaces the subscription. Sessions with an open question end first: the new subscription would receive the
    /// question, and the suite expects the first message to be the answer to its request.
    async fn subscribe(&mut self, request: &SubscriptionRequest) {
        self.link = None;
        self.playing.shutdown().await;
        match self.producer.subscribe(request, PRINCIPAL, ResumePolicy::Connection).await {
            Ok(link) => self.link = Some(link),
            Err(rejection) => {
                let rejected = Message::from(rejection.to_message());
                self.queued.extend(serde_json::to_string(&rejected));
                self.link = subscribe_implicitly(&self.producer).await;
            }
        }
    }

    /// Fills in what a reply of the suite lacks: it invents or omits the subscription id, and may omit the time.
    fn complete_reply(&self, reply: &mut Map<String, Value>) {
        let Some(link) = &self.link else { return };
        reply.insert("subscription_id".to_owned(), json!(link.id()));
        reply.entry("timestamp").or_insert_with(|| {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            json!(Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX)))
        });
    }

    /// Passes a message to the producer, reading from the link meanwhile, since sending waits for a full link.
    async fn forward(&mut self, object: &Map<String, Value>) {
        let (Some(link), Some(message)) = (&self.link, parse(object)) else {
            return tracing::debug!("ignored a malformed message");
        };
        let sender = link.sender();
        let mut sent = pin!(sender.send(message));
        while let Some(link) = &mut self.link {
            tokio::select! {
                biased;
                // An error means that the producer has ended, which the link reports too.
                _ = &mut sent => return,
                outgoing = link.recv() => self.handle_outbound(outgoing),
            }
        }
    }

    /// Queues what the producer sends, if it is for this connection.
    fn handle_outbound(&mut self, outgoing: Option<Outbound>) {
        match outgoing {
            Some(Outbound::Event(frame)) => {
                if self.own.is_empty() || self.own.contains(frame.session()) {
                    self.queued.push_back(String::from_utf8_lossy(frame.json()).into_owned());
                }
            }
            Some(Outbound::Message(message)) => self.queued.extend(serde_json::to_string(&message)),
            Some(Outbound::Closed(closing)) => {
                self.ended = closing.reason != CloseReason::SubscriberClosed;
                self.link = None;
            }
            None => self.link = None,
        }
        if self.queued.len() > MAX_QUEUED_MESSAGES {
            self.ended = true;
            self.link = None;
        }
    }
}

/// Opens the implicit subscription: all events, able to reply. Its acceptance is not sent.
async fn subscribe_implicitly(producer: &Producer) -> Option<Link> {
    let mut capabilities = Capabilities::default();
    capabilities.fields.supports_confirmation_reply = Some(true);
    capabilities.fields.supports_clarification_reply = Some(true);
    let request = SubscriptionRequest::new(PRINCIPAL, capabilities);
    let subscribed = producer.subscribe(&request, PRINCIPAL, ResumePolicy::Connection).await;
    let mut link =
        subscribed.inspect_err(|rejection| tracing::warn!(%rejection, "implicit subscription rejected")).ok()?;
    link.recv().await;
    Some(link)
}

fn parse(object: &Map<String, Value>) -> Option<Message> {
    Message::parse(&serde_json::to_vec(object).ok()?).ok()
}
