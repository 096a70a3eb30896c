//! `aaep run`: starts an agent in any language, serves what it says, and ends as it does.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;
use std::process::{ExitCode, ExitStatus, Stdio};

use aaep_server::agents::stdio::{SideOutput, relay_lines};
use aaep_server::agents::{AgentIdentity, Relay};
use aaep_server::{Config, ConfigError, Layer, Server};
use tokio::process::{Child, Command};
use tokio::sync::oneshot;

use crate::CommandStatus;
use crate::drain::linger;
use crate::output::complain;
use crate::serve::{Flags, failed, runtime, start_logging};

/// Run an agent in any language, and serve what it says.
///
/// The agent writes one JSON object per line to its standard output; the answers to its questions come on its standard
/// input. Everything else that it writes is passed on. See docs/guide/agents.md.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    server: Flags,
    /// The agent and its arguments, after two dashes
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub(crate) fn run(args: Args) -> ExitCode {
    let mut base = Layer::default();
    base.set("log.filter", "warn");
    if let Some(name) = args.command.first().and_then(|command| Path::new(command).file_name()) {
        base.set("agent_id", name.to_string_lossy().into_owned());
    }
    let config = match args.server.config_over(base) {
        Ok(config) => config,
        Err(error) => return ExitCode::from(failed(&error) as u8),
    };
    start_logging(&config.log);
    let runtime = match runtime() {
        Ok(runtime) => runtime,
        Err(error) => {
            complain(format_args!("cannot start: {error}"));
            return ExitCode::from(CommandStatus::Failed as u8);
        }
    };
    // Beside the producer's task, which the relay waits for at every event: so that neither has to wake another thread.
    let serving = runtime.spawn(serve(config, args.command));
    let ended = runtime.block_on(serving).unwrap_or_else(|_| Ok(ExitCode::from(CommandStatus::Failed as u8)));
    // What still waits for something has nobody left to tell.
    runtime.shutdown_background();
    ended.unwrap_or_else(|error| ExitCode::from(failed(&error) as u8))
}

async fn serve(config: Config, command: Vec<OsString>) -> Result<ExitCode, ConfigError> {
    let producer = Server::durable_producer(&config)?;
    let who = who(&config);
    let mut signals = Signals::new();
    let server = Server::new(config, producer.clone()).start().await?;
    let _ = writeln!(io::stderr(), "Serving at {}", server.url());
    let mut child = match start(&command, &server.url()) {
        Ok(child) => child,
        Err(error) => {
            let name = command.first().map(|name| name.to_string_lossy()).unwrap_or_default();
            complain(format_args!("cannot start {name}: {error}"));
            server.stop("The agent could not be started.").await;
            // As shells say it.
            return Ok(ExitCode::from(if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 }));
        }
    };
    let pipes = (child.stdout.take(), child.stdin.take());
    let (over, ended) = oneshot::channel();
    let watching = tokio::spawn(async move {
        let status = watch(&mut child, &mut signals).await;
        let _ = over.send(());
        (status, signals)
    });
    let mut relay = Relay::new(producer.clone(), who);
    if let (Some(output), Some(input)) = pipes {
        let ended = async { drop(ended.await) };
        if let Err(error) = relay_lines(&mut relay, (output, input), ended, beside).await {
            complain(format_args!("cannot read what the agent writes: {error}"));
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
    if !signals.were_heard {
        tokio::select! {
            () = linger(&producer) => {}
            _ = signals.next() => {}
        }
    }
    server.stop("The agent has ended.").await;
    Ok(ExitCode::from(code(status)))
}

fn who(config: &Config) -> AgentIdentity {
    let language = config.languages.first().cloned().unwrap_or_else(|| "en".parse().expect("en is a language tag"));
    let mut who = AgentIdentity::anyone(&config.agent_id, language);
    who.producer.agent_name.clone_from(&config.agent_name);
    who
}

fn start(command: &[OsString], url: &str) -> io::Result<Child> {
    let (name, arguments) = command.split_first().ok_or(io::ErrorKind::NotFound)?;
    let mut command = Command::new(name);
    command.args(arguments).env("AAEP_URL", url).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
    // Keys that a terminal turns into signals come to us, and the agent gets them from us, once.
    #[cfg(unix)]
    command.process_group(0);
    command.spawn()
}

/// What the agent writes that is no event.
fn beside(said: SideOutput<'_>) {
    match said {
        // Who reads our output decides how fast the agent can write.
        SideOutput::Lines(lines) => tokio::task::block_in_place(|| {
            let mut out = io::stdout().lock();
            // Nobody may be reading; the agent goes on all the same.
            let _ = out.write_all(lines).and_then(|()| out.flush());
        }),
        SideOutput::Problem(number, words) => complain(format_args!("line {number} of the agent: {words}")),
    }
}

/// Waits for the end of the agent and passes signals on to it.
async fn watch(child: &mut Child, signals: &mut Signals) -> io::Result<ExitStatus> {
    loop {
        let signal = tokio::select! {
            status = child.wait() => return status,
            signal = signals.next() => signal,
        };
        pass_on(child, signal);
    }
}

#[cfg(unix)]
fn code(status: ExitStatus) -> u8 {
    use std::os::unix::process::ExitStatusExt;
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(CommandStatus::Failed as u8)
}

#[cfg(not(unix))]
fn code(status: ExitStatus) -> u8 {
    let most = |code: i32| u8::try_from(code).unwrap_or(u8::MAX);
    status.code().map_or(CommandStatus::Failed as u8, most)
}

/// Signals that are the agent's business.
#[cfg(unix)]
struct Signals {
    streams: Vec<(rustix::process::Signal, tokio::signal::unix::Signal)>,
    /// Whether one came.
    were_heard: bool,
}

#[cfg(unix)]
impl Signals {
    fn new() -> Signals {
        use rustix::process::Signal;
        use tokio::signal::unix::{SignalKind, signal};
        let kinds = [
            (Signal::INT, SignalKind::interrupt()),
            (Signal::TERM, SignalKind::terminate()),
            (Signal::HUP, SignalKind::hangup()),
        ];
        let streams = kinds.into_iter().filter_map(|(name, kind)| Some((name, signal(kind).ok()?))).collect();
        Signals { streams, were_heard: false }
    }

    /// The next one. Giving up waiting loses nothing.
    async fn next(&mut self) -> rustix::process::Signal {
        std::future::poll_fn(|cx| {
            for (name, stream) in &mut self.streams {
                if stream.poll_recv(cx).is_ready() {
                    self.were_heard = true;
                    return std::task::Poll::Ready(*name);
                }
            }
            std::task::Poll::Pending
        })
        .await
    }
}

/// All of the agent's processes get it, as they would from a terminal.
#[cfg(unix)]
fn pass_on(child: &Child, signal: rustix::process::Signal) {
    let id = child.id().and_then(|id| rustix::process::Pid::from_raw(i32::try_from(id).ok()?));
    if let Some(id) = id {
        // It may just have ended.
        let _ = rustix::process::kill_process_group(id, signal);
    }
}

#[cfg(not(unix))]
struct Signals {
    were_heard: bool,
}

#[cfg(not(unix))]
impl Signals {
    fn new() -> Signals {
        Signals { were_heard: false }
    }

    async fn next(&mut self) {
        // Without signals there is only one way to be told.
        let _ = tokio::signal::ctrl_c().await;
        self.were_heard = true;
    }
}

#[cfg(not(unix))]
fn pass_on(child: &mut Child, (): ()) {
    let _ = child.start_kill();
}
