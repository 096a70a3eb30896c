//! The profile of a user: what is announced, and how.

use std::fmt;
use std::str::FromStr;

use aaep_proto::language::LanguageTag;
use aaep_proto::limits;
use aaep_proto::message::{Boundary, Capabilities, CapabilityFields, CognitiveLoad, Verbosity};
use aaep_proto::negotiate::{MORE_TIME_PREFIX, MORE_TIME_URI};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

/// The range that the protocol allows for a pace.
const PACE_WPM_RANGE: std::ops::RangeInclusive<u32> = 50..=1000;
/// The range of the factor for more time; see `docs/reference/more-time.md`.
const TIME_FACTOR_RANGE: std::ops::RangeInclusive<u32> = 1..=10;
/// The most languages that a subscription may name.
const MAX_LANGUAGES: usize = 32;
/// The pace that is assumed for profiles without one.
const DEFAULT_PACE_WPM: u64 = 180;

/// The kind of subscriber that utterances are for.
///
/// ```
/// use aaep_announce::{SubscriberKind, Profile};
/// assert!(Profile::preset(SubscriberKind::Captions).pace_wpm == 0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SubscriberKind {
    /// Speech by a screen reader or by a voice of the program itself.
    #[default]
    ScreenReader,
    /// A braille display: few cells, read at the user's own pace.
    Braille,
    /// Captions: everything is shown, no questions are answered.
    Captions,
    /// Voice control: the user speaks and gets short announcements.
    VoiceControl,
    /// A log: everything is written, no questions are answered.
    Logger,
}

/// How much punctuation is spoken.
///
/// ```
/// use aaep_announce::{SubscriberKind, Profile, Punctuation, speakable::speakable};
/// let mut profile = Profile::preset(SubscriberKind::ScreenReader);
/// profile.punctuation = Punctuation::All;
/// assert_eq!(speakable("Yes, now.", "text/plain", "en", &profile), "Yes comma now period.");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Punctuation {
    /// Only marks that give a sentence its melody.
    None,
    /// Symbols of code, addresses and paths are named; the voice decides about the rest.
    #[default]
    Some,
    /// Every mark is named.
    All,
}

/// How blocks of code are announced.
///
/// ```
/// use aaep_announce::{CodePolicy, SubscriberKind, Profile, speakable::speakable};
/// let mut profile = Profile::preset(SubscriberKind::ScreenReader);
/// let text = "```rust\nlet a = 1;\n```";
/// assert_eq!(speakable(text, "text/markdown", "en", &profile), "Rust code, 1 line.");
/// profile.code = CodePolicy::Skip;
/// assert_eq!(speakable(text, "text/markdown", "en", &profile), "");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CodePolicy {
    /// By its language and length.
    #[default]
    Name,
    /// Line by line.
    Read,
    /// Not at all.
    Skip,
}

/// A time of day, written `HH:MM`.
///
/// ```
/// use aaep_announce::TimeOfDay;
/// let at: TimeOfDay = "22:30".parse().expect("a time");
/// assert_eq!(at.minutes(), 22 * 60 + 30);
/// assert!("24:00".parse::<TimeOfDay>().is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimeOfDay(u16);

impl TimeOfDay {
    /// Returns the minutes since midnight.
    pub fn minutes(self) -> u16 {
        self.0
    }
}

impl FromStr for TimeOfDay {
    type Err = ParseProfileError;

    fn from_str(text: &str) -> Result<TimeOfDay, ParseProfileError> {
        let two = |s: &str, below: u16| match s.as_bytes() {
            [a, b] if a.is_ascii_digit() && b.is_ascii_digit() => s.parse::<u16>().ok().filter(|n| *n < below),
            _ => None,
        };
        let parts = text.split_once(':').and_then(|(h, m)| Some((two(h, 24)?, two(m, 60)?)));
        parts.map(|(h, m)| TimeOfDay(h * 60 + m)).ok_or(ParseProfileError::Time)
    }
}

impl fmt::Display for TimeOfDay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02}:{:02}", self.0 / 60, self.0 % 60)
    }
}

impl Serialize for TimeOfDay {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TimeOfDay {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// A part of the day in which only critical events are announced. It may cross midnight.
///
/// ```
/// use aaep_announce::QuietHours;
/// let night = QuietHours { from: "22:00".parse()?, to: "07:00".parse()? };
/// assert!(night.contains("23:15".parse()?) && night.contains("06:59".parse()?));
/// assert!(!night.contains("07:00".parse()?));
/// # Ok::<(), aaep_announce::ParseProfileError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QuietHours {
    /// When it starts.
    pub from: TimeOfDay,
    /// When it ends.
    pub to: TimeOfDay,
}

impl QuietHours {
    /// Returns whether this time of day is in it. If start and end are equal, none is.
    pub fn contains(self, at: TimeOfDay) -> bool {
        if self.from <= self.to { self.from <= at && at < self.to } else { at >= self.from || at < self.to }
    }
}

/// Why a profile is not valid.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParseProfileError {
    /// Not a time of day.
    Time,
    /// The pace is out of range.
    Pace(u32),
    /// The factor for more time is out of range.
    TimeFactor(u32),
    /// A field has an unknown value.
    Word(&'static str, String),
    /// There are no languages, or too many.
    Languages(usize),
}

impl fmt::Display for ParseProfileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ParseProfileError::Time => f.write_str("a time of day is written like 22:30"),
            ParseProfileError::Pace(n) => {
                write!(f, "pace_wpm is 50 to 1000 words per minute, or 0 for no pace, not {n}")
            }
            ParseProfileError::TimeFactor(n) => write!(f, "time_factor is 1 to 10, not {n}"),
            ParseProfileError::Word(field, word) => write!(f, "{field} does not know \"{}\"", word.escape_debug()),
            ParseProfileError::Languages(n) => write!(f, "languages takes 1 to {MAX_LANGUAGES} tags, not {n}"),
        }
    }
}

impl std::error::Error for ParseProfileError {}

/// What a user wants announced, and how. Fields that a file leaves out have the values of [`Profile::preset`].
///
/// ```
/// use aaep_announce::{SubscriberKind, Profile};
/// let profile: Profile = toml::from_str(r#"
///     kind = "braille"
///     languages = ["yo", "en"]
///     time_factor = 3
///     quiet_hours = { from = "22:00", to = "07:00" }
/// "#)?;
/// assert_eq!(profile.kind, SubscriberKind::Braille);
/// assert_eq!(profile.pace_wpm, Profile::preset(SubscriberKind::Braille).pace_wpm);
/// assert!(profile.capabilities().extensions.contains_key("more_time"));
/// # Ok::<(), toml::de::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "ProfileFile")]
pub struct Profile {
    /// The kind of subscriber.
    pub kind: SubscriberKind,
    /// The pace in words per minute. 0 if there is none.
    pub pace_wpm: u32,
    /// How long announcements are.
    pub verbosity: Verbosity,
    /// How many events are announced.
    pub cognitive_load: CognitiveLoad,
    /// The languages of the user, the preferred one first.
    pub languages: Vec<LanguageTag>,
    /// How much punctuation is spoken.
    pub punctuation: Punctuation,
    /// How blocks of code are announced.
    pub code: CodePolicy,
    /// The factor for the timeouts of questions, 1 to 10.
    pub time_factor: u32,
    /// When only critical events are announced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quiet_hours: Option<QuietHours>,
}

/// The fields of a profile file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProfileFile {
    kind: Option<SubscriberKind>,
    pace_wpm: Option<u32>,
    verbosity: Option<Verbosity>,
    cognitive_load: Option<CognitiveLoad>,
    languages: Option<Vec<LanguageTag>>,
    punctuation: Option<Punctuation>,
    code: Option<CodePolicy>,
    time_factor: Option<u32>,
    quiet_hours: Option<QuietHours>,
}

impl TryFrom<ProfileFile> for Profile {
    type Error = ParseProfileError;

    fn try_from(file: ProfileFile) -> Result<Profile, ParseProfileError> {
        let preset = Profile::preset(file.kind.unwrap_or_default());
        let profile = Profile {
            kind: preset.kind,
            pace_wpm: file.pace_wpm.unwrap_or(preset.pace_wpm),
            verbosity: file.verbosity.unwrap_or(preset.verbosity),
            cognitive_load: file.cognitive_load.unwrap_or(preset.cognitive_load),
            languages: file.languages.unwrap_or(preset.languages),
            punctuation: file.punctuation.unwrap_or(preset.punctuation),
            code: file.code.unwrap_or(preset.code),
            time_factor: file.time_factor.unwrap_or(preset.time_factor),
            quiet_hours: file.quiet_hours,
        };
        profile.check()?;
        Ok(profile)
    }
}

impl Default for Profile {
    fn default() -> Profile {
        Profile::preset(SubscriberKind::ScreenReader)
    }
}

impl Profile {
    /// Returns the most words of one utterance: what a voice at the user's pace speaks in twenty seconds, so that a question
    /// does not wait longer, but never so few that sentences fall apart.
    ///
    /// ```
    /// use aaep_announce::Profile;
    /// assert_eq!(Profile { pace_wpm: 180, ..Profile::default() }.max_utterance_words(), 60);
    /// ```
    pub fn max_utterance_words(&self) -> u64 {
        let pace = if self.pace_wpm == 0 { DEFAULT_PACE_WPM } else { self.pace_wpm.into() };
        (pace * limits::CHUNK_SPEECH_SECONDS / 60).max(15)
    }

    /// Returns the default profile for a kind of subscriber.
    pub fn preset(kind: SubscriberKind) -> Profile {
        let (pace_wpm, verbosity, load) = match kind {
            SubscriberKind::ScreenReader => (180, Verbosity::Normal, CognitiveLoad::Medium),
            SubscriberKind::VoiceControl => (200, Verbosity::Terse, CognitiveLoad::Medium),
            // About the pace of a practised reader.
            SubscriberKind::Braille => (100, Verbosity::Normal, CognitiveLoad::Low),
            SubscriberKind::Captions => (0, Verbosity::Detailed, CognitiveLoad::Medium),
            SubscriberKind::Logger => (0, Verbosity::Detailed, CognitiveLoad::High),
        };
        Profile {
            kind,
            pace_wpm,
            verbosity,
            cognitive_load: load,
            languages: vec!["en-US".parse().expect("en-US is a language tag")],
            punctuation: Punctuation::Some,
            code: if kind == SubscriberKind::Logger { CodePolicy::Read } else { CodePolicy::Name },
            time_factor: 1,
            quiet_hours: None,
        }
    }

    /// Checks that all values are in range.
    pub fn check(&self) -> Result<(), ParseProfileError> {
        if self.pace_wpm != 0 && !PACE_WPM_RANGE.contains(&self.pace_wpm) {
            return Err(ParseProfileError::Pace(self.pace_wpm));
        }
        if !TIME_FACTOR_RANGE.contains(&self.time_factor) {
            return Err(ParseProfileError::TimeFactor(self.time_factor));
        }
        if let Verbosity::Other(word) = &self.verbosity {
            return Err(ParseProfileError::Word("verbosity", word.to_string()));
        }
        if let CognitiveLoad::Other(word) = &self.cognitive_load {
            return Err(ParseProfileError::Word("cognitive_load", word.to_string()));
        }
        match self.languages.len() {
            1..=MAX_LANGUAGES => Ok(()),
            count => Err(ParseProfileError::Languages(count)),
        }
    }

    /// Returns whether this kind of subscriber answers questions.
    pub fn can_reply(&self) -> bool {
        !matches!(self.kind, SubscriberKind::Captions | SubscriberKind::Logger)
    }

    /// Returns whether only critical events are announced at this time of the user's day.
    pub fn is_quiet_at(&self, at: TimeOfDay) -> bool {
        self.quiet_hours.is_some_and(|hours| hours.contains(at))
    }

    /// Returns the capabilities to request from a producer.
    pub fn capabilities(&self) -> Capabilities {
        let (rate, boundaries) = match self.kind {
            SubscriberKind::ScreenReader => (Some(4), vec![Boundary::Sentence, Boundary::Completion]),
            SubscriberKind::VoiceControl => (Some(8), vec![Boundary::Completion]),
            SubscriberKind::Braille => (Some(2), vec![Boundary::Sentence, Boundary::Paragraph, Boundary::Completion]),
            SubscriberKind::Captions => (Some(10), vec![Boundary::Word, Boundary::Sentence]),
            SubscriberKind::Logger => (None, vec![Boundary::Sentence, Boundary::Paragraph, Boundary::Completion]),
        };
        let mut languages: Vec<LanguageTag> = Vec::new();
        for tag in &self.languages {
            if languages.len() < MAX_LANGUAGES && !languages.contains(tag) {
                languages.push(tag.clone());
            }
        }
        let factor = self.time_factor.clamp(*TIME_FACTOR_RANGE.start(), *TIME_FACTOR_RANGE.end());
        let more_time = self.can_reply() && factor > 1;
        let fields = CapabilityFields {
            max_events_per_second: rate,
            preferred_verbosity: Some(self.verbosity.clone()),
            languages: (!languages.is_empty()).then_some(languages),
            supports_confirmation_reply: Some(self.can_reply()),
            supports_clarification_reply: Some(self.can_reply()),
            coalesce_boundaries: Some(boundaries),
            cognitive_load: Some(self.cognitive_load.clone()),
            pace_wpm: (self.pace_wpm != 0).then(|| self.pace_wpm.clamp(*PACE_WPM_RANGE.start(), *PACE_WPM_RANGE.end())),
            supported_conformance_levels: Some(if self.can_reply() { vec![1, 2, 3] } else { vec![1] }),
            supported_extensions: more_time.then(|| vec![MORE_TIME_URI.to_owned()]),
            ..CapabilityFields::default()
        };
        let mut capabilities = Capabilities { fields, ..Capabilities::default() };
        if more_time {
            let mut request = Map::new();
            request.insert("factor".to_owned(), Value::from(factor));
            capabilities.extensions.insert(MORE_TIME_PREFIX.to_owned(), request);
        }
        if self.can_reply() { capabilities.with_cancellation() } else { capabilities }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_file_is_the_default_profile() {
        assert_eq!(toml::from_str::<Profile>("").unwrap(), Profile::preset(SubscriberKind::ScreenReader));
        let braille = toml::from_str::<Profile>("kind = \"braille\"").unwrap();
        assert_eq!(braille, Profile::preset(SubscriberKind::Braille));
    }

    #[test]
    fn every_preset_is_valid_and_survives_serialization() {
        for kind in [
            SubscriberKind::ScreenReader,
            SubscriberKind::Braille,
            SubscriberKind::Captions,
            SubscriberKind::VoiceControl,
            SubscriberKind::Logger,
        ] {
            let mut profile = Profile::preset(kind);
            profile.quiet_hours = Some(QuietHours { from: "21:05".parse().unwrap(), to: "06:00".parse().unwrap() });
            profile.check().unwrap();
            let text = toml::to_string(&profile).unwrap();
            assert_eq!(toml::from_str::<Profile>(&text).unwrap(), profile, "{text}");
        }
    }

    #[test]
    fn errors_in_a_file_name_the_mistake() {
        for (text, part) in [
            ("pace_wpm = 20", "pace_wpm"),
            ("time_factor = 11", "time_factor"),
            ("time_factor = 0", "time_factor"),
            ("verbosity = \"terce\"", "terce"),
            ("cognitive_load = \"none\"", "cognitive_load"),
            ("languages = []", "languages"),
            ("languages = [\"en_US\"]", "language tag"),
            ("kind = \"radio\"", "radio"),
            ("speed = 3", "speed"),
            ("quiet_hours = { from = \"9:00\", to = \"10:00\" }", "22:30"),
            ("quiet_hours = { from = \"09:00\", to = \"10:0x\" }", "22:30"),
        ] {
            let message = toml::from_str::<Profile>(text).unwrap_err().to_string();
            assert!(message.contains(part), "{text}: {message}");
        }
    }

    #[test]
    fn requested_capabilities_are_valid_and_granted() {
        use aaep_proto::message::{Message, SubscriptionRequest};
        use aaep_proto::negotiate::{Offer, negotiate};
        for kind in [
            SubscriberKind::ScreenReader,
            SubscriberKind::Braille,
            SubscriberKind::Captions,
            SubscriberKind::VoiceControl,
            SubscriberKind::Logger,
        ] {
            let mut profile = Profile::preset(kind);
            profile.time_factor = 4;
            let request = SubscriptionRequest::new("reader", profile.capabilities());
            let agreement = negotiate(&request, &Offer::default(), 0).unwrap();
            assert_eq!(agreement.notes.is_none(), profile.can_reply(), "{kind:?}: {:?}", agreement.notes);
            assert_eq!(agreement.terms.more_time().factor, if profile.can_reply() { 4 } else { 1 });
            let bytes = serde_json::to_vec(&Message::from(request)).unwrap();
            assert_eq!(aaep_proto::validate(&bytes).problems, []);
        }
    }

    #[test]
    fn quiet_hours_may_cross_midnight_or_be_empty() {
        let hours = |from: &str, to: &str| QuietHours { from: from.parse().unwrap(), to: to.parse().unwrap() };
        let at = |text: &str| text.parse::<TimeOfDay>().unwrap();
        assert!(hours("13:00", "14:00").contains(at("13:59")) && !hours("13:00", "14:00").contains(at("14:00")));
        assert!(hours("22:00", "07:00").contains(at("00:00")) && !hours("22:00", "07:00").contains(at("12:00")));
        assert!(!hours("10:00", "10:00").contains(at("10:00")));
    }
}
