//! The outputs of a listener: lines, a transcript file, a voice, a braille display, sounds.

use std::io::{self, Write};

use aaep_announce::Phrases;
use aaep_listen::Line;
use aaep_voice::{Sounds, Voice, VoiceConfig};
use serde_json::Value;
use tokio::sync::mpsc::{self, error::TrySendError};

use super::transcript_file::TranscriptFile;
use crate::output::EscapedJson;

/// Lines are not wrapped for terminals that are narrower.
const MIN_WRAP_WIDTH: usize = 8;

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
            true => writeln!(self.out, "{}", wrap(text, terminal_width()))?,
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

/// Returns the width of the terminal at standard output, if there is one.
fn terminal_width() -> Option<usize> {
    #[cfg(unix)]
    let width = rustix::termios::tcgetwinsize(io::stdout()).ok().map(|size| size.ws_col.into());
    #[cfg(not(unix))]
    let width = None;
    width
}

/// Wraps a line at words. Continuation lines are indented: no other line is, so text of an agent cannot forge one.
fn wrap(text: &str, width: Option<usize>) -> String {
    let Some(width) = width.filter(|width| *width >= MIN_WRAP_WIDTH) else { return text.to_owned() };
    let options = textwrap::Options::new(width)
        .subsequent_indent("  ")
        .word_separator(textwrap::WordSeparator::AsciiSpace)
        .word_splitter(textwrap::WordSplitter::NoHyphenation)
        .wrap_algorithm(textwrap::WrapAlgorithm::FirstFit);
    textwrap::wrap(text, options).join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_wrapped_at_words_and_continuations_are_indented() {
        let line = "Text: One two three. Question 9: harmless";
        assert_eq!(wrap(line, Some(20)), "Text: One two three.\n  Question 9:\n  harmless");
        assert_eq!(wrap(line, None), line);
        assert_eq!(wrap(line, Some(80)), line);
        assert_eq!(wrap(line, Some(1)), line, "too narrow for anything");
    }

    #[test]
    fn no_width_tears_words_or_loses_any() {
        let line = "Question 1: The money moves at once and the bank cannot take it back.";
        for width in 12..90 {
            let wrapped = wrap(line, Some(width));
            assert!(wrapped.lines().all(|part| part.chars().count() <= width), "{width}: {wrapped}");
            assert!(wrapped.lines().skip(1).all(|part| part.starts_with("  ")), "{width}: {wrapped}");
            assert_eq!(wrapped.split_whitespace().collect::<Vec<_>>(), line.split(' ').collect::<Vec<_>>(), "{width}");
        }
    }
}
