//! The flags that `aaep listen` and the terminal of `aaep demo` share, and what they open.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

use aaep_announce::{Phrases, Profile, SubscriberKind};
use aaep_listen::Listener;
use aaep_voice::{Sounds, VoiceConfig};
use tokio::sync::mpsc;

use super::keyboard::KeyboardInput;
use super::outputs::Outputs;
use super::transcript_file::TranscriptFile;
use super::{MAX_WAITING_LINES, braille, settings};

/// Flags of every command that announces events to a user.
#[derive(clap::Args, Debug, Default)]
pub(crate) struct ListenerFlags {
    /// Speak events through speech-dispatcher
    ///
    /// Text then comes at the pace of speech: pace_wpm of the profile, in words per minute [default: 180]. Without a voice
    /// and a braille display, lines are printed as fast as they come.
    #[arg(long)]
    speak: bool,
    /// Show events on a braille display through BRLTTY
    #[arg(long)]
    braille: bool,
    /// Play sounds for events: a directory of sound files, `bell` or `none`
    #[arg(long, value_name = "SOUNDS")]
    sounds: Option<String>,
    /// Profile file (TOML): languages, verbosity, pace_wpm and more
    ///
    /// The default is profile.toml in ~/.config/aaep. A profile without languages has those of LC_ALL, LC_MESSAGES or LANG.
    /// See docs/guide/listening.md.
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
    /// Append a transcript to this file
    #[arg(long, value_name = "FILE")]
    transcript: Option<PathBuf>,
}

/// A listener that is ready to run: its state machine, its outputs, its keyboard.
pub(crate) struct OpenListener {
    pub(crate) listener: Listener,
    pub(crate) outputs: Outputs,
    /// Takes entered lines.
    pub(crate) keyboard: mpsc::Sender<KeyboardInput>,
    pub(crate) lines: mpsc::Receiver<KeyboardInput>,
}

impl ListenerFlags {
    /// Reads the profile and opens the outputs. A missing voice or display is noted; the error is a mistake in the flags.
    pub(crate) async fn open(&self, addresses: &[String], json: bool) -> Result<OpenListener, String> {
        let profile = settings::profile(self.profile.as_deref())?;
        let mut outputs = self.outputs(&profile, json)?;
        let phrases = Phrases::for_languages(&profile.languages);
        let mut notes = Vec::new();
        if self.speak {
            notes.push(outputs.set_voice(true, phrases).await);
        }
        let (keyboard, lines) = mpsc::channel(MAX_WAITING_LINES);
        if self.braille {
            match braille::open(keyboard.clone()).await {
                Ok(display) => outputs.braille = Some(display),
                Err(error) => {
                    notes.push(phrases.format("ui-no-braille", &[("why", error.to_string().as_str().into())]));
                }
            }
        }
        let listener = Listener::new(profile, addresses);
        let mut listener = listener.with_outputs(outputs.voice.is_some(), outputs.braille.is_some());
        notes.into_iter().for_each(|note| listener.note(note));
        Ok(OpenListener { listener, outputs, keyboard, lines })
    }

    fn outputs(&self, profile: &Profile, json: bool) -> Result<Outputs, String> {
        let mut outputs = Outputs::lines(io::stdout());
        let terminal = io::stdout().is_terminal() && !json;
        outputs.json = json;
        outputs.wraps = terminal;
        outputs.voice_config = voice_config(profile);
        outputs.sounds = match self.sounds.as_deref() {
            None if terminal => Sounds::bell(io::stdout()),
            None | Some("none") => Sounds::none(),
            Some("bell") => Sounds::bell(io::stdout()),
            Some(directory) if Path::new(directory).is_dir() => Sounds::files(directory, None),
            Some(other) => return Err(format!("--sounds {other} is not a directory; pass a directory, bell or none")),
        };
        if let Some(path) = &self.transcript {
            let file = TranscriptFile::open(path);
            let file = file.map_err(|error| format!("{} cannot be written: {error}", path.display()))?;
            outputs.transcript = Some(file);
        }
        Ok(outputs)
    }
}

/// Returns the settings of the voice. The pace that the user set in speech-dispatcher applies, unless the profile has
/// another than the preset.
fn voice_config(profile: &Profile) -> VoiceConfig {
    let preset = Profile::preset(SubscriberKind::ScreenReader).pace_wpm;
    let pace = u16::try_from(profile.pace_wpm).ok().filter(|pace| *pace != 0 && u32::from(*pace) != preset);
    VoiceConfig { component: "listen".to_owned(), words_per_minute: pace, ..VoiceConfig::default() }
}
