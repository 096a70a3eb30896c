//! Short sounds: the terminal's bell, or files that a player plays.

use std::collections::BTreeSet;
use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use aaep_announce::Earcon;
use tokio::process::{Child, Command};

/// The players to look for, in order of preference.
const PLAYERS: [&str; 3] = ["paplay", "pw-play", "aplay"];

/// The extensions of sound files to look for, in order of preference.
const EXTENSIONS: [&str; 3] = ["wav", "oga", "ogg"];

/// Why a sound was not played.
///
/// ```
/// use aaep_voice::SoundError;
/// assert!(SoundError::NoPlayer.to_string().contains("pulseaudio-utils or alsa-utils"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum SoundError {
    /// No player is installed.
    NoPlayer,
    /// The file of the sound does not exist at this path.
    NoFile(PathBuf),
    /// The player could not be started or failed. The text says why.
    Player(String),
    /// The terminal's bell could not be rung. The text says why.
    Bell(String),
}

impl fmt::Display for SoundError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SoundError::NoPlayer => {
                f.write_str("no program that plays sounds is installed; install pulseaudio-utils or alsa-utils")
            }
            SoundError::NoFile(path) => write!(f, "there is no sound file {}", path.display()),
            SoundError::Player(why) => write!(f, "the sound player failed: {why}"),
            SoundError::Bell(why) => write!(f, "the terminal's bell could not be rung: {why}"),
        }
    }
}

impl std::error::Error for SoundError {}

enum SoundOutput {
    Nothing,
    Bell(Box<dyn Write + Send>),
    Player { directory: PathBuf, command: Option<Vec<String>> },
}

/// Plays the sounds of utterances. Each error is returned once only: sounds add nothing that speech does not say.
///
/// ```
/// use aaep_announce::Earcon;
/// use aaep_voice::Sounds;
/// assert_eq!(Sounds::none().play(Earcon::Prompt), Ok(()));
/// ```
pub struct Sounds {
    output: SoundOutput,
    playing: Option<Child>,
    /// Errors that were returned already.
    reported: BTreeSet<SoundError>,
}

impl Sounds {
    /// Returns a player without sounds.
    pub fn none() -> Sounds {
        Sounds::new(SoundOutput::Nothing)
    }

    /// Rings the bell of a terminal by writing to it. All sounds would be the same, so it rings only for prompts, failures
    /// and warnings.
    pub fn bell(terminal: impl Write + Send + 'static) -> Sounds {
        Sounds::new(SoundOutput::Bell(Box::new(terminal)))
    }

    /// Plays the files `started`, `prompt`, `completed`, `failed`, `cancelled` and `warning` (`.wav`, `.oga` or `.ogg`) of
    /// a directory. `player` is the command to use; without it, the first installed player is used.
    pub fn files(directory: impl Into<PathBuf>, player: Option<Vec<String>>) -> Sounds {
        let command = player.or_else(|| find_player(std::env::var_os("PATH").unwrap_or_default().as_ref()));
        Sounds::new(SoundOutput::Player { directory: directory.into(), command })
    }

    fn new(output: SoundOutput) -> Sounds {
        Sounds { output, playing: None, reported: BTreeSet::new() }
    }

    /// Starts a sound and returns without waiting for its end. Must be called within a tokio runtime if the sounds are files.
    pub fn play(&mut self, earcon: Earcon) -> Result<(), SoundError> {
        let result = self.stop_previous().and(match &mut self.output {
            SoundOutput::Nothing => Ok(()),
            SoundOutput::Bell(terminal) => ring(terminal.as_mut(), earcon),
            SoundOutput::Player { directory, command } => {
                start(directory, command.as_deref(), earcon).map(|child| self.playing = Some(child))
            }
        });
        match result {
            // The bound is for players that fail with a different message each time.
            Err(error) if self.reported.len() < 64 && self.reported.insert(error.clone()) => Err(error),
            _ => Ok(()),
        }
    }

    /// Returns the error of the previous sound, if any, and stops it if it still plays.
    fn stop_previous(&mut self) -> Result<(), SoundError> {
        let Some(mut child) = self.playing.take() else {
            return Ok(());
        };
        match child.try_wait() {
            Ok(Some(status)) if !status.success() => Err(SoundError::Player(format!("it ended with {status}"))),
            Ok(None) => child.start_kill().map_err(|error| SoundError::Player(error.to_string())),
            _ => Ok(()),
        }
    }
}

fn ring(terminal: &mut dyn Write, earcon: Earcon) -> Result<(), SoundError> {
    match earcon {
        Earcon::Prompt | Earcon::Failed | Earcon::Warning => {
            let rung = terminal.write_all(b"\x07").and_then(|()| terminal.flush());
            rung.map_err(|error| SoundError::Bell(error.to_string()))
        }
        Earcon::Started | Earcon::Completed | Earcon::Cancelled => Ok(()),
    }
}

fn start(directory: &Path, command: Option<&[String]>, earcon: Earcon) -> Result<Child, SoundError> {
    let (program, arguments) = command.and_then(<[String]>::split_first).ok_or(SoundError::NoPlayer)?;
    let path = |form| directory.join(name(earcon)).with_extension(form);
    let file = EXTENSIONS.map(path).into_iter().find(|path| path.is_file());
    let file = file.ok_or_else(|| SoundError::NoFile(path(EXTENSIONS[0])))?;
    let mut player = Command::new(program);
    player.args(arguments).arg(file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    player.spawn().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => SoundError::Player(format!("{program} is not installed")),
        _ => SoundError::Player(error.to_string()),
    })
}

fn name(earcon: Earcon) -> &'static str {
    match earcon {
        Earcon::Started => "started",
        Earcon::Prompt => "prompt",
        Earcon::Completed => "completed",
        Earcon::Failed => "failed",
        Earcon::Cancelled => "cancelled",
        Earcon::Warning => "warning",
    }
}

fn find_player(path: &std::ffi::OsStr) -> Option<Vec<String>> {
    let directories: Vec<PathBuf> = std::env::split_paths(path).collect();
    let installed = |player: &&str| directories.iter().any(|directory| directory.join(player).is_file());
    PLAYERS.iter().find(|player| installed(player)).map(|player| vec![(*player).to_owned()])
}

#[cfg(test)]
mod tests;
