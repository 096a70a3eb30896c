//! Language tags (BCP 47) and how a wish meets an offer (chapter 11).

use std::fmt;
use std::str::FromStr;

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
/// # Ok::<(), aaep_proto::language::InvalidTag>(())
/// ```
#[derive(Clone)]
pub struct LanguageTag(Box<str>);

/// Text that is not a language tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidTag;

impl fmt::Display for InvalidTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("must be a language tag such as en-US or yo")
    }
}

impl std::error::Error for InvalidTag {}

/// The syntax of a tag as a regular expression, for the published schemas.
pub const TAG_PATTERN: &str = "^[a-zA-Z]{1,8}(-[a-zA-Z0-9]{1,8})*$";

/// Whether the text has the syntax of a tag.
pub(crate) fn is_tag(text: &str) -> bool {
    let mut subtags = text.split('-');
    let letters = |s: &str| (1..=8).contains(&s.len()) && s.bytes().all(|b| b.is_ascii_alphabetic());
    subtags.next().is_some_and(letters)
        && subtags.all(|s| (1..=8).contains(&s.len()) && s.bytes().all(|b| b.is_ascii_alphanumeric()))
}

impl LanguageTag {
    /// The tag as it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The language alone: `zh` of `zh-Hant-TW`.
    pub fn primary(&self) -> &str {
        self.0.split('-').next().unwrap_or(&self.0)
    }

    /// The tag as the suffix of a field name: `es_419` of `es-419`.
    pub fn field_suffix(&self) -> String {
        self.0.replace('-', "_")
    }

    /// The tag that a field-name suffix stands for, if it is one: `es_419` gives `es-419`.
    ///
    /// A suffix starts with a language of two or three letters in lower case.
    pub fn from_field_suffix(suffix: &str) -> Option<LanguageTag> {
        is_field_suffix(suffix).then(|| LanguageTag(suffix.replace('_', "-").into()))
    }

    /// Whether an offer in this language serves the wish: the same tag, a wider one that the wish
    /// narrows (`en-US` finds `en`, `zh-Hant-TW` finds `zh-Hant`, then `zh`), or any region of a
    /// wish without one (`en` finds `en-GB`).
    pub fn find<'o>(&self, offered: &'o [LanguageTag]) -> Option<&'o LanguageTag> {
        let mut wish: &str = &self.0;
        loop {
            if let Some(found) = offered.iter().find(|o| o.0.eq_ignore_ascii_case(wish)) {
                return Some(found);
            }
            match wish.rfind('-') {
                Some(cut) => wish = &wish[..cut],
                None => break,
            }
        }
        if self.0.contains('-') {
            return None;
        }
        offered.iter().find(|o| o.primary().eq_ignore_ascii_case(&self.0))
    }
}

/// The syntax of a language suffix of a field name, for the published schemas.
pub(crate) const SUFFIX_PATTERN: &str = "[a-z]{2,3}(_[A-Za-z0-9]{1,8})*";

/// Whether the text is a language as it stands at the end of a field name.
pub(crate) fn is_field_suffix(suffix: &str) -> bool {
    let mut subtags = suffix.split('_');
    subtags.next().is_some_and(|s| (2..=3).contains(&s.len()) && s.bytes().all(|b| b.is_ascii_lowercase()))
        && subtags.all(|s| (1..=8).contains(&s.len()) && s.bytes().all(|b| b.is_ascii_alphanumeric()))
}

/// Chooses the language to speak: the first wish that finds an offer, else the first language of
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
    wishes.iter().chain(fallback).find_map(|wish| wish.find(offered))
}

impl FromStr for LanguageTag {
    type Err = InvalidTag;

    fn from_str(text: &str) -> Result<Self, InvalidTag> {
        if is_tag(text) { Ok(LanguageTag(text.into())) } else { Err(InvalidTag) }
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
        check("en-GB", "en-US", "", None);
        check("ha-NG yo-NG", "yo en", "", Some("yo"));
        check("ha", "en fr", "fr", Some("fr"));
        check("ha", "en fr", "de", None);
        check("", "en", "", None);
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
