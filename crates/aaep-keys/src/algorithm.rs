//! The supported signature algorithms.

use std::fmt;
use std::str::FromStr;

/// A signature algorithm. There is no `none` and no shared secret among them, so neither can be accepted by mistake.
///
/// ```
/// use aaep_keys::Algorithm;
/// assert_eq!("ES256".parse(), Ok(Algorithm::Es256));
/// assert!("HS256".parse::<Algorithm>().is_err());
/// assert!("none".parse::<Algorithm>().is_err());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Algorithm {
    /// ECDSA on P-256 with SHA-256, the one that the specification recommends.
    #[default]
    Es256,
    /// Ed25519.
    EdDsa,
    /// RSA of 2048 bits or more, PKCS #1 v1.5 with SHA-256.
    Rs256,
}

/// The error for the name of an unsupported algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseAlgorithmError;

impl fmt::Display for ParseAlgorithmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("must be ES256, EdDSA or RS256")
    }
}

impl std::error::Error for ParseAlgorithmError {}

impl Algorithm {
    /// All algorithms.
    pub const ALL: [Algorithm; 3] = [Algorithm::Es256, Algorithm::EdDsa, Algorithm::Rs256];

    /// Returns the name in headers and keys.
    pub fn as_str(self) -> &'static str {
        match self {
            Algorithm::Es256 => "ES256",
            Algorithm::EdDsa => "EdDSA",
            Algorithm::Rs256 => "RS256",
        }
    }
}

impl FromStr for Algorithm {
    type Err = ParseAlgorithmError;

    fn from_str(text: &str) -> Result<Algorithm, ParseAlgorithmError> {
        Algorithm::ALL.into_iter().find(|a| a.as_str() == text).ok_or(ParseAlgorithmError)
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl From<Algorithm> for jsonwebtoken::Algorithm {
    fn from(algorithm: Algorithm) -> Self {
        match algorithm {
            Algorithm::Es256 => jsonwebtoken::Algorithm::ES256,
            Algorithm::EdDsa => jsonwebtoken::Algorithm::EdDSA,
            Algorithm::Rs256 => jsonwebtoken::Algorithm::RS256,
        }
    }
}
