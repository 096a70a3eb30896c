//! Errors of keys.

use std::fmt;

use crate::KeyFileError;

/// Why a key cannot be used. The text follows the name of the file and says what to do.
///
/// ```
/// use aaep_keys::{KeyError, SigningKey};
/// let error = SigningKey::from_pem("hello").unwrap_err();
/// assert_eq!(error, KeyError::NotPem);
/// assert_eq!(error.to_string(), "is not a key in PEM form; make one with: aaep keys new FILE");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyError {
    /// The file cannot be read or written.
    File(KeyFileError),
    /// There is no PEM block.
    NotPem,
    /// The private key is locked with a password.
    Encrypted,
    /// A public key where a private one is needed.
    PublicKey,
    /// A private key where public ones are expected: it should not be handed around.
    PrivateKey,
    /// Not a P-256, Ed25519 or RSA key, or an RSA key of the wrong size.
    Unsupported,
    /// Neither a JSON Web Key Set nor PEM.
    NotKeySet,
    /// A key set without any key that could verify a signature.
    NoUsableKey,
    /// More keys than a rotation needs.
    TooManyKeys,
    /// The cryptographic library failed: no entropy, no memory.
    Crypto,
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            KeyError::File(error) => return error.fmt(f),
            KeyError::NotPem => "is not a key in PEM form; make one with: aaep keys new FILE",
            KeyError::Encrypted => "is locked with a password; unlock it with: openssl pkey -in OLD -out NEW",
            KeyError::PublicKey => "holds a public key; name the file with the private key",
            KeyError::PrivateKey => "holds a private key; give the public one, see: aaep keys show FILE",
            KeyError::Unsupported => {
                "holds a key of a kind that is not supported; use P-256, Ed25519 or RSA of 2048 to 8192 bits"
            }
            KeyError::NotKeySet => "is not a set of public keys; make one with: aaep keys jwks FILE",
            KeyError::NoUsableKey => "holds no P-256, Ed25519 or RSA public key for signatures",
            KeyError::TooManyKeys => "holds too many keys; remove those that are out of use",
            KeyError::Crypto => "cannot be used: the cryptographic library failed",
        })
    }
}

impl std::error::Error for KeyError {}

impl From<KeyFileError> for KeyError {
    fn from(error: KeyFileError) -> KeyError {
        KeyError::File(error)
    }
}
