//! `aaep serve`: a server for agents in any language. Also the flags that every verb with a server has.

use std::io::{self, Write};
use std::path::PathBuf;

use aaep_server::{Config, ConfigError, Layer, LogConfig, RunningServer, Server};
use tracing_subscriber::EnvFilter;

use crate::CommandStatus;
use crate::output::complain;

/// Serve agents and listeners until it is told to stop.
///
/// Settings come from a file, then from the environment (AAEP_LISTEN, AAEP_LIMITS__CONNECTIONS), then from flags; the
/// last one counts.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    server: Flags,
    /// Print the settings that would be used, as TOML, and end
    #[arg(long)]
    print_config: bool,
}

/// What every verb with a server takes.
#[derive(clap::Args, Debug, Default)]
pub(crate) struct Flags {
    /// A file of settings, in TOML
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where to serve HTTP
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// The stable name of the producer
    #[arg(long, value_name = "NAME")]
    agent_id: Option<String>,
    /// Where to serve gRPC
    #[arg(long, value_name = "ADDRESS")]
    grpc: Option<String>,
    /// Do not open a socket for this user
    #[arg(long)]
    no_unix: bool,
    /// The path of that socket
    #[arg(long, value_name = "PATH")]
    unix_path: Option<PathBuf>,
    /// A certificate chain, in PEM
    #[arg(long, value_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// The certificate's private key, in PEM
    #[arg(long, value_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// Who signs the certificates that clients must show, in PEM
    #[arg(long, value_name = "FILE")]
    client_ca: Option<PathBuf>,
    /// A file of tokens, made by `aaep token static`
    #[arg(long, value_name = "FILE")]
    tokens: Option<PathBuf>,
    /// Public keys of those who sign tokens, as JWKS or PEM
    #[arg(long, value_name = "FILE")]
    jwks: Option<PathBuf>,
    /// Who signs tokens
    #[arg(long, value_name = "NAME")]
    issuer: Option<String>,
    /// Whom tokens are for
    #[arg(long, value_name = "NAME")]
    audience: Option<String>,
    /// The private key that signs the manifest
    #[arg(long, value_name = "FILE")]
    manifest_key: Option<PathBuf>,
    /// A name under which the server may be reached, besides those of this machine
    #[arg(long = "host", value_name = "NAME")]
    hosts: Vec<String>,
    /// A web origin whose pages may use the server
    #[arg(long = "origin", value_name = "ORIGIN")]
    origins: Vec<String>,
    /// Where to keep what must survive a restart
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// What to log: a level or a filter
    #[arg(long, value_name = "FILTER")]
    log: Option<String>,
    /// Log one JSON object per line
    #[arg(long)]
    log_json: bool,
}

impl Flags {
    /// The settings. These are below everything the user says.
    pub(crate) fn config_over(self, base: Layer) -> Result<Config, ConfigError> {
        let file = self.config.as_deref().map(Layer::from_file).transpose()?.unwrap_or_default();
        // What is no text in the environment is none of ours.
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
        for (name, list) in [("hosts", self.hosts), ("origins", self.origins)] {
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

pub(crate) fn run(args: Args) -> io::Result<CommandStatus> {
    let config = match args.server.config_over(Layer::default()) {
        Ok(config) => config,
        Err(error) => return Ok(failed(&error)),
    };
    if args.print_config {
        io::stdout().write_all(config.to_toml().as_bytes())?;
        return Ok(CommandStatus::Yes);
    }
    start_logging(&config.log);
    runtime()?.block_on(async {
        let server = match open(config).await {
            Ok(server) => server,
            Err(error) => return Ok(failed(&error)),
        };
        let stop = told_to_stop();
        writeln!(io::stdout(), "Serving at {}", server.url())?;
        stop.await;
        server.stop("The server is being stopped.").await;
        Ok(CommandStatus::Yes)
    })
}

/// Starts a server for agents that connect to it.
async fn open(config: Config) -> Result<RunningServer, ConfigError> {
    let producer = Server::durable_producer(&config)?;
    Server::new(config, producer).with_agents().start().await
}

/// Says what was wrong.
pub(crate) fn failed(error: &ConfigError) -> CommandStatus {
    complain(error);
    CommandStatus::Failed
}

/// Threads for everything that waits.
pub(crate) fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()
}

/// Logs go to standard error; standard output is for results.
pub(crate) fn start_logging(log: &LogConfig) {
    let filter = EnvFilter::try_new(&log.filter).unwrap_or_else(|_| EnvFilter::new("info"));
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).with_ansi(false);
    // Only the first call counts, and there is one.
    let _ = if log.json { logs.json().try_init() } else { logs.try_init() };
}

/// Waits for Ctrl-C or a polite request to end. It is heard from the call on, not only from when it is waited for.
#[cfg(unix)]
pub(crate) fn told_to_stop() -> impl Future<Output = ()> {
    use tokio::signal::unix::{SignalKind, signal};
    let signals = signal(SignalKind::terminate()).and_then(|end| Ok((end, signal(SignalKind::interrupt())?)));
    async {
        match signals {
            Ok((mut terminate, mut interrupt)) => tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            },
            // Then signals do what they do to every program.
            Err(_) => std::future::pending().await,
        }
    }
}

/// Waits for Ctrl-C.
#[cfg(not(unix))]
pub(crate) async fn told_to_stop() {
    // Without signals there is only one way to be told.
    let _ = tokio::signal::ctrl_c().await;
}
