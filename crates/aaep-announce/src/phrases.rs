//! The fixed phrases, in all languages of `locales/`.

use std::sync::OnceLock;

use aaep_proto::language::{LanguageTag, choose};
use fluent_bundle::concurrent::FluentBundle;
use fluent_bundle::{FluentArgs, FluentResource, FluentValue};

/// The languages and their files. English comes first and replaces phrases that another language lacks.
const FILES: [(&str, &str); 6] = [
    ("en", include_str!("../locales/en.ftl")),
    ("es", include_str!("../locales/es.ftl")),
    ("fr", include_str!("../locales/fr.ftl")),
    ("de", include_str!("../locales/de.ftl")),
    ("ar", include_str!("../locales/ar.ftl")),
    ("yo", include_str!("../locales/yo.ftl")),
];

/// The phrases of one language.
///
/// ```
/// use aaep_announce::Phrases;
/// let languages = ["ha".parse()?, "de-AT".parse()?];
/// let phrases = Phrases::for_languages(&languages);
/// assert_eq!(phrases.language(), "de");
/// assert_eq!(phrases.text("done"), "Fertig.");
/// # Ok::<(), aaep_proto::language::ParseLanguageTagError>(())
/// ```
pub struct Phrases {
    language: &'static str,
    bundle: FluentBundle<FluentResource>,
}

/// A value in a phrase.
///
/// ```
/// use aaep_announce::{Arg, Phrases};
/// let english = Phrases::for_languages(&[]);
/// assert_eq!(english.format("ui-no-question", &[("number", Arg::from(7u64))]), "There is no question 7.");
/// ```
#[derive(Clone, Copy, Debug)]
pub enum Arg<'a> {
    /// A text.
    Text(&'a str),
    /// A number. Some languages have plural forms by it.
    Number(u64),
}

impl<'a> From<&'a str> for Arg<'a> {
    fn from(text: &'a str) -> Arg<'a> {
        Arg::Text(text)
    }
}

impl<'a> From<&'a String> for Arg<'a> {
    fn from(text: &'a String) -> Arg<'a> {
        Arg::Text(text)
    }
}

impl From<u64> for Arg<'_> {
    fn from(number: u64) -> Self {
        Arg::Number(number)
    }
}

impl From<u32> for Arg<'_> {
    fn from(number: u32) -> Self {
        Arg::Number(number.into())
    }
}

impl From<usize> for Arg<'_> {
    fn from(number: usize) -> Self {
        Arg::Number(number as u64)
    }
}

/// Formats a phrase with its values: `phrase!(phrases, "asks", agent = name, action = text)`.
macro_rules! phrase {
    ($phrases:expr, $id:expr $(, $name:ident = $value:expr)* $(,)?) => {
        $phrases.format($id, &[$( (stringify!($name), $crate::phrases::Arg::from($value)) ),*])
    };
}
pub(crate) use phrase;

impl Phrases {
    /// Returns the phrases in the first of these languages that there is, or in English.
    pub fn for_languages(languages: &[LanguageTag]) -> &'static Phrases {
        let offered: Vec<LanguageTag> = FILES.iter().filter_map(|(tag, _)| tag.parse().ok()).collect();
        let tag = choose(languages, &offered, &[]).map_or("en", LanguageTag::as_str);
        Phrases::in_language(tag).unwrap_or_else(Phrases::english)
    }

    /// Returns the phrases in this language, if there are any.
    pub(crate) fn for_tag(tag: &str) -> Option<&'static Phrases> {
        let primary = tag.split('-').next().unwrap_or(tag);
        Phrases::in_language(&primary.to_ascii_lowercase())
    }

    fn in_language(language: &str) -> Option<&'static Phrases> {
        static LOADED: [OnceLock<Phrases>; FILES.len()] = [const { OnceLock::new() }; FILES.len()];
        let index = FILES.iter().position(|(tag, _)| *tag == language)?;
        let (tag, text) = FILES[index];
        Some(LOADED[index].get_or_init(|| Phrases::read(tag, text)))
    }

    fn english() -> &'static Phrases {
        Phrases::in_language("en").expect("English is the first file")
    }

    fn read(language: &'static str, text: &str) -> Phrases {
        let tag = language.parse().expect("the tags of FILES are language tags");
        let mut bundle = FluentBundle::new_concurrent(vec![tag]);
        // A voice may spell isolation marks out.
        bundle.set_use_isolating(false);
        // Messages that cannot be parsed are replaced by English; a test proves that all can be.
        let resource = FluentResource::try_new(text.to_owned()).unwrap_or_else(|(partial, _)| partial);
        bundle.add_resource_overriding(resource);
        Phrases { language, bundle }
    }

    /// Returns the language of these phrases.
    pub fn language(&self) -> &'static str {
        self.language
    }

    /// Returns the phrase with this id, which has no values.
    pub fn text(&self, id: &str) -> String {
        self.format(id, &[])
    }

    /// Returns the phrase with this id, with these values in it. Returns an empty text if there is no such phrase.
    pub fn format(&self, id: &str, values: &[(&str, Arg<'_>)]) -> String {
        let mut args = FluentArgs::with_capacity(values.len());
        for (name, value) in values {
            match value {
                Arg::Text(text) => args.set(*name, *text),
                Arg::Number(number) => args.set(*name, FluentValue::from(*number)),
            }
        }
        let own = self.try_format(id, &args);
        own.or_else(|| Phrases::english().try_format(id, &args)).unwrap_or_default()
    }

    fn try_format(&self, id: &str, args: &FluentArgs<'_>) -> Option<String> {
        let pattern = self.bundle.get_message(id)?.value()?;
        let mut errors = Vec::new();
        let text = self.bundle.format_pattern(pattern, Some(args), &mut errors).into_owned();
        errors.is_empty().then_some(text)
    }

    /// Returns a length of time in the largest units that matter, rounded down: a listener needs no seconds after minutes.
    pub fn duration(&self, seconds: u64) -> String {
        match seconds {
            60 => phrase!(self, "minutes", count = 1u64),
            0..120 => phrase!(self, "seconds", count = seconds),
            120..3600 => phrase!(self, "minutes", count = seconds / 60),
            _ => {
                let minutes = seconds / 60;
                let hours = phrase!(self, "hours", count = minutes / 60);
                match minutes % 60 {
                    0 => hours,
                    rest => format!("{hours} {}", phrase!(self, "minutes", count = rest)),
                }
            }
        }
    }
}

impl std::fmt::Debug for Phrases {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Phrases({})", self.language)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    /// The messages of a file with the variables they use.
    fn messages(text: &str) -> BTreeMap<String, BTreeSet<String>> {
        let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let mut current = String::new();
        for line in text.lines().filter(|l| !l.starts_with('#')) {
            if let Some((id, _)) = line.split_once('=').filter(|_| line.starts_with(|c: char| c.is_ascii_lowercase())) {
                current = id.trim().to_owned();
                assert!(found.insert(current.clone(), BTreeSet::new()).is_none(), "{current} stands twice");
            }
            for rest in line.split('$').skip(1) {
                let name = rest.chars().take_while(|c| c.is_ascii_alphanumeric()).collect();
                found.get_mut(&current).unwrap().insert(name);
            }
        }
        found
    }

    #[test]
    fn every_file_has_every_message_with_the_same_variables() {
        let english = messages(FILES[0].1);
        assert!(english.len() > 100, "{}", english.len());
        for (tag, text) in FILES {
            assert!(FluentResource::try_new(text.to_owned()).is_ok(), "{tag} cannot be read");
            let own = messages(text);
            let missing: Vec<_> = english.keys().filter(|id| !own.contains_key(*id)).collect();
            let unknown: Vec<_> = own.keys().filter(|id| !english.contains_key(*id)).collect();
            assert!(missing.is_empty() && unknown.is_empty(), "{tag} lacks {missing:?} and has {unknown:?}");
            for (id, variables) in &own {
                assert_eq!(variables, &english[id], "{tag} {id}");
            }
            assert!(tag == "en" || text.starts_with("# ") && text.contains("Waits for review by a native speaker."));
        }
    }

    #[test]
    fn every_message_can_be_formatted_in_every_language() {
        for (tag, text) in FILES {
            let phrases = Phrases::in_language(tag).unwrap();
            for (id, variables) in messages(text) {
                for number in [0u64, 1, 2, 3, 11, 100] {
                    let numeric = ["count", "failed", "lines", "rows", "added"];
                    let values: Vec<(&str, Arg<'_>)> = variables
                        .iter()
                        .map(|v| {
                            (v.as_str(), if numeric.contains(&v.as_str()) { number.into() } else { Arg::Text("X") })
                        })
                        .collect();
                    let mut args = FluentArgs::new();
                    for (name, value) in &values {
                        match value {
                            Arg::Text(text) => args.set(*name, *text),
                            Arg::Number(n) => args.set(*name, *n),
                        }
                    }
                    let said = phrases.try_format(&id, &args).unwrap_or_else(|| panic!("{tag} {id} cannot be said"));
                    assert!(
                        !said.is_empty() && !said.contains(['{', '}', '$', '\u{2068}', '\u{2069}']),
                        "{tag}: {said}"
                    );
                    let word = ["symbol-", "glyph-", "word-"].iter().any(|start| id.starts_with(start));
                    assert!(!word || !said.ends_with('.'), "{tag}: {said}");
                }
            }
        }
    }

    #[test]
    fn first_available_language_of_the_user_is_used() {
        let say = |languages: &[&str]| {
            let tags: Vec<LanguageTag> = languages.iter().map(|w| w.parse().unwrap()).collect();
            Phrases::for_languages(&tags).language()
        };
        assert_eq!(say(&["fr-CA", "en"]), "fr");
        assert_eq!(say(&["ha", "yo-NG", "en"]), "yo");
        assert_eq!(say(&["zh-Hant"]), "en");
        assert_eq!(say(&[]), "en");
    }

    #[test]
    fn numbers_take_their_plural_forms() {
        let english = Phrases::english();
        assert_eq!(phrase!(english, "tool-calls-failed", count = 14u64, failed = 1u64), "14 tool calls, one failed.");
        assert_eq!(phrase!(english, "tool-calls-failed", count = 14u64, failed = 3u64), "14 tool calls, 3 failed.");
        let arabic = Phrases::in_language("ar").unwrap();
        assert_eq!(phrase!(arabic, "minutes", count = 2u64), "دقيقتان");
        assert_eq!(phrase!(arabic, "minutes", count = 5u64), "5 دقائق");
        assert_eq!(phrase!(arabic, "minutes", count = 50u64), "50 دقيقة");
    }

    #[test]
    fn durations_have_few_units() {
        let english = Phrases::english();
        for (seconds, said) in [
            (1, "1 second"),
            (45, "45 seconds"),
            (60, "1 minute"),
            (90, "90 seconds"),
            (179, "2 minutes"),
            (120, "2 minutes"),
            (3600, "1 hour"),
            (3900, "1 hour 5 minutes"),
            (86_400, "24 hours"),
        ] {
            assert_eq!(english.duration(seconds), said);
        }
    }
}
