//! Recovery after a restart of the server: an agent that connects again continues its sessions and questions.
//!
//! The journal holds an origin for each session and question: a key that names the agent, and the agent's own ids. An agent
//! that has such a key (see `Relay::with_recovery_key`) finds its sessions, questions and emitted events by it.

use aaep::CallDigest;
use aaep::id::SessionId;
use aaep::journal::SeenEvent;
use aaep::message::CancelledBy;

use super::{EventKey, Relay};
use crate::agents::pending::ResponseState;
use crate::agents::questions::{self, AgentQuestion};
use crate::agents::raw_event::CompletedEvent;
use crate::agents::response::{AgentError, AgentResponse};
use crate::agents::response_cache::DuplicateEvent;
use crate::engines::EngineRef;

/// A session from before a restart that the agent can continue.
#[derive(Debug)]
pub(super) struct AdoptableSession {
    engine: EngineRef,
    id: SessionId,
    /// The agent's `session_id`, if it used one.
    alias: Option<String>,
    /// The fingerprint of the `session.started` event, if the agent gave it an `event_id`.
    started_by: Option<String>,
}

impl Relay {
    /// Returns what a session is recorded under: the agent, the agent's `session_id`, and the event that started it.
    pub(super) fn session_origin(&self, alias: Option<&str>, started_by: Option<&EventKey>) -> Option<String> {
        let recovery_key = self.recovery_key.as_ref()?;
        serde_json::to_string(&(recovery_key, alias, started_by.and_then(EventKey::fingerprint))).ok()
    }

    /// Adopts the session with this name from before a restart, if there is one.
    pub(super) async fn adopt_session(&mut self, name: Option<&str>) -> Result<(), AgentError> {
        self.load_recovery().await;
        if self.adoptable_sessions.is_empty() || self.find_session(name)?.is_some() {
            return Ok(());
        }
        let matches =
            |session: &AdoptableSession| session.alias.as_deref() == name || name == Some(session.id.as_str());
        let Some(at) = self.adoptable_sessions.iter().position(matches) else { return Ok(()) };
        let user = self.adoptable_sessions[at].engine.user().clone();
        let slot = self.acquire_session_slot(&user)?;
        let adoptable = self.adoptable_sessions.remove(at);
        if let Some(adopted) = adoptable.engine.adopt(&adoptable.id).await {
            let session_id = self.register_session(adopted.session, adoptable.engine, adoptable.alias, slot);
            if let Some(session) = self.sessions.get_mut(&session_id) {
                session.restore(adopted.pending);
            }
        }
        Ok(())
    }

    /// Handles `session.started` for a session from before a restart. If it is the event that started that session, adopts
    /// it and returns its id. If it is another event, the agent has started over: cancels that session and returns `None`.
    pub(super) async fn restart_session(
        &mut self,
        alias: Option<&str>,
        key: &EventKey,
    ) -> Result<Option<String>, AgentError> {
        self.load_recovery().await;
        let found = self.adoptable_sessions.iter().position(|session| session.alias.as_deref() == alias);
        let Some(at) = found else { return Ok(None) };
        let started_by = &self.adoptable_sessions[at].started_by;
        if started_by.is_some() && *started_by == key.fingerprint() {
            self.adopt_session(alias).await?;
            return self.find_session(alias);
        }
        let adoptable = self.adoptable_sessions.remove(at);
        if let Some(adopted) = adoptable.engine.adopt(&adoptable.id).await {
            // This fails only if the session has ended in the meantime.
            let _ = adopted.session.cancel(CancelledBy::Producer, "The agent started again after a restart.").await;
        }
        Ok(None)
    }

    /// Continues a question that was asked before a restart. Returns `None` if there is none, or if its session has ended:
    /// then the user is asked again.
    pub(super) async fn reattach_question(
        &mut self,
        session_id: Option<&str>,
        event: &CompletedEvent,
        key: &EventKey,
    ) -> Result<Option<ResponseState>, Vec<AgentError>> {
        let Some(origin) = key.question_origin.as_deref() else { return Ok(None) };
        let Some(session) = session_id.and_then(|session_id| self.sessions.get(session_id)) else { return Ok(None) };
        let Some(found) = session.engine.find_question(origin).await else { return Ok(None) };
        let Some(session) = self.sessions.get_mut(found.session.as_str()) else { return Ok(None) };
        let question = AgentQuestion { event, event_id: &key.id, origin: Some(origin) };
        questions::reattach(session, question, found.status, &mut self.question_tasks).map(Some)
    }

    /// Looks up an event among those that were emitted before a restart. One with the same id and other content counts as
    /// new: an agent that was restarted too may number its events from the start again.
    pub(super) async fn find_recovered_event(&mut self, event_id: &str, digest: CallDigest) -> Option<DuplicateEvent> {
        self.load_recovery().await;
        let seen = self.recovered_events.get(event_id)?;
        if seen.content != digest.to_string() {
            return None;
        }
        let (event_id, session_id) = (seen.event_id.clone(), seen.session_id.clone());
        Some(DuplicateEvent::Repeated(AgentResponse::Published { event_id, session_id }.into()))
    }

    /// Notes an emitted event, to be recorded by [`record_seen_events`](Relay::record_seen_events). Questions are found by
    /// their origin instead.
    pub(super) fn note_seen_event(&mut self, key: &EventKey, response: &ResponseState) {
        if let (Some(recovery_key), Some(digest), ResponseState::Ready(response)) =
            (&self.recovery_key, key.digest, response)
            && key.is_from_agent
            && let AgentResponse::Published { event_id, session_id } = &**response
            && let Some(engine) = self.engine_of(session_id)
        {
            let seen = SeenEvent {
                agent: recovery_key.clone(),
                event_id: event_id.clone(),
                content: digest.to_string(),
                session_id: session_id.clone(),
            };
            self.unrecorded_events.push((engine, seen));
        }
    }

    /// Records the ids of emitted events, so that they are not emitted again if they are sent again after a restart. Must be
    /// called after [`flush`](Relay::flush): buffered text must not count as emitted.
    pub(in crate::agents) async fn record_seen_events(&mut self) {
        let mut events = std::mem::take(&mut self.unrecorded_events).into_iter().peekable();
        while let Some((engine, seen)) = events.next() {
            let mut of_user = vec![seen];
            while let Some((_, seen)) = events.next_if(|(other, _)| other.user() == engine.user()) {
                of_user.push(seen);
            }
            engine.record_seen(of_user).await;
        }
    }

    /// Loads what there is from before a restart, on the first call only.
    async fn load_recovery(&mut self) {
        if self.recovery_loaded {
            return;
        }
        let Some(recovery_key) = &self.recovery_key else { return };
        self.recovery_loaded = true;
        let seen = self.users.seen_events(recovery_key).await;
        self.recovered_events = seen.into_iter().map(|seen| (seen.event_id.clone(), seen)).collect();
        for engine in self.users.recovered_engines() {
            for orphan in engine.orphans().await {
                let Some(origin) = orphan.origin else { continue };
                let origin = serde_json::from_str::<(String, Option<String>, Option<String>)>(&origin);
                if let Ok((agent, alias, started_by)) = origin
                    && agent == *recovery_key
                {
                    let engine = engine.clone();
                    self.adoptable_sessions.push(AdoptableSession { engine, id: orphan.session, alias, started_by });
                }
            }
        }
    }
}
