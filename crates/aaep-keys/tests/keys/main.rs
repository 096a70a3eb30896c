//! Keys, signed manifests and tokens as servers and clients use them, and as attackers do.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on should stop")]

mod files;
mod fixed;
mod hostile;
mod jws;
mod manifests;
mod pairs;
mod sets;
mod tokens;

use std::sync::OnceLock;

use aaep_keys::{Algorithm, KeySet, SigningKey};
use aaep_proto::time::Timestamp;
use jsonwebtoken::{EncodingKey, Header};
use serde_json::Value;

/// Some day in May 2026.
const NOW: i64 = 1_779_632_531;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(seconds * 1000)
}

/// A key of each algorithm, made once: RSA keys take a while.
fn key(algorithm: Algorithm) -> &'static SigningKey {
    static KEYS: [OnceLock<SigningKey>; 3] = [const { OnceLock::new() }; 3];
    KEYS[algorithm as usize].get_or_init(|| SigningKey::generate(algorithm).unwrap())
}

/// The public halves of those keys.
fn set_of(keys: &[&SigningKey]) -> KeySet {
    keys.iter().map(|key| key.public().clone()).collect()
}

/// What `jsonwebtoken` signs: another implementation, which does whatever a header says.
fn other(key: &SigningKey, header: &Header, claims: &Value) -> String {
    let pem = key.to_pem().unwrap();
    let secret = match key.algorithm() {
        Algorithm::Es256 => EncodingKey::from_ec_pem(pem.as_bytes()),
        Algorithm::EdDsa => EncodingKey::from_ed_pem(pem.as_bytes()),
        Algorithm::Rs256 => EncodingKey::from_rsa_pem(pem.as_bytes()),
        other => panic!("{other:?} needs a row here"),
    };
    jsonwebtoken::encode(header, claims, &secret.unwrap()).unwrap()
}

/// A header of `jsonwebtoken` for a key.
fn header(key: &SigningKey) -> Header {
    let mut header = Header::new(key.algorithm().into());
    header.kid = Some(key.kid().to_owned());
    header
}

fn base64url(text: &str) -> String {
    use base64::Engine;
    base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(text)
}
