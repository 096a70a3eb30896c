//! All agents of a server: who they are, which sessions are theirs, and when they count as gone.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use aaep::{LanguageTag, Producer};
use tokio::time::Instant;

use super::relay::Relay;
use super::urgent::Urgent;
use super::who::Who;
use crate::config::Config;

/// Agents at once.
const AGENTS: usize = 1024;

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
pub(super) enum Way {
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
    desks: Mutex<BTreeMap<Key, Arc<Desk>>>,
}

/// One agent.
#[derive(Debug)]
struct Desk {
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
pub(super) struct Seat {
    desk: Arc<Desk>,
    way: Way,
}

impl Seat {
    /// The agent.
    pub(super) fn relay(&self) -> &Arc<tokio::sync::Mutex<Relay>> {
        &self.desk.relay
    }

    /// Counts urgent events of the agent before they are taken.
    pub(super) fn urgent(&self) -> &Urgent {
        &self.desk.urgent
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let time = match self.way {
            Way::Connection => GRACE,
            Way::Requests => SILENCE,
        };
        let mut presence = self.desk.presence();
        presence.here -= 1;
        presence.until = presence.until.max(Instant::now() + time);
    }
}

impl Desk {
    fn presence(&self) -> MutexGuard<'_, Presence> {
        self.presence.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_gone(&self) -> bool {
        let presence = self.presence();
        presence.here == 0 && presence.until <= Instant::now()
    }
}

impl Agents {
    /// No agents yet. The task that looks after them ends with the last handle.
    pub(crate) fn new(producer: Producer, config: &Config) -> Arc<Agents> {
        let english = || "en".parse().expect("en is a language tag");
        let agents = Arc::new(Agents {
            producer,
            agent_id: config.agent_id.clone(),
            language: config.languages.first().cloned().unwrap_or_else(english),
            names: Arc::default(),
            desks: Mutex::default(),
        });
        tokio::spawn(look_after(Arc::downgrade(&agents)));
        agents
    }

    /// A place for an agent of this principal; that which it had before, if it gives its connection the same name.
    /// Without a principal everyone may be anyone. Nothing, if there is no place.
    pub(super) fn enter(&self, principal: Option<&str>, name: Option<&str>, way: Way) -> Option<Seat> {
        let who = match (principal, name) {
            (None, name) => Who::anyone(name.unwrap_or(&self.agent_id), self.language.clone()),
            (Some(principal), None) => Who::of_principal(principal, self.language.clone()),
            (Some(principal), Some(name)) => {
                let mut who = Who::of_principal(principal, self.language.clone());
                who.producer.agent_id = format!("{principal}/{name}");
                who
            }
        };
        // As JSON, so that no two look the same.
        let home = (name.is_some() || way == Way::Requests).then(|| serde_json::json!([principal, name]).to_string());
        let name = match (name, way) {
            (Some(name), _) => format!("name {name}"),
            (None, Way::Requests) => String::new(),
            // Without a name nobody can come back to it.
            (None, Way::Connection) => format!("number {}", self.names.number()),
        };
        let mut desks = self.lock();
        let full = desks.len() >= AGENTS;
        // A principal may be called anything, so that who has none must not look like one.
        let key = (principal.map_or_else(String::new, |principal| format!("of {principal}")), name);
        let desk = match desks.entry(key) {
            Entry::Occupied(entry) => entry.get().clone(),
            Entry::Vacant(_) if full => return None,
            Entry::Vacant(entry) => {
                let mut relay = Relay::among(self.producer.clone(), who, self.names.clone());
                if let Some(home) = home {
                    relay = relay.at_home(home);
                }
                let presence = Mutex::new(Presence { here: 0, until: Instant::now() });
                let urgent = relay.urgent();
                entry.insert(Arc::new(Desk { relay: Arc::new(relay.into()), urgent, presence })).clone()
            }
        };
        desk.presence().here += 1;
        Some(Seat { desk, way })
    }

    /// Agents that are gone, taken out.
    fn take_gone(&self) -> Vec<Arc<Desk>> {
        let mut desks = self.lock();
        let gone: Vec<Key> = desks.iter().filter(|(_, desk)| desk.is_gone()).map(|(key, _)| key.clone()).collect();
        gone.iter().filter_map(|key| desks.remove(key)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, Arc<Desk>>> {
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
    use aaep::{Link, Outgoing};

    use super::*;
    use crate::agents::Reply;

    const STARTED: &[u8] = br#"{"type":"session.started","session_id":"s","summary_normal":"Digging."}"#;

    async fn house() -> (Arc<Agents>, Link) {
        let producer = Producer::builder("house").build();
        let link = producer.listen("ear", Capabilities::default()).await.unwrap();
        (Agents::new(producer, &Config::default()), link)
    }

    async fn until(link: &mut Link, core: CoreType) {
        loop {
            match link.recv().await.expect("it goes on") {
                Outgoing::Event(frame) if frame.event().core_type() == Some(core) => return,
                _ => {}
            }
        }
    }

    async fn say(seat: &Seat, line: &[u8]) -> serde_json::Value {
        match seat.relay().lock().await.take(line).await {
            Reply::Now(answer) => answer.to_json(),
            Reply::Later(pending) => panic!("{pending:?}"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_gone_too_long_has_failed() {
        for (way, time) in [(Way::Connection, GRACE), (Way::Requests, SILENCE)] {
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
        let seat = agents.enter(Some("ada"), Some("one"), Way::Connection).unwrap();
        say(&seat, STARTED).await;
        drop(seat);
        tokio::time::sleep(GRACE / 2).await;
        let seat = agents.enter(Some("ada"), Some("one"), Way::Connection).unwrap();
        tokio::time::sleep(2 * SILENCE).await;
        let done = br#"{"type":"session.completed","session_id":"s","summary_normal":"Done."}"#;
        assert_eq!(say(&seat, done).await["type"], "published");
        until(&mut link, CoreType::SessionCompleted).await;
    }

    #[tokio::test]
    async fn nobody_writes_to_the_session_of_another() {
        let (agents, _link) = house().await;
        let ada = agents.enter(Some("ada"), None, Way::Requests).unwrap();
        let eve = agents.enter(Some("eve"), None, Way::Requests).unwrap();
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
        let (agents, _link) = house().await;
        let seats: Vec<Seat> = (0..AGENTS).map(|_| agents.enter(None, None, Way::Connection).unwrap()).collect();
        assert!(agents.enter(None, None, Way::Connection).is_none());
        drop(seats);
    }

    #[test]
    fn names_are_plain() {
        assert!(is_name("planner-2.b_c"));
        for bad in ["", "a/b", "a b", "\u{e9}", &"a".repeat(129)] {
            assert!(!is_name(bad), "{bad}");
        }
    }
}
