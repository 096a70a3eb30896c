//! Signed bearer tokens (RFC 7519): created for clients, verified by servers.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use aaep_proto::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{Identity, JwsError, KeyError, KeySet, NamedUsers, ParseUsersError, Role, SigningKey, UserId};

/// The longest token in bytes: what common servers accept in one header.
pub const TOKEN_BYTES: usize = 16 * 1024;
/// The default of how far clocks may differ, in seconds.
pub const LEEWAY_SECONDS: u32 = 30;
/// The largest configurable clock difference in seconds: with more, an expiry means little.
pub const MAX_LEEWAY_SECONDS: u32 = 300;

/// Why a token is rejected. For logs; it is not reported to peers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenError {
    /// The signature is missing or wrong, or its key is unknown.
    Signature(JwsError),
    /// The header has the type of another kind of document.
    WrongType,
    /// The claims cannot be parsed.
    Malformed,
    /// It has no expiry.
    NoExpiry,
    /// It has expired.
    Expired,
    /// It is not valid yet, or was issued in the future.
    NotYetValid,
    /// It has another issuer, or none.
    WrongIssuer,
    /// It has another audience, or none.
    WrongAudience,
    /// It has no subject, or one that is not a valid principal.
    NoSubject,
}

impl TokenError {
    /// Returns a short code for logs and metrics.
    pub fn code(&self) -> &'static str {
        match self {
            TokenError::Signature(error) => error.code(),
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
        f.write_str(match self {
            TokenError::Signature(error) => return write!(f, "token rejected: {error}"),
            TokenError::WrongType => "token rejected: the header has the type of another document",
            TokenError::Malformed => "token rejected: the claims cannot be parsed",
            TokenError::NoExpiry => "token rejected: it has no expiry (exp)",
            TokenError::Expired => "token expired; get a new one",
            TokenError::NotYetValid => "token not yet valid; check the clocks",
            TokenError::WrongIssuer => "token rejected: it has another issuer (iss)",
            TokenError::WrongAudience => "token rejected: it is for another audience (aud)",
            TokenError::NoSubject => {
                "token rejected: the subject (sub) is missing, not valid or reserved (local, cert:)"
            }
        })
    }
}

impl std::error::Error for TokenError {}

impl From<JwsError> for TokenError {
    fn from(error: JwsError) -> TokenError {
        TokenError::Signature(error)
    }
}

/// Verifies signed tokens of one issuer for one audience. To rotate keys, create a new one.
///
/// ```
/// use aaep_keys::{Algorithm, JwsError, KeySet, SigningKey, TokenError, TokenVerifier};
/// use aaep_proto::time::Timestamp;
/// let key = SigningKey::generate(Algorithm::Es256)?;
/// let verifier = TokenVerifier::new(KeySet::from_iter([key.public().clone()]), "https://id.example", "aaep");
/// let error = verifier.verify("eyJhbGciOiJub25lIn0.e30.", Timestamp::from_millis(0)).unwrap_err();
/// assert_eq!(error, TokenError::Signature(JwsError::AlgorithmNone));
/// assert_eq!(error.code(), "alg-none");
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
    /// Accepts tokens that this issuer signed with one of these keys for this audience.
    pub fn new(keys: KeySet, issuer: impl Into<String>, audience: impl Into<String>) -> TokenVerifier {
        TokenVerifier { keys, issuer: issuer.into(), audience: audience.into(), leeway_seconds: LEEWAY_SECONDS }
    }

    /// Sets how far clocks may differ; at most [`MAX_LEEWAY_SECONDS`].
    pub fn with_leeway(mut self, seconds: u32) -> TokenVerifier {
        self.leeway_seconds = seconds.min(MAX_LEEWAY_SECONDS);
        self
    }

    /// Verifies a token at a time and returns the identity of its subject. One without a role may do nothing.
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
        // Roles and scopes of other programs are ignored.
        let names = claims.roles.iter().flat_map(OneOrMany::iter).map(String::as_str);
        let scopes = claims.scope.iter().flat_map(|scope| scope.split_ascii_whitespace());
        let roles = names.chain(scopes).filter_map(|name| name.parse().ok()).collect();
        let users =
            claims.users.map_or(Ok(NamedUsers::Nobody), UsersClaim::parse).map_err(|_| TokenError::Malformed)?;
        Ok(Identity { principal, roles, users, expires: Some(expires) })
    }

    /// Returns when connections that are opened with the token now must end: at its expiry, or at the end of the allowed
    /// clock difference if it expired within that.
    fn check_time(&self, claims: &Claims, now: Timestamp) -> Result<Timestamp, TokenError> {
        let (now, leeway) = (now.millis() as f64 / 1000.0, f64::from(self.leeway_seconds));
        let exp = claims.exp.ok_or(TokenError::NoExpiry)?;
        if now - leeway >= exp {
            return Err(TokenError::Expired);
        }
        let end = if now < exp { exp } else { exp + leeway };
        // The cast saturates.
        let end = Timestamp::from_millis((end * 1000.0) as i64);
        let is_future = |at: Option<f64>| at.is_some_and(|at| now + leeway < at);
        if is_future(claims.nbf) || is_future(claims.iat) { Err(TokenError::NotYetValid) } else { Ok(end) }
    }
}

/// Returns whether a `typ` is `JWT` or that of access tokens (RFC 9068).
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
    users: Option<UsersClaim>,
}

/// The claim `users`: `"*"`, a list of names, or an object with the roles for each name.
#[derive(Deserialize, Serialize)]
#[serde(untagged)]
enum UsersClaim {
    One(String),
    Names(Vec<String>),
    Roles(BTreeMap<String, Vec<String>>),
}

impl UsersClaim {
    fn parse(self) -> Result<NamedUsers, ParseUsersError> {
        let user = |name: &str| name.parse::<UserId>().map_err(ParseUsersError::User);
        match self {
            UsersClaim::One(everybody) if everybody == "*" => Ok(NamedUsers::Everybody),
            UsersClaim::One(name) => NamedUsers::listed([(user(&name)?, None)]),
            UsersClaim::Names(names) => {
                let named = names.iter().map(|name| Ok((user(name)?, None)));
                NamedUsers::listed(named.collect::<Result<Vec<_>, _>>()?)
            }
            UsersClaim::Roles(named) => {
                let named = named.iter().map(|(name, roles)| {
                    let roles = roles.iter().map(|role| role.parse()).collect::<Result<BTreeSet<Role>, _>>();
                    Ok((user(name)?, Some(roles.map_err(ParseUsersError::Role)?)))
                });
                NamedUsers::listed(named.collect::<Result<Vec<_>, _>>()?)
            }
        }
    }

    fn of(users: &NamedUsers, all: &BTreeSet<Role>) -> Option<UsersClaim> {
        let NamedUsers::Listed(listed) = users else {
            return (*users == NamedUsers::Everybody).then(|| UsersClaim::One("*".to_owned()));
        };
        if listed.values().all(Option::is_none) {
            return Some(UsersClaim::Names(listed.keys().map(UserId::to_string).collect()));
        }
        let names = |roles: &BTreeSet<Role>| roles.iter().map(Role::to_string).collect();
        let entry = |(user, roles): (&UserId, &Option<BTreeSet<Role>>)| {
            (user.to_string(), names(roles.as_ref().unwrap_or(all)))
        };
        Some(UsersClaim::Roles(listed.iter().map(entry).collect()))
    }
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

/// The claims of a new token.
///
/// ```
/// use aaep_keys::{Algorithm, NewToken, Role, SigningKey};
/// use aaep_proto::time::Timestamp;
/// let token = NewToken {
///     subject: "reader".into(), issuer: "me".into(), audience: "aaep".into(), roles: [Role::Subscribe].into(),
///     users: "ada".parse().expect("one user"), issued_at: Timestamp::from_millis(1_779_632_531_000),
///     lifetime_seconds: 60,
/// };
/// assert_eq!(token.sign(&SigningKey::generate(Algorithm::EdDsa)?)?.split('.').count(), 3);
/// # Ok::<(), aaep_keys::KeyError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewToken {
    /// The subject (`sub`): the principal.
    pub subject: String,
    /// The issuer (`iss`).
    pub issuer: String,
    /// The audience (`aud`).
    pub audience: String,
    /// The roles of the subject.
    pub roles: BTreeSet<Role>,
    /// The users that the subject may act for, besides itself (`users`).
    pub users: NamedUsers,
    /// When it was issued (`iat`).
    pub issued_at: Timestamp,
    /// Its lifetime in seconds, which gives the expiry (`exp`).
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
    #[serde(skip_serializing_if = "Option::is_none")]
    users: Option<UsersClaim>,
}

impl NewToken {
    /// Creates the token, signed with this key.
    pub fn sign(&self, key: &SigningKey) -> Result<String, KeyError> {
        let iat = self.issued_at.millis().div_euclid(1000);
        let claims = NewClaims {
            iss: &self.issuer,
            sub: &self.subject,
            aud: &self.audience,
            iat,
            exp: iat.saturating_add(i64::from(self.lifetime_seconds)),
            roles: self.roles.iter().map(|role| role.as_str()).collect(),
            users: UsersClaim::of(&self.users, &self.roles),
        };
        key.sign("JWT", &serde_json::to_vec(&claims).expect("claims are strings and numbers"))
    }
}
