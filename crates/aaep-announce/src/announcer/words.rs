//! Selects the text of an event to announce: first by the user's languages, then by verbosity.

use aaep_proto::language::LanguageTag;
use aaep_proto::message::{CognitiveLoad, Event, Payload, Verbosity};

use crate::profile::Profile;

/// The most characters of a headline. It cannot be interrupted, so it must be short.
const MAX_HEADLINE_CHARS: usize = 160;

/// A text of an event and its language.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LocalizedText {
    pub(super) text: String,
    pub(super) language: String,
}

impl LocalizedText {
    pub(super) fn new(text: impl Into<String>, language: impl Into<String>) -> LocalizedText {
        LocalizedText { text: text.into(), language: language.into() }
    }
}

/// Returns the summary that suits the user, if the event has any.
pub(super) fn summary(event: &Event, profile: &Profile) -> Option<LocalizedText> {
    let [terse, normal, detailed] = summaries(event);
    let (terse, normal, detailed) =
        (("summary_terse", terse), ("summary_normal", normal), ("summary_detailed", detailed));
    let order = match (&profile.cognitive_load, &profile.verbosity) {
        (CognitiveLoad::Low, _) | (_, Verbosity::Terse) => [terse, normal, detailed],
        (_, Verbosity::Detailed) => [detailed, normal, terse],
        _ => [normal, terse, detailed],
    };
    pick(event, &order, profile)
}

/// Returns a field in the language that suits the user.
pub(super) fn field(event: &Event, name: &str, value: &str, profile: &Profile) -> Option<LocalizedText> {
    pick(event, &[(name, Some(value))], profile)
}

fn summaries(event: &Event) -> [Option<&str>; 3] {
    macro_rules! three {
        ($p:expr) => {
            [$p.summary_terse.as_deref(), $p.summary_normal.as_deref(), $p.summary_detailed.as_deref()]
        };
        ($p:expr, always) => {
            [$p.summary_terse.as_deref(), Some($p.summary_normal.as_str()), $p.summary_detailed.as_deref()]
        };
    }
    match &event.payload {
        Payload::SessionStarted(p) => three!(p, always),
        Payload::SessionCompleted(p) => three!(p, always),
        Payload::SessionErrored(p) => three!(p, always),
        Payload::SessionCancelled(p) => three!(p, always),
        Payload::ToolInvoked(p) => three!(p, always),
        Payload::ToolCompleted(p) => three!(p),
        Payload::StateChanged(p) => three!(p),
        Payload::ProgressUpdated(p) => three!(p),
        Payload::AwaitingConfirmation(p) => three!(p),
        Payload::AwaitingClarification(p) => three!(p),
        Payload::HandoffRequested(p) => three!(p),
        Payload::OutputStreaming(_) => [None; 3],
        // An extension, or a type that is newer than this crate.
        _ => ["summary_terse", "summary_normal", "summary_detailed"]
            .map(|name| event.extra.get(name).and_then(|value| value.as_str())),
    }
}

/// Returns the language of the texts of an event, or the user's first one if the event names none.
pub(super) fn primary(event: &Event, profile: &Profile) -> LanguageTag {
    let named = event.envelope.localization_hints.as_ref().and_then(|h| h.primary_language.clone());
    named.or_else(|| profile.languages.first().cloned()).unwrap_or_else(|| "en".parse().expect("en is a language tag"))
}

/// Returns the field in the language that the user prefers. Of several in one language the first counts.
fn pick(event: &Event, fields: &[(&str, Option<&str>)], profile: &Profile) -> Option<LocalizedText> {
    let primary = primary(event, profile);
    let fallback = event.envelope.localization_hints.as_ref().and_then(|h| h.fallback_chain.as_deref()).unwrap_or(&[]);
    let mut best: Option<(usize, LocalizedText)> = None;
    for (name, value) in fields {
        let Some(value) = value.filter(|v| !v.trim().is_empty()) else { continue };
        let mut offered = vec![primary.clone()];
        offered.extend(variants(event, name));
        let preferred = profile.languages.iter().chain(fallback);
        let found = preferred.enumerate().find_map(|(rank, tag)| Some((rank, tag.find(&offered)?.clone())));
        let (rank, language) = found.unwrap_or((usize::MAX, primary.clone()));
        if best.as_ref().is_some_and(|(known, _)| *known <= rank) {
            continue;
        }
        let text = if language == primary { Some(value) } else { event.text_in(name, &language) };
        best = Some((rank, LocalizedText::new(text.unwrap_or(value), language.as_str())));
    }
    best.map(|(_, text)| text)
}

/// Returns the languages that a field has variants in.
fn variants<'e>(event: &'e Event, name: &'e str) -> impl Iterator<Item = LanguageTag> + 'e {
    event
        .extra
        .iter()
        .filter(|(_, value)| value.as_str().is_some_and(|v| !v.trim().is_empty()))
        .filter_map(move |(key, _)| LanguageTag::from_field_suffix(key.strip_prefix(name)?.strip_prefix('_')?))
}

/// Returns the start of a text that is short enough for a headline, and whether that is all of it.
pub(super) fn headline(text: &str) -> (String, bool) {
    let Some((end, _)) = text.char_indices().nth(MAX_HEADLINE_CHARS) else { return (text.to_owned(), true) };
    let start = &text[..end];
    let sentence = start.rmatch_indices(['.', '!', '?', '。', '؟', '।']).map(|(i, mark)| i + mark.len()).find(|i| {
        // Not inside a number or a name, and long enough to make sense.
        *i > 20 && text[*i..].starts_with(char::is_whitespace)
    });
    match sentence {
        Some(cut) => (start[..cut].to_owned(), false),
        None => {
            let cut = start.rfind(char::is_whitespace).unwrap_or(end);
            (format!("{}…", start[..cut].trim_end_matches([',', ';', ':', ' '])), false)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::SubscriberKind;
    use serde_json::{Value, json};

    fn event(fields: Value) -> Event {
        let mut value = json!({"@context": "https://aaep-protocol.org/context/v1", "type": "aaep:agent.session.started",
            "event_id": "evt_1", "session_id": "sess_1", "timestamp": "2026-05-24T14:22:11Z",
            "producer": {"agent_id": "a"}, "localization_hints": {"primary_language": "en"}});
        value.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        serde_json::from_value(value).unwrap()
    }

    fn profile(languages: &[&str], verbosity: Verbosity) -> Profile {
        let languages = languages.iter().map(|l| l.parse().unwrap()).collect();
        Profile { languages, verbosity, ..Profile::preset(SubscriberKind::ScreenReader) }
    }

    #[test]
    fn language_takes_precedence_over_verbosity() {
        let event = event(json!({"summary_terse": "T", "summary_normal": "N", "summary_detailed": "D",
            "summary_normal_de": "N de", "summary_terse_es_419": "T es"}));
        for (languages, verbosity, text, language) in [
            (&["en"][..], Verbosity::Normal, "N", "en"),
            (&["en-GB"], Verbosity::Terse, "T", "en"),
            (&["en"], Verbosity::Detailed, "D", "en"),
            (&["de"], Verbosity::Terse, "N de", "de"),
            (&["es"], Verbosity::Normal, "T es", "es-419"),
            (&["fr", "de"], Verbosity::Normal, "N de", "de"),
            (&["fr"], Verbosity::Normal, "N", "en"),
        ] {
            let found = summary(&event, &profile(languages, verbosity)).unwrap();
            assert_eq!((found.text.as_str(), found.language.as_str()), (text, language), "{languages:?}");
        }
    }

    #[test]
    fn extension_event_is_announced_by_its_summary() {
        let event = event(json!({"type": "x:y", "summary_normal": "Buzz.", "summary_normal_fr": "Bzz."}));
        assert_eq!(summary(&event, &profile(&["fr"], Verbosity::Normal)), Some(LocalizedText::new("Bzz.", "fr")));
        assert_eq!(summary(&event, &profile(&["yo"], Verbosity::Terse)), Some(LocalizedText::new("Buzz.", "en")));
    }

    #[test]
    fn headlines_are_short_and_end_at_a_sentence_if_possible() {
        assert_eq!(headline("Short."), ("Short.".to_owned(), true));
        let long = format!("Pay 3.50 to Ada, please. {}", "And more words follow here ".repeat(10));
        assert_eq!(headline(&long), ("Pay 3.50 to Ada, please.".to_owned(), false));
        let (cut, whole) = headline(&"word ".repeat(100));
        assert!(cut.chars().count() <= MAX_HEADLINE_CHARS + 1 && cut.ends_with("word…") && !whole);
        assert!(headline(&"漢".repeat(500)).0.chars().count() <= MAX_HEADLINE_CHARS + 1);
    }
}
