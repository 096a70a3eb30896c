//! All agents of a server: which connection belongs to which agent, which agent owns which session, and when an agent
//! counts as lost.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use aaep::LanguageTag;
use aaep_keys::{Identity, NamedUsers, UserId};
use tokio::time::Instant;

use super::cancel_requests::CancelRequests;
use super::identity::AgentIdentity;
use super::relay::Relay;
use super::resources::{AgentResources, ResourceOwner};
use super::urgent::UrgentCounter;
use super::users::AgentUsers;
use crate::admission::Admission;
use crate::admission::quota::{QuotaError, QuotaExhausted, QuotaSlot};
use crate::config::Config;
use crate::engines::Engines;

/// How long an agent whose WebSocket was lost has time to connect again.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// How long an agent that uses requests may send none.
const REQUEST_IDLE_TIMEOUT: Duration = Duration::from_secs(600);

/// How often to look for agents that are lost.
const EXPIRY_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Longest name that an agent gives its connection, in bytes.
const MAX_NAME_BYTES: usize = 128;

/// Which agent owns which open session.
#[derive(Debug, Default)]
pub(super) struct SessionOwners {
    /// The agent and the user of a session, by the producer's session id.
    owners: Mutex<BTreeMap<String, (u64, UserId)>>,
    agent_count: AtomicU64,
}

impl SessionOwners {
    /// Returns the number of a new agent.
    pub(super) fn next_agent_number(&self) -> u64 {
        self.agent_count.fetch_add(1, Relaxed)
    }

    pub(super) fn insert(&self, session_id: &str, agent_number: u64, user: &UserId) {
        self.lock().insert(session_id.to_owned(), (agent_number, user.clone()));
    }

    pub(super) fn remove(&self, session_id: &str) {
        self.lock().remove(session_id);
    }

    /// Returns whether the session belongs to an agent other than this one, and is for a user that this agent may know of.
    pub(super) fn is_owned_by_another(
        &self,
        session_id: &str,
        agent_number: u64,
        may_know: impl FnOnce(&UserId) -> bool,
    ) -> bool {
        self.lock().get(session_id).is_some_and(|(owner, user)| *owner != agent_number && may_know(user))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, (u64, UserId)>> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How an agent connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionKind {
    /// By a connection that stays open: a WebSocket.
    Persistent,
    /// By single requests.
    PerRequest,
}

/// Identifies an agent among those of a server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct AgentKey {
    /// The principal with a prefix, or empty if the server asks for no credentials: a principal may have any name.
    principal: String,
    /// The name or the number of the agent; empty for the requests of a principal that gives no name.
    label: String,
    /// The users that the credentials name. Other credentials of the same principal may name others, and what was begun for
    /// one of them is out of their reach.
    users: NamedUsers,
    /// The user that the connection names.
    connection_user: Option<UserId>,
}

/// An agent's connection or request, as it identifies itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct AgentConnection<'a> {
    /// The credentials; `None` if the server asks for none. Then a name alone identifies an agent.
    pub(super) identity: Option<&'a Arc<Identity>>,
    /// The name that the agent gives itself.
    pub(super) name: Option<&'a str>,
    /// The user whom the connection is for, unless a session names another.
    pub(super) user: Option<&'a UserId>,
    pub(super) kind: ConnectionKind,
}

/// All agents of a server.
#[derive(Debug)]
pub(crate) struct AgentRegistry {
    engines: Arc<Engines>,
    agent_id: String,
    language: LanguageTag,
    session_owners: Arc<SessionOwners>,
    admission: Admission,
    agents: Mutex<BTreeMap<AgentKey, Arc<AgentEntry>>>,
}

/// One agent of a server.
#[derive(Debug)]
struct AgentEntry {
    relay: Arc<tokio::sync::Mutex<Relay>>,
    urgent_events: UrgentCounter,
    cancel_requests: CancelRequests,
    presence: Mutex<Presence>,
}

#[derive(Debug)]
struct Presence {
    /// Open connections and requests.
    connections: usize,
    /// When the agent counts as lost, if it has no connection by then.
    expires_at: Instant,
}

/// Keeps an agent from expiring while one of its connections or requests is open.
#[derive(Debug)]
pub(super) struct AgentGuard {
    entry: Arc<AgentEntry>,
    kind: ConnectionKind,
}

impl AgentGuard {
    /// Returns the agent.
    pub(super) fn relay(&self) -> &Arc<tokio::sync::Mutex<Relay>> {
        &self.entry.relay
    }

    /// Returns the counter of the agent's urgent events, which needs no lock of the relay.
    pub(super) fn urgent_events(&self) -> &UrgentCounter {
        &self.entry.urgent_events
    }

    /// Returns the requests of users that the agent stops, which needs no lock of the relay.
    pub(super) fn cancel_requests(&self) -> &CancelRequests {
        &self.entry.cancel_requests
    }
}

impl Drop for AgentGuard {
    fn drop(&mut self) {
        let timeout = match self.kind {
            ConnectionKind::Persistent => RECONNECT_TIMEOUT,
            ConnectionKind::PerRequest => REQUEST_IDLE_TIMEOUT,
        };
        // If the lock is taken, another connection uses the agent, so it is not blank.
        let is_blank = self.entry.relay.try_lock().is_ok_and(|relay| relay.is_blank());
        let mut presence = self.entry.presence();
        presence.connections -= 1;
        // An agent whose events were all refused has nothing to come back to.
        presence.expires_at = if is_blank { Instant::now() } else { presence.expires_at.max(Instant::now() + timeout) };
    }
}

impl AgentEntry {
    fn presence(&self) -> MutexGuard<'_, Presence> {
        self.presence.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether it may be removed to make room for another agent: it has no connection, session or question.
    fn is_evictable(&self) -> bool {
        self.presence().connections == 0 && self.relay.try_lock().is_ok_and(|relay| relay.is_idle())
    }

    fn is_expired(&self) -> bool {
        let presence = self.presence();
        presence.connections == 0 && presence.expires_at <= Instant::now()
    }
}

impl AgentRegistry {
    /// Creates an empty registry, and a task that removes lost agents until the registry is dropped.
    pub(crate) fn new(engines: Arc<Engines>, config: &Config, admission: &Admission) -> Arc<AgentRegistry> {
        let english = || "en".parse().expect("en is a language tag");
        let registry = Arc::new(AgentRegistry {
            engines,
            agent_id: config.agent_id.clone(),
            language: config.languages.first().cloned().unwrap_or_else(english),
            session_owners: Arc::default(),
            admission: admission.clone(),
            agents: Mutex::default(),
        });
        tokio::spawn(remove_lost_agents(Arc::downgrade(&registry)));
        registry
    }

    /// Finds or creates the agent of a connection. Connections of one principal with the same name, for the same users, belong
    /// to one agent.
    pub(super) fn acquire(&self, connection: AgentConnection<'_>) -> Result<AgentGuard, QuotaError> {
        let AgentConnection { identity, name, user, kind } = connection;
        let principal = identity.map(|identity| identity.principal.as_str());
        let label = match (name, kind) {
            (Some(name), _) => format!("name {name}"),
            (None, ConnectionKind::PerRequest) => String::new(),
            // Without a name, nobody can connect to this agent again.
            (None, ConnectionKind::Persistent) => format!("number {}", self.session_owners.next_agent_number()),
        };
        let key = AgentKey {
            principal: principal.map_or_else(String::new, |name| format!("of {name}")),
            label,
            users: identity.map(|identity| identity.users.clone()).unwrap_or_default(),
            connection_user: user.cloned(),
        };
        let mut agents = self.lock();
        let entry = match agents.get(&key) {
            Some(entry) => entry.clone(),
            None => {
                let slot = self.acquire_slot(&key.principal, &mut agents)?;
                let quota_owner = if principal.is_some() { key.principal.clone() } else { key.label.clone() };
                let owner = ResourceOwner {
                    principal: principal.unwrap_or(Identity::LOCAL),
                    quota_owner,
                    is_per_user: self.engines.is_per_user(),
                };
                let resources = AgentResources::new(&self.admission, owner, slot);
                let relay = self.create_relay(connection).with_resources(resources);
                let entry = Arc::new(AgentEntry {
                    urgent_events: relay.urgent_events(),
                    cancel_requests: relay.cancel_requests(),
                    relay: Arc::new(relay.into()),
                    presence: Mutex::new(Presence { connections: 0, expires_at: Instant::now() }),
                });
                agents.insert(key, entry.clone());
                entry
            }
        };
        entry.presence().connections += 1;
        Ok(AgentGuard { entry, kind })
    }

    /// Acquires a slot for one more agent. If there is none, removes evictable agents: first those of the same principal,
    /// then those of others.
    fn acquire_slot(
        &self,
        principal: &str,
        agents: &mut BTreeMap<AgentKey, Arc<AgentEntry>>,
    ) -> Result<QuotaSlot, QuotaError> {
        let error = match self.admission.agents.acquire(principal) {
            Ok(slot) => return Ok(slot),
            Err(error) => error,
        };
        let mut evictable: Vec<(bool, Instant, AgentKey)> = agents
            .iter()
            .filter(|(key, _)| error.reason == QuotaExhausted::Total || key.principal == principal)
            .filter(|(_, entry)| entry.is_evictable())
            .map(|(key, entry)| (key.principal != principal, entry.presence().expires_at, key.clone()))
            .collect();
        evictable.sort();
        for (_, _, key) in evictable {
            agents.remove(&key);
            if let Ok(slot) = self.admission.agents.acquire(principal) {
                return Ok(slot);
            }
        }
        Err(error)
    }

    fn create_relay(&self, connection: AgentConnection<'_>) -> Relay {
        let AgentConnection { identity: credentials, name, user, kind } = connection;
        let principal = credentials.map(|identity| identity.principal.as_str());
        let language = self.language.clone();
        let identity = match (principal, name) {
            (None, name) => AgentIdentity::unrestricted(name.unwrap_or(&self.agent_id), language),
            (Some(principal), None) => AgentIdentity::for_principal(principal, language),
            (Some(principal), Some(name)) => {
                let mut identity = AgentIdentity::for_principal(principal, language);
                identity.producer.agent_id = format!("{principal}/{name}");
                identity
            }
        };
        let users = AgentUsers::new(self.engines.clone(), credentials.cloned(), user.cloned());
        let relay = Relay::with_session_owners(users, identity, self.session_owners.clone());
        if name.is_some() || kind == ConnectionKind::PerRequest {
            // As JSON, so that no two agents make the same key.
            let key = match user {
                Some(user) => serde_json::json!([principal, name, user.as_str()]),
                None => serde_json::json!([principal, name]),
            };
            relay.with_recovery_key(key.to_string())
        } else {
            relay
        }
    }

    /// Removes and returns the agents that count as lost.
    fn remove_expired(&self) -> Vec<Arc<AgentEntry>> {
        let mut agents = self.lock();
        let expired: Vec<AgentKey> =
            agents.iter().filter(|(_, entry)| entry.is_expired()).map(|(key, _)| key.clone()).collect();
        expired.iter().filter_map(|key| agents.remove(key)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<AgentKey, Arc<AgentEntry>>> {
        self.agents.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns whether this can be the name of a connection. It becomes a part of the `agent_id`.
pub(super) fn is_valid_name(name: &str) -> bool {
    (1..=MAX_NAME_BYTES).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b))
}

/// Removes agents that count as lost and ends their sessions.
async fn remove_lost_agents(registry: Weak<AgentRegistry>) {
    let mut interval = tokio::time::interval(EXPIRY_CHECK_INTERVAL);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        interval.tick().await;
        let Some(expired) = registry.upgrade().map(|registry| registry.remove_expired()) else { return };
        for entry in expired {
            // The entry was removed and has no connection, so this does not wait.
            let mut relay = entry.relay.lock().await;
            if relay.sessions() > 0 {
                tracing::info!("an agent did not come back; its sessions end as errored");
                relay.fail("The connection to the agent was lost.").await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use aaep::Producer;
    use aaep::message::{Capabilities, CoreType};
    use aaep::transport::{Link, Outbound};

    use super::*;
    use crate::agents::ResponseState;

    const STARTED: &[u8] = br#"{"type":"session.started","session_id":"s","summary_normal":"Digging."}"#;

    async fn registry_with_subscriber() -> (Arc<AgentRegistry>, Link) {
        let producer = Producer::builder("garden").build();
        let link = producer.subscribe_local("screen-reader", Capabilities::default()).await.unwrap();
        let config = Config::default();
        (AgentRegistry::new(Engines::shared(producer), &config, &Admission::per_principal(&config.limits, false)), link)
    }

    fn acquire(
        agents: &AgentRegistry,
        principal: Option<&str>,
        name: Option<&str>,
        kind: ConnectionKind,
    ) -> Result<AgentGuard, QuotaError> {
        let identity = principal.map(|principal| Arc::new(Identity::new(principal, [aaep_keys::Role::Produce])));
        agents.acquire(AgentConnection { identity: identity.as_ref(), name, user: None, kind })
    }

    async fn wait_for(link: &mut Link, core: CoreType) {
        loop {
            match link.recv().await.expect("the link is open") {
                Outbound::Event(frame) if frame.event().core_type() == Some(core) => return,
                _ => {}
            }
        }
    }

    async fn send(guard: &AgentGuard, line: &[u8]) -> serde_json::Value {
        match guard.relay().lock().await.handle_line(line).await {
            ResponseState::Ready(response) => response.to_json(),
            ResponseState::Pending(pending) => panic!("{pending:?}"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn sessions_of_a_lost_agent_end_as_errored() {
        for (kind, timeout) in
            [(ConnectionKind::Persistent, RECONNECT_TIMEOUT), (ConnectionKind::PerRequest, REQUEST_IDLE_TIMEOUT)]
        {
            let (agents, mut link) = registry_with_subscriber().await;
            let guard = acquire(&agents, Some("ada"), None, kind).unwrap();
            assert_eq!(send(&guard, STARTED).await["type"], "published");
            let before = Instant::now();
            drop(guard);
            wait_for(&mut link, CoreType::SessionErrored).await;
            let passed = before.elapsed();
            assert!(passed >= timeout && passed < timeout + 3 * EXPIRY_CHECK_INTERVAL, "{kind:?} {passed:?}");
            assert!(agents.lock().is_empty());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn agent_that_reconnects_in_time_continues_its_session() {
        let (agents, mut link) = registry_with_subscriber().await;
        let guard = acquire(&agents, Some("ada"), Some("one"), ConnectionKind::Persistent).unwrap();
        send(&guard, STARTED).await;
        drop(guard);
        tokio::time::sleep(RECONNECT_TIMEOUT / 2).await;
        let guard = acquire(&agents, Some("ada"), Some("one"), ConnectionKind::Persistent).unwrap();
        tokio::time::sleep(2 * REQUEST_IDLE_TIMEOUT).await;
        let done = br#"{"type":"session.completed","session_id":"s","summary_normal":"Done."}"#;
        assert_eq!(send(&guard, done).await["type"], "published");
        wait_for(&mut link, CoreType::SessionCompleted).await;
    }

    #[tokio::test]
    async fn agent_cannot_write_to_the_session_of_another() {
        let (agents, _link) = registry_with_subscriber().await;
        let ada = acquire(&agents, Some("ada"), None, ConnectionKind::PerRequest).unwrap();
        let eve = acquire(&agents, Some("eve"), None, ConnectionKind::PerRequest).unwrap();
        let id = send(&ada, STARTED).await["session_id"].as_str().unwrap().to_owned();
        for kind in ["session.completed", "session.started", "state.changed"] {
            let line =
                format!(r#"{{"type":"{kind}","session_id":"{id}","summary_normal":"Mine.","to_state":"deciding"}}"#);
            let response = send(&eve, line.as_bytes()).await;
            let text = response["problems"][0]["message"].as_str().unwrap_or_default();
            // Only state.changed is valid by itself; the others are refused for whatever is wrong first.
            assert_eq!(response["type"], "refused", "{response}");
            assert!(text.contains("another agent") || kind != "state.changed", "{response}");
        }
        let line = format!(r#"{{"type":"session.completed","session_id":"{id}","summary_normal":"Done."}}"#);
        assert_eq!(send(&ada, line.as_bytes()).await["type"], "published");
        // The session has ended, and its id cannot be used again.
        assert_eq!(send(&ada, STARTED).await["type"], "refused");
    }

    #[tokio::test]
    async fn number_of_agents_is_bounded() {
        let producer = Producer::builder("garden").build();
        let limits = crate::Limits { agents: 100, ..crate::Limits::default() };
        let config = Config { limits, ..Config::default() };
        let agents = AgentRegistry::new(Engines::shared(producer), &config, &Admission::shared(&config.limits));
        let guards: Vec<AgentGuard> =
            (0..100).map(|_| acquire(&agents, None, None, ConnectionKind::Persistent).unwrap()).collect();
        assert!(acquire(&agents, None, None, ConnectionKind::Persistent).is_err());
        drop(guards);
    }

    #[tokio::test]
    async fn agent_whose_events_are_all_invalid_keeps_no_slot() {
        let (agents, _link) = registry_with_subscriber().await;
        for n in 0..2048 {
            let guard = acquire(&agents, Some("eve"), Some(&format!("a{n}")), ConnectionKind::PerRequest).unwrap();
            assert_eq!(send(&guard, br#"{"type":"tool.invoked"}"#).await["type"], "refused");
            drop(guard);
        }
        assert!(agents.lock().values().all(|entry| entry.is_expired()));
        assert!(acquire(&agents, Some("ada"), None, ConnectionKind::PerRequest).is_ok());
    }

    #[tokio::test]
    async fn agents_of_one_principal_cannot_take_the_slots_of_another() {
        let (agents, _link) = registry_with_subscriber().await;
        let mut guards = Vec::new();
        while let Ok(guard) = acquire(&agents, Some("eve"), None, ConnectionKind::Persistent) {
            guards.push(guard);
        }
        assert_eq!(guards.len(), Config::default().limits.agents_per_principal);
        let ada = acquire(&agents, Some("ada"), None, ConnectionKind::Persistent).unwrap();
        assert_eq!(send(&ada, STARTED).await["type"], "published");
    }

    #[tokio::test]
    async fn idle_agents_are_evicted_for_new_ones() {
        let (agents, link) = registry_with_subscriber().await;
        // A subscriber that does not read would slow the agents down.
        drop(link);
        let most = Config::default().limits.agents_per_principal;
        for n in 0..2 * most {
            let guard = acquire(&agents, Some("eve"), Some(&format!("a{n}")), ConnectionKind::PerRequest).unwrap();
            send(&guard, STARTED).await;
            send(&guard, br#"{"type":"session.completed","session_id":"s","summary_normal":"Done."}"#).await;
        }
        assert!(agents.lock().len() <= most);
    }

    #[tokio::test]
    async fn sessions_of_one_principal_cannot_take_the_slots_of_another() {
        let (agents, link) = registry_with_subscriber().await;
        // A subscriber that does not read would slow the agents down.
        drop(link);
        let mut guards = Vec::new();
        let mut started = 0;
        'all: for n in 0.. {
            let guard = acquire(&agents, Some("eve"), Some(&format!("a{n}")), ConnectionKind::Persistent).unwrap();
            for s in 0..256 {
                let line = format!(r#"{{"type":"session.started","session_id":"s{s}","summary_normal":"Digging."}}"#);
                let response = send(&guard, line.as_bytes()).await;
                if response["type"] != "published" {
                    let text = response["problems"][0]["message"].as_str().unwrap();
                    assert!(text.contains("limits.sessions_per_principal"), "{text}");
                    break 'all;
                }
                started += 1;
            }
            guards.push(guard);
        }
        assert_eq!(started, Config::default().limits.sessions_per_principal);
        let ada = acquire(&agents, Some("ada"), None, ConnectionKind::Persistent).unwrap();
        assert_eq!(send(&ada, STARTED).await["type"], "published");
    }

    #[test]
    fn valid_names_have_letters_digits_and_a_few_signs() {
        assert!(is_valid_name("planner-2.b_c"));
        for bad in ["", "a/b", "a b", "\u{e9}", &"a".repeat(129)] {
            assert!(!is_valid_name(bad), "{bad}");
        }
    }
}
