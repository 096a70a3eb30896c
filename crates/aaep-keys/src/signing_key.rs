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
use crate::{Algorithm, KeyError, PublicKey, file, jws};

enum Pair {
    Ec(EcdsaKeyPair),
    Ed(Ed25519KeyPair),
    Rsa(RsaKeyPair),
}

/// A private key with its public half, named by its RFC 7638 thumbprint.
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
    pair: Pair,
    public: PublicKey,
}

impl SigningKey {
    /// Makes a new one. RSA keys get 3072 bits and take a moment.
    pub fn generate(algorithm: Algorithm) -> Result<SigningKey, KeyError> {
        let pair = match algorithm {
            Algorithm::Es256 => EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).map(Pair::Ec),
            Algorithm::EdDsa => Ed25519KeyPair::generate().map(Pair::Ed),
            Algorithm::Rs256 => RsaKeyPair::generate(KeySize::Rsa3072).map(Pair::Rsa),
        };
        SigningKey::new(pair.map_err(|_| KeyError::Crypto)?)
    }

    /// Reads PEM: `PRIVATE KEY` (PKCS #8), or the older `EC PRIVATE KEY` and `RSA PRIVATE KEY`.
    pub fn from_pem(text: &str) -> Result<SigningKey, KeyError> {
        // `openssl ecparam -genkey` writes the curve as a block of its own before the key.
        let blocks = pem::parse_many(text).map_err(|_| KeyError::NotPem)?;
        let block = blocks.iter().find(|b| b.tag() != "EC PARAMETERS").ok_or(KeyError::NotPem)?;
        let der = block.contents();
        let ec = || EcdsaKeyPair::from_private_key_der(&ECDSA_P256_SHA256_FIXED_SIGNING, der).map(Pair::Ec);
        let pair = match block.tag() {
            "PRIVATE KEY" => ec()
                .or_else(|_| Ed25519KeyPair::from_pkcs8(der).map(Pair::Ed))
                .or_else(|_| RsaKeyPair::from_pkcs8(der).map(Pair::Rsa)),
            "EC PRIVATE KEY" => ec(),
            "RSA PRIVATE KEY" => RsaKeyPair::from_der(der).map(Pair::Rsa),
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

    /// Writes a private key file that only its owner may read. An existing file is left as it is.
    pub fn write_new(&self, path: &Path) -> Result<(), KeyError> {
        Ok(file::write_secret(path, &self.to_pem()?)?)
    }

    /// The private key as PKCS #8 in PEM form: a secret.
    pub fn to_pem(&self) -> Result<String, KeyError> {
        let der = match &self.pair {
            Pair::Ec(pair) => pair.to_pkcs8v1().map(|d| d.as_ref().to_vec()),
            Pair::Ed(pair) => pair.to_pkcs8v1().map(|d| d.as_ref().to_vec()),
            Pair::Rsa(pair) => AsDer::<Pkcs8V1Der<'_>>::as_der(pair).map(|d| d.as_ref().to_vec()),
        };
        Ok(encode("PRIVATE KEY", der.map_err(|_| KeyError::Crypto)?))
    }

    /// The public half in PEM form.
    pub fn public_pem(&self) -> Result<String, KeyError> {
        let der: Result<PublicKeyX509Der<'_>, _> = match &self.pair {
            Pair::Ec(pair) => pair.public_key().as_der(),
            Pair::Ed(pair) => pair.public_key().as_der(),
            Pair::Rsa(pair) => pair.public_key().as_der(),
        };
        Ok(encode("PUBLIC KEY", der.map_err(|_| KeyError::Crypto)?.as_ref().to_vec()))
    }

    /// The public half.
    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    /// Its name: the thumbprint of its public half.
    pub fn kid(&self) -> &str {
        self.public.thumbprint()
    }

    /// How it signs.
    pub fn algorithm(&self) -> Algorithm {
        self.public.algorithm()
    }

    /// Signs bytes as a compact JWS of a type.
    pub fn sign(&self, typ: &str, payload: &[u8]) -> Result<String, KeyError> {
        jws::sign(self, typ, payload)
    }

    pub(crate) fn signature(&self, message: &[u8]) -> Result<Vec<u8>, KeyError> {
        let random = SystemRandom::new();
        match &self.pair {
            Pair::Ec(pair) => pair.sign(&random, message).map(|s| s.as_ref().to_vec()),
            Pair::Ed(pair) => pair.try_sign(message).map(|s| s.as_ref().to_vec()),
            Pair::Rsa(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature).map(|()| signature)
            }
        }
        .map_err(|_| KeyError::Crypto)
    }

    fn new(pair: Pair) -> Result<SigningKey, KeyError> {
        let algorithm = match &pair {
            Pair::Ec(pair) => {
                // An uncompressed point: 4, then x and y of 32 bytes each.
                let (x, y) = pair.public_key().as_ref().get(1..65).ok_or(KeyError::Unsupported)?.split_at(32);
                AlgorithmParameters::EllipticCurve(EllipticCurveKeyParameters {
                    key_type: EllipticCurveKeyType::EC,
                    curve: EllipticCurve::P256,
                    x: jws::encode(x),
                    y: jws::encode(y),
                })
            }
            Pair::Ed(pair) => AlgorithmParameters::OctetKeyPair(OctetKeyPairParameters {
                key_type: OctetKeyPairType::OctetKeyPair,
                curve: EllipticCurve::Ed25519,
                x: jws::encode(pair.public_key().as_ref()),
            }),
            Pair::Rsa(pair) => rsa_jwk(pair.public_key()).algorithm,
        };
        let public = PublicKey::new(Jwk { common: Default::default(), algorithm })?.named();
        Ok(SigningKey { pair, public })
    }
}

/// Shows the name, never the secret.
impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningKey").field("public", &self.public).finish_non_exhaustive()
    }
}

fn encode(tag: &str, der: Vec<u8>) -> String {
    let lines = pem::EncodeConfig::new().set_line_ending(pem::LineEnding::LF);
    pem::encode_config(&pem::Pem::new(tag, der), lines)
}
