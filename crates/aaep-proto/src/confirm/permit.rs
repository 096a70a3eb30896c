//! The proof that the user agreed. It is made in this file alone, cannot be copied, and is spent by use.

use std::fmt;
use std::str::FromStr;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::id::{ReplyToken, SessionId};

/// What the user agreed to: the fingerprint of a tool's name and its arguments.
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
    /// The fingerprint of a call. Objects are written with sorted keys, so their order does not matter.
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

/// Text that is not a fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidDigest;

impl fmt::Display for InvalidDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("must be sha256: followed by 64 hexadecimal digits")
    }
}

impl std::error::Error for InvalidDigest {}

impl FromStr for CallDigest {
    type Err = InvalidDigest;

    fn from_str(text: &str) -> Result<CallDigest, InvalidDigest> {
        let digits = text.strip_prefix("sha256:").ok_or(InvalidDigest)?.as_bytes();
        let mut bytes = [0; 32];
        if digits.len() != 2 * bytes.len() {
            return Err(InvalidDigest);
        }
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |d: u8| char::from(d).to_digit(16).ok_or(InvalidDigest);
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

/// Permission for one irreversible call. Only an accepted confirmation yields one.
///
/// It cannot be copied or made up:
///
/// ```compile_fail
/// fn twice(permit: aaep_proto::confirm::Permit) -> (aaep_proto::confirm::Permit, aaep_proto::confirm::Permit) {
///     (permit.clone(), permit)
/// }
/// ```
#[derive(Debug, PartialEq, Eq)]
pub struct Permit {
    session: SessionId,
    token: ReplyToken,
    call: Option<CallDigest>,
}

/// A permit for something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PermitMismatch;

impl fmt::Display for PermitMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the user agreed to another call than this one")
    }
}

impl std::error::Error for PermitMismatch {}

impl Permit {
    pub(crate) fn grant(session: SessionId, token: ReplyToken, call: Option<CallDigest>) -> Permit {
        Permit { session, token, call }
    }

    /// The question that was accepted.
    pub fn token(&self) -> &ReplyToken {
        &self.token
    }

    /// Whether this permits exactly that call.
    pub fn covers(&self, session: &SessionId, call: &CallDigest) -> bool {
        self.session == *session && self.call == Some(*call)
    }

    /// Spends the permit on a call.
    pub(crate) fn spend(self, session: &SessionId, call: &CallDigest) -> Result<(), PermitMismatch> {
        if self.covers(session, call) { Ok(()) } else { Err(PermitMismatch) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_can_be_read_again() {
        let call = CallDigest::of("delete", &json!({"id": 1}));
        assert_eq!(call.to_string().parse(), Ok(call));
        for bad in ["", "sha256:", "sha256:00", &call.to_string().replace("sha256", "md5"), &format!("{call}0")] {
            assert_eq!(bad.parse::<CallDigest>(), Err(InvalidDigest), "{bad}");
        }
    }

    #[test]
    fn a_permit_covers_one_call_in_one_session() {
        let (session, other): (SessionId, SessionId) = ("sess_1".parse().unwrap(), "sess_2".parse().unwrap());
        let call = CallDigest::of("delete", &json!({"id": 1}));
        let permit = |call| Permit::grant(session.clone(), "rpl_1".parse().unwrap(), call);
        assert_eq!(permit(Some(call)).spend(&session, &call), Ok(()));
        assert_eq!(permit(Some(call)).spend(&other, &call), Err(PermitMismatch));
        assert_eq!(
            permit(Some(call)).spend(&session, &CallDigest::of("delete", &json!({"id": 2}))),
            Err(PermitMismatch)
        );
        assert_eq!(
            permit(Some(call)).spend(&session, &CallDigest::of("remove", &json!({"id": 1}))),
            Err(PermitMismatch)
        );
        // Agreement to something in general permits no call in particular.
        assert_eq!(permit(None).spend(&session, &call), Err(PermitMismatch));
    }
}
