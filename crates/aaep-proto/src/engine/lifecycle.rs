//! The life of a session: how it starts, what it emits, how it ends. An illegal event is an error and is never sent.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::publish::engine_hints;
use super::session_state::SessionState;
use super::subscription::SubscriptionKey;
use super::{Cx, Engine, EngineError, JournalEntry};
use crate::id::{Entropy, EventId, ReplyToken, SessionId};
use crate::language::LanguageTag;
use crate::limits;
use crate::message::{
    CancelledBy, CloseReason, CoreType, Envelope, ErrorCategory, Event, EventMeta, Localized, Payload, Producer,
    SessionCancelled, SessionCompleted, SessionErrored, SessionStarted, StateChanged, ToolCompleted, ToolStatus, state,
};
use crate::rule::{Problem, Rule};

/// How a session starts.
///
/// ```
/// use aaep_proto::engine::SessionOptions;
/// let options = SessionOptions::new("Planning your garden.").in_language("en-GB".parse()?);
/// assert_eq!(options.started.summary_normal, "Planning your garden.");
/// # Ok::<(), aaep_proto::language::ParseLanguageTagError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SessionOptions {
    /// The payload of the first event.
    pub started: SessionStarted,
    /// The language of the agent's texts.
    pub language: LanguageTag,
    /// Texts of the first event in other languages, by field name with language suffix.
    pub variants: Map<String, Value>,
    /// The producer of the session, if it is not the engine's own: one engine can serve many agents.
    pub producer: Option<Producer>,
    /// What the first event carries beside its payload. Its localization hints hold for the session.
    pub meta: EventMeta,
    /// A name by which the side of the agent finds the session again after a restart.
    pub origin: Option<String>,
    /// Whether the agent handles requests to cancel the session, from its first event on.
    pub accepts_cancel: bool,
}

impl SessionOptions {
    /// Makes the options of a session with this summary in English.
    pub fn new(summary: impl Into<String>) -> SessionOptions {
        SessionStarted { summary_normal: summary.into(), ..SessionStarted::default() }.into()
    }

    /// Sets the language of the agent's texts.
    pub fn in_language(mut self, language: LanguageTag) -> SessionOptions {
        self.language = language;
        self
    }

    /// Adds texts of the first event in other languages, by field name with language suffix, and what the event carries
    /// beside its payload.
    pub fn with_variants(mut self, variants: Map<String, Value>, meta: EventMeta) -> SessionOptions {
        (self.variants, self.meta) = (variants, meta);
        self
    }

    /// Sets the producer of the session, if it is not the engine's own.
    pub fn producer(mut self, producer: Producer) -> SessionOptions {
        self.producer = Some(producer);
        self
    }

    /// Sets the name by which the side of the agent finds the session again after a restart.
    pub fn origin(mut self, origin: impl Into<String>) -> SessionOptions {
        self.origin = Some(origin.into());
        self
    }
}

impl From<SessionStarted> for SessionOptions {
    /// Makes the options of a session in English that starts with this payload.
    fn from(started: SessionStarted) -> SessionOptions {
        let language = "en".parse().expect("en is a language tag");
        SessionOptions {
            started,
            language,
            variants: Map::new(),
            producer: None,
            meta: EventMeta::default(),
            origin: None,
            accepts_cancel: false,
        }
    }
}

/// Begins the summary for a subscriber that missed events.
const MISSED_EVENTS: &str = "Some events were missed. Now";

/// Makes the event that summarizes the state of a session for a subscriber that missed events. Its envelope is that of
/// another event of the session, with an id of its own.
pub fn state_summary_event(mut envelope: Envelope, state: &str, entropy: &mut dyn Entropy) -> Event {
    envelope.event_id = EventId::random(entropy);
    envelope.localization_hints = engine_hints();
    Event { envelope, payload: state_summary(state, state, MISSED_EVENTS).into(), extra: Map::new() }
}

/// Makes a state change that summarizes the state of a session, with a text that begins with `intro`.
fn state_summary(from: &str, state: &str, intro: &str) -> StateChanged {
    let mut change = StateChanged::new(from, state);
    change.summary_normal = Some(format!("{intro}: {}.", state.replace('_', " ")));
    change
}

impl Engine {
    /// Starts a session: emits its first event and enters the state `thinking`.
    pub fn start_session(&mut self, cx: &mut Cx<'_>, options: SessionOptions) -> Result<SessionId, EngineError> {
        self.observe_time(cx);
        if self.sessions.len() >= limits::SESSIONS {
            return Err(EngineError::TooMany("sessions"));
        }
        let id = SessionId::random(cx.entropy);
        let SessionOptions { started, language, variants, producer, meta, origin, accepts_cancel } = options;
        let mut hints = meta.localization_hints.clone().unwrap_or_default();
        hints.primary_language.get_or_insert(language);
        hints.infer_direction();
        let producer = producer.unwrap_or_else(|| self.config.producer.clone());
        self.sessions.insert(SessionState::new(id.clone(), producer, hints));
        if accepts_cancel {
            self.accept_cancel_requests(&id)?;
        }
        let localized = Localized { payload: started.into(), variants, meta };
        match self.publish(cx, &id, localized) {
            Ok(event) => {
                if let Some(origin) = origin {
                    self.out.record(|| JournalEntry::Named(id.clone(), origin));
                }
                if let Ok(session) = self.sessions.get_mut(&id) {
                    session.set_started(event);
                }
                self.stats.sessions += 1;
                self.set_state(cx, &id, state::THINKING, None)?;
                Ok(id)
            }
            Err(error) => {
                self.sessions.remove(&id);
                Err(error)
            }
        }
    }

    /// Emits an event that has no method of its own: progress, a handoff, an event of an extension.
    pub fn emit(&mut self, cx: &mut Cx<'_>, session: &SessionId, payload: Payload) -> Result<EventId, EngineError> {
        self.emit_localized(cx, session, payload.into())
    }

    /// Emits an event that has no method of its own, with texts in several languages, with metadata, or with the fields of
    /// an extension's event.
    pub fn emit_localized(
        &mut self,
        cx: &mut Cx<'_>,
        session: &SessionId,
        mut localized: Localized<Payload>,
    ) -> Result<EventId, EngineError> {
        self.observe_time(cx);
        let use_instead = |method| Err(EngineError::WrongMethod { use_instead: method });
        match &localized.payload {
            Payload::ToolInvoked(tool) if tool.irreversible == Some(true) => return Err(EngineError::NeedsPermit),
            Payload::AwaitingConfirmation(_) | Payload::AwaitingClarification(_) => {
                return Err(EngineError::UnknownQuestion);
            }
            Payload::OutputStreaming(_) => return Err(EngineError::UnknownOutput),
            Payload::ToolInvoked(_) => return use_instead("invoke_tool"),
            Payload::ToolCompleted(_) => return use_instead("complete_tool"),
            Payload::SessionStarted(_) => return use_instead("start_session"),
            Payload::SessionCompleted(_) | Payload::SessionErrored(_) | Payload::SessionCancelled(_) => {
                return use_instead("end_session");
            }
            Payload::StateChanged(change) => {
                let mut change = change.clone();
                self.sessions.get(session)?.state().clone_into(&mut change.from_state);
                let change = Localized { payload: change, variants: localized.variants, meta: localized.meta };
                return self.change_state(cx, session, change, None);
            }
            // An event that names its vocabularies itself may be of an extension that is not offered.
            Payload::Extension { name } if localized.meta.vocabularies.is_empty() => {
                localized.meta.vocabularies.extend(self.vocabulary_of(name));
            }
            _ => {}
        }
        let event = self.publish(cx, session, localized)?;
        Ok(event.envelope.event_id)
    }

    /// Returns the vocabulary of an extension's event type, if the producer offers that extension.
    fn vocabulary_of(&self, name: &str) -> Option<String> {
        let (prefix, _) = name.split_once(':')?;
        let known = self.config.offer.extensions.iter().find(|(known, _)| known == prefix);
        known.map(|(_, uri)| uri.clone())
    }

    /// Enters a state. The summary, if any, is for the user.
    pub fn set_state(
        &mut self,
        cx: &mut Cx<'_>,
        session: &SessionId,
        to: &str,
        summary: Option<&str>,
    ) -> Result<EventId, EngineError> {
        self.observe_time(cx);
        let mut change = StateChanged::new(self.sessions.get(session)?.state(), to);
        change.summary_normal = summary.map(str::to_owned);
        self.change_state(cx, session, change.into(), None)
    }

    /// Completes a session. Its tool calls must have completed and its questions must be resolved; its outputs are
    /// finished.
    pub fn complete_session(
        &mut self,
        cx: &mut Cx<'_>,
        session: &SessionId,
        summary: impl Into<String>,
    ) -> Result<(), EngineError> {
        let completed = SessionCompleted { summary_normal: summary.into(), ..SessionCompleted::default() };
        self.end_session(cx, session, completed.into())
    }

    /// Ends a session by an error. Its questions are cancelled, its tool calls and outputs are ended first.
    pub fn fail_session(
        &mut self,
        cx: &mut Cx<'_>,
        session: &SessionId,
        category: ErrorCategory,
        summary: impl Into<String>,
    ) -> Result<(), EngineError> {
        let errored = SessionErrored::new(category, summary.into());
        self.end_session(cx, session, errored.into())
    }

    /// Cancels a session. Its questions are cancelled, its tool calls and outputs are ended first.
    pub fn cancel_session(
        &mut self,
        cx: &mut Cx<'_>,
        session: &SessionId,
        by: CancelledBy,
        summary: impl Into<String>,
    ) -> Result<(), EngineError> {
        let cancelled = SessionCancelled::new(by, summary.into());
        self.end_session(cx, session, cancelled.into())
    }

    /// Cancels all sessions, as the producer itself ends.
    pub fn cancel_all(&mut self, cx: &mut Cx<'_>, summary: &str) {
        for id in self.sessions.ids() {
            let cancelled = SessionCancelled {
                cancellation_reason: Some(CloseReason::ProducerShutdown.to_string()),
                ..SessionCancelled::new(CancelledBy::Producer, summary)
            };
            let ended = self.end_session(cx, &id, cancelled.into());
            debug_assert!(ended.is_ok(), "{ended:?}");
        }
    }

    /// Ends a session with a terminal event: completed, errored or cancelled.
    pub fn end_session(&mut self, cx: &mut Cx<'_>, session: &SessionId, ending: Payload) -> Result<(), EngineError> {
        self.end_localized(cx, session, ending.into())
    }

    /// Ends a session with a terminal event that has texts in several languages or metadata.
    pub fn end_localized(
        &mut self,
        cx: &mut Cx<'_>,
        session: &SessionId,
        ending: Localized<Payload>,
    ) -> Result<(), EngineError> {
        self.observe_time(cx);
        let core = ending.payload.core_type();
        if !core.is_some_and(CoreType::is_terminal) {
            return Err(EngineError::WrongMethod { use_instead: "emit" });
        }
        // Checked before anything is ended for it.
        self.check_event(cx, session, &ending)?;
        let found = self.sessions.get(session)?;
        let completes = core == Some(CoreType::SessionCompleted);
        let has_calls = !found.calls().is_empty() || self.permits.has_pending(session);
        if completes && (has_calls || self.questions.count_of(session) > 0) {
            let message = "Complete the tools and settle the questions of the session first.";
            return Err(EngineError::OutOfOrder(vec![Problem::new(Rule::ToolOpen, "/type", message)]));
        }
        let (calls, outputs) = (found.calls().clone(), found.output_ids());
        self.cancel_questions(cx, session);
        self.drop_pending_calls(session);
        for (id, tool) in calls {
            let abandoned = ToolCompleted {
                tool_call_id: Some(id),
                error_message: Some("The session ended before the tool did.".to_owned()),
                ..ToolCompleted::new(tool, ToolStatus::Timeout)
            };
            self.publish(cx, session, Payload::from(abandoned).into())?;
        }
        for output in outputs {
            self.finish_output(cx, session, &output)?;
        }
        self.publish(cx, session, ending)?;
        self.sessions.remove(session);
        Ok(())
    }

    /// Whether a session has started and not ended.
    pub fn has_session(&self, session: &SessionId) -> bool {
        self.sessions.contains(session)
    }

    /// Delivers to a new subscription which sessions are open and their states.
    pub(super) fn catch_up(&mut self, cx: &mut Cx<'_>, key: SubscriptionKey) {
        for id in self.sessions.ids() {
            let started = self.sessions.get(&id).ok().and_then(|session| session.started().cloned());
            started.iter().for_each(|event| self.deliver_to_one(cx, key, event));
            self.deliver_state(cx, key, &id, Some(state::IDLE), "Already under way");
        }
    }

    /// Summarizes for a subscription what it missed and cannot get any more (8.7): the state of every session except for
    /// `known_sessions`, and every open question except for `known_questions`.
    pub fn send_gap_summary(
        &mut self,
        cx: &mut Cx<'_>,
        key: SubscriptionKey,
        known_sessions: &BTreeSet<SessionId>,
        known_questions: &BTreeSet<ReplyToken>,
    ) {
        self.observe_time(cx);
        for id in self.sessions.ids() {
            if !known_sessions.contains(&id) {
                self.deliver_state(cx, key, &id, None, MISSED_EVENTS);
            }
        }
        self.repeat_lost_questions(cx, key, known_questions);
    }

    /// Delivers the state of a session to one subscription, as a change from this state or from the same.
    fn deliver_state(
        &mut self,
        cx: &mut Cx<'_>,
        key: SubscriptionKey,
        id: &SessionId,
        from: Option<&str>,
        intro: &str,
    ) {
        let Ok(session) = self.sessions.get_mut(id) else { return };
        let change = state_summary(from.unwrap_or(session.state()), session.state(), intro);
        let mut summary = session.event(cx, change.into());
        summary.envelope.localization_hints = engine_hints();
        self.deliver_to_one(cx, key, &summary);
    }
}
