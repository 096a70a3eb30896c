//! What all transports of one server share: the producer, who may do what, the bounds, the numbers.

use std::sync::Arc;

use aaep::Producer;
use aaep::transport::{Link, Rejection, ResumePolicy};
use aaep_keys::{Identity, Role};
use aaep_proto::binding::CloseCode;
use aaep_proto::message::{Capabilities, CloseReason, ReasonCode, SubscriptionRequest};
use tokio::sync::watch;

use crate::admission::Admission;
use crate::config::Limits;
use crate::credentials::Lease;
use crate::metrics::{Metrics, Transport};
use crate::places::{Held, Place};
use crate::rate::Rates;

/// What all transports of one server share.
#[derive(Debug)]
pub struct ServerContext {
    pub(crate) producer: Producer,
    pub(crate) limits: Limits,
    pub(crate) metrics: Metrics,
    pub(crate) rates: Rates,
    pub(crate) admission: Admission,
    /// Turns true when the server is about to end.
    pub(crate) stopping: watch::Receiver<bool>,
    /// Without a server nobody else would hold this, and that means the end.
    _stop: Option<watch::Sender<bool>>,
}

impl ServerContext {
    /// For a producer that is served by one transport alone, with the usual bounds.
    pub fn alone(producer: Producer) -> ServerContext {
        let (stop, stopping) = watch::channel(false);
        ServerContext { _stop: Some(stop), ..ServerContext::new(producer, Limits::default(), stopping) }
    }

    /// The same with other bounds.
    #[must_use]
    pub fn within(mut self, limits: Limits) -> ServerContext {
        self.rates = Rates::new(limits.requests_per_second);
        self.admission = Admission::open(&limits);
        self.limits = limits;
        self
    }

    pub(crate) fn new(producer: Producer, limits: Limits, stopping: watch::Receiver<bool>) -> ServerContext {
        let rates = Rates::new(limits.requests_per_second);
        let admission = Admission::open(&limits);
        ServerContext { producer, limits, metrics: Metrics::default(), rates, admission, stopping, _stop: None }
    }

    /// For peers that have names of their own: each gets its share.
    pub(crate) fn with_principals(mut self) -> ServerContext {
        self.admission = Admission::per_principal(&self.limits);
        self
    }
}

impl ServerContext {
    /// Opens a subscription for this peer, on any transport, or says why not.
    pub(crate) async fn admit(
        &self,
        peer: &Peer,
        request: SubscriptionRequest,
        binding: ResumePolicy,
    ) -> Result<Link, Rejection> {
        let denied = |message: &str| Err(Rejection::new(ReasonCode::AuthorizationDenied, message));
        if !peer.may(Role::Subscribe) {
            return denied("These credentials do not allow to subscribe. Use others.");
        }
        let fields = &request.capabilities.fields;
        let needs_replies = fields.supported_conformance_levels.as_ref().is_some_and(|levels| !levels.contains(&1));
        if needs_replies && fields.supports_confirmation_reply == Some(true) && !peer.may(Role::Reply) {
            return denied("supported_conformance_levels: these credentials do not allow to reply. Ask for level 1.");
        }
        let request = peer.narrow_request(request);
        self.subscribe(&request, peer, binding).await
    }
}

/// What peers without valid credentials are told.
pub(crate) const UNAUTHENTICATED: &str = "Credentials are missing or not valid. Send a valid bearer token.";

/// The answer to who shows no valid credentials. Why they are not valid is for the log.
pub(crate) fn unauthenticated() -> Rejection {
    Rejection::new(ReasonCode::AuthenticationRequired, UNAUTHENTICATED)
}

/// Who is at the other end of a connection, and how it got there.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Who it is, as the transport proved it.
    pub identity: Arc<Identity>,
    /// How it got here.
    pub transport: Transport,
    /// The place of its connection, where places are counted.
    pub(crate) place: Option<Arc<Place>>,
    /// The credentials that it showed, if any were asked for.
    pub(crate) lease: Option<Lease>,
}

impl Peer {
    /// The principal of everyone who can reach such an endpoint.
    pub(crate) const LOCAL: &str = "local";

    /// Everyone who can reach an endpoint that is open to its own machine or user only.
    pub fn local(transport: Transport) -> Peer {
        let roles = [Role::Subscribe, Role::Reply, Role::Audit, Role::Admin, Role::Produce].into();
        let identity = Identity { principal: Identity::LOCAL.to_owned(), roles, expires: None };
        Peer { identity: Arc::new(identity), transport, lease: None, place: None }
    }

    /// Returns this peer with the place of its connection.
    #[must_use]
    pub(crate) fn at(mut self, place: Option<Arc<Place>>) -> Peer {
        self.place = place;
        self
    }

    /// Keeps the place of the connection while it carries a subscription or an agent.
    pub(crate) fn hold(&self) -> Option<Held> {
        self.place.as_ref().map(Place::hold)
    }

    /// Whether its credentials are still accepted.
    pub(crate) fn is_current(&self) -> bool {
        self.lease.as_ref().is_none_or(Lease::holds)
    }

    /// Waits until its credentials expire or are revoked.
    pub(crate) async fn lapsed(&self) {
        match &self.lease {
            // In a box: a connection without credentials need not have room for it.
            Some(lease) => Box::pin(lease.lapsed()).await,
            None => std::future::pending().await,
        }
    }

    /// The name that subscriptions belong to.
    pub fn principal(&self) -> &str {
        &self.identity.principal
    }

    /// Whether it has this role.
    pub fn may(&self, role: Role) -> bool {
        self.identity.may(role)
    }

    /// A request with what this peer may ask for: who may not reply cannot become one whose reply is waited for.
    pub(crate) fn narrow_request(&self, mut request: SubscriptionRequest) -> SubscriptionRequest {
        request.capabilities = self.narrow(request.capabilities);
        request
    }

    pub(crate) fn narrow(&self, mut capabilities: Capabilities) -> Capabilities {
        if !self.may(Role::Reply) {
            let fields = &mut capabilities.fields;
            for supports in [&mut fields.supports_confirmation_reply, &mut fields.supports_clarification_reply] {
                *supports = supports.map(|_| false);
            }
        }
        capabilities
    }
}

/// Why a connection is closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Close {
    /// The close code of the WebSocket binding; other transports map it to their own means.
    pub code: CloseCode,
    /// Why the subscription ended, if it was the producer that ended it.
    pub cause: Option<CloseReason>,
    /// For people and logs; short.
    pub reason: String,
}

impl Close {
    /// The subscription ended in good order.
    pub const CLEAN: CloseCode = CloseCode::Normal;
    /// The subscription was refused.
    pub const REJECTED: CloseCode = CloseCode::Rejected;
    /// Credentials are missing or wrong.
    pub const UNAUTHENTICATED: CloseCode = CloseCode::Unauthenticated;
    /// The credentials do not suffice.
    pub const UNAUTHORIZED: CloseCode = CloseCode::Unauthorized;
    /// The peer broke the rules.
    pub const VIOLATION: CloseCode = CloseCode::Violation;
    /// The subscriber asked for it.
    pub const BY_SUBSCRIBER: CloseCode = CloseCode::SubscriberClosed;

    pub(crate) fn new(code: CloseCode, reason: impl Into<String>) -> Close {
        Close { code, cause: None, reason: reason.into() }
    }

    /// The credentials are no longer accepted.
    pub(crate) fn lapsed() -> Close {
        let reason = "authentication_required: the credentials have expired or were revoked";
        Close::new(Close::UNAUTHENTICATED, reason)
    }

    pub(crate) fn violation(reason: impl Into<String>) -> Close {
        Close::new(Close::VIOLATION, reason)
    }

    /// How the engine's word for an end is said on the wire.
    pub(crate) fn of(closing: &aaep::transport::CloseInfo) -> Close {
        let reason = format!("{}: {}", closing.reason, closing.message);
        Close { code: CloseCode::from(&closing.reason), cause: Some(closing.reason.clone()), reason }
    }
}

/// What is said to who sends too much at once.
pub(crate) const TOO_LARGE: &str = "the message is too large";

/// What is said to who sends too often.
pub(crate) const TOO_MANY: &str = "too many messages";

/// Waits until the server is about to end.
pub(crate) async fn stopped(stopping: &mut watch::Receiver<bool>) {
    // The sender is gone only after the server has ended.
    let _ = stopping.wait_for(|stop| *stop).await;
}
