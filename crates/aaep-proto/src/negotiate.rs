//! The handshake's decision (5.2 to 5.5, 5.7): a request and what the producer offers become terms or a refusal.
//!
//! Terms can only be made here, by narrowing a request, so they are never wider than it (5.4.4).

mod extensions;

use serde_json::Map;

pub use extensions::{
    CANCELLATION_PREFIX, CANCELLATION_URI, MORE_TIME_PREFIX, MORE_TIME_URI, MoreTime, USERS_PREFIX, USERS_URI,
    requested_user,
};
use extensions::{agree_cancellation, agree_more_time, check_same_user, more_time_object, note_missing_replies};

use crate::filter::EventFilter;
use crate::language::LanguageTag;
use crate::limits;
use crate::message::{
    AAEP_VERSION, Boundary, Capabilities, CapabilityFields, CognitiveLoad, EventFilters, ReasonCode,
    SubscriptionRejected, SubscriptionRequest, Verbosity,
};

/// What a producer can offer to a subscription.
///
/// ```
/// use aaep_proto::negotiate::Offer;
/// let offer = Offer { max_events_per_second: Some(50), ..Offer::default() };
/// assert_eq!(offer.levels, [1, 2, 3]);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Offer {
    /// Languages of the producer's texts, the primary one first. If there are none, every requested language is honored
    /// and each event is sent in the best variant that it has.
    pub languages: Vec<LanguageTag>,
    /// Levels it implements.
    pub levels: Vec<u32>,
    /// Extensions it uses: prefix and vocabulary.
    pub extensions: Vec<(String, String)>,
    /// The most events per second it sends to one subscription.
    pub max_events_per_second: Option<u32>,
    /// The most subscriptions at once.
    pub max_subscriptions: usize,
    /// When to try again if there is no place.
    pub retry_after_seconds: u32,
    /// Whether it has a signed manifest.
    pub signed_manifest: bool,
}

impl Default for Offer {
    fn default() -> Offer {
        Offer {
            languages: "en-US".parse().into_iter().collect(),
            levels: vec![1, 2, 3],
            extensions: vec![
                (MORE_TIME_PREFIX.into(), MORE_TIME_URI.into()),
                (CANCELLATION_PREFIX.into(), CANCELLATION_URI.into()),
            ],
            max_events_per_second: None,
            max_subscriptions: 10_000,
            retry_after_seconds: 30,
            signed_manifest: false,
        }
    }
}

/// What a subscription gets. Made by [`negotiate`] alone.
#[doc(alias = "honored_capabilities")]
#[derive(Clone, Debug, PartialEq)]
pub struct Terms {
    requested: Capabilities,
    honored: Capabilities,
    filter: EventFilter,
    more_time: MoreTime,
}

/// Terms, with the other fields of the `subscription.accepted`.
#[derive(Clone, Debug, PartialEq)]
pub struct Agreement {
    /// The version in use.
    pub version: String,
    /// The terms.
    pub terms: Terms,
    /// Where they differ from the request, in plain sentences.
    pub notes: Option<String>,
}

/// Why there is no agreement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// For programs.
    pub reason_code: ReasonCode,
    /// For people.
    pub message: String,
    /// When to try again.
    pub retry_after_seconds: Option<u32>,
}

impl Rejection {
    /// A refusal for this reason.
    pub fn new(reason_code: ReasonCode, message: impl Into<String>) -> Rejection {
        Rejection { reason_code, message: message.into(), retry_after_seconds: None }
    }

    /// Converts it into a message.
    pub fn to_message(&self) -> SubscriptionRejected {
        SubscriptionRejected {
            reason_code: self.reason_code.clone(),
            reason_message: self.message.clone(),
            retry_after_seconds: self.retry_after_seconds,
            alternative_manifest_uri: None,
        }
    }
}

impl std::fmt::Display for Rejection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Rejection {}

/// Decides about a request while this many subscriptions are open.
///
/// ```
/// use aaep_proto::message::{Capabilities, SubscriptionRequest};
/// use aaep_proto::negotiate::{Offer, negotiate};
/// let capabilities: Capabilities = serde_json::from_str(r#"{"max_events_per_second": 3, "languages": ["yo", "en-US"]}"#)?;
/// let request = SubscriptionRequest { aaep_version: "1.0.0".into(), subscriber_id: "reader".into(),
///     subscriber_name: None, subscriber_version: None, subscriber_manifest_uri: None,
///     correlation_id: None, capabilities, extensions: None };
/// let agreement = negotiate(&request, &Offer::default(), 0).expect("terms");
/// assert_eq!(agreement.terms.rate(), Some(3));
/// assert!(agreement.notes.is_some_and(|notes| notes.starts_with("These languages are not available: yo.")));
/// # Ok::<(), serde_json::Error>(())
/// ```
pub fn negotiate(request: &SubscriptionRequest, offer: &Offer, open: usize) -> Result<Agreement, Rejection> {
    let version = agree_version(&request.aaep_version)?;
    if open >= offer.max_subscriptions {
        let mut rejection = Rejection::new(ReasonCode::RateLimit, "All places are taken. Try again later.");
        rejection.retry_after_seconds = Some(offer.retry_after_seconds);
        return Err(rejection);
    }
    let mut agreement = agree(request.capabilities.clone(), offer)?;
    if request.aaep_version != version {
        let note = format!("Version {version} is spoken instead of {}.", request.aaep_version);
        agreement.notes = Some(match agreement.notes {
            Some(notes) => format!("{note} {notes}"),
            None => note,
        });
    }
    Ok(Agreement { version, ..agreement })
}

/// Decides about a change of terms; what the change does not name stays (5.7.1).
pub fn renegotiate(terms: &Terms, changes: &Capabilities, offer: &Offer) -> Result<Agreement, Rejection> {
    if offers_users(offer) {
        check_same_user(&terms.requested, changes)?;
    }
    agree(merge(terms.requested.clone(), changes), offer)
}

fn offers_users(offer: &Offer) -> bool {
    offer.extensions.iter().any(|(prefix, _)| prefix == USERS_PREFIX)
}

/// Decides again about what was asked for before, by what is offered now.
pub(crate) fn readmit(requested: Capabilities, offer: &Offer) -> Result<Agreement, Rejection> {
    agree(requested, offer)
}

fn agree_version(wanted: &str) -> Result<String, Rejection> {
    let major = |version: &str| version.split('.').next().and_then(|m| m.parse::<u64>().ok());
    if major(wanted) == major(AAEP_VERSION) {
        return Ok(AAEP_VERSION.to_owned());
    }
    let message = format!("aaep_version: version {wanted} is not supported. Ask for {AAEP_VERSION}.");
    Err(Rejection::new(ReasonCode::VersionUnsupported, message))
}

/// The capabilities with these changes; what they do not name stays (5.7.1).
pub(crate) fn merge(mut base: Capabilities, changes: &Capabilities) -> Capabilities {
    macro_rules! take {
        ($($field:ident),+) => {
            $( if changes.fields.$field.is_some() { base.fields.$field = changes.fields.$field.clone(); } )+
        };
    }
    take!(
        max_events_per_second,
        preferred_verbosity,
        languages,
        supports_confirmation_reply,
        supports_clarification_reply,
        coalesce_boundaries,
        event_filters,
        supported_conformance_levels,
        supported_extensions,
        cognitive_load,
        pace_wpm,
        accept_signed_manifests_only
    );
    base.extensions.extend(changes.extensions.clone());
    base
}

fn agree(requested: Capabilities, offer: &Offer) -> Result<Agreement, Rejection> {
    check_filter_size(&requested)?;
    let requested = without_unknown_extensions(requested, offer);
    let asked = &requested.fields;
    if asked.accept_signed_manifests_only == Some(true) && !offer.signed_manifest {
        let message = "This producer has no signed manifest. Ask without accept_signed_manifests_only.";
        return Err(Rejection::new(ReasonCode::ManifestSignatureRequired, message));
    }
    let mut notes = Vec::new();
    let extensions = agree_extensions(asked, offer)?;
    let honored = CapabilityFields {
        max_events_per_second: agree_rate(asked, offer, &mut notes),
        preferred_verbosity: Some(known_verbosity(asked, &mut notes)),
        languages: agree_languages(asked, offer, &mut notes),
        supports_confirmation_reply: Some(asked.supports_confirmation_reply == Some(true)),
        supports_clarification_reply: Some(asked.supports_clarification_reply == Some(true)),
        coalesce_boundaries: Some(agree_boundaries(asked, &mut notes)?),
        event_filters: Some(agree_filters(asked)),
        supported_conformance_levels: Some(agree_levels(asked, offer, &mut notes)?),
        supported_extensions: extensions,
        cognitive_load: Some(known_load(asked, &mut notes)),
        pace_wpm: asked.pace_wpm,
        accept_signed_manifests_only: asked.accept_signed_manifests_only,
    };
    let more_time = agree_more_time(&requested, &mut notes);
    let mut honored = Capabilities { fields: honored, ..Capabilities::default() };
    if let Some(more) = more_time {
        honored.extensions.insert(MORE_TIME_PREFIX.into(), more_time_object(more));
    }
    if agree_cancellation(&requested, &mut notes) {
        honored.extensions.insert(CANCELLATION_PREFIX.into(), Map::new());
    }
    if let Some(user) = requested_user(&requested)? {
        // Whether the subscriber may is decided by its credentials, before this.
        let user = Map::from_iter([("user".to_owned(), user.into())]);
        honored.extensions.insert(USERS_PREFIX.into(), user);
    }
    note_missing_replies(asked, &mut notes);
    let filter = EventFilter::new(honored.fields.event_filters.as_ref());
    let terms = Terms { requested, honored, filter, more_time: more_time.unwrap_or(MoreTime::NONE) };
    let notes = if notes.is_empty() { None } else { Some(notes.join(" ")) };
    Ok(Agreement { version: AAEP_VERSION.to_owned(), terms, notes })
}

/// Validation reports this as well; a request that was built in the same process is not validated.
fn check_filter_size(requested: &Capabilities) -> Result<(), Rejection> {
    let Some(filters) = &requested.fields.event_filters else { return Ok(()) };
    for (name, list) in [("include", &filters.include), ("exclude", &filters.exclude)] {
        let (length, most) = (list.as_ref().map_or(0, Vec::len), limits::FILTER_PATTERNS);
        if length > most {
            let message = format!("event_filters.{name} has {length} patterns. Send at most {most}.");
            return Err(Rejection::new(ReasonCode::CapabilitiesIncompatible, message));
        }
    }
    Ok(())
}

/// Drops what has no effect here. Terms are kept for as long as the subscription lives, and the objects of extensions
/// may be as large as a message.
fn without_unknown_extensions(mut requested: Capabilities, offer: &Offer) -> Capabilities {
    if let Some(uris) = &mut requested.fields.supported_extensions {
        uris.retain(|uri| offer.extensions.iter().any(|(_, known)| known == uri));
    }
    requested.extensions.retain(|prefix, _| offer.extensions.iter().any(|(known, _)| known == prefix));
    if let Some(cancellation) = requested.extensions.get_mut(CANCELLATION_PREFIX) {
        cancellation.clear();
    }
    if let Some(users) = requested.extensions.get_mut(USERS_PREFIX) {
        users.retain(|name, _| name == "user");
    }
    if let Some(more_time) = requested.extensions.get_mut(MORE_TIME_PREFIX) {
        more_time.retain(|name, value| ["factor", "minimum_seconds"].contains(&name.as_str()) && value.is_number());
    }
    requested
}

fn agree_rate(asked: &CapabilityFields, offer: &Offer, notes: &mut Vec<String>) -> Option<u32> {
    match (asked.max_events_per_second, offer.max_events_per_second) {
        (Some(asked), Some(most)) if most < asked => {
            notes.push(format!("At most {most} events per second are sent, not {asked}."));
            Some(most)
        }
        (None, Some(most)) => {
            notes.push(format!("At most {most} events per second are sent."));
            Some(most)
        }
        (asked, _) => asked,
    }
}

fn known_verbosity(asked: &CapabilityFields, notes: &mut Vec<String>) -> Verbosity {
    match &asked.preferred_verbosity {
        Some(Verbosity::Other(word)) => {
            notes.push(format!("Verbosity {word} is not known, normal is used."));
            Verbosity::Normal
        }
        Some(known) => known.clone(),
        None => Verbosity::Normal,
    }
}

fn known_load(asked: &CapabilityFields, notes: &mut Vec<String>) -> CognitiveLoad {
    match &asked.cognitive_load {
        Some(CognitiveLoad::Other(word)) => {
            notes.push(format!("Cognitive load {word} is not known, medium is used."));
            CognitiveLoad::Medium
        }
        Some(known) => known.clone(),
        None => CognitiveLoad::Medium,
    }
}

/// Returns the requested languages that can be honored, as they were requested. Without any, events are sent in
/// their primary language and the terms name none (R12).
fn agree_languages(asked: &CapabilityFields, offer: &Offer, notes: &mut Vec<String>) -> Option<Vec<LanguageTag>> {
    let requested = asked.languages.clone().unwrap_or_else(|| "en-US".parse().into_iter().collect());
    if offer.languages.is_empty() {
        return Some(requested);
    }
    let (served, missing): (Vec<_>, Vec<_>) =
        requested.into_iter().partition(|tag| tag.find(&offer.languages).is_some());
    if !missing.is_empty() {
        let names: Vec<&str> = missing.iter().map(LanguageTag::as_str).collect();
        notes.push(format!("These languages are not available: {}.", names.join(", ")));
    }
    if served.is_empty() {
        if let Some(primary) = offer.languages.first() {
            notes.push(format!("Events come in {primary}."));
        }
        return None;
    }
    Some(served)
}

fn agree_boundaries(asked: &CapabilityFields, notes: &mut Vec<String>) -> Result<Vec<Boundary>, Rejection> {
    let Some(requested) = &asked.coalesce_boundaries else {
        return Ok(vec![Boundary::Sentence, Boundary::Completion]);
    };
    let (known, unknown): (Vec<_>, Vec<_>) = requested.iter().cloned().partition(|b| !matches!(b, Boundary::Other(_)));
    if known.is_empty() {
        let message =
            "coalesce_boundaries: none of these is known. Ask for none, word, sentence, paragraph or completion.";
        return Err(Rejection::new(ReasonCode::CapabilitiesIncompatible, message));
    }
    if !unknown.is_empty() {
        let words: Vec<&str> = unknown.iter().map(Boundary::as_str).collect();
        notes.push(format!("These boundaries are not known: {}.", words.join(", ")));
    }
    Ok(known)
}

fn agree_filters(asked: &CapabilityFields) -> EventFilters {
    let filters = asked.event_filters.clone().unwrap_or_default();
    EventFilters {
        include: Some(filters.include.unwrap_or_else(|| vec!["aaep:agent.*".to_owned()])),
        exclude: Some(filters.exclude.unwrap_or_default()),
    }
}

/// The requested levels that can be served. Levels above 1 are for subscribers that can reply (5.3.1.4).
fn agree_levels(asked: &CapabilityFields, offer: &Offer, notes: &mut Vec<String>) -> Result<Vec<u32>, Rejection> {
    let requested = asked.supported_conformance_levels.clone().unwrap_or_else(|| vec![1]);
    let can_reply = asked.supports_confirmation_reply == Some(true);
    let mut levels: Vec<u32> = requested.iter().copied().filter(|l| offer.levels.contains(l)).collect();
    if levels.is_empty() {
        let offered: Vec<String> = offer.levels.iter().map(u32::to_string).collect();
        let message =
            format!("supported_conformance_levels: none of these can be offered. Ask for {}.", offered.join(", "));
        return Err(Rejection::new(ReasonCode::CapabilitiesIncompatible, message));
    }
    if !can_reply && levels.iter().any(|l| *l > 1) {
        levels.retain(|l| *l == 1);
        if levels.is_empty() {
            let message = "supported_conformance_levels: levels 2 and 3 need supports_confirmation_reply: true. \
                Set it, or ask for level 1.";
            return Err(Rejection::new(ReasonCode::CapabilitiesIncompatible, message));
        }
        notes.push("Levels 2 and 3 need supports_confirmation_reply; level 1 is served.".to_owned());
    } else if levels.len() < requested.len() {
        let names: Vec<String> = levels.iter().map(u32::to_string).collect();
        notes.push(format!("Conformance level {} is served.", names.join(" and ")));
    }
    Ok(levels)
}

/// Extensions that both sides know. Two of them with one prefix cannot share a subscription (chapter 7).
fn agree_extensions(asked: &CapabilityFields, offer: &Offer) -> Result<Option<Vec<String>>, Rejection> {
    let Some(requested) = &asked.supported_extensions else { return Ok(None) };
    let common: Vec<&(String, String)> = offer
        .extensions
        .iter()
        .filter(|(prefix, uri)| requested.contains(uri) && !crate::validate::is_reserved(prefix))
        .collect();
    for (i, (prefix, _)) in common.iter().enumerate() {
        if common[..i].iter().any(|(earlier, _)| earlier == prefix) {
            let message = format!("supported_extensions: two of these use the prefix {prefix}. Ask for one of them.");
            return Err(Rejection::new(ReasonCode::CapabilitiesIncompatible, message));
        }
    }
    Ok(Some(common.into_iter().map(|(_, uri)| uri.clone()).collect()))
}

impl Terms {
    /// What was asked for.
    pub(crate) fn requested(&self) -> &Capabilities {
        &self.requested
    }

    /// Returns the honored capabilities for the `subscription.accepted`.
    pub fn honored(&self) -> &Capabilities {
        &self.honored
    }

    /// Most non-critical events per second, if there is a bound.
    pub fn rate(&self) -> Option<u32> {
        self.honored.fields.max_events_per_second
    }

    /// Returns the pace in words per minute, if there is one.
    pub fn pace_wpm(&self) -> Option<u32> {
        self.honored.fields.pace_wpm
    }

    /// Returns the verbosity.
    pub fn verbosity(&self) -> &Verbosity {
        match (self.load(), &self.honored.fields.preferred_verbosity) {
            (CognitiveLoad::Low, _) => &Verbosity::Terse,
            (CognitiveLoad::High, _) if self.requested.fields.preferred_verbosity.is_none() => &Verbosity::Detailed,
            (_, Some(verbosity)) => verbosity,
            (_, None) => &Verbosity::Normal,
        }
    }

    /// Languages in order of preference; empty means the primary language of each event.
    pub fn languages(&self) -> &[LanguageTag] {
        self.honored.fields.languages.as_deref().unwrap_or(&[])
    }

    /// Where output may be cut.
    pub fn boundaries(&self) -> &[Boundary] {
        self.honored.fields.coalesce_boundaries.as_deref().unwrap_or(&[])
    }

    /// Returns how much information the user wants.
    pub fn load(&self) -> &CognitiveLoad {
        self.honored.fields.cognitive_load.as_ref().unwrap_or(&CognitiveLoad::Medium)
    }

    /// Which events are wanted.
    pub fn filter(&self) -> &EventFilter {
        &self.filter
    }

    /// Whether confirmations can be answered.
    pub fn can_confirm(&self) -> bool {
        self.honored.fields.supports_confirmation_reply == Some(true)
    }

    /// Whether clarifications can be answered.
    pub fn can_clarify(&self) -> bool {
        self.honored.fields.supports_clarification_reply == Some(true)
    }

    /// Whether agents can be asked to stop.
    pub fn can_cancel(&self) -> bool {
        self.honored.extensions.contains_key(CANCELLATION_PREFIX)
    }

    /// How much more time the user needs.
    pub fn more_time(&self) -> MoreTime {
        self.more_time
    }
}
