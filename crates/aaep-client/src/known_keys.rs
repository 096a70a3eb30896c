//! The file that remembers which producer signs with which keys.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use aaep_keys::{KeyFileError, KeySet, PublicKey, file};
use serde_json::{Map, Value, json};

use crate::address::HttpOrigin;

/// Producers that one file remembers. More than a person talks to.
const MAX_PRODUCERS: usize = 4096;

/// A file that remembers which producer signs with which keys.
///
/// ```
/// use aaep_client::KnownKeys;
/// use aaep_keys::{Algorithm, SigningKey};
/// let directory = tempfile::tempdir()?;
/// let known = KnownKeys::new(directory.path().join("known-keys.json"));
/// let key = SigningKey::generate(Algorithm::Es256)?;
/// known.remember("https://agents.example gardener", key.public())?;
/// let found = known.find("https://agents.example gardener")?.expect("it was remembered");
/// assert_eq!(found.iter().next().map(|k| k.thumbprint()), Some(key.public().thumbprint()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct KnownKeys {
    path: PathBuf,
    /// Serializes the subscribers of one program that share the file.
    write_lock: Arc<Mutex<()>>,
}

/// Why the file of known keys cannot be used. The file is not changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownKeysError(String);

impl fmt::Display for KnownKeysError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the file of known keys cannot be used: {}", self.0)
    }
}

impl std::error::Error for KnownKeysError {}

impl KnownKeys {
    /// Uses this file. It is created when the first key is remembered.
    pub fn new(path: impl Into<PathBuf>) -> KnownKeys {
        KnownKeys { path: path.into(), write_lock: Arc::default() }
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the keys of a producer, or `None` if it was not seen before.
    pub fn find(&self, producer: &str) -> Result<Option<KeySet>, KnownKeysError> {
        let mut producers = self.read()?;
        let Some(jwks) = producers.remove(producer) else { return Ok(None) };
        let keys = KeySet::from_jwks(&jwks.to_string()).map_err(|error| KnownKeysError(error.to_string()))?;
        Ok(Some(keys))
    }

    /// Remembers this key as the only one of a producer.
    pub fn remember(&self, producer: &str, key: &PublicKey) -> Result<(), KnownKeysError> {
        self.change(|producers| {
            if producers.len() >= MAX_PRODUCERS && !producers.contains_key(producer) {
                return Err(KnownKeysError(format!("it holds {MAX_PRODUCERS} producers already; remove some")));
            }
            producers.insert(producer.to_owned(), json!({"keys": [key.to_jwk()]}));
            Ok(())
        })
    }

    /// Forgets a producer, so that its next key is remembered as its first. For a user who knows why the key changed.
    pub fn forget(&self, producer: &str) -> Result<(), KnownKeysError> {
        self.change(|producers| {
            producers.remove(producer);
            Ok(())
        })
    }

    fn read(&self) -> Result<BTreeMap<String, Value>, KnownKeysError> {
        let text = match file::read_public(&self.path) {
            Ok(text) => text,
            Err(KeyFileError::NotFound) => return Ok(BTreeMap::new()),
            Err(error) => return Err(KnownKeysError(error.to_string())),
        };
        let damaged = |_| KnownKeysError("it is damaged; restore or delete it".to_owned());
        let mut document: Map<String, Value> = serde_json::from_str(&text).map_err(damaged)?;
        serde_json::from_value(document.remove("producers").unwrap_or_default()).map_err(damaged)
    }

    fn change(
        &self,
        change: impl FnOnce(&mut BTreeMap<String, Value>) -> Result<(), KnownKeysError>,
    ) -> Result<(), KnownKeysError> {
        let _guard = self.write_lock.lock().unwrap_or_else(PoisonError::into_inner);
        let failed = |error: &dyn fmt::Display| KnownKeysError(error.to_string());
        let mut producers = self.read()?;
        change(&mut producers)?;
        if let Some(directory) = self.path.parent() {
            std::fs::create_dir_all(directory).map_err(|e| failed(&e))?;
        }
        let text = json!({"version": 1, "producers": producers}).to_string();
        // The old file stays complete until the new one is.
        let new = self.path.with_extension(format!("new-{}", std::process::id()));
        let _ = std::fs::remove_file(&new);
        file::write_secret(&new, &text).map_err(|e| failed(&e))?;
        std::fs::rename(&new, &self.path).map_err(|e| failed(&e))
    }
}

/// Returns the name under which the keys of a producer are remembered: its host and its agent id.
pub fn producer_name(origin: Option<&HttpOrigin>, agent_id: &str) -> String {
    match origin {
        Some(origin) => format!("{}://{} {agent_id}", if origin.tls { "https" } else { "http" }, origin.authority()),
        None => format!("local {agent_id}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aaep_keys::{Algorithm, SigningKey};

    fn key() -> SigningKey {
        SigningKey::generate(Algorithm::Es256).unwrap()
    }

    #[test]
    fn keys_are_remembered_per_producer_until_forgotten() {
        let directory = tempfile::tempdir().unwrap();
        let known = KnownKeys::new(directory.path().join("deep/known.json"));
        assert!(known.find("a").unwrap().is_none());
        let (one, two) = (key(), key());
        known.remember("a", one.public()).unwrap();
        known.remember("b", two.public()).unwrap();
        let reopened = KnownKeys::new(known.path());
        let found = reopened.find("a").unwrap().unwrap();
        assert_eq!(found.iter().map(|k| k.thumbprint()).collect::<Vec<_>>(), [one.public().thumbprint()]);
        reopened.forget("a").unwrap();
        assert!(known.find("a").unwrap().is_none() && known.find("b").unwrap().is_some());
    }

    #[test]
    fn a_damaged_file_is_an_error_and_is_not_overwritten() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("known.json");
        std::fs::write(&path, "{\"producers\":[").unwrap();
        let known = KnownKeys::new(&path);
        assert!(known.find("a").is_err());
        assert!(known.remember("a", key().public()).is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "{\"producers\":[");
    }
}
