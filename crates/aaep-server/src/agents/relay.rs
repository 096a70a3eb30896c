//! One agent: its events become sessions, tools, outputs and questions of the producer.

mod restart;
mod text;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use aaep::journal::SeenEvent;
use aaep::message::{CoreType, EventMeta, Localized, Payload, SessionCompleted, SessionStarted, Urgency};
use aaep::{CallDigest, LanguageTag, Producer, SessionOptions};
use aaep_proto::{Problem, Rule};
use serde_json::Map;
use tokio::task::JoinSet;

use super::guarded::Guarded;
use super::identity::AgentIdentity;
use super::memory::{Known, Memory};
use super::raw_event::{CompletedEvent, RawEvent};
use super::registry::Names;
use super::reply::{Pending, Reply};
use super::response::{AgentError, AgentResponse, faults};
use super::session::{Open, ask_first, errored};
use super::share::{Occupied, Share};
use super::urgent::{Urgent, is_urgent_type};
use super::{ask, session};
use crate::admission::quota::QuotaSlot;
use crate::clock;
use restart::Left;
use text::Waiting;

/// Sessions of one agent at once.
const SESSIONS: usize = 256;

/// Sessions that have ended and are remembered.
const ENDED: usize = 1024;

/// Questions of one agent that may wait at once.
const QUESTIONS: usize = 256;

/// One agent.
///
/// ```
/// use aaep::Producer;
/// use aaep_server::agents::{Relay, Reply, AgentIdentity};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let producer = Producer::builder("house").build();
/// let mut relay = Relay::new(producer, AgentIdentity::anyone("gardener", "en".parse()?));
/// let line = br#"{"type": "session.started", "summary_normal": "Planning your garden."}"#;
/// let Reply::Now(answer) = relay.take(line).await else { unreachable!() };
/// assert_eq!(answer.to_json()["type"], "published");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Relay {
    producer: Producer,
    who: AgentIdentity,
    names: Arc<Names>,
    number: u64,
    /// Its name that outlasts a restart, if it can come back under one.
    home: Option<String>,
    /// By the id that subscribers see.
    sessions: BTreeMap<String, Open>,
    aliases: BTreeMap<String, String>,
    /// The session of events that name none.
    current: Option<String>,
    ended: VecDeque<String>,
    memory: Memory,
    /// Tools that count as irreversible in all sessions of the agent.
    guarded: Guarded,
    waiting: Option<Waiting>,
    /// The agent was slowed for as long as it may be, and no subscriber has caught up since.
    impatient: bool,
    /// Urgent events that are waiting to be taken.
    urgent: Urgent,
    /// Counts events that have no name of their own.
    unnamed: u64,
    questions: JoinSet<()>,
    /// Sessions from before a restart that were not taken up yet, once they were looked for.
    left: Vec<Left>,
    looked_back: bool,
    /// Events from before a restart, by the agent's names for them.
    before: BTreeMap<String, SeenEvent>,
    /// Events whose names are not on record yet.
    unkept: Vec<SeenEvent>,
    /// What it may occupy, if it is one of many.
    share: Option<Share>,
}

/// What an event is called.
#[derive(Debug)]
struct Name {
    /// By the agent, or by us if it did not say.
    id: String,
    /// Whether the agent said so.
    given: bool,
    /// The fingerprint of what it says, where it is needed.
    content: Option<CallDigest>,
    /// To find a question again after a restart.
    origin: Option<String>,
}

impl Name {
    /// What an event is known by that the agent would send again under the same name.
    fn fingerprint(&self) -> Option<String> {
        self.content.filter(|_| self.given).map(|content| format!("{}#{content}", self.id))
    }
}

impl Relay {
    /// An agent of this producer.
    pub fn new(producer: Producer, who: AgentIdentity) -> Relay {
        Relay::among(producer, who, Arc::default())
    }

    /// An agent among others.
    pub(super) fn among(producer: Producer, who: AgentIdentity, names: Arc<Names>) -> Relay {
        let number = names.number();
        Relay {
            producer,
            who,
            names,
            number,
            home: None,
            sessions: BTreeMap::new(),
            aliases: BTreeMap::new(),
            current: None,
            ended: VecDeque::new(),
            memory: Memory::default(),
            guarded: Guarded::default(),
            waiting: None,
            impatient: false,
            urgent: Urgent::default(),
            unnamed: 0,
            questions: JoinSet::new(),
            left: Vec::new(),
            looked_back: false,
            before: BTreeMap::new(),
            unkept: Vec::new(),
            share: None,
        }
    }

    /// Limits what the agent may occupy.
    pub(super) fn within(mut self, share: Share) -> Relay {
        self.share = Some(share);
        self
    }

    /// Whether it has no session and has said nothing that is worth remembering.
    pub(super) fn is_blank(&self) -> bool {
        self.is_idle() && self.memory.len() == 0 && self.ended.is_empty()
    }

    /// Whether it has no session and no question.
    pub(super) fn is_idle(&self) -> bool {
        self.sessions.is_empty() && self.left.is_empty() && self.questions.is_empty()
    }

    fn occupied(&self) -> Occupied {
        let outputs = self.sessions.values().map(|open| open.outputs.len()).sum();
        // One task waits for the answer, another holds the place.
        let questions = self.questions.len().div_ceil(2);
        Occupied { sessions: self.sessions.len(), outputs, questions }
    }

    /// Reserves memory for something that the agent is about to begin. What goes on needs no more than it has.
    fn reserve(&mut self, more: Occupied) -> Result<(), Vec<AgentError>> {
        let occupied = self.occupied().plus(more);
        match &mut self.share {
            Some(share) => share.reserve(occupied).map_err(|fault| vec![fault]),
            None => Ok(()),
        }
    }

    /// Adjusts the reservation to what there is after an event.
    fn adjust_memory(&mut self) {
        let occupied = self.occupied();
        let Some(share) = &mut self.share else { return };
        // It was reserved before it began, and some of it may have ended.
        let _ = share.reserve(occupied);
        while !share.remember(self.memory.len()) && self.memory.forget_half() {}
    }

    /// The same agent under a name that it comes back with after a restart, so that it finds its sessions again. No two
    /// agents of a producer may have the same.
    pub(super) fn at_home(mut self, name: String) -> Relay {
        self.home = Some(name);
        self
    }

    /// Counts urgent events of this agent before they are taken. While there are some, nothing of the agent is held back.
    pub(super) fn urgent(&self) -> Urgent {
        self.urgent.clone()
    }

    /// How many sessions go on.
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    /// Takes one JSON object. While no connected subscriber keeps up this waits, for a minute at most; questions, other
    /// critical events and the ends of sessions do not wait. Text may wait until [`flush`](Relay::flush) or the next event.
    pub async fn take(&mut self, line: &[u8]) -> Reply {
        while self.questions.try_join_next().is_some() {}
        let loose = match RawEvent::read(line) {
            Ok(loose) => loose,
            Err(fault) => return Reply::Now(AgentResponse::refused(None, vec![fault]).into()),
        };
        let given = loose.event_id.clone();
        // Questions are remembered even without a name: who asks again with the one that was given to it waits on.
        let asks = matches!(loose.core, Some(CoreType::AwaitingConfirmation | CoreType::AwaitingClarification));
        let content = (given.is_some() || asks).then(|| loose.content());
        if let (Some(id), Some(content)) = (&given, content) {
            let known = match self.memory.find(id, content) {
                Some(known) => Some(known),
                None => self.find_before(id, content).await,
            };
            match known {
                Some(Known::Same(reply)) => return reply.settled(),
                Some(Known::Other) => {
                    let message = format!("{id} was another event. Give every event an event_id of its own.");
                    return Reply::Now(
                        AgentResponse::refused(Some(id), vec![AgentError::at("/event_id", message)]).into(),
                    );
                }
                None => {}
            }
        }
        // What is asked is a part of the name: the answer to one question is never that to another.
        let named = self.home.as_ref().zip(given.as_ref()).zip(content).filter(|_| asks);
        let origin = named.map(|((home, id), content)| format!("{home}/{id}#{content}"));
        let is_given = given.is_some();
        let id = given.unwrap_or_else(|| {
            self.unnamed += 1;
            format!("unnamed-{}-{}", self.number, self.unnamed)
        });
        let name = Name { id, given: is_given, content, origin };
        let driven = self.drive(loose, &name).await;
        self.adjust_memory();
        match driven {
            Ok(reply) => {
                self.note(&name, &reply);
                if let Some(content) = name.content {
                    self.memory.keep(name.id, content, reply.clone());
                }
                reply
            }
            // It was not said, so it is not remembered: put right, it may come again.
            Err(faults) => Reply::Now(AgentResponse::refused(Some(&name.id), faults).into()),
        }
    }

    async fn drive(&mut self, loose: RawEvent, name: &Name) -> Result<Reply, Vec<AgentError>> {
        if loose.core != Some(CoreType::SessionStarted) {
            self.take_up(loose.session.as_deref()).await?;
        }
        let session = if loose.core == Some(CoreType::OutputStreaming) {
            self.text(loose).await?
        } else {
            let session = loose.session.clone();
            let told = loose.complete(clock::system_time())?;
            let core = told.event.core_type();
            let critical = told.event.envelope.urgency == Some(Urgency::Critical);
            self.hand_on(!critical && !is_urgent_type(core)).await?;
            if core == Some(CoreType::SessionStarted) {
                self.start((session, name), told).await?
            } else {
                if let Some(origin) = &name.origin
                    && let Some(reply) = self.come_back((&told, &name.id), origin).await?
                {
                    return Ok(reply);
                }
                let session = self.session_of(session, &told).await?;
                if let Some(pending) = self.act(&session, told, name).await? {
                    return Ok(Reply::Later(pending));
                }
                session
            }
        };
        Ok(Reply::Now(AgentResponse::Published { event_id: name.id.clone(), session_id: session }.into()))
    }

    /// Says what an event of a session says; answers the question that it asks.
    async fn act(&mut self, key: &str, told: CompletedEvent, name: &Name) -> Result<Option<Pending>, Vec<AgentError>> {
        if matches!(told.event.payload, Payload::AwaitingConfirmation(_) | Payload::AwaitingClarification(_)) {
            self.reserve(Occupied { questions: 1, ..Occupied::default() })?;
        }
        let open = self.sessions.get_mut(key).ok_or_else(|| vec![AgentError::new("This session has ended.")])?;
        if let Payload::AwaitingConfirmation(_) | Payload::AwaitingClarification(_) = &told.event.payload {
            if self.memory.pending() >= QUESTIONS {
                return Err(vec![AgentError::new(format!("{QUESTIONS} questions wait. Wait for some answers first."))]);
            }
            let place = self.share.as_ref().map(Share::question).transpose().map_err(|fault| vec![fault])?;
            let name = (name.id.as_str(), name.origin.as_deref());
            let pending = ask::ask(open, &told, name, &mut self.questions).await?;
            if let Some(place) = place {
                let waiting = pending.clone();
                self.questions.spawn(async move {
                    waiting.wait().await;
                    drop(place);
                });
            }
            return Ok(Some(pending));
        }
        let meta = EventMeta::of(&told.event.envelope);
        let (payload, variants) = (told.event.payload, told.event.extra);
        match payload {
            Payload::ToolInvoked(payload) => open.invoke(Localized { payload, variants, meta }, told.args).await?,
            Payload::ToolCompleted(payload) => open.complete(Localized { payload, variants, meta }).await?,
            payload if payload.core_type().is_some_and(CoreType::is_terminal) => {
                open.session.try_end_with(Localized { payload, variants, meta }).await.map_err(faults)?;
                self.forget(key);
            }
            payload => {
                open.session.emit_localized(Localized { payload, variants, meta }).await.map_err(faults)?;
            }
        }
        Ok(None)
    }

    /// The session of this name, or the current one; nothing if there is none yet.
    fn find(&self, name: Option<&str>) -> Result<Option<String>, Vec<AgentError>> {
        let Some(name) = name else { return Ok(self.current.clone()) };
        if self.sessions.contains_key(name) {
            return Ok(Some(name.to_owned()));
        }
        if let Some(key) = self.aliases.get(name) {
            return Ok(Some(key.clone()));
        }
        let fault = |message: &str| Err(vec![AgentError::at("/session_id", message)]);
        if self.ended.iter().any(|ended| ended == name) {
            return fault("This session has ended. Start another, with another session_id.");
        }
        if self.names.is_others(name, self.number) {
            return fault("This session belongs to another agent.");
        }
        Ok(None)
    }

    /// The session of an event. If there is none, it begins with this event.
    async fn session_of(&mut self, name: Option<String>, told: &CompletedEvent) -> Result<String, Vec<AgentError>> {
        if let Some(key) = self.find(name.as_deref())? {
            return Ok(key);
        }
        let core = told.event.core_type();
        if core.is_some_and(|core| core.is_terminal() || core == CoreType::ToolCompleted) {
            return Err(vec![AgentError::at("/session_id", "There is no session that this could end or complete.")]);
        }
        // What nobody can have agreed to yet must not be the first that is heard either.
        if let Payload::ToolInvoked(invoked) = &told.event.payload
            && (invoked.irreversible == Some(true) || self.guarded.contains(&invoked.tool))
        {
            return Err(vec![ask_first(&invoked.tool)]);
        }
        let language = told.language.clone().unwrap_or_else(|| self.who.language.clone());
        let producer = self.who.identity(told.producer.clone()).map_err(|fault| vec![fault])?;
        let summary = summary_of(told).unwrap_or_else(|| introduction(&producer, &language));
        let started = SessionStarted { summary_normal: summary, ..SessionStarted::default() };
        let origin = self.origin_of(name.as_deref(), None);
        let options = SessionOptions {
            started,
            language,
            variants: Map::new(),
            producer: Some(producer),
            meta: EventMeta::default(),
            origin,
        };
        self.begin(name, options).await
    }

    /// A session that the agent starts.
    async fn start(
        &mut self,
        (alias, name): (Option<String>, &Name),
        told: CompletedEvent,
    ) -> Result<String, Vec<AgentError>> {
        if self.find(alias.as_deref())?.is_some() {
            let message = match alias {
                Some(_) => "This session has started already. Give every session a session_id of its own.",
                None => "A session is going on. End it first, or give every session a session_id of its own.",
            };
            return Err(vec![Problem::new(Rule::StartedOnce, "/session_id", message).into()]);
        }
        let producer = self.who.identity(told.producer).map_err(|fault| vec![fault])?;
        if let Some(key) = self.start_again(alias.as_deref(), name).await? {
            return Ok(key);
        }
        let meta = EventMeta::of(&told.event.envelope);
        let Payload::SessionStarted(started) = told.event.payload else { return Err(Vec::new()) };
        let language = told.language.unwrap_or_else(|| self.who.language.clone());
        let (variants, origin) = (told.event.extra, self.origin_of(alias.as_deref(), Some(name)));
        let options = SessionOptions { started, language, variants, producer: Some(producer), meta, origin };
        self.begin(alias, options).await
    }

    async fn begin(&mut self, alias: Option<String>, options: SessionOptions) -> Result<String, Vec<AgentError>> {
        let place = self.session_place()?;
        let session = self.producer.session_with(options).await.map_err(faults)?;
        Ok(self.open(session, alias, place))
    }

    /// A place for one more session; nothing for an agent that has all places to itself.
    fn session_place(&mut self) -> Result<Option<QuotaSlot>, Vec<AgentError>> {
        if self.sessions.len() >= SESSIONS {
            return Err(vec![AgentError::new(format!("{SESSIONS} sessions are open. End some first."))]);
        }
        self.reserve(Occupied { sessions: 1, ..Occupied::default() })?;
        self.share.as_ref().map(Share::session).transpose().map_err(|fault| vec![fault])
    }

    fn open(&mut self, session: aaep::Session, alias: Option<String>, place: Option<QuotaSlot>) -> String {
        let key = session.id().to_string();
        self.names.add(&key, self.number);
        match &alias {
            Some(alias) => drop(self.aliases.insert(alias.clone(), key.clone())),
            None => self.current = Some(key.clone()),
        }
        self.sessions.insert(key.clone(), session::Open::new(session, alias, self.guarded.clone(), place));
        key
    }

    fn forget(&mut self, key: &str) {
        let Some(open) = self.sessions.remove(key) else { return };
        self.names.remove(key);
        if self.current.as_deref() == Some(key) {
            self.current = None;
        }
        if let Some(alias) = &open.alias {
            self.aliases.remove(alias);
        }
        for name in open.alias.into_iter().chain([key.to_owned()]) {
            if self.ended.len() >= ENDED {
                self.ended.pop_front();
            }
            self.ended.push_back(name);
        }
    }

    /// Ends all sessions that go on: the agent has done its work. A session with work left undone ends as errored.
    pub async fn finish(&mut self, summary: &str) {
        self.end(Some(summary), "The agent ended in the middle of its work.").await;
    }

    /// Ends all sessions that go on, as errored.
    pub async fn fail(&mut self, summary: &str) {
        self.end(None, summary).await;
    }

    async fn end(&mut self, good: Option<&str>, bad: &str) {
        // What was said before the end is heard before it.
        let _ = self.hand_on(false).await;
        for key in self.sessions.keys().cloned().collect::<Vec<_>>() {
            let Some(open) = self.sessions.get_mut(&key) else { continue };
            let completed =
                good.map(|text| SessionCompleted { summary_normal: text.to_owned(), ..SessionCompleted::default() });
            let ended = match completed {
                Some(completed) => open.session.try_end_with(Localized::new(completed.into())).await.is_ok(),
                None => false,
            };
            if !ended {
                // It may have ended already, with the producer.
                let _ = open.session.try_end_with(Localized::new(errored(bad).into())).await;
            }
            self.forget(&key);
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.sessions.keys().for_each(|key| self.names.remove(key));
    }
}

/// What an event says about what the agent does.
fn summary_of(told: &CompletedEvent) -> Option<String> {
    match &told.event.payload {
        Payload::StateChanged(payload) => payload.summary_normal.clone(),
        Payload::ProgressUpdated(payload) => payload.summary_normal.clone(),
        Payload::ToolInvoked(payload) => Some(payload.summary_normal.clone()),
        _ => None,
    }
}

/// The first words about an agent that said nothing about what it does.
fn introduction(producer: &aaep::message::Producer, language: &LanguageTag) -> String {
    let name = producer.agent_name.as_ref().filter(|name| !name.is_empty()).unwrap_or(&producer.agent_id);
    // A name needs no translation.
    if language.primary().eq_ignore_ascii_case("en") { format!("{name} is at work.") } else { name.clone() }
}
