//! Whether a producer is who it was: signed manifests, and the keys that are remembered from the first time.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use aaep_keys::{KeyFileError, KeySet, PublicKey, VerifiedManifest, file, verify_manifest};
use aaep_proto::limits;
use aaep_proto::message::SubscriptionAccepted;
use aaep_proto::subscriber::ManifestCheck;
use aaep_proto::time::Timestamp;
use serde_json::{Map, Value, json};

use crate::address::HttpOrigin;
use crate::http::Http;
use crate::options::ConnectOptions;

/// Where a producer publishes its keys.
const KEYS_PATH: &str = "/.well-known/aaep-keys.json";
/// Where a producer publishes its manifest.
pub(crate) const MANIFEST_PATH: &str = "/.well-known/aaep-manifest.json";

/// Producers that one file remembers. More than a person talks to.
const MOST_PRODUCERS: usize = 4096;

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
    /// Subscribers of one program share the file.
    writing: Arc<Mutex<()>>,
}

/// Why the file of known keys cannot be used. It is left as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownKeysError(String);

impl fmt::Display for KnownKeysError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the file of known keys cannot be used: {}", self.0)
    }
}

impl std::error::Error for KnownKeysError {}

impl KnownKeys {
    /// Remembers in this file. It is made when there is something to remember.
    pub fn new(path: impl Into<PathBuf>) -> KnownKeys {
        KnownKeys { path: path.into(), writing: Arc::default() }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The keys of a producer, if it was met before.
    pub fn find(&self, producer: &str) -> Result<Option<KeySet>, KnownKeysError> {
        let mut producers = self.read()?;
        let Some(jwks) = producers.remove(producer) else { return Ok(None) };
        let keys = KeySet::from_jwks(&jwks.to_string()).map_err(|fault| KnownKeysError(fault.to_string()))?;
        Ok(Some(keys))
    }

    /// Remembers that a producer signs with this key, and with no other.
    pub fn remember(&self, producer: &str, key: &PublicKey) -> Result<(), KnownKeysError> {
        self.change(|producers| {
            if producers.len() >= MOST_PRODUCERS && !producers.contains_key(producer) {
                return Err(KnownKeysError(format!("it holds {MOST_PRODUCERS} producers already")));
            }
            producers.insert(producer.to_owned(), json!({"keys": [key.to_jwk()]}));
            Ok(())
        })
    }

    /// Forgets a producer: the next time counts as the first. For a user who knows why the key has changed.
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
            Err(fault) => return Err(KnownKeysError(fault.to_string())),
        };
        let fault = |_| KnownKeysError("it is not what was written".to_owned());
        let mut document: Map<String, Value> = serde_json::from_str(&text).map_err(fault)?;
        serde_json::from_value(document.remove("producers").unwrap_or_default()).map_err(fault)
    }

    fn change(
        &self,
        change: impl FnOnce(&mut BTreeMap<String, Value>) -> Result<(), KnownKeysError>,
    ) -> Result<(), KnownKeysError> {
        let _alone = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let fault = |error: &dyn fmt::Display| KnownKeysError(error.to_string());
        let mut producers = self.read()?;
        change(&mut producers)?;
        if let Some(directory) = self.path.parent() {
            std::fs::create_dir_all(directory).map_err(|e| fault(&e))?;
        }
        let text = json!({"version": 1, "producers": producers}).to_string();
        // The old file stays whole until the new one is.
        let new = self.path.with_extension(format!("new-{}", std::process::id()));
        let _ = std::fs::remove_file(&new);
        file::write_secret(&new, &text).map_err(|e| fault(&e))?;
        std::fs::rename(&new, &self.path).map_err(|e| fault(&e))
    }
}

/// The name under which the keys of a producer are remembered: where it is and what it calls itself.
pub fn producer_name(site: Option<&HttpOrigin>, agent_id: &str) -> String {
    match site {
        Some(site) => format!("{}://{} {agent_id}", if site.tls { "https" } else { "http" }, site.authority()),
        None => format!("local {agent_id}"),
    }
}

/// What is checked: who serves, over which transport, and when.
pub(crate) struct Claim<'a> {
    pub(crate) accepted: &'a SubscriptionAccepted,
    pub(crate) site: Option<&'a HttpOrigin>,
    pub(crate) transport: &'static str,
    pub(crate) now: Timestamp,
}

/// Checks the signed manifest of a producer.
pub(crate) async fn check(claim: &Claim<'_>, http: &Http, options: &ConnectOptions) -> ManifestCheck {
    let jws = match &claim.accepted.signed_manifest {
        Some(jws) => jws.clone(),
        None if options.demands_signature() => match fetch_signed(claim.site, http).await {
            Some(jws) => jws,
            None => return ManifestCheck::Unsigned,
        },
        None => return ManifestCheck::Unsigned,
    };
    match believe(claim, &jws, http, options).await {
        Ok(Belief::Known(verified)) => fits(claim, verified, ManifestCheck::Verified),
        Ok(Belief::Changed(verified)) => fits(claim, verified, ManifestCheck::KeyChanged),
        // Without anything to compare with, a signature says nothing.
        Ok(Belief::Stranger) if !options.demands_signature() => ManifestCheck::Unsigned,
        Ok(Belief::Stranger) => ManifestCheck::Failed("the key that signed it is not known.".to_owned()),
        Err(why) => ManifestCheck::Failed(why),
    }
}

fn fits(
    claim: &Claim<'_>,
    verified: VerifiedManifest,
    then: impl FnOnce(Box<aaep_proto::message::Manifest>) -> ManifestCheck,
) -> ManifestCheck {
    let skew = u32::try_from(limits::CLOCK_SKEW_SECONDS).unwrap_or(u32::MAX);
    let fit = verified.check_time(claim.now, skew).and_then(|()| verified.check(claim.accepted, claim.transport));
    match fit {
        Ok(()) => then(Box::new(verified.manifest)),
        Err(misfit) => ManifestCheck::Failed(misfit.to_string()),
    }
}

/// What is known about the key behind a signature.
enum Belief {
    Known(VerifiedManifest),
    Changed(VerifiedManifest),
    Stranger,
}

async fn believe(claim: &Claim<'_>, jws: &str, http: &Http, options: &ConnectOptions) -> Result<Belief, String> {
    if let Ok(verified) = verify_manifest(jws, &options.keys) {
        return Ok(Belief::Known(verified));
    }
    let name = producer_name(claim.site, &claim.accepted.producer.agent_id);
    let known = match &options.known_keys {
        Some(file) => file.find(&name).map_err(|fault| fault.to_string())?,
        None => None,
    };
    if let Some(keys) = &known
        && let Ok(verified) = verify_manifest(jws, keys)
    {
        return Ok(Belief::Known(verified));
    }
    let published = fetch_keys(claim.site, http).await.unwrap_or_default();
    let verified = match verify_manifest(jws, &published) {
        Ok(verified) => verified,
        Err(_) if published.is_empty() && known.is_none() && options.keys.is_empty() => return Ok(Belief::Stranger),
        Err(fault) => return Err(fault.to_string()),
    };
    let Some(file) = &options.known_keys else { return Ok(Belief::Stranger) };
    if known.is_some() {
        return Ok(Belief::Changed(verified));
    }
    // Seen for the first time: from now on, this is its key.
    if let Some(key) = published.iter().find(|key| key.thumbprint() == verified.key) {
        file.remember(&name, key).map_err(|fault| fault.to_string())?;
    }
    Ok(Belief::Known(verified))
}

async fn fetch_keys(site: Option<&HttpOrigin>, http: &Http) -> Option<KeySet> {
    let answer = http.get(site?, KEYS_PATH, "application/json").await.ok()?;
    let text = answer.status.is_success().then(|| std::str::from_utf8(&answer.body).ok())??;
    KeySet::from_jwks(text).ok()
}

async fn fetch_signed(site: Option<&HttpOrigin>, http: &Http) -> Option<String> {
    let answer = http.get(site?, MANIFEST_PATH, "application/jose").await.ok()?;
    let text = answer.status.is_success().then(|| std::str::from_utf8(&answer.body).ok())??;
    Some(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use aaep_keys::{Algorithm, SigningKey};

    fn key() -> SigningKey {
        SigningKey::generate(Algorithm::Es256).unwrap()
    }

    #[test]
    fn what_is_remembered_is_found_again_and_only_there() {
        let directory = tempfile::tempdir().unwrap();
        let known = KnownKeys::new(directory.path().join("deep/known.json"));
        assert!(known.find("a").unwrap().is_none());
        let (one, two) = (key(), key());
        known.remember("a", one.public()).unwrap();
        known.remember("b", two.public()).unwrap();
        let again = KnownKeys::new(known.path());
        let found = again.find("a").unwrap().unwrap();
        assert_eq!(found.iter().map(|k| k.thumbprint()).collect::<Vec<_>>(), [one.public().thumbprint()]);
        again.forget("a").unwrap();
        assert!(known.find("a").unwrap().is_none() && known.find("b").unwrap().is_some());
    }

    #[test]
    fn a_damaged_file_is_not_believed_and_not_overwritten() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("known.json");
        std::fs::write(&path, "{\"producers\":[").unwrap();
        let known = KnownKeys::new(&path);
        assert!(known.find("a").is_err());
        assert!(known.remember("a", key().public()).is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "{\"producers\":[");
    }
}
