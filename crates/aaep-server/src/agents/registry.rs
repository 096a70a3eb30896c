//! All agents of a server: who they are, which sessions are theirs, and when they count as gone.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use aaep::{LanguageTag, Producer};
use tokio::time::Instant;

use super::identity::AgentIdentity;
use super::relay::Relay;
use super::share::Share;
use super::urgent::Urgent;
use crate::admission::Admission;
use crate::admission::quota::{QuotaError, QuotaExhausted, QuotaSlot};
use crate::config::Config;

/// How long an agent whose connection is lost may take to come back.
const GRACE: Duration = Duration::from_secs(30);

/// How long an agent without a connection may say nothing.
const SILENCE: Duration = Duration::from_secs(600);

/// How often agents are looked after.
const LOOK: Duration = Duration::from_secs(1);

/// Most characters of the name that an agent gives its connection.
const NAME: usize = 128;

/// Whose session is whose.
#[derive(Debug, Default)]
pub(super) struct Names {
    owners: Mutex<BTreeMap<String, u64>>,
    count: AtomicU64,
}

impl Names {
    /// A number for a new agent.
    pub(super) fn number(&self) -> u64 {
        self.count.fetch_add(1, Relaxed)
    }

    pub(super) fn add(&self, session: &str, owner: u64) {
        self.lock().insert(session.to_owned(), owner);
    }

    pub(super) fn remove(&self, session: &str) {
        self.lock().remove(session);
    }

    /// Whether the session belongs to another agent than this.
    pub(super) fn is_others(&self, session: &str, owner: u64) -> bool {
        self.lock().get(session).is_some_and(|known| *known != owner)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, u64>> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// By which way an agent comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionKind {
    /// A connection that stays.
    Connection,
    /// Requests, one at a time.
    Requests,
}

type Key = (String, String);

/// All agents of a server.
#[derive(Debug)]
pub(crate) struct Agents {
    producer: Producer,
    agent_id: String,
    language: LanguageTag,
    names: Arc<Names>,
    admission: Admission,
    desks: Mutex<BTreeMap<Key, Arc<AgentEntry>>>,
}

/// One agent.
#[derive(Debug)]
struct AgentEntry {
    relay: Arc<tokio::sync::Mutex<Relay>>,
    urgent: Urgent,
    presence: Mutex<Presence>,
}

#[derive(Debug)]
struct Presence {
    /// Connections and requests that are there now.
    here: usize,
    /// When it counts as gone, if nobody is there.
    until: Instant,
}

/// An agent that is here.
#[derive(Debug)]
pub(super) struct AgentLease {
    desk: Arc<AgentEntry>,
    way: ConnectionKind,
}

impl AgentLease {
    /// The agent.
    pub(super) fn relay(&self) -> &Arc<tokio::sync::Mutex<Relay>> {
        &self.desk.relay
    }

    /// Counts urgent events of the agent before they are taken.
    pub(super) fn urgent(&self) -> &Urgent {
        &self.desk.urgent
    }
}

impl Drop for AgentLease {
    fn drop(&mut self) {
        let time = match self.way {
            ConnectionKind::Connection => GRACE,
            ConnectionKind::Requests => SILENCE,
        };
        // While others use the agent, it is not blank.
        let blank = self.desk.relay.try_lock().is_ok_and(|relay| relay.is_blank());
        let mut presence = self.desk.presence();
        presence.here -= 1;
        // Who was refused all it said has nothing to come back to.
        presence.until = if blank { Instant::now() } else { presence.until.max(Instant::now() + time) };
    }
}

impl AgentEntry {
    fn presence(&self) -> MutexGuard<'_, Presence> {
        self.presence.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it may be given up for another agent: nobody is there, and nothing of it goes on.
    fn is_idle(&self) -> bool {
        self.presence().here == 0 && self.relay.try_lock().is_ok_and(|relay| relay.is_idle())
    }

    fn is_gone(&self) -> bool {
        let presence = self.presence();
        presence.here == 0 && presence.until <= Instant::now()
    }
}

impl Agents {
    /// No agents yet. The task that looks after them ends with the last handle.
    pub(crate) fn new(producer: Producer, config: &Config, admission: &Admission) -> Arc<Agents> {
        let english = || "en".parse().expect("en is a language tag");
        let agents = Arc::new(Agents {
            producer,
            agent_id: config.agent_id.clone(),
            language: config.languages.first().cloned().unwrap_or_else(english),
            names: Arc::default(),
            admission: admission.clone(),
            desks: Mutex::default(),
        });
        tokio::spawn(look_after(Arc::downgrade(&agents)));
        agents
    }

    /// A place for an agent of this principal; that which it had before, if it gives its connection the same name.
    /// Without a principal everyone may be anyone.
    pub(super) fn enter(
        &self,
        principal: Option<&str>,
        name: Option<&str>,
        way: ConnectionKind,
    ) -> Result<AgentLease, QuotaError> {
        let label = match (name, way) {
            (Some(name), _) => format!("name {name}"),
            (None, ConnectionKind::Requests) => String::new(),
            // Without a name nobody can come back to it.
            (None, ConnectionKind::Connection) => format!("number {}", self.names.number()),
        };
        // A principal may be called anything, so that who has none must not look like one.
        let key = (principal.map_or_else(String::new, |principal| format!("of {principal}")), label);
        let mut desks = self.lock();
        let desk = match desks.get(&key) {
            Some(desk) => desk.clone(),
            None => {
                let place = self.place_for(&key.0, &mut desks)?;
                // Principals share the sessions; where there are none, agents do.
                let owner = if principal.is_some() { key.0.clone() } else { key.1.clone() };
                let share = Share::new(&self.admission, principal.unwrap_or(aaep_keys::Identity::LOCAL), owner, place);
                let relay = self.relay(principal, name, way).within(share);
                let presence = Mutex::new(Presence { here: 0, until: Instant::now() });
                let urgent = relay.urgent();
                let desk = Arc::new(AgentEntry { relay: Arc::new(relay.into()), urgent, presence });
                desks.insert(key, desk.clone());
                desk
            }
        };
        desk.presence().here += 1;
        Ok(AgentLease { desk, way })
    }

    /// A place for one more agent. If there is none, agents of the same principal give way that have nothing going on, and
    /// after them those of others.
    fn place_for(&self, principal: &str, desks: &mut BTreeMap<Key, Arc<AgentEntry>>) -> Result<QuotaSlot, QuotaError> {
        let error = match self.admission.agents.acquire(principal) {
            Ok(place) => return Ok(place),
            Err(error) => error,
        };
        let mut idle: Vec<(bool, Instant, Key)> = desks
            .iter()
            .filter(|(key, desk)| (error.reason == QuotaExhausted::Total || key.0 == principal) && desk.is_idle())
            .map(|(key, desk)| (key.0 != principal, desk.presence().until, key.clone()))
            .collect();
        idle.sort();
        for (_, _, key) in idle {
            desks.remove(&key);
            if let Ok(place) = self.admission.agents.acquire(principal) {
                return Ok(place);
            }
        }
        Err(error)
    }

    /// A new agent.
    fn relay(&self, principal: Option<&str>, name: Option<&str>, way: ConnectionKind) -> Relay {
        let who = match (principal, name) {
            (None, name) => AgentIdentity::anyone(name.unwrap_or(&self.agent_id), self.language.clone()),
            (Some(principal), None) => AgentIdentity::of_principal(principal, self.language.clone()),
            (Some(principal), Some(name)) => {
                let mut who = AgentIdentity::of_principal(principal, self.language.clone());
                who.producer.agent_id = format!("{principal}/{name}");
                who
            }
        };
        // As JSON, so that no two look the same.
        let home = (name.is_some() || way == ConnectionKind::Requests)
            .then(|| serde_json::json!([principal, name]).to_string());
        let relay = Relay::among(self.producer.clone(), who, self.names.clone());
        match home {
            Some(home) => relay.at_home(home),
            None => relay,
        }
    }

    /// Agents that are gone, taken out.
    fn take_gone(&self) -> Vec<Arc<AgentEntry>> {
        let mut desks = self.lock();
        let gone: Vec<Key> = desks.iter().filter(|(_, desk)| desk.is_gone()).map(|(key, _)| key.clone()).collect();
        gone.iter().filter_map(|key| desks.remove(key)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, Arc<AgentEntry>>> {
        self.desks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether this can be the name of a connection. It becomes a part of the agent's id.
pub(super) fn is_name(name: &str) -> bool {
    (1..=NAME).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b))
}

/// Ends the sessions of agents that are gone.
async fn look_after(agents: Weak<Agents>) {
    let mut look = tokio::time::interval(LOOK);
    look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        look.tick().await;
        let Some(gone) = agents.upgrade().map(|agents| agents.take_gone()) else { return };
        for desk in gone {
            // Nobody else has it any more, so it is free.
            let mut relay = desk.relay.lock().await;
            if relay.sessions() > 0 {
                tracing::info!("an agent is gone; its sessions are ended");
                relay.fail("The connection to the agent was lost.").await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use aaep::message::{Capabilities, CoreType};
    use aaep::transport::{Link, Outbound};

    use super::*;
    use crate::admission::MAX_AGENTS;
    use crate::agents::Reply;

    const STARTED: &[u8] = br#"{"type":"session.started","session_id":"s","summary_normal":"Digging."}"#;

    async fn house() -> (Arc<Agents>, Link) {
        let producer = Producer::builder("house").build();
        let link = producer.subscribe_local("ear", Capabilities::default()).await.unwrap();
        let config = Config::default();
        (Agents::new(producer, &config, &Admission::per_principal(&config.limits)), link)
    }

    async fn until(link: &mut Link, core: CoreType) {
        loop {
            match link.recv().await.expect("it goes on") {
                Outbound::Event(frame) if frame.event().core_type() == Some(core) => return,
                _ => {}
            }
        }
    }

    async fn say(seat: &AgentLease, line: &[u8]) -> serde_json::Value {
        match seat.relay().lock().await.take(line).await {
            Reply::Now(answer) => answer.to_json(),
            Reply::Later(pending) => panic!("{pending:?}"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_gone_too_long_has_failed() {
        for (way, time) in [(ConnectionKind::Connection, GRACE), (ConnectionKind::Requests, SILENCE)] {
            let (agents, mut link) = house().await;
            let seat = agents.enter(Some("ada"), None, way).unwrap();
            assert_eq!(say(&seat, STARTED).await["type"], "published");
            let before = Instant::now();
            drop(seat);
            until(&mut link, CoreType::SessionErrored).await;
            let passed = before.elapsed();
            assert!(passed >= time && passed < time + 3 * LOOK, "{way:?} {passed:?}");
            assert!(agents.lock().is_empty());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_comes_back_in_time_goes_on() {
        let (agents, mut link) = house().await;
        let seat = agents.enter(Some("ada"), Some("one"), ConnectionKind::Connection).unwrap();
        say(&seat, STARTED).await;
        drop(seat);
        tokio::time::sleep(GRACE / 2).await;
        let seat = agents.enter(Some("ada"), Some("one"), ConnectionKind::Connection).unwrap();
        tokio::time::sleep(2 * SILENCE).await;
        let done = br#"{"type":"session.completed","session_id":"s","summary_normal":"Done."}"#;
        assert_eq!(say(&seat, done).await["type"], "published");
        until(&mut link, CoreType::SessionCompleted).await;
    }

    #[tokio::test]
    async fn nobody_writes_to_the_session_of_another() {
        let (agents, _link) = house().await;
        let ada = agents.enter(Some("ada"), None, ConnectionKind::Requests).unwrap();
        let eve = agents.enter(Some("eve"), None, ConnectionKind::Requests).unwrap();
        let id = say(&ada, STARTED).await["session_id"].as_str().unwrap().to_owned();
        for kind in ["session.completed", "session.started", "state.changed"] {
            let line =
                format!(r#"{{"type":"{kind}","session_id":"{id}","summary_normal":"Mine.","to_state":"deciding"}}"#);
            let answer = say(&eve, line.as_bytes()).await;
            let text = answer["problems"][0]["message"].as_str().unwrap_or_default();
            // A completed event has no state; whatever is said first, it is refused.
            assert_eq!(answer["type"], "refused", "{answer}");
            assert!(text.contains("another agent") || kind != "state.changed", "{answer}");
        }
        let line = format!(r#"{{"type":"session.completed","session_id":"{id}","summary_normal":"Done."}}"#);
        assert_eq!(say(&ada, line.as_bytes()).await["type"], "published");
        // Once more, now that it has ended: it is still nothing that she may start.
        assert_eq!(say(&ada, STARTED).await["type"], "refused");
    }

    #[tokio::test]
    async fn places_are_bounded() {
        let producer = Producer::builder("house").build();
        let config = Config::default();
        let agents = Agents::new(producer, &config, &Admission::shared(&config.limits));
        let seats: Vec<AgentLease> =
            (0..MAX_AGENTS).map(|_| agents.enter(None, None, ConnectionKind::Connection).unwrap()).collect();
        assert!(agents.enter(None, None, ConnectionKind::Connection).is_err());
        drop(seats);
    }

    #[tokio::test]
    async fn an_agent_whose_events_are_all_invalid_takes_no_place() {
        let (agents, _link) = house().await;
        for n in 0..2 * MAX_AGENTS {
            let seat = agents.enter(Some("eve"), Some(&format!("a{n}")), ConnectionKind::Requests).unwrap();
            assert_eq!(say(&seat, br#"{"type":"tool.invoked"}"#).await["type"], "refused");
            drop(seat);
        }
        assert!(agents.lock().values().all(|desk| desk.is_gone()));
        assert!(agents.enter(Some("ada"), None, ConnectionKind::Requests).is_ok());
    }

    #[tokio::test]
    async fn agents_of_one_principal_cannot_take_the_places_of_another() {
        let (agents, _link) = house().await;
        let mut seats = Vec::new();
        while let Ok(seat) = agents.enter(Some("eve"), None, ConnectionKind::Connection) {
            seats.push(seat);
        }
        assert_eq!(seats.len(), Config::default().limits.agents_per_principal);
        let ada = agents.enter(Some("ada"), None, ConnectionKind::Connection).unwrap();
        assert_eq!(say(&ada, STARTED).await["type"], "published");
    }

    #[tokio::test]
    async fn idle_agents_give_way_to_new_ones() {
        let (agents, link) = house().await;
        // A subscriber that does not read would slow the agents down.
        drop(link);
        let most = Config::default().limits.agents_per_principal;
        for n in 0..2 * most {
            let seat = agents.enter(Some("eve"), Some(&format!("a{n}")), ConnectionKind::Requests).unwrap();
            say(&seat, STARTED).await;
            say(&seat, br#"{"type":"session.completed","session_id":"s","summary_normal":"Done."}"#).await;
        }
        assert!(agents.lock().len() <= most);
    }

    #[tokio::test]
    async fn sessions_of_one_principal_cannot_take_the_places_of_another() {
        let (agents, link) = house().await;
        // A subscriber that does not read would slow the agents down.
        drop(link);
        let mut seats = Vec::new();
        let mut started = 0;
        'all: for n in 0.. {
            let seat = agents.enter(Some("eve"), Some(&format!("a{n}")), ConnectionKind::Connection).unwrap();
            for s in 0..256 {
                let line = format!(r#"{{"type":"session.started","session_id":"s{s}","summary_normal":"Digging."}}"#);
                let answer = say(&seat, line.as_bytes()).await;
                if answer["type"] != "published" {
                    let text = answer["problems"][0]["message"].as_str().unwrap();
                    assert!(text.contains("limits.sessions_per_principal"), "{text}");
                    break 'all;
                }
                started += 1;
            }
            seats.push(seat);
        }
        assert_eq!(started, Config::default().limits.sessions_per_principal);
        let ada = agents.enter(Some("ada"), None, ConnectionKind::Connection).unwrap();
        assert_eq!(say(&ada, STARTED).await["type"], "published");
    }

    #[test]
    fn names_are_plain() {
        assert!(is_name("planner-2.b_c"));
        for bad in ["", "a/b", "a b", "\u{e9}", &"a".repeat(129)] {
            assert!(!is_name(bad), "{bad}");
        }
    }
}
