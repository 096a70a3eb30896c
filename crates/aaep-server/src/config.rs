//! The configuration of a server: a file, overridden by the environment, overridden by flags.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use aaep_proto::language::LanguageTag;
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use crate::proxy::ProxyNetwork;

/// The configuration of a server.
///
/// ```
/// use aaep_server::{Config, Layer};
/// let file = Layer::from_toml("listen = \"127.0.0.1:9000\"\n[limits]\nconnections = 50\n")?;
/// let environment = Layer::from_env([("AAEP_LIMITS__CONNECTIONS".to_owned(), "80".to_owned())]);
/// let config = Config::from_layers([file, environment])?;
/// assert_eq!((config.listen.port(), config.limits.connections), (9000, 80));
/// # Ok::<(), aaep_server::ConfigError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The address of the HTTP listener.
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
    /// Trusted proxies that terminate TLS for the server: addresses or networks. Their forwarding headers name the client
    /// of a request. Plain HTTP is then served to them on any address.
    pub behind_proxy: Vec<ProxyNetwork>,
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
            behind_proxy: Vec::new(),
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
#[serde(deny_unknown_fields)]
pub struct TlsConfig {
    /// The certificate chain.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// The authorities of client certificates. If set, a client without a valid certificate is rejected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
    #[serde(skip_serializing_if = "Option::is_none")]
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
    /// Concurrent agents of one principal, if credentials are required.
    pub agents_per_principal: usize,
    /// Concurrent sessions of the agents of one principal; without credentials, of one agent.
    pub sessions_per_principal: usize,
    /// Open questions of the agents of one principal; without credentials, of one agent.
    pub questions_per_principal: usize,
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
            agents_per_principal: 256,
            sessions_per_principal: 1024,
            questions_per_principal: 1024,
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

impl std::fmt::Display for ConfigError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ConfigError {}

/// One source of settings, to be combined with others.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Layer(Table);

impl Layer {
    /// Parses settings in TOML.
    pub fn from_toml(text: &str) -> Result<Layer, ConfigError> {
        let table = text.parse().map_err(|e: toml::de::Error| ConfigError(e.to_string().trim_end().to_owned()))?;
        Ok(Layer(table))
    }

    /// Reads settings from a TOML file.
    pub fn from_file(path: &Path) -> Result<Layer, ConfigError> {
        let error = |e: &dyn std::fmt::Display| ConfigError(format!("cannot read {}: {e}", path.display()));
        let text = std::fs::read_to_string(path).map_err(|e| error(&e))?;
        Layer::from_toml(&text).map_err(|e| error(&e))
    }

    /// Reads settings from environment variables: `AAEP_LISTEN`, or `AAEP_LIMITS__CONNECTIONS` for a setting in a section.
    /// Other variables are ignored.
    pub fn from_env(variables: impl IntoIterator<Item = (String, String)>) -> Layer {
        let mut layer = Layer::default();
        for (name, text) in variables {
            let Some(path) = name.strip_prefix("AAEP_") else { continue };
            let path: Vec<String> = path.split("__").map(str::to_lowercase).collect();
            let known = Table::try_from(Config::every_field()).unwrap_or_default();
            let found = path.iter().try_fold(&Value::Table(known), |at, part| at.get(part)).is_some();
            if found {
                layer.set(&path.join("."), parse_value(&text));
            }
        }
        layer
    }

    /// Sets one value by its path, such as `limits.connections`.
    pub fn set(&mut self, path: &str, value: impl Into<Value>) {
        let mut parts: Vec<&str> = path.split('.').collect();
        let Some(last) = parts.pop() else { return };
        let mut at = &mut self.0;
        for part in parts {
            let next = at.entry(part).or_insert_with(|| Value::Table(Table::new()));
            if !next.is_table() {
                *next = Value::Table(Table::new());
            }
            let Value::Table(table) = next else { return };
            at = table;
        }
        at.insert(last.to_owned(), value.into());
    }

    fn over(self, below: Table) -> Table {
        merge(below, self.0)
    }
}

fn merge(mut below: Table, above: Table) -> Table {
    for (key, value) in above {
        let value = match (below.remove(&key), value) {
            (Some(Value::Table(old)), Value::Table(new)) => Value::Table(merge(old, new)),
            (_, new) => new,
        };
        below.insert(key, value);
    }
    below
}

/// Parses a value as TOML. A text that is not TOML is a string.
fn parse_value(text: &str) -> Value {
    let whole = format!("value = {text}").parse::<Table>().ok().and_then(|mut table| table.remove("value"));
    whole.unwrap_or_else(|| Value::String(text.to_owned()))
}

impl Config {
    /// Combines layers with the defaults. Later layers override earlier ones.
    pub fn from_layers(layers: impl IntoIterator<Item = Layer>) -> Result<Config, ConfigError> {
        let table = layers.into_iter().fold(Table::new(), |below, layer| layer.over(below));
        table.try_into().map_err(|e: toml::de::Error| ConfigError(e.to_string().trim_end().to_owned()))
    }

    /// Returns the configuration as TOML, as `--print-config` prints it.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).unwrap_or_default()
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
        for address in [Some(self.listen), self.transports.grpc].into_iter().flatten() {
            if address.ip().is_loopback() {
                continue;
            }
            let mutual = self.tls.as_ref().is_some_and(|tls| tls.client_ca.is_some());
            let is_encrypted = self.tls.is_some() || self.is_behind_proxy();
            let missing = match (is_encrypted, self.auth.is_set() || mutual) {
                (true, true) => continue,
                (false, true) => "a certificate (--tls-cert and --tls-key)",
                (true, false) => "credentials (--tokens, --jwks or --client-ca)",
                (false, false) => {
                    "a certificate (--tls-cert and --tls-key) and credentials (--tokens, --jwks or --client-ca)"
                }
            };
            return Err(ConfigError(format!(
                "refusing to listen on {address}, which other machines can reach: add {missing}, or listen on 127.0.0.1"
            )));
        }
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
        let env = [("AAEP_LIMITS__CONNECTIONS", "7"), ("AAEP_UNRELATED", "x"), ("AAEP_LISTEN", "127.0.0.1:1")];
        let env = Layer::from_env(env.map(|(k, v)| (k.to_owned(), v.to_owned())));
        let mut flags = Layer::default();
        flags.set("limits.subscriptions", 9);
        let config = Config::from_layers([file, env, flags]).unwrap();
        assert_eq!((config.limits.connections, config.limits.subscriptions), (7, 9));
        assert_eq!((config.agent_id.as_str(), config.listen.port()), ("a", 1));
        assert_eq!(Config::from_layers([Layer::from_toml(&config.to_toml()).unwrap()]).unwrap(), config);
    }

    #[test]
    fn unknown_settings_are_rejected() {
        let layer = Layer::from_toml("[limits]\nconections = 5").unwrap();
        let error = Config::from_layers([layer]).unwrap_err().to_string();
        assert!(error.contains("conections"), "{error}");
    }

    #[test]
    fn public_addresses_need_tls_and_credentials() {
        let open = Config { listen: "0.0.0.0:8377".parse().unwrap(), ..Config::default() };
        let error = open.check().unwrap_err().to_string();
        assert!(error.contains("--tls-cert") && error.contains("--tokens") && error.contains("127.0.0.1"), "{error}");
        let encrypted = Config { tls: Some(TlsConfig::default()), ..open.clone() };
        assert!(encrypted.check().unwrap_err().to_string().contains("credentials"));
        let auth = AuthConfig { tokens: Some("t".into()), ..AuthConfig::default() };
        assert!(Config { auth: auth.clone(), ..open }.check().unwrap_err().to_string().contains("certificate"));
        assert_eq!(Config { auth, ..encrypted.clone() }.check(), Ok(()));
        let mutual = TlsConfig { client_ca: Some("ca".into()), ..TlsConfig::default() };
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
            Config::from_layers([Layer::from_toml(&format!("behind_proxy = {list}")).unwrap()])
                .map_err(|e| e.to_string())
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
