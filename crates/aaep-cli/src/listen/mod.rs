//! `aaep listen`: the terminal for people who listen.
//!
//! The logic is [`aaep_listen::Listener`]. Here are its inputs (`keyboard.rs`, `source.rs` with `local.rs`,
//! `socket.rs`, `hook.rs`, `settings.rs`, `flags.rs`), its outputs (`outputs.rs`, `braille.rs`, `transcript_file.rs`) and
//! the loop between them (`runner.rs`).

mod braille;
mod flags;
mod hook;
mod keyboard;
mod local;
mod outputs;
mod runner;
mod settings;
pub(crate) mod socket;
mod source;
mod transcript_file;

use std::io::{self, IsTerminal};

use aaep_client::ConnectOptions;
use aaep_proto::message::Capabilities;
use aaep_runtime::Clock;

pub(crate) use flags::{ListenerFlags, OpenListener};
pub(crate) use keyboard::spawn_reader;
pub(crate) use local::LocalProducer;
pub(crate) use runner::Runner;
pub(crate) use settings::profile;

use crate::CommandStatus;
use crate::connect_flags::ConnectFlags;
use crate::local_agents::find_agents;
use crate::output::print_error;
use crate::runtime::runtime;
use crate::signals::shutdown_signal;
use hook::Hooks;
use source::RemoteProducers;

/// Maximum number of entered lines that wait for the runner.
pub(crate) const MAX_WAITING_LINES: usize = 16;

/// Listen to agents and answer their questions.
///
/// Prints one line per event and reads commands and answers from the terminal: type a word or a letter, then Enter.
/// Type help for a list. Without a terminal it only prints. Without an address it finds your agents on this machine.
#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  aaep listen
  aaep listen localhost:8377 --speak
  aaep listen wss://agents.example/aaep/v1/ws --token token.txt
  aaep listen https://localhost:8377 --ca cert.pem")]
pub(crate) struct Args {
    /// Addresses of the agents: a host with a port, or http, https, ws, wss, grpc, grpcs, unix or stdio [default: the agents of
    /// this user on this machine, found by their sockets and at port 8377]
    #[arg(value_name = "ADDRESS")]
    addresses: Vec<String>,
    #[command(flatten)]
    listener: ListenerFlags,
    /// Print one JSON object per line, for programs
    #[arg(long)]
    json: bool,
    /// Command that answers questions: reads JSON on stdin, prints `accept`, `reject` or `answer TEXT`
    #[arg(long, value_name = "COMMAND")]
    on_prompt: Option<String>,
    /// Listen only to agents with a signed manifest
    #[arg(long)]
    signed_only: bool,
    #[command(flatten)]
    connect: ConnectFlags,
}

pub(crate) fn run(args: Args) -> io::Result<CommandStatus> {
    runtime()?.block_on(async {
        match listen(args).await {
            Ok(outcome) => outcome,
            Err(mistake) => {
                print_error(mistake);
                Ok(CommandStatus::Failed)
            }
        }
    })
}

/// Listens. The outer error is a mistake in the arguments or in the environment.
async fn listen(args: Args) -> Result<io::Result<CommandStatus>, String> {
    let addresses = if args.addresses.is_empty() { found_agents().await? } else { args.addresses.clone() };
    let OpenListener { mut listener, outputs, keyboard, lines } = args.listener.open(&addresses, args.json).await?;
    let options = options(&args, listener.capabilities())?;
    let clock = Clock::new();
    let source = RemoteProducers::connect(&addresses, &options, clock)?;
    if args.on_prompt.is_some() {
        listener = listener.with_prompt_hook();
    }
    let mut runner = Runner::new(listener, source, outputs, clock);
    runner.hooks = Hooks::new(args.on_prompt);
    runner.keyboard = lines;
    if io::stdin().is_terminal() {
        spawn_reader(keyboard);
        if !args.json {
            runner.listener.note_phrase("ui-help", &[]);
        }
    }
    runner.open_socket().await;
    Ok(run_to_end(&mut runner).await)
}

/// Returns the addresses of the agents of this user on this machine.
async fn found_agents() -> Result<Vec<String>, String> {
    let found = find_agents().await;
    if found.is_empty() {
        return Err("no agent of yours was found on this machine; start one, such as: aaep demo, or give an address, \
            such as: aaep listen http://127.0.0.1:8377"
            .to_owned());
    }
    Ok(found.iter().map(ToString::to_string).collect())
}

async fn run_to_end(runner: &mut Runner<RemoteProducers>) -> io::Result<CommandStatus> {
    runner.run(shutdown_signal(), std::future::pending()).await?;
    runner.finish().await?;
    Ok(if runner.listener.was_rejected() { CommandStatus::No } else { CommandStatus::Yes })
}

fn options(args: &Args, mut capabilities: Capabilities) -> Result<ConnectOptions, String> {
    if args.signed_only {
        capabilities.fields.accept_signed_manifests_only = Some(true);
    }
    // Two terminals of one user are two subscribers.
    let mut options =
        ConnectOptions::new(format!("aaep-listen-{}", std::process::id()), capabilities).outlive_producer();
    options.config.request.subscriber_name = Some("aaep listen".to_owned());
    options.config.request.subscriber_version = Some(env!("CARGO_PKG_VERSION").to_owned());
    options = args.connect.apply(options)?;
    if let Some(directory) = settings::state_directory() {
        options = options.remember_keys(directory.join("known-keys.json"));
    }
    Ok(options)
}
