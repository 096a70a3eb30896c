//! `aaep replay`: a recording is told again by a producer, or told about in words or as a picture.

mod ids;
mod play;
mod recording;
mod summary;
mod svg;
mod timeline;

use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use aaep_proto::message::Event;

use crate::CommandStatus;
use crate::output::{Escaped, IgnoreBrokenPipe, complain, count};
use crate::serve::Flags;
use recording::{Entry, Recording};

/// Bad lines that are told one by one.
const TOLD: u64 = 20;

/// Tell a recording again, as a producer, to everyone who subscribes.
///
/// A recording is told, not lived: its events go out word for word, its questions take no answers. See
/// docs/guide/recording.md.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// What `aaep capture` wrote; '-' is standard input
    file: PathBuf,
    #[command(flatten)]
    server: Flags,
    /// Serve the program that started this one, by JSON-RPC on standard input and output, and nobody else
    #[arg(long)]
    stdio: bool,
    /// So many times as fast as it was
    #[arg(long, value_name = "N", value_parser = speed, conflicts_with = "no_delay")]
    speed: Option<f64>,
    /// As fast as subscribers take it
    #[arg(long)]
    no_delay: bool,
    /// Again and again; with fresh ids from the second time on, since listeners leave out what they have heard
    #[arg(long = "loop")]
    repeat: bool,
    /// New ids for events, sessions, questions, tool calls and outputs
    #[arg(long)]
    fresh_ids: bool,
    /// Begin when there are so many subscribers
    #[arg(long, value_name = "N", default_value = "1")]
    wait: NonZeroUsize,
    /// Leave out lines that cannot be used
    #[arg(long)]
    skip_bad: bool,
    /// Print what happened, in sentences, and end
    #[arg(long)]
    describe: bool,
    /// Draw the states of each session into this file, print the same in words, and end; '-' is standard output
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// With --describe: one JSON object instead of sentences
    #[arg(long, requires = "describe")]
    json: bool,
}

fn speed(text: &str) -> Result<f64, String> {
    let speed: f64 = text.parse().map_err(|_| "give a number, such as 2 or 0.5".to_owned())?;
    if (0.001..=1_000_000.0).contains(&speed) { Ok(speed) } else { Err("give a number from 0.001 to 1000000".into()) }
}

/// What the first look at a recording found.
#[derive(Default)]
struct Survey {
    events: u64,
    bad: u64,
    first: Option<Box<Event>>,
}

pub(crate) fn run(args: Args) -> io::Result<CommandStatus> {
    let name = args.file.to_string_lossy().into_owned();
    let recording = match Recording::open(&args.file) {
        Ok(recording) => recording,
        Err(reason) => return Ok(failed(&format!("{name} {reason}"))),
    };
    let survey = match look_through(&recording, &name, args.skip_bad) {
        Ok(survey) => survey,
        Err(error) => return Ok(failed(&format!("{name} cannot be read: {error}"))),
    };
    if survey.bad > 0 && !args.skip_bad {
        complain("nothing was sent; mend the file, or leave these lines out with --skip-bad");
        return Ok(CommandStatus::No);
    }
    let Some(first) = survey.first else {
        return Ok(failed(&format!("{name} holds no event; there is nothing to tell")));
    };
    if args.describe || args.svg.is_some() {
        return tell_about(&args, &recording);
    }
    play::run(args, recording, &first)
}

fn failed(reason: &str) -> CommandStatus {
    complain(reason);
    CommandStatus::Failed
}

/// Reads all of it once, so that nothing is sent of a file that cannot be used.
fn look_through(recording: &Recording, name: &str, skip: bool) -> io::Result<Survey> {
    let mut survey = Survey::default();
    let mut reader = recording.read()?;
    while let Some((line, entry)) = reader.next()? {
        match entry {
            Entry::Event(event) => {
                survey.events += 1;
                survey.first.get_or_insert(event);
            }
            Entry::Other(_) => {}
            Entry::Bad(reason) => {
                survey.bad += 1;
                if survey.bad <= TOLD {
                    let skipped = if skip { " It is left out." } else { "" };
                    complain(format_args!("{name}:{line}: {reason}{skipped}"));
                }
            }
        }
    }
    if survey.bad > TOLD {
        complain(format_args!("{name}: {} more", count(survey.bad - TOLD, "bad line")));
    }
    Ok(survey)
}

/// Words and pictures instead of a telling.
fn tell_about(args: &Args, recording: &Recording) -> io::Result<CommandStatus> {
    let mut tale = summary::SummaryBuilder::default();
    let mut reader = recording.read()?;
    while let Some((_, entry)) = reader.next()? {
        match entry {
            Entry::Event(event) => tale.event(&event),
            Entry::Other(message) => tale.message(&message),
            Entry::Bad(_) => {}
        }
    }
    let tale = tale.finish();
    let mut out = IgnoreBrokenPipe::new(io::stdout().lock());
    if let Some(path) = &args.svg {
        let picture = svg::draw(&tale);
        if path.as_os_str() == "-" {
            out.write_all(picture.as_bytes())?;
        } else if let Err(error) = write_whole(path, picture.as_bytes()) {
            return Ok(failed(&format!("cannot write {}: {error}", path.to_string_lossy())));
        } else if !args.describe {
            for line in tale.state_lines() {
                writeln!(out, "{}", Escaped(&line))?;
            }
        }
    }
    if args.json {
        serde_json::to_writer(&mut out, &tale)?;
        writeln!(out)?;
    } else if args.describe {
        tale.write(&mut out)?;
    }
    out.flush()?;
    Ok(CommandStatus::Yes)
}

/// Whoever reads the file sees all of it or what was there before.
fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}", std::process::id()));
    let beside = PathBuf::from(beside);
    let written = std::fs::write(&beside, bytes).and_then(|()| std::fs::rename(&beside, path));
    if written.is_err() {
        // Nothing may be there to take away.
        let _ = std::fs::remove_file(&beside);
    }
    written
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_speed_is_a_number_that_makes_sense() {
        assert_eq!(super::speed("0.5"), Ok(0.5));
        for wrong in ["0", "-1", "NaN", "inf", "fast", ""] {
            assert!(super::speed(wrong).is_err(), "{wrong}");
        }
    }
}
