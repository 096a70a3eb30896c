//! Flags of every command that starts a server.

use std::num::NonZeroU32;
use std::path::PathBuf;

use aaep_server::{Config, ConfigError, Layer};

use crate::logging::check_filter;

/// Flags of every command that starts a server. They override the environment, which overrides the file. The help of each
/// names its environment variable and its default; a test compares them with the configuration.
#[derive(clap::Args, Debug, Default)]
#[command(next_help_heading = "Server options")]
pub(crate) struct ServerFlags {
    /// Configuration file (TOML); aaep serve --print-config prints one
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// HTTP listen address [default: 127.0.0.1:8377] [env: AAEP_LISTEN]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Producer id (agent_id) [default: aaep for serve, else that of the agent] [env: AAEP_AGENT_ID]
    #[arg(long, value_name = "NAME")]
    agent_id: Option<String>,
    /// gRPC listen address [default: not served] [env: AAEP_TRANSPORTS__GRPC]
    #[arg(long, value_name = "ADDRESS")]
    grpc: Option<String>,
    /// Disable the Unix socket [env: AAEP_TRANSPORTS__UNIX=false]
    #[arg(long)]
    no_unix: bool,
    /// Path of the Unix socket [default: aaep/AGENT_ID.sock in XDG_RUNTIME_DIR] [env: AAEP_TRANSPORTS__UNIX_PATH]
    #[arg(long, value_name = "PATH")]
    unix_path: Option<PathBuf>,
    /// Do not serve the web page at / [env: AAEP_PAGE=false]
    #[arg(long)]
    no_page: bool,
    /// TLS certificate chain (PEM) [default: no TLS] [env: AAEP_TLS__CERT]
    #[arg(long, value_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// TLS private key (PEM) [env: AAEP_TLS__KEY]
    #[arg(long, value_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// CA of client certificates (PEM); clients must present one [default: none] [env: AAEP_TLS__CLIENT_CA]
    #[arg(long, value_name = "FILE")]
    client_ca: Option<PathBuf>,
    /// File of static tokens, see: aaep token static [default: none] [env: AAEP_AUTH__TOKENS]
    #[arg(long, value_name = "FILE")]
    tokens: Option<PathBuf>,
    /// Public keys of token issuers (JWKS or PEM) [default: none] [env: AAEP_AUTH__JWKS]
    #[arg(long, value_name = "FILE")]
    jwks: Option<PathBuf>,
    /// Token issuer (iss) [default: aaep] [env: AAEP_AUTH__ISSUER]
    #[arg(long, value_name = "NAME")]
    issuer: Option<String>,
    /// Token audience (aud) [default: aaep] [env: AAEP_AUTH__AUDIENCE]
    #[arg(long, value_name = "NAME")]
    audience: Option<String>,
    /// Private key that signs the manifest [default: not signed] [env: AAEP_MANIFEST__KEY]
    #[arg(long, value_name = "FILE")]
    manifest_key: Option<PathBuf>,
    /// Additional host name that clients may use (repeatable) [env: AAEP_HOSTS, separated by commas]
    #[arg(long = "host", value_name = "NAME")]
    hosts: Vec<String>,
    /// Web origin whose pages may connect (repeatable) [env: AAEP_ORIGINS, separated by commas]
    #[arg(long = "origin", value_name = "ORIGIN")]
    origins: Vec<String>,
    /// Trusted proxy that terminates TLS: an address or network such as 10.0.0.2 or 10.0.0.0/24 (repeatable)
    /// [env: AAEP_BEHIND_PROXY, separated by commas]
    #[arg(long, value_name = "ADDRESS")]
    behind_proxy: Vec<String>,
    /// Threads of the server [default: one for each core] [env: AAEP_WORKERS]
    #[arg(long, value_name = "COUNT")]
    workers: Option<NonZeroU32>,
    /// User of the local socket, if the server asks for credentials elsewhere [default: local] [env: AAEP_LOCAL_USER]
    #[arg(long, value_name = "USER")]
    local_user: Option<String>,
    /// Data directory [default: none, so that nothing survives a restart] [env: AAEP_DATA__DIR]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Log level or filter, such as debug or aaep_server=trace [default: info for serve, else warn] [env: AAEP_LOG__FILTER]
    #[arg(long, value_name = "FILTER")]
    log: Option<String>,
    /// Log as JSON, one object per line [env: AAEP_LOG__JSON=true]
    #[arg(long)]
    log_json: bool,
}

/// The configuration of a server, and whether the user chose its address.
pub(crate) struct EffectiveConfig {
    pub(crate) config: Config,
    /// Whether a file, a variable or a flag sets `listen`. If not, another port does as well.
    pub(crate) is_listen_set: bool,
}

impl EffectiveConfig {
    /// Sets the name that users hear, if there is one. The command line decides before the file and the environment.
    pub(crate) fn with_name(mut self, name: Option<String>) -> EffectiveConfig {
        if name.is_some() {
            self.config.agent_name = name;
        }
        self
    }
}

impl ServerFlags {
    /// Returns the configuration. `base` has the defaults of the command, which everything else overrides.
    pub(crate) fn config_over(self, base: Layer) -> Result<Config, ConfigError> {
        self.effective_over(base).map(|effective| effective.config)
    }

    /// Returns the configuration, and what the user chose. `base` has the defaults of the command.
    pub(crate) fn effective_over(self, base: Layer) -> Result<EffectiveConfig, ConfigError> {
        let file = self.config.as_deref().map(Layer::from_file).transpose()?.unwrap_or_default();
        // Variables that are not Unicode are not settings of ours.
        let variables = std::env::vars_os().filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)));
        let environment = Layer::from_env(variables)?;
        let flags = self.layer();
        let is_listen_set = [&file, &environment, &flags].iter().any(|layer| layer.has("listen"));
        let config = Config::from_layers([base, file, environment, flags])?;
        check_filter(&config.log).map_err(ConfigError::new)?;
        Ok(EffectiveConfig { config, is_listen_set })
    }

    fn layer(self) -> Layer {
        let mut layer = Layer::default();
        let path = |path: Option<PathBuf>| path.map(|path| path.to_string_lossy().into_owned());
        let texts = [
            ("--listen", "listen", self.listen),
            ("--agent-id", "agent_id", self.agent_id),
            ("--grpc", "transports.grpc", self.grpc),
            ("--unix-path", "transports.unix_path", path(self.unix_path)),
            ("--tls-cert", "tls.cert", path(self.tls_cert)),
            ("--tls-key", "tls.key", path(self.tls_key)),
            ("--client-ca", "tls.client_ca", path(self.client_ca)),
            ("--tokens", "auth.tokens", path(self.tokens)),
            ("--jwks", "auth.jwks", path(self.jwks)),
            ("--issuer", "auth.issuer", self.issuer),
            ("--audience", "auth.audience", self.audience),
            ("--manifest-key", "manifest.key", path(self.manifest_key)),
            ("--local-user", "local_user", self.local_user),
            ("--data", "data.dir", path(self.data)),
            ("--log", "log.filter", self.log),
        ];
        for (flag, name, text) in texts {
            if let Some(text) = text {
                layer.set_flag(flag, name, text);
            }
        }
        if let Some(workers) = self.workers {
            layer.set_flag("--workers", "workers", i64::from(workers.get()));
        }
        let lists = [
            ("--host", "hosts", self.hosts),
            ("--origin", "origins", self.origins),
            ("--behind-proxy", "behind_proxy", self.behind_proxy),
        ];
        for (flag, name, list) in lists {
            if !list.is_empty() {
                layer.set_flag(flag, name, list);
            }
        }
        let switches = [
            ("transports.unix", self.no_unix, false),
            ("page", self.no_page, false),
            ("log.json", self.log_json, true),
        ];
        for (name, flag, value) in switches {
            if flag {
                layer.set(name, value);
            }
        }
        layer
    }
}

#[cfg(test)]
mod tests {
    use clap::Args;

    use super::*;

    #[test]
    fn number_of_workers_is_read() {
        let flags = ServerFlags { workers: NonZeroU32::new(2), ..ServerFlags::default() };
        assert_eq!(Config::from_layers([flags.layer()]).unwrap().workers().get(), 2);
    }

    #[test]
    fn help_names_the_variable_and_the_default_of_each_flag() {
        let command = ServerFlags::augment_args(clap::Command::new("serve"));
        let names = Config::setting_names();
        let defaults = Config::default().to_toml();
        for argument in command.get_arguments().filter(|argument| argument.get_id() != "config") {
            let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
            let (_, after) = help.split_once("[env: ").unwrap_or_else(|| panic!("no variable in {help}"));
            let variable = after.split([']', ',', '=']).next().unwrap();
            let known = names.iter().find(|(_, name)| name == variable);
            let (setting, _) = known.unwrap_or_else(|| panic!("{variable} is not a setting"));
            let Some((_, default)) = help.split_once("[default: ") else { continue };
            let default = default.split(']').next().unwrap().split(' ').next().unwrap();
            let key = setting.rsplit('.').next().unwrap();
            let stated = format!("{key} = \"{default}\"");
            let unset = format!("# {key} is not set");
            assert!(defaults.lines().any(|line| line == stated || line == unset), "{help}: not in\n{defaults}");
        }
    }
}
