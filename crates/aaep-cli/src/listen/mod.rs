//! `aaep listen`: the terminal for people who listen.
//!
//! `terminal.rs` is the core and `obey.rs` what it does with what is typed; `guard.rs` decides which question an answer
//! is for; `shell.rs` brings the core to clocks, keyboard and network through the seam of `source.rs`.

mod answer_router;
#[cfg(unix)]
mod braille;
mod command;
mod commands;
pub(crate) mod control;
mod hook;
mod line;
mod local;
mod outlets;
mod questions;
mod runner;
mod session;
mod settings;
#[cfg(unix)]
pub(crate) mod socket;
mod source;
mod speak;
#[cfg(test)]
mod test_support;
#[cfg(test)]
mod tests;
mod transcript;

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

use aaep_announce::{Phrases, Profile, SubscriberKind};
use aaep_client::{ConnectOptions, TlsOptions};
use aaep_voice::{Sounds, VoiceConfig};

pub(crate) use local::Local;
pub(crate) use outlets::Outlets;
pub(crate) use runner::{Runner, keyboard};
pub(crate) use session::ListenSession;

use crate::CommandStatus;
use crate::output::complain;
use crate::serve::{runtime, told_to_stop};
use hook::Hooks;
use source::Clients;
#[cfg(unix)]
use speak::own;
use transcript::Record;

/// Listen to agents, and answer them.
///
/// Prints one plain line for each thing that matters, and takes your answers: type a word or a letter, then Enter.
/// Type help for all of them. Without a terminal it only prints.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Where the agents are: http, https, ws, wss, unix or stdio addresses
    #[arg(value_name = "ADDRESS", required = true)]
    addresses: Vec<String>,
    /// Say it aloud, through speech-dispatcher
    #[arg(long)]
    speak: bool,
    /// Show it on the braille display, through BRLTTY
    #[arg(long)]
    braille: bool,
    /// Sounds beside the words: a directory of sound files, `bell` or `none`
    #[arg(long, value_name = "SOUNDS")]
    sounds: Option<String>,
    /// What you want to hear and how, in TOML
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
    /// Print one JSON object per line, for programs
    #[arg(long)]
    json: bool,
    /// Keep what was said in this file
    #[arg(long, value_name = "FILE")]
    transcript: Option<PathBuf>,
    /// Ask this command about each question: JSON on its input, `accept`, `reject` or `answer TEXT` on its output
    #[arg(long, value_name = "COMMAND")]
    on_prompt: Option<String>,
    /// A file with your token; the variable AAEP_TOKEN has it otherwise
    #[arg(long, value_name = "FILE")]
    token: Option<PathBuf>,
    /// Certificate authorities to trust besides those of the system, in PEM
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Listen only to agents that show a signed manifest
    #[arg(long)]
    signed_only: bool,
    /// Allow connections to other machines without encryption
    #[arg(long)]
    plain: bool,
}

pub(crate) fn run(args: Args) -> io::Result<CommandStatus> {
    runtime()?.block_on(async {
        match listen(args).await {
            Ok(outcome) => outcome,
            Err(mistake) => {
                complain(mistake);
                Ok(CommandStatus::Failed)
            }
        }
    })
}

/// Listens; the outer error is a mistake in the call or in the environment.
async fn listen(args: Args) -> Result<io::Result<CommandStatus>, String> {
    let profile = settings::profile(args.profile.as_deref())?;
    let options = options(&args, &profile)?;
    let mut outlets = outlets(&args, &profile)?;
    let words = Phrases::for_languages(&profile.languages);
    let told = if args.speak { Some(outlets.turn_voice(true, words).await) } else { None };
    let source =
        Clients::connect(&args.addresses, &options).map_err(|(address, error)| format!("{address}: {error}"))?;
    let mut terminal = ListenSession::new(profile, &args.addresses);
    if args.on_prompt.is_some() {
        terminal = terminal.ask_command();
    }
    told.into_iter().for_each(|told| terminal.note(told));
    let mut shell = Runner::new(terminal, source, outlets);
    shell.hooks = Hooks::new(args.on_prompt);
    let (typed, lines) = tokio::sync::mpsc::channel(16);
    if io::stdin().is_terminal() {
        keyboard(typed.clone());
        if !args.json {
            shell.terminal.note(words.say("own-help"));
        }
    }
    shell.lines = lines;
    #[cfg(unix)]
    {
        if args.braille {
            match braille::open(typed).await {
                Ok(display) => shell.outlets.braille = Some(display),
                Err(error) => shell.terminal.note(own!(shell.terminal, "own-no-braille", why = &error.to_string())),
            }
        }
        shell.open_socket();
    }
    Ok(work(&mut shell).await)
}

async fn work(shell: &mut Runner<Clients>) -> io::Result<CommandStatus> {
    shell.run(told_to_stop()).await?;
    shell.finish(false).await?;
    Ok(if shell.terminal.was_refused() { CommandStatus::No } else { CommandStatus::Yes })
}

fn options(args: &Args, profile: &Profile) -> Result<ConnectOptions, String> {
    let mut capabilities = profile.capabilities();
    if args.signed_only {
        capabilities.fields.accept_signed_manifests_only = Some(true);
    }
    // Two terminals of one user are two listeners.
    let mut options = ConnectOptions::new(format!("aaep-listen-{}", std::process::id()), capabilities);
    options.config.request.subscriber_name = Some("aaep listen".to_owned());
    options.config.request.subscriber_version = Some(env!("CARGO_PKG_VERSION").to_owned());
    options.allow_insecure = args.plain;
    if let Some(token) = token(args)? {
        options = options.bearer(token);
    }
    if let Some(path) = &args.ca {
        let authorities = std::fs::read(path).map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
        options = options.tls(TlsOptions { authorities, ..TlsOptions::default() });
    }
    if let Some(directory) = settings::state_directory() {
        options = options.remember_keys(directory.join("known-keys.json"));
    }
    Ok(options)
}

fn token(args: &Args) -> Result<Option<String>, String> {
    let token = match &args.token {
        Some(path) => {
            let text = aaep_keys::file::read_secret(path).map_err(|fault| format!("{}: {fault}", path.display()))?;
            Some(text)
        }
        None => std::env::var("AAEP_TOKEN").ok(),
    };
    Ok(token.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty()))
}

fn outlets(args: &Args, profile: &Profile) -> Result<Outlets, String> {
    let mut outlets = Outlets::lines(io::stdout());
    outlets.json = args.json;
    outlets.voice_config = voice_config(profile);
    let bell = io::stdout().is_terminal() && !args.json;
    outlets.sounds = match args.sounds.as_deref() {
        None if bell => Sounds::bell(io::stdout()),
        None | Some("none") => Sounds::none(),
        Some("bell") => Sounds::bell(io::stdout()),
        Some(directory) if Path::new(directory).is_dir() => Sounds::files(directory, None),
        Some(other) => return Err(format!("--sounds {other} is no directory; name one, or say bell or none")),
    };
    if let Some(path) = &args.transcript {
        let record = Record::open(path).map_err(|error| format!("{} cannot be written: {error}", path.display()))?;
        outlets.record = Some(record);
    }
    Ok(outlets)
}

/// The user's own settings of the voice apply, unless the profile says otherwise.
fn voice_config(profile: &Profile) -> VoiceConfig {
    let usual = Profile::preset(SubscriberKind::ScreenReader).pace_wpm;
    let pace = u16::try_from(profile.pace_wpm).ok().filter(|pace| *pace != 0 && u32::from(*pace) != usual);
    VoiceConfig { component: "listen".to_owned(), words_per_minute: pace, ..VoiceConfig::default() }
}
