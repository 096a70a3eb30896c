//! Signed bytes in compact form (RFC 7515).
//!
//! `jsonwebtoken` reads keys here but does not check tokens: it takes the time from the system's clock, and it cannot
//! tell a token without signature from one that is not readable. The cryptography is that of `aws-lc-rs`.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize};

use crate::public::KID_CHARACTERS;
use crate::{Algorithm, KeyError, KeySet, SigningKey};

/// Most bytes of a header in its encoded form.
const HEADER_BYTES: usize = 4096;

/// Why signed bytes are not believed. Peers are not told which; logs are.
///
/// ```
/// use aaep_keys::{JwsError, KeySet};
/// let nothing_signed = "eyJhbGciOiJub25lIn0.e30.";
/// assert_eq!(KeySet::default().verify(nothing_signed, 4096), Err(JwsError::AlgorithmNone));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JwsError {
    /// Longer than is allowed.
    TooLong,
    /// Not a compact JWS; the part that cannot be read is told.
    Malformed(&'static str),
    /// The header says that nothing is signed.
    AlgorithmNone,
    /// An algorithm that is not spoken here, such as one with a shared secret.
    AlgorithmNotAllowed(String),
    /// The header demands an extension to be understood.
    Critical,
    /// No key has the name that the header gives.
    UnknownKey,
    /// The key is of another algorithm than the header says.
    AlgorithmMismatch,
    /// The signature is not one of the key.
    BadSignature,
}

impl JwsError {
    /// A word for logs and counters.
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
            JwsError::Malformed(part) => write!(f, "it is not a compact JWS: its {part} cannot be read"),
            JwsError::AlgorithmNone => f.write_str("it is not signed"),
            JwsError::AlgorithmNotAllowed(name) => {
                write!(f, "it is signed with {name:?}; ES256, EdDSA and RS256 are accepted")
            }
            JwsError::Critical => f.write_str("its header demands an extension that is not supported"),
            JwsError::UnknownKey => f.write_str("it is signed with a key that is not known here"),
            JwsError::AlgorithmMismatch => f.write_str("its header names another algorithm than that of the key"),
            JwsError::BadSignature => f.write_str("its signature is wrong"),
        }
    }
}

impl std::error::Error for JwsError {}

/// Bytes whose signature was verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// What was signed.
    pub payload: Vec<u8>,
    /// The thumbprint of the key that signed.
    pub key: String,
    /// How it was signed.
    pub algorithm: Algorithm,
    /// The type that the header gives.
    pub typ: Option<String>,
}

#[derive(Serialize)]
struct NewHeader<'a> {
    alg: &'static str,
    kid: &'a str,
    typ: &'a str,
}

/// What is read of a header. Keys that it brings along (`jwk`, `jku`, `x5c`) are no proof of anything.
#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    typ: Option<String>,
    #[serde(default, deserialize_with = "is_there")]
    crit: bool,
}

/// Whatever its value, `null` too.
fn is_there<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    IgnoredAny::deserialize(deserializer).map(|_| true)
}

pub(crate) fn sign(key: &SigningKey, typ: &str, payload: &[u8]) -> Result<String, KeyError> {
    let header = NewHeader { alg: key.algorithm().as_str(), kid: key.kid(), typ };
    let header = serde_json::to_vec(&header).expect("a header is made of strings");
    let mut jws = format!("{}.{}", encode(header), encode(payload));
    let signature = key.signature(jws.as_bytes())?;
    jws.push('.');
    jws.push_str(&encode(signature));
    Ok(jws)
}

impl KeySet {
    /// Verifies a compact JWS of at most so many bytes against these keys.
    pub fn verify(&self, jws: &str, most_bytes: usize) -> Result<Verified, JwsError> {
        if jws.len() > most_bytes {
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
        // The algorithm is that of the key; the header may only agree.
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
    if text.len() > HEADER_BYTES {
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
    if header.kid.as_ref().is_some_and(|kid| kid.chars().count() > KID_CHARACTERS) {
        return Err(JwsError::Malformed("header"));
    }
    Ok((header, algorithm))
}

pub(crate) fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Strict: no padding, no stray bits, no other alphabet.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}
