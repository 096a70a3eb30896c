//! One agent: its events become sessions, tools, outputs and questions of the producer.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use aaep::message::{CoreType, Localized, Payload, SessionCompleted, SessionStarted};
use aaep::{LanguageTag, Producer, SessionOptions};
use aaep_proto::{Problem, Rule};
use serde_json::Map;
use tokio::task::JoinSet;

use super::answer::{Answer, Fault, faults};
use super::loose::{Loose, Told};
use super::memory::{Known, Memory};
use super::registry::Names;
use super::reply::{Pending, Reply};
use super::session::{OUTPUTS, Open, Text, ask_first, errored};
use super::who::Who;
use super::{ask, session};
use crate::clock;

/// Sessions of one agent at once.
const SESSIONS: usize = 256;

/// Sessions that have ended and are remembered.
const ENDED: usize = 1024;

/// Questions of one agent that may wait at once.
const QUESTIONS: usize = 256;

/// Text of one output that is put together before it is handed on: a model writes many small pieces.
const TEXT: usize = 16 * 1024;

/// How long a subscriber that does not keep up may hold up an agent. Transports give up on it sooner.
const HOLD: Duration = Duration::from_secs(60);

/// One agent.
///
/// ```
/// use aaep::Producer;
/// use aaep_server::agents::{Relay, Reply, Who};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let producer = Producer::builder("house").build();
/// let mut relay = Relay::new(producer, Who::anyone("gardener", "en".parse()?));
/// let line = br#"{"type": "session.started", "summary_normal": "Planning your garden."}"#;
/// let Reply::Now(answer) = relay.take(line).await else { unreachable!() };
/// assert_eq!(answer.to_json()["type"], "published");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Relay {
    producer: Producer,
    who: Who,
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
    waiting: Option<Waiting>,
    /// A subscriber held up the agent for too long; it is not waited for until it has caught up.
    impatient: bool,
    /// Counts events that have no name of their own.
    unnamed: u64,
    questions: JoinSet<()>,
}

/// Text that was not handed on yet.
#[derive(Debug)]
struct Waiting {
    session: String,
    output: String,
    text: String,
}

impl Relay {
    /// An agent of this producer.
    pub fn new(producer: Producer, who: Who) -> Relay {
        Relay::among(producer, who, Arc::default())
    }

    /// An agent among others.
    pub(super) fn among(producer: Producer, who: Who, names: Arc<Names>) -> Relay {
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
            waiting: None,
            impatient: false,
            unnamed: 0,
            questions: JoinSet::new(),
        }
    }

    /// The same agent under a name that it comes back with after a restart, so that it finds its questions again. No two
    /// agents of a producer may have the same.
    pub(super) fn at_home(mut self, name: String) -> Relay {
        self.home = Some(name);
        self
    }

    /// How many sessions go on.
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    /// Takes one JSON object. If subscribers do not keep up, this waits for them. Text may wait until
    /// [`flush`](Relay::flush) or the next event.
    pub async fn take(&mut self, line: &[u8]) -> Reply {
        while self.questions.try_join_next().is_some() {}
        let loose = match Loose::read(line) {
            Ok(loose) => loose,
            Err(fault) => return Reply::Now(Answer::refused(None, vec![fault]).into()),
        };
        let given = loose.event_id.clone();
        // Questions are remembered even without a name: who asks again with the one that was given to it waits on.
        let asks = matches!(loose.core, Some(CoreType::AwaitingConfirmation | CoreType::AwaitingClarification));
        let content = (given.is_some() || asks).then(|| loose.content());
        if let (Some(id), Some(content)) = (&given, content) {
            match self.memory.find(id, content) {
                Some(Known::Same(reply)) => return reply.settled(),
                Some(Known::Other) => {
                    let message = format!("{id} was another event. Give every event an event_id of its own.");
                    return Reply::Now(Answer::refused(Some(id), vec![Fault::at("/event_id", message)]).into());
                }
                None => {}
            }
        }
        // What is asked is a part of the name: the answer to one question is never that to another.
        let named = self.home.as_ref().zip(given.as_ref()).zip(content).filter(|_| asks);
        let origin = named.map(|((home, id), content)| format!("{home}/{id}#{content}"));
        let id = given.unwrap_or_else(|| {
            self.unnamed += 1;
            format!("unnamed-{}-{}", self.number, self.unnamed)
        });
        match self.drive(loose, &id, origin).await {
            Ok(reply) => {
                if let Some(content) = content {
                    self.memory.keep(id, content, reply.clone());
                }
                reply
            }
            // It was not said, so it is not remembered: put right, it may come again.
            Err(faults) => Reply::Now(Answer::refused(Some(&id), faults).into()),
        }
    }

    async fn drive(&mut self, loose: Loose, id: &str, origin: Option<String>) -> Result<Reply, Vec<Fault>> {
        let session = if loose.core == Some(CoreType::OutputStreaming) {
            self.text(loose).await?
        } else {
            let name = loose.session.clone();
            let told = loose.complete(clock::wall())?;
            let core = told.event.core_type();
            // What the user must hear now does not wait for who does not keep up.
            let urgent = core.is_some_and(|core| core.must_be_critical() || core.is_terminal());
            self.hand_on(!urgent).await?;
            if core == Some(CoreType::SessionStarted) {
                self.start(name, told).await?
            } else {
                if let Some(origin) = &origin
                    && let Some(reply) = self.come_back(name.as_deref(), (&told, id), origin).await?
                {
                    return Ok(reply);
                }
                let session = self.session_of(name, &told).await?;
                if let Some(pending) = self.act(&session, told, (id, origin)).await? {
                    return Ok(Reply::Later(pending));
                }
                session
            }
        };
        Ok(Reply::Now(Answer::Published { event_id: id.to_owned(), session_id: session }.into()))
    }

    /// Says what an event of a session says; answers the question that it asks.
    async fn act(
        &mut self,
        key: &str,
        told: Told,
        name: (&str, Option<String>),
    ) -> Result<Option<Pending>, Vec<Fault>> {
        let open = self.sessions.get_mut(key).ok_or_else(|| vec![Fault::new("This session has ended.")])?;
        let (variants, vocabularies) = (told.event.extra.clone(), told.event.envelope.context.extensions().to_vec());
        match told.event.payload.clone() {
            Payload::ToolInvoked(payload) => open.invoke(Localized { payload, variants }, told.args).await?,
            Payload::ToolCompleted(payload) => open.complete(Localized { payload, variants }).await?,
            Payload::AwaitingConfirmation(_) | Payload::AwaitingClarification(_) => {
                if self.memory.pending() >= QUESTIONS {
                    return Err(vec![Fault::new(format!("{QUESTIONS} questions wait. Wait for some answers first."))]);
                }
                return ask::ask(open, &told, name, &mut self.questions).await.map(Some);
            }
            payload @ Payload::Extension { .. } => {
                let event = Localized { payload, variants };
                open.session.emit_extension(event, vocabularies).await.map_err(faults)?;
            }
            payload if payload.core_type().is_some_and(CoreType::is_terminal) => {
                open.session.try_end(Localized { payload, variants }).await.map_err(faults)?;
                self.forget(key);
            }
            payload => {
                open.session.emit_localized(Localized { payload, variants }).await.map_err(faults)?;
            }
        }
        Ok(None)
    }

    /// Takes up a question that was asked before a restart, and its session. Nothing, if there is none that goes on.
    async fn come_back(
        &mut self,
        name: Option<&str>,
        (told, id): (&Told, &str),
        origin: &str,
    ) -> Result<Option<Reply>, Vec<Fault>> {
        let known = self.find(name)?;
        let Some((session, found)) = self.producer.find_question(origin).await else { return Ok(None) };
        let key = session.to_string();
        if !self.sessions.contains_key(&key) {
            // A session that has ended takes its answers with it: the user is asked anew.
            if !self.producer.orphans().await.contains(&session) {
                return Ok(None);
            }
            if known.is_some() {
                let message = format!("{id} was asked in session {key} before a restart. Ask under another event_id.");
                return Err(vec![Fault::at("/event_id", message)]);
            }
            self.check_room()?;
            let Some(session) = self.producer.adopt(&session).await else { return Ok(None) };
            self.open(session, name.filter(|name| *name != key).map(str::to_owned));
        }
        let Some(open) = self.sessions.get_mut(&key) else { return Ok(None) };
        ask::resume(open, (told, id), found, &mut self.questions).map(Some)
    }

    /// Adds text to an output.
    async fn text(&mut self, mut loose: Loose) -> Result<String, Vec<Fault>> {
        let chunk = loose.chunk().map_err(|fault| vec![fault])?;
        let name = chunk.output.unwrap_or_default();
        let session = match self.find(loose.session.as_deref())? {
            Some(key) if self.sessions.get(&key).is_some_and(|open| open.outputs.contains_key(&name)) => key,
            _ => self.open_output(loose, (&name, chunk.position)).await?,
        };
        let Some(text) = self.sessions.get_mut(&session).and_then(|open| open.outputs.get_mut(&name)) else {
            return Err(vec![Fault::new("This output has ended.")]);
        };
        check_position(chunk.position, text.chars)?;
        text.chars += chunk.text.chars().count() as u64;
        let fits = |waiting: &&mut Waiting| waiting.session == session && waiting.output == name;
        match self.waiting.as_mut().filter(fits) {
            Some(waiting) => waiting.text.push_str(&chunk.text),
            None => {
                self.hand_on(true).await?;
                self.waiting = Some(Waiting { session: session.clone(), output: name.clone(), text: chunk.text });
            }
        }
        if chunk.complete || self.waiting.as_ref().is_some_and(|waiting| waiting.text.len() >= TEXT) {
            self.hand_on(true).await?;
        }
        if chunk.complete
            && let Some(open) = self.sessions.get_mut(&session)
        {
            open.finish(&name).await?;
        }
        Ok(session)
    }

    /// Begins an output with its first piece of text.
    async fn open_output(&mut self, loose: Loose, (name, position): (&str, Option<u64>)) -> Result<String, Vec<Fault>> {
        check_position(position, 0)?;
        let session = loose.session.clone();
        let told = loose.complete(clock::wall())?;
        self.hand_on(true).await?;
        let key = self.session_of(session, &told).await?;
        let Some(open) = self.sessions.get_mut(&key) else { return Ok(key) };
        if open.was_finished(name) {
            let message = "Start a new output: this one was complete.";
            return Err(vec![Problem::new(Rule::OutputAfterComplete, "/output_id", message).into()]);
        }
        if open.outputs.len() >= OUTPUTS {
            return Err(vec![Fault::new(format!("{OUTPUTS} outputs are open. Complete some first."))]);
        }
        let Payload::OutputStreaming(first) = told.event.payload else { return Ok(key) };
        let content_type = first.content_type.as_deref().unwrap_or("text/plain");
        let output = open.session.output_in(content_type, first.language).await.map_err(faults)?;
        open.outputs.insert(name.to_owned(), Text { output, chars: 0 });
        Ok(key)
    }

    /// Hands on all text that still waits. To be called when nothing more comes at the moment.
    pub async fn flush(&mut self) {
        // A session that has ended meanwhile takes no text; its end was told.
        let _ = self.hand_on(true).await;
    }

    async fn hand_on(&mut self, patiently: bool) -> Result<(), Vec<Fault>> {
        if patiently {
            self.hold().await;
        }
        let Some(waiting) = self.waiting.take() else { return Ok(()) };
        let Some(open) = self.sessions.get(&waiting.session) else { return Ok(()) };
        let Some(text) = open.outputs.get(&waiting.output) else { return Ok(()) };
        text.output.write(waiting.text).await.map_err(faults)
    }

    /// Waits for subscribers that do not keep up, but not for ever.
    async fn hold(&mut self) {
        let time = if self.impatient { Duration::ZERO } else { HOLD };
        let late = tokio::time::timeout(time, self.producer.ready()).await.is_err();
        if late && !self.impatient {
            tracing::warn!("a subscriber that does not keep up is not waited for any longer");
        }
        self.impatient = late;
    }

    /// The session of this name, or the current one; nothing if there is none yet.
    fn find(&self, name: Option<&str>) -> Result<Option<String>, Vec<Fault>> {
        let Some(name) = name else { return Ok(self.current.clone()) };
        if self.sessions.contains_key(name) {
            return Ok(Some(name.to_owned()));
        }
        if let Some(key) = self.aliases.get(name) {
            return Ok(Some(key.clone()));
        }
        let fault = |message: &str| Err(vec![Fault::at("/session_id", message)]);
        if self.ended.iter().any(|ended| ended == name) {
            return fault("This session has ended. Start another, with another session_id.");
        }
        if self.names.is_others(name, self.number) {
            return fault("This session belongs to another agent.");
        }
        Ok(None)
    }

    /// The session of an event. If there is none, it begins with this event.
    async fn session_of(&mut self, name: Option<String>, told: &Told) -> Result<String, Vec<Fault>> {
        if let Some(key) = self.find(name.as_deref())? {
            return Ok(key);
        }
        let core = told.event.core_type();
        if core.is_some_and(|core| core.is_terminal() || core == CoreType::ToolCompleted) {
            return Err(vec![Fault::at("/session_id", "There is no session that this could end or complete.")]);
        }
        // What nobody can have agreed to yet must not be the first that is heard either.
        if let Payload::ToolInvoked(invoked) = &told.event.payload
            && invoked.irreversible == Some(true)
        {
            return Err(vec![ask_first(&invoked.tool)]);
        }
        let language = told.language.clone().unwrap_or_else(|| self.who.language.clone());
        let producer = self.who.identity(told.producer.clone()).map_err(|fault| vec![fault])?;
        let summary = summary_of(told).unwrap_or_else(|| introduction(&producer, &language));
        let started = SessionStarted { summary_normal: summary, ..SessionStarted::default() };
        let options = SessionOptions { started, language, variants: Map::new(), producer: Some(producer) };
        self.begin(name, options).await
    }

    /// A session that the agent starts.
    async fn start(&mut self, name: Option<String>, told: Told) -> Result<String, Vec<Fault>> {
        if self.find(name.as_deref())?.is_some() {
            let message = match name {
                Some(_) => "This session has started already. Give every session a session_id of its own.",
                None => "A session is going on. End it first, or give every session a session_id of its own.",
            };
            return Err(vec![Problem::new(Rule::StartedOnce, "/session_id", message).into()]);
        }
        let producer = self.who.identity(told.producer).map_err(|fault| vec![fault])?;
        let Payload::SessionStarted(started) = told.event.payload else { return Err(Vec::new()) };
        let language = told.language.unwrap_or_else(|| self.who.language.clone());
        let options = SessionOptions { started, language, variants: told.event.extra, producer: Some(producer) };
        self.begin(name, options).await
    }

    async fn begin(&mut self, alias: Option<String>, options: SessionOptions) -> Result<String, Vec<Fault>> {
        self.check_room()?;
        let session = self.producer.session_with(options).await.map_err(faults)?;
        Ok(self.open(session, alias))
    }

    fn check_room(&self) -> Result<(), Vec<Fault>> {
        if self.sessions.len() >= SESSIONS {
            return Err(vec![Fault::new(format!("{SESSIONS} sessions are open. End some first."))]);
        }
        Ok(())
    }

    fn open(&mut self, session: aaep::Session, alias: Option<String>) -> String {
        let key = session.id().to_string();
        self.names.add(&key, self.number);
        match &alias {
            Some(alias) => drop(self.aliases.insert(alias.clone(), key.clone())),
            None => self.current = Some(key.clone()),
        }
        self.sessions.insert(key.clone(), session::Open::new(session, alias));
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
                Some(completed) => open.session.try_end(Localized::new(completed.into())).await.is_ok(),
                None => false,
            };
            if !ended {
                // It may have ended already, with the producer.
                let _ = open.session.try_end(Localized::new(errored(bad).into())).await;
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

fn check_position(given: Option<u64>, expected: u64) -> Result<(), Vec<Fault>> {
    match given {
        Some(position) if position != expected => {
            let message = format!("Set position to {expected}, the number of characters sent before, not {position}.");
            Err(vec![Problem::new(Rule::Position, "/position", message).into()])
        }
        _ => Ok(()),
    }
}

/// What an event says about what the agent does.
fn summary_of(told: &Told) -> Option<String> {
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
