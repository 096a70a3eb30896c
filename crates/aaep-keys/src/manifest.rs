//! Signed manifests (5.10.3 and chapter 10): they prove which producer a manifest is from.

use std::fmt;

use aaep_proto::message::{Manifest, Message, SubscriptionAccepted};
use aaep_proto::time::Timestamp;
use aaep_proto::{Problem, Severity};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::{Algorithm, JwsError, KeyError, KeySet, SigningKey};

/// The longest signed manifest, in bytes.
pub const MANIFEST_BYTES: usize = 256 * 1024;

/// The `typ` in the header of a signed manifest, so that it cannot be used as a token (RFC 8725, 3.11).
pub const MANIFEST_TYP: &str = "aaep-manifest+jws";

/// Why a manifest is rejected, or cannot be signed.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ManifestError {
    /// The signature is missing or wrong, or its key is unknown.
    Signature(JwsError),
    /// The signed document is not a manifest. Holds the first problem.
    NotAManifest(String),
    /// The key cannot sign it.
    Key(KeyError),
}

impl ManifestError {
    /// Returns a short code for logs and metrics.
    pub fn code(&self) -> &'static str {
        match self {
            ManifestError::Signature(error) => error.code(),
            ManifestError::NotAManifest(_) => "not-a-manifest",
            ManifestError::Key(_) => "key",
        }
    }
}

impl fmt::Display for ManifestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ManifestError::Signature(error) => write!(f, "the manifest is not trusted: {error}"),
            ManifestError::NotAManifest(problem) => write!(f, "this is not a manifest: {problem}"),
            ManifestError::Key(error) => write!(f, "the key {error}"),
        }
    }
}

impl std::error::Error for ManifestError {}

impl From<KeyError> for ManifestError {
    fn from(error: KeyError) -> ManifestError {
        ManifestError::Key(error)
    }
}

/// Signs a manifest. The claims are its fields and the time of signing.
///
/// ```
/// use aaep_keys::{Algorithm, KeySet, SigningKey, sign_manifest, verify_manifest};
/// use aaep_proto::time::Timestamp;
/// # let json = r#"{"@context":"https://aaep-protocol.org/context/v1","type":"aaep:producer.manifest",
/// #   "agent_id":"planner","aaep_versions_supported":["1.0.0"],"conformance_levels_supported":[1],
/// #   "transports_supported":["sse"]}"#;
/// # let aaep_proto::message::Message::Manifest(manifest) = serde_json::from_str(json)? else { unreachable!() };
/// let key = SigningKey::generate(Algorithm::Es256)?;
/// let jws = sign_manifest(&manifest, &key, Timestamp::from_millis(1_779_632_531_000))?;
/// let known = KeySet::from_iter([key.public().clone()]);
/// let verified = verify_manifest(&jws, &known).expect("it was signed with a known key");
/// assert_eq!(verified.manifest.agent_id, "planner");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn sign_manifest(manifest: &Manifest, key: &SigningKey, at: Timestamp) -> Result<String, ManifestError> {
    let message = Message::from(manifest.clone());
    let json = serde_json::to_vec(&message).expect("a manifest is made of strings, numbers and lists");
    sign_manifest_json(&json, key, at)
}

/// Signs a manifest in JSON, including fields that this version does not know. It must be valid.
pub fn sign_manifest_json(json: &[u8], key: &SigningKey, at: Timestamp) -> Result<String, ManifestError> {
    let report = aaep_proto::validate(json);
    if let Some(problem) = report.problems.iter().find(|p| p.severity == Severity::Error) {
        return Err(ManifestError::NotAManifest(describe(problem)));
    }
    read(json)?;
    let mut claims: Map<String, Value> =
        serde_json::from_slice(json).map_err(|error| ManifestError::NotAManifest(error.to_string()))?;
    claims.insert("iat".to_owned(), at.millis().div_euclid(1000).into());
    let claims = serde_json::to_vec(&claims).expect("a map of values is JSON");
    let jws = key.sign(MANIFEST_TYP, &claims)?;
    if jws.len() > MANIFEST_BYTES {
        return Err(ManifestError::Signature(JwsError::TooLong));
    }
    Ok(jws)
}

fn describe(problem: &Problem) -> String {
    match problem.pointer.as_str() {
        "" => problem.message.clone(),
        pointer => format!("at {pointer}: {}", problem.message),
    }
}

fn read(json: &[u8]) -> Result<Manifest, ManifestError> {
    match Message::parse(json) {
        Ok(Message::Manifest(manifest)) => Ok(*manifest),
        Ok(_) => Err(ManifestError::NotAManifest("it has another type".to_owned())),
        Err(error) => Err(ManifestError::NotAManifest(error.to_string())),
    }
}

/// A manifest that was signed with a known key.
#[derive(Clone, Debug, PartialEq)]
pub struct VerifiedManifest {
    /// The manifest.
    pub manifest: Manifest,
    /// When it was signed, in seconds since 1970.
    pub issued_at: Option<i64>,
    /// When it expires, in seconds since 1970, if it does.
    pub expires_at: Option<i64>,
    /// The thumbprint of the key that signed it.
    pub key: String,
    /// The algorithm of the signature.
    pub algorithm: Algorithm,
}

#[derive(Deserialize)]
struct Times {
    iat: Option<f64>,
    exp: Option<f64>,
}

/// Verifies the signature of a manifest with these keys. Whether it is the manifest of the connected producer is
/// checked by [`VerifiedManifest::check`].
pub fn verify_manifest(jws: &str, keys: &KeySet) -> Result<VerifiedManifest, ManifestError> {
    let verified = keys.verify(jws, MANIFEST_BYTES).map_err(ManifestError::Signature)?;
    let manifest = read(&verified.payload)?;
    let times: Times =
        serde_json::from_slice(&verified.payload).map_err(|error| ManifestError::NotAManifest(error.to_string()))?;
    Ok(VerifiedManifest {
        manifest,
        issued_at: times.iat.map(|seconds| seconds as i64),
        expires_at: times.exp.map(|seconds| seconds as i64),
        key: verified.key,
        algorithm: verified.algorithm,
    })
}

/// Why a signed manifest does not match a subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ManifestMismatch {
    /// It is the manifest of another agent than the one that accepted the subscription.
    AgentId {
        /// The agent of the manifest.
        signed: String,
        /// The agent that accepted the subscription.
        accepted: String,
    },
    /// It does not list the version of the subscription.
    Version(String),
    /// It does not list the transport of the connection.
    Transport(String),
    /// It does not list a conformance level of the subscription.
    Level(u32),
    /// It was signed in the future.
    NotYet,
    /// It has expired.
    Expired,
}

impl ManifestMismatch {
    /// Returns a short code for logs and metrics.
    pub fn code(&self) -> &'static str {
        match self {
            ManifestMismatch::AgentId { .. } => "agent-id",
            ManifestMismatch::Version(_) => "version",
            ManifestMismatch::Transport(_) => "transport",
            ManifestMismatch::Level(_) => "level",
            ManifestMismatch::NotYet => "not-yet-valid",
            ManifestMismatch::Expired => "expired",
        }
    }
}

impl fmt::Display for ManifestMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ManifestMismatch::AgentId { signed, accepted } => {
                write!(f, "the signed manifest is that of {signed:?}, but {accepted:?} accepted the subscription")
            }
            ManifestMismatch::Version(version) => write!(f, "the signed manifest does not offer version {version:?}"),
            ManifestMismatch::Transport(transport) => {
                write!(f, "the signed manifest does not offer transport {transport:?}")
            }
            ManifestMismatch::Level(level) => write!(f, "the signed manifest does not offer level {level}"),
            ManifestMismatch::NotYet => f.write_str("the manifest was signed in the future; check the clocks"),
            ManifestMismatch::Expired => f.write_str("the signed manifest has expired"),
        }
    }
}

impl std::error::Error for ManifestMismatch {}

impl VerifiedManifest {
    /// Checks that it is the manifest of the producer that accepted a subscription over a transport, and that it lists the
    /// version, the transport and the levels of the subscription.
    pub fn check(&self, accepted: &SubscriptionAccepted, transport: &str) -> Result<(), ManifestMismatch> {
        let manifest = &self.manifest;
        if manifest.agent_id != accepted.producer.agent_id {
            let (signed, accepted) = (manifest.agent_id.clone(), accepted.producer.agent_id.clone());
            return Err(ManifestMismatch::AgentId { signed, accepted });
        }
        if !manifest.aaep_versions_supported.contains(&accepted.aaep_version) {
            return Err(ManifestMismatch::Version(accepted.aaep_version.clone()));
        }
        if !manifest.transports_supported.iter().any(|t| t == transport) {
            return Err(ManifestMismatch::Transport(transport.to_owned()));
        }
        let levels = accepted.honored_capabilities.fields.supported_conformance_levels.iter().flatten();
        match levels.copied().find(|level| !manifest.conformance_levels_supported.contains(level)) {
            Some(level) => Err(ManifestMismatch::Level(level)),
            None => Ok(()),
        }
    }

    /// Checks that it is valid at a time, if clocks differ by at most this many seconds.
    pub fn check_time(&self, now: Timestamp, leeway_seconds: u32) -> Result<(), ManifestMismatch> {
        let (now, leeway) = (now.millis().div_euclid(1000), i64::from(leeway_seconds));
        if self.issued_at.is_some_and(|at| at > now.saturating_add(leeway)) {
            return Err(ManifestMismatch::NotYet);
        }
        if self.expires_at.is_some_and(|at| at.saturating_add(leeway) <= now) {
            return Err(ManifestMismatch::Expired);
        }
        Ok(())
    }
}
