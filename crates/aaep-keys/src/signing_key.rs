//! Key pairs: made, kept in files, used to sign.

use std::fmt;
use std::path::Path;

use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der, PublicKeyX509Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256, RsaKeyPair,
};
use jsonwebtoken::jwk::{
    AlgorithmParameters, EllipticCurve, EllipticCurveKeyParameters, EllipticCurveKeyType, Jwk, OctetKeyPairParameters,
    OctetKeyPairType,
};

use crate::public::rsa_jwk;
use crate::{Algorithm, KeyError, PublicKey, base64url, file};

enum PrivateKeyPair {
    Ec(EcdsaKeyPair),
    Ed(Ed25519KeyPair),
    Rsa(RsaKeyPair),
}

/// A private key with its public key. The key id is the RFC 7638 thumbprint.
///
/// ```
/// use aaep_keys::{Algorithm, KeySet, SigningKey};
/// let key = SigningKey::generate(Algorithm::Es256)?;
/// let again = SigningKey::from_pem(&key.to_pem()?)?;
/// let jws = again.sign("JWT", br#"{"hello":"world"}"#)?;
/// let set = KeySet::from_iter([key.public().clone()]);
/// assert_eq!(set.verify(&jws, 4096).expect("it is signed").payload, br#"{"hello":"world"}"#);
/// # Ok::<(), aaep_keys::KeyError>(())
/// ```
pub struct SigningKey {
    pair: PrivateKeyPair,
    public: PublicKey,
}

impl SigningKey {
    /// Generates a new key. RSA keys have 3072 bits and take a moment.
    pub fn generate(algorithm: Algorithm) -> Result<SigningKey, KeyError> {
        let pair = match algorithm {
            Algorithm::Es256 => EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).map(PrivateKeyPair::Ec),
            Algorithm::EdDsa => Ed25519KeyPair::generate().map(PrivateKeyPair::Ed),
            Algorithm::Rs256 => RsaKeyPair::generate(KeySize::Rsa3072).map(PrivateKeyPair::Rsa),
        };
        SigningKey::new(pair.map_err(|_| KeyError::Crypto)?)
    }

    /// Parses PEM: `PRIVATE KEY` (PKCS #8), or the older `EC PRIVATE KEY` and `RSA PRIVATE KEY`.
    pub fn from_pem(text: &str) -> Result<SigningKey, KeyError> {
        // `openssl ecparam -genkey` writes the curve as a block of its own before the key.
        let blocks = pem::parse_many(text).map_err(|_| KeyError::NotPem)?;
        let block = blocks.iter().find(|b| b.tag() != "EC PARAMETERS").ok_or(KeyError::NotPem)?;
        let der = block.contents();
        let ec = || EcdsaKeyPair::from_private_key_der(&ECDSA_P256_SHA256_FIXED_SIGNING, der).map(PrivateKeyPair::Ec);
        let pair = match block.tag() {
            "PRIVATE KEY" => ec()
                .or_else(|_| Ed25519KeyPair::from_pkcs8(der).map(PrivateKeyPair::Ed))
                .or_else(|_| RsaKeyPair::from_pkcs8(der).map(PrivateKeyPair::Rsa)),
            "EC PRIVATE KEY" => ec(),
            "RSA PRIVATE KEY" => RsaKeyPair::from_der(der).map(PrivateKeyPair::Rsa),
            "ENCRYPTED PRIVATE KEY" => return Err(KeyError::Encrypted),
            "PUBLIC KEY" | "RSA PUBLIC KEY" | "CERTIFICATE" => return Err(KeyError::PublicKey),
            _ => return Err(KeyError::Unsupported),
        };
        SigningKey::new(pair.map_err(|_| KeyError::Unsupported)?)
    }

    /// Reads a private key file. It must not be open to other users.
    pub fn load(path: &Path) -> Result<SigningKey, KeyError> {
        SigningKey::from_pem(&file::read_secret(path)?)
    }

    /// Writes a private key file that only its owner may read. Fails if the file exists.
    pub fn write_new(&self, path: &Path) -> Result<(), KeyError> {
        Ok(file::write_secret(path, &self.to_pem()?)?)
    }

    /// Returns the private key as PKCS #8 in PEM form. It is a secret.
    pub fn to_pem(&self) -> Result<String, KeyError> {
        let der = match &self.pair {
            PrivateKeyPair::Ec(pair) => pair.to_pkcs8v1().map(|d| d.as_ref().to_vec()),
            PrivateKeyPair::Ed(pair) => pair.to_pkcs8v1().map(|d| d.as_ref().to_vec()),
            PrivateKeyPair::Rsa(pair) => AsDer::<Pkcs8V1Der<'_>>::as_der(pair).map(|d| d.as_ref().to_vec()),
        };
        Ok(encode("PRIVATE KEY", der.map_err(|_| KeyError::Crypto)?))
    }

    /// Returns the public key in PEM form.
    pub fn public_pem(&self) -> Result<String, KeyError> {
        let der: Result<PublicKeyX509Der<'_>, _> = match &self.pair {
            PrivateKeyPair::Ec(pair) => pair.public_key().as_der(),
            PrivateKeyPair::Ed(pair) => pair.public_key().as_der(),
            PrivateKeyPair::Rsa(pair) => pair.public_key().as_der(),
        };
        Ok(encode("PUBLIC KEY", der.map_err(|_| KeyError::Crypto)?.as_ref().to_vec()))
    }

    /// Returns the public key.
    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    /// Returns the key id: the thumbprint of the public key.
    pub fn kid(&self) -> &str {
        self.public.thumbprint()
    }

    /// Returns the algorithm of its signatures.
    pub fn algorithm(&self) -> Algorithm {
        self.public.algorithm()
    }

    pub(crate) fn signature(&self, message: &[u8]) -> Result<Vec<u8>, KeyError> {
        let random = SystemRandom::new();
        match &self.pair {
            PrivateKeyPair::Ec(pair) => pair.sign(&random, message).map(|s| s.as_ref().to_vec()),
            PrivateKeyPair::Ed(pair) => pair.try_sign(message).map(|s| s.as_ref().to_vec()),
            PrivateKeyPair::Rsa(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature).map(|()| signature)
            }
        }
        .map_err(|_| KeyError::Crypto)
    }

    fn new(pair: PrivateKeyPair) -> Result<SigningKey, KeyError> {
        let algorithm = match &pair {
            PrivateKeyPair::Ec(pair) => {
                // An uncompressed point: 4, then x and y of 32 bytes each.
                let (x, y) = pair.public_key().as_ref().get(1..65).ok_or(KeyError::Unsupported)?.split_at(32);
                AlgorithmParameters::EllipticCurve(EllipticCurveKeyParameters {
                    key_type: EllipticCurveKeyType::EC,
                    curve: EllipticCurve::P256,
                    x: base64url::encode(x),
                    y: base64url::encode(y),
                })
            }
            PrivateKeyPair::Ed(pair) => AlgorithmParameters::OctetKeyPair(OctetKeyPairParameters {
                key_type: OctetKeyPairType::OctetKeyPair,
                curve: EllipticCurve::Ed25519,
                x: base64url::encode(pair.public_key().as_ref()),
            }),
            PrivateKeyPair::Rsa(pair) => rsa_jwk(pair.public_key()).algorithm,
        };
        let public = PublicKey::new(Jwk { common: Default::default(), algorithm })?.with_thumbprint_as_kid();
        Ok(SigningKey { pair, public })
    }
}

/// Shows the key id, never the secret.
impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningKey").field("public", &self.public).finish_non_exhaustive()
    }
}

fn encode(tag: &str, der: Vec<u8>) -> String {
    let lines = pem::EncodeConfig::new().set_line_ending(pem::LineEnding::LF);
    pem::encode_config(&pem::Pem::new(tag, der), lines)
}
