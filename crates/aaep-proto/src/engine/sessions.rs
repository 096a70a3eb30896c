//! What an agent does with a session, in legal order. An illegal event goes back to the caller and is never sent.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::session::{OutputState, SessionState};
use super::subscriptions::SubscriptionKey;
use super::{Cx, Engine, EngineError, JournalEntry, OutputFormat};
use crate::confirm::Resolution;
use crate::id::{EventId, OutputId, ReplyToken, SessionId};
use crate::language::LanguageTag;
use crate::limits;
use crate::message::{
    CancelledBy, CloseReason, CoreType, ErrorCategory, EventMeta, LocalizationHints, Localized, OutputStreaming,
    Payload, Producer, SessionCancelled, SessionCompleted, SessionErrored, SessionStarted, StateChanged, ToolCompleted,
    ToolStatus,
};
use crate::rule::{Problem, Rule};
use crate::sequence::session::SessionOrder as Order;
use crate::shaping::text::OutputText;

/// How a session begins.
///
/// ```
/// use aaep_proto::engine::SessionOptions;
/// let options = SessionOptions::new("Planning your garden.").in_language("en-GB".parse()?);
/// assert_eq!(options.started.summary_normal, "Planning your garden.");
/// # Ok::<(), aaep_proto::language::ParseLanguageTagError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct SessionOptions {
    /// What the first event says.
    pub started: SessionStarted,
    /// The language of the agent's texts.
    pub language: LanguageTag,
    /// Variants of the first event's texts in other languages: field name with suffix, and text.
    pub variants: Map<String, Value>,
    /// Whose session it is, if not the engine's own producer: one engine can speak for many agents.
    pub producer: Option<Producer>,
    /// What the first event says beside its payload. Its hints on language hold for the session.
    pub meta: EventMeta,
    /// What whoever speaks for the agent calls the session, so that it is found again after a restart.
    pub origin: Option<String>,
}

impl SessionOptions {
    /// A session with this summary, in the producer's first language or English.
    pub fn new(summary: impl Into<String>) -> SessionOptions {
        let started = SessionStarted { summary_normal: summary.into(), ..SessionStarted::default() };
        let language = "en".parse().expect("en is a language tag");
        SessionOptions {
            started,
            language,
            variants: Map::new(),
            producer: None,
            meta: EventMeta::default(),
            origin: None,
        }
    }

    /// The language of the agent's texts.
    pub fn in_language(mut self, language: LanguageTag) -> SessionOptions {
        self.language = language;
        self
    }
}

/// What someone is told who missed events.
pub const MISSED: &str = "Some events were missed. Now";

/// A state change that sums up where a session stands.
pub fn state_summary(from: &str, state: &str, words: &str) -> StateChanged {
    let mut change = StateChanged::new(from, state);
    change.summary_normal = Some(format!("{words}: {}.", state.replace('_', " ")));
    change
}

impl Engine {
    /// Begins a session: says so, and that the agent thinks.
    pub fn start_session(&mut self, cx: &mut Cx<'_>, options: SessionOptions) -> Result<SessionId, EngineError> {
        self.observe_time(cx);
        if self.sessions.len() >= limits::SESSIONS {
            return Err(EngineError::TooMany("sessions"));
        }
        let id = SessionId::random(cx.entropy);
        let SessionOptions { started, language, variants, producer, meta, origin } = options;
        let mut hints = meta.localization_hints.clone().unwrap_or_default();
        hints.primary_language.get_or_insert(language);
        hints.infer_direction();
        let session = SessionState {
            id: id.clone(),
            order: Order::new(true),
            producer: producer.unwrap_or_else(|| self.config.producer.clone()),
            hints,
            started: None,
            state: "idle".to_owned(),
            latest: None,
            outputs: BTreeMap::new(),
            calls: BTreeMap::new(),
        };
        self.sessions.insert(id.clone(), session);
        let said = Localized { payload: started.into(), variants, meta };
        match self.publish_with(cx, &id, said, |_| {}) {
            Ok(event) => {
                if let Some(origin) = origin {
                    self.note(|| JournalEntry::Named(id.clone(), origin));
                }
                if let Some(session) = self.sessions.get_mut(&id) {
                    // Without secrets or hidden characters, for the events that follow.
                    session.producer = event.envelope.producer.clone();
                    session.started = Some(event);
                }
                self.counts.sessions += 1;
                self.set_state(cx, &id, "thinking", None)?;
                Ok(id)
            }
            Err(misuse) => {
                self.sessions.remove(&id);
                Err(misuse)
            }
        }
    }

    /// Says anything that has no method of its own: progress, a handoff, an extension's event. An
    /// irreversible tool is not among it.
    pub fn emit(&mut self, cx: &mut Cx<'_>, session: &SessionId, payload: Payload) -> Result<EventId, EngineError> {
        self.emit_localized(cx, session, payload.into())
    }

    /// The same, with texts in several languages, with what goes beside it, or with the fields of an extension's event.
    pub fn emit_localized(
        &mut self,
        cx: &mut Cx<'_>,
        session: &SessionId,
        mut said: Localized<Payload>,
    ) -> Result<EventId, EngineError> {
        self.observe_time(cx);
        match &said.payload {
            Payload::ToolInvoked(tool) if tool.irreversible == Some(true) => return Err(EngineError::NeedsPermit),
            Payload::AwaitingConfirmation(_) | Payload::AwaitingClarification(_) => {
                return Err(EngineError::UnknownQuestion);
            }
            Payload::OutputStreaming(_) => return Err(EngineError::UnknownOutput),
            Payload::ToolInvoked(_) => return Err(EngineError::WrongMethod("invoke_tool")),
            Payload::ToolCompleted(_) => return Err(EngineError::WrongMethod("complete_tool")),
            Payload::SessionStarted(_) => return Err(EngineError::WrongMethod("start_session")),
            Payload::SessionCompleted(_) | Payload::SessionErrored(_) | Payload::SessionCancelled(_) => {
                return Err(EngineError::WrongMethod("end_session"));
            }
            Payload::StateChanged(change) => {
                let mut change = change.clone();
                change.from_state = self.sessions.get(session).ok_or(EngineError::UnknownSession)?.state.clone();
                let change = Localized { payload: change, variants: said.variants, meta: said.meta };
                return self.change_state(cx, session, change, None);
            }
            // An event that names its vocabularies itself may be of an extension that is not offered.
            Payload::Extension { name } if said.meta.vocabularies.is_empty() => {
                said.meta.vocabularies.extend(self.vocabulary_of(name));
            }
            _ => {}
        }
        let event = self.publish_with(cx, session, said, |_| {})?;
        Ok(event.envelope.event_id)
    }

    /// The vocabulary of an extension's event type, if the producer offers that extension.
    fn vocabulary_of(&self, name: &str) -> Option<String> {
        let (prefix, _) = name.split_once(':')?;
        let known = self.config.offer.extensions.iter().find(|(known, _)| known == prefix);
        known.map(|(_, uri)| uri.clone())
    }

    /// Enters a state, with a text worth hearing or without.
    pub fn set_state(
        &mut self,
        cx: &mut Cx<'_>,
        session: &SessionId,
        to: &str,
        summary: Option<&str>,
    ) -> Result<EventId, EngineError> {
        self.observe_time(cx);
        let from = self.sessions.get(session).ok_or(EngineError::UnknownSession)?.state.clone();
        let mut change = StateChanged::new(from, to);
        change.summary_normal = summary.map(str::to_owned);
        self.change_state(cx, session, change.into(), None)
    }

    /// Begins an output of this content type, in the session's language or another.
    pub fn open_output(
        &mut self,
        cx: &mut Cx<'_>,
        session: &SessionId,
        content_type: &str,
        language: Option<LanguageTag>,
    ) -> Result<OutputId, EngineError> {
        let kind = OutputFormat { content_type: content_type.to_owned(), language };
        self.open_output_with(cx, session, kind, EventMeta::default())
    }

    /// The same with what goes beside each of its pieces.
    pub fn open_output_with(
        &mut self,
        cx: &mut Cx<'_>,
        session: &SessionId,
        kind: OutputFormat,
        meta: EventMeta,
    ) -> Result<OutputId, EngineError> {
        self.observe_time(cx);
        // The pieces themselves are too many to be judged one by one; what goes beside them is the same for all.
        let piece = OutputStreaming { content_type: Some(kind.content_type.clone()), ..OutputStreaming::default() };
        let piece = Localized { payload: piece.into(), variants: Map::new(), meta };
        let checked = self.check_alone(cx, session, &piece)?.envelope;
        let meta = EventMeta { correlation_id: checked.correlation_id, extensions: checked.extensions, ..piece.meta };
        self.ensure_state(cx, session, "writing_output")?;
        let words = self.shapes.need_words();
        let session_id = session;
        let session = self.sessions.get_mut(session).ok_or(EngineError::UnknownSession)?;
        if session.outputs.len() >= limits::PER_SESSION {
            return Err(EngineError::TooMany("outputs"));
        }
        let id = OutputId::random(cx.entropy);
        let hinted = meta.localization_hints.as_ref().and_then(|hints| hints.primary_language.as_ref());
        let spoken = kind.language.as_ref().or(hinted).or(session.hints.primary_language.as_ref());
        let text = OutputText::new(&kind.content_type, spoken, words);
        session.outputs.insert(id.clone(), OutputState::new(text, kind.clone(), meta));
        self.note(|| JournalEntry::Opened(session_id.clone(), id.clone(), kind));
        Ok(id)
    }

    /// The good end of a session. Tools must be completed and questions settled; outputs are ended.
    pub fn complete_session(
        &mut self,
        cx: &mut Cx<'_>,
        session: &SessionId,
        summary: impl Into<String>,
    ) -> Result<(), EngineError> {
        let completed = SessionCompleted { summary_normal: summary.into(), ..SessionCompleted::default() };
        self.end_session(cx, session, completed.into())
    }

    /// The end of a session by an error. What is open is closed first.
    pub fn fail_session(
        &mut self,
        cx: &mut Cx<'_>,
        session: &SessionId,
        category: ErrorCategory,
        summary: impl Into<String>,
    ) -> Result<(), EngineError> {
        let errored = SessionErrored {
            error_category: category,
            error_code: None,
            summary_terse: None,
            summary_normal: summary.into(),
            summary_detailed: None,
            error_uri: None,
            recoverable: None,
            remediation_hint: None,
        };
        self.end_session(cx, session, errored.into())
    }

    /// The early end of a session. What is open is closed first.
    pub fn cancel_session(
        &mut self,
        cx: &mut Cx<'_>,
        session: &SessionId,
        by: CancelledBy,
        summary: impl Into<String>,
    ) -> Result<(), EngineError> {
        let cancelled = SessionCancelled {
            cancelled_by: by,
            cancellation_reason: None,
            summary_terse: None,
            summary_normal: summary.into(),
            summary_detailed: None,
            partial_result: None,
        };
        self.end_session(cx, session, cancelled.into())
    }

    /// The early end of all sessions, when the producer itself ends.
    pub fn cancel_all(&mut self, cx: &mut Cx<'_>, summary: &str) {
        for id in self.sessions.keys().cloned().collect::<Vec<_>>() {
            let cancelled = SessionCancelled {
                cancelled_by: CancelledBy::Producer,
                cancellation_reason: Some(CloseReason::ProducerShutdown.to_string()),
                summary_terse: None,
                summary_normal: summary.to_owned(),
                summary_detailed: None,
                partial_result: None,
            };
            let ended = self.end_session(cx, &id, cancelled.into());
            debug_assert!(ended.is_ok(), "{ended:?}");
        }
    }

    /// Ends a session with any of the three endings.
    pub fn end_session(&mut self, cx: &mut Cx<'_>, session: &SessionId, ending: Payload) -> Result<(), EngineError> {
        self.end_localized(cx, session, ending.into())
    }

    /// The same, with texts in several languages.
    pub fn end_localized(
        &mut self,
        cx: &mut Cx<'_>,
        session: &SessionId,
        ending: Localized<Payload>,
    ) -> Result<(), EngineError> {
        self.observe_time(cx);
        let core = ending.payload.core_type();
        if !core.is_some_and(CoreType::is_terminal) {
            return Err(EngineError::WrongMethod("emit"));
        }
        // Judged before anything is closed for it.
        self.check_alone(cx, session, &ending)?;
        let found = self.sessions.get(session).ok_or(EngineError::UnknownSession)?;
        let completes = core == Some(CoreType::SessionCompleted);
        let open = !found.calls.is_empty() || self.has_held_call(session);
        if completes && (open || self.questions.values().any(|q| q.session == *session)) {
            let message = "Complete the tools and settle the questions of the session first.";
            return Err(EngineError::OutOfOrder(vec![Problem::new(Rule::ToolOpen, "/type", message)]));
        }
        let (calls, outputs) = (found.calls.clone(), found.outputs.keys().cloned().collect::<Vec<_>>());
        self.settle_all(cx, session, Resolution::Cancelled);
        self.drop_held_calls(session);
        for (id, tool) in calls {
            let given_up = ToolCompleted {
                tool,
                tool_call_id: Some(id),
                status: ToolStatus::Timeout,
                duration_ms: None,
                summary_terse: None,
                summary_normal: None,
                summary_detailed: None,
                error_message: Some("The session ended before the tool did.".to_owned()),
            };
            self.publish(cx, session, given_up.into())?;
        }
        for output in outputs {
            self.finish_output(cx, session, &output)?;
        }
        self.publish_with(cx, session, ending, |_| {})?;
        self.sessions.remove(session);
        self.ended.insert(session.as_str());
        Ok(())
    }

    /// Whether a session is going on.
    pub fn has_session(&self, session: &SessionId) -> bool {
        self.sessions.contains_key(session)
    }

    /// Brings a subscription that joins up to date: which sessions go on, and where they stand.
    pub(super) fn catch_up(&mut self, cx: &mut Cx<'_>, key: SubscriptionKey) {
        let sessions: Vec<SessionId> = self.sessions.keys().cloned().collect();
        for id in sessions {
            let started = self.sessions.get(&id).and_then(|session| session.started.clone());
            started.iter().for_each(|event| self.deliver_to(cx, key, event));
            self.tell_state(cx, key, (&id, "idle"), "Already under way");
        }
    }

    /// Tells a subscription where things stand after it missed events that cannot be had any more (8.7): the state of
    /// every session that it does not get events of anyway, and every open question that is not among them.
    pub fn sum_up(
        &mut self,
        cx: &mut Cx<'_>,
        key: SubscriptionKey,
        (sessions, questions): (&BTreeSet<SessionId>, &BTreeSet<ReplyToken>),
    ) {
        self.observe_time(cx);
        let missed: Vec<SessionId> = self.sessions.keys().filter(|id| !sessions.contains(*id)).cloned().collect();
        for id in missed {
            let state = self.sessions.get(&id).map(|session| session.state.clone()).unwrap_or_default();
            self.tell_state(cx, key, (&id, &state), MISSED);
        }
        self.repeat_questions(cx, key, questions);
    }

    fn tell_state(&mut self, cx: &mut Cx<'_>, key: SubscriptionKey, (id, from): (&SessionId, &str), words: &str) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        let state = session.state.clone();
        let mut summary = session.event(cx, state_summary(from, &state, words).into());
        summary.envelope.localization_hints = "en".parse().ok().map(LocalizationHints::in_language);
        self.deliver_to(cx, key, &summary);
    }
}
