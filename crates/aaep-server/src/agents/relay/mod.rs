//! One agent: its events become sessions, tool calls, outputs and questions of the producer.

mod recovery;
mod sessions;
mod text;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use aaep::journal::SeenEvent;
use aaep::message::{CoreType, EventMeta, Localized, Payload, SessionCompleted, Urgency};
use aaep::{CallDigest, Producer};
use aaep_runtime::system_time;
use tokio::task::JoinSet;

use super::cancel_requests::CancelRequests;
use super::identity::AgentIdentity;
use super::irreversible_tools::IrreversibleTools;
use super::pending::{PendingResponse, ResponseState};
use super::questions::{self, AgentQuestion};
use super::raw_event::{CompletedEvent, ParsedLine, RawEvent, Validation};
use super::registry::SessionOwners;
use super::resources::{AgentResources, ResourceUsage};
use super::response::{AgentError, AgentResponse, agent_errors};
use super::response_cache::{DuplicateEvent, ResponseCache};
use super::session::{AgentSession, session_errored};
use super::urgent::{UrgentCounter, is_urgent_type};
use super::users::AgentUsers;
use crate::engines::EngineRef;
use recovery::AdoptableSession;
use text::{BufferedText, WaitMode};

/// Most unresolved questions of one agent.
const MAX_QUESTIONS: usize = 256;

/// The state of one agent: handles its events, one after the other.
///
/// ```
/// use aaep::Producer;
/// use aaep_server::agents::{AgentIdentity, Relay, ResponseState};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let producer = Producer::builder("garden").build();
/// let mut relay = Relay::new(producer, AgentIdentity::unrestricted("planner", "en".parse()?));
/// let line = br#"{"type": "session.started", "summary_normal": "Planning your garden."}"#;
/// let ResponseState::Ready(response) = relay.handle_line(line).await else { unreachable!() };
/// assert_eq!(response.to_json()["type"], "published");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Relay {
    users: AgentUsers,
    identity: AgentIdentity,
    /// Which agent owns which session, shared by all agents of a server.
    session_owners: Arc<SessionOwners>,
    agent_number: u64,
    /// Identifies the agent after a restart, if it can be recognized then.
    recovery_key: Option<String>,
    /// Open sessions by the producer's session id.
    sessions: BTreeMap<String, AgentSession>,
    /// The producer's session id by the agent's.
    aliases: BTreeMap<String, String>,
    /// The session of events without a `session_id`.
    current_session: Option<String>,
    /// Whether the last session of events without a `session_id` has ended.
    current_session_ended: bool,
    /// Ids of sessions that have ended, oldest first.
    ended_sessions: VecDeque<String>,
    response_cache: ResponseCache,
    /// Tools that count as irreversible in all sessions of the agent.
    irreversible_tools: IrreversibleTools,
    /// Text that was not written to its output yet.
    buffered_text: Option<BufferedText>,
    /// Set when the agent was slowed down for as long as allowed; reset when a subscriber keeps up again.
    skip_backpressure: bool,
    /// Counts urgent events that were received and not handled.
    urgent_events: UrgentCounter,
    /// Counts events without an `event_id`.
    unnamed_events: u64,
    /// Tasks that wait for questions to be resolved.
    question_tasks: JoinSet<()>,
    /// Sessions from before a restart that the agent has not continued yet.
    adoptable_sessions: Vec<AdoptableSession>,
    /// Whether the state from before a restart was loaded.
    recovery_loaded: bool,
    /// Events from before a restart by the agent's `event_id`.
    recovered_events: BTreeMap<String, SeenEvent>,
    /// Emitted events that are not in the journal's list of seen events yet.
    unrecorded_events: Vec<(EngineRef, SeenEvent)>,
    /// Requests of users that the agent stops.
    cancel_requests: CancelRequests,
    /// What the agent may occupy; `None` if it is the only one.
    resources: Option<AgentResources>,
}

/// What identifies an event.
#[derive(Debug)]
struct EventKey {
    /// The agent's `event_id`, or a generated one.
    id: String,
    /// Whether the agent set the id.
    is_from_agent: bool,
    /// The digest of the content, for events that can be repeated.
    digest: Option<CallDigest>,
    /// The key to find a question by after a restart.
    question_origin: Option<String>,
}

impl EventKey {
    /// Returns what identifies the event across restarts, or `None` if its id was generated.
    fn fingerprint(&self) -> Option<String> {
        let digest = self.digest?;
        if self.is_from_agent { Some(format!("{}#{digest}", self.id)) } else { None }
    }
}

impl Relay {
    /// Creates the only agent of a producer.
    pub fn new(producer: Producer, identity: AgentIdentity) -> Relay {
        Relay::with_session_owners(AgentUsers::of_producer(producer), identity, Arc::default())
    }

    /// Creates one of several agents of a server.
    pub(super) fn with_session_owners(
        users: AgentUsers,
        identity: AgentIdentity,
        session_owners: Arc<SessionOwners>,
    ) -> Relay {
        let agent_number = session_owners.next_agent_number();
        Relay {
            users,
            identity,
            session_owners,
            agent_number,
            recovery_key: None,
            sessions: BTreeMap::new(),
            aliases: BTreeMap::new(),
            current_session: None,
            current_session_ended: false,
            ended_sessions: VecDeque::new(),
            response_cache: ResponseCache::default(),
            irreversible_tools: IrreversibleTools::default(),
            buffered_text: None,
            skip_backpressure: false,
            urgent_events: UrgentCounter::default(),
            unnamed_events: 0,
            question_tasks: JoinSet::new(),
            adoptable_sessions: Vec::new(),
            recovery_loaded: false,
            recovered_events: BTreeMap::new(),
            unrecorded_events: Vec::new(),
            cancel_requests: CancelRequests::default(),
            resources: None,
        }
    }

    /// Limits what the agent may occupy.
    pub(super) fn with_resources(mut self, resources: AgentResources) -> Relay {
        self.resources = Some(resources);
        self
    }

    /// Lets the agent find its sessions again after a restart. No two agents of a producer may have the same key.
    pub(super) fn with_recovery_key(mut self, key: String) -> Relay {
        self.recovery_key = Some(key);
        self
    }

    /// Returns whether the agent has no session and no unresolved question.
    pub(super) fn is_idle(&self) -> bool {
        self.sessions.is_empty() && self.adoptable_sessions.is_empty() && self.question_tasks.is_empty()
    }

    /// Returns whether the agent is idle and none of its events was accepted: nothing is lost if it is forgotten.
    pub(super) fn is_blank(&self) -> bool {
        self.is_idle() && self.response_cache.len() == 0 && self.ended_sessions.is_empty()
    }

    /// Returns the counter of the agent's urgent events. Transports count them before they are handled: meanwhile,
    /// nothing of the agent waits for slow subscribers.
    pub(super) fn urgent_events(&self) -> UrgentCounter {
        self.urgent_events.clone()
    }

    /// Returns the requests of users that the agent stops. Transports pass them to the agent.
    pub(super) fn cancel_requests(&self) -> CancelRequests {
        self.cancel_requests.clone()
    }

    /// Returns the number of open sessions.
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    /// Handles one JSON object.
    ///
    /// Waits while no connected subscriber keeps up, for a minute at most. Questions, other critical events and the ends of
    /// sessions do not wait. Text may be buffered until [`flush`](Relay::flush) or the next event.
    pub async fn handle_line(&mut self, line: &[u8]) -> ResponseState {
        self.handle_event(RawEvent::parse(line)).await
    }

    /// Handles one event that was parsed already. See [`handle_line`](Relay::handle_line).
    pub(super) async fn handle_event(&mut self, event: ParsedLine) -> ResponseState {
        while self.question_tasks.try_join_next().is_some() {}
        let mut event = match event {
            Ok(event) => event,
            Err(error) => return AgentResponse::refused(None, error.into()).into(),
        };
        // Questions are remembered even without an `event_id`: an agent can ask again with the generated one.
        let is_question = matches!(event.core, Some(CoreType::AwaitingConfirmation | CoreType::AwaitingClarification));
        let digest = if event.event_id.is_some() || is_question { Some(event.digest()) } else { None };
        if let (Some(id), Some(digest)) = (&event.event_id, digest) {
            match self.find_duplicate(id, digest).await {
                Some(DuplicateEvent::Repeated(response)) => return response.refresh(),
                Some(DuplicateEvent::Conflicting) => {
                    let message = format!("{id} was another event. Give every event an event_id of its own.");
                    let error = AgentError::at("/event_id", message);
                    return AgentResponse::refused(Some(id), error.into()).into();
                }
                None => {}
            }
        }
        let key = self.event_key(event.event_id.take(), digest, is_question);
        let result = self.dispatch(event, &key).await;
        self.adjust_reservations();
        match result {
            Ok(response) => {
                self.note_seen_event(&key, &response);
                if let Some(digest) = key.digest {
                    self.response_cache.insert(key.id, digest, response.clone());
                }
                response
            }
            // A refused event is not remembered: the agent may correct it and use the same `event_id`.
            Err(errors) => AgentResponse::refused(Some(&key.id), errors).into(),
        }
    }

    async fn find_duplicate(&mut self, event_id: &str, digest: CallDigest) -> Option<DuplicateEvent> {
        match self.response_cache.find(event_id, digest) {
            Some(duplicate) => Some(duplicate),
            None => self.find_recovered_event(event_id, digest).await,
        }
    }

    fn event_key(&mut self, event_id: Option<String>, digest: Option<CallDigest>, is_question: bool) -> EventKey {
        // The digest is a part of the origin, so that the reply to one question never becomes that to another.
        let question_origin = match (&self.recovery_key, &event_id, digest) {
            (Some(recovery_key), Some(id), Some(digest)) if is_question => {
                Some(format!("{recovery_key}/{id}#{digest}"))
            }
            _ => None,
        };
        let is_from_agent = event_id.is_some();
        let id = event_id.unwrap_or_else(|| {
            self.unnamed_events += 1;
            format!("unnamed-{}-{}", self.agent_number, self.unnamed_events)
        });
        EventKey { id, is_from_agent, digest, question_origin }
    }

    /// Finds or starts the session of an event and emits it there.
    async fn dispatch(&mut self, mut event: RawEvent, key: &EventKey) -> Result<ResponseState, Vec<AgentError>> {
        if event.core != Some(CoreType::SessionStarted) {
            self.adopt_session(event.session_id.as_deref()).await?;
        }
        self.check_not_ended(&event)?;
        let session_id = if event.core == Some(CoreType::OutputStreaming) {
            self.handle_text(event).await?
        } else {
            let validation = self.validation_of(&event);
            let alias = event.session_id.take();
            let event = event.complete(system_time(), validation)?;
            let core = event.event.core_type();
            let is_critical = event.event.envelope.urgency == Some(Urgency::Critical);
            let is_urgent = is_critical || is_urgent_type(core);
            let target = self.find_session(alias.as_deref())?;
            self.flush_text(if is_urgent { WaitMode::Skip } else { WaitMode::Wait }, target.as_deref()).await?;
            if core == Some(CoreType::SessionStarted) {
                self.start_session(alias, event, key).await?
            } else {
                if let Some(response) = self.reattach_question(target.as_deref(), &event, key).await? {
                    return Ok(response);
                }
                let session_id = self.find_or_start_session(alias, &event).await?;
                if let Some(pending) = self.emit(&session_id, event, key).await? {
                    return Ok(ResponseState::Pending(pending));
                }
                session_id
            }
        };
        Ok(AgentResponse::Published { event_id: key.id.clone(), session_id }.into())
    }

    /// Returns where to validate an event, so that it happens once and an invalid event changes nothing. The engine validates
    /// every event that it emits. That suffices if it sees all that the agent wrote, and if nothing is changed here before:
    /// no session is started, no question is asked and no permit is used.
    fn validation_of(&self, event: &RawEvent) -> Validation {
        let is_emitted_directly = event.core.is_some_and(|core| {
            core.is_terminal()
                || matches!(
                    core,
                    CoreType::StateChanged
                        | CoreType::ProgressUpdated
                        | CoreType::ToolInvoked
                        | CoreType::ToolCompleted
                        | CoreType::HandoffRequested
                )
        });
        let has_session = || matches!(self.find_session(event.session_id.as_deref()), Ok(Some(_)));
        if is_emitted_directly
            && has_session()
            && !event.invokes_irreversible(&self.irreversible_tools)
            && event.reaches_engine_whole()
        {
            Validation::ByEngine
        } else {
            Validation::Now
        }
    }

    /// Emits an event into an open session. Returns the pending response if it is a question.
    async fn emit(
        &mut self,
        session_id: &str,
        event: CompletedEvent,
        key: &EventKey,
    ) -> Result<Option<PendingResponse>, Vec<AgentError>> {
        if matches!(event.event.payload, Payload::AwaitingConfirmation(_) | Payload::AwaitingClarification(_)) {
            return self.ask(session_id, &event, key).await.map(Some);
        }
        let session = self.sessions.get_mut(session_id).ok_or_else(session_has_ended)?;
        let meta = EventMeta::of(&event.event.envelope);
        let variants = event.event.extra;
        match event.event.payload {
            Payload::ToolInvoked(payload) => {
                session.invoke_tool(Localized { payload, variants, meta }, event.args).await?;
            }
            Payload::ToolCompleted(payload) => {
                session.complete_tool(Localized { payload, variants, meta }).await?;
            }
            payload if payload.core_type().is_some_and(CoreType::is_terminal) => {
                let end = Localized { payload, variants, meta };
                session.session.try_end_with(end).await.map_err(agent_errors)?;
                self.unregister_session(session_id);
            }
            payload => {
                let event = Localized { payload, variants, meta };
                session.session.emit_localized(event).await.map_err(agent_errors)?;
            }
        }
        Ok(None)
    }

    async fn ask(
        &mut self,
        session_id: &str,
        event: &CompletedEvent,
        key: &EventKey,
    ) -> Result<PendingResponse, Vec<AgentError>> {
        self.reserve(ResourceUsage { questions: 1, ..ResourceUsage::default() })?;
        let session = self.sessions.get_mut(session_id).ok_or_else(session_has_ended)?;
        if self.response_cache.pending_questions() >= MAX_QUESTIONS {
            let message = format!("{MAX_QUESTIONS} questions are open. Wait for some outcomes first.");
            return Err(AgentError::new(message).into());
        }
        let user = session.engine.user();
        let slot = self.resources.as_ref().map(|resources| resources.acquire_question(user)).transpose()?;
        let question = AgentQuestion { event, event_id: &key.id, origin: key.question_origin.as_deref() };
        let pending = questions::ask(session, question, &mut self.question_tasks).await?;
        if let Some(slot) = slot {
            let waiting = pending.clone();
            self.question_tasks.spawn(async move {
                waiting.wait().await;
                drop(slot);
            });
        }
        Ok(pending)
    }

    fn resource_usage(&self) -> ResourceUsage {
        let outputs = self.sessions.values().map(|session| session.outputs.len()).sum();
        // Each question has two tasks: one waits for the resolution, another holds the slot.
        let questions = self.question_tasks.len().div_ceil(2);
        ResourceUsage { sessions: self.sessions.len(), outputs, questions }
    }

    /// Reserves memory for something that the agent is about to begin.
    fn reserve(&mut self, more: ResourceUsage) -> Result<(), AgentError> {
        let usage = self.resource_usage().plus(more);
        match &mut self.resources {
            Some(resources) => resources.reserve(usage),
            None => Ok(()),
        }
    }

    /// Sets the reserved memory to what the agent occupies after an event.
    fn adjust_reservations(&mut self) {
        let usage = self.resource_usage();
        let Some(resources) = &mut self.resources else { return };
        // This cannot fail: it is at most what was reserved before the event was emitted.
        let _ = resources.reserve(usage);
        while !resources.reserve_cache(self.response_cache.len()) && self.response_cache.evict_half() {}
    }

    /// Ends all open sessions as completed: the agent has finished. A session with open work ends as errored.
    pub async fn finish(&mut self, summary: &str) {
        self.end_sessions(Some(summary), "The agent ended in the middle of its work.").await;
    }

    /// Ends all open sessions as errored.
    pub async fn fail(&mut self, summary: &str) {
        self.end_sessions(None, summary).await;
    }

    async fn end_sessions(&mut self, completed_summary: Option<&str>, errored_summary: &str) {
        // A session that rejects its text has ended already.
        let _ = self.flush_text(WaitMode::Skip, None).await;
        for session_id in self.sessions.keys().cloned().collect::<Vec<_>>() {
            let Some(AgentSession { session, .. }) = self.sessions.get_mut(&session_id) else { continue };
            let is_completed = match completed_summary {
                Some(summary) => {
                    let completed =
                        SessionCompleted { summary_normal: summary.to_owned(), ..SessionCompleted::default() };
                    session.try_end_with(Localized::new(completed.into())).await.is_ok()
                }
                None => false,
            };
            if !is_completed {
                // This fails only if the session has ended with the producer.
                let _ = session.try_end_with(Localized::new(session_errored(errored_summary).into())).await;
            }
            self.unregister_session(&session_id);
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.sessions.keys().for_each(|session_id| self.session_owners.remove(session_id));
    }
}

fn session_has_ended() -> AgentError {
    AgentError::new("This session has ended.")
}
