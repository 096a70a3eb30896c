//! Keys, signed manifests and bearer tokens of AAEP.
//!
//! Nothing here opens a socket or reads a clock: the time is an argument. Key files are read and written.
//!
//! # Modules
//!
//! - [`SigningKey`], [`PublicKey`], [`KeySet`]: key pairs, their public halves, and several of them for rotation.
//! - [`jws`]: signatures in compact form.
//! - [`manifest`]: signed manifests (5.10.3), and whether they match what a producer offers.
//! - [`token`], [`static_tokens`]: bearer tokens, signed or from a file; both yield an [`Identity`].
//! - [`file`](mod@file): key files that only their owner can read.
//!
//! ```
//! use aaep_keys::{Algorithm, KeySet, NewToken, Role, SigningKey, TokenVerifier};
//! use aaep_proto::time::Timestamp;
//!
//! let key = SigningKey::generate(Algorithm::Es256)?;
//! let now = Timestamp::from_millis(1_779_632_531_000);
//! let token = NewToken {
//!     subject: "reader-7".into(), issuer: "https://id.example".into(), audience: "aaep".into(),
//!     roles: [Role::Subscribe, Role::Reply].into(), users: Default::default(), issued_at: now,
//!     lifetime_seconds: 3600,
//! };
//! let verifier = TokenVerifier::new(KeySet::from_iter([key.public().clone()]), "https://id.example", "aaep");
//! let identity = verifier.verify(&token.sign(&key)?, now).expect("it is fresh");
//! assert_eq!(identity.principal, "reader-7");
//! assert!(identity.may(Role::Reply) && !identity.may(Role::Admin));
//! # Ok::<(), aaep_keys::KeyError>(())
//! ```

mod algorithm;
mod base64url;
mod error;
pub mod file;
mod identity;
pub mod jws;
pub mod manifest;
mod public;
mod set;
mod signing_key;
pub mod static_tokens;
pub mod token;
mod user;

pub use algorithm::{Algorithm, ParseAlgorithmError};
pub use error::KeyError;
pub use file::KeyFileError;
pub use identity::{Identity, ParseRoleError, Role};
pub use jws::{JwsError, Verified};
pub use manifest::{
    ManifestError, ManifestMismatch, VerifiedManifest, sign_manifest, sign_manifest_json, verify_manifest,
};
pub use public::PublicKey;
pub use set::KeySet;
pub use signing_key::SigningKey;
pub use static_tokens::{StaticToken, StaticTokens, TokenFileError};
pub use token::{NewToken, TokenError, TokenVerifier};
pub use user::{MAX_NAMED_USERS, NamedUsers, ParseUserIdError, ParseUsersError, UserId};
