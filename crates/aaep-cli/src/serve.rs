//! `aaep serve`: a server for agents and subscribers.

use std::io::{self, Write};

use aaep_server::{Config, ConfigError, InheritedListeners, Layer, RunningServer, Server};

use crate::CommandStatus;
use crate::logging::start_logging;
use crate::output::fail;
use crate::runtime::runtime_with;
use crate::server_flags::ServerFlags;
use crate::service_manager::{ServiceState, inherited_listeners, notify};
use crate::signals::shutdown_signal;

/// Serve agents and subscribers until stopped.
///
/// Flags override environment variables (AAEP_LISTEN, AAEP_LIMITS__CONNECTIONS), which override the configuration file. The
/// help of each flag names its variable; --print-config prints every setting. Other machines are served only with TLS and
/// credentials. See docs/guide/operating.md.
#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  aaep serve
  aaep serve --listen localhost:9000 --data ~/.local/share/aaep
  aaep serve --config aaep.toml --print-config")]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    server: ServerFlags,
    /// Print the effective configuration as TOML and exit
    #[arg(long)]
    print_config: bool,
}

pub(crate) fn run(args: ServeArgs) -> io::Result<CommandStatus> {
    let config = match args.server.config_over(Layer::default()) {
        Ok(config) => config,
        Err(error) => return Ok(fail(error)),
    };
    if args.print_config {
        io::stdout().write_all(config.to_toml().as_bytes())?;
        return Ok(CommandStatus::Yes);
    }
    start_logging(&config.log);
    let inherited = match inherited_listeners() {
        Ok(listeners) => listeners,
        Err(error) => return Ok(fail(error)),
    };
    runtime_with(config.workers())?.block_on(async {
        let server = match open(config, inherited).await {
            Ok(server) => server,
            Err(error) => return Ok(fail(error)),
        };
        let stop = shutdown_signal();
        writeln!(io::stdout(), "Serving at {}", server.url())?;
        notify(ServiceState::Ready);
        stop.await;
        notify(ServiceState::Stopping);
        server.stop("The server is being stopped.").await;
        Ok(CommandStatus::Yes)
    })
}

/// Starts a server with the agent endpoints.
async fn open(config: Config, inherited: InheritedListeners) -> Result<RunningServer, ConfigError> {
    Server::for_users(config)?.with_listeners(inherited).start().await
}
