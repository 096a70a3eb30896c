//! The proof that the user agreed. It is made in this file alone, cannot be copied, and is spent by use.

use std::fmt;

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
