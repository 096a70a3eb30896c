//! The configuration of a server: a file, overridden by the environment, overridden by flags.

mod layer;
mod value;

use aaep_keys::UserId;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use aaep_proto::language::LanguageTag;
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

pub use layer::Layer;
use layer::{settings, variable_of};

use crate::proxy::ProxyNetwork;

/// The configuration of a server.
///
/// ```
/// use aaep_server::{Config, Layer};
/// let file = Layer::from_toml("listen = \"127.0.0.1:9000\"\n[limits]\nconnections = 50\n")?;
/// let environment = Layer::from_env([("AAEP_LIMITS__CONNECTIONS".to_owned(), "80".to_owned())])?;
/// let config = Config::from_layers([file, environment])?;
/// assert_eq!((config.listen.port(), config.limits.connections), (9000, 80));
/// # Ok::<(), aaep_server::ConfigError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The address of the HTTP listener. In files, variables and flags its host may be `localhost`.
    #[serde(deserialize_with = "value::address")]
    pub listen: SocketAddr,
    /// The stable id of the producer.
    pub agent_id: String,
    /// The display name of the producer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_name: Option<String>,
    /// The languages that subscribers may request. If empty, subscribers get the languages that they request, as far as
    /// events have them. The first one is the default of agents that do not set a language; without one it is English.
    pub languages: Vec<LanguageTag>,
    /// Allowed host names, besides those of this machine.
    pub hosts: Vec<String>,
    /// Web origins whose pages may use the server.
    pub origins: Vec<String>,
    /// How many threads and workers the server has; without a value, as many as there are cores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workers: Option<NonZeroUsize>,
    /// The user of peers that need no credentials because only the owner of the server can reach it: the local socket. Set it
    /// to your own user if the server asks for credentials elsewhere.
    pub local_user: String,
    /// Trusted proxies that terminate TLS for the server: addresses or networks. Their forwarding headers name the client
    /// of a request. Plain HTTP is then served to them on any address.
    pub behind_proxy: Vec<ProxyNetwork>,
    /// Whether the web page is served at `/`.
    pub page: bool,
    /// TLS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsConfig>,
    /// Accepted credentials.
    pub auth: AuthConfig,
    /// Signing of the manifest.
    pub manifest: SigningConfig,
    /// The enabled transports.
    pub transports: Transports,
    /// The limits.
    pub limits: Limits,
    /// What is stored on disk.
    pub data: DataConfig,
    /// Logging.
    pub log: LogConfig,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            listen: SocketAddr::from(([127, 0, 0, 1], 8377)),
            agent_id: "aaep".to_owned(),
            agent_name: None,
            languages: Vec::new(),
            hosts: Vec::new(),
            origins: Vec::new(),
            workers: None,
            local_user: aaep_keys::Identity::LOCAL.to_owned(),
            behind_proxy: Vec::new(),
            page: true,
            tls: None,
            auth: AuthConfig::default(),
            manifest: SigningConfig::default(),
            transports: Transports::default(),
            limits: Limits::default(),
            data: DataConfig::default(),
            log: LogConfig::default(),
        }
    }
}

/// TLS: certificate and key as PEM files. They are reloaded when they change.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TlsConfig {
    /// The certificate chain.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// The authorities of client certificates. If set, a client without a valid certificate is rejected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_ca: Option<PathBuf>,
}

/// Accepted credentials. Without any, every client on this machine has every role, and other machines have no access.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AuthConfig {
    /// A file of static tokens, made by `aaep token static`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<PathBuf>,
    /// Public keys of the token signers: a JWKS or PEM file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jwks: Option<PathBuf>,
    /// The issuer (`iss`) of signed tokens.
    pub issuer: String,
    /// The audience (`aud`) of signed tokens.
    pub audience: String,
}

impl Default for AuthConfig {
    fn default() -> AuthConfig {
        // The defaults of `aaep token new`.
        AuthConfig { tokens: None, jwks: None, issuer: "aaep".to_owned(), audience: "aaep".to_owned() }
    }
}

impl AuthConfig {
    /// Returns whether tokens are required.
    pub fn is_set(&self) -> bool {
        self.tokens.is_some() || self.jwks.is_some()
    }
}

/// Keys that sign the manifest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SigningConfig {
    /// The private key. It is reloaded when it changes, so that a key can be rotated while the server runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<PathBuf>,
    /// Further public keys to publish, such as the previous or the next one: a JWKS or PEM file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other_keys: Option<PathBuf>,
}

/// The enabled transports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Transports {
    /// Server-sent events and POST.
    pub sse: bool,
    /// WebSocket.
    pub websocket: bool,
    /// A Unix socket (on Windows a named pipe) for this user only.
    pub unix: bool,
    /// The path of that socket, if not the default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unix_path: Option<PathBuf>,
    /// The address of the gRPC listener. Without it, gRPC is not served.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "value::optional_address")]
    pub grpc: Option<SocketAddr>,
}

impl Default for Transports {
    fn default() -> Transports {
        Transports { sse: true, websocket: true, unix: true, unix_path: None, grpc: None }
    }
}

/// The limits of a server. Times are in seconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Concurrent connections of one listener.
    pub connections: usize,
    /// Concurrent connections of one address (for IPv6, the first 64 bits) that have not authenticated and carry neither a
    /// subscription nor an agent. When there are more, the oldest is closed. Without a value, a quarter of `connections`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unauthenticated_per_address: Option<usize>,
    /// Concurrent subscriptions.
    pub subscriptions: usize,
    /// Concurrent subscriptions of one principal, if credentials are required.
    pub subscriptions_per_principal: usize,
    /// Concurrent subscriptions for one user, whoever subscribes.
    pub subscriptions_per_user: usize,
    /// Concurrent agents.
    pub agents: usize,
    /// Concurrent agents of one principal, if credentials are required.
    pub agents_per_principal: usize,
    /// Concurrent sessions of all agents.
    pub sessions: usize,
    /// Concurrent sessions of the agents of one principal; without credentials, of one agent.
    pub sessions_per_principal: usize,
    /// Concurrent sessions for one user, whoever their agents are.
    pub sessions_per_user: usize,
    /// Open questions of the agents of one principal; without credentials, of one agent.
    pub questions_per_principal: usize,
    /// Open questions to one user, whoever asks.
    pub questions_per_user: usize,
    /// How long the state of a user stays in memory after the user's last session and subscription have ended.
    pub idle_user_seconds: u64,
    /// Memory that peers can make the server use: one half for events that wait for readers, the other for subscriptions,
    /// sessions and incomplete messages.
    pub memory_bytes: usize,
    /// Memory of the second half that one principal can use as a subscriber, and again as an agent.
    pub memory_bytes_per_principal: usize,
    /// Requests and messages of one principal per second and purpose, with bursts of twice that.
    pub requests_per_second: u32,
    /// The largest message in bytes.
    pub message_bytes: usize,
    /// How long the TLS handshake, headers, bodies and the first message of a connection may take. HTTP/1.1 connections may
    /// be idle for this long between requests.
    pub request_seconds: u64,
    /// How long an HTTP/2 connection may be open without a request in progress, after its first one.
    pub idle_seconds: u64,
    /// The interval of keep-alive messages on a quiet connection.
    pub keep_alive_seconds: u64,
    /// How long a peer may give no sign of life.
    pub silence_seconds: u64,
    /// How long a write may take.
    pub write_seconds: u64,
    /// How long a graceful shutdown may take.
    pub shutdown_seconds: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: 10_000,
            unauthenticated_per_address: None,
            subscriptions: 10_000,
            subscriptions_per_principal: 5_000,
            subscriptions_per_user: 5_000,
            agents: 10_000,
            agents_per_principal: 256,
            sessions: 20_000,
            sessions_per_principal: 1024,
            sessions_per_user: 1024,
            questions_per_principal: 1024,
            questions_per_user: 1024,
            idle_user_seconds: 60,
            memory_bytes: 192 << 20,
            memory_bytes_per_principal: 48 << 20,
            requests_per_second: 200,
            message_bytes: aaep_proto::limits::MESSAGE_BYTES,
            request_seconds: 10,
            idle_seconds: 60,
            // Proxies and clients often time out after 30 seconds of silence.
            keep_alive_seconds: 15,
            silence_seconds: 60,
            write_seconds: 30,
            shutdown_seconds: 5,
        }
    }
}

impl Limits {
    pub(crate) fn request(&self) -> Duration {
        Duration::from_secs(self.request_seconds)
    }

    pub(crate) fn idle(&self) -> Duration {
        Duration::from_secs(self.idle_seconds)
    }

    pub(crate) fn unauthenticated_per_address(&self) -> usize {
        self.unauthenticated_per_address.unwrap_or(self.connections / 4)
    }

    pub(crate) fn keep_alive(&self) -> Duration {
        Duration::from_secs(self.keep_alive_seconds.max(1))
    }

    pub(crate) fn silence(&self) -> Duration {
        Duration::from_secs(self.silence_seconds)
    }

    pub(crate) fn write_timeout(&self) -> Duration {
        Duration::from_secs(self.write_seconds)
    }

    pub(crate) fn shutdown(&self) -> Duration {
        Duration::from_secs(self.shutdown_seconds)
    }
}

/// What is stored on disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DataConfig {
    /// The directory. Without it, all state is in memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dir: Option<PathBuf>,
    /// How many days events and decisions are stored.
    pub days: u32,
    /// The maximum size of stored events, in bytes.
    pub bytes: u64,
}

impl Default for DataConfig {
    fn default() -> DataConfig {
        DataConfig { dir: None, days: 30, bytes: 4 << 30 }
    }
}

/// Logging to standard error.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LogConfig {
    /// A level (`error`, `warn`, `info`, `debug`) or a filter. The text of events is logged at `trace` only.
    #[serde(deserialize_with = "value::log_filter")]
    pub filter: String,
    /// One JSON object per line instead of text.
    pub json: bool,
}

impl Default for LogConfig {
    fn default() -> LogConfig {
        LogConfig { filter: "info".to_owned(), json: false }
    }
}

/// An error in a configuration, with what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError(pub(crate) String);

impl ConfigError {
    /// Creates an error with this message.
    pub fn new(message: impl Into<String>) -> ConfigError {
        ConfigError(message.into())
    }
}

impl std::fmt::Display for ConfigError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ConfigError {}

impl Config {
    /// Combines layers with the defaults. Later layers override earlier ones.
    pub fn from_layers(layers: impl IntoIterator<Item = Layer>) -> Result<Config, ConfigError> {
        let mut table = Table::new();
        for layer in layers {
            layer.check()?;
            table = layer.over(table);
        }
        table.try_into().map_err(|e: toml::de::Error| ConfigError(e.message().to_owned()))
    }

    /// Returns the configuration as TOML with every setting, as `--print-config` prints it. Settings without a value are
    /// comments.
    pub fn to_toml(&self) -> String {
        let table = Table::try_from(self).unwrap_or_default();
        let mut text = String::new();
        let mut section = "";
        let known = settings();
        // Settings of the top level come first, because TOML has no way to return to it.
        let (top, sections): (Vec<&String>, Vec<&String>) = known.keys().partition(|path| !path.contains('.'));
        for path in top.into_iter().chain(sections) {
            let (of, key) = path.split_once('.').unwrap_or(("", path));
            let values = if of.is_empty() { Some(&table) } else { table.get(of).and_then(Value::as_table) };
            if of != section {
                section = of;
                // A section that is there turns its feature on.
                text.push_str(&format!("\n{}[{of}]\n", if values.is_some() { "" } else { "# " }));
            }
            match values.and_then(|values| values.get(key)) {
                Some(value) => text.push_str(&format!("{key} = {value}\n")),
                None => text.push_str(&format!("# {key} is not set\n")),
            }
        }
        text
    }

    /// Returns the names of all settings, such as `limits.connections`, each with its environment variable.
    pub fn setting_names() -> Vec<(String, String)> {
        settings().into_keys().map(|path| (path.clone(), variable_of(&path))).collect()
    }

    /// Returns a configuration with a value for every field, to look up names.
    fn every_field() -> Config {
        let path = || Some(PathBuf::new());
        Config {
            agent_name: Some(String::new()),
            tls: Some(TlsConfig { client_ca: path(), ..TlsConfig::default() }),
            auth: AuthConfig { tokens: path(), jwks: path(), ..AuthConfig::default() },
            manifest: SigningConfig { key: path(), other_keys: path() },
            transports: Transports {
                unix_path: path(),
                grpc: Some(SocketAddr::from(([127, 0, 0, 1], 0))),
                ..Transports::default()
            },
            data: DataConfig { dir: path(), ..DataConfig::default() },
            limits: Limits { unauthenticated_per_address: Some(0), ..Limits::default() },
            workers: Some(NonZeroUsize::MIN),
            ..Config::default()
        }
    }

    /// Rejects settings that need a Cargo feature which this build does not have.
    pub(crate) fn check_features(&self) -> Result<(), ConfigError> {
        let needed = [
            ("tls", "tls", self.tls.is_some() && !cfg!(feature = "tls")),
            ("transports.grpc", "grpc", self.transports.grpc.is_some() && !cfg!(feature = "grpc")),
            ("data.dir", "store", self.data.dir.is_some() && !cfg!(feature = "store")),
        ];
        match needed.into_iter().find(|(_, _, is_missing)| *is_missing) {
            None => Ok(()),
            Some((setting, feature, _)) => Err(ConfigError(format!(
                "{setting} is not available in this build: build aaep-server with the feature {feature}"
            ))),
        }
    }

    /// Returns whether a proxy terminates TLS for the server.
    pub(crate) fn is_behind_proxy(&self) -> bool {
        !self.behind_proxy.is_empty()
    }

    /// Returns how many threads and workers the server has.
    pub fn workers(&self) -> NonZeroUsize {
        self.workers.or_else(|| std::thread::available_parallelism().ok()).unwrap_or(NonZeroUsize::MIN)
    }

    /// Returns the user of the local socket.
    pub(crate) fn local_user(&self) -> Result<UserId, ConfigError> {
        self.local_user.parse().map_err(|error| ConfigError(format!("local_user: {error}")))
    }

    /// Returns whether peers need credentials.
    pub(crate) fn requires_credentials(&self) -> bool {
        self.auth.is_set() || self.tls.as_ref().is_some_and(|tls| tls.client_ca.is_some())
    }

    /// Rejects a server behind a proxy that does not require tokens, even on a loopback address: the proxy lets other
    /// machines reach it, and their client certificates end at the proxy.
    fn check_proxy(&self) -> Result<(), ConfigError> {
        let missing = match (self.auth.is_set(), self.hosts.is_empty()) {
            (true, false) => return Ok(()),
            (false, _) => "tokens (--tokens or --jwks): the proxy lets other machines reach the server",
            (true, true) => "the host name that clients use (--host)",
        };
        Err(ConfigError(format!("behind a proxy the server needs {missing}")))
    }

    /// Rejects addresses that other machines can reach without TLS and credentials (8.2.7, 8.2.8).
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        self.check_features()?;
        if self.is_behind_proxy() {
            self.check_proxy()?;
        }
        if let Some(tls) = &self.tls {
            for (name, flag, file) in [("tls.cert", "--tls-cert", &tls.cert), ("tls.key", "--tls-key", &tls.key)] {
                if file.as_os_str().is_empty() {
                    return Err(ConfigError(format!("TLS needs a certificate and its key: set {name} or {flag}")));
                }
            }
        }
        for address in [Some(self.listen), self.transports.grpc].into_iter().flatten() {
            if address.ip().is_loopback() {
                continue;
            }
            let mutual = self.tls.as_ref().is_some_and(|tls| tls.client_ca.is_some());
            let is_encrypted = self.tls.is_some() || self.is_behind_proxy();
            let missing = match (is_encrypted, self.auth.is_set() || mutual) {
                (true, true) => continue,
                (false, true) => "a certificate (--tls-cert and --tls-key) or a proxy (--behind-proxy)",
                (true, false) => "credentials (--tokens, --jwks or --client-ca)",
                (false, false) => {
                    "a certificate (--tls-cert and --tls-key) or a proxy (--behind-proxy), and credentials (--tokens, --jwks or \
                     --client-ca)"
                }
            };
            return Err(ConfigError(format!(
                "refusing to listen on {address}, which other machines can reach: add {missing}, or listen on 127.0.0.1"
            )));
        }
        self.local_user()?;
        if self.auth.jwks.is_some() && (self.auth.issuer.is_empty() || self.auth.audience.is_empty()) {
            return Err(ConfigError(
                "signed tokens need an issuer and an audience: set auth.issuer and auth.audience".into(),
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_layers_override_earlier_ones() {
        let file = Layer::from_toml("agent_id = \"a\"\n[limits]\nconnections = 5\nsubscriptions = 6").unwrap();
        let env = [("AAEP_LIMITS__CONNECTIONS", "7"), ("UNRELATED", "x"), ("AAEP_LISTEN", "127.0.0.1:1")];
        let env = Layer::from_env(env.map(|(k, v)| (k.to_owned(), v.to_owned()))).unwrap();
        let mut flags = Layer::default();
        flags.set("limits.subscriptions", 9);
        let config = Config::from_layers([file, env, flags]).unwrap();
        assert_eq!((config.limits.connections, config.limits.subscriptions), (7, 9));
        assert_eq!((config.agent_id.as_str(), config.listen.port()), ("a", 1));
        assert_eq!(Config::from_layers([Layer::from_toml(&config.to_toml()).unwrap()]).unwrap(), config);
    }

    #[test]
    fn printed_configuration_has_every_setting_and_is_read_back_unchanged() {
        let default = Config::default().to_toml();
        for (path, _) in Config::setting_names() {
            let key = path.rsplit('.').next().unwrap();
            let is_listed =
                |line: &str| line.starts_with(&format!("{key} = ")) || line == format!("# {key} is not set");
            assert!(default.lines().any(is_listed), "{path} is not in\n{default}");
        }
        let section = |name: &str| default.lines().any(|line| line == name);
        assert!(section("# [tls]") && section("[limits]") && section("# agent_name is not set"), "{default}");
        for config in [Config::default(), Config::every_field()] {
            let read = Layer::from_toml(&config.to_toml()).unwrap();
            assert_eq!(Config::from_layers([read]).unwrap(), config);
        }
    }

    #[test]
    fn tls_needs_a_certificate_and_a_key() {
        let layer = Layer::from_toml("[tls]\nclient_ca = \"ca.pem\"").unwrap();
        let error = Config::from_layers([layer]).unwrap().check().unwrap_err().to_string();
        assert!(error.contains("tls.cert") && error.contains("--tls-cert"), "{error}");
    }

    #[test]
    fn public_addresses_need_tls_and_credentials() {
        let open = Config { listen: "0.0.0.0:8377".parse().unwrap(), ..Config::default() };
        let error = open.check().unwrap_err().to_string();
        assert!(error.contains("--tls-cert") && error.contains("--tokens") && error.contains("127.0.0.1"), "{error}");
        let tls = TlsConfig { cert: "c".into(), key: "k".into(), client_ca: None };
        let encrypted = Config { tls: Some(tls.clone()), ..open.clone() };
        assert!(encrypted.check().unwrap_err().to_string().contains("credentials"));
        let auth = AuthConfig { tokens: Some("t".into()), ..AuthConfig::default() };
        assert!(Config { auth: auth.clone(), ..open }.check().unwrap_err().to_string().contains("certificate"));
        assert_eq!(Config { auth, ..encrypted.clone() }.check(), Ok(()));
        let mutual = TlsConfig { client_ca: Some("ca".into()), ..tls };
        assert_eq!(Config { tls: Some(mutual), ..encrypted }.check(), Ok(()));
        assert_eq!(Config::default().check(), Ok(()));
        let grpc = Transports { grpc: "0.0.0.0:1".parse().ok(), ..Transports::default() };
        assert!(Config { transports: grpc, ..Config::default() }.check().is_err());
    }

    #[test]
    fn plain_http_on_public_addresses_needs_a_proxy_tokens_and_a_host() {
        let proxied = |listen: &str| Config {
            listen: listen.parse().unwrap(),
            behind_proxy: vec!["10.0.0.2".parse().unwrap()],
            hosts: vec!["agents.example".to_owned()],
            auth: AuthConfig { tokens: Some("t".into()), ..AuthConfig::default() },
            ..Config::default()
        };
        for listen in ["0.0.0.0:8377", "[::]:8377", "127.0.0.1:8377"] {
            assert_eq!(proxied(listen).check(), Ok(()));
            let open = Config { auth: AuthConfig::default(), ..proxied(listen) };
            assert!(open.check().unwrap_err().to_string().contains("--tokens"), "{listen}: a proxy makes it reachable");
            let certificates = TlsConfig { client_ca: Some("ca".into()), ..TlsConfig::default() };
            let mutual = Config { tls: Some(certificates), ..open };
            assert!(mutual.check().is_err(), "{listen}: client certificates end at the proxy");
            let nameless = Config { hosts: Vec::new(), ..proxied(listen) };
            assert!(nameless.check().unwrap_err().to_string().contains("--host"));
        }
    }

    #[test]
    fn proxies_are_addresses_or_networks() {
        let config = |list: &str| {
            let layer = Layer::from_toml(&format!("behind_proxy = {list}"));
            layer.and_then(|layer| Config::from_layers([layer])).map_err(|e| e.to_string())
        };
        let good = config(r#"["10.0.0.2", "10.1.2.3/16", "fd00::/8", "::ffff:192.0.2.1"]"#).unwrap();
        assert!(
            good.to_toml().contains(r#"["10.0.0.2", "10.1.0.0/16", "fd00::/8", "192.0.2.1"]"#),
            "{}",
            good.to_toml()
        );
        for wrong in [r#"["proxy.example"]"#, r#"["10.0.0.0/33"]"#, r#"["0.0.0.0/0"]"#, r#"["::/0"]"#, r#"[""]"#] {
            let error = config(wrong).unwrap_err();
            assert!(error.contains("is not the address or network of a proxy"), "{error}");
        }
    }
}
