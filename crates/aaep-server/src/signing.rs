//! The manifest as it is published: what is really offered, signed by the newest key.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use aaep::Producer;
use aaep_keys::{KeySet, SigningKey, sign_manifest};
use aaep_proto::message::Manifest;

use crate::clock;
use crate::config::{ConfigError, Signing};

/// What anyone can read about the producer.
#[derive(Debug)]
pub(crate) struct Published {
    manifest: Manifest,
    json: String,
    config: Signing,
    signed: Mutex<Signed>,
}

#[derive(Debug, Default)]
struct Signed {
    jws: Option<String>,
    keys: String,
    /// When the files were changed that this was made from.
    from: Vec<Option<SystemTime>>,
}

impl Published {
    pub(crate) fn new(manifest: Manifest, config: Signing) -> Result<Published, ConfigError> {
        let json = serde_json::to_string(&aaep_proto::message::Message::from(manifest.clone())).unwrap_or_default();
        let published = Published { manifest, json, config, signed: Mutex::default() };
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

    pub(crate) fn keys(&self) -> String {
        self.lock().keys.clone()
    }

    /// Signs again if a key file has changed, and tells the producer.
    pub(crate) async fn refresh(&self, producer: &Producer) {
        if self.lock().from == self.changed() {
            return;
        }
        match self.sign() {
            Ok(signed) => {
                let jws = signed.jws.clone();
                *self.lock() = signed;
                tracing::info!("the manifest is signed with another key");
                // A producer that has ended offers nothing.
                let _ = producer.set_signed_manifest(jws).await;
            }
            Err(error) => {
                // The last good one stays in use.
                tracing::warn!(%error, "the manifest could not be signed with the changed key");
                self.lock().from = self.changed();
            }
        }
    }

    fn sign(&self) -> Result<Signed, ConfigError> {
        let from = self.changed();
        let told = |what: &str, e: &dyn std::fmt::Display| ConfigError(format!("{what}: {e}"));
        let Some(path) = &self.config.key else {
            return Ok(Signed { jws: None, keys: KeySet::default().to_jwks(), from });
        };
        let key = SigningKey::load(path).map_err(|e| told("manifest.key", &e))?;
        let other = match &self.config.other_keys {
            Some(path) => KeySet::load(path).map_err(|e| told("manifest.other_keys", &e))?,
            None => KeySet::default(),
        };
        let jws = sign_manifest(&self.manifest, &key, clock::wall()).map_err(|e| told("manifest.key", &e))?;
        let keys: KeySet = std::iter::once(key.public().clone()).chain(other.iter().cloned()).collect();
        Ok(Signed { jws: Some(jws), keys: keys.to_jwks(), from })
    }

    fn changed(&self) -> Vec<Option<SystemTime>> {
        let time = |path: &PathBuf| std::fs::metadata(path).and_then(|m| m.modified()).ok();
        [&self.config.key, &self.config.other_keys].map(|path| path.as_ref().and_then(time)).to_vec()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Signed> {
        self.signed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
