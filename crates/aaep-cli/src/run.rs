//! `aaep run`: runs an agent written in any language, serves its events, and exits with its exit code.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;
use std::process::{ExitCode, ExitStatus, Stdio};

use aaep_server::agents::stdio::{AgentPipes, SideOutput, relay_lines};
use aaep_server::agents::{AgentIdentity, Relay};
use aaep_server::{Config, ConfigError, Layer, Server};
use tokio::process::{Child, Command};
use tokio::sync::oneshot;

use crate::CommandStatus;
use crate::drain::wait_until_drained;
use crate::logging::start_logging;
use crate::output::{fail, print_error};
use crate::runtime::runtime;
use crate::server_flags::ServerFlags;
use crate::signals::{ForwardedSignals, exit_code, forward, separate_from_terminal};

/// Run an agent written in any language and serve its events.
///
/// The agent writes one JSON object per line to stdout and reads the answers to its questions from stdin. Other output is
/// passed through. The exit code is that of the agent. See docs/guide/agents.md.
#[derive(clap::Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    server: ServerFlags,
    /// Command that starts the agent, after --
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub(crate) fn run(args: RunArgs) -> ExitCode {
    let mut base = Layer::default();
    base.set("log.filter", "warn");
    if let Some(name) = args.command.first().and_then(|command| Path::new(command).file_name()) {
        base.set("agent_id", name.to_string_lossy().into_owned());
    }
    let config = match args.server.config_over(base) {
        Ok(config) => config,
        Err(error) => return ExitCode::from(fail(error) as u8),
    };
    start_logging(&config.log);
    let runtime = match runtime() {
        Ok(runtime) => runtime,
        Err(error) => return ExitCode::from(fail(format_args!("cannot start the runtime: {error}")) as u8),
    };
    // Spawned, so that it runs on the worker threads like the driver task that it waits for at every event. Otherwise
    // each event would wake another thread.
    let serving = runtime.spawn(serve(config, args.command));
    let ended = runtime.block_on(serving).unwrap_or_else(|_| Ok(ExitCode::from(CommandStatus::Failed as u8)));
    // Tasks that still wait have no subscriber left.
    runtime.shutdown_background();
    ended.unwrap_or_else(|error| ExitCode::from(fail(error) as u8))
}

async fn serve(config: Config, command: Vec<OsString>) -> Result<ExitCode, ConfigError> {
    let producer = Server::durable_producer(&config)?;
    let identity = agent_identity(&config);
    let mut signals = ForwardedSignals::new();
    let server = Server::new(config, producer.clone()).start().await?;
    let _ = writeln!(io::stderr(), "Serving at {}", server.url());
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
