//! Flags of every command that starts a server.

use std::path::PathBuf;

use aaep_server::{Config, ConfigError, Layer};

/// Flags of every command that starts a server. They override the environment, which overrides the file.
#[derive(clap::Args, Debug, Default)]
pub(crate) struct ServerFlags {
    /// Configuration file (TOML)
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// HTTP listen address
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Producer id (agent_id)
    #[arg(long, value_name = "NAME")]
    agent_id: Option<String>,
    /// gRPC listen address
    #[arg(long, value_name = "ADDRESS")]
    grpc: Option<String>,
    /// Disable the Unix socket
    #[arg(long)]
    no_unix: bool,
    /// Path of the Unix socket
    #[arg(long, value_name = "PATH")]
    unix_path: Option<PathBuf>,
    /// TLS certificate chain (PEM)
    #[arg(long, value_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// TLS private key (PEM)
    #[arg(long, value_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// CA of client certificates (PEM); clients must present one
    #[arg(long, value_name = "FILE")]
    client_ca: Option<PathBuf>,
    /// File of static tokens, see: aaep token static
    #[arg(long, value_name = "FILE")]
    tokens: Option<PathBuf>,
    /// Public keys of token issuers (JWKS or PEM)
    #[arg(long, value_name = "FILE")]
    jwks: Option<PathBuf>,
    /// Token issuer (iss)
    #[arg(long, value_name = "NAME")]
    issuer: Option<String>,
    /// Token audience (aud)
    #[arg(long, value_name = "NAME")]
    audience: Option<String>,
    /// Private key that signs the manifest
    #[arg(long, value_name = "FILE")]
    manifest_key: Option<PathBuf>,
    /// Additional host name that clients may use (repeatable)
    #[arg(long = "host", value_name = "NAME")]
    hosts: Vec<String>,
    /// Web origin whose pages may connect (repeatable)
    #[arg(long = "origin", value_name = "ORIGIN")]
    origins: Vec<String>,
    /// Trusted proxy that terminates TLS: an address or network such as 10.0.0.2 or 10.0.0.0/24 (repeatable)
    #[arg(long, value_name = "ADDRESS")]
    behind_proxy: Vec<String>,
    /// Data directory; without it nothing survives a restart
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Log level or filter, such as debug or aaep_server=trace
    #[arg(long, value_name = "FILTER")]
    log: Option<String>,
    /// Log as JSON, one object per line
    #[arg(long)]
    log_json: bool,
}

impl ServerFlags {
    /// Returns the configuration. `base` has the defaults of the command, which everything else overrides.
    pub(crate) fn config_over(self, base: Layer) -> Result<Config, ConfigError> {
        let file = self.config.as_deref().map(Layer::from_file).transpose()?.unwrap_or_default();
        // Variables that are not Unicode are not settings of ours.
        let variables = std::env::vars_os().filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)));
        let environment = Layer::from_env(variables);
        Config::from_layers([base, file, environment, self.layer()])
    }

    fn layer(self) -> Layer {
        let mut layer = Layer::default();
        let path = |path: Option<PathBuf>| path.map(|path| path.to_string_lossy().into_owned());
        let texts = [
            ("listen", self.listen),
            ("agent_id", self.agent_id),
            ("transports.grpc", self.grpc),
            ("transports.unix_path", path(self.unix_path)),
            ("tls.cert", path(self.tls_cert)),
            ("tls.key", path(self.tls_key)),
            ("tls.client_ca", path(self.client_ca)),
            ("auth.tokens", path(self.tokens)),
            ("auth.jwks", path(self.jwks)),
            ("auth.issuer", self.issuer),
            ("auth.audience", self.audience),
            ("manifest.key", path(self.manifest_key)),
            ("data.dir", path(self.data)),
            ("log.filter", self.log),
        ];
        for (name, text) in texts {
            if let Some(text) = text {
                layer.set(name, text);
            }
        }
        let lists = [("hosts", self.hosts), ("origins", self.origins), ("behind_proxy", self.behind_proxy)];
        for (name, list) in lists {
            if !list.is_empty() {
                layer.set(name, list);
            }
        }
        for (name, flag, value) in [("transports.unix", self.no_unix, false), ("log.json", self.log_json, true)] {
            if flag {
                layer.set(name, value);
            }
        }
        layer
    }
}
