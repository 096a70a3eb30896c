//! One connection of the suite: a subscription, the sessions that it started, and what waits to be sent.

use std::collections::VecDeque;
use std::pin::pin;
use std::time::{SystemTime, UNIX_EPOCH};

use aaep::Producer;
use aaep::id::SessionId;
use aaep::message::{AAEP_VERSION, Capabilities, CloseReason, Message, SubscriptionRequest};
use aaep::transport::{Link, Outbound, ResumePolicy};
use aaep_proto::time::Timestamp;
use serde_json::{Map, Value, json};
use tokio::task::JoinSet;

use super::scripts::Script;

/// Who the suite is: there is nobody to prove it, but nobody else can come here.
const PRINCIPAL: &str = "conformance-suite";

/// Sessions at once. The suite leaves one open at most.
const SESSIONS: usize = 32;

/// Sessions whose events are known to be this connection's own.
const REMEMBERED: usize = 256;

/// Messages that may wait for who does not read. The subscription itself holds back much earlier.
const WAITING: usize = 1024;

/// What came is not a JSON object.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NotAnObject;

/// A connection. Dropping it ends its subscription and its sessions.
pub(super) struct Connection {
    producer: Producer,
    /// None after the subscriber has closed it.
    link: Option<Link>,
    /// What goes out before anything that the link yields.
    waiting: VecDeque<String>,
    /// The sessions that were started here. With any, those of others are not told: the suite counts messages.
    own: VecDeque<SessionId>,
    playing: JoinSet<()>,
    ended: bool,
}

impl Connection {
    /// A connection that is subscribed to everything and can answer. Nothing, if the producer has no place for it.
    pub(super) async fn open(producer: Producer) -> Option<Connection> {
        let link = Some(subscribe_unasked(&producer).await?);
        let (waiting, own) = (VecDeque::new(), VecDeque::new());
        Some(Connection { producer, link, waiting, own, playing: JoinSet::new(), ended: false })
    }

    /// The next message to send; nothing after the producer has ended. Giving up waiting loses nothing.
    pub(super) async fn next(&mut self) -> Option<String> {
        loop {
            if let Some(text) = self.waiting.pop_front() {
                return Some(text);
            }
            if self.ended {
                return None;
            }
            match &mut self.link {
                Some(link) => {
                    let outgoing = link.recv().await;
                    self.take(outgoing);
                }
                None => std::future::pending().await,
            }
        }
    }

    /// A message of the suite. What is not understood is ignored.
    pub(super) async fn hear(&mut self, document: &[u8]) -> Result<(), NotAnObject> {
        let mut object: Map<String, Value> = serde_json::from_slice(document).map_err(|_| NotAnObject)?;
        let word = |name| object.get(name).and_then(Value::as_str).unwrap_or_default();
        match (word("kind"), word("type")) {
            ("user_input", _) => self.begin(Script::choose(word("text"))).await,
            (_, "subscription.request") => match parse(&object) {
                Some(Message::SubscriptionRequest(request)) => self.subscribe(&request).await,
                _ => tracing::debug!("a request that cannot be read was ignored"),
            },
            (_, "confirmation.reply" | "clarification.reply") => {
                self.complete_reply(&mut object);
                self.say(&object).await;
            }
            (_, "subscription.renegotiate" | "subscription.close") => self.say(&object).await,
            _ => tracing::debug!("an unknown message was ignored"),
        }
        Ok(())
    }

    /// Starts a session, and says so before its first event can be sent.
    async fn begin(&mut self, script: Script) {
        while self.playing.try_join_next().is_some() {}
        if self.playing.len() >= SESSIONS {
            return tracing::debug!("too many sessions at once: no other is started");
        }
        match self.producer.session(script.opening()).await {
            Ok(session) => {
                self.waiting.push_back(json!({"kind": "user_input.ack", "session_id": session.id()}).to_string());
                self.own.push_back(session.id().clone());
                if self.own.len() > REMEMBERED {
                    self.own.pop_front();
                }
                self.playing.spawn(async move {
                    if let Err(error) = script.play(session).await {
                        tracing::warn!(?script, %error, "a session of the suite went wrong");
                    }
                });
            }
            Err(error) => tracing::warn!(%error, "no session could be started for the suite"),
        }
    }

    /// A new subscription in place of the one before. Sessions that wait for an answer end first: the new subscription
    /// would be told of them, and the suite takes the first message for the answer to its request.
    async fn subscribe(&mut self, request: &SubscriptionRequest) {
        self.link = None;
        self.playing.shutdown().await;
        match self.producer.subscribe(request, PRINCIPAL, ResumePolicy::Connection).await {
            Ok(link) => self.link = Some(link),
            Err(rejection) => {
                let rejected = Message::from(rejection.to_message());
                self.waiting.extend(serde_json::to_string(&rejected));
                self.link = subscribe_unasked(&self.producer).await;
            }
        }
    }

    /// The suite makes up subscription ids and others leave them out; the time may be missing too.
    fn complete_reply(&self, reply: &mut Map<String, Value>) {
        let Some(link) = &self.link else { return };
        reply.insert("subscription_id".to_owned(), json!(link.id()));
        reply.entry("timestamp").or_insert_with(|| {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            json!(Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX)))
        });
    }

    /// Hands a message to the producer. It may have to read meanwhile: who does not read is not heard.
    async fn say(&mut self, object: &Map<String, Value>) {
        let (Some(link), Some(message)) = (&self.link, parse(object)) else {
            return tracing::debug!("a message that cannot be read was ignored");
        };
        let sender = link.sender();
        let mut said = pin!(sender.send(message));
        while let Some(link) = &mut self.link {
            tokio::select! {
                biased;
                // Without a producer there is nobody left to tell.
                _ = &mut said => return,
                outgoing = link.recv() => self.take(outgoing),
            }
        }
    }

    /// Puts what the producer sends into the line, if it is for this connection.
    fn take(&mut self, outgoing: Option<Outbound>) {
        match outgoing {
            Some(Outbound::Event(frame)) => {
                if self.own.is_empty() || self.own.contains(frame.session()) {
                    self.waiting.push_back(String::from_utf8_lossy(frame.json()).into_owned());
                }
            }
            Some(Outbound::Message(message)) => self.waiting.extend(serde_json::to_string(&message)),
            Some(Outbound::Closed(closing)) => {
                self.ended = closing.reason != CloseReason::SubscriberClosed;
                self.link = None;
            }
            None => self.link = None,
        }
        if self.waiting.len() > WAITING {
            self.ended = true;
            self.link = None;
        }
    }
}

/// The subscription that nobody asked for: all events, and able to reply. Its acceptance is not told.
async fn subscribe_unasked(producer: &Producer) -> Option<Link> {
    let mut capabilities = Capabilities::default();
    capabilities.fields.supports_confirmation_reply = Some(true);
    capabilities.fields.supports_clarification_reply = Some(true);
    let request = SubscriptionRequest {
        aaep_version: AAEP_VERSION.to_owned(),
        subscriber_id: PRINCIPAL.to_owned(),
        subscriber_name: None,
        subscriber_version: None,
        subscriber_manifest_uri: None,
        correlation_id: None,
        capabilities,
        extensions: None,
    };
    let subscribed = producer.subscribe(&request, PRINCIPAL, ResumePolicy::Connection).await;
    let mut link = subscribed.inspect_err(|rejection| tracing::warn!(%rejection, "the suite cannot be served")).ok()?;
    link.recv().await;
    Some(link)
}

fn parse(object: &Map<String, Value>) -> Option<Message> {
    Message::parse(&serde_json::to_vec(object).ok()?).ok()
}
