//! The way of an event from the agent to the subscriptions: made, checked, taken into the order of its session, recorded,
//! delivered.

use serde_json::{Map, Value};

use super::clean::{check_choices, clean, needs_cleaning};
use super::session_state::SessionState;
use super::{Cx, Engine, EngineError, JournalEntry};
use crate::confirm::{CONSENT_PREFIX, CONSENT_URI};
use crate::id::{EventId, SessionId};
use crate::limits;
use crate::message::{Context, Envelope, Event, LocalizationHints, Localized, Payload, StateChanged, Urgency};
use crate::record::Record;
use crate::rule::{Problem, Rule, Severity};
use crate::validate::{Validator, is_core_name, may_break_size_limits};

/// Data of the consent extension that goes with an event.
pub(super) type Consent = Option<Map<String, Value>>;

/// Returns the hints for texts that the engine itself writes: they are in English.
pub(super) fn engine_hints() -> Option<LocalizationHints> {
    Some(LocalizationHints::english())
}

impl Engine {
    /// Enters a state if the session is not in it.
    pub(super) fn ensure_state(&mut self, cx: &mut Cx<'_>, session: &SessionId, to: &str) -> Result<(), EngineError> {
        if self.sessions.get(session)?.state() != to {
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
        let event = self.commit(cx, session, change.into_payload(), |event| {
            if silent {
                event.envelope.urgency = Some(Urgency::Background);
            }
            if by_engine {
                event.envelope.localization_hints = engine_hints();
            }
            add_consent(event, consent);
        })?;
        if let (Ok(session), Payload::StateChanged(change)) = (self.sessions.get_mut(session), &event.payload) {
            session.set_state(&change.to_state);
        }
        // The delivery may close a subscription that cannot keep up, and so resolve questions: the state must be right.
        self.deliver_to_all(cx, &event);
        Ok(event.envelope.event_id)
    }

    /// Checks, records and delivers an event. Returns it as it was sent. An error changes nothing.
    pub(super) fn publish(
        &mut self,
        cx: &mut Cx<'_>,
        session: &SessionId,
        localized: Localized<Payload>,
    ) -> Result<Event, EngineError> {
        self.publish_with(cx, session, localized, |_| {})
    }

    /// Checks, records and delivers an event that the engine adjusts before.
    pub(super) fn publish_with(
        &mut self,
        cx: &mut Cx<'_>,
        session: &SessionId,
        localized: Localized<Payload>,
        adjust: impl FnOnce(&mut Event),
    ) -> Result<Event, EngineError> {
        let event = self.commit(cx, session, localized, adjust)?;
        self.deliver_to_all(cx, &event);
        Ok(event)
    }

    /// Checks an event by itself, apart from the order of its session. Returns it as it would be sent.
    pub(super) fn check_event(
        &mut self,
        cx: &mut Cx<'_>,
        session: &SessionId,
        localized: &Localized<Payload>,
    ) -> Result<Event, EngineError> {
        let mut event = draft(self.sessions.get(session)?, cx, localized.clone())?;
        check(&mut event)?;
        Ok(event)
    }

    /// Checks an event by itself and in the order of its session, without taking it into that order.
    pub(super) fn draft_next(
        &mut self,
        cx: &mut Cx<'_>,
        session: &SessionId,
        localized: Localized<Payload>,
    ) -> Result<Event, EngineError> {
        let session = self.sessions.get(session)?;
        let mut event = draft(session, cx, localized)?;
        check(&mut event)?;
        session.check_order(&event)?;
        Ok(event)
    }

    /// Checks an event, takes it into the order of its session and records it. The caller delivers it.
    fn commit(
        &mut self,
        cx: &mut Cx<'_>,
        session: &SessionId,
        localized: Localized<Payload>,
        adjust: impl FnOnce(&mut Event),
    ) -> Result<Event, EngineError> {
        let event = self.commit_unrecorded(cx, session, localized, adjust)?;
        self.out.record(|| JournalEntry::Event(Box::new(event.clone())));
        Ok(event)
    }

    /// Checks an event and takes it into the order of its session. The caller records and delivers it later.
    pub(super) fn commit_unrecorded(
        &mut self,
        cx: &mut Cx<'_>,
        session: &SessionId,
        localized: Localized<Payload>,
        adjust: impl FnOnce(&mut Event),
    ) -> Result<Event, EngineError> {
        self.release_held_text(cx, session);
        let session = self.sessions.get_mut(session)?;
        let mut event = draft(session, cx, localized)?;
        adjust(&mut event);
        check(&mut event)?;
        session.commit(&event)?;
        self.stats.published += 1;
        Ok(event)
    }
}

/// Makes an event from what the agent gave. Consent is not the agent's to state: only the engine adds that.
fn draft(
    session: &SessionState,
    cx: &mut Cx<'_>,
    Localized { payload, variants, meta }: Localized<Payload>,
) -> Result<Event, EngineError> {
    let prefixes = meta.extensions.iter().flat_map(|extensions| extensions.keys());
    if prefixes.into_iter().any(|prefix| prefix.eq_ignore_ascii_case(CONSENT_PREFIX)) {
        let message = "Leave out consent: what was agreed to is said by the producer.";
        let pointer = format!("/extensions/{CONSENT_PREFIX}");
        return Err(EngineError::Invalid(vec![Problem::new(Rule::ReservedPrefix, pointer, message)]));
    }
    let mut event = session.draft(cx, payload);
    meta.apply_to(&mut event);
    event.extra = variants;
    Ok(event)
}

/// Adds the data of the consent extension.
pub(super) fn add_consent(event: &mut Event, consent: Consent) {
    if let Some(consent) = consent {
        let envelope = &mut event.envelope;
        let others = envelope.context.extensions().iter().filter(|uri| *uri != CONSENT_URI).cloned();
        envelope.context = Context::with_extensions(others.chain([CONSENT_URI.to_owned()]).collect::<Vec<_>>());
        envelope.extensions.get_or_insert_default().insert(CONSENT_PREFIX.to_owned(), consent.into());
    }
}

/// Checks that what comes beside the payload does not pass for a part of it: it would escape every check of the types.
fn check_extra(event: &Event) -> Result<(), EngineError> {
    let core = event.core_type();
    let poses_as_core = matches!(&event.payload, Payload::Extension { name } if is_core_name(name));
    let taken = |name: &str| {
        name == "type"
            || Envelope::SHAPE.find(name, &mut 0).is_some()
            || core.is_some_and(|core| core.shape().find(name, &mut 0).is_some())
    };
    if !poses_as_core && !event.extra.keys().any(|name| taken(name)) {
        return Ok(());
    }
    let message = "Give core events and their fields as what they are, not as an extension or a variant.";
    Err(EngineError::Invalid(vec![Problem::new(Rule::CustomField, "", message)]))
}

/// Checks an event by itself. Secrets and hidden characters are replaced first; everything else is an error.
fn check(event: &mut Event) -> Result<(), EngineError> {
    check_extra(event)?;
    let json = event.to_json();
    if may_break_size_limits(&json) {
        check_size(event)?;
    }
    check_choices(event)?;
    if needs_cleaning(event, &json) {
        clean(event);
    }
    let mut problems = Validator::new().check_event(event).problems;
    problems.retain(|problem| problem.severity == Severity::Error);
    if problems.is_empty() { Ok(()) } else { Err(EngineError::Invalid(problems)) }
}

/// Checks the serialized size of a large event, before anything looks at all of its text.
fn check_size(event: &Event) -> Result<(), EngineError> {
    let length = serde_json::to_vec(event).map_or(0, |text| text.len());
    if length <= limits::MESSAGE_BYTES {
        return Ok(());
    }
    let message = format!("Split it: {length} bytes are more than the {} of an event.", limits::MESSAGE_BYTES);
    Err(EngineError::Invalid(vec![Problem::new(Rule::MessageSize, "", message)]))
}
