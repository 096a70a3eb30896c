//! Signed bearer tokens (RFC 7519): made for clients, checked by servers.

use std::collections::BTreeSet;
use std::fmt;

use aaep_proto::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{Identity, JwsError, KeyError, KeySet, Role, SigningKey};

/// Most bytes of a token: what common servers take in one header.
pub const TOKEN_BYTES: usize = 16 * 1024;
/// How far clocks may differ unless told otherwise, in seconds.
pub const LEEWAY_SECONDS: u32 = 30;
/// The most that clocks may be allowed to differ: beyond, an expiry means little.
pub const MOST_LEEWAY_SECONDS: u32 = 300;

/// Why a token is not believed. Peers are told nothing of it; logs are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenError {
    /// The signature is missing, wrong, or not of a known key.
    Signature(JwsError),
    /// It is signed, but the header says that it is no token.
    WrongType,
    /// The claims cannot be read.
    Malformed,
    /// It does not say when it ends.
    NoExpiry,
    /// It has ended.
    Expired,
    /// It does not hold yet, or was issued in the future.
    NotYetValid,
    /// It is from someone else, or does not say from whom.
    WrongIssuer,
    /// It is for someone else, or does not say for whom.
    WrongAudience,
    /// It does not say whom it is about, or gives a name that cannot be one.
    NoSubject,
}

impl TokenError {
    /// A word for logs and counters.
    pub fn code(&self) -> &'static str {
        match self {
            TokenError::Signature(fault) => fault.code(),
            TokenError::WrongType => "wrong-type",
            TokenError::Malformed => "malformed-claims",
            TokenError::NoExpiry => "no-expiry",
            TokenError::Expired => "expired",
            TokenError::NotYetValid => "not-yet-valid",
            TokenError::WrongIssuer => "wrong-issuer",
            TokenError::WrongAudience => "wrong-audience",
            TokenError::NoSubject => "no-subject",
        }
    }
}

impl fmt::Display for TokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the token is not accepted: ")?;
        f.write_str(match self {
            TokenError::Signature(fault) => return fault.fmt(f),
            TokenError::WrongType => "it is signed, but it is no token",
            TokenError::Malformed => "its claims cannot be read",
            TokenError::NoExpiry => "it does not say when it ends",
            TokenError::Expired => "it has ended",
            TokenError::NotYetValid => "its time has not come; check the clocks",
            TokenError::WrongIssuer => "it is from another issuer",
            TokenError::WrongAudience => "it is for another audience",
            TokenError::NoSubject => "it does not say whom it is about, or uses a reserved name (local, cert:)",
        })
    }
}

impl std::error::Error for TokenError {}

impl From<JwsError> for TokenError {
    fn from(fault: JwsError) -> TokenError {
        TokenError::Signature(fault)
    }
}

/// Checks signed tokens of one issuer for one audience. To rotate keys, make a new one.
///
/// ```
/// use aaep_keys::{Algorithm, JwsError, KeySet, SigningKey, TokenError, TokenVerifier};
/// use aaep_proto::time::Timestamp;
/// let key = SigningKey::generate(Algorithm::Es256)?;
/// let verifier = TokenVerifier::new(KeySet::from_iter([key.public().clone()]), "https://id.example", "aaep");
/// let fault = verifier.verify("eyJhbGciOiJub25lIn0.e30.", Timestamp::from_millis(0)).unwrap_err();
/// assert_eq!(fault, TokenError::Signature(JwsError::AlgorithmNone));
/// assert_eq!(fault.code(), "alg-none");
/// # Ok::<(), aaep_keys::KeyError>(())
/// ```
#[derive(Clone, Debug)]
pub struct TokenVerifier {
    keys: KeySet,
    issuer: String,
    audience: String,
    leeway_seconds: u32,
}

impl TokenVerifier {
    /// Believes tokens that this issuer signed with one of these keys for this audience.
    pub fn new(keys: KeySet, issuer: impl Into<String>, audience: impl Into<String>) -> TokenVerifier {
        TokenVerifier { keys, issuer: issuer.into(), audience: audience.into(), leeway_seconds: LEEWAY_SECONDS }
    }

    /// How far clocks may differ; at most [`MOST_LEEWAY_SECONDS`].
    pub fn with_leeway(mut self, seconds: u32) -> TokenVerifier {
        self.leeway_seconds = seconds.min(MOST_LEEWAY_SECONDS);
        self
    }

    /// Says whom a token is about at a time. Someone without a role is known, but may do nothing.
    pub fn verify(&self, token: &str, now: Timestamp) -> Result<Identity, TokenError> {
        let verified = self.keys.verify(token, TOKEN_BYTES)?;
        if !verified.typ.as_deref().is_none_or(is_token_type) {
            return Err(TokenError::WrongType);
        }
        let claims: Claims = serde_json::from_slice(&verified.payload).map_err(|_| TokenError::Malformed)?;
        let expires = self.check_time(&claims, now)?;
        if claims.iss.as_deref() != Some(&self.issuer) {
            return Err(TokenError::WrongIssuer);
        }
        if !claims.aud.is_some_and(|audience| audience.contains(&self.audience)) {
            return Err(TokenError::WrongAudience);
        }
        let principal = claims.sub.filter(|sub| Identity::is_name(sub)).ok_or(TokenError::NoSubject)?;
        // Tokens carry roles and scopes of other programs too; those mean nothing here.
        let names = claims.roles.iter().flat_map(OneOrMany::iter).map(String::as_str);
        let scopes = claims.scope.iter().flat_map(|scope| scope.split_ascii_whitespace());
        let roles = names.chain(scopes).filter_map(|name| name.parse().ok()).collect();
        Ok(Identity { principal, roles, expires: Some(expires) })
    }

    /// When what is opened with the token now must end: at its expiry. If it has expired but clocks may differ by that,
    /// when they may no longer.
    fn check_time(&self, claims: &Claims, now: Timestamp) -> Result<Timestamp, TokenError> {
        let (now, leeway) = (now.millis() as f64 / 1000.0, f64::from(self.leeway_seconds));
        let exp = claims.exp.ok_or(TokenError::NoExpiry)?;
        if now - leeway >= exp {
            return Err(TokenError::Expired);
        }
        let end = if now < exp { exp } else { exp + leeway };
        // The cast keeps to the bounds of the number.
        let end = Timestamp::from_millis((end * 1000.0) as i64);
        let is_future = |at: Option<f64>| at.is_some_and(|at| now + leeway < at);
        if is_future(claims.nbf) || is_future(claims.iat) { Err(TokenError::NotYetValid) } else { Ok(end) }
    }
}

/// Nothing, `JWT`, or the type of access tokens (RFC 9068).
fn is_token_type(typ: &str) -> bool {
    let typ = typ.strip_prefix("application/").unwrap_or(typ);
    typ.eq_ignore_ascii_case("JWT") || typ.eq_ignore_ascii_case("at+jwt")
}

#[derive(Deserialize)]
struct Claims {
    exp: Option<f64>,
    nbf: Option<f64>,
    iat: Option<f64>,
    iss: Option<String>,
    sub: Option<String>,
    aud: Option<OneOrMany>,
    roles: Option<OneOrMany>,
    scope: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl OneOrMany {
    fn iter(&self) -> std::slice::Iter<'_, String> {
        match self {
            OneOrMany::One(one) => std::slice::from_ref(one).iter(),
            OneOrMany::Many(many) => many.iter(),
        }
    }

    fn contains(&self, text: &str) -> bool {
        self.iter().any(|item| item == text)
    }
}

/// What a new token says.
///
/// ```
/// use aaep_keys::{Algorithm, NewToken, Role, SigningKey};
/// use aaep_proto::time::Timestamp;
/// let token = NewToken {
///     subject: "reader".into(), issuer: "me".into(), audience: "aaep".into(), roles: [Role::Subscribe].into(),
///     issued_at: Timestamp::from_millis(1_779_632_531_000), lifetime_seconds: 60,
/// };
/// assert_eq!(token.sign(&SigningKey::generate(Algorithm::EdDsa)?)?.split('.').count(), 3);
/// # Ok::<(), aaep_keys::KeyError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewToken {
    /// Whom it is about.
    pub subject: String,
    /// From whom it is.
    pub issuer: String,
    /// For whom it is.
    pub audience: String,
    /// What they may do.
    pub roles: BTreeSet<Role>,
    /// When it begins to hold.
    pub issued_at: Timestamp,
    /// How long it holds.
    pub lifetime_seconds: u32,
}

#[derive(Serialize)]
struct NewClaims<'a> {
    iss: &'a str,
    sub: &'a str,
    aud: &'a str,
    iat: i64,
    exp: i64,
    roles: Vec<&'static str>,
}

impl NewToken {
    /// Signs it.
    pub fn sign(&self, key: &SigningKey) -> Result<String, KeyError> {
        let iat = self.issued_at.millis().div_euclid(1000);
        let claims = NewClaims {
            iss: &self.issuer,
            sub: &self.subject,
            aud: &self.audience,
            iat,
            exp: iat.saturating_add(i64::from(self.lifetime_seconds)),
            roles: self.roles.iter().map(|role| role.as_str()).collect(),
        };
        key.sign("JWT", &serde_json::to_vec(&claims).expect("claims are strings and numbers"))
    }
}
