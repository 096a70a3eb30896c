//! State that all transports of one server share.

use std::sync::Arc;

use aaep::Producer;
use aaep::transport::{Link, Rejection, ResumePolicy};
use aaep_keys::Role;
use aaep_proto::message::{ReasonCode, SubscriptionRequest};
use tokio::sync::watch;

use crate::admission::Admission;
use crate::admission::rate::RateLimiter;
use crate::auth::Authenticator;
use crate::config::Limits;
use crate::metrics::Metrics;
use crate::peer::Peer;
use crate::proxy::TrustedProxies;
use crate::published_manifest::PublishedManifest;

/// State that all transports of one server share: the producer, the limits and the metrics.
#[derive(Debug)]
pub struct ServerContext {
    pub(crate) producer: Producer,
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
        ServerContext { _stop: Some(stop), ..ServerContext::new(producer, Limits::default(), stopping) }
    }

    /// Replaces the limits.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> ServerContext {
        self.rates = RateLimiter::new(limits.requests_per_second);
        self.admission = Admission::shared(&limits);
        self.limits = limits;
        self
    }

    pub(crate) fn new(producer: Producer, limits: Limits, stopping: watch::Receiver<bool>) -> ServerContext {
        let rates = RateLimiter::new(limits.requests_per_second);
        let admission = Admission::shared(&limits);
        ServerContext { producer, limits, metrics: Metrics::default(), rates, admission, stopping, _stop: None }
    }

    /// Limits every principal separately, for a server whose peers authenticate.
    pub(crate) fn with_principals(mut self) -> ServerContext {
        self.admission = Admission::per_principal(&self.limits);
        self
    }

    /// Opens a subscription for a peer on any transport, if its roles and quotas allow it.
    pub(crate) async fn admit(
        &self,
        peer: &Peer,
        request: SubscriptionRequest,
        resume_policy: ResumePolicy,
    ) -> Result<Link, Rejection> {
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
        self.subscribe(&request, peer, resume_policy).await
    }
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
