//! One signed token for each user.

use std::path::{Path, PathBuf};

use aaep_keys::{Algorithm, KeySet, NewToken, Role, SigningKey};
use aaep_proto::time::Timestamp;
use tempfile::TempDir;

/// A key that signs tokens, and the file with its public key for the server.
pub(crate) struct TokenIssuer {
    key: SigningKey,
    issued_at: Timestamp,
    dir: TempDir,
}

impl TokenIssuer {
    pub(crate) fn new() -> TokenIssuer {
        let key = SigningKey::generate(Algorithm::Es256).unwrap();
        let dir = TempDir::new().unwrap();
        std::fs::write(dir.path().join("jwks.json"), KeySet::from_iter([key.public().clone()]).to_jwks()).unwrap();
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let issued_at = Timestamp::from_millis(i64::try_from(now.as_millis()).unwrap());
        TokenIssuer { key, issued_at, dir }
    }

    /// Returns the file with the public key.
    pub(crate) fn jwks(&self) -> PathBuf {
        self.dir.path().join("jwks.json")
    }

    /// Returns a directory that lives as long as the issuer.
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Returns the token of a user, with which the agent of the user produces too.
    pub(crate) fn token(&self, user: usize) -> String {
        let token = NewToken {
            subject: format!("user-{user}"),
            issuer: "aaep".to_owned(),
            audience: "aaep".to_owned(),
            roles: [Role::Subscribe, Role::Reply, Role::Produce].into(),
            users: aaep_keys::NamedUsers::Nobody,
            issued_at: self.issued_at,
            lifetime_seconds: 24 * 3600,
        };
        token.sign(&self.key).unwrap()
    }
}
