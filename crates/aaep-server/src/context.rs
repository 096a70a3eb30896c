//! State that all transports of one server share.

use std::sync::Arc;

use aaep::Producer;
use aaep::id::SubscriptionId;
use aaep::transport::{Link, Rejection, ResumePolicy};
use aaep_keys::{Role, UserId};
use aaep_proto::message::{Message, ReasonCode, SubscriptionRequest};
use aaep_proto::negotiate::requested_user;
use tokio::sync::watch;

use crate::admission::Admission;
use crate::admission::rate::RateLimiter;
use crate::auth::Authenticator;
use crate::config::Limits;
use crate::engines::{EngineRef, Engines};
use crate::metrics::Metrics;
use crate::peer::Peer;
use crate::proxy::TrustedProxies;
use crate::published_manifest::PublishedManifest;

/// State that all transports of one server share: the engines of the users, the limits and the metrics.
#[derive(Debug)]
pub struct ServerContext {
    pub(crate) engines: Arc<Engines>,
    pub(crate) limits: Limits,
    pub(crate) metrics: Metrics,
    pub(crate) rates: RateLimiter,
    pub(crate) admission: Admission,
    /// Becomes true when the server shuts down.
    pub(crate) stopping: watch::Receiver<bool>,
    /// Keeps `stopping` open where there is no server that holds the sender.
    _stop: Option<watch::Sender<bool>>,
}

impl ServerContext {
    /// Creates the context for a producer that is served by a single transport without a [`crate::Server`], with the
    /// default limits.
    pub fn standalone(producer: Producer) -> ServerContext {
        let (stop, stopping) = watch::channel(false);
        ServerContext {
            _stop: Some(stop),
            ..ServerContext::new(Engines::shared(producer), Limits::default(), stopping)
        }
    }

    /// Replaces the limits.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> ServerContext {
        self.rates = RateLimiter::new(limits.requests_per_second);
        self.admission = Admission::shared(&limits);
        self.limits = limits;
        self
    }

    pub(crate) fn new(engines: Arc<Engines>, limits: Limits, stopping: watch::Receiver<bool>) -> ServerContext {
        let rates = RateLimiter::new(limits.requests_per_second);
        let admission = Admission::shared(&limits);
        ServerContext { engines, limits, metrics: Metrics::default(), rates, admission, stopping, _stop: None }
    }

    /// Limits every principal separately, for a server whose peers authenticate.
    pub(crate) fn with_principals(mut self) -> ServerContext {
        self.admission = Admission::per_principal(&self.limits, self.engines.is_per_user());
        self
    }

    /// Returns the user whom a request is for: the one that it names, or the peer's own. The rejection is the same whether a
    /// user does not exist or the peer may not subscribe for them.
    fn user_of_request(&self, peer: &Peer, request: &SubscriptionRequest) -> Result<UserId, Rejection> {
        let local = self.engines.local().user();
        if !self.engines.is_per_user() {
            return Ok(local.clone());
        }
        let own = if peer.is_local() { Some(local.clone()) } else { peer.identity.own_user() };
        let user = match requested_user(&request.capabilities)? {
            None => own.clone(),
            Some(name) => name.parse().ok(),
        };
        let may = |user: &UserId| Some(user) == own.as_ref() || peer.identity.may_for(Role::Subscribe, user);
        user.filter(may).ok_or_else(|| {
            let message = "users: these credentials are for no such user. Name one that they are for, or leave it out.";
            Rejection::new(ReasonCode::AuthorizationDenied, message)
        })
    }

    /// Opens a subscription for a peer on any transport, if its roles and quotas allow it.
    pub(crate) async fn admit(
        &self,
        peer: &Peer,
        request: SubscriptionRequest,
        resume_policy: ResumePolicy,
    ) -> Result<Subscribed, Rejection> {
        let user = self.user_of_request(peer, &request)?;
        let peer = &self.engines.peer_for(peer, &user);
        let denied = |message: &str| Err(Rejection::new(ReasonCode::AuthorizationDenied, message));
        if !peer.may(Role::Subscribe) {
            return denied("These credentials do not permit subscribing. Use others.");
        }
        let fields = &request.capabilities.fields;
        let needs_replies = fields.supported_conformance_levels.as_ref().is_some_and(|levels| !levels.contains(&1));
        if needs_replies && fields.supports_confirmation_reply == Some(true) && !peer.may(Role::Reply) {
            return denied("supported_conformance_levels: these credentials do not permit replies. Ask for level 1.");
        }
        let request = peer.narrow_request(request);
        let engine = self.engines.get(&user).await.map_err(|_| {
            let message = "The records of this user cannot be read at the moment. Try again later.";
            Rejection::new(ReasonCode::TransportUnavailable, message)
        })?;
        let link = self.subscribe(&request, peer, &engine, resume_policy).await?;
        Ok(Subscribed { link, peer: peer.clone(), engine })
    }

    /// Resumes a subscription of a peer. Returns `None` if the peer has no such subscription.
    pub(crate) async fn resume(&self, peer: &Peer, id: &SubscriptionId, last: Option<&str>) -> Option<Subscribed> {
        let engine = self.engines.find_subscription(peer, id).await?;
        let peer = self.engines.peer_for(peer, engine.user());
        if !peer.may(Role::Subscribe) {
            return None;
        }
        let link = engine.resume(id, peer.principal(), last).await?;
        Some(Subscribed { link, peer, engine })
    }
}

/// Why a message that was posted has no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PostError {
    /// The peer lacks the role for it.
    Forbidden,
    /// The engine has ended.
    Ended,
}

impl ServerContext {
    /// Handles a message of a peer that was received by another way than the link of its subscription. A message about a
    /// subscription that the peer does not have does nothing. Returns the response, if there is one.
    pub(crate) async fn post_message(&self, peer: &Peer, message: Message) -> Result<Option<Message>, PostError> {
        let engine = match message.subscription_id() {
            Some(id) => self.engines.find_subscription(peer, id).await,
            None => None,
        };
        let peer = match &engine {
            Some(engine) => self.engines.peer_for(peer, engine.user()),
            None => peer.clone(),
        };
        // To ask an agent to stop takes the same role as to answer it.
        let is_reply = matches!(
            message,
            Message::ConfirmationReply(_) | Message::ClarificationReply(_) | Message::CancellationRequest(_)
        );
        if !peer.may(if is_reply { Role::Reply } else { Role::Subscribe }) {
            return Err(PostError::Forbidden);
        }
        let message = peer.narrow_message(message);
        // Without a subscription of the sender, the engine of the local user takes note of the attempt.
        let engine = engine.as_ref().unwrap_or(self.engines.local());
        engine.handle_message(peer.principal(), message).await.map_err(|_| PostError::Ended)
    }
}

/// A subscription of a peer that was opened or resumed.
#[derive(Debug)]
pub struct Subscribed {
    pub(crate) link: Link,
    /// The peer, with the roles that it has for the user of the subscription.
    pub(crate) peer: Peer,
    /// The engine of that user, held for as long as the subscription has a connection.
    pub(crate) engine: EngineRef,
}

/// State of the HTTP and gRPC handlers: the shared context, authentication and the published manifest.
#[derive(Clone)]
pub(crate) struct AppState {
    pub(crate) context: Arc<ServerContext>,
    pub(crate) authenticator: Arc<Authenticator>,
    pub(crate) published: Arc<PublishedManifest>,
    pub(crate) proxies: TrustedProxies,
}

/// Waits until the server shuts down.
pub(crate) async fn stopped(stopping: &mut watch::Receiver<bool>) {
    // An error means that the sender was dropped, which happens only after the server has ended.
    let _ = stopping.wait_for(|stop| *stop).await;
}
