//! Field types that several schemas share: limits and patterns.

use crate::id;
use crate::language::{TAG_PATTERN, is_tag};
use crate::record::{FieldType, Pattern, RuleSet};
use crate::rule::Rule;
use crate::time::Timestamp;

pub(crate) const SUMMARY: FieldType = FieldType::Human { min: 1, max: 16384 };
pub(crate) const TERSE: FieldType = FieldType::Human { min: 1, max: 4096 };
pub(crate) const NOTE: FieldType = FieldType::Human { min: 1, max: 4096 };
pub(crate) const NOTE_OR_EMPTY: FieldType = FieldType::Human { min: 0, max: 4096 };
pub(crate) const PROSE_OR_EMPTY: FieldType = FieldType::Human { min: 0, max: 16384 };
pub(crate) const DURATION_MS: FieldType = FieldType::Integer { min: 0, max: 86_400_000 };
pub(crate) const COUNT: FieldType = FieldType::Integer { min: 0, max: MAX_EXACT };
pub(crate) const STEP: FieldType = FieldType::Integer { min: 1, max: MAX_EXACT };
pub(crate) const TIMEOUT: FieldType = FieldType::Integer { min: 1, max: 86_400 };
pub(crate) const NAME_256: FieldType = FieldType::Text { min: 1, max: 256 };
pub(crate) const ANY_TEXT: FieldType = FieldType::Text { min: 0, max: usize::MAX };
pub(crate) const SOME_TEXT: FieldType = FieldType::Text { min: 1, max: usize::MAX };
pub(crate) const SPOKEN_NAME: FieldType = FieldType::Name { min: 0, max: usize::MAX };
pub(crate) const SPOKEN_NAME_256: FieldType = FieldType::Name { min: 1, max: 256 };
pub(crate) const RISK: FieldType = FieldType::OneOf(crate::message::RiskLevel::WORDS);

/// The largest integer that every JSON reader takes exactly.
pub(crate) const MAX_EXACT: i64 = 1 << 53;

pub(crate) const URI: FieldType = FieldType::Pattern(&Pattern {
    regex: "^[A-Za-z][A-Za-z0-9+.-]*:[^ \"<>\\\\^`{|}\\u0000-\\u001f\\u007f]+$",
    matches: is_uri,
    description: "must be a URI such as https://example.org/path",
});

pub(crate) const VERSION: FieldType = FieldType::Pattern(&Pattern {
    regex: "^[0-9]+\\.[0-9]+\\.[0-9]+(-[A-Za-z0-9.-]+)?$",
    matches: is_version,
    description: "must be a version such as 1.0.0",
});

pub(crate) const TAG: FieldType = FieldType::Pattern(&TAG_FORM);

pub(crate) static TAG_FORM: Pattern =
    Pattern { regex: TAG_PATTERN, matches: is_tag, description: "must be a language tag such as en-US" };

pub(crate) const TIMESTAMP: FieldType = FieldType::Pattern(&TIMESTAMP_FORM);

pub(crate) static TIMESTAMP_FORM: Pattern = Pattern {
    regex: Timestamp::PATTERN,
    matches: |text| text.parse::<Timestamp>().is_ok(),
    description: "must be a date and time like 2026-05-24T14:22:11.342Z, with 0, 3 or 6 digits of fraction",
};

macro_rules! id_kind {
    ($name:ident, $prefix:literal) => {
        pub(crate) const $name: FieldType = FieldType::Pattern(&Pattern {
            regex: concat!("^", $prefix, "[A-Za-z0-9]{1,64}$"),
            matches: |text| id::is_id(text, $prefix),
            description: concat!("must be ", $prefix, " followed by 1 to 64 letters or digits"),
        });
    };
}

id_kind!(EVENT_ID, "evt_");
id_kind!(SESSION_ID, "sess_");
id_kind!(SUBSCRIPTION_ID, "sub_");
id_kind!(REPLY_TOKEN, "rpl_");
id_kind!(TOOL_CALL_ID, "call_");
id_kind!(OUTPUT_ID, "out_");

pub(crate) const TOOL: FieldType = FieldType::Pattern(&Pattern {
    regex: "^[A-Za-z_][A-Za-z0-9_.-]{0,255}$",
    matches: |text| {
        text.len() <= 256
            && text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-'))
    },
    description: "must be a tool name: a letter or underscore, then letters, digits, and _ . -",
});

pub(crate) const ERROR_CODE: FieldType = FieldType::Pattern(&Pattern {
    regex: "^[A-Z][A-Z0-9_]{1,63}$",
    matches: |text| {
        (2..=64).contains(&text.len())
            && text.starts_with(|c: char| c.is_ascii_uppercase())
            && text.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
    },
    description: "must be a code in capitals such as TOOL_TIMEOUT",
});

pub(crate) const REASON: FieldType = FieldType::Pattern(&Pattern {
    regex: "^[a-z][a-z0-9_]{1,63}$",
    matches: |text| {
        (2..=64).contains(&text.len())
            && text.starts_with(|c: char| c.is_ascii_lowercase())
            && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
    },
    description: "must be a code in small letters such as user_pressed_escape",
});

pub(crate) const CONTENT_TYPE: FieldType = FieldType::Pattern(&Pattern {
    regex: "^[a-zA-Z][a-zA-Z0-9.+_-]*/[a-zA-Z][a-zA-Z0-9.+_-]*$",
    matches: |text| {
        let part = |p: &str| {
            p.starts_with(|c: char| c.is_ascii_alphabetic())
                && p.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'+' | b'_' | b'-'))
        };
        text.split_once('/').is_some_and(|(a, b)| part(a) && part(b))
    },
    description: "must be a media type such as text/plain",
});

pub(crate) const SCRIPT: FieldType = FieldType::Pattern(&Pattern {
    regex: "^[A-Z][a-z]{3}$",
    matches: |text| {
        let b = text.as_bytes();
        b.len() == 4 && b[0].is_ascii_uppercase() && b[1..].iter().all(u8::is_ascii_lowercase)
    },
    description: "must be a script code such as Latn",
});

pub(crate) const JWS: FieldType = FieldType::Pattern(&Pattern {
    regex: "^[A-Za-z0-9_-]+\\.[A-Za-z0-9_-]+\\.[A-Za-z0-9_-]+$",
    matches: |text| {
        let mut parts = 0;
        text.split('.').all(|part| {
            parts += 1;
            !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'))
        }) && parts == 3
    },
    description: "must be a compact JWS: three base64url parts joined by dots",
});

fn is_uri(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once(':') else { return false };
    scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'.' | b'-'))
        && !rest.is_empty()
        && !rest
            .bytes()
            .any(|b| b <= b' ' || matches!(b, b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}' | 0x7f))
}

fn is_version(text: &str) -> bool {
    let (core, pre) = match text.split_once('-') {
        Some((core, pre)) => (core, Some(pre)),
        None => (text, None),
    };
    let mut numbers = 0;
    core.split('.').all(|n| {
        numbers += 1;
        !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit())
    }) && numbers == 3
        && pre.is_none_or(|p| !p.is_empty() && p.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-')))
}

/// Rules of the payload of an event.
pub(crate) static PAYLOAD: RuleSet = RuleSet {
    required: Rule::PayloadRequired,
    wrong_type: Rule::PayloadType,
    limit: Rule::PayloadLimit,
    word: Rule::PayloadWord,
    format: Rule::PayloadFormat,
    unknown: Rule::PayloadType,
};

/// Rules of handshake and reply messages.
pub(crate) static MESSAGE: RuleSet = RuleSet {
    required: Rule::MessageRequired,
    wrong_type: Rule::MessageType,
    limit: Rule::MessageLimit,
    word: Rule::MessageWord,
    format: Rule::MessageFormat,
    unknown: Rule::MessageUnknownField,
};

/// Rules of the producer object.
pub(crate) static PRODUCER: RuleSet = RuleSet::all(Rule::ProducerShape);
/// Rules of localization hints.
pub(crate) static LOCALIZATION: RuleSet =
    RuleSet { format: Rule::LanguageTag, ..RuleSet::all(Rule::LocalizationShape) };
/// Rules of capabilities.
pub(crate) static CAPABILITY: RuleSet =
    RuleSet { unknown: Rule::CapabilityExtension, ..RuleSet::all(Rule::CapabilityValue) };
/// Rules of event filters, which know no extensions.
pub(crate) static FILTERS: RuleSet = RuleSet::all(Rule::CapabilityValue);
/// Rules of the manifest.
pub(crate) static MANIFEST: RuleSet = RuleSet::all(Rule::Manifest);
