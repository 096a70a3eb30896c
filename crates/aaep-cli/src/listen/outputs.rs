//! The outputs of a listener: lines, a transcript file, a voice, a braille display, sounds.

use std::io::{self, Write};

use aaep_announce::Phrases;
use aaep_listen::Line;
use aaep_voice::{Sounds, Voice, VoiceConfig};
use serde_json::Value;
use tokio::sync::mpsc::{self, error::TrySendError};

use super::transcript_file::TranscriptFile;
use crate::output::EscapedJson;
use crate::terminal::{width, wrap};

/// The connection to the braille display was lost.
pub(crate) struct BrailleLost;

/// All outputs. Only lines are always there.
pub(crate) struct Outputs {
    pub(crate) out: Box<dyn Write>,
    /// Whether lines are JSON for programs.
    pub(crate) json: bool,
    /// Whether lines are wrapped at words for the terminal.
    pub(crate) wraps: bool,
    pub(crate) transcript: Option<TranscriptFile>,
    pub(crate) sounds: Sounds,
    pub(crate) voice: Option<Voice>,
    /// How to connect when the user turns the voice on.
    pub(crate) voice_config: VoiceConfig,
    /// Lines for the braille display.
    pub(crate) braille: Option<mpsc::Sender<Line>>,
}

impl Outputs {
    /// Creates outputs that only print lines.
    pub(crate) fn lines(out: impl Write + 'static) -> Outputs {
        Outputs {
            out: Box::new(out),
            json: false,
            wraps: false,
            transcript: None,
            sounds: Sounds::none(),
            voice: None,
            voice_config: VoiceConfig { component: "listen".to_owned(), ..VoiceConfig::default() },
            braille: None,
        }
    }

    /// Prints a line, and writes it to the transcript file if there is one.
    pub(crate) fn print_line(&mut self, time: &str, line: &Line) -> io::Result<()> {
        let text = if self.json {
            let mut json = line.to_json();
            json["time"] = time.into();
            EscapedJson(json).to_string()
        } else {
            line.to_text()
        };
        self.print_text(&text)?;
        match &mut self.transcript {
            Some(transcript) => transcript.write(time, line),
            None => Ok(()),
        }
    }

    /// Prints a text as one line, wrapped at words on a terminal.
    pub(crate) fn print_text(&mut self, text: &str) -> io::Result<()> {
        match self.wraps {
            true => writeln!(self.out, "{}", wrap(text, width(io::stdout())))?,
            false => writeln!(self.out, "{text}")?,
        }
        self.out.flush()
    }

    /// Shows a line on the braille display if there is one. A display that does not keep up misses lines; they are all
    /// on the terminal.
    pub(crate) fn show_on_braille(&mut self, line: &Line) -> Result<(), BrailleLost> {
        let Some(braille) = &self.braille else { return Ok(()) };
        match braille.try_send(line.clone()) {
            Err(TrySendError::Closed(_)) => {
                self.braille = None;
                Err(BrailleLost)
            }
            Ok(()) | Err(TrySendError::Full(_)) => Ok(()),
        }
    }

    /// Prints an object if the output is for programs.
    pub(crate) fn print_json(&mut self, time: &str, mut object: Value) -> io::Result<()> {
        if self.json {
            object["time"] = time.into();
            writeln!(self.out, "{}", EscapedJson(object))?;
            self.out.flush()?;
        }
        Ok(())
    }

    /// Turns the voice on or off, and returns a sentence about the result.
    pub(crate) async fn set_voice(&mut self, on: bool, phrases: &Phrases) -> String {
        match (on, &self.voice) {
            (true, Some(_)) => phrases.text("ui-voice-on-already"),
            (true, None) => match Voice::connect(self.voice_config.clone()).await {
                Ok(voice) => {
                    self.voice = Some(voice);
                    phrases.text("ui-voice-on")
                }
                Err(error) => phrases.format("ui-no-voice", &[("why", error.to_string().as_str().into())]),
            },
            (false, Some(voice)) => {
                voice.stop();
                self.voice = None;
                phrases.text("ui-voice-off")
            }
            (false, None) => phrases.text("ui-voice-off-already"),
        }
    }
}
