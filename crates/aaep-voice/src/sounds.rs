//! Short sounds beside the words: the terminal's bell, or files through a player.

use std::collections::BTreeSet;
use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use aaep_announce::Earcon;
use tokio::process::{Child, Command};

/// Players that are looked for, in this order.
const PLAYERS: [&str; 3] = ["paplay", "pw-play", "aplay"];

/// The forms of sound files that are looked for, in this order.
const FORMS: [&str; 3] = ["wav", "oga", "ogg"];

/// Why there was no sound.
///
/// ```
/// use aaep_voice::SoundError;
/// assert!(SoundError::NoPlayer.to_string().contains("pulseaudio-utils or alsa-utils"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SoundError {
    /// No player is installed.
    NoPlayer,
    /// There is no file for this sound. The path is where it should be.
    NoFile(PathBuf),
    /// The player could not be started, or failed. The text says what was seen.
    Player(String),
    /// The bell could not be rung.
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

enum By {
    Nothing,
    Bell(Box<dyn Write + Send>),
    Player { directory: PathBuf, command: Option<Vec<String>> },
}

/// Plays the sounds that go with utterances. Each error is told once: the words say everything anyway.
///
/// ```
/// use aaep_announce::Earcon;
/// use aaep_voice::Sounds;
/// assert_eq!(Sounds::none().play(Earcon::Prompt), Ok(()));
/// ```
pub struct Sounds {
    by: By,
    playing: Option<Child>,
    told: BTreeSet<SoundError>,
}

impl Sounds {
    /// No sounds.
    pub fn none() -> Sounds {
        Sounds::by(By::Nothing)
    }

    /// The bell of the terminal that this is written to. It is one sound for all, so it rings only for what waits
    /// for the user or went wrong.
    pub fn bell(terminal: impl Write + Send + 'static) -> Sounds {
        Sounds::by(By::Bell(Box::new(terminal)))
    }

    /// The files `started`, `prompt`, `completed`, `failed`, `cancelled` and `warning` (`.wav`, `.oga` or `.ogg`) of a
    /// directory. Without a command the first player that is installed plays them.
    pub fn files(directory: impl Into<PathBuf>, player: Option<Vec<String>>) -> Sounds {
        let command = player.or_else(|| find_player(std::env::var_os("PATH").unwrap_or_default().as_ref()));
        Sounds::by(By::Player { directory: directory.into(), command })
    }

    fn by(by: By) -> Sounds {
        Sounds { by, playing: None, told: BTreeSet::new() }
    }

    /// Plays a sound and does not wait for its end. With files this needs a tokio runtime.
    pub fn play(&mut self, earcon: Earcon) -> Result<(), SoundError> {
        let result = self.last().and(match &mut self.by {
            By::Nothing => Ok(()),
            By::Bell(terminal) => ring(terminal.as_mut(), earcon),
            By::Player { directory, command } => {
                start(directory, command.as_deref(), earcon).map(|child| self.playing = Some(child))
            }
        });
        match result {
            // A bound for players that fail in ever new words.
            Err(error) if self.told.len() < 64 && self.told.insert(error.clone()) => Err(error),
            _ => Ok(()),
        }
    }

    /// How the last sound went. One that still plays is stopped: the newer one matters more.
    fn last(&mut self) -> Result<(), SoundError> {
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
    let file = FORMS.map(path).into_iter().find(|path| path.is_file());
    let file = file.ok_or_else(|| SoundError::NoFile(path(FORMS[0])))?;
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
