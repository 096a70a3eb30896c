//! The published manifest, signed with the current key.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use aaep_keys::{KeySet, SigningKey, sign_manifest};
use aaep_proto::message::Manifest;
use aaep_runtime::system_time;
use tokio::time::Instant;

use crate::config::{ConfigError, SigningConfig};
use crate::engines::Engines;

/// How long keys stay published after a rotation: a subscriber may request the keys after the rotation for a manifest that
/// it received before.
const KEY_OVERLAP: Duration = Duration::from_secs(60);

/// The manifest of the producer and its keys.
#[derive(Debug)]
pub(crate) struct PublishedManifest {
    manifest: Manifest,
    json: String,
    config: SigningConfig,
    signed: Mutex<SignedManifest>,
}

#[derive(Debug, Default)]
struct SignedManifest {
    jws: Option<String>,
    keys: KeySet,
    /// The keys before the last rotation, and until when they are published.
    retired: Option<(KeySet, Instant)>,
    /// When the key files were modified.
    modified: Vec<Option<SystemTime>>,
}

impl PublishedManifest {
    pub(crate) fn new(manifest: Manifest, config: SigningConfig) -> Result<PublishedManifest, ConfigError> {
        let json = serde_json::to_string(&aaep_proto::message::Message::from(manifest.clone())).unwrap_or_default();
        let published = PublishedManifest { manifest, json, config, signed: Mutex::default() };
        let signed = published.sign()?;
        *published.lock() = signed;
        Ok(published)
    }

    pub(crate) fn manifest(&self) -> String {
        self.json.clone()
    }

    pub(crate) fn signed(&self) -> Option<String> {
        self.lock().jws.clone()
    }

    /// Returns the keys that manifests are signed with, as a JWK set.
    pub(crate) fn keys(&self) -> String {
        let signed = self.lock();
        let retired = signed.retired.as_ref().filter(|(_, until)| Instant::now() < *until);
        let retired = retired.into_iter().flat_map(|(keys, _)| keys.iter());
        let others = retired.filter(|key| signed.keys.iter().all(|current| current != *key));
        signed.keys.iter().chain(others).cloned().collect::<KeySet>().to_jwks()
    }

    /// Signs the manifest again if a key file has changed, and updates the engines.
    pub(crate) async fn refresh(&self, engines: &Engines) {
        if self.lock().modified == self.modified() {
            return;
        }
        match self.sign() {
            Ok(mut signed) => {
                let jws = signed.jws.clone();
                {
                    let mut current = self.lock();
                    signed.retired = Some((std::mem::take(&mut current.keys), Instant::now() + KEY_OVERLAP));
                    *current = signed;
                }
                tracing::info!("signed the manifest with a changed key");
                engines.set_signed_manifest(jws).await;
            }
            Err(error) => {
                // The previous signature stays in use.
                tracing::warn!(%error, "cannot sign the manifest with the changed key; keeping the previous signature");
                self.lock().modified = self.modified();
            }
        }
    }

    fn sign(&self) -> Result<SignedManifest, ConfigError> {
        let modified = self.modified();
        let error = |what: &str, e: &dyn std::fmt::Display| ConfigError(format!("{what}: {e}"));
        let Some(path) = &self.config.key else {
            return Ok(SignedManifest { jws: None, keys: KeySet::default(), retired: None, modified });
        };
        let key = SigningKey::load(path).map_err(|e| error("manifest.key", &e))?;
        let other = match &self.config.other_keys {
            Some(path) => KeySet::load(path).map_err(|e| error("manifest.other_keys", &e))?,
            None => KeySet::default(),
        };
        let jws = sign_manifest(&self.manifest, &key, system_time()).map_err(|e| error("manifest.key", &e))?;
        let keys: KeySet = std::iter::once(key.public().clone()).chain(other.iter().cloned()).collect();
        Ok(SignedManifest { jws: Some(jws), keys, retired: None, modified })
    }

    fn modified(&self) -> Vec<Option<SystemTime>> {
        let time = |path: &PathBuf| std::fs::metadata(path).and_then(|m| m.modified()).ok();
        [&self.config.key, &self.config.other_keys].map(|path| path.as_ref().and_then(time)).to_vec()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, SignedManifest> {
        self.signed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use aaep_keys::Algorithm;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn previous_keys_stay_published_after_a_rotation() {
        let files = tempfile::tempdir().unwrap();
        let path = files.path().join("key.pem");
        let (old, new) =
            (SigningKey::generate(Algorithm::Es256).unwrap(), SigningKey::generate(Algorithm::Es256).unwrap());
        old.write_new(&path).unwrap();
        let producer = aaep::Producer::builder("banker").build();
        let config = SigningConfig { key: Some(path.clone()), ..SigningConfig::default() };
        let published =
            PublishedManifest::new(producer.manifest(vec!["sse".to_owned()]).await.unwrap(), config).unwrap();
        let before = published.signed().unwrap();
        std::fs::remove_file(&path).unwrap();
        new.write_new(&path).unwrap();
        published.lock().modified.clear();
        published.refresh(&Engines::shared(producer.clone())).await;
        let kids = || published.keys();
        assert!(kids().contains(old.kid()) && kids().contains(new.kid()), "{}", kids());
        let keys = KeySet::from_jwks(&kids()).unwrap();
        for jws in [before, published.signed().unwrap()] {
            aaep_keys::verify_manifest(&jws, &keys).unwrap();
        }
        tokio::time::advance(KEY_OVERLAP).await;
        assert!(!kids().contains(old.kid()) && kids().contains(new.kid()), "{}", kids());
    }
}
