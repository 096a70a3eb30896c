//! How a subscriber is configured.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use aaep_keys::KeySet;
use aaep_proto::message::Capabilities;
use aaep_proto::subscriber::SubscriberConfig;

use crate::known_keys::KnownKeys;

/// Whether a subscription is requested from the producer before it sends events. Only HTTP has producers without a
/// handshake; the other transports always have one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum HandshakePolicy {
    /// Finds out whether the producer has a handshake.
    #[default]
    Detect,
    /// Always requests a subscription.
    Always,
    /// Never requests a subscription: the producer is of level 1 and only sends events.
    Never,
}

/// Certificates, as PEM text.
///
/// ```
/// use aaep_client::TlsOptions;
/// let tls = TlsOptions::new().authorities(b"-----BEGIN CERTIFICATE-----".to_vec()).disable_system_roots();
/// assert!(tls.disable_system_roots);
/// ```
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct TlsOptions {
    /// Certificate authorities that are trusted in addition to those of the system.
    pub authorities: Vec<u8>,
    /// Whether the certificate authorities of the system are not trusted.
    pub disable_system_roots: bool,
    /// The certificate that identifies the subscriber.
    pub identity: Option<TlsIdentity>,
}

/// The certificate of a subscriber, as PEM text.
#[derive(Clone)]
pub struct TlsIdentity {
    /// The certificate chain.
    pub chain: Vec<u8>,
    /// The private key.
    pub key: Vec<u8>,
}

impl TlsOptions {
    /// Trusts the certificate authorities of the system, and identifies the subscriber by no certificate.
    pub fn new() -> TlsOptions {
        TlsOptions::default()
    }

    /// Sets the certificate authorities that are trusted in addition to those of the system.
    pub fn authorities(mut self, authorities: Vec<u8>) -> TlsOptions {
        self.authorities = authorities;
        self
    }

    /// Does not trust the certificate authorities of the system.
    pub fn disable_system_roots(mut self) -> TlsOptions {
        self.disable_system_roots = true;
        self
    }

    /// Sets the certificate that identifies the subscriber.
    pub fn identity(mut self, identity: TlsIdentity) -> TlsOptions {
        self.identity = Some(identity);
        self
    }
}

impl fmt::Debug for TlsIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsIdentity").finish_non_exhaustive()
    }
}

impl fmt::Debug for TlsOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsOptions")
            .field("disable_system_roots", &self.disable_system_roots)
            .field("identity", &self.identity.is_some())
            .finish_non_exhaustive()
    }
}

/// How a subscriber is configured.
///
/// ```
/// use aaep_client::ConnectOptions;
/// let capabilities = serde_json::from_str(r#"{"supports_confirmation_reply": true}"#)?;
/// let options = ConnectOptions::new("reader-1", capabilities).bearer("secret");
/// assert!(!format!("{options:?}").contains("secret"));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct ConnectOptions {
    /// The name and the capabilities of the subscriber, and its limits.
    pub config: SubscriberConfig,
    /// Whether a subscription is requested before events are received.
    pub handshake: HandshakePolicy,
    /// The bearer token.
    pub token: Option<Arc<str>>,
    /// Certificates.
    pub tls: TlsOptions,
    /// Keys that are trusted to sign manifests.
    pub keys: KeySet,
    /// The file that remembers the key of each producer from the first connection on.
    pub known_keys: Option<KnownKeys>,
    /// Whether another transport of the manifest is tried if that of the address does not work.
    pub transport_fallback: bool,
    /// Whether hosts other than this machine may be reached without encryption.
    pub allow_insecure: bool,
    /// Whether a Unix socket or named pipe may belong to another user.
    pub allow_other_user: bool,
    /// The command to run for `stdio:`, instead of the words of the address.
    pub command: Option<Vec<OsString>>,
    /// Whether messages are reported as they were received; see [`ConnectOptions::raw`].
    pub raw: bool,
    /// The longest time that opening a connection, a request or writing a message may take.
    pub timeout: Duration,
}

impl ConnectOptions {
    /// Returns the defaults for a subscriber with this stable name and these capabilities.
    pub fn new(subscriber_id: impl Into<String>, capabilities: Capabilities) -> ConnectOptions {
        ConnectOptions {
            config: SubscriberConfig::new(subscriber_id, capabilities),
            handshake: HandshakePolicy::Detect,
            token: None,
            tls: TlsOptions::default(),
            keys: KeySet::default(),
            known_keys: None,
            transport_fallback: true,
            allow_insecure: false,
            allow_other_user: false,
            command: None,
            raw: false,
            timeout: Duration::from_secs(10),
        }
    }

    /// Connects again after the producer said that it has ended or shuts down, since it may be started again. Without this,
    /// the subscription ends then.
    pub fn outlive_producer(mut self) -> ConnectOptions {
        self.config.outlive_producer = true;
        self
    }

    /// Presents this bearer token to the producer.
    pub fn bearer(mut self, token: impl Into<Arc<str>>) -> ConnectOptions {
        self.token = Some(token.into());
        self
    }

    /// Trusts manifests that are signed with one of these keys.
    pub fn keys(mut self, keys: KeySet) -> ConnectOptions {
        self.keys = keys;
        self
    }

    /// Remembers the keys of producers in this file, and emits a notice when one changes.
    pub fn remember_keys(mut self, path: impl Into<PathBuf>) -> ConnectOptions {
        self.known_keys = Some(KnownKeys::new(path));
        self
    }

    /// Uses these certificates.
    pub fn tls(mut self, tls: TlsOptions) -> ConnectOptions {
        self.tls = tls;
        self
    }

    /// Sets whether a subscription is requested before events are received.
    pub fn handshake(mut self, handshake: HandshakePolicy) -> ConnectOptions {
        self.handshake = handshake;
        self
    }

    /// Runs this command for `stdio:`, instead of the words of the address.
    pub fn command(mut self, words: impl IntoIterator<Item = impl Into<OsString>>) -> ConnectOptions {
        self.command = Some(words.into_iter().map(Into::into).collect());
        self
    }

    /// Sets the longest time that opening a connection, a request or writing a message may take.
    pub fn timeout(mut self, timeout: Duration) -> ConnectOptions {
        self.timeout = timeout;
        self
    }

    /// Uses the transport of the address only, even if it does not work and the manifest lists another one.
    pub fn without_transport_fallback(mut self) -> ConnectOptions {
        self.transport_fallback = false;
        self
    }

    /// Allows connections to other machines that are not encrypted.
    pub fn allow_insecure(mut self) -> ConnectOptions {
        self.allow_insecure = true;
        self
    }

    /// Allows Unix sockets and named pipes of other users.
    pub fn allow_other_user(mut self) -> ConnectOptions {
        self.allow_other_user = true;
        self
    }

    /// Reports every message as it was received, in order, as
    /// [`SubscriberEvent::Message`](crate::SubscriberEvent::Message), instead of events and questions. Nothing is
    /// dropped: a program that is slow blocks the connection. For recording.
    pub fn raw(mut self) -> ConnectOptions {
        self.raw = true;
        self
    }

    /// Returns whether only producers with a signed manifest are accepted.
    pub(crate) fn requires_signed_manifest(&self) -> bool {
        self.config.request.capabilities.fields.accept_signed_manifests_only == Some(true)
    }
}

impl fmt::Debug for ConnectOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectOptions")
            .field("subscriber_id", &self.config.request.subscriber_id)
            .field("handshake", &self.handshake)
            .field("token", &self.token.as_ref().map(|_| "..."))
            .field("tls", &self.tls)
            .finish_non_exhaustive()
    }
}
