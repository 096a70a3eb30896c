//! The users that an agent acts for, and the engines of their sessions.

use std::sync::Arc;

use aaep::Producer;
use aaep::journal::SeenEvent;
use aaep_keys::{Identity, Role, UserId};

use super::response::AgentError;
use crate::engines::{EngineRef, Engines};

/// The users that an agent may act for.
#[derive(Clone, Debug)]
pub(super) struct AgentUsers {
    engines: Arc<Engines>,
    /// The credentials of the agent; `None` if it needs none.
    identity: Option<Arc<Identity>>,
    /// The user that the agent's connection names.
    connection_user: Option<UserId>,
}

impl AgentUsers {
    /// Creates the users of the agents of one producer, which belongs to one user.
    pub(super) fn of_producer(producer: Producer) -> AgentUsers {
        AgentUsers { engines: Engines::shared(producer), identity: None, connection_user: None }
    }

    /// Creates the users of an agent on a server. A connection may name the user of all its sessions that name none.
    pub(super) fn new(
        engines: Arc<Engines>,
        identity: Option<Arc<Identity>>,
        connection_user: Option<UserId>,
    ) -> AgentUsers {
        AgentUsers { engines, identity, connection_user }
    }

    /// Returns the engine of a new session. `requested_by` of its `session.started` may name the user. The error is the same
    /// whether a user does not exist or the agent may not act for them.
    pub(super) async fn engine_for(&self, requested_by: Option<&str>) -> Result<EngineRef, AgentError> {
        let Some(identity) = self.identity.as_ref().filter(|_| self.engines.is_per_user()) else {
            return Ok(self.engines.local().clone());
        };
        let named = requested_by.filter(|by| by.starts_with("user:"));
        let user = match named {
            Some(named) => UserId::from_requested_by(named),
            None => self.connection_user.clone().or_else(|| identity.only_produced_user()),
        };
        let user = match user {
            Some(user) if identity.may_for(Role::Produce, &user) => user,
            None if named.is_none() => {
                let message = "Name the user of this session: set requested_by to user: and their id, or add ?user= to \
                               the address of the connection.";
                return Err(AgentError::at("/requested_by", message));
            }
            _ => return Err(AgentError::at("/requested_by", NO_SUCH_USER)),
        };
        self.engines
            .get(&user)
            .await
            .map_err(|_| AgentError::new("The records of this user cannot be read at the moment. Try again later."))
    }

    /// Returns whether the agent may act for a user.
    pub(super) fn may_act_for(&self, user: &UserId) -> bool {
        match self.identity.as_ref().filter(|_| self.engines.is_per_user()) {
            Some(identity) => identity.may_for(Role::Produce, user),
            None => true,
        }
    }

    /// Returns the only engine, if there is one user.
    pub(super) fn only_engine(&self) -> Option<&EngineRef> {
        if self.engines.is_per_user() && self.identity.is_some() { None } else { Some(self.engines.local()) }
    }

    /// Returns the engines that may have sessions of the agent from before a restart.
    pub(super) fn recovered_engines(&self) -> Vec<EngineRef> {
        let Some(identity) = &self.identity else { return vec![self.engines.local().clone()] };
        let mut engines = self.engines.recovered_for(identity);
        if let Some(user) = self.connection_user.as_ref().filter(|_| self.engines.is_per_user()) {
            engines.retain(|engine| engine.user() == user);
        }
        engines
    }

    /// Returns the events of the agent that were emitted before the last restart, the oldest first.
    pub(super) async fn seen_events(&self, recovery_key: &str) -> Vec<SeenEvent> {
        self.engines.seen_events(recovery_key).await
    }
}

/// What an agent is told that names a user whom it may not act for, or who does not exist.
pub(super) const NO_SUCH_USER: &str = "These credentials are for no such user. Name a user that they are for.";
