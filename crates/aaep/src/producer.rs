//! The producer: it describes an agent, starts its sessions and serves its subscribers.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aaep_proto::confirm::AuditRecord;
use aaep_proto::engine::{
    EngineConfig, NoSubscriberPolicy, RecoveredState, ResumePolicy, SessionOptions, SubscriberCounts,
};
use aaep_proto::id::{ReplyToken, SubscriptionId};
use aaep_proto::language::LanguageTag;
use aaep_proto::message::{self, Capabilities, Manifest, Message, ReasonCode, SubscriptionRequest};
use aaep_proto::negotiate::{Offer, Rejection};
use tokio::sync::mpsc;

use crate::driver::{self, DriverConfig, Handle, JournalSetup, OutOfBandReply, QueueBudget};
use crate::error::Error;
use crate::journal::Journal;
use crate::session::Session;
use crate::stats::{ProducerSnapshot, ProducerStats, ReplyStats, Stats};
use crate::transport::Link;
use crate::transport::Reservation;
use crate::worker::Worker;

/// The producer of an agent's events. Clones refer to the same producer.
///
/// It runs on a [`Worker`]. It ends when the last clone, session and output is dropped and subscribers have received what
/// was emitted.
///
/// ```
/// use aaep::Producer;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let producer = Producer::builder("gardener").name("Gardener").version("1.0").language("en".parse()?).build();
/// assert_eq!(producer.subscriber_counts().await.subscriptions, 0);
/// let session = producer.session("Planning your garden.").await?;
/// session.complete("The plan is ready.").await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Producer {
    pub(crate) handle: Handle,
    language: Option<LanguageTag>,
    audit: Arc<Mutex<Option<AuditLog>>>,
    stats: Arc<Stats>,
}

impl Producer {
    /// Returns a builder for the agent with this id, which should stay the same between runs.
    pub fn builder(agent_id: impl Into<String>) -> Builder {
        Builder {
            config: EngineConfig::new(message::Producer::new(agent_id)),
            languages: Vec::new(),
            journal: None,
            max_queued_bytes: usize::MAX,
            queue_budget: None,
        }
    }

    /// Starts a session, with a sentence about what the agent will do.
    pub async fn session(&self, summary: impl Into<String>) -> Result<Session, Error> {
        let mut options = SessionOptions::new(summary);
        if let Some(language) = &self.language {
            options = options.in_language(language.clone());
        }
        self.session_with(options).await
    }

    /// Starts a session with options: its language, its texts in other languages, its origin.
    pub async fn session_with(&self, options: SessionOptions) -> Result<Session, Error> {
        let handle = self.handle.clone();
        let started = self.handle.call(move |driver| {
            let id = driver.with_engine(|engine, cx| engine.start_session(cx, options))?;
            Ok::<_, Error>(Session::new(handle, id))
        });
        started.await?
    }

    /// Returns how many subscriptions there are and how many of them can reply; zero after the producer has ended.
    pub async fn subscriber_counts(&self) -> SubscriberCounts {
        self.handle.call(|driver| driver.engine().subscriber_counts()).await.unwrap_or_default()
    }

    /// Opens a subscription. The principal is who the subscriber is, as the transport proved it. The policy says whether
    /// the subscription may be resumed after its connection is lost. The first thing that the link receives is
    /// `subscription.accepted`.
    pub async fn subscribe(
        &self,
        request: &SubscriptionRequest,
        principal: &str,
        policy: ResumePolicy,
    ) -> Result<Link, Rejection> {
        self.subscribe_inner(request, principal, policy, None).await
    }

    /// Opens a subscription as [`Producer::subscribe`] does, with a reservation that it holds until it ends, however often its
    /// connection is lost meanwhile. A renegotiation whose memory the reservation refuses is rejected.
    pub async fn subscribe_with_reservation(
        &self,
        request: &SubscriptionRequest,
        principal: &str,
        policy: ResumePolicy,
        reservation: Box<dyn Reservation>,
    ) -> Result<Link, Rejection> {
        self.subscribe_inner(request, principal, policy, Some(reservation)).await
    }

    async fn subscribe_inner(
        &self,
        request: &SubscriptionRequest,
        principal: &str,
        policy: ResumePolicy,
        reservation: Option<Box<dyn Reservation>>,
    ) -> Result<Link, Rejection> {
        let (request, principal) = (request.clone(), principal.to_owned());
        let link = self.handle.call(move |driver| driver.subscribe(&request, &principal, policy, reservation)).await;
        link.unwrap_or(Ok(None))?.ok_or_else(|| Rejection {
            reason_code: ReasonCode::TransportUnavailable,
            message: "The agent has ended.".to_owned(),
            retry_after_seconds: None,
        })
    }

    /// Opens a subscription for a subscriber in this process. Its id is also its principal.
    pub async fn subscribe_local(&self, subscriber_id: &str, capabilities: Capabilities) -> Result<Link, Rejection> {
        let request = SubscriptionRequest::new(subscriber_id, capabilities);
        self.subscribe(&request, subscriber_id, ResumePolicy::Connection).await
    }

    /// Resumes a subscription of this principal: returns a new link, which replaces the previous one. It starts after
    /// `last`, the id of the event that the subscriber received last; without one it starts with everything that is still
    /// kept. Events that are no longer kept are replaced by a state change per session; so is everything if `last` was
    /// never sent. `last` may be any text. Returns `None` if the principal has no such subscription.
    pub async fn resume(&self, id: &SubscriptionId, principal: &str, last: Option<&str>) -> Option<Link> {
        let (id, principal, last) = (id.clone(), principal.to_owned(), last.map(str::to_owned));
        let (journal_id, journal_principal) = (id.clone(), principal.clone());
        let journal = self.handle.call(move |driver| driver.journal_for(&journal_id, &journal_principal)).await.ok()?;
        let missed = match journal {
            None => None,
            Some(journal) => {
                let (id, last) = (id.clone(), last.as_deref().and_then(|last| last.parse().ok()));
                tokio::task::spawn_blocking(move || journal.missed(&id, last.as_ref())).await.ok()
            }
        };
        self.handle.call(move |driver| driver.resume(&id, &principal, last.as_deref(), missed)).await.ok()?
    }

    /// Returns whether this principal has this subscription.
    pub async fn has_subscription(&self, id: &SubscriptionId, principal: &str) -> bool {
        let (id, principal) = (id.clone(), principal.to_owned());
        let found = self.handle.call(move |driver| driver.engine().find_subscription(&id, &principal).is_some());
        found.await.unwrap_or(false)
    }

    /// Handles a reply, a renegotiation or a close that was received by another way than the link of its subscription. It
    /// is ignored if the subscription is not this principal's. A reply counts from the moment of this call, however long it
    /// waits. Returns the producer's reply, if there is one.
    pub async fn handle_message(&self, principal: &str, message: Message) -> Result<Option<Message>, Error> {
        let OutOfBandReply { message, recorded } = self.handle.send_out_of_band(principal, message).await?;
        if let Some(recorded) = recorded {
            // Whether it could be recorded or not, the sender learns the outcome from the events.
            let _ = recorded.await;
        }
        Ok(message.map(|message| *message))
    }

    /// Returns the manifest of this producer for these transports.
    pub async fn manifest(&self, transports: Vec<String>) -> Result<Manifest, Error> {
        self.handle.call(move |driver| driver.engine().manifest(transports)).await
    }

    /// Sets where the manifest is published, for subscriptions that are accepted from now on.
    pub async fn set_manifest_uri(&self, uri: impl Into<String>) -> Result<(), Error> {
        let uri = uri.into();
        self.handle.call(move |driver| driver.with_engine(|engine, _| engine.set_manifest_uri(Some(uri)))).await
    }

    /// Sets the signed manifest, for subscribers that demand one.
    pub async fn set_signed_manifest(&self, jws: Option<String>) -> Result<(), Error> {
        self.handle.call(move |driver| driver.with_engine(|engine, _| engine.set_signed_manifest(jws))).await
    }

    /// Waits while every connected subscription is blocked. An agent that emits much text, progress or state should wait
    /// for this before each event. As soon as one subscription keeps up, this returns: events for the others are coalesced,
    /// and a subscription for which too much is queued is closed. Emit questions and other critical events without waiting.
    pub async fn wait_for_capacity(&self) {
        self.handle.wait_for_capacity().await;
    }

    /// Returns the state of the producer in numbers, or `None` after it has ended.
    pub async fn stats(&self) -> Option<ProducerStats> {
        self.handle.call(|driver| driver.producer_stats()).await.ok()
    }

    /// Returns what an operator sees of the producer, or `None` after it has ended.
    pub async fn snapshot(&self) -> Option<ProducerSnapshot> {
        self.handle.call(|driver| driver.producer_snapshot()).await.ok()
    }

    /// Whether a question with this token was delivered and is not resolved. It does not wait for the producer's task, so a
    /// question that is resolved at this moment may still count as open.
    pub fn awaits_reply(&self, token: &ReplyToken) -> bool {
        self.stats.is_open(token)
    }

    /// Returns how questions were resolved and why replies were ignored.
    pub fn reply_stats(&self) -> ReplyStats {
        self.stats.replies()
    }

    /// Cancels all sessions with this summary, then closes all subscriptions: when they have received everything, or after
    /// `grace` at the latest. Returns when that is done. Later calls return [`Error::Gone`].
    pub async fn shut_down(&self, grace: Duration, summary: &str) {
        let summary = summary.to_owned();
        // An error means that it has ended already.
        let _ = self.handle.call(move |driver| driver.shut_down(grace, &summary)).await;
        self.handle.ended().await;
    }

    /// Returns the audit log. Returns `None` after the first call.
    pub fn audit(&self) -> Option<AuditLog> {
        self.audit.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Describes an agent. Returned by [`Producer::builder`].
///
/// ```
/// use aaep::{Producer, NoSubscriberPolicy};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let producer = Producer::builder("gardener")
///     .name("Gardener")
///     .language("de".parse()?)
///     .language("en".parse()?)
///     .no_subscriber_policy(NoSubscriberPolicy::ApplyDefault)
///     .build();
/// # drop(producer);
/// # Ok(())
/// # }
/// ```
#[must_use]
pub struct Builder {
    config: EngineConfig,
    languages: Vec<LanguageTag>,
    journal: Option<JournalSetup>,
    max_queued_bytes: usize,
    queue_budget: Option<QueueBudget>,
}

impl Builder {
    /// Sets the agent's name, as it is presented to users.
    pub fn name(mut self, name: impl Into<String>) -> Builder {
        self.config.producer.agent_name = Some(name.into());
        self
    }

    /// Sets the version of the agent.
    pub fn version(mut self, version: impl Into<String>) -> Builder {
        self.config.producer.agent_version = Some(version.into());
        self
    }

    /// Sets the model that the agent uses.
    pub fn model(mut self, model: impl Into<String>) -> Builder {
        self.config.producer.model = Some(model.into());
        self
    }

    /// Adds a language that the agent has texts in. The first one is the language of its sessions.
    pub fn language(mut self, language: LanguageTag) -> Builder {
        self.languages.push(language);
        self
    }

    /// Sets the capabilities that the producer can honor. Languages that are added by [`Builder::language`] replace the
    /// languages of the offer.
    pub fn offer(mut self, offer: Offer) -> Builder {
        self.config.offer = offer;
        self
    }

    /// Sets what happens to a question that no subscriber can reply to.
    pub fn no_subscriber_policy(mut self, policy: NoSubscriberPolicy) -> Builder {
        self.config.no_subscriber_policy = policy;
        self
    }

    /// Sets how long a subscription can be resumed after its connection was lost.
    pub fn resume_window(mut self, window: Duration) -> Builder {
        self.config.resume_window_secs = window.as_secs();
        self
    }

    /// Sets where the manifest is published.
    pub fn manifest_uri(mut self, uri: impl Into<String>) -> Builder {
        self.config.manifest_uri = Some(uri.into());
        self
    }

    /// Sets the journal that records what must survive a restart, and the state that was recovered from it.
    pub fn journal(mut self, journal: impl Journal, recovered: RecoveredState) -> Builder {
        self.journal = Some(JournalSetup { journal: Arc::new(journal), recovered });
        self
    }

    /// Sets how many bytes of events may be queued for all subscriptions together. Above that, the subscriptions that are
    /// furthest behind are closed. By default only the limits of each subscription apply.
    pub fn max_queued_bytes(mut self, bytes: usize) -> Builder {
        self.max_queued_bytes = bytes;
        self
    }

    /// Shares a limit for queued events with other producers. When it is exceeded, subscriptions of this producer that do not
    /// keep up are closed.
    pub fn queue_budget(mut self, budget: &QueueBudget) -> Builder {
        self.queue_budget = Some(budget.clone());
        self
    }

    /// Starts the producer on a worker of its own.
    ///
    /// # Panics
    ///
    /// Panics outside of a tokio runtime, like [`tokio::spawn`].
    pub fn build(self) -> Producer {
        self.build_on(&Worker::spawn())
    }

    /// Starts the producer on a worker, which may host others too.
    pub fn build_on(mut self, worker: &Worker) -> Producer {
        if !self.languages.is_empty() {
            self.config.offer.languages = self.languages;
        }
        let language = self.config.offer.languages.first().cloned();
        let stats = Arc::new(Stats::default());
        let config = DriverConfig {
            engine: self.config,
            journal: self.journal,
            max_queued_bytes: self.max_queued_bytes,
            queue_budget: self.queue_budget,
        };
        let (handle, records) = driver::start(config, stats.clone(), worker);
        Producer { handle, language, audit: Arc::new(Mutex::new(Some(AuditLog { records }))), stats }
    }
}

/// The audit records of all resolved questions. Returned by [`Producer::audit`].
///
/// Read it continuously: if 1024 records are queued, later ones are lost, which is logged.
///
/// ```
/// use aaep::{Clarification, Producer, Resolution, NoSubscriberPolicy};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let producer = Producer::builder("gardener").no_subscriber_policy(NoSubscriberPolicy::ApplyDefault).build();
/// let mut audit = producer.audit().expect("the first call");
/// let session = producer.session("Planning your garden.").await?;
/// session.clarify(Clarification::yes_no("Is there shade?")).await?;
/// let record = audit.recv().await.expect("a record");
/// assert_eq!((record.shown.as_str(), record.resolution), ("Is there shade?", Resolution::NobodyCouldAnswer));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct AuditLog {
    records: mpsc::Receiver<AuditRecord>,
}

impl AuditLog {
    /// Receives the next record. Returns `None` after the producer has ended.
    pub async fn recv(&mut self) -> Option<AuditRecord> {
        self.records.recv().await
    }
}
