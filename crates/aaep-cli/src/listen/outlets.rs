//! Where things come out: lines, a transcript, a voice, a braille display, sounds.

use std::io::{self, Write};

use aaep_announce::{Earcon, Phrases};
use aaep_voice::{Sounds, Voice, VoiceConfig};
use serde_json::Value;
use tokio::sync::mpsc::{self, error::TrySendError};

use super::line::Shown;
use super::transcript::Record;
use crate::output::EscapedJson;

/// All the ways out. Only lines are always there.
pub(crate) struct Outlets {
    pub(crate) out: Box<dyn Write>,
    /// Whether lines are for programs.
    pub(crate) json: bool,
    pub(crate) record: Option<Record>,
    pub(crate) sounds: Sounds,
    pub(crate) voice: Option<Voice>,
    /// How the voice is found when the user turns it on.
    pub(crate) voice_config: VoiceConfig,
    /// Lines for the braille display.
    pub(crate) braille: Option<mpsc::Sender<Shown>>,
}

impl Outlets {
    /// Lines only.
    pub(crate) fn lines(out: impl Write + 'static) -> Outlets {
        Outlets {
            out: Box::new(out),
            json: false,
            record: None,
            sounds: Sounds::none(),
            voice: None,
            voice_config: VoiceConfig { component: "listen".to_owned(), ..VoiceConfig::default() },
            braille: None,
        }
    }

    /// Prints a line, and keeps it where it is wanted; answers what the user should know if a way out is gone.
    pub(crate) fn show(&mut self, time: &str, shown: &Shown) -> io::Result<Option<&'static str>> {
        let line = if self.json {
            let mut json = shown.json();
            json["time"] = time.into();
            EscapedJson(json).to_string()
        } else {
            shown.line()
        };
        writeln!(self.out, "{line}")?;
        self.out.flush()?;
        if let Some(record) = &mut self.record {
            record.write(time, shown)?;
        }
        // A display that does not keep up misses lines; they are all on the terminal.
        if let Some(braille) = &self.braille
            && let Err(TrySendError::Closed(_)) = braille.try_send(shown.clone())
        {
            self.braille = None;
            return Ok(Some("The braille display is gone."));
        }
        Ok(None)
    }

    /// Prints an object for programs; nothing for people.
    pub(crate) fn tell(&mut self, time: &str, mut object: Value) -> io::Result<()> {
        if self.json {
            object["time"] = time.into();
            writeln!(self.out, "{}", EscapedJson(object))?;
            self.out.flush()?;
        }
        Ok(())
    }

    /// Plays a sound; answers what the user should know if it cannot.
    pub(crate) fn play(&mut self, earcon: Earcon, words: &Phrases) -> Option<String> {
        let error = self.sounds.play(earcon).err()?;
        Some(words.say_with("own-no-sound", &[("why", error.to_string().as_str().into())]))
    }

    /// Turns the voice on or off; answers what became of it.
    pub(crate) async fn turn_voice(&mut self, on: bool, words: &Phrases) -> String {
        match (on, &self.voice) {
            (true, Some(_)) => words.say("own-voice-on-already"),
            (true, None) => match Voice::connect(self.voice_config.clone()).await {
                Ok(voice) => {
                    self.voice = Some(voice);
                    words.say("own-voice-on")
                }
                Err(error) => words.say_with("own-no-voice", &[("why", error.to_string().as_str().into())]),
            },
            (false, Some(voice)) => {
                voice.stop();
                self.voice = None;
                words.say("own-voice-off")
            }
            (false, None) => words.say("own-voice-off-already"),
        }
    }
}
