//! Signed manifests (5.10.3 and chapter 10): what a producer says of itself, so that nobody else can say it.

use std::fmt;

use aaep_proto::message::{Manifest, Message, SubscriptionAccepted};
use aaep_proto::time::Timestamp;
use aaep_proto::{Problem, Severity};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::{Algorithm, JwsError, KeyError, KeySet, SigningKey};

/// Most bytes of a signed manifest.
pub const MANIFEST_BYTES: usize = 256 * 1024;

/// The type in the header, so that a manifest cannot pass for a token (RFC 8725, 3.11).
pub const MANIFEST_TYP: &str = "aaep-manifest+jws";

/// Why a manifest is not believed, or cannot be signed.
#[derive(Clone, Debug, PartialEq)]
pub enum ManifestError {
    /// The signature is missing, wrong, or not of a known key.
    Signature(JwsError),
    /// What is signed is no manifest; the first problem is told.
    NotAManifest(String),
    /// It cannot be signed with this key.
    Key(KeyError),
}

impl ManifestError {
    /// A word for logs and counters.
    pub fn code(&self) -> &'static str {
        match self {
            ManifestError::Signature(fault) => fault.code(),
            ManifestError::NotAManifest(_) => "not-a-manifest",
            ManifestError::Key(_) => "key",
        }
    }
}

impl fmt::Display for ManifestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ManifestError::Signature(fault) => write!(f, "the manifest is not to be believed: {fault}"),
            ManifestError::NotAManifest(problem) => write!(f, "this is not a manifest: {problem}"),
            ManifestError::Key(fault) => write!(f, "the key {fault}"),
        }
    }
}

impl std::error::Error for ManifestError {}

impl From<KeyError> for ManifestError {
    fn from(fault: KeyError) -> ManifestError {
        ManifestError::Key(fault)
    }
}

/// Signs a manifest. The claims are its fields and when it was signed.
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

/// Signs a manifest as it was written, with fields that this version does not know. It must keep the rules.
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
        Ok(_) => Err(ManifestError::NotAManifest("its type is another".to_owned())),
        Err(error) => Err(ManifestError::NotAManifest(error.to_string())),
    }
}

/// A manifest that was signed with a known key.
#[derive(Clone, Debug, PartialEq)]
pub struct VerifiedManifest {
    /// What the producer says of itself.
    pub manifest: Manifest,
    /// When it was signed, in seconds since 1970.
    pub issued_at: Option<i64>,
    /// Until when it holds, in seconds since 1970, if it says so.
    pub expires_at: Option<i64>,
    /// The thumbprint of the key that signed it.
    pub key: String,
    /// How it was signed.
    pub algorithm: Algorithm,
}

#[derive(Deserialize)]
struct Times {
    iat: Option<f64>,
    exp: Option<f64>,
}

/// Verifies a signed manifest against the keys that are known. It tells who signed; whether that is the producer
/// one talks to is for [`VerifiedManifest::check`].
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

/// Where a signed manifest and what a producer does are at odds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Misfit {
    /// Someone else's manifest: another agent than the one that accepted.
    AgentId {
        /// The agent that the manifest is about.
        signed: String,
        /// The agent that accepted the subscription.
        accepted: String,
    },
    /// The version that is spoken is not among those signed.
    Version(String),
    /// The transport in use is not among those signed.
    Transport(String),
    /// A level was agreed on that is not among those signed.
    Level(u32),
    /// It was signed at a time that has not come yet.
    NotYet,
    /// It says that it holds no longer.
    Expired,
}

impl Misfit {
    /// A word for logs and counters.
    pub fn code(&self) -> &'static str {
        match self {
            Misfit::AgentId { .. } => "agent-id",
            Misfit::Version(_) => "version",
            Misfit::Transport(_) => "transport",
            Misfit::Level(_) => "level",
            Misfit::NotYet => "not-yet-valid",
            Misfit::Expired => "expired",
        }
    }
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Misfit::AgentId { signed, accepted } => {
                write!(f, "the signed manifest is that of {signed:?}, but {accepted:?} answers")
            }
            Misfit::Version(version) => write!(f, "the signed manifest does not offer version {version:?}"),
            Misfit::Transport(transport) => write!(f, "the signed manifest does not offer transport {transport:?}"),
            Misfit::Level(level) => write!(f, "the signed manifest does not offer level {level}"),
            Misfit::NotYet => f.write_str("the manifest was signed in the future; check the clocks"),
            Misfit::Expired => f.write_str("the signed manifest has expired"),
        }
    }
}

impl std::error::Error for Misfit {}

impl VerifiedManifest {
    /// Whether it is about the producer that accepted a subscription over a transport, and offers what was agreed on:
    /// the version, the transport, the levels.
    pub fn check(&self, accepted: &SubscriptionAccepted, transport: &str) -> Result<(), Misfit> {
        let manifest = &self.manifest;
        if manifest.agent_id != accepted.producer.agent_id {
            let (signed, accepted) = (manifest.agent_id.clone(), accepted.producer.agent_id.clone());
            return Err(Misfit::AgentId { signed, accepted });
        }
        if !manifest.aaep_versions_supported.contains(&accepted.aaep_version) {
            return Err(Misfit::Version(accepted.aaep_version.clone()));
        }
        if !manifest.transports_supported.iter().any(|t| t == transport) {
            return Err(Misfit::Transport(transport.to_owned()));
        }
        let levels = accepted.honored_capabilities.fields.supported_conformance_levels.iter().flatten();
        match levels.copied().find(|level| !manifest.conformance_levels_supported.contains(level)) {
            Some(level) => Err(Misfit::Level(level)),
            None => Ok(()),
        }
    }

    /// Whether it holds at a time, for clocks that differ by at most so many seconds.
    pub fn check_time(&self, now: Timestamp, leeway_seconds: u32) -> Result<(), Misfit> {
        let (now, leeway) = (now.millis().div_euclid(1000), i64::from(leeway_seconds));
        if self.issued_at.is_some_and(|at| at > now.saturating_add(leeway)) {
            return Err(Misfit::NotYet);
        }
        if self.expires_at.is_some_and(|at| at.saturating_add(leeway) <= now) {
            return Err(Misfit::Expired);
        }
        Ok(())
    }
}
