//! `aaep listen`: the terminal for people who listen.
//!
//! The logic is [`aaep_listen::Listener`]. Here are its inputs (`keyboard.rs`, `source.rs` with `local.rs`,
//! `socket.rs`, `hook.rs`, `settings.rs`), its outputs (`outputs.rs`, `braille.rs`, `transcript_file.rs`) and
//! the loop between them (`runner.rs`).

mod braille;
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
use std::path::{Path, PathBuf};

use aaep_announce::{Phrases, Profile, SubscriberKind};
use aaep_client::{ConnectOptions, TlsOptions};
use aaep_listen::Listener;
use aaep_runtime::Clock;
use aaep_voice::{Sounds, VoiceConfig};

pub(crate) use keyboard::spawn_reader;
pub(crate) use local::LocalProducer;
pub(crate) use outputs::Outputs;
pub(crate) use runner::Runner;

use crate::CommandStatus;
use crate::output::print_error;
use crate::runtime::runtime;
use crate::signals::shutdown_signal;
use hook::Hooks;
use source::RemoteProducers;
use transcript_file::TranscriptFile;

/// Maximum number of entered lines that wait for the runner.
pub(crate) const MAX_WAITING_LINES: usize = 16;

/// Listen to agents and answer their questions.
///
/// Prints one line per event and reads commands and answers from the terminal: type a word or a letter, then Enter.
/// Type help for a list. Without a terminal it only prints.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Addresses of the agents: http, https, ws, wss, unix or stdio
    #[arg(value_name = "ADDRESS", required = true)]
    addresses: Vec<String>,
    /// Speak events through speech-dispatcher
    #[arg(long)]
    speak: bool,
    /// Show events on a braille display through BRLTTY
    #[arg(long)]
    braille: bool,
    /// Play sounds for events: a directory of sound files, `bell` or `none`
    #[arg(long, value_name = "SOUNDS")]
    sounds: Option<String>,
    /// Profile file (TOML): languages, verbosity, voice and more
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
    /// Print one JSON object per line, for programs
    #[arg(long)]
    json: bool,
    /// Append a transcript to this file
    #[arg(long, value_name = "FILE")]
    transcript: Option<PathBuf>,
    /// Command that answers questions: reads JSON on stdin, prints `accept`, `reject` or `answer TEXT`
    #[arg(long, value_name = "COMMAND")]
    on_prompt: Option<String>,
    /// File with the bearer token [default: the variable AAEP_TOKEN]
    #[arg(long, value_name = "FILE")]
    token: Option<PathBuf>,
    /// Additional certificate authorities to trust (PEM)
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Listen only to agents with a signed manifest
    #[arg(long)]
    signed_only: bool,
    /// Allow unencrypted connections to other hosts
    #[arg(long)]
    plain: bool,
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
    let profile = settings::profile(args.profile.as_deref())?;
    let options = options(&args, &profile)?;
    let mut outputs = outputs(&args, &profile)?;
    let phrases = Phrases::for_languages(&profile.languages);
    let voice_result = if args.speak { Some(outputs.set_voice(true, phrases).await) } else { None };
    let clock = Clock::new();
    let source = RemoteProducers::connect(&args.addresses, &options, clock)?;
    let mut listener = Listener::new(profile, &args.addresses);
    if args.on_prompt.is_some() {
        listener = listener.with_prompt_hook();
    }
    if let Some(result) = voice_result {
        listener.note(result);
    }
    let mut runner = Runner::new(listener, source, outputs, clock);
    runner.hooks = Hooks::new(args.on_prompt);
    let (keyboard, lines) = tokio::sync::mpsc::channel(MAX_WAITING_LINES);
    runner.keyboard = lines;
    if io::stdin().is_terminal() {
        spawn_reader(keyboard.clone());
        if !args.json {
            runner.listener.note_phrase("ui-help", &[]);
        }
    }
    if args.braille {
        match braille::open(keyboard).await {
            Ok(display) => runner.outputs.braille = Some(display),
            Err(error) => {
                runner.listener.note_phrase("ui-no-braille", &[("why", error.to_string().as_str().into())]);
            }
        }
    }
    runner.open_socket().await;
    Ok(run_to_end(&mut runner).await)
}

async fn run_to_end(runner: &mut Runner<RemoteProducers>) -> io::Result<CommandStatus> {
    runner.run(shutdown_signal()).await?;
    runner.finish(false).await?;
    Ok(if runner.listener.was_rejected() { CommandStatus::No } else { CommandStatus::Yes })
}

fn options(args: &Args, profile: &Profile) -> Result<ConnectOptions, String> {
    let mut capabilities = profile.capabilities();
    if args.signed_only {
        capabilities.fields.accept_signed_manifests_only = Some(true);
    }
    // Two terminals of one user are two subscribers.
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

fn outputs(args: &Args, profile: &Profile) -> Result<Outputs, String> {
    let mut outputs = Outputs::lines(io::stdout());
    outputs.json = args.json;
    outputs.voice_config = voice_config(profile);
    let bell = io::stdout().is_terminal() && !args.json;
    outputs.sounds = match args.sounds.as_deref() {
        None if bell => Sounds::bell(io::stdout()),
        None | Some("none") => Sounds::none(),
        Some("bell") => Sounds::bell(io::stdout()),
        Some(directory) if Path::new(directory).is_dir() => Sounds::files(directory, None),
        Some(other) => return Err(format!("--sounds {other} is not a directory; pass a directory, bell or none")),
    };
    if let Some(path) = &args.transcript {
        let file = TranscriptFile::open(path);
        let file = file.map_err(|error| format!("{} cannot be written: {error}", path.display()))?;
        outputs.transcript = Some(file);
    }
    Ok(outputs)
}

/// Returns the settings of the voice. The pace that the user set in speech-dispatcher applies, unless the profile has
/// another than the preset.
fn voice_config(profile: &Profile) -> VoiceConfig {
    let preset = Profile::preset(SubscriberKind::ScreenReader).pace_wpm;
    let pace = u16::try_from(profile.pace_wpm).ok().filter(|pace| *pace != 0 && u32::from(*pace) != preset);
    VoiceConfig { component: "listen".to_owned(), words_per_minute: pace, ..VoiceConfig::default() }
}
