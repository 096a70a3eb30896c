//! The fields of an envelope that an agent may set.

use serde_json::{Map, Value};

use super::{Context, CoreType, Envelope, Event, LocalizationHints, Urgency};

/// The fields of an envelope that an agent may set. The producer sets the others: ids, times, the agent.
///
/// ```
/// use aaep_proto::message::{EventMeta, Localized, SessionCompleted};
/// let done = SessionCompleted { summary_normal: "Your plan is ready.".into(), ..Default::default() };
/// let mut done = Localized::new(done);
/// done.meta = EventMeta { correlation_id: Some("trace-7".into()), ..EventMeta::default() };
/// assert_eq!(done.meta.urgency, None);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EventMeta {
    /// The version of the protocol that the event is written for.
    pub aaep_version: Option<String>,
    /// How urgently the user should be informed. It applies where the type leaves a choice: between normal and
    /// background, for states, progress and the events of extensions.
    pub urgency: Option<Urgency>,
    /// What language its texts are in, if not that of the session.
    pub localization_hints: Option<LocalizationHints>,
    /// Trace identifier.
    pub correlation_id: Option<String>,
    /// The vocabularies of its extensions.
    pub vocabularies: Vec<String>,
    /// Data of extensions by prefix.
    pub extensions: Option<Map<String, Value>>,
}

impl EventMeta {
    /// Extracts them from an envelope.
    pub fn of(envelope: &Envelope) -> EventMeta {
        EventMeta {
            aaep_version: envelope.aaep_version.clone(),
            urgency: envelope.urgency.clone(),
            localization_hints: envelope.localization_hints.clone(),
            correlation_id: envelope.correlation_id.clone(),
            vocabularies: envelope.context.extensions().to_vec(),
            extensions: envelope.extensions.clone(),
        }
    }

    /// Applies them to an event. The language defaults to that of the session.
    pub(crate) fn apply_to(self, event: &mut Event) {
        let urgency = self.urgency.filter(|urgency| may_choose(event.core_type(), urgency));
        let envelope = &mut event.envelope;
        if let Some(mut hints) = self.localization_hints {
            let before = envelope.localization_hints.take().and_then(|hints| hints.primary_language);
            hints.primary_language = hints.primary_language.or(before);
            hints.infer_direction();
            envelope.localization_hints = Some(hints);
        }
        if urgency.is_some() {
            envelope.urgency = urgency;
        }
        envelope.aaep_version = self.aaep_version;
        envelope.correlation_id = self.correlation_id;
        if !self.vocabularies.is_empty() {
            envelope.context = Context::with_extensions(self.vocabularies);
        }
        envelope.extensions = self.extensions;
    }
}

/// Returns whether an agent may choose this urgency. Otherwise it could bypass every rate with critical events, or hide
/// the end of a session as a background event.
fn may_choose(core: Option<CoreType>, urgency: &Urgency) -> bool {
    let open = matches!(core, None | Some(CoreType::StateChanged | CoreType::ProgressUpdated));
    open && matches!(urgency, Urgency::Normal | Urgency::Background)
}
