//! Sets of public keys: the old one and the new one while keys rotate.

use std::path::Path;

use serde_json::{Value, json};

use crate::{KeyError, PublicKey, file};

/// The most keys in a set: enough for any rotation, few enough to try them all.
const MAX_KEYS: usize = 64;

/// A set of public keys, as a JSON Web Key Set (RFC 7517).
///
/// To rotate, publish a set with both keys, sign with the new one, and drop the old one when nothing is left that it
/// signed.
///
/// ```
/// use aaep_keys::{Algorithm, KeySet, SigningKey};
/// let (old, new) = (SigningKey::generate(Algorithm::Es256)?, SigningKey::generate(Algorithm::EdDsa)?);
/// let published = KeySet::from_iter([old.public().clone(), new.public().clone()]).to_jwks();
/// let set = KeySet::from_jwks(&published)?;
/// assert!(set.verify(&old.sign("JWT", b"{}")?, 4096).is_ok());
/// assert!(set.verify(&new.sign("JWT", b"{}")?, 4096).is_ok());
/// # Ok::<(), aaep_keys::KeyError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeySet {
    keys: Vec<PublicKey>,
}

impl KeySet {
    /// Parses a JSON Web Key Set, or a single JSON Web Key. Keys that are not supported are ignored, as the RFC requires;
    /// a set without any other is an error.
    pub fn from_jwks(text: &str) -> Result<KeySet, KeyError> {
        let value: Value = serde_json::from_str(text).map_err(|_| KeyError::NotKeySet)?;
        let one = [value.clone()];
        let keys = match (value.get("keys"), value.get("kty")) {
            (Some(Value::Array(keys)), _) => &keys[..],
            (None, Some(_)) => &one[..],
            _ => return Err(KeyError::NotKeySet),
        };
        if keys.len() > MAX_KEYS {
            return Err(KeyError::TooManyKeys);
        }
        // A private key that was published is compromised and must not be used.
        if keys.iter().any(|key| key.get("d").is_some()) {
            return Err(KeyError::PrivateKey);
        }
        KeySet { keys: keys.iter().filter_map(|key| PublicKey::from_jwk(key).ok()).collect() }.not_empty()
    }

    /// Parses one or more public keys in PEM form. They have no key ids, so they are tried for signatures with any.
    pub fn from_pem(text: &str) -> Result<KeySet, KeyError> {
        let blocks = pem::parse_many(text).map_err(|_| KeyError::NotPem)?;
        if blocks.is_empty() {
            return Err(KeyError::NotPem);
        }
        if blocks.len() > MAX_KEYS {
            return Err(KeyError::TooManyKeys);
        }
        // Reported first, whatever else is in the file: `openssl ecparam` writes the curve before the key.
        if blocks.iter().any(|block| block.tag().ends_with("PRIVATE KEY")) {
            return Err(KeyError::PrivateKey);
        }
        let keys = blocks.iter().map(PublicKey::from_block).collect::<Result<_, _>>()?;
        Ok(KeySet { keys })
    }

    /// Parses a JSON Web Key Set or PEM.
    pub fn parse(text: &str) -> Result<KeySet, KeyError> {
        match text.trim_start().starts_with('{') {
            true => KeySet::from_jwks(text),
            false => KeySet::from_pem(text).map_err(|error| match error {
                KeyError::NotPem => KeyError::NotKeySet,
                error => error,
            }),
        }
    }

    /// Reads a file with a JSON Web Key Set or PEM.
    pub fn load(path: &Path) -> Result<KeySet, KeyError> {
        KeySet::parse(&file::read_public(path)?)
    }

    /// Returns the JSON Web Key Set.
    pub fn to_jwks(&self) -> String {
        let keys: Vec<Value> = self.keys.iter().map(PublicKey::to_jwk).collect();
        serde_json::to_string_pretty(&json!({ "keys": keys })).expect("keys are made of strings")
    }

    /// Iterates over the keys in order.
    pub fn iter(&self) -> impl Iterator<Item = &PublicKey> {
        self.keys.iter()
    }

    /// Returns the number of keys.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Returns whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Returns the keys that may have made a signature: those with its key id, or else those without one. A signature
    /// without a key id may be of any.
    pub(crate) fn candidates(&self, kid: Option<&str>) -> Vec<&PublicKey> {
        let Some(kid) = kid else { return self.keys.iter().collect() };
        let named: Vec<&PublicKey> = self.keys.iter().filter(|key| key.kid() == Some(kid)).collect();
        if !named.is_empty() {
            return named;
        }
        self.keys.iter().filter(|key| key.kid().is_none()).collect()
    }

    fn not_empty(self) -> Result<KeySet, KeyError> {
        if self.is_empty() { Err(KeyError::NoUsableKey) } else { Ok(self) }
    }
}

/// Ignores duplicates, and keys beyond the limit of 64.
impl FromIterator<PublicKey> for KeySet {
    fn from_iter<I: IntoIterator<Item = PublicKey>>(keys: I) -> KeySet {
        let mut set = KeySet::default();
        for key in keys {
            if set.keys.len() < MAX_KEYS && !set.keys.contains(&key) {
                set.keys.push(key);
            }
        }
        set
    }
}
