//! Permits for irreversible calls: only [`Permits::issue`] makes them, and each is used at most once.

use std::collections::BTreeMap;

use crate::confirm::{Grant, Permit};
use crate::id::{ReplyToken, SessionId, ToolCallId};
use crate::limits;
use crate::message::Event;
use crate::sequence::recent::Recent;
use crate::time::Moment;

/// An irreversible call that is emitted as soon as the journal has recorded the use of its permit.
#[derive(Debug, PartialEq)]
pub(super) struct PendingCall {
    pub(super) session: SessionId,
    pub(super) id: ToolCallId,
    pub(super) tool: String,
    pub(super) event: Event,
}

/// Which permits were used, and the calls that wait for the record of their use.
pub(super) struct Permits {
    /// Tokens of the questions whose permits were used.
    used: Recent,
    pending: BTreeMap<ReplyToken, PendingCall>,
}

impl Permits {
    pub(super) fn new() -> Permits {
        Permits { used: Recent::new(limits::REPLY_TOKENS), pending: BTreeMap::new() }
    }

    /// Makes the permit of a grant. Returns `None` if one was used already, or the grant has expired. An agent that lost
    /// its permit in a restart gets another one; only the first use of either counts.
    pub(super) fn issue(&self, grant: &Grant, now: Moment) -> Option<Permit> {
        (!self.is_used(&grant.token) && grant.expires > now).then(|| Permit::new(grant.clone()))
    }

    /// Whether the permit of this question was used, or its use is being recorded.
    pub(super) fn is_used(&self, token: &ReplyToken) -> bool {
        self.used.contains(token.as_str()) || self.pending.contains_key(token)
    }

    pub(super) fn mark_used(&mut self, token: &ReplyToken) {
        self.used.insert(token.as_str());
    }

    /// Keeps a call until the use of its permit is recorded.
    pub(super) fn add_pending(&mut self, token: ReplyToken, call: PendingCall) {
        self.pending.insert(token, call);
    }

    /// Takes a call that waited for the record.
    pub(super) fn take_pending(&mut self, token: &ReplyToken) -> Option<PendingCall> {
        self.pending.remove(token)
    }

    /// Whether a call of this session waits for the record.
    pub(super) fn has_pending(&self, session: &SessionId) -> bool {
        self.pending.values().any(|call| call.session == *session)
    }

    /// Gives up all calls of a session that wait for the record; returns their tokens. Their permits count as used.
    pub(super) fn drop_pending(&mut self, session: &SessionId) -> Vec<ReplyToken> {
        let of_session = self.pending.iter().filter(|(_, call)| call.session == *session);
        let tokens: Vec<ReplyToken> = of_session.map(|(token, _)| token.clone()).collect();
        for token in &tokens {
            self.pending.remove(token);
            self.mark_used(token);
        }
        tokens
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::confirm::{Acceptance, CallDigest};
    use serde_json::Value;

    fn grant() -> Grant {
        Grant {
            session: "sess_1".parse().unwrap(),
            token: "rpl_1".parse().unwrap(),
            call: CallDigest::of("delete", &Value::Null),
            acceptance: Acceptance::Reply,
            expires: Moment::default().plus_seconds(10),
        }
    }

    #[test]
    fn no_permit_is_made_after_one_was_used() {
        let (mut permits, now) = (Permits::new(), Moment::default());
        assert!(permits.issue(&grant(), now).is_some());
        permits.mark_used(&grant().token);
        assert_eq!(permits.issue(&grant(), now), None);
    }

    #[test]
    fn no_permit_is_made_after_the_grant_expired() {
        let permits = Permits::new();
        assert!(permits.issue(&grant(), Moment::default().plus_seconds(9)).is_some());
        assert_eq!(permits.issue(&grant(), Moment::default().plus_seconds(10)), None);
    }
}
