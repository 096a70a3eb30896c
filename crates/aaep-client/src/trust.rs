//! Checks of signed manifests: whether a producer still signs with the key that it had before.

use aaep_keys::{KeySet, VerifiedManifest, verify_manifest};
use aaep_proto::binding::{TransportKind, path};
use aaep_proto::limits;
use aaep_proto::message::{Manifest, SubscriptionAccepted};
use aaep_proto::subscriber::ManifestCheck;
use aaep_proto::time::Timestamp;

use crate::address::HttpOrigin;
#[cfg(feature = "_http")]
use crate::http::Http;
use crate::known_keys::producer_name;
use crate::options::ConnectOptions;

/// The subscription whose manifest is checked: with whom, over which transport, and when.
pub(crate) struct CheckContext<'a> {
    pub(crate) accepted: &'a SubscriptionAccepted,
    pub(crate) origin: Option<&'a HttpOrigin>,
    #[cfg(feature = "_http")]
    pub(crate) http: &'a Http,
    pub(crate) transport: TransportKind,
    pub(crate) now: Timestamp,
}

impl CheckContext<'_> {
    /// Reads a document that the producer publishes on its host. Returns `None` if there is none.
    #[cfg(feature = "_http")]
    async fn fetch(&self, path: &str, accept: &'static str) -> Option<String> {
        let response = self.http.get(self.origin?, path, accept).await.ok()?;
        if !response.status.is_success() {
            return None;
        }
        std::str::from_utf8(&response.body).ok().map(str::to_owned)
    }

    /// Returns `None`: without a transport that reaches a host there is none to read from.
    #[cfg(not(feature = "_http"))]
    async fn fetch(&self, _path: &str, _accept: &'static str) -> Option<String> {
        None
    }

    async fn fetch_keys(&self) -> Option<KeySet> {
        KeySet::from_jwks(&self.fetch(path::KEYS, "application/json").await?).ok()
    }

    async fn fetch_signed_manifest(&self) -> Option<String> {
        Some(self.fetch(path::MANIFEST, "application/jose").await?.trim().to_owned())
    }
}

/// Checks the signed manifest of a producer.
pub(crate) async fn check(context: &CheckContext<'_>, options: &ConnectOptions) -> ManifestCheck {
    let jws = match &context.accepted.signed_manifest {
        Some(jws) => jws.clone(),
        None if options.requires_signed_manifest() => match context.fetch_signed_manifest().await {
            Some(jws) => jws,
            None => return ManifestCheck::Unsigned,
        },
        None => return ManifestCheck::Unsigned,
    };
    match verify_signature(context, &jws, options).await {
        Ok(KeyStatus::Trusted(verified)) => check_contents(context, verified, ManifestCheck::Verified),
        Ok(KeyStatus::Changed(verified)) => check_contents(context, verified, ManifestCheck::KeyChanged),
        // Without a key to compare with, a signature proves nothing.
        Ok(KeyStatus::Unknown) if !options.requires_signed_manifest() => ManifestCheck::Unsigned,
        Ok(KeyStatus::Unknown) => ManifestCheck::Failed("the key that signed it is not known.".to_owned()),
        Err(why) => ManifestCheck::Failed(why),
    }
}

fn check_contents(
    context: &CheckContext<'_>,
    verified: VerifiedManifest,
    passed: impl FnOnce(Box<Manifest>) -> ManifestCheck,
) -> ManifestCheck {
    let skew = u32::try_from(limits::CLOCK_SKEW_SECONDS).unwrap_or(u32::MAX);
    let result = verified
        .check_time(context.now, skew)
        .and_then(|()| verified.check(context.accepted, context.transport.as_str()));
    match result {
        Ok(()) => passed(Box::new(verified.manifest)),
        Err(mismatch) => ManifestCheck::Failed(mismatch.to_string()),
    }
}

/// How the key behind a valid signature compares with the keys that are known.
enum KeyStatus {
    Trusted(VerifiedManifest),
    Changed(VerifiedManifest),
    Unknown,
}

async fn verify_signature(
    context: &CheckContext<'_>,
    jws: &str,
    options: &ConnectOptions,
) -> Result<KeyStatus, String> {
    if let Ok(verified) = verify_manifest(jws, &options.keys) {
        return Ok(KeyStatus::Trusted(verified));
    }
    let name = producer_name(context.origin, &context.accepted.producer.agent_id);
    let known = match &options.known_keys {
        Some(file) => file.find(&name).map_err(|error| error.to_string())?,
        None => None,
    };
    if let Some(keys) = &known
        && let Ok(verified) = verify_manifest(jws, keys)
    {
        return Ok(KeyStatus::Trusted(verified));
    }
    let published = context.fetch_keys().await.unwrap_or_default();
    let verified = match verify_manifest(jws, &published) {
        Ok(verified) => verified,
        Err(_) if published.is_empty() && known.is_none() && options.keys.is_empty() => return Ok(KeyStatus::Unknown),
        Err(error) => return Err(error.to_string()),
    };
    let Some(file) = &options.known_keys else { return Ok(KeyStatus::Unknown) };
    if known.is_some() {
        return Ok(KeyStatus::Changed(verified));
    }
    // Trust on first use: from now on this is the producer's key.
    if let Some(key) = published.iter().find(|key| key.thumbprint() == verified.key) {
        file.remember(&name, key).map_err(|error| error.to_string())?;
    }
    Ok(KeyStatus::Trusted(verified))
}
