//! A request becomes terms that are never wider than it, or a rejection with the right reason (5.2 to 5.5, 5.7).

use aaep_proto::limits;
use aaep_proto::message::{Capabilities, CognitiveLoad, ReasonCode, Verbosity};
use aaep_proto::negotiate::{Agreement, MORE_TIME_URI, MoreTime, Offer, Rejection, negotiate, renegotiate};
use aaep_proto::occupancy::memory_after_change;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::harness::request;

fn offer() -> Offer {
    Offer {
        languages: ["en-US", "yo"].map(|l| l.parse().unwrap()).to_vec(),
        max_events_per_second: Some(20),
        ..Offer::default()
    }
}

/// Returns the capabilities of a subscriber that can answer everything, which needs no note.
fn replying(mut capabilities: Value) -> Value {
    capabilities["supports_confirmation_reply"] = json!(true);
    capabilities["supports_clarification_reply"] = json!(true);
    capabilities
}

fn agree(capabilities: Value) -> Agreement {
    negotiate(&request(capabilities), &offer(), 0).unwrap()
}

fn refuse(capabilities: Value, offer: &Offer) -> Rejection {
    negotiate(&request(capabilities), offer, 0).unwrap_err()
}

fn honored(capabilities: Value) -> Value {
    serde_json::to_value(agree(capabilities).terms.honored()).unwrap()
}

#[test]
fn empty_capabilities_get_the_defaults() {
    let terms = negotiate(&request(json!({})), &Offer::default(), 0).unwrap().terms;
    assert_eq!(
        serde_json::to_value(terms.honored()).unwrap(),
        json!({
            "preferred_verbosity": "normal", "languages": ["en-US"], "supports_confirmation_reply": false,
            "supports_clarification_reply": false, "coalesce_boundaries": ["sentence", "completion"],
            "event_filters": {"include": ["aaep:agent.*"], "exclude": []}, "supported_conformance_levels": [1],
            "cognitive_load": "medium"
        })
    );
    assert_eq!((terms.rate(), terms.pace_wpm()), (None, None));
}

#[test]
fn rate_is_never_above_the_requested_one() {
    assert_eq!(honored(json!({"max_events_per_second": 3}))["max_events_per_second"], 3);
    let capped = agree(replying(json!({"max_events_per_second": 100})));
    assert_eq!(capped.terms.rate(), Some(20));
    assert_eq!(capped.notes.as_deref(), Some("At most 20 events per second are sent, not 100."));
    assert_eq!(agree(json!({})).terms.rate(), Some(20));
}

#[test]
fn languages_are_those_requested_that_can_be_served() {
    let some = agree(replying(json!({"languages": ["yo-NG", "ha", "en-US"]})));
    assert_eq!(serde_json::to_value(some.terms.honored()).unwrap()["languages"], json!(["yo-NG", "en-US"]));
    assert_eq!(
        some.notes.as_deref(),
        Some("At most 20 events per second are sent. These languages are not available: ha.")
    );
    let none = agree(replying(json!({"languages": ["fr"]})));
    assert_eq!(serde_json::to_value(none.terms.honored()).unwrap().get("languages"), None);
    assert!(none.notes.unwrap().ends_with("These languages are not available: fr. Events come in en-US."));
}

#[test]
fn unknown_boundaries_are_dropped() {
    assert_eq!(honored(json!({"coalesce_boundaries": ["word", "stanza"]}))["coalesce_boundaries"], json!(["word"]));
    let rejection = refuse(json!({"coalesce_boundaries": ["stanza"]}), &offer());
    assert_eq!(rejection.reason_code, ReasonCode::CapabilitiesIncompatible);
}

#[test]
fn honored_levels_are_the_intersection_of_request_and_offer() {
    let two = Offer { levels: vec![1, 2], ..offer() };
    let levels = |capabilities: Value| {
        let agreement = negotiate(&request(capabilities), &two, 0).unwrap();
        serde_json::to_value(agreement.terms.honored()).unwrap()["supported_conformance_levels"].clone()
    };
    assert_eq!(
        levels(json!({"supported_conformance_levels": [1, 2, 3], "supports_confirmation_reply": true})),
        json!([1, 2])
    );
    assert_eq!(levels(json!({"supported_conformance_levels": [1, 2]})), json!([1]));
    let note = agree(json!({"supported_conformance_levels": [1, 2]})).notes.unwrap();
    assert!(note.contains("Levels 2 and 3 need supports_confirmation_reply"), "{note}");
    let three = json!({"supported_conformance_levels": [3], "supports_confirmation_reply": true});
    assert_eq!(refuse(three, &two).reason_code, ReasonCode::CapabilitiesIncompatible);
}

#[test]
fn levels_that_need_replies_are_refused_without_reply_support() {
    for capabilities in [
        json!({"supported_conformance_levels": [2, 3]}),
        json!({"supported_conformance_levels": [2], "supports_confirmation_reply": false}),
    ] {
        let rejection = refuse(capabilities, &offer());
        assert_eq!(rejection.reason_code, ReasonCode::CapabilitiesIncompatible);
        assert!(rejection.message.contains("supports_confirmation_reply"), "{}", rejection.message);
    }
}

#[test]
fn without_a_restriction_every_requested_language_is_honored() {
    let open = Offer { languages: Vec::new(), ..Offer::default() };
    let agreement = negotiate(&request(replying(json!({"languages": ["de", "ha-NG"]}))), &open, 0).unwrap();
    assert_eq!(serde_json::to_value(agreement.terms.honored()).unwrap()["languages"], json!(["de", "ha-NG"]));
    assert_eq!(agreement.notes, None);
}

#[test]
fn requiring_a_signed_manifest_is_rejected() {
    let demand = json!({"accept_signed_manifests_only": true});
    assert_eq!(refuse(demand.clone(), &offer()).reason_code, ReasonCode::ManifestSignatureRequired);
    let signed = Offer { signed_manifest: true, ..offer() };
    assert!(negotiate(&request(demand), &signed, 0).is_ok());
}

#[test]
fn versions_with_the_same_major_are_compatible() {
    let ask = |version: &str| {
        let mut request = request(replying(json!({})));
        request.aaep_version = version.to_owned();
        negotiate(&request, &Offer::default(), 0)
    };
    assert_eq!(ask("1.0.0").unwrap().notes, None);
    let newer = ask("1.7.2").unwrap();
    assert_eq!(
        (newer.version.as_str(), newer.notes.as_deref()),
        ("1.0.0", Some("Version 1.0.0 is spoken instead of 1.7.2."))
    );
    for other in ["0.1.0-draft", "2.0.0", "99.99.99"] {
        assert_eq!(ask(other).unwrap_err().reason_code, ReasonCode::VersionUnsupported);
    }
}

#[test]
fn number_of_subscriptions_is_limited() {
    let offer = Offer { max_subscriptions: 2, retry_after_seconds: 45, ..offer() };
    assert!(negotiate(&request(json!({})), &offer, 1).is_ok());
    let rejection = negotiate(&request(json!({})), &offer, 2).unwrap_err();
    assert_eq!((rejection.reason_code.clone(), rejection.retry_after_seconds), (ReasonCode::RateLimit, Some(45)));
    assert!(!rejection.to_message().reason_message.is_empty());
}

#[test]
fn two_extensions_with_one_prefix_are_refused_by_name() {
    let uris = ["https://a.example/pulse", "https://b.example/pulse"];
    let offer = Offer { extensions: uris.iter().map(|u| ("pulse".to_owned(), (*u).to_owned())).collect(), ..offer() };
    let rejection = refuse(json!({"supported_extensions": uris}), &offer);
    assert_eq!(rejection.reason_code, ReasonCode::CapabilitiesIncompatible);
    assert!(rejection.message.contains("pulse"));
    assert!(negotiate(&request(json!({"supported_extensions": [uris[0]]})), &offer, 0).is_ok());
}

#[test]
fn unknown_extension_capabilities_have_no_effect() {
    let honored = honored(
        json!({"haptic": {"pulse": true}, "supported_extensions": ["https://nobody.example/x", MORE_TIME_URI]}),
    );
    assert_eq!(honored.get("haptic"), None);
    assert_eq!(honored["supported_extensions"], json!([MORE_TIME_URI]));
}

#[test]
fn more_time_is_granted_up_to_ten_times() {
    let more = |wish: Value| agree(json!({"more_time": wish})).terms.more_time();
    assert_eq!(more(json!({"factor": 3, "minimum_seconds": 60})), MoreTime { factor: 3, minimum_seconds: 60 });
    assert_eq!(more(json!({"factor": 50})), MoreTime { factor: 10, minimum_seconds: 0 });
    assert_eq!(more(json!({"factor": 0})), MoreTime { factor: 1, minimum_seconds: 0 });
    assert_eq!(MoreTime { factor: 10, minimum_seconds: 0 }.stretch(30_000), 86_400);
}

#[test]
fn low_load_is_terse_and_high_load_detailed_unless_asked_otherwise() {
    assert_eq!(
        agree(json!({"cognitive_load": "low", "preferred_verbosity": "detailed"})).terms.verbosity(),
        &Verbosity::Terse
    );
    assert_eq!(agree(json!({"cognitive_load": "high"})).terms.verbosity(), &Verbosity::Detailed);
    assert_eq!(
        agree(json!({"cognitive_load": "high", "preferred_verbosity": "normal"})).terms.verbosity(),
        &Verbosity::Normal
    );
    assert_eq!(agree(json!({"cognitive_load": "sleepy"})).terms.load(), &CognitiveLoad::Medium);
}

#[test]
fn renegotiation_changes_only_what_it_names() {
    let before =
        agree(json!({"max_events_per_second": 5, "languages": ["yo"], "pace_wpm": 200, "cognitive_load": "high"}))
            .terms;
    let changes: Capabilities =
        serde_json::from_value(json!({"max_events_per_second": 1, "cognitive_load": "low"})).unwrap();
    let after = renegotiate(&before, &changes, &offer()).unwrap().terms;
    let mut expected = serde_json::to_value(before.honored()).unwrap();
    expected["max_events_per_second"] = json!(1);
    expected["cognitive_load"] = json!("low");
    assert_eq!(serde_json::to_value(after.honored()).unwrap(), expected);
}

fn subset(of: Vec<&'static str>) -> impl Strategy<Value = Vec<&'static str>> {
    let most = of.len();
    proptest::sample::subsequence(of, 1..=most)
}

proptest! {
    /// The honored capabilities are never wider than the requested ones (5.4.4).
    #[test]
    fn terms_are_never_wider_than_the_request(
        rate in proptest::option::of(1u32..200),
        languages in proptest::option::of(subset(vec!["en-US", "en", "yo-NG", "fr", "de-AT", "zh-Hant"])),
        boundaries in proptest::option::of(subset(vec!["none", "word", "sentence", "paragraph", "completion", "stanza"])),
        levels in proptest::option::of(proptest::sample::subsequence(vec![1, 2, 3], 1..=3)),
        confirm in proptest::option::of(any::<bool>()), clarify in proptest::option::of(any::<bool>()),
        exclude in subset(vec!["aaep:agent.tool.*", "aaep:agent.progress.updated", "haptic:*"]),
        cap in proptest::option::of(1u32..50),
    ) {
        let mut wish = json!({"event_filters": {"exclude": exclude}});
        for (name, value) in [("max_events_per_second", json!(rate)), ("languages", json!(languages)), ("coalesce_boundaries", json!(boundaries)),
            ("supported_conformance_levels", json!(levels)), ("supports_confirmation_reply", json!(confirm)), ("supports_clarification_reply", json!(clarify))] {
            if !value.is_null() {
                wish[name] = value;
            }
        }
        let offer = Offer { max_events_per_second: cap, ..offer() };
        let Ok(agreement) = negotiate(&request(wish), &offer, 0) else { return Ok(()) };
        let honored = serde_json::to_value(agreement.terms.honored()).unwrap();
        let among = |name: &str, asked: &Value, default: Value| {
            let asked = if asked.is_null() { default } else { asked.clone() };
            honored.get(name).is_none_or(|h| h.as_array().unwrap().iter().all(|x| asked.as_array().unwrap().contains(x)))
        };
        prop_assert!(rate.is_none_or(|r| honored["max_events_per_second"].as_u64().unwrap() <= r.into()));
        prop_assert!(among("languages", &json!(languages), json!(["en-US"])));
        prop_assert!(among("coalesce_boundaries", &json!(boundaries), json!(["sentence", "completion"])));
        prop_assert!(among("supported_conformance_levels", &json!(levels), json!([1])));
        prop_assert!(honored["supports_confirmation_reply"] == json!(confirm == Some(true)));
        prop_assert!(honored["supports_clarification_reply"] == json!(clarify == Some(true)));
        prop_assert_eq!(&honored["event_filters"]["exclude"], &json!(exclude));
    }
}

#[test]
fn a_filter_with_too_many_patterns_is_refused_by_name() {
    let patterns: Vec<String> = (0..=limits::FILTER_PATTERNS).map(|n| format!("x:{n}")).collect();
    for list in ["include", "exclude"] {
        let rejection = refuse(json!({"event_filters": {list: patterns}}), &offer());
        assert_eq!(rejection.reason_code, ReasonCode::CapabilitiesIncompatible);
        assert_eq!(rejection.message, format!("event_filters.{list} has 257 patterns. Send at most 256."));
        agree(json!({"event_filters": {list: patterns[1..]}}));
    }
}

#[test]
fn capabilities_without_effect_are_not_kept() {
    let uri = format!("https://example.org/{}", "x".repeat(10_000));
    let terms = agree(json!({
        "supported_extensions": [uri, MORE_TIME_URI],
        "haptic": {"pulse": "x".repeat(10_000)},
        "more_time": {"factor": 2, "why": "x".repeat(10_000)},
    }))
    .terms;
    assert_eq!(terms.more_time().factor, 2);
    let kept = memory_after_change(&terms, &Capabilities::default());
    assert!(kept < 4_000, "{kept} bytes");
    let filters: Capabilities =
        serde_json::from_value(json!({"event_filters": {"include": ["x".repeat(250)]}})).unwrap();
    assert!(memory_after_change(&terms, &filters) > kept + 1_000);
}

#[test]
fn subscription_that_can_never_answer_is_told_so() {
    let notes = |capabilities: Value| {
        let agreement = negotiate(&request(capabilities), &Offer::default(), 0).unwrap();
        agreement.notes.unwrap_or_default()
    };
    let neither = notes(json!({}));
    assert!(neither.contains("cannot answer questions"), "{neither}");
    assert!(neither.contains("supports_confirmation_reply") && neither.contains("supports_clarification_reply"));
    let confirming = notes(json!({"supports_confirmation_reply": true}));
    assert!(confirming.contains("cannot answer clarifications"), "{confirming}");
    let clarifying = notes(json!({"supports_clarification_reply": true}));
    assert!(clarifying.contains("cannot answer confirmations"), "{clarifying}");
    assert_eq!(notes(replying(json!({}))), "");
}
