//! `aaep run`: runs an agent written in any language, serves its events, and exits with its exit code.

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::{ExitCode, ExitStatus, Stdio};
use std::time::Duration;

use aaep::Producer;
use aaep_server::agents::stdio::{AgentPipes, SideOutput, relay_lines};
use aaep_server::agents::{AgentIdentity, Relay};
use aaep_server::{Config, ConfigError, Layer, RunningServer, Server};
use tokio::process::{Child, Command};
use tokio::sync::oneshot;

use crate::CommandStatus;
use crate::agent_name::{agent_name, to_agent_id};
use crate::drain::wait_until_drained;
use crate::logging::start_logging;
use crate::output::{fail, print_error};
use crate::runtime::runtime;
use crate::server_flags::{EffectiveConfig, ServerFlags};
use crate::signals::{ForwardedSignals, exit_code, forward, separate_from_terminal};

/// The exit code if a signal came before the agent was started, as shells have it for an interrupt.
const INTERRUPTED: u8 = 130;

/// How often to look for a listener.
const LISTENER_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Run an agent written in any language and serve its events.
///
/// The agent writes one JSON object per line to stdout and reads the answers to its questions from stdin. Other output is
/// passed through. The exit code is that of the agent. If port 8377 is in use and no address was given, a free port is taken.
/// See docs/guide/agents.md.
#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  aaep run -- python3 agent.py
  aaep run --listen localhost:9000 -- node agent.mjs")]
pub(crate) struct RunArgs {
    #[command(flatten)]
    server: ServerFlags,
    /// Name of the agent, as users hear it [default: the name of its script or program]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Start the agent when the first listener has connected
    #[arg(long)]
    wait: bool,
    /// Command that starts the agent, after --
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub(crate) fn run(args: RunArgs) -> ExitCode {
    let mut base = Layer::default();
    base.set("log.filter", "warn");
    let name = args.name.clone().unwrap_or_else(|| agent_name(&args.command));
    base.set("agent_id", to_agent_id(&name));
    let effective = match args.server.effective_over(base) {
        Ok(effective) => effective.with_name(args.name),
        Err(error) => return ExitCode::from(fail(error) as u8),
    };
    start_logging(&effective.config.log);
    let runtime = match runtime() {
        Ok(runtime) => runtime,
        Err(error) => return ExitCode::from(fail(format_args!("cannot start the runtime: {error}")) as u8),
    };
    // Spawned, so that it runs on the worker threads like the driver task that it waits for at every event. Otherwise
    // each event would wake another thread.
    let serving = runtime.spawn(serve(effective, AgentStart { command: args.command, wait: args.wait }));
    let ended = runtime.block_on(serving).unwrap_or_else(|_| Ok(ExitCode::from(CommandStatus::Failed as u8)));
    // Tasks that still wait have no subscriber left.
    runtime.shutdown_background();
    ended.unwrap_or_else(|error| ExitCode::from(fail(error) as u8))
}

/// How to start the agent.
struct AgentStart {
    command: Vec<OsString>,
    /// Whether to wait for a listener first.
    wait: bool,
}

async fn serve(effective: EffectiveConfig, AgentStart { command, wait }: AgentStart) -> Result<ExitCode, ConfigError> {
    let producer = Server::durable_producer(&effective.config)?;
    let identity = agent_identity(&effective.config);
    let mut signals = ForwardedSignals::new();
    let server = start_server(effective, producer.clone()).await?;
    if wait {
        let _ = writeln!(io::stderr(), "The agent starts when somebody listens.");
        tokio::select! {
            () = wait_for_listener(&producer) => {}
            _ = signals.recv() => {
                server.stop("The agent was not started.").await;
                return Ok(ExitCode::from(INTERRUPTED));
            }
        }
    }
    let mut child = match start(&command, &server.url()) {
        Ok(child) => child,
        Err(error) => {
            let name = command.first().map(|name| name.to_string_lossy()).unwrap_or_default();
            print_error(format_args!("cannot start {name}: {error}"));
            server.stop("The agent could not be started.").await;
            // The exit codes of shells for a command that was not found or cannot be executed.
            return Ok(ExitCode::from(if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 }));
        }
    };
    let pipes = (child.stdout.take(), child.stdin.take());
    let (exited, ended) = oneshot::channel();
    let watching = tokio::spawn(async move {
        let status = wait_and_forward(&mut child, &mut signals).await;
        let _ = exited.send(());
        (status, signals)
    });
    let mut relay = Relay::new(producer.clone(), identity);
    if let (Some(stdout), Some(stdin)) = pipes {
        let pipes = AgentPipes { stdout, stdin };
        let ended = async { drop(ended.await) };
        if let Err(error) = relay_lines(&mut relay, pipes, ended, print_side_output).await {
            print_error(format_args!("cannot read the output of the agent: {error}"));
        }
    }
    let (status, mut signals) = match watching.await {
        Ok((Ok(status), signals)) => (status, signals),
        _ => return Ok(ExitCode::from(CommandStatus::Failed as u8)),
    };
    if status.success() {
        relay.finish("The agent has finished.").await;
    } else {
        relay.fail("The agent stopped unexpectedly.").await;
    }
    drop(relay);
    if !signals.was_received() {
        tokio::select! {
            () = wait_until_drained(&producer) => {}
            _ = signals.recv() => {}
        }
    }
    server.stop("The agent has ended.").await;
    Ok(ExitCode::from(exit_code(status).unwrap_or(CommandStatus::Failed as u8)))
}

/// Starts the server and prints where it serves and how to listen.
pub(crate) async fn start_server(effective: EffectiveConfig, producer: Producer) -> Result<RunningServer, ConfigError> {
    let EffectiveConfig { config, is_listen_set } = effective;
    let port = config.listen.port();
    let has_page = config.page;
    let needs_token = config.auth.tokens.is_some() || config.auth.jwks.is_some();
    let server = Server::new(config, producer);
    let server = if is_listen_set { server } else { server.with_free_port_if_taken() };
    let server = server.start().await?;
    let is_other_port = !is_listen_set && server.address().port() != port;
    let why = if is_other_port { format!(", because port {port} is in use") } else { String::new() };
    let _ = writeln!(io::stderr(), "Serving at {}{why}", server.url());
    let token = if needs_token { " --token FILE" } else { "" };
    let _ = writeln!(io::stderr(), "To listen, run this in another terminal: aaep listen {}{token}", server.url());
    if has_page {
        let _ = writeln!(io::stderr(), "Or open that address in a browser.");
    }
    Ok(server)
}

/// Waits until there is a subscription.
async fn wait_for_listener(producer: &Producer) {
    while producer.subscriber_counts().await.subscriptions == 0 {
        tokio::time::sleep(LISTENER_POLL_INTERVAL).await;
    }
}

fn agent_identity(config: &Config) -> AgentIdentity {
    let language = config.languages.first().cloned().unwrap_or_else(|| "en".parse().expect("en is a language tag"));
    let mut identity = AgentIdentity::unrestricted(&config.agent_id, language);
    identity.producer.agent_name.clone_from(&config.agent_name);
    identity
}

fn start(command: &[OsString], url: &str) -> io::Result<Child> {
    let (name, arguments) = command.split_first().ok_or(io::ErrorKind::NotFound)?;
    let mut command = Command::new(name);
    command.args(arguments).env("AAEP_URL", url).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
    separate_from_terminal(&mut command);
    command.spawn()
}

/// Prints output of the agent that is not an event.
fn print_side_output(output: SideOutput<'_>) {
    match output {
        // Blocking: the reader of our output sets the pace of the agent.
        SideOutput::Passthrough(lines) => tokio::task::block_in_place(|| {
            let mut out = io::stdout().lock();
            // If standard error is closed, the agent still continues.
            let _ = out.write_all(lines).and_then(|()| out.flush());
        }),
        SideOutput::LineError { number, message } => {
            print_error(format_args!("line {number} of the agent: {message}"));
        }
    }
}

/// Waits until the agent exits, and forwards signals to it.
async fn wait_and_forward(child: &mut Child, signals: &mut ForwardedSignals) -> io::Result<ExitStatus> {
    loop {
        let signal = tokio::select! {
            status = child.wait() => return status,
            signal = signals.recv() => signal,
        };
        forward(child, signal);
    }
}
