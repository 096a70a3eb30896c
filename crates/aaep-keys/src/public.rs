//! The public half of a key.

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::rsa;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents,
};
use jsonwebtoken::jwk::{
    AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, KeyOperations, PublicKeyUse, RSAKeyParameters, RSAKeyType,
    ThumbprintHash,
};
use jsonwebtoken::{DecodingKey, DecodingKeyKind};
use serde_json::Value;

use crate::{Algorithm, KeyError, base64url};

/// The longest key id, in characters.
pub(crate) const MAX_KID_CHARACTERS: usize = 256;

/// A public key. It verifies signatures.
///
/// ```
/// use aaep_keys::{Algorithm, PublicKey, SigningKey};
/// let key = SigningKey::generate(Algorithm::EdDsa)?;
/// let jwk = key.public().to_jwk();
/// assert_eq!(jwk["crv"], "Ed25519");
/// assert_eq!(jwk["kid"], key.kid());
/// assert_eq!(PublicKey::from_jwk(&jwk)?.thumbprint(), key.kid());
/// # Ok::<(), aaep_keys::KeyError>(())
/// ```
#[derive(Clone)]
pub struct PublicKey {
    algorithm: Algorithm,
    /// The key id with which it was published. Keys in PEM files have none.
    kid: Option<String>,
    thumbprint: String,
    jwk: Jwk,
    parsed: Arc<ParsedPublicKey>,
}

impl PublicKey {
    /// Parses a JSON Web Key. Rejects keys that are not for signatures or for a supported algorithm, and points that are
    /// not on their curve.
    pub fn from_jwk(jwk: &Value) -> Result<PublicKey, KeyError> {
        let jwk: Jwk = serde_json::from_value(jwk.clone()).map_err(|_| KeyError::Unsupported)?;
        PublicKey::new(jwk)
    }

    /// Parses a `PUBLIC KEY` or `RSA PUBLIC KEY` block.
    pub fn from_pem(text: &str) -> Result<PublicKey, KeyError> {
        let block = pem::parse(text).map_err(|_| KeyError::NotPem)?;
        PublicKey::from_block(&block)
    }

    pub(crate) fn from_block(block: &pem::Pem) -> Result<PublicKey, KeyError> {
        match block.tag() {
            "PUBLIC KEY" | "RSA PUBLIC KEY" => {}
            tag if tag.ends_with("PRIVATE KEY") => return Err(KeyError::PrivateKey),
            _ => return Err(KeyError::Unsupported),
        }
        if let Ok(key) = rsa::PublicKey::from_der(block.contents()) {
            return PublicKey::new(rsa_jwk(&key));
        }
        let text = pem::encode(block);
        let (key, algorithm) = DecodingKey::from_ec_pem(text.as_bytes())
            .map(|key| (key, Algorithm::Es256))
            .or_else(|_| DecodingKey::from_ed_pem(text.as_bytes()).map(|key| (key, Algorithm::EdDsa)))
            .map_err(|_| KeyError::Unsupported)?;
        let jwk = Jwk::from_decoding_key(&key, Some(algorithm.into())).map_err(|_| KeyError::Unsupported)?;
        PublicKey::new(jwk)
    }

    pub(crate) fn new(mut jwk: Jwk) -> Result<PublicKey, KeyError> {
        let algorithm = algorithm_of(&jwk)?;
        let kid = jwk.common.key_id.take();
        if kid.as_ref().is_some_and(|kid| kid.is_empty() || kid.chars().count() > MAX_KID_CHARACTERS) {
            return Err(KeyError::Unsupported);
        }
        let parsed = parse(&jwk, algorithm).ok_or(KeyError::Unsupported)?;
        install_provider();
        let thumbprint = jwk.thumbprint(ThumbprintHash::SHA256).map_err(|_| KeyError::Unsupported)?;
        Ok(PublicKey { algorithm, kid, thumbprint, jwk, parsed: Arc::new(parsed) })
    }

    /// Uses the thumbprint as key id.
    pub(crate) fn with_thumbprint_as_kid(mut self) -> PublicKey {
        self.kid = Some(self.thumbprint.clone());
        self
    }

    /// Returns the algorithm of the signatures that it verifies.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Returns the key id with which it was published, if any.
    pub fn kid(&self) -> Option<&str> {
        self.kid.as_deref()
    }

    /// Returns the thumbprint of the key (RFC 7638).
    pub fn thumbprint(&self) -> &str {
        &self.thumbprint
    }

    /// Returns the JSON Web Key, with key id, algorithm and use.
    pub fn to_jwk(&self) -> Value {
        let mut jwk = self.jwk.clone();
        jwk.common = Default::default();
        jwk.common.key_id = Some(self.kid.clone().unwrap_or_else(|| self.thumbprint.clone()));
        jwk.common.key_algorithm = Some(KeyAlgorithm::from(jsonwebtoken::Algorithm::from(self.algorithm)));
        jwk.common.public_key_use = Some(PublicKeyUse::Signature);
        serde_json::to_value(jwk).expect("a JWK is made of strings")
    }

    pub(crate) fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        self.parsed.verify_sig(message, signature).is_ok()
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PublicKey").field("algorithm", &self.algorithm).field("kid", &self.kid).finish_non_exhaustive()
    }
}

impl PartialEq for PublicKey {
    fn eq(&self, other: &PublicKey) -> bool {
        self.thumbprint == other.thumbprint && self.kid == other.kid
    }
}

impl Eq for PublicKey {}

/// Returns the algorithm of a key. The declared algorithm and use must agree with the type of the key.
fn algorithm_of(jwk: &Jwk) -> Result<Algorithm, KeyError> {
    let algorithm = match &jwk.algorithm {
        AlgorithmParameters::EllipticCurve(key) if key.curve == EllipticCurve::P256 => Algorithm::Es256,
        AlgorithmParameters::OctetKeyPair(key) if key.curve == EllipticCurve::Ed25519 => Algorithm::EdDsa,
        AlgorithmParameters::RSA(_) => Algorithm::Rs256,
        _ => return Err(KeyError::Unsupported),
    };
    let common = &jwk.common;
    let declared = KeyAlgorithm::from(jsonwebtoken::Algorithm::from(algorithm));
    let is_ours = common.key_algorithm.is_none_or(|a| a == declared);
    let signs = common.public_key_use.as_ref().is_none_or(|u| *u == PublicKeyUse::Signature);
    let verifies = common.key_operations.as_ref().is_none_or(|o| o.contains(&KeyOperations::Verify));
    if is_ours && signs && verifies { Ok(algorithm) } else { Err(KeyError::Unsupported) }
}

fn parse(jwk: &Jwk, algorithm: Algorithm) -> Option<ParsedPublicKey> {
    let key = DecodingKey::from_jwk(jwk).ok()?;
    match (algorithm, key.kind()) {
        (Algorithm::Es256, DecodingKeyKind::SecretOrDer(point)) if point.len() == 65 => {
            ParsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).ok()
        }
        (Algorithm::EdDsa, DecodingKeyKind::SecretOrDer(point)) if point.len() == 32 => {
            ParsedPublicKey::new(&ED25519, point).ok()
        }
        (Algorithm::Rs256, DecodingKeyKind::RsaModulusExponent { n, e }) => {
            // The library checks the size only when it verifies; a key that can never verify is refused now.
            let bits = n.len() * 8 - n.first()?.leading_zeros() as usize;
            // The library accepts an exponent of 1, with which every message is its own signature.
            let safe_exponent = (1..=4).contains(&e.len()) && e[0] != 0 && e[..] != [1] && e.last()? % 2 == 1;
            if !(2048..=8192).contains(&bits) || n.first() == Some(&0) || !safe_exponent {
                return None;
            }
            RsaPublicKeyComponents { n, e }.to_parsed_public_key(&RSA_PKCS1_2048_8192_SHA256).ok()
        }
        _ => None,
    }
}

pub(crate) fn rsa_jwk(key: &rsa::PublicKey) -> Jwk {
    let RsaPublicKeyComponents { n, e } = RsaPublicKeyComponents::<Vec<u8>>::from(key);
    let (n, e) = (base64url::encode(n), base64url::encode(e));
    Jwk {
        common: Default::default(),
        algorithm: AlgorithmParameters::RSA(RSAKeyParameters { key_type: RSAKeyType::RSA, n, e }),
    }
}

/// Installs the crypto provider of `jsonwebtoken`, which panics without one if several backends are compiled in. Keeps
/// a provider that is installed already.
fn install_provider() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let _ = jsonwebtoken::crypto::aws_lc::DEFAULT_PROVIDER.install_default();
    });
}
