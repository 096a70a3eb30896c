//! How a subscriber is set up.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use aaep_keys::KeySet;
use aaep_proto::message::Capabilities;
use aaep_proto::subscriber::SubscriberConfig;

use crate::trust::KnownKeys;

/// Whether the producer is asked for terms first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Handshake {
    /// If the producer knows how; over HTTP that is found out.
    #[default]
    Detect,
    /// Always.
    Always,
    /// Never: the producer is a simple one (level 1).
    Never,
}

/// Certificates, as PEM text.
#[derive(Clone, Default)]
pub struct TlsOptions {
    /// Authorities that are trusted besides those of the system.
    pub authorities: Vec<u8>,
    /// Whether those of the system are trusted; they are unless this is set.
    pub disable_system_roots: bool,
    /// A certificate and its key, to show who subscribes.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
}

impl fmt::Debug for TlsOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let identity = self.identity.is_some();
        f.debug_struct("Tls").field("only_these", &self.disable_system_roots).field("identity", &identity).finish()
    }
}

/// How a subscriber is set up.
///
/// ```
/// use aaep_client::ConnectOptions;
/// let capabilities = serde_json::from_str(r#"{"supports_confirmation_reply": true}"#)?;
/// let options = ConnectOptions::new("reader-1", capabilities).bearer("secret");
/// assert!(!format!("{options:?}").contains("secret"));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone)]
pub struct ConnectOptions {
    /// Who listens, what it can take, and how careful it is.
    pub config: SubscriberConfig,
    /// Whether the producer is asked for terms first.
    pub handshake: Handshake,
    /// The bearer token.
    pub token: Option<Arc<str>>,
    /// Certificates.
    pub tls: TlsOptions,
    /// Keys that signed manifests may be signed with.
    pub keys: KeySet,
    /// Where keys of producers are remembered when they are seen first.
    pub known_keys: Option<KnownKeys>,
    /// Whether another transport that the manifest lists is tried if this one does not work.
    pub transport_fallback: bool,
    /// Whether hosts other than this machine may be reached without encryption.
    pub allow_insecure: bool,
    /// Whether a Unix socket may belong to another user.
    pub allow_other_user: bool,
    /// The command to run for `stdio:`, instead of the words of the address.
    pub command: Option<Vec<std::ffi::OsString>>,
    /// Whether every message is handed on as it came, as [`Heard::Message`](crate::Heard::Message): all of them, in the
    /// order in which they came. Then events and questions are not told otherwise, and a program that is slow holds up
    /// the connection. For recording; users want to be spared.
    pub raw: bool,
    /// How long a connection may take to be made, and a message to be taken.
    pub timeout: Duration,
}

impl ConnectOptions {
    /// The defaults for a subscriber with this stable name and these capabilities.
    pub fn new(subscriber_id: impl Into<String>, capabilities: Capabilities) -> ConnectOptions {
        ConnectOptions {
            config: SubscriberConfig::new(subscriber_id, capabilities),
            handshake: Handshake::Detect,
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

    /// Presents this token to the producer.
    pub fn bearer(mut self, token: impl Into<Arc<str>>) -> ConnectOptions {
        self.token = Some(token.into());
        self
    }

    /// Remembers the keys of producers in this file, and warns when one changes.
    pub fn remember_keys(mut self, path: impl Into<PathBuf>) -> ConnectOptions {
        self.known_keys = Some(KnownKeys::new(path));
        self
    }

    /// Uses these certificates.
    pub fn tls(mut self, tls: TlsOptions) -> ConnectOptions {
        self.tls = tls;
        self
    }

    /// Asks for terms or not.
    pub fn handshake(mut self, handshake: Handshake) -> ConnectOptions {
        self.handshake = handshake;
        self
    }

    /// Whether nothing but a signed manifest will do.
    pub(crate) fn demands_signature(&self) -> bool {
        self.config.request.capabilities.fields.accept_signed_manifests_only == Some(true)
    }
}

impl fmt::Debug for ConnectOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("subscriber_id", &self.config.request.subscriber_id)
            .field("handshake", &self.handshake)
            .field("token", &self.token.as_ref().map(|_| "..."))
            .field("tls", &self.tls)
            .finish_non_exhaustive()
    }
}

/// Why a subscriber cannot even begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConnectError {
    /// The address is not one.
    Address(crate::ParseAddressError),
    /// The certificates cannot be used.
    Tls(String),
    /// The token has characters that no token has.
    Token,
    /// The host is another machine, and the way to it is not encrypted.
    Plain(String),
    /// No command was given for `stdio:`.
    NoCommand,
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConnectError::Address(error) => error.fmt(f),
            ConnectError::Tls(why) => write!(f, "the certificates cannot be used: {why}"),
            ConnectError::Token => f.write_str("the token has characters that cannot be sent"),
            ConnectError::Plain(host) => {
                write!(f, "the way to {host} is not encrypted; use https or wss, or allow plain connections")
            }
            ConnectError::NoCommand => f.write_str("give the command to run after stdio:"),
        }
    }
}

impl std::error::Error for ConnectError {}
