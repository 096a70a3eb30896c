//! Signatures in the compact form of JWS (RFC 7515).
//!
//! `jsonwebtoken` parses keys here but does not verify tokens: it reads the system clock, and it does not distinguish a
//! token without a signature from one that cannot be parsed. The cryptography is that of `aws-lc-rs`.

use std::fmt;

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize};

use crate::base64url::{decode, encode};
use crate::public::MAX_KID_CHARACTERS;
use crate::{Algorithm, KeyError, KeySet, SigningKey};

/// The longest header, in its encoded form.
const MAX_HEADER_BYTES: usize = 4096;

/// Why a JWS is rejected. For logs; it is not reported to peers.
///
/// ```
/// use aaep_keys::{JwsError, KeySet};
/// let nothing_signed = "eyJhbGciOiJub25lIn0.e30.";
/// assert_eq!(KeySet::default().verify(nothing_signed, 4096), Err(JwsError::AlgorithmNone));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum JwsError {
    /// It is longer than allowed.
    TooLong,
    /// It is not a compact JWS. Holds the part that cannot be parsed.
    Malformed(&'static str),
    /// The header has the algorithm `none`.
    AlgorithmNone,
    /// The algorithm is not supported, such as one with a shared secret.
    AlgorithmNotAllowed(String),
    /// The header has a critical extension.
    Critical,
    /// No key has the key id of the header.
    UnknownKey,
    /// The key is for another algorithm than that of the header.
    AlgorithmMismatch,
    /// The signature does not match.
    BadSignature,
}

impl JwsError {
    /// Returns a short code for logs and metrics.
    pub fn code(&self) -> &'static str {
        match self {
            JwsError::TooLong => "too-long",
            JwsError::Malformed(_) => "malformed",
            JwsError::AlgorithmNone => "alg-none",
            JwsError::AlgorithmNotAllowed(_) => "alg-not-allowed",
            JwsError::Critical => "critical-header",
            JwsError::UnknownKey => "unknown-kid",
            JwsError::AlgorithmMismatch => "alg-mismatch",
            JwsError::BadSignature => "bad-signature",
        }
    }
}

impl fmt::Display for JwsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JwsError::TooLong => f.write_str("it is too long"),
            JwsError::Malformed(part) => write!(f, "it is not a compact JWS: its {part} cannot be parsed"),
            JwsError::AlgorithmNone => f.write_str("it is not signed"),
            JwsError::AlgorithmNotAllowed(name) => {
                write!(f, "it is signed with {name:?}; ES256, EdDSA and RS256 are accepted")
            }
            JwsError::Critical => f.write_str("its header requires an extension that is not supported"),
            JwsError::UnknownKey => f.write_str("it is signed with an unknown key"),
            JwsError::AlgorithmMismatch => f.write_str("its header has another algorithm than the key"),
            JwsError::BadSignature => f.write_str("its signature is wrong"),
        }
    }
}

impl std::error::Error for JwsError {}

/// A payload whose signature was verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// The signed bytes.
    pub payload: Vec<u8>,
    /// The thumbprint of the key that signed.
    pub key: String,
    /// The algorithm of the signature.
    pub algorithm: Algorithm,
    /// The `typ` of the header.
    pub typ: Option<String>,
}

#[derive(Serialize)]
struct NewHeader<'a> {
    alg: &'static str,
    kid: &'a str,
    typ: &'a str,
}

/// The fields of a header that are read. Keys in a header (`jwk`, `jku`, `x5c`) prove nothing and are ignored.
#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    typ: Option<String>,
    #[serde(default, deserialize_with = "is_present")]
    crit: bool,
}

/// Returns true for a field with any value, also `null`.
fn is_present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    IgnoredAny::deserialize(deserializer).map(|_| true)
}

impl SigningKey {
    /// Signs a payload and returns a compact JWS whose header has this type.
    pub fn sign(&self, typ: &str, payload: &[u8]) -> Result<String, KeyError> {
        let header = NewHeader { alg: self.algorithm().as_str(), kid: self.kid(), typ };
        let header = serde_json::to_vec(&header).expect("a header is made of strings");
        let mut jws = format!("{}.{}", encode(header), encode(payload));
        let signature = self.signature(jws.as_bytes())?;
        jws.push('.');
        jws.push_str(&encode(signature));
        Ok(jws)
    }
}

impl KeySet {
    /// Verifies a compact JWS of at most `max_bytes` with these keys.
    pub fn verify(&self, jws: &str, max_bytes: usize) -> Result<Verified, JwsError> {
        if jws.len() > max_bytes {
            return Err(JwsError::TooLong);
        }
        let (message, signature) = jws.rsplit_once('.').ok_or(JwsError::Malformed("form"))?;
        let (header, payload) = message.split_once('.').ok_or(JwsError::Malformed("form"))?;
        if payload.contains('.') {
            return Err(JwsError::Malformed("form"));
        }
        let (header, algorithm) = read_header(header)?;
        let candidates = self.candidates(header.kid.as_deref());
        if candidates.is_empty() {
            return Err(JwsError::UnknownKey);
        }
        // The key decides the algorithm; the header must agree with it.
        let mut candidates = candidates.into_iter().filter(|key| key.algorithm() == algorithm).peekable();
        if candidates.peek().is_none() {
            return Err(JwsError::AlgorithmMismatch);
        }
        let signature = decode(signature).ok_or(JwsError::Malformed("signature"))?;
        let key = candidates.find(|key| key.verify(message.as_bytes(), &signature)).ok_or(JwsError::BadSignature)?;
        let payload = decode(payload).ok_or(JwsError::Malformed("payload"))?;
        Ok(Verified { payload, key: key.thumbprint().to_owned(), algorithm, typ: header.typ })
    }
}

fn read_header(text: &str) -> Result<(Header, Algorithm), JwsError> {
    if text.len() > MAX_HEADER_BYTES {
        return Err(JwsError::TooLong);
    }
    let header = decode(text).and_then(|bytes| serde_json::from_slice::<Header>(&bytes).ok());
    let header = header.ok_or(JwsError::Malformed("header"))?;
    if header.alg.eq_ignore_ascii_case("none") {
        return Err(JwsError::AlgorithmNone);
    }
    let algorithm = header.alg.parse().map_err(|_| {
        let name = header.alg.chars().filter(char::is_ascii_graphic).take(16).collect();
        JwsError::AlgorithmNotAllowed(name)
    })?;
    if header.crit {
        return Err(JwsError::Critical);
    }
    if header.kid.as_ref().is_some_and(|kid| kid.chars().count() > MAX_KID_CHARACTERS) {
        return Err(JwsError::Malformed("header"));
    }
    Ok((header, algorithm))
}
