//! Terms of our own extensions, and what a subscriber is told about replies.

use serde_json::{Map, Value};

use super::Rejection;
use crate::message::{Capabilities, CapabilityFields, ReasonCode};

/// The extension capability by which a subscriber asks for more time to answer; see `docs/reference/more-time.md`.
pub const MORE_TIME_PREFIX: &str = "more_time";
/// Its vocabulary.
pub const MORE_TIME_URI: &str = "urn:aaep:extension:more-time:1";

/// The extension by which a subscriber asks an agent to stop; see `docs/reference/cancellation.md`. As a capability it is
/// an empty object.
pub const CANCELLATION_PREFIX: &str = "cancellation";
/// Its vocabulary.
pub const CANCELLATION_URI: &str = "urn:aaep:extension:cancellation:1";

/// The extension capability that names the user whom a subscription is for, if it is not the subscriber's own; see
/// `docs/reference/users.md`.
pub const USERS_PREFIX: &str = "users";
/// Its vocabulary.
pub const USERS_URI: &str = "urn:aaep:extension:users:1";

/// Returns the user whom a subscription should be for, or `None` if the capabilities name none.
///
/// ```
/// use aaep_proto::message::Capabilities;
/// use aaep_proto::negotiate::requested_user;
/// let capabilities: Capabilities = serde_json::from_str(r#"{"users": {"user": "ada"}}"#)?;
/// assert_eq!(requested_user(&capabilities), Ok(Some("ada")));
/// let malformed: Capabilities = serde_json::from_str(r#"{"users": {}}"#)?;
/// assert!(requested_user(&malformed).is_err());
/// # Ok::<(), serde_json::Error>(())
/// ```
pub fn requested_user(capabilities: &Capabilities) -> Result<Option<&str>, Rejection> {
    let Some(users) = capabilities.extensions.get(USERS_PREFIX) else { return Ok(None) };
    match users.get("user").and_then(Value::as_str) {
        Some(user) => Ok(Some(user)),
        None => Err(Rejection::new(
            ReasonCode::CapabilitiesIncompatible,
            r#"users: name one user, such as {"user": "ada"}, or leave it out."#,
        )),
    }
}

/// Rejects a change of terms that names another user: a subscription belongs to one user.
pub(super) fn check_same_user(requested: &Capabilities, changes: &Capabilities) -> Result<(), Rejection> {
    if !changes.extensions.contains_key(USERS_PREFIX) || requested_user(requested)? == requested_user(changes)? {
        return Ok(());
    }
    let message = "users: a subscription stays with its user. Open another subscription for another user.";
    Err(Rejection::new(ReasonCode::CapabilitiesIncompatible, message))
}

/// Extends timeouts for users who need more time (6.4.2, WCAG 2.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MoreTime {
    /// Timeouts are multiplied by this, 1 to 10.
    pub factor: u32,
    /// No timeout is shorter than this many seconds.
    pub minimum_seconds: u32,
}

impl MoreTime {
    /// As much time as the agent planned.
    pub const NONE: MoreTime = MoreTime { factor: 1, minimum_seconds: 0 };

    /// The timeout that a question gets.
    pub fn stretch(self, seconds: u32) -> u32 {
        seconds.saturating_mul(self.factor).max(self.minimum_seconds).clamp(1, 86_400)
    }
}

pub(super) fn agree_more_time(requested: &Capabilities, notes: &mut Vec<String>) -> Option<MoreTime> {
    let wish = requested.extensions.get(MORE_TIME_PREFIX)?;
    let number = |name: &str, default: u64| wish.get(name).and_then(Value::as_u64).unwrap_or(default);
    let (factor, minimum) = (number("factor", 1), number("minimum_seconds", 0));
    // Both are bounded above: what does not fit was more than can be granted anyway.
    let granted = MoreTime {
        factor: u32::try_from(factor.clamp(1, 10)).unwrap_or(10),
        minimum_seconds: u32::try_from(minimum.min(86_400)).unwrap_or(86_400),
    };
    if factor != u64::from(granted.factor) || minimum != u64::from(granted.minimum_seconds) {
        notes.push(format!("Time to answer is at most ten times the usual, here {} times.", granted.factor));
    }
    Some(granted)
}

/// Returns whether the subscription may ask agents to stop: it asked for that, and may answer questions. An extension that
/// is not offered was removed from the request.
pub(super) fn agree_cancellation(requested: &Capabilities, notes: &mut Vec<String>) -> bool {
    let asked = requested.extensions.contains_key(CANCELLATION_PREFIX);
    let fields = &requested.fields;
    let can_reply = [fields.supports_confirmation_reply, fields.supports_clarification_reply].contains(&Some(true));
    if asked && !can_reply {
        notes.push("Only a subscription that can answer questions may ask an agent to stop.".to_owned());
    }
    asked && can_reply
}

/// Notes which questions the subscription can never answer, since an agent learns of it only when it asks one.
pub(super) fn note_missing_replies(asked: &CapabilityFields, notes: &mut Vec<String>) {
    let confirm = asked.supports_confirmation_reply == Some(true);
    let clarify = asked.supports_clarification_reply == Some(true);
    let note = match (confirm, clarify) {
        (true, true) => return,
        (false, true) => {
            "This subscription cannot answer confirmations. To answer them, set supports_confirmation_reply to true."
        }
        (true, false) => {
            "This subscription cannot answer clarifications. To answer them, set supports_clarification_reply to true."
        }
        (false, false) => {
            "This subscription cannot answer questions. To answer them, set supports_confirmation_reply and \
             supports_clarification_reply to true."
        }
    };
    notes.push(note.to_owned());
}

pub(super) fn more_time_object(more: MoreTime) -> Map<String, Value> {
    let mut map = Map::new();
    map.insert("factor".into(), more.factor.into());
    map.insert("minimum_seconds".into(), more.minimum_seconds.into());
    map
}
