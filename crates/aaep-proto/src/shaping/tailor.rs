//! Fits the texts of an event to a subscription: language, verbosity, cognitive load (5.3.1, chapter 11, decision 15).

use serde_json::Value;

use crate::language::{LanguageTag, choose};
use crate::limits;
use crate::message::{CognitiveLoad, CoreType, Event, Payload, Urgency, Verbosity};
use crate::record::FieldType;

/// The part of the terms that decides the texts of a subscription.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TextPreferences {
    verbosity: Verbosity,
    languages: Vec<String>,
    load: CognitiveLoad,
}

impl TextPreferences {
    /// Extracts them from the terms of a subscription.
    pub(crate) fn of(terms: &crate::negotiate::Terms) -> TextPreferences {
        TextPreferences {
            verbosity: terms.verbosity().clone(),
            languages: terms.languages().iter().map(|t| t.as_str().to_owned()).collect(),
            load: terms.load().clone(),
        }
    }

    /// Returns whether the event is sent at all: at low cognitive load, background events are not.
    pub(crate) fn wants(&self, event: &Event) -> bool {
        self.load != CognitiveLoad::Low || *event.urgency() != Urgency::Background
    }

    /// Returns the event with the texts that fit. It is still the same event, so it keeps its id (decision 8).
    pub(crate) fn tailor(&self, event: &Event) -> Event {
        let mut event = event.clone();
        let verbosity = select_summaries(&mut event, &self.verbosity);
        event.envelope.verbosity = verbosity;
        self.translate(&mut event);
        event
    }

    /// Moves the texts of the best language into the plain fields. A language counts as offered if every text for people
    /// has a variant in it, so that no event mixes languages.
    fn translate(&self, event: &mut Event) {
        let Some(core) = event.core_type() else { return };
        if event.extra.is_empty() {
            return;
        }
        let fields = present_texts(event, core);
        let offered = offered_languages(event, &fields);
        let wishes: Vec<LanguageTag> = self.languages.iter().filter_map(|l| l.parse().ok()).collect();
        let hints = event.envelope.localization_hints.clone().unwrap_or_default();
        let mut all: Vec<LanguageTag> = hints.primary_language.clone().into_iter().collect();
        all.extend(offered);
        let fallback = hints.fallback_chain.as_deref().unwrap_or(&[]);
        let chosen = choose(&wishes, &all, fallback).cloned();
        if let Some(chosen) = chosen.filter(|c| hints.primary_language.as_ref() != Some(c)) {
            for field in &fields {
                let text = event.text_in(field, &chosen).map(str::to_owned);
                if let Some(text) = text {
                    set_text(event, field, text);
                }
            }
            let mut hints = hints;
            hints.set_language(chosen);
            event.envelope.localization_hints = Some(hints);
        }
        event.extra.retain(|name, _| variant_of(name, &fields).is_none());
    }
}

/// Keeps the normal summary and that of the wanted length, and returns the verbosity of the event.
fn select_summaries(event: &mut Event, wanted: &Verbosity) -> Option<Verbosity> {
    let keep_terse = *wanted == Verbosity::Terse;
    let keep_detailed = *wanted == Verbosity::Detailed;
    let (mut terse, mut detailed) = (false, false);
    for name in ["summary_terse", "summary_detailed"] {
        let (keep, found) =
            if name == "summary_terse" { (keep_terse, &mut terse) } else { (keep_detailed, &mut detailed) };
        match optional_text(&mut event.payload, name) {
            Some(text) if !keep => *text = None,
            Some(text) => *found = text.is_some(),
            None => {}
        }
        if !keep {
            event.extra.retain(|key, _| !key.strip_prefix(name).is_some_and(|rest| rest.starts_with('_')));
        }
    }
    match (terse, detailed) {
        (true, _) => Some(Verbosity::Terse),
        (_, true) => Some(Verbosity::Detailed),
        _ => None,
    }
}

/// Returns the fields with texts for people that the event has.
fn present_texts(event: &Event, core: CoreType) -> Vec<&'static str> {
    let value = serde_json::to_value(event).unwrap_or_default();
    let human = core.shape().fields.iter().filter(|f| matches!(f.kind, FieldType::Human { .. }));
    human.map(|f| f.name).filter(|name| value.get(name).is_some()).collect()
}

fn variant_of<'n>(name: &'n str, fields: &[&str]) -> Option<&'n str> {
    fields
        .iter()
        .find_map(|f| name.strip_prefix(f)?.strip_prefix('_'))
        .filter(|s| LanguageTag::from_field_suffix(s).is_some())
}

fn offered_languages(event: &Event, fields: &[&'static str]) -> Vec<LanguageTag> {
    let mut tags: Vec<LanguageTag> = Vec::new();
    for name in event.extra.keys() {
        if tags.len() >= limits::VARIANT_LANGUAGES {
            break;
        }
        if let Some(tag) = variant_of(name, fields).and_then(LanguageTag::from_field_suffix)
            && !tags.contains(&tag)
        {
            tags.push(tag);
        }
    }
    tags.retain(|tag| fields.iter().all(|f| event.text_in(f, tag).is_some()));
    tags
}

/// Replaces a text field by its name; the typed payload is rewritten through its own table.
fn set_text(event: &mut Event, field: &str, text: String) {
    if let Some(slot) = optional_text(&mut event.payload, field) {
        *slot = Some(text);
        return;
    }
    let Ok(mut value) = serde_json::to_value(&*event) else { return };
    value[field] = Value::String(text);
    if let Ok(changed) = serde_json::from_value::<Event>(value) {
        event.payload = changed.payload;
    }
}

/// The optional summary fields of a payload.
fn optional_text<'p>(payload: &'p mut Payload, name: &str) -> Option<&'p mut Option<String>> {
    macro_rules! summaries {
        ($($variant:ident),+) => {
            match (payload, name) {
                $(
                    (Payload::$variant(p), "summary_terse") => Some(&mut p.summary_terse),
                    (Payload::$variant(p), "summary_detailed") => Some(&mut p.summary_detailed),
                )+
                _ => None,
            }
        };
    }
    summaries!(
        SessionStarted,
        SessionCompleted,
        SessionErrored,
        SessionCancelled,
        StateChanged,
        ProgressUpdated,
        ToolInvoked,
        ToolCompleted,
        AwaitingConfirmation,
        AwaitingClarification,
        HandoffRequested
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn words(verbosity: Verbosity, languages: &[&str]) -> TextPreferences {
        TextPreferences {
            verbosity,
            languages: languages.iter().map(|l| (*l).to_owned()).collect(),
            load: CognitiveLoad::Medium,
        }
    }

    fn event() -> Event {
        serde_json::from_value(json!({
            "@context": "https://aaep-protocol.org/context/v1", "type": "aaep:agent.tool.invoked", "event_id": "evt_1",
            "session_id": "sess_1", "timestamp": "2026-05-24T14:22:14Z", "producer": {"agent_id": "a"},
            "localization_hints": {"primary_language": "en-US", "fallback_chain": ["de"]}, "tool": "t",
            "summary_terse": "Looking.", "summary_normal": "Looking it up.", "summary_detailed": "Looking it up in the book.",
            "summary_terse_de": "Suche.", "summary_normal_de": "Ich suche es.", "summary_detailed_de": "Ich suche es im Buch.",
            "summary_normal_yo": "Mò ń wá a."
        }))
        .unwrap()
    }

    fn texts(words: &TextPreferences) -> Value {
        let value = serde_json::to_value(words.tailor(&event())).unwrap();
        let keep = |k: &str| k.starts_with("summary") || k == "verbosity";
        let mut kept: serde_json::Map<String, Value> =
            value.as_object().unwrap().iter().filter(|(k, _)| keep(k)).map(|(k, v)| (k.clone(), v.clone())).collect();
        kept.insert("language".into(), value["localization_hints"]["primary_language"].clone());
        Value::Object(kept)
    }

    #[test]
    fn the_summary_of_the_wanted_length_stands_beside_the_normal_one() {
        assert_eq!(
            texts(&words(Verbosity::Normal, &["en"])),
            json!({"summary_normal": "Looking it up.", "language": "en-US"})
        );
        assert_eq!(
            texts(&words(Verbosity::Terse, &["en"])),
            json!({"summary_terse": "Looking.", "summary_normal": "Looking it up.", "verbosity": "terse", "language": "en-US"})
        );
        assert_eq!(
            texts(&words(Verbosity::Detailed, &["en"])),
            json!({"summary_normal": "Looking it up.", "summary_detailed": "Looking it up in the book.",
                "verbosity": "detailed", "language": "en-US"})
        );
    }

    #[test]
    fn the_first_language_that_is_offered_is_spoken() {
        assert_eq!(
            texts(&words(Verbosity::Normal, &["yo-NG", "de"])),
            json!({"summary_normal": "Mò ń wá a.", "language": "yo"})
        );
        // Without a terse text in Yoruba, Yoruba is not offered tersely; German is.
        assert_eq!(
            texts(&words(Verbosity::Terse, &["yo", "de-AT"])),
            json!({"summary_terse": "Suche.", "summary_normal": "Ich suche es.", "verbosity": "terse", "language": "de"})
        );
        // Nothing requested is offered: the fallback chain, then the primary language.
        assert_eq!(
            texts(&words(Verbosity::Normal, &["fr"])),
            json!({"summary_normal": "Ich suche es.", "language": "de"})
        );
    }

    /// Returns the hints of an event that is tailored for a subscriber of this language, with variants in Arabic and English.
    fn hints(given: Value, language: &str) -> Value {
        let mut value = serde_json::to_value(event()).unwrap();
        value["localization_hints"] = given;
        value["summary_normal_ar"] = "أبحث عنه.".into();
        value["summary_normal_en"] = "Looking it up.".into();
        let event = serde_json::from_value(value).unwrap();
        let tailored = words(Verbosity::Normal, &[language]).tailor(&event);
        serde_json::to_value(tailored).unwrap()["localization_hints"].clone()
    }

    #[test]
    fn the_direction_is_that_of_the_chosen_variant() {
        let arabic = json!({"primary_language": "ar", "text_direction": "rtl"});
        assert_eq!(hints(json!({"primary_language": "fr"}), "ar-EG"), arabic);
        let stated = json!({"primary_language": "he", "text_direction": "rtl", "script": "Hebr"});
        assert_eq!(hints(stated.clone(), "en"), json!({"primary_language": "en"}), "not the direction of the original");
        assert_eq!(hints(stated.clone(), "he"), stated);
    }

    #[test]
    fn another_region_is_spoken_before_the_next_language() {
        assert_eq!(texts(&words(Verbosity::Normal, &["en-GB", "de"]))["language"], "en-US");
        assert_eq!(texts(&words(Verbosity::Normal, &["de-CH", "en-US"]))["language"], "de");
    }

    #[test]
    fn an_event_with_very_many_languages_is_served_without_searching_them_all() {
        let mut value = serde_json::to_value(event()).unwrap();
        for number in 0..20_000 {
            value[format!("summary_normal_qaa_x_{number}")] = "?".into();
        }
        let event = serde_json::from_value(value).unwrap();
        let tailored = words(Verbosity::Normal, &["de"]).tailor(&event);
        assert_eq!(offered_languages(&event, &["summary_normal"]).len(), limits::VARIANT_LANGUAGES);
        assert!(tailored.extra.is_empty(), "what was not chosen is not sent");
    }

    #[test]
    fn the_id_stays_and_nothing_else_changes() {
        let tailored = words(Verbosity::Terse, &["de"]).tailor(&event());
        assert_eq!(tailored.envelope.event_id, event().envelope.event_id);
        assert!(matches!(tailored.payload, Payload::ToolInvoked(ref t) if t.tool == "t"));
    }
}
