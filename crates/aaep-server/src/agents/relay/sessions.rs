//! The sessions of an agent: which one an event belongs to, and how sessions start and end.

use aaep::message::{CoreType, EventMeta, Payload};
use aaep::{LanguageTag, Session, SessionOptions};
use aaep_keys::UserId;
use aaep_proto::{Problem, Rule};

use super::{EventKey, Relay};
use crate::agents::permits::ask_first;
use crate::agents::raw_event::{CompletedEvent, RawEvent};
use crate::agents::resources::{ResourceUsage, UserSlot};
use crate::agents::response::{AgentError, agent_errors};
use crate::agents::session::AgentSession;
use crate::engines::EngineRef;

/// Most open sessions of one agent.
const MAX_SESSIONS: usize = 256;

/// Ids of ended sessions that are remembered, so that events for them are refused instead of starting a session.
const MAX_ENDED_SESSIONS: usize = 1024;

impl Relay {
    /// Returns the producer's id of the open session with this name, or of the current session if there is no name.
    /// Returns `None` if there is no such session yet.
    pub(super) fn find_session(&self, name: Option<&str>) -> Result<Option<String>, AgentError> {
        let Some(name) = name else { return Ok(self.current_session.clone()) };
        if self.sessions.contains_key(name) {
            return Ok(Some(name.to_owned()));
        }
        if let Some(session_id) = self.aliases.get(name) {
            return Ok(Some(session_id.clone()));
        }
        if self.ended_sessions.iter().any(|ended| ended == name) {
            let message = "This session has ended. Start another, with another session_id.";
            return Err(AgentError::at("/session_id", message));
        }
        // The id of another user's session is as good as any other: the agent must not learn that it exists.
        if self.session_owners.is_owned_by_another(name, self.agent_number, |user| self.users.may_act_for(user)) {
            return Err(AgentError::at("/session_id", "This session belongs to another agent."));
        }
        Ok(None)
    }

    /// Returns the engine of an open session, or of the only user.
    pub(super) fn engine_of(&self, session_id: &str) -> Option<EngineRef> {
        let session = self.sessions.get(session_id).map(|session| &session.engine);
        session.or(self.users.only_engine()).cloned()
    }

    /// Refuses an event that names no session after the session of such events has ended: it would start another one by
    /// accident.
    pub(super) fn check_not_ended(&self, event: &RawEvent) -> Result<(), AgentError> {
        let is_late = event.session_id.is_none() && self.current_session.is_none() && self.current_session_ended;
        if !is_late || event.core == Some(CoreType::SessionStarted) {
            return Ok(());
        }
        let message = "The session has ended. Start another with session.started, or name one with session_id.";
        Err(Problem::new(Rule::AfterTerminal, "/session_id", message).into())
    }

    /// Returns the session of an event. If there is none, starts one for this event.
    pub(super) async fn find_or_start_session(
        &mut self,
        alias: Option<String>,
        event: &CompletedEvent,
    ) -> Result<String, Vec<AgentError>> {
        if let Some(session_id) = self.find_session(alias.as_deref())? {
            return Ok(session_id);
        }
        let core = event.event.core_type();
        if core.is_some_and(|core| core.is_terminal() || core == CoreType::ToolCompleted) {
            let message = "There is no session that this could end or complete.";
            return Err(AgentError::at("/session_id", message).into());
        }
        // The call will be refused for lack of a permit, so it must not start a session either.
        if let Payload::ToolInvoked(invoked) = &event.event.payload
            && (invoked.irreversible == Some(true) || self.irreversible_tools.contains(&invoked.tool))
        {
            return Err(ask_first(&invoked.tool).into());
        }
        let language = event.language.clone().unwrap_or_else(|| self.identity.language.clone());
        let producer = self.identity.resolve(event.producer.clone())?;
        let summary = summary_of(event).unwrap_or_else(|| default_summary(&producer, &language));
        let mut options = SessionOptions::new(summary).in_language(language).producer(producer);
        options.origin = self.session_origin(alias.as_deref(), None);
        let engine = self.users.engine_for(None).await?;
        self.open_session(engine, alias, options).await
    }

    /// Handles `session.started`.
    pub(super) async fn start_session(
        &mut self,
        alias: Option<String>,
        event: CompletedEvent,
        key: &EventKey,
    ) -> Result<String, Vec<AgentError>> {
        if self.find_session(alias.as_deref())?.is_some() {
            let message = match alias {
                Some(_) => "This session has started already. Give every session a session_id of its own.",
                None => "A session is open. End it first, or give every session a session_id of its own.",
            };
            return Err(AgentError::from(Problem::new(Rule::StartedOnce, "/session_id", message)).into());
        }
        let producer = self.identity.resolve(event.producer)?;
        if let Some(session_id) = self.restart_session(alias.as_deref(), key).await? {
            if event.accepts_cancel {
                self.accept_cancel(&session_id).await;
            }
            return Ok(session_id);
        }
        let meta = EventMeta::of(&event.event.envelope);
        let Payload::SessionStarted(started) = event.event.payload else { return Err(Vec::new()) };
        let engine = self.users.engine_for(started.requested_by.as_deref()).await?;
        let language = event.language.unwrap_or_else(|| self.identity.language.clone());
        let options = SessionOptions::from(started).in_language(language).producer(producer);
        let mut options = options.with_variants(event.event.extra, meta);
        options.origin = self.session_origin(alias.as_deref(), Some(key));
        options.accepts_cancel = event.accepts_cancel;
        let session_id = self.open_session(engine, alias, options).await?;
        if event.accepts_cancel {
            self.accept_cancel(&session_id).await;
        }
        Ok(session_id)
    }

    /// Lets users ask for the end of a session.
    async fn accept_cancel(&mut self, session_id: &str) {
        let Some(session) = self.sessions.get_mut(session_id) else { return };
        // This fails only if the producer has ended.
        let _ = session.session.accept_cancel_requests().await;
        let (requested, requests) = (session.session.cancel_requested(), self.cancel_requests.clone());
        let (name, session_id) =
            (session.alias.clone().unwrap_or_else(|| session_id.to_owned()), session_id.to_owned());
        session.cancel_watch.spawn(async move {
            if let Ok(request) = requested.await {
                requests.add(&session_id, &name, request);
            }
        });
    }

    async fn open_session(
        &mut self,
        engine: EngineRef,
        alias: Option<String>,
        options: SessionOptions,
    ) -> Result<String, Vec<AgentError>> {
        let slot = self.acquire_session_slot(engine.user())?;
        let session = engine.session_with(options).await.map_err(agent_errors)?;
        Ok(self.register_session(session, engine, alias, slot))
    }

    /// Acquires a slot for one more session. Returns `None` if the agent is the only one.
    pub(super) fn acquire_session_slot(&mut self, user: &UserId) -> Result<Option<UserSlot>, AgentError> {
        if self.sessions.len() >= MAX_SESSIONS {
            return Err(AgentError::new(format!("{MAX_SESSIONS} sessions are open. End some first.")));
        }
        self.reserve(ResourceUsage { sessions: 1, ..ResourceUsage::default() })?;
        self.resources.as_ref().map(|resources| resources.acquire_session(user)).transpose()
    }

    pub(super) fn register_session(
        &mut self,
        session: Session,
        engine: EngineRef,
        alias: Option<String>,
        slot: Option<UserSlot>,
    ) -> String {
        let session_id = session.id().to_string();
        self.session_owners.insert(&session_id, self.agent_number, engine.user());
        match &alias {
            Some(alias) => drop(self.aliases.insert(alias.clone(), session_id.clone())),
            None => self.current_session = Some(session_id.clone()),
        }
        let session = AgentSession::new(session, engine, alias, self.irreversible_tools.clone(), slot);
        self.sessions.insert(session_id.clone(), session);
        session_id
    }

    /// Forgets a session that has ended, except for its ids.
    pub(super) fn unregister_session(&mut self, session_id: &str) {
        let Some(session) = self.sessions.remove(session_id) else { return };
        self.session_owners.remove(session_id);
        self.cancel_requests.remove(session_id);
        if self.current_session.as_deref() == Some(session_id) {
            self.current_session = None;
            self.current_session_ended = true;
        }
        if let Some(alias) = &session.alias {
            self.aliases.remove(alias);
        }
        for id in session.alias.into_iter().chain([session_id.to_owned()]) {
            if self.ended_sessions.len() >= MAX_ENDED_SESSIONS {
                self.ended_sessions.pop_front();
            }
            self.ended_sessions.push_back(id);
        }
    }
}

/// Returns the summary of an event that describes what the agent does.
fn summary_of(event: &CompletedEvent) -> Option<String> {
    match &event.event.payload {
        Payload::StateChanged(payload) => payload.summary_normal.clone(),
        Payload::ProgressUpdated(payload) => payload.summary_normal.clone(),
        Payload::ToolInvoked(payload) => Some(payload.summary_normal.clone()),
        _ => None,
    }
}

/// Returns the summary of a session whose first event describes nothing.
fn default_summary(producer: &aaep::message::Producer, language: &LanguageTag) -> String {
    let name = match &producer.agent_name {
        Some(name) if !name.is_empty() => name,
        _ => &producer.agent_id,
    };
    // There is no translation, and a name needs none.
    if language.primary().eq_ignore_ascii_case("en") { format!("{name} is at work.") } else { name.clone() }
}
