//! The agent's side: who it is, who listens, and the sessions it starts.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aaep_proto::confirm::AuditRecord;
use aaep_proto::engine::{
    EngineConfig, NoSubscriberPolicy, RecoveredState, ResumePolicy, SessionOptions, SubscriberCounts,
};
use aaep_proto::id::{ReplyToken, SubscriptionId};
use aaep_proto::language::LanguageTag;
use aaep_proto::message::{self, AAEP_VERSION, Capabilities, Manifest, Message, ReasonCode, SubscriptionRequest};
use aaep_proto::negotiate::{Offer, Rejection};
use tokio::sync::mpsc;

use crate::driver::{self, DriverConfig, Handle, JournalSetup};
use crate::error::Error;
use crate::journal::Journal;
use crate::session::Session;
use crate::stats::{ProducerStats, ReplyStats, Stats};
use crate::transport::Lease;
use crate::transport::Link;

/// An agent that can be heard. Clones are the same agent.
///
/// One task does its work. It ends when the last clone, session and output is dropped and subscribers
/// have got what was said to them.
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
    /// Begins to describe an agent by its stable name.
    pub fn builder(agent_id: impl Into<String>) -> Builder {
        Builder {
            config: EngineConfig::new(message::Producer::new(agent_id)),
            languages: Vec::new(),
            memory: None,
            waiting_limit: usize::MAX,
        }
    }

    /// Starts a session with a sentence about what it will do.
    pub async fn session(&self, summary: impl Into<String>) -> Result<Session, Error> {
        let mut options = SessionOptions::new(summary);
        if let Some(language) = &self.language {
            options = options.in_language(language.clone());
        }
        self.session_with(options).await
    }

    /// Starts a session with more to say about it: its language, its texts in other languages.
    pub async fn session_with(&self, options: SessionOptions) -> Result<Session, Error> {
        let handle = self.handle.clone();
        let started = self.handle.call(move |desk| {
            let id = desk.act(|engine, cx| engine.start_session(cx, options))?;
            Ok::<_, Error>(Session::new(handle, id))
        });
        started.await?
    }

    /// Who listens, and whether anyone could answer. Nobody, after the agent has ended.
    pub async fn subscriber_counts(&self) -> SubscriberCounts {
        self.handle.call(|desk| desk.engine().subscriber_counts()).await.unwrap_or_default()
    }

    /// Serves a subscriber. The principal is who it is, as the transport proved it; the binding says
    /// whether it may come back after its connection is lost. The first thing that the link yields is
    /// `subscription.accepted`.
    pub async fn subscribe(
        &self,
        request: &SubscriptionRequest,
        principal: &str,
        binding: ResumePolicy,
    ) -> Result<Link, Rejection> {
        self.subscribe_holding(request, principal, binding, None).await
    }

    /// Serves a subscriber as [`Producer::subscribe`] does. The subscription holds the lease until it ends, however often
    /// its connection is lost meanwhile; a renegotiation that the lease has no room for is rejected.
    pub async fn subscribe_leased(
        &self,
        request: &SubscriptionRequest,
        principal: &str,
        binding: ResumePolicy,
        lease: Box<dyn Lease>,
    ) -> Result<Link, Rejection> {
        self.subscribe_holding(request, principal, binding, Some(lease)).await
    }

    async fn subscribe_holding(
        &self,
        request: &SubscriptionRequest,
        principal: &str,
        binding: ResumePolicy,
        lease: Option<Box<dyn Lease>>,
    ) -> Result<Link, Rejection> {
        let (request, principal) = (request.clone(), principal.to_owned());
        let link = self.handle.call(move |desk| desk.subscribe(&request, &principal, binding, lease)).await;
        link.unwrap_or(Ok(None))?.ok_or_else(|| Rejection {
            reason_code: ReasonCode::TransportUnavailable,
            message: "The agent has ended.".to_owned(),
            retry_after_seconds: None,
        })
    }

    /// Serves a subscriber in this process. It is its own principal.
    pub async fn subscribe_local(&self, subscriber_id: &str, capabilities: Capabilities) -> Result<Link, Rejection> {
        let request = SubscriptionRequest {
            aaep_version: AAEP_VERSION.to_owned(),
            subscriber_id: subscriber_id.to_owned(),
            subscriber_name: None,
            subscriber_version: None,
            subscriber_manifest_uri: None,
            correlation_id: None,
            capabilities,
            extensions: None,
        };
        self.subscribe(&request, subscriber_id, ResumePolicy::Connection).await
    }

    /// A new link to a subscription of this principal, in place of the one it had. It goes on after the event that
    /// the subscriber got last; without one it begins with everything that is still known. What can no longer be
    /// had is told by a state change; so is everything after an event that was never sent, which may be any text.
    /// Nothing, if there is no such subscription.
    pub async fn resume(&self, id: &SubscriptionId, principal: &str, last: Option<&str>) -> Option<Link> {
        let (id, principal, last) = (id.clone(), principal.to_owned(), last.map(str::to_owned));
        let whose = (id.clone(), principal.clone());
        let journal = self.handle.call(move |desk| desk.journal_for(&whose.0, &whose.1)).await.ok()?;
        let missed = match journal {
            None => None,
            Some(journal) => {
                let (id, last) = (id.clone(), last.as_deref().and_then(|last| last.parse().ok()));
                tokio::task::spawn_blocking(move || journal.missed(&id, last.as_ref())).await.ok()
            }
        };
        self.handle.call(move |desk| desk.resume((&id, &principal), last.as_deref(), missed)).await.ok()?
    }

    /// A reply, a renegotiation or a close that came by another way than the link of its subscription. It counts only
    /// if that subscription is this principal's. A reply counts from the moment of this call, however long it waits. What the
    /// producer answers, if it does, is handed back.
    pub async fn handle_message(&self, principal: &str, message: Message) -> Result<Option<Message>, Error> {
        let (answer, kept) = self.handle.hear(principal, message).await?;
        if let Some(kept) = kept {
            // Kept or not, the sender learns the outcome from the events.
            let _ = kept.await;
        }
        Ok(answer.map(|message| *message))
    }

    /// What this producer offers over these transports.
    pub async fn manifest(&self, transports: Vec<String>) -> Result<Manifest, Error> {
        self.handle.call(move |desk| desk.engine().manifest(transports)).await
    }

    /// From now on the manifest is published there.
    pub async fn set_manifest_uri(&self, uri: impl Into<String>) -> Result<(), Error> {
        let uri = uri.into();
        self.handle.call(move |desk| desk.act(|engine, _| engine.set_manifest_uri(Some(uri)))).await
    }

    /// From now on this is the signed manifest, for those who demand one.
    pub async fn set_signed_manifest(&self, jws: Option<String>) -> Result<(), Error> {
        self.handle.call(move |desk| desk.act(|engine, _| engine.set_signed_manifest(jws))).await
    }

    /// Waits while every connected subscriber is behind. An agent that emits much text, progress or state waits for this
    /// before each event. As soon as one subscriber keeps up, agents go on: for the others events are folded, and those for
    /// whom too much waits are closed. Emit questions and other critical events without waiting.
    pub async fn wait_for_capacity(&self) {
        self.handle.pressure.relieved().await;
    }

    /// Where it stands, in numbers. Nothing after it has ended.
    pub async fn stats(&self) -> Option<ProducerStats> {
        self.handle.call(|desk| desk.measure()).await.ok()
    }

    /// Whether a question with this token was put to someone and has not ended. It does not wait for the producer's task,
    /// so a question that ends at this moment may still count as open.
    pub fn awaits_reply(&self, token: &ReplyToken) -> bool {
        self.stats.is_open(token)
    }

    /// How questions ended and which replies were ignored.
    pub fn reply_stats(&self) -> ReplyStats {
        self.stats.replies()
    }

    /// Ends all sessions, saying why, and then all subscriptions: when they have got everything, or after this time
    /// at the latest. Returns when that is done. What is asked of the producer after that is answered with
    /// [`Error::Gone`].
    pub async fn shut_down(&self, grace: Duration, summary: &str) {
        let summary = summary.to_owned();
        // It may have ended already.
        let _ = self.handle.call(move |desk| desk.shut_down(grace, &summary)).await;
        self.handle.ended().await;
    }

    /// The records of all decisions. Can be taken once.
    pub fn audit(&self) -> Option<AuditLog> {
        self.audit.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Describes an agent. Made by [`Producer::builder`].
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
    memory: Option<JournalSetup>,
    waiting_limit: usize,
}

impl Builder {
    /// The name that people hear.
    pub fn name(mut self, name: impl Into<String>) -> Builder {
        self.config.producer.agent_name = Some(name.into());
        self
    }

    /// The version of the agent.
    pub fn version(mut self, version: impl Into<String>) -> Builder {
        self.config.producer.agent_version = Some(version.into());
        self
    }

    /// The model behind the agent.
    pub fn model(mut self, model: impl Into<String>) -> Builder {
        self.config.producer.model = Some(model.into());
        self
    }

    /// A language that the agent speaks. The first one is that of its sessions.
    pub fn language(mut self, language: LanguageTag) -> Builder {
        self.languages.push(language);
        self
    }

    /// What subscriptions can get. Languages named by [`Builder::language`] take the place of its own.
    pub fn offer(mut self, offer: Offer) -> Builder {
        self.config.offer = offer;
        self
    }

    /// What happens to a question when nobody is there to hear it.
    pub fn no_subscriber_policy(mut self, no_subscriber_policy: NoSubscriberPolicy) -> Builder {
        self.config.no_subscriber_policy = no_subscriber_policy;
        self
    }

    /// How long a subscriber that may come back can be away before it counts as gone.
    pub fn resume_window(mut self, time: Duration) -> Builder {
        self.config.resume_window_secs = time.as_secs();
        self
    }

    /// Where the manifest is published.
    pub fn manifest_uri(mut self, uri: impl Into<String>) -> Builder {
        self.config.manifest_uri = Some(uri.into());
        self
    }

    /// Keeps what must survive a restart there, and takes up what was kept.
    pub fn journal(mut self, journal: impl Journal, restored: RecoveredState) -> Builder {
        self.memory = Some((Arc::new(journal), restored));
        self
    }

    /// How many bytes of events may wait for all readers together. Above, the subscriptions that are furthest behind are
    /// ended. Without a limit, each subscription has its own limits only.
    pub fn waiting_limit(mut self, bytes: usize) -> Builder {
        self.waiting_limit = bytes;
        self
    }

    /// Starts the agent's task.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime, like [`tokio::spawn`].
    pub fn build(mut self) -> Producer {
        if !self.languages.is_empty() {
            self.config.offer.languages = self.languages;
        }
        let language = self.config.offer.languages.first().cloned();
        let stats = Arc::new(Stats::default());
        let setup = DriverConfig { config: self.config, memory: self.memory, waiting_limit: self.waiting_limit };
        let (handle, records) = driver::start(setup, stats.clone());
        Producer { handle, language, audit: Arc::new(Mutex::new(Some(AuditLog { records }))), stats }
    }
}

/// The records of all decisions, for the owner of the agent to keep. Made by [`Producer::audit`].
///
/// Read it: if more than a thousand records wait, later ones are lost, and that is logged.
///
/// ```
/// use aaep::{Clarification, Producer, Resolution, NoSubscriberPolicy};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let producer = Producer::builder("gardener").no_subscriber_policy(NoSubscriberPolicy::ApplyDefault).build();
/// let mut audit = producer.audit().expect("nobody took it before");
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
    /// The next record; nothing after the agent has ended.
    pub async fn recv(&mut self) -> Option<AuditRecord> {
        self.records.recv().await
    }
}
