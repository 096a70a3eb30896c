//! The peer at the other end of a connection.

use std::collections::BTreeSet;
use std::sync::Arc;

use aaep_keys::{Identity, Role, UserId};
use aaep_proto::message::{Capabilities, Message, SubscriptionRequest};

use crate::admission::connection_slots::{ConnectionSlot, SlotHold};
use crate::auth::credentials::AcceptedCredentials;
use crate::metrics::Transport;

/// The peer at the other end of a connection: its identity and its transport.
#[derive(Clone, Debug)]
pub struct Peer {
    /// The identity that the transport proved.
    pub identity: Arc<Identity>,
    /// The transport it uses.
    pub transport: Transport,
    /// The slot of its connection, on transports that count connections.
    pub(crate) slot: Option<Arc<ConnectionSlot>>,
    /// The credentials it presented, if the server requires any.
    pub(crate) credentials: Option<AcceptedCredentials>,
}

impl Peer {
    /// Creates the peer for endpoints that only this machine or this user can reach. It has every role.
    pub fn local(transport: Transport) -> Peer {
        let identity = Identity::new(Identity::LOCAL, Role::ALL);
        Peer { identity: Arc::new(identity), transport, credentials: None, slot: None }
    }

    /// Returns whether it needed no credentials. No credentials can have that principal.
    pub(crate) fn is_local(&self) -> bool {
        self.identity.principal == Identity::LOCAL
    }

    /// Returns the peer with the roles that it has for a user. Peers without credentials have all of them.
    pub(crate) fn for_user(&self, user: &UserId) -> Peer {
        if self.is_local() {
            return self.clone();
        }
        let roles: BTreeSet<Role> = Role::ALL.into_iter().filter(|role| self.identity.may_for(*role, user)).collect();
        if roles == self.identity.roles {
            return self.clone();
        }
        Peer { identity: Arc::new(Identity { roles, ..(*self.identity).clone() }), ..self.clone() }
    }

    /// Sets the slot of its connection.
    #[must_use]
    pub(crate) fn with_slot(mut self, slot: Option<Arc<ConnectionSlot>>) -> Peer {
        self.slot = slot;
        self
    }

    /// Protects the connection from eviction while it carries a subscription or an agent.
    pub(crate) fn hold(&self) -> Option<SlotHold> {
        self.slot.as_ref().map(ConnectionSlot::hold)
    }

    /// Returns whether its credentials are still accepted.
    pub(crate) fn is_current(&self) -> bool {
        self.credentials.as_ref().is_none_or(AcceptedCredentials::is_valid)
    }

    /// Waits until its credentials expire or are revoked.
    pub(crate) async fn lapsed(&self) {
        match &self.credentials {
            // Boxed, so that connections without credentials do not pay for its size.
            Some(credentials) => Box::pin(credentials.lapsed()).await,
            None => std::future::pending().await,
        }
    }

    /// The name that subscriptions belong to.
    pub fn principal(&self) -> &str {
        &self.identity.principal
    }

    /// Returns whether it has a role.
    pub fn may(&self, role: Role) -> bool {
        self.identity.may(role)
    }

    /// Removes from a request what this peer may not ask for: without the reply role, no question may wait for its
    /// reply.
    pub(crate) fn narrow_request(&self, mut request: SubscriptionRequest) -> SubscriptionRequest {
        request.capabilities = self.narrow(request.capabilities);
        request
    }

    /// Removes from a renegotiation what this peer may not ask for. Other messages are returned unchanged.
    pub(crate) fn narrow_message(&self, message: Message) -> Message {
        match message {
            Message::SubscriptionRenegotiate(mut change) => {
                change.capabilities = self.narrow(change.capabilities);
                Message::SubscriptionRenegotiate(change)
            }
            other => other,
        }
    }

    fn narrow(&self, mut capabilities: Capabilities) -> Capabilities {
        if !self.may(Role::Reply) {
            let fields = &mut capabilities.fields;
            for supports in [&mut fields.supports_confirmation_reply, &mut fields.supports_clarification_reply] {
                *supports = supports.map(|_| false);
            }
        }
        capabilities
    }
}
