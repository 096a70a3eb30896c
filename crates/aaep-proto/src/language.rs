//! Language tags (BCP 47), the match of requested and offered languages, and the direction of text (chapter 11).

use std::fmt;
use std::str::FromStr;

use icu_locale::subtags::{Language, Region, Script, language};
use icu_locale::{Locale, LocaleCanonicalizer, LocaleDirectionality, LocaleExpander};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A language tag such as `en-US`, `yo-NG` or `zh-Hant`.
///
/// Tags compare without regard to case; how one was written is kept.
///
/// ```
/// use aaep_proto::language::LanguageTag;
/// let tag: LanguageTag = "en-us".parse()?;
/// assert_eq!(tag, "en-US".parse()?);
/// assert!("en_US".parse::<LanguageTag>().is_err());
/// # Ok::<(), aaep_proto::language::ParseLanguageTagError>(())
/// ```
#[derive(Clone)]
pub struct LanguageTag(Box<str>);

/// Text that is not a language tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseLanguageTagError;

impl fmt::Display for ParseLanguageTagError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("must be a language tag such as en-US or yo")
    }
}

impl std::error::Error for ParseLanguageTagError {}

/// The syntax of a tag as a regular expression, for the published schemas.
pub(crate) const TAG_PATTERN: &str = "^[a-zA-Z]{1,8}(-[a-zA-Z0-9]{1,8})*$";

/// Whether the text has the syntax of a tag.
pub(crate) fn is_tag(text: &str) -> bool {
    let mut subtags = text.split('-');
    let letters = |s: &str| (1..=8).contains(&s.len()) && s.bytes().all(|b| b.is_ascii_alphabetic());
    subtags.next().is_some_and(letters)
        && subtags.all(|s| (1..=8).contains(&s.len()) && s.bytes().all(|b| b.is_ascii_alphanumeric()))
}

impl LanguageTag {
    /// Returns the tag as it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the language alone: `zh` of `zh-Hant-TW`.
    pub fn primary(&self) -> &str {
        self.0.split('-').next().unwrap_or(&self.0)
    }

    /// Returns the tag as the suffix of a field name: `es_419` of `es-419`.
    pub fn field_suffix(&self) -> String {
        self.0.replace('-', "_")
    }

    /// Returns the tag of a field-name suffix, if it is one: `es_419` gives `es-419`.
    ///
    /// A suffix starts with a language of two or three letters in lower case.
    pub fn from_field_suffix(suffix: &str) -> Option<LanguageTag> {
        is_field_suffix(suffix).then(|| LanguageTag(suffix.replace('_', "-").into()))
    }

    /// Returns the offered tag that matches this requested one best, if any has the same language. In this order:
    ///
    /// 1. the same tag;
    /// 2. another spelling of it (`zh-TW` for `zh-Hant-TW`, `he` for `iw`);
    /// 3. the requested tag without its last subtags (`en` for `en-US`; `zh-Hant`, then `zh`, for `zh-Hant-TW`);
    /// 4. the same language in the same script, in another region (`en-US` for `en-GB`, any region for `en`);
    /// 5. the same language in another script.
    ///
    /// Among equals the first one offered wins.
    pub fn find<'o>(&self, offered: &'o [LanguageTag]) -> Option<&'o LanguageTag> {
        choose(std::slice::from_ref(self), offered, &[])
    }

    /// Returns how well an offered tag matches this one, smaller is better, or `None` if it is another language.
    fn rank(&self, wish: &Subtags, (offer, offered): (&LanguageTag, &Subtags)) -> Option<(u8, usize)> {
        if self == offer {
            return Some((0, 0));
        }
        if wish.language != offered.language {
            return None;
        }
        if wish == offered && !wish.has_more {
            return Some((1, 0));
        }
        let dropped = self.0.len().checked_sub(offer.0.len()).filter(|_| starts_with(&self.0, &offer.0));
        Some(match dropped {
            Some(dropped) => (2, dropped),
            None if wish.script == offered.script => (3, 0),
            None => (4, 0),
        })
    }

    /// Whether text in this language is written from right to left, by its script or the one it is usually written in.
    ///
    /// ```
    /// use aaep_proto::language::LanguageTag;
    /// assert!("ar-EG".parse::<LanguageTag>()?.is_right_to_left());
    /// assert!("az-Arab".parse::<LanguageTag>()?.is_right_to_left());
    /// assert!(!"az".parse::<LanguageTag>()?.is_right_to_left());
    /// # Ok::<(), aaep_proto::language::ParseLanguageTagError>(())
    /// ```
    pub fn is_right_to_left(&self) -> bool {
        self.locale().is_some_and(|locale| LocaleDirectionality::new_extended().is_right_to_left(&locale.id))
    }

    /// The tag as the locale data knows it; nothing if it is not well formed.
    fn locale(&self) -> Option<Locale> {
        let mut locale = Locale::try_from_str(&self.0).ok()?;
        LocaleCanonicalizer::new_extended().canonicalize(&mut locale);
        // Both names of Norwegian Bokmål are in use, and the locale data keeps both.
        if locale.id.language == language!("nb") {
            locale.id.language = language!("no");
        }
        Some(locale)
    }
}

/// A tag in its canonical form, with the script and the region that it most likely stands for.
#[derive(PartialEq)]
struct Subtags {
    language: Result<Language, String>,
    script: Option<Script>,
    region: Option<Region>,
    /// Whether the tag has variants, extensions or private subtags, which say more than these three.
    has_more: bool,
}

impl Subtags {
    fn of(tag: &LanguageTag) -> Subtags {
        let Some(locale) = tag.locale() else {
            let language = Err(tag.primary().to_ascii_lowercase());
            return Subtags { language, script: None, region: None, has_more: true };
        };
        let has_more = !locale.id.variants.is_empty() || !locale.extensions.is_empty();
        let mut id = locale.id;
        LocaleExpander::new_extended().maximize(&mut id);
        Subtags { language: Ok(id.language), script: id.script, region: id.region, has_more }
    }
}

/// Whether a tag begins with these whole subtags.
fn starts_with(tag: &str, subtags: &str) -> bool {
    tag.get(..subtags.len()).is_some_and(|start| start.eq_ignore_ascii_case(subtags))
        && tag.as_bytes().get(subtags.len()).is_none_or(|next| *next == b'-')
}

/// The syntax of a language suffix of a field name, for the published schemas.
pub(crate) const SUFFIX_PATTERN: &str = "[a-z]{2,3}(_[A-Za-z0-9]{1,8})*";

/// Whether the text is a language as it stands at the end of a field name.
pub(crate) fn is_field_suffix(suffix: &str) -> bool {
    let mut subtags = suffix.split('_');
    subtags.next().is_some_and(|s| (2..=3).contains(&s.len()) && s.bytes().all(|b| b.is_ascii_lowercase()))
        && subtags.all(|s| (1..=8).contains(&s.len()) && s.bytes().all(|b| b.is_ascii_alphanumeric()))
}

/// Chooses the language of an event: the first requested one that is offered, else the first language of
/// the producer's fallback chain that is offered, else nothing, which means the primary language.
///
/// ```
/// use aaep_proto::language::{LanguageTag, choose};
/// let tag = |t: &str| t.parse::<LanguageTag>().expect("a tag");
/// let offered = [tag("en"), tag("yo")];
/// assert_eq!(choose(&[tag("ha-NG"), tag("yo-NG")], &offered, &[]), Some(&offered[1]));
/// assert_eq!(choose(&[tag("fr")], &offered, &[]), None);
/// ```
pub fn choose<'o>(
    wishes: &[LanguageTag],
    offered: &'o [LanguageTag],
    fallback: &[LanguageTag],
) -> Option<&'o LanguageTag> {
    let offered: Vec<(&LanguageTag, Subtags)> = offered.iter().map(|offer| (offer, Subtags::of(offer))).collect();
    wishes.iter().chain(fallback).find_map(|wish| {
        let subtags = Subtags::of(wish);
        let ranked = offered.iter().filter_map(|(tag, offer)| Some((wish.rank(&subtags, (tag, offer))?, *tag)));
        ranked.min_by_key(|(rank, _)| *rank).map(|(_, tag)| tag)
    })
}

impl FromStr for LanguageTag {
    type Err = ParseLanguageTagError;

    fn from_str(text: &str) -> Result<Self, ParseLanguageTagError> {
        if is_tag(text) { Ok(LanguageTag(text.into())) } else { Err(ParseLanguageTagError) }
    }
}

impl PartialEq for LanguageTag {
    fn eq(&self, other: &Self) -> bool {
        self.0.eq_ignore_ascii_case(&other.0)
    }
}

impl Eq for LanguageTag {}

impl fmt::Display for LanguageTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for LanguageTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for LanguageTag {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for LanguageTag {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tags(list: &str) -> Vec<LanguageTag> {
        list.split_whitespace().map(|t| t.parse().unwrap()).collect()
    }

    fn check(wishes: &str, offered: &str, fallback: &str, expected: Option<&str>) {
        let offered = tags(offered);
        let chosen = choose(&tags(wishes), &offered, &tags(fallback)).map(LanguageTag::as_str);
        assert_eq!(chosen, expected, "{wishes} of {offered:?}, else {fallback}");
    }

    #[test]
    fn a_wish_meets_an_offer() {
        check("en-US", "en-US en", "", Some("en-US"));
        check("EN-us", "en-US", "", Some("en-US"));
        check("en-US", "en", "", Some("en"));
        check("zh-Hant-TW", "zh zh-Hant", "", Some("zh-Hant"));
        check("zh-Hant", "zh", "", Some("zh"));
        check("en", "fr en-GB", "", Some("en-GB"));
        check("en-GB", "en-US", "", Some("en-US"));
        check("ha-NG yo-NG", "yo en", "", Some("yo"));
        check("ha", "en fr", "fr", Some("fr"));
        check("ha", "en fr", "de", None);
        check("", "en", "", None);
    }

    #[test]
    fn another_region_of_the_language_comes_before_the_next_language() {
        check("en-GB de", "de en-US", "", Some("en-US"));
        check("en-GB de", "en-US en-AU en", "", Some("en"));
        check("pt-PT es", "es pt-BR", "", Some("pt-BR"));
        check("fr en-GB", "en-US de", "de", Some("en-US"));
    }

    #[test]
    fn the_likely_script_decides_between_regions() {
        check("zh-TW", "zh-CN zh-HK", "", Some("zh-HK"));
        check("zh-Hant-TW", "zh zh-TW", "", Some("zh-TW"));
        check("sr-Latn", "sr-Cyrl sr-Latn-RS", "", Some("sr-Latn-RS"));
        check("zh-Hant en", "zh-Hans en", "", Some("zh-Hans"));
    }

    #[test]
    fn old_names_of_languages_are_known() {
        check("he", "en iw", "", Some("iw"));
        check("nb", "en no", "", Some("no"));
        check("id-ID", "in", "", Some("in"));
    }

    #[test]
    fn tags_that_no_register_knows_still_match_themselves() {
        check("qqqqqqqq", "en qqqqqqqq", "", Some("qqqqqqqq"));
        check("i-klingon", "en i-klingon", "", Some("i-klingon"));
        check("a", "b en", "", None);
        check("de-1996-x-mine", "en de", "", Some("de"));
    }

    #[test]
    fn the_direction_is_that_of_the_script() {
        let rtl = |text: &str| text.parse::<LanguageTag>().unwrap().is_right_to_left();
        for tag in ["ar", "ar-EG", "he", "iw", "fa", "ur", "yi", "dv", "ps", "ckb", "ug", "sd", "ks", "AR"] {
            assert!(rtl(tag), "{tag}");
        }
        for tag in ["az-Arab", "pa-Arab", "ms-Arab", "en-Hebr", "syr", "nqo", "ff-Adlm", "uz-AF"] {
            assert!(rtl(tag), "{tag}");
        }
        for tag in ["en", "de-AT", "az", "pa", "ks-Deva", "sd-Deva", "ar-Latn", "yo", "zh", "x", "qqqqqqqq", "ku"] {
            assert!(!rtl(tag), "{tag}");
        }
    }

    fn any_tag() -> impl Strategy<Value = LanguageTag> {
        let language = prop::sample::select(vec!["en", "de", "zh", "sr", "he", "iw", "no", "nb", "az", "qx", "EN"]);
        let script = prop::sample::select(vec!["", "-Latn", "-Hant", "-Arab"]);
        let region = prop::sample::select(vec!["", "-US", "-GB", "-TW", "-419", "-x-mine"]);
        (language, script, region).prop_map(|(l, s, r)| format!("{l}{s}{r}").parse().unwrap())
    }

    fn any_tags() -> impl Strategy<Value = Vec<LanguageTag>> {
        prop::collection::vec(any_tag(), 0..6)
    }

    fn language_of(tag: &LanguageTag) -> Result<Language, String> {
        Subtags::of(tag).language
    }

    proptest! {
        #[test]
        fn the_first_wish_whose_language_is_offered_decides(wishes in any_tags(), offered in any_tags()) {
            let served = wishes.iter().find(|w| offered.iter().any(|o| language_of(o) == language_of(w)));
            let chosen = choose(&wishes, &offered, &[]);
            prop_assert_eq!(chosen.map(language_of), served.map(language_of));
            if let Some(wish) = served.filter(|wish| offered.contains(wish)) {
                prop_assert_eq!(chosen, Some(wish));
            }
        }

        #[test]
        fn the_fallback_chain_counts_only_when_no_wish_is_served(
            wishes in any_tags(), offered in any_tags(), fallback in any_tags(),
        ) {
            let without = choose(&wishes, &offered, &[]);
            let expected = without.or_else(|| choose(&fallback, &offered, &[]));
            prop_assert_eq!(choose(&wishes, &offered, &fallback), expected);
        }

        #[test]
        fn any_text_that_is_a_tag_can_be_matched(one in "[a-zA-Z]{1,8}(-[a-zA-Z0-9]{1,8}){0,5}", two in any_tag()) {
            let tag: LanguageTag = one.parse().unwrap();
            let _ = tag.is_right_to_left();
            let offered = [two, tag.clone()];
            prop_assert_eq!(tag.find(&offered), Some(&tag));
        }
    }

    #[test]
    fn suffixes_of_field_names() {
        let tag = |s| LanguageTag::from_field_suffix(s).map(|t| t.to_string());
        assert_eq!(tag("yo").as_deref(), Some("yo"));
        assert_eq!(tag("es_419").as_deref(), Some("es-419"));
        assert_eq!(tag("zh_Hant_TW").as_deref(), Some("zh-Hant-TW"));
        for bad in ["", "x", "long", "YO", "yo_", "yo__ng", "yo-NG"] {
            assert_eq!(tag(bad), None, "{bad}");
        }
    }
}
