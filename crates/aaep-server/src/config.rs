//! How a server is set up: a file, the environment and flags, laid over each other in this order.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use aaep_proto::language::LanguageTag;
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

/// How a server is set up.
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
    /// Where HTTP is served.
    pub listen: SocketAddr,
    /// The stable name of the producer.
    pub agent_id: String,
    /// Its name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_name: Option<String>,
    /// The languages that subscribers may have. If there are none, everyone gets the languages that it asks for, as far
    /// as events have them. The first one is that of agents who do not say theirs; without one it is English.
    pub languages: Vec<LanguageTag>,
    /// Names, besides those of this machine, under which it may be reached.
    pub hosts: Vec<String>,
    /// Web origins whose pages may use it.
    pub origins: Vec<String>,
    /// Encryption.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsConfig>,
    /// Who may do what.
    pub auth: AuthConfig,
    /// The signed manifest.
    pub manifest: SigningConfig,
    /// Which other transports are switched on.
    pub transports: Transports,
    /// The bounds.
    pub limits: Limits,
    /// What is kept over a restart.
    pub data: DataConfig,
    /// What is logged.
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

/// Encryption: certificate and key as PEM files. They are read again when they change.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsConfig {
    /// The certificate chain.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// Who signs clients' certificates. With it, a client without a valid one is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_ca: Option<PathBuf>,
}

/// Who may do what. Without any of these everyone may do everything, on this machine only.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AuthConfig {
    /// A file of tokens; `aaep token static` makes its lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<PathBuf>,
    /// Public keys of those who sign tokens: a JWKS or PEM file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jwks: Option<PathBuf>,
    /// Who signs them.
    pub issuer: String,
    /// Whom they are for.
    pub audience: String,
}

impl Default for AuthConfig {
    fn default() -> AuthConfig {
        // What `aaep token new` writes if it is told nothing else.
        AuthConfig { tokens: None, jwks: None, issuer: "aaep".to_owned(), audience: "aaep".to_owned() }
    }
}

impl AuthConfig {
    /// Whether tokens are asked for.
    pub fn is_set(&self) -> bool {
        self.tokens.is_some() || self.jwks.is_some()
    }
}

/// Keys that sign the manifest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SigningConfig {
    /// The private key. It is read again when it changes, so a key can be rotated while the server runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<PathBuf>,
    /// Public keys that are published beside it: the last key, or the next one. A JWKS or PEM file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other_keys: Option<PathBuf>,
}

/// Transports besides HTTP.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Transports {
    /// Server-sent events and POST.
    pub sse: bool,
    /// WebSocket.
    pub websocket: bool,
    /// A socket for this user only.
    pub unix: bool,
    /// Where that socket is, if not at its usual place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unix_path: Option<PathBuf>,
    /// Where gRPC is served, if it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grpc: Option<SocketAddr>,
}

impl Default for Transports {
    fn default() -> Transports {
        Transports { sse: true, websocket: true, unix: true, unix_path: None, grpc: None }
    }
}

/// The bounds. Times are in seconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Connections at once.
    pub connections: usize,
    /// Connections at once from one address (of IPv6, the first 64 bits) that have not authenticated and carry neither a
    /// subscription nor an agent. When there are more, the oldest is closed. Without a value, a quarter of `connections`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unauthenticated_per_address: Option<usize>,
    /// Subscriptions at once.
    pub subscriptions: usize,
    /// Subscriptions of one principal at once, where credentials are asked for.
    pub subscriptions_per_principal: usize,
    /// Agents of one principal at once, where credentials are asked for.
    pub agents_per_principal: usize,
    /// Sessions of one principal's agents at once; without credentials, of one agent.
    pub sessions_per_principal: usize,
    /// Questions of one principal's agents that wait at once; without credentials, of one agent.
    pub questions_per_principal: usize,
    /// Most bytes that peers can make the server keep: one half for events that wait for readers, the other for
    /// subscriptions, sessions and unfinished messages.
    pub memory_bytes: usize,
    /// Most bytes of the second half that one principal can use as a subscriber, and again as an agent.
    pub memory_bytes_per_principal: usize,
    /// Requests and messages of one principal in a second; twice that in a burst.
    pub requests_per_second: u32,
    /// The largest message in bytes.
    pub message_bytes: usize,
    /// How long TLS handshakes, headers, bodies and the first message may take, counted from the start of the connection
    /// where nothing else has begun. HTTP/1.1 connections may be idle for this long between requests.
    pub request_seconds: u64,
    /// How long an HTTP/2 connection may be open without a request in progress, after its first one.
    pub idle_seconds: u64,
    /// How often a quiet connection is kept alive.
    pub keep_alive_seconds: u64,
    /// How long a connection may give no sign of life.
    pub silence_seconds: u64,
    /// How long a write may be stuck.
    pub write_seconds: u64,
    /// How long the server takes to end in good order.
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
            // Proxies and clients often give up after 30 seconds of silence.
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

/// What is kept over a restart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DataConfig {
    /// Where. Without it everything is in memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dir: Option<PathBuf>,
    /// How many days events and decisions are kept.
    pub days: u32,
    /// How many bytes of events are kept at most.
    pub bytes: u64,
}

impl Default for DataConfig {
    fn default() -> DataConfig {
        DataConfig { dir: None, days: 30, bytes: 4 << 30 }
    }
}

/// What is logged, on standard error.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LogConfig {
    /// What to tell: a level (`error`, `warn`, `info`, `debug`) or a filter. The text of events is told at `trace` only.
    pub filter: String,
    /// One JSON object for each line instead of words.
    pub json: bool,
}

impl Default for LogConfig {
    fn default() -> LogConfig {
        LogConfig { filter: "info".to_owned(), json: false }
    }
}

/// What is wrong with a configuration, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError(pub(crate) String);

impl std::fmt::Display for ConfigError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ConfigError {}

/// One source of settings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Layer(Table);

impl Layer {
    /// Settings from text in TOML.
    pub fn from_toml(text: &str) -> Result<Layer, ConfigError> {
        let table = text.parse().map_err(|e: toml::de::Error| ConfigError(e.to_string().trim_end().to_owned()))?;
        Ok(Layer(table))
    }

    /// Settings from a file.
    pub fn from_file(path: &Path) -> Result<Layer, ConfigError> {
        let told = |e: &dyn std::fmt::Display| ConfigError(format!("cannot read {}: {e}", path.display()));
        let text = std::fs::read_to_string(path).map_err(|e| told(&e))?;
        Layer::from_toml(&text).map_err(|e| told(&e))
    }

    /// Settings from the environment: `AAEP_LISTEN`, and `AAEP_LIMITS__CONNECTIONS` for what is in a section. Other
    /// variables are left alone.
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

/// A value as it would be written in TOML; what is none is text. A comma makes a list.
fn parse_value(text: &str) -> Value {
    let whole = format!("value = {text}").parse::<Table>().ok().and_then(|mut table| table.remove("value"));
    whole.unwrap_or_else(|| Value::String(text.to_owned()))
}

impl Config {
    /// Lays settings over the defaults, the last on top.
    pub fn from_layers(layers: impl IntoIterator<Item = Layer>) -> Result<Config, ConfigError> {
        let table = layers.into_iter().fold(Table::new(), |below, layer| layer.over(below));
        table.try_into().map_err(|e: toml::de::Error| ConfigError(e.to_string().trim_end().to_owned()))
    }

    /// As TOML, the way `--print-config` shows it.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).unwrap_or_default()
    }

    /// A value for every field, so that names can be looked up.
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

    /// Refuses to serve the world without encryption and credentials (8.2.7, 8.2.8).
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        for address in [Some(self.listen), self.transports.grpc].into_iter().flatten() {
            if address.ip().is_loopback() {
                continue;
            }
            let mutual = self.tls.as_ref().is_some_and(|tls| tls.client_ca.is_some());
            let missing = match (self.tls.is_some(), self.auth.is_set() || mutual) {
                (true, true) => continue,
                (false, true) => "a certificate (--tls-cert and --tls-key)",
                (true, false) => "credentials (--tokens, --jwks or --client-ca)",
                (false, false) => {
                    "a certificate (--tls-cert and --tls-key) and credentials (--tokens, --jwks or --client-ca)"
                }
            };
            return Err(ConfigError(format!(
                "refusing to listen on {address}, which others can reach: give it {missing}, or listen on 127.0.0.1"
            )));
        }
        if self.auth.jwks.is_some() && (self.auth.issuer.is_empty() || self.auth.audience.is_empty()) {
            return Err(ConfigError("signed tokens need to be for someone: set auth.issuer and auth.audience".into()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_layers_win_and_the_rest_stays() {
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
    fn unknown_settings_are_told() {
        let layer = Layer::from_toml("[limits]\nconections = 5").unwrap();
        let error = Config::from_layers([layer]).unwrap_err().to_string();
        assert!(error.contains("conections"), "{error}");
    }

    #[test]
    fn the_world_is_not_served_without_protection() {
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
}
