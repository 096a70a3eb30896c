//! The permit: the proof that the user accepted a call. Only the engine makes permits, in
//! `Permits::issue`; they cannot be copied and are consumed by use.

use std::fmt;
use std::str::FromStr;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::outcome::Resolution;
use crate::id::{ReplyToken, SessionId};
use crate::message::{AwaitingConfirmation, Decision, RiskLevel};
use crate::time::Moment;

/// The digest of a tool call: of the tool's name and its arguments.
///
/// ```
/// use aaep_proto::confirm::CallDigest;
/// use serde_json::json;
/// let asked = CallDigest::of("transfer", &json!({"to": "savings", "amount": 500}));
/// assert_eq!(asked, CallDigest::of("transfer", &json!({"amount": 500, "to": "savings"})));
/// assert_ne!(asked, CallDigest::of("transfer", &json!({"amount": 5000, "to": "savings"})));
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct CallDigest([u8; 32]);

impl CallDigest {
    /// Computes the digest of a call. Objects are serialized with sorted keys, so the order of their fields does not
    /// matter.
    ///
    /// The digest covers exactly the content of `arguments`. A caller that parses them from text must refuse text that
    /// a [`Value`] cannot represent, such as a duplicate key or an integer beyond 64 bits.
    pub fn of(tool: &str, arguments: &Value) -> CallDigest {
        // JSON objects are kept sorted by key, so this text is canonical.
        let text = json!({"arguments": arguments, "tool": tool}).to_string();
        CallDigest(Sha256::digest(text.as_bytes()).into())
    }
}

impl fmt::Display for CallDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sha256:")?;
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

/// The error for text that is not a call digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseDigestError;

impl fmt::Display for ParseDigestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("must be sha256: followed by 64 hexadecimal digits")
    }
}

impl std::error::Error for ParseDigestError {}

impl FromStr for CallDigest {
    type Err = ParseDigestError;

    fn from_str(text: &str) -> Result<CallDigest, ParseDigestError> {
        let digits = text.strip_prefix("sha256:").ok_or(ParseDigestError)?.as_bytes();
        let mut bytes = [0; 32];
        if digits.len() != 2 * bytes.len() {
            return Err(ParseDigestError);
        }
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |d: u8| char::from(d).to_digit(16).ok_or(ParseDigestError);
            *byte = (digit(pair[0])? * 16 + digit(pair[1])?) as u8;
        }
        Ok(CallDigest(bytes))
    }
}

impl fmt::Debug for CallDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// How an irreversible call was accepted.
///
/// Exhaustive on purpose: another way to accept an irreversible call must not pass unnoticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acceptance {
    /// By a reply.
    Reply,
    /// By the only default that 6.4.1 allows: the question was asked as irreversible, with low risk and with
    /// `default_decision: accept`, and nobody replied.
    Default,
}

impl Acceptance {
    /// Returns how a confirmation with this resolution permits an irreversible call, or `None` if it does not. A
    /// question that was not asked as irreversible permits none, whatever the reply (decision 60).
    pub(crate) fn of(asked: &AwaitingConfirmation, resolution: Resolution) -> Option<Acceptance> {
        let default_allowed =
            asked.default_decision == Decision::Accept && asked.risk_level.as_ref() == Some(&RiskLevel::Low);
        match resolution {
            _ if !asked.is_irreversible() => None,
            Resolution::Accepted => Some(Acceptance::Reply),
            Resolution::TimedOut | Resolution::NobodyCouldAnswer | Resolution::SubscriberLeft if default_allowed => {
                Some(Acceptance::Default)
            }
            _ => None,
        }
    }
}

/// The content of a permit: the accepted question, how it was accepted, the call, and the expiry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) session: SessionId,
    pub(crate) token: ReplyToken,
    pub(crate) call: CallDigest,
    pub(crate) acceptance: Acceptance,
    pub(crate) expires: Moment,
}

/// A permit for one irreversible call. Only a confirmation that was asked as irreversible, for a named call, and
/// accepted yields one. It is valid for ten minutes after the decision.
///
/// It cannot be cloned or constructed:
///
/// ```compile_fail
/// fn twice(permit: aaep_proto::confirm::Permit) -> (aaep_proto::confirm::Permit, aaep_proto::confirm::Permit) {
///     (permit.clone(), permit)
/// }
/// ```
#[derive(Debug, PartialEq, Eq)]
pub struct Permit(Grant);

/// The reason why a permit does not permit a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PermitError {
    /// The permit is for another call or another session.
    OtherCall,
    /// The permit was used before.
    Used,
    /// The permit was not used in time.
    Expired,
}

impl fmt::Display for PermitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PermitError::OtherCall => "the user agreed to another call than this one",
            PermitError::Used => "the permit was used before; ask again",
            PermitError::Expired => "the permit has expired; ask again",
        })
    }
}

impl std::error::Error for PermitError {}

impl Permit {
    /// Creates a permit. No other function does.
    pub(crate) fn new(grant: Grant) -> Permit {
        Permit(grant)
    }

    /// Returns the token of the accepted question.
    pub fn token(&self) -> &ReplyToken {
        &self.0.token
    }

    /// Returns how the question was accepted.
    pub fn acceptance(&self) -> Acceptance {
        self.0.acceptance
    }

    /// Returns whether this permits exactly the given call.
    pub fn covers(&self, session: &SessionId, call: &CallDigest) -> bool {
        self.0.session == *session && self.0.call == *call
    }

    /// Uses the permit for a call.
    pub(crate) fn spend(self, session: &SessionId, call: &CallDigest, now: Moment) -> Result<(), PermitError> {
        if !self.covers(session, call) {
            return Err(PermitError::OtherCall);
        }
        if now >= self.0.expires { Err(PermitError::Expired) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::confirm::Confirmation;
    use crate::message::Reversibility;

    #[test]
    fn a_fingerprint_can_be_read_again() {
        let call = CallDigest::of("delete", &json!({"id": 1}));
        assert_eq!(call.to_string().parse(), Ok(call));
        for bad in ["", "sha256:", "sha256:00", &call.to_string().replace("sha256", "md5"), &format!("{call}0")] {
            assert_eq!(bad.parse::<CallDigest>(), Err(ParseDigestError), "{bad}");
        }
    }

    fn permit() -> Permit {
        Permit::new(Grant {
            session: "sess_1".parse().unwrap(),
            token: "rpl_1".parse().unwrap(),
            call: CallDigest::of("delete", &json!({"id": 1})),
            acceptance: Acceptance::Reply,
            expires: Moment::default().plus_seconds(600),
        })
    }

    #[test]
    fn a_permit_covers_one_call_in_one_session() {
        let (session, other): (SessionId, SessionId) = ("sess_1".parse().unwrap(), "sess_2".parse().unwrap());
        let spend = |session: &SessionId, tool: &str, arguments: Value| {
            permit().spend(session, &CallDigest::of(tool, &arguments), Moment::default())
        };
        assert_eq!(spend(&session, "delete", json!({"id": 1})), Ok(()));
        assert_eq!(spend(&other, "delete", json!({"id": 1})), Err(PermitError::OtherCall));
        assert_eq!(spend(&session, "delete", json!({"id": 2})), Err(PermitError::OtherCall));
        assert_eq!(spend(&session, "remove", json!({"id": 1})), Err(PermitError::OtherCall));
    }

    #[test]
    fn a_permit_expires() {
        let (session, call) = ("sess_1".parse().unwrap(), CallDigest::of("delete", &json!({"id": 1})));
        let at = |seconds| permit().spend(&session, &call, Moment::default().plus_seconds(seconds));
        assert_eq!((at(599), at(600)), (Ok(()), Err(PermitError::Expired)));
    }

    #[test]
    fn only_a_yes_to_an_irreversible_question_or_its_allowed_default_permits() {
        let verdicts = [
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
        let stated = [
            (None, None, false),
            (Some(false), None, false),
            (Some(true), None, true),
            (None, Some(Reversibility::Irreversible), true),
            (Some(false), Some(Reversibility::Irreversible), true),
            (None, Some(Reversibility::ReversibleWithEffort), false),
        ];
        let risks = [None, Some(RiskLevel::Low), Some(RiskLevel::Medium), Some(RiskLevel::High)];
        for (irreversible, reversibility, counts) in stated {
            for risk in &risks {
                for default in [Decision::Accept, Decision::Reject] {
                    let mut asked = Confirmation::new("a", "b").payload("rpl_1".parse().unwrap(), 1);
                    (asked.irreversible, asked.reversibility) = (irreversible, reversibility.clone());
                    (asked.risk_level, asked.default_decision) = (risk.clone(), default.clone());
                    let by_default = counts && *risk == Some(RiskLevel::Low) && default == Decision::Accept;
                    for resolution in verdicts {
                        let expected = match resolution {
                            Resolution::Accepted if counts => Some(Acceptance::Reply),
                            Resolution::TimedOut | Resolution::NobodyCouldAnswer | Resolution::SubscriberLeft
                                if by_default =>
                            {
                                Some(Acceptance::Default)
                            }
                            _ => None,
                        };
                        assert_eq!(Acceptance::of(&asked, resolution), expected, "{asked:?} {resolution:?}");
                    }
                }
            }
        }
    }
}
