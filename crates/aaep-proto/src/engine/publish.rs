//! The way of an event from the agent's word to everyone: made, checked, put in order, delivered.

use serde_json::{Map, Value};

use super::clean::clean;
use super::session::SessionState;
use super::{Cx, Engine, EngineError, JournalEntry};
use crate::confirm::{CONSENT_PREFIX, CONSENT_URI};
use crate::id::{EventId, SessionId};
use crate::json::Json;
use crate::limits;
use crate::message::{Context, Envelope, Event, LocalizationHints, Localized, Payload, StateChanged, Urgency};
use crate::record::Record;
use crate::rule::{Problem, Rule, Severity};
use crate::validate::{Validator, is_core_name};

/// Extension data that goes with an event.
pub(super) type Consent = Option<Map<String, Value>>;

impl Engine {
    /// Enters a state if the session is not in it.
    pub(super) fn ensure_state(&mut self, cx: &mut Cx<'_>, session: &SessionId, to: &str) -> Result<(), EngineError> {
        let state = &self.sessions.get(session).ok_or(EngineError::UnknownSession)?.state;
        if state != to {
            self.set_state(cx, session, to, None)?;
        }
        Ok(())
    }

    pub(super) fn change_state(
        &mut self,
        cx: &mut Cx<'_>,
        session: &SessionId,
        change: Localized<StateChanged>,
        consent: Consent,
    ) -> Result<EventId, EngineError> {
        let silent = change.payload.summary_normal.is_none() && change.meta.urgency.is_none();
        let by_engine = consent.is_some();
        let event = self.prepare(cx, session, change.into_payload(), |event| {
            if silent {
                event.envelope.urgency = Some(Urgency::Background);
            }
            if by_engine {
                event.envelope.localization_hints = "en".parse().ok().map(LocalizationHints::in_language);
            }
            add_consent(event, consent);
        })?;
        if let (Some(session), Payload::StateChanged(change)) = (self.sessions.get_mut(session), &event.payload) {
            session.state.clone_from(&change.to_state);
        }
        // Delivering may close who cannot keep up, and so settle questions: the state must be right by then.
        self.deliver(cx, &event);
        Ok(event.envelope.event_id)
    }

    pub(super) fn publish(
        &mut self,
        cx: &mut Cx<'_>,
        session: &SessionId,
        payload: Payload,
    ) -> Result<Event, EngineError> {
        self.publish_with(cx, session, payload.into(), |_| {})
    }

    /// Checks an event and sends it, or hands back what is wrong and changes nothing.
    pub(super) fn publish_with(
        &mut self,
        cx: &mut Cx<'_>,
        session: &SessionId,
        said: Localized<Payload>,
        adjust: impl FnOnce(&mut Event),
    ) -> Result<Event, EngineError> {
        let event = self.prepare(cx, session, said, adjust)?;
        self.deliver(cx, &event);
        Ok(event)
    }

    /// Whether an event could be said, by itself; its place in the order is another question. Returns it as it would be
    /// sent.
    pub(super) fn check_alone(
        &mut self,
        cx: &mut Cx<'_>,
        session: &SessionId,
        said: &Localized<Payload>,
    ) -> Result<Event, EngineError> {
        let session = self.sessions.get_mut(session).ok_or(EngineError::UnknownSession)?;
        let before = session.latest;
        let made = made_of(session, cx, said.clone());
        session.latest = before;
        let mut event = made?;
        check_extra(&event)?;
        check(&mut event)?;
        Ok(event)
    }

    /// Makes an event, checks it by itself and in the order of its session, and takes it into that order.
    pub(super) fn prepare(
        &mut self,
        cx: &mut Cx<'_>,
        session: &SessionId,
        said: Localized<Payload>,
        adjust: impl FnOnce(&mut Event),
    ) -> Result<Event, EngineError> {
        let event = self.admit(cx, session, said, adjust)?;
        self.note(|| JournalEntry::Event(Box::new(event.clone())));
        Ok(event)
    }

    /// The same for what is not said at once, and so not yet put on record as said.
    pub(super) fn admit(
        &mut self,
        cx: &mut Cx<'_>,
        session: &SessionId,
        said: Localized<Payload>,
        adjust: impl FnOnce(&mut Event),
    ) -> Result<Event, EngineError> {
        self.release_text(cx, session);
        let found = self.sessions.get_mut(session).ok_or(EngineError::UnknownSession)?;
        let before = found.latest;
        let mut event = made_of(found, cx, said)?;
        adjust(&mut event);
        let checked = check_extra(&event).and_then(|()| check(&mut event)).and_then(|()| found.order_after(&event));
        match checked {
            Ok(order) => {
                found.order = order;
                self.counts.published += 1;
                Ok(event)
            }
            Err(misuse) => {
                found.latest = before;
                Err(misuse)
            }
        }
    }

    /// Makes an event and checks it by itself and in the order of its session, without taking it into that order yet.
    pub(super) fn draft(
        &mut self,
        cx: &mut Cx<'_>,
        session: &SessionId,
        said: Localized<Payload>,
    ) -> Result<Event, EngineError> {
        let found = self.sessions.get_mut(session).ok_or(EngineError::UnknownSession)?;
        let before = found.latest;
        let made = made_of(found, cx, said);
        found.latest = before;
        let mut event = made?;
        check_extra(&event)?;
        check(&mut event)?;
        found.order_after(&event)?;
        Ok(event)
    }
}

/// The event that an agent's words become. What was agreed to is not among them: the engine alone says that.
fn made_of(
    session: &mut SessionState,
    cx: &mut Cx<'_>,
    Localized { payload, variants, meta }: Localized<Payload>,
) -> Result<Event, EngineError> {
    if meta
        .extensions
        .iter()
        .any(|extensions| extensions.keys().any(|prefix| prefix.eq_ignore_ascii_case(CONSENT_PREFIX)))
    {
        let message = "Leave out consent: what was agreed to is said by the producer.";
        let pointer = format!("/extensions/{CONSENT_PREFIX}");
        return Err(EngineError::Invalid(vec![Problem::new(Rule::ReservedPrefix, pointer, message)]));
    }
    let mut event = session.event(cx, payload);
    meta.say(&mut event);
    event.extra = variants;
    Ok(event)
}

/// Adds what the consent extension says.
pub(super) fn add_consent(event: &mut Event, consent: Consent) {
    if let Some(consent) = consent {
        let envelope = &mut event.envelope;
        let said = envelope.context.extensions().iter().filter(|uri| *uri != CONSENT_URI).cloned();
        envelope.context = Context::with_extensions(said.chain([CONSENT_URI.to_owned()]).collect::<Vec<_>>());
        envelope.extensions.get_or_insert_default().insert(CONSENT_PREFIX.to_owned(), consent.into());
    }
}

/// What comes beside the payload must not pass for a part of it: otherwise it would escape every check of the types.
fn check_extra(event: &Event) -> Result<(), EngineError> {
    let core = event.core_type();
    let posing = matches!(&event.payload, Payload::Extension { name } if is_core_name(name));
    let taken = |name: &str| {
        name == "type"
            || Envelope::SHAPE.find(name, &mut 0).is_some()
            || core.is_some_and(|core| core.shape().find(name, &mut 0).is_some())
    };
    if !posing && !event.extra.keys().any(|name| taken(name)) {
        return Ok(());
    }
    let message = "Give core events and their fields as what they are, not as an extension or a variant.";
    Err(EngineError::Invalid(vec![Problem::new(Rule::CustomField, "", message)]))
}

/// Checks one event. Secrets and hidden characters are replaced first; everything else goes back.
fn check(event: &mut Event) -> Result<(), EngineError> {
    let validator = Validator::new();
    let mut text = serde_json::to_vec(event).unwrap_or_default();
    // Before anything reads all of it.
    if text.len() > limits::MESSAGE_BYTES {
        let message =
            format!("Split it: {} bytes are more than the {} of an event.", text.len(), limits::MESSAGE_BYTES);
        return Err(EngineError::Invalid(vec![Problem::new(Rule::MessageSize, "", message)]));
    }
    let changed = match Json::parse(&text) {
        Ok(json) => clean(event, &json)?,
        Err(_) => false,
    };
    if changed {
        text = serde_json::to_vec(event).unwrap_or_default();
    }
    let mut report = validator.check(&text);
    report.problems.retain(|p| p.severity == Severity::Error);
    if report.problems.is_empty() { Ok(()) } else { Err(EngineError::Invalid(report.problems)) }
}
