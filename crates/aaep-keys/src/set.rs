//! Several public keys: the old one and the new one while keys rotate.

use std::path::Path;

use serde_json::{Value, json};

use crate::{KeyError, PublicKey, file};

/// Most keys in a set: enough for any rotation, few enough to try them all.
pub(crate) const KEYS: usize = 64;

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
    /// Reads a JSON Web Key Set, or a single JSON Web Key. Keys that cannot verify signatures here are passed over,
    /// as the RFC asks; a set without any other is an error.
    pub fn from_jwks(text: &str) -> Result<KeySet, KeyError> {
        let value: Value = serde_json::from_str(text).map_err(|_| KeyError::NotKeySet)?;
        let one = [value.clone()];
        let keys = match (value.get("keys"), value.get("kty")) {
            (Some(Value::Array(keys)), _) => &keys[..],
            (None, Some(_)) => &one[..],
            _ => return Err(KeyError::NotKeySet),
        };
        if keys.len() > KEYS {
            return Err(KeyError::TooManyKeys);
        }
        // A secret that was published is no longer one; nothing should go on as if it were.
        if keys.iter().any(|key| key.get("d").is_some()) {
            return Err(KeyError::PrivateKey);
        }
        KeySet { keys: keys.iter().filter_map(|key| PublicKey::from_jwk(key).ok()).collect() }.not_empty()
    }

    /// Reads one or more public keys in PEM form. They have no names, so they are tried for signatures of any name.
    pub fn from_pem(text: &str) -> Result<KeySet, KeyError> {
        let blocks = pem::parse_many(text).map_err(|_| KeyError::NotPem)?;
        if blocks.is_empty() {
            return Err(KeyError::NotPem);
        }
        if blocks.len() > KEYS {
            return Err(KeyError::TooManyKeys);
        }
        // Said first, whatever else is in the file: `openssl ecparam` writes the curve before the key.
        if blocks.iter().any(|block| block.tag().ends_with("PRIVATE KEY")) {
            return Err(KeyError::PrivateKey);
        }
        let keys = blocks.iter().map(PublicKey::from_block).collect::<Result<_, _>>()?;
        Ok(KeySet { keys })
    }

    /// Reads text of either form.
    pub fn parse(text: &str) -> Result<KeySet, KeyError> {
        match text.trim_start().starts_with('{') {
            true => KeySet::from_jwks(text),
            false => KeySet::from_pem(text).map_err(|fault| match fault {
                KeyError::NotPem => KeyError::NotKeySet,
                fault => fault,
            }),
        }
    }

    /// Reads a file of either form.
    pub fn load(path: &Path) -> Result<KeySet, KeyError> {
        KeySet::parse(&file::read_public(path)?)
    }

    /// The JSON Web Key Set, ready to be published.
    pub fn to_jwks(&self) -> String {
        let keys: Vec<Value> = self.keys.iter().map(PublicKey::to_jwk).collect();
        serde_json::to_string_pretty(&json!({ "keys": keys })).expect("keys are made of strings")
    }

    /// The keys in order.
    pub fn iter(&self) -> impl Iterator<Item = &PublicKey> {
        self.keys.iter()
    }

    /// How many keys it has.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The keys that may have made a signature: those of the name; else those without a name, in order. A signature
    /// that names no key may be of any.
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

/// A key that is there already is not added twice; beyond 64 none is added.
impl FromIterator<PublicKey> for KeySet {
    fn from_iter<I: IntoIterator<Item = PublicKey>>(keys: I) -> KeySet {
        let mut set = KeySet::default();
        for key in keys {
            if set.keys.len() < KEYS && !set.keys.contains(&key) {
                set.keys.push(key);
            }
        }
        set
    }
}
