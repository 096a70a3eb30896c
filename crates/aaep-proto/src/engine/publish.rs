//! The way of an event from the agent's word to everyone: made, checked, put in order, delivered.

use serde_json::{Map, Value};

use super::session::Session;
use super::{Cx, Engine, Entry, Misuse};
use crate::confirm::{CONSENT_PREFIX, CONSENT_URI};
use crate::id::{EventId, SessionId};
use crate::message::{
    CORE_TYPES, Context, Envelope, Event, LocalizationHints, Localized, Payload, StateChanged, Urgency,
};
use crate::record::Record;
use crate::rule::{Problem, Rule, Severity};
use crate::sequence::View;
use crate::sequence::session::Scope;
use crate::validate::{Validator, find_secret};

/// Extension data that goes with an event.
pub(super) type Consent = Option<Map<String, Value>>;

impl Engine {
    /// Enters a state if the session is not in it.
    pub(super) fn ensure_state(&mut self, cx: &mut Cx<'_>, session: &SessionId, to: &str) -> Result<(), Misuse> {
        let state = &self.sessions.get(session).ok_or(Misuse::UnknownSession)?.state;
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
    ) -> Result<EventId, Misuse> {
        let to = change.payload.to_state.clone();
        let silent = change.payload.summary_normal.is_none() && change.aside.urgency.is_none();
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
        if let Some(session) = self.sessions.get_mut(session) {
            session.state = to;
        }
        // Delivering may close who cannot keep up, and so settle questions: the state must be right by then.
        self.deliver(cx, &event);
        Ok(event.envelope.event_id)
    }

    pub(super) fn publish(&mut self, cx: &mut Cx<'_>, session: &SessionId, payload: Payload) -> Result<Event, Misuse> {
        self.publish_with(cx, session, payload.into(), |_| {})
    }

    /// Checks an event and sends it, or hands back what is wrong and changes nothing.
    pub(super) fn publish_with(
        &mut self,
        cx: &mut Cx<'_>,
        session: &SessionId,
        said: Localized<Payload>,
        adjust: impl FnOnce(&mut Event),
    ) -> Result<Event, Misuse> {
        let event = self.prepare(cx, session, said, adjust)?;
        self.deliver(cx, &event);
        Ok(event)
    }

    /// Whether an event could be said, by itself; its place in the order is another question.
    pub(super) fn check_alone(
        &mut self,
        cx: &mut Cx<'_>,
        session: &SessionId,
        said: &Localized<Payload>,
    ) -> Result<(), Misuse> {
        let session = self.sessions.get_mut(session).ok_or(Misuse::UnknownSession)?;
        let before = session.latest;
        let made = made_of(session, cx, said.clone());
        session.latest = before;
        let mut event = made?;
        check_extra(&event)?;
        check(&mut event)
    }

    /// Makes an event, checks it by itself and in the order of its session, and takes it into that order.
    pub(super) fn prepare(
        &mut self,
        cx: &mut Cx<'_>,
        session: &SessionId,
        said: Localized<Payload>,
        adjust: impl FnOnce(&mut Event),
    ) -> Result<Event, Misuse> {
        let event = self.admit(cx, session, said, adjust)?;
        self.note(|| Entry::Event(Box::new(event.clone())));
        Ok(event)
    }

    /// The same for what is not said at once, and so not yet put on record as said.
    pub(super) fn admit(
        &mut self,
        cx: &mut Cx<'_>,
        session: &SessionId,
        said: Localized<Payload>,
        adjust: impl FnOnce(&mut Event),
    ) -> Result<Event, Misuse> {
        let session = self.sessions.get_mut(session).ok_or(Misuse::UnknownSession)?;
        let before = session.latest;
        let mut event = made_of(session, cx, said)?;
        adjust(&mut event);
        let checked = check_extra(&event).and_then(|()| check(&mut event)).and_then(|()| {
            let mut order = session.order.clone();
            let mut problems = Vec::new();
            order.observe(&event, Scope { view: View::WHOLE, replies: true }, &mut problems);
            problems.retain(|p| p.severity == Severity::Error);
            if problems.is_empty() { Ok(order) } else { Err(Misuse::OutOfOrder(problems)) }
        });
        match checked {
            Ok(order) => {
                session.order = order;
                self.counts.published += 1;
                Ok(event)
            }
            Err(misuse) => {
                session.latest = before;
                Err(misuse)
            }
        }
    }
}

/// The event that an agent's words become. What was agreed to is not among them: the engine alone says that.
fn made_of(
    session: &mut Session,
    cx: &mut Cx<'_>,
    Localized { payload, variants, aside }: Localized<Payload>,
) -> Result<Event, Misuse> {
    if aside.extensions.iter().any(|extensions| extensions.contains_key(CONSENT_PREFIX)) {
        let message = "Leave out consent: what was agreed to is said by the producer.";
        let pointer = format!("/extensions/{CONSENT_PREFIX}");
        return Err(Misuse::Invalid(vec![Problem::new(Rule::ReservedPrefix, pointer, message)]));
    }
    let mut event = session.event(cx, payload);
    aside.say(&mut event);
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
fn check_extra(event: &Event) -> Result<(), Misuse> {
    let core = event.core_type();
    let posing = matches!(&event.payload, Payload::Extension { name } if name.starts_with("aaep:") || name.starts_with(CORE_TYPES));
    let taken = |name: &str| {
        name == "type"
            || Envelope::SHAPE.find(name, &mut 0).is_some()
            || core.is_some_and(|core| core.shape().find(name, &mut 0).is_some())
    };
    if !posing && !event.extra.keys().any(|name| taken(name)) {
        return Ok(());
    }
    let message = "Give core events and their fields as what they are, not as an extension or a variant.";
    Err(Misuse::Invalid(vec![Problem::new(Rule::CustomField, "", message)]))
}

/// Checks one event. Secrets in text for people are blotted out first; everything else goes back.
fn check(event: &mut Event) -> Result<(), Misuse> {
    let validator = Validator::new();
    let text = serde_json::to_vec(event).unwrap_or_default();
    let mut report = validator.check(&text);
    if report.problems.iter().any(|p| p.rule == Rule::Secret) {
        redact(event);
        report = validator.check(&serde_json::to_vec(event).unwrap_or_default());
    }
    report.problems.retain(|p| p.severity == Severity::Error);
    if report.problems.is_empty() { Ok(()) } else { Err(Misuse::Invalid(report.problems)) }
}

/// Blots out likely secrets in every text.
fn redact(event: &mut Event) {
    let Ok(mut value) = serde_json::to_value(&*event) else { return };
    redact_value(&mut value);
    if let Ok(clean) = serde_json::from_value(value) {
        *event = clean;
    }
}

fn redact_value(value: &mut Value) {
    match value {
        Value::String(text) => {
            while let Some(secret) = find_secret(text) {
                text.replace_range(secret.range, "[removed]");
            }
        }
        Value::Array(items) => items.iter_mut().for_each(redact_value),
        Value::Object(map) => map.values_mut().for_each(redact_value),
        _ => {}
    }
}
