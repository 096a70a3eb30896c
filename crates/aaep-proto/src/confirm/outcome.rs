//! How a question ended, and the record that is kept of it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::permit::Permit;
use crate::id::{ReplyToken, SessionId, SubscriptionId};
use crate::message::{Decision, Response};
use crate::time::Timestamp;

/// Why a question ended as it did. A timeout is never the user's refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resolution {
    /// The user said yes.
    Accepted,
    /// The user said no.
    Rejected,
    /// The user answered the question.
    Answered,
    /// Nobody answered in time.
    TimedOut,
    /// Nobody who listens could have answered.
    NobodyCouldAnswer,
    /// The last one who could have answered left.
    SubscriberLeft,
    /// The agent withdrew the question, or its session ended.
    Cancelled,
    /// Another question took its place.
    Superseded,
    /// The question or its answer could not be put on record: what nobody can prove later counts as no.
    NotRecorded,
}

impl Resolution {
    /// The word for it on the wire and in records.
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

/// How a confirmation ended.
#[derive(Debug, PartialEq)]
pub struct ConfirmationOutcome {
    /// What applies: the user's decision, or the default.
    pub decision: Decision,
    /// Why.
    pub resolution: Resolution,
    /// The permission for the irreversible call that was asked about. It is there only if the question was asked as
    /// irreversible, named its call, and was accepted: a yes to any other question permits nothing irreversible.
    pub permit: Option<Permit>,
    /// What the user wants instead, if the agent said that it can handle that.
    pub modified_action: Option<Map<String, Value>>,
}

/// How a clarification ended.
#[derive(Clone, Debug, PartialEq)]
pub struct ClarificationOutcome {
    /// The user's answer, or the agent's own fallback, if there is either.
    pub response: Option<Response>,
    /// Why.
    pub resolution: Resolution,
}

/// What is kept of every decision: who, when, on which subscription, how, and what was shown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AuditRecord {
    /// The question.
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
    /// What applies then; nothing for a clarification.
    pub decision: Option<Decision>,
    /// Who answered, by the identity that the transport proved.
    pub principal: Option<String>,
    /// Who answered, by the subscriber's own word.
    pub decided_by: Option<String>,
    /// The subscription that answered.
    pub subscription_id: Option<SubscriptionId>,
    /// The action or question that was shown.
    pub shown: String,
    /// The consequence that was shown.
    pub consequence: Option<String>,
    /// The fingerprint of the call that was asked about.
    pub call: Option<String>,
}
