//! Signed tokens that were verified before, so that the signature is not verified for every request.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::{Arc, Mutex, PoisonError};

use aaep_keys::Identity;
use aaep_proto::time::Timestamp;

/// The most tokens that are remembered. When there are more, all are forgotten, and the next request of each verifies it.
const MAX_TOKENS: usize = 16_384;

/// Tokens whose signature was verified, with the identity that they gave.
#[derive(Debug, Default)]
pub(super) struct VerifiedTokens {
    /// By a keyed hash of the token, so that nobody can choose tokens that collide.
    tokens: Mutex<HashMap<u64, VerifiedToken>>,
    hasher: RandomState,
}

struct VerifiedToken {
    /// The whole token: a hash of 64 bits does not identify it.
    token: Box<str>,
    identity: Arc<Identity>,
    /// How often the credentials had changed.
    changes: u64,
}

/// Tokens are secrets and must not be logged.
impl std::fmt::Debug for VerifiedToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VerifiedToken").field("identity", &self.identity).finish_non_exhaustive()
    }
}

impl VerifiedTokens {
    /// Returns the identity of a token that was verified since the credentials changed last and has not expired. Otherwise
    /// verifies it. Failures are not remembered.
    pub(super) fn get_or_verify<E>(
        &self,
        token: &str,
        changes: u64,
        now: Timestamp,
        verify: impl FnOnce() -> Result<Identity, E>,
    ) -> Result<Arc<Identity>, E> {
        let key = self.hasher.hash_one(token);
        let lock = || self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().get(&key)
            && known.changes == changes
            && *known.token == *token
            && known.identity.expires.is_some_and(|end| now < end)
        {
            return Ok(known.identity.clone());
        }
        let identity = Arc::new(verify()?);
        let mut tokens = lock();
        if tokens.len() >= MAX_TOKENS && !tokens.contains_key(&key) {
            tokens.clear();
        }
        tokens.insert(key, VerifiedToken { token: token.into(), identity: identity.clone(), changes });
        Ok(identity)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use aaep_keys::Role;

    use super::*;

    #[test]
    fn token_is_verified_again_after_a_change_and_after_its_expiry() {
        let (tokens, verified) = (VerifiedTokens::default(), Cell::new(0));
        let at = Timestamp::from_millis;
        let identify = |token: &str, changes, now| {
            tokens.get_or_verify(token, changes, at(now), || {
                verified.set(verified.get() + 1);
                let identity = Identity { expires: Some(at(1000)), ..Identity::new(token, [Role::Subscribe]) };
                if now < 1000 { Ok(identity) } else { Err("expired") }
            })
        };
        assert_eq!(identify("ada", 0, 1).unwrap().principal, "ada");
        assert_eq!(identify("ada", 0, 999).unwrap().principal, "ada");
        assert_eq!(verified.get(), 1, "it is remembered");
        assert_eq!(identify("ben", 0, 1).unwrap().principal, "ben");
        assert_eq!(verified.get(), 2, "another token is verified");
        assert!(identify("ada", 1, 1).is_ok());
        assert_eq!(verified.get(), 3, "after a change of the credentials it is verified again");
        assert_eq!(identify("ada", 1, 1000), Err("expired"));
        assert_eq!(identify("ada", 1, 1000), Err("expired"));
        assert_eq!(verified.get(), 5, "failures are not remembered");
    }

    #[test]
    fn number_of_remembered_tokens_is_bounded() {
        let tokens = VerifiedTokens::default();
        for number in 0..MAX_TOKENS + 10 {
            let identity = Identity { expires: Some(Timestamp::from_millis(9)), ..Identity::new("ada", []) };
            let verified =
                tokens.get_or_verify(&number.to_string(), 0, Timestamp::from_millis(0), || Ok::<_, ()>(identity));
            assert!(verified.is_ok());
        }
        assert!(tokens.tokens.lock().unwrap().len() <= MAX_TOKENS);
    }
}
