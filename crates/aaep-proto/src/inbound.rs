//! What a producer reads from a subscriber: a message, or the answer that an invalid one gets (5.5, 5.7).
//!
//! Every `subscription.request` and `subscription.renegotiate` is answered, also an invalid one: the refusal names the
//! field and what to do. Replies get no answer, so that nobody learns anything about tokens (6.3.4).

use crate::id::SubscriptionId;
use crate::json::Json;
use crate::limits;
use crate::message::{AAEP_VERSION, Message, MessageType, ReasonCode, SubscriptionRequest};
use crate::negotiate::Rejection;
use crate::rule::{Problem, Rule, Severity};
use crate::validate::Validator;

/// What a subscriber sent.
///
/// Exhaustive on purpose: every transport has to answer each of them.
///
/// ```
/// use aaep_proto::inbound::Inbound;
/// let Inbound::Refused(rejection) = Inbound::read(br#"{"type":"subscription.request","subscriber_id":"reader",
///     "aaep_version":"1.0.0","capabilities":{"pace_wpm":5}}"#) else { unreachable!() };
/// assert_eq!(rejection.message, "capabilities.pace_wpm: pace_wpm must be from 50 to 1000.");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Inbound {
    /// A valid request for a subscription.
    Request(Box<SubscriptionRequest>),
    /// Another valid message.
    Message(Message),
    /// An invalid request for a subscription, and the answer to it.
    Refused(Rejection),
    /// An invalid renegotiation: the subscription that it names, if it names one, and the answer to it.
    RefusedChange(Option<SubscriptionId>, Rejection),
    /// Anything else that is not valid, with the rejection for a peer that should have sent a request.
    Invalid(Rejection),
}

impl Inbound {
    /// Reads one message.
    pub fn read(bytes: &[u8]) -> Inbound {
        let json = match Json::parse_from_peer(bytes) {
            Ok(json) => json,
            Err(error) => {
                let message = format!("This is not JSON: {error}. Send one UTF-8 JSON object.");
                return Inbound::Invalid(rejection(ReasonCode::Unknown, &message));
            }
        };
        let report = Validator::new().check_json(&json, Some(bytes.len()));
        // A claim of level 2 that does not hold is for the negotiation to judge: level 1 may be left.
        let fatal = |problem: &&Problem| problem.severity == Severity::Error && problem.rule != Rule::CapabilityLevel2;
        let message = match report.problems.iter().find(fatal) {
            Some(problem) => Err(refusal_of(problem)),
            None => Message::from_json(&json).map_err(|error| rejection(ReasonCode::Unknown, &error.to_string())),
        };
        let kind = json.get("type").and_then(Json::text).and_then(MessageType::parse);
        match (message, kind) {
            (Ok(Message::SubscriptionRequest(request)), _) => Inbound::Request(request),
            (Ok(message), _) => Inbound::Message(message),
            (Err(rejection), Some(MessageType::SubscriptionRequest)) => {
                Inbound::Refused(other_version(&json).unwrap_or(rejection))
            }
            (Err(rejection), Some(MessageType::SubscriptionRenegotiate)) => {
                let named = json.get("subscription_id").and_then(Json::text).and_then(|id| id.parse().ok());
                Inbound::RefusedChange(named, rejection)
            }
            (Err(rejection), _) => Inbound::Invalid(rejection),
        }
    }

    /// Returns the request that starts a connection, or the rejection of any other message.
    pub fn into_request(self) -> Result<Box<SubscriptionRequest>, Rejection> {
        match self {
            Inbound::Request(request) => Ok(request),
            Inbound::Refused(rejection) | Inbound::RefusedChange(_, rejection) => Err(rejection),
            Inbound::Message(_) => Err(rejection(ReasonCode::Unknown, "type: send a subscription.request first.")),
            // The type of an invalid message cannot be trusted, so the text is about the request that was expected.
            Inbound::Invalid(invalid) if invalid.message.starts_with("This is not JSON") => Err(invalid),
            Inbound::Invalid(_) => {
                let message = "type: must be subscription.request. Send one valid subscription.request.";
                Err(rejection(ReasonCode::Unknown, message))
            }
        }
    }
}

/// The refusal of a request that is written for another major version: its fields are not ours to judge.
fn other_version(json: &Json<'_>) -> Option<Rejection> {
    let wanted = json.get("aaep_version").and_then(Json::text)?;
    let major = |version: &str| version.split('.').next().and_then(|major| major.parse::<u64>().ok());
    let other = major(wanted).is_some_and(|wanted| Some(wanted) != major(AAEP_VERSION));
    let shown: String = wanted.chars().take(limits::NAME_CHARACTERS).collect();
    let message = format!("aaep_version: version {shown} is not supported. Ask for {AAEP_VERSION}.");
    other.then(|| rejection(ReasonCode::VersionUnsupported, &message))
}

/// Returns the rejection for a problem, with the field and what to do.
fn refusal_of(problem: &Problem) -> Rejection {
    let field = problem.pointer.trim_start_matches('/').replace('/', ".");
    let reason_code = match field.split('.').next() {
        Some("aaep_version") => ReasonCode::VersionUnsupported,
        Some("capabilities") => ReasonCode::CapabilitiesIncompatible,
        _ => ReasonCode::Unknown,
    };
    let separator = if field.is_empty() { "" } else { ": " };
    rejection(reason_code, &format!("{field}{separator}{}", problem.message))
}

/// A refusal with as much of a text as an answer should repeat.
fn rejection(reason_code: ReasonCode, message: &str) -> Rejection {
    let message: String = message.chars().take(limits::NOTICE_CHARACTERS).collect();
    Rejection::new(reason_code, message)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn request(changes: &Value) -> Vec<u8> {
        let mut request = json!({"type": "subscription.request", "aaep_version": "1.0.0", "subscriber_id": "reader",
            "capabilities": {}});
        request.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        request.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        request.to_string().into_bytes()
    }

    fn refused(changes: &Value) -> (String, String) {
        let Inbound::Refused(rejection) = Inbound::read(&request(changes)) else { panic!("{changes} is fine") };
        (rejection.reason_code.as_str().to_owned(), rejection.message)
    }

    #[test]
    fn an_invalid_request_is_refused_with_the_field_and_what_to_do() {
        for (changes, code, field, advice) in [
            (json!({"subscriber_id": null}), "unknown", "subscriber_id:", "Add subscriber_id"),
            (json!({"more": 1}), "unknown", "more:", "Remove more"),
            (json!({"aaep_version": "one"}), "version_unsupported", "aaep_version:", "such as 1.0.0"),
            (json!({"aaep_version": "2.0.0", "new": 1}), "version_unsupported", "aaep_version:", "Ask for 1.0.0"),
            (
                json!({"capabilities": {"languages": "de"}}),
                "capabilities_incompatible",
                "capabilities.languages:",
                "an array",
            ),
            (
                json!({"capabilities": {"event_filters": {"include": [1]}}}),
                "capabilities_incompatible",
                "capabilities.event_filters",
                "must be",
            ),
        ] {
            let (found, message) = refused(&changes);
            assert_eq!(found, code, "{message}");
            assert!(message.starts_with(field) && message.contains(advice), "{message}");
        }
    }

    #[test]
    fn a_claim_of_level_2_without_replies_is_left_to_the_negotiation() {
        let changes = json!({"capabilities": {"supported_conformance_levels": [1, 2]}});
        assert!(matches!(Inbound::read(&request(&changes)), Inbound::Request(_)));
    }

    #[test]
    fn an_invalid_renegotiation_names_its_subscription_if_it_can() {
        let read = |text: &str| match Inbound::read(text.as_bytes()) {
            Inbound::RefusedChange(named, rejection) => (named.map(|id| id.to_string()), rejection.message),
            other => panic!("{other:?}"),
        };
        let (named, message) = read(
            r#"{"type":"subscription.renegotiate","subscription_id":"sub_1","capabilities":{"max_events_per_second":0}}"#,
        );
        assert_eq!(named.as_deref(), Some("sub_1"));
        assert!(message.starts_with("capabilities.max_events_per_second: "), "{message}");
        let (named, message) = read(r#"{"type":"subscription.renegotiate","capabilities":{}}"#);
        assert_eq!((named, message.as_str()), (None, "subscription_id: Add subscription_id: it is required."));
    }

    #[test]
    fn whatever_comes_instead_of_a_request_is_answered() {
        let answer = |bytes: &[u8]| Inbound::read(bytes).into_request().unwrap_err().message;
        assert!(answer(b"{").starts_with("This is not JSON"));
        assert!(answer(b"\xff").starts_with("This is not JSON"));
        assert!(answer(b"[]").contains("subscription.request"));
        assert!(answer(br#"{"type":"subscription.close","subscription_id":"sub_1"}"#).contains("subscription.request"));
        assert!(answer(br#"{"type":"confirmation.reply"}"#).contains("subscription.request"));
        assert!(answer(br#"{"type":"subscription.renegotiate"}"#).starts_with("subscription_id: "));
        assert!(Inbound::read(&request(&json!({}))).into_request().is_ok());
    }

    proptest! {
        #[test]
        fn answers_are_messages_that_keep_the_rules(bytes in ".{0,300}", name in "[a-z]{1,300}", long in ".{0,300}") {
            let request = request(&json!({"subscriber_id": null, (name): long}));
            for bytes in [bytes.as_bytes(), request.as_slice()] {
                let Err(rejection) = Inbound::read(bytes).into_request() else { continue };
                let message: Message = rejection.to_message().into();
                let json = serde_json::to_vec(&message).unwrap();
                prop_assert!(crate::validate(&json).is_valid(), "{}", rejection.message);
            }
        }
    }
}
