//! The outcome of a question, and its audit record.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::permit::Permit;
use super::question::CONSENT_PREFIX;
use crate::id::{ReplyToken, SessionId, SubscriptionId};
use crate::message::{Decision, Event, Payload, Response};
use crate::time::Timestamp;

/// Returns the token of the question that a state change resolves, and its resolution as a word, if the consent extension
/// reports them.
///
/// ```
/// use aaep_proto::confirm::reported_outcome;
/// let event = serde_json::from_str(r#"{"@context":["https://aaep-protocol.org/context/v1","urn:aaep:extension:consent:1"],
///   "type":"aaep:agent.state.changed","event_id":"evt_1","session_id":"sess_1","timestamp":"2026-05-24T14:22:13Z",
///   "producer":{"agent_id":"a"},"from_state":"awaiting_input","to_state":"thinking",
///   "extensions":{"consent":{"reply_token":"rpl_1","outcome":"rejected"}}}"#)?;
/// let (token, word) = reported_outcome(&event).expect("it names both");
/// assert_eq!((token.as_str(), word), ("rpl_1", "rejected"));
/// # Ok::<(), serde_json::Error>(())
/// ```
pub fn reported_outcome(event: &Event) -> Option<(ReplyToken, &str)> {
    let Payload::StateChanged(_) = event.payload else { return None };
    let consent = event.envelope.extensions.as_ref()?.get(CONSENT_PREFIX)?;
    Some((consent.get("reply_token")?.as_str()?.parse().ok()?, consent.get("outcome")?.as_str()?))
}

/// How a question was resolved. A timeout is distinct from a rejection by the user.
///
/// Exhaustive on purpose: an agent that acts on a resolution has to decide about each of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resolution {
    /// The user accepted.
    Accepted,
    /// The user rejected.
    Rejected,
    /// The user answered the clarification.
    Answered,
    /// No reply arrived before the deadline.
    TimedOut,
    /// No subscriber supports replies to this kind of question.
    NobodyCouldAnswer,
    /// The last subscriber that could have replied left.
    SubscriberLeft,
    /// The agent withdrew the question, or its session ended.
    Cancelled,
    /// Another question replaced this one.
    Superseded,
    /// The question or its reply could not be recorded. An unrecorded decision counts as a rejection.
    NotRecorded,
}

impl Resolution {
    /// All resolutions.
    pub const ALL: [Resolution; 9] = [
        Resolution::Accepted,
        Resolution::Rejected,
        Resolution::Answered,
        Resolution::TimedOut,
        Resolution::NobodyCouldAnswer,
        Resolution::SubscriberLeft,
        Resolution::Cancelled,
        Resolution::Superseded,
        Resolution::NotRecorded,
    ];

    /// Returns the name of the resolution on the wire and in records.
    pub fn as_str(self) -> &'static str {
        match self {
            Resolution::Accepted => "accepted",
            Resolution::Rejected => "rejected",
            Resolution::Answered => "answered",
            Resolution::TimedOut => "timed_out",
            Resolution::NobodyCouldAnswer => "nobody_could_answer",
            Resolution::SubscriberLeft => "subscriber_left",
            Resolution::Cancelled => "cancelled",
            Resolution::Superseded => "superseded",
            Resolution::NotRecorded => "not_recorded",
        }
    }
}

/// The outcome of a confirmation.
#[derive(Debug, PartialEq)]
pub struct ConfirmationOutcome {
    /// The decision of the user, or the default.
    pub decision: Decision,
    /// How the question was resolved.
    pub resolution: Resolution,
    /// The permit for the irreversible call of the question. It is present only if the question was asked as
    /// irreversible, named its call, and was accepted. Accepting any other question permits nothing irreversible.
    pub permit: Option<Permit>,
    /// The action that the user wants instead, if the agent allowed modified actions.
    pub modified_action: Option<Map<String, Value>>,
}

/// The outcome of a clarification.
#[derive(Clone, Debug, PartialEq)]
pub struct ClarificationOutcome {
    /// The response of the user, or the agent's default response, or `None`.
    pub response: Option<Response>,
    /// How the question was resolved.
    pub resolution: Resolution,
}

/// The audit record of a decision: by whom, when, on which subscription, how, and what was shown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AuditRecord {
    /// The reply token of the question.
    pub reply_token: ReplyToken,
    /// The session that asked.
    pub session_id: SessionId,
    /// When it was asked.
    pub asked_at: Timestamp,
    /// When it was decided.
    pub decided_at: Timestamp,
    /// How it was resolved.
    #[serde(rename = "verdict")]
    pub resolution: Resolution,
    /// The decision, or `None` for a clarification.
    pub decision: Option<Decision>,
    /// The principal that replied, as proved by the transport.
    pub principal: Option<String>,
    /// The person that replied, as claimed by the subscriber.
    pub decided_by: Option<String>,
    /// The subscription that the reply came from.
    pub subscription_id: Option<SubscriptionId>,
    /// The action or question that was shown.
    pub shown: String,
    /// The consequence that was shown.
    pub consequence: Option<String>,
    /// The digest of the call that was asked about.
    pub call: Option<String>,
}
