//! `aaep replay`: replays a recording as a producer, describes it, or draws it.

mod ids;
mod player;
mod recording;
mod summary;
mod svg;
mod timeline;

use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use aaep_proto::message::Event;

use crate::CommandStatus;
use crate::output::{Escaped, IgnoreBrokenPipe, count, fail, print_error};
use crate::server_flags::ServerFlags;
use recording::{RecordedItem, Recording};

/// Maximum number of invalid lines that are reported one by one.
const MAX_REPORTED_LINES: u64 = 20;

/// Replay a recording to subscribers, or describe it.
///
/// Events are sent as they were recorded. Questions of a recording cannot be answered. See docs/guide/recording.md.
#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  aaep replay session.ndjson
  aaep replay session.ndjson --describe
  aaep replay session.ndjson --svg session.svg")]
pub(crate) struct ReplayArgs {
    /// Recording made by `aaep capture`; '-' for stdin
    file: PathBuf,
    #[command(flatten)]
    server: ServerFlags,
    /// Serve only the parent process, by JSON-RPC over stdin and stdout
    #[arg(long)]
    stdio: bool,
    /// Playback speed multiplier
    #[arg(long, value_name = "N", value_parser = parse_speed, conflicts_with = "no_delay")]
    speed: Option<f64>,
    /// Replay without the recorded pauses
    #[arg(long)]
    no_delay: bool,
    /// Replay repeatedly; later rounds have fresh ids, because subscribers drop duplicates
    #[arg(long = "loop")]
    repeat: bool,
    /// Replace the ids of events, sessions, questions, tool calls and outputs
    #[arg(long)]
    fresh_ids: bool,
    /// Number of subscribers to wait for
    #[arg(long, value_name = "N", default_value = "1")]
    wait: NonZeroUsize,
    /// Skip invalid lines
    #[arg(long)]
    skip_bad: bool,
    /// Print a description in sentences and exit
    #[arg(long)]
    describe: bool,
    /// Write an SVG of the states of each session, print the states as text, and exit; '-' for stdout
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// With --describe, print a JSON object
    #[arg(long, requires = "describe")]
    json: bool,
}

fn parse_speed(text: &str) -> Result<f64, String> {
    let speed: f64 = text.parse().map_err(|_| "give a number, such as 2 or 0.5".to_owned())?;
    if (0.001..=1_000_000.0).contains(&speed) { Ok(speed) } else { Err("give a number from 0.001 to 1000000".into()) }
}

/// The result of the first pass over a recording.
#[derive(Default)]
struct RecordingScan {
    events: u64,
    bad: u64,
    first: Option<Box<Event>>,
}

pub(crate) fn run(args: ReplayArgs) -> io::Result<CommandStatus> {
    let name = args.file.to_string_lossy().into_owned();
    let recording = match Recording::open(&args.file) {
        Ok(recording) => recording,
        Err(reason) => return Ok(fail(format_args!("{name} {reason}"))),
    };
    let scan = match scan(&recording, &name, args.skip_bad) {
        Ok(scan) => scan,
        Err(error) => return Ok(fail(format_args!("{name} cannot be read: {error}"))),
    };
    if scan.bad > 0 && !args.skip_bad {
        print_error("nothing sent; fix the file or pass --skip-bad");
        return Ok(CommandStatus::No);
    }
    let Some(first) = scan.first else {
        return Ok(fail(format_args!("{name} contains no event")));
    };
    if args.describe || args.svg.is_some() {
        return describe(&args, &recording);
    }
    player::run(args, recording, &first)
}

/// Reads all of a recording, so that nothing is sent of an invalid one.
fn scan(recording: &Recording, name: &str, skip: bool) -> io::Result<RecordingScan> {
    let mut scan = RecordingScan::default();
    let mut reader = recording.read()?;
    while let Some((line, entry)) = reader.next()? {
        match entry {
            RecordedItem::Event(event) => {
                scan.events += 1;
                scan.first.get_or_insert(event);
            }
            RecordedItem::Message(_) => {}
            RecordedItem::Invalid(reason) => {
                scan.bad += 1;
                if scan.bad <= MAX_REPORTED_LINES {
                    let skipped = if skip { " Skipped." } else { "" };
                    print_error(format_args!("{name}:{line}: {reason}{skipped}"));
                }
            }
        }
    }
    if scan.bad > MAX_REPORTED_LINES {
        print_error(format_args!("{name}: {} more", count(scan.bad - MAX_REPORTED_LINES, "invalid line")));
    }
    Ok(scan)
}

/// Prints a description, writes the SVG, or both.
fn describe(args: &ReplayArgs, recording: &Recording) -> io::Result<CommandStatus> {
    let mut builder = summary::SummaryBuilder::default();
    let mut reader = recording.read()?;
    while let Some((_, entry)) = reader.next()? {
        match entry {
            RecordedItem::Event(event) => builder.event(&event),
            RecordedItem::Message(message) => builder.message(&message),
            RecordedItem::Invalid(_) => {}
        }
    }
    let summary = builder.finish();
    let mut out = IgnoreBrokenPipe::new(io::stdout().lock());
    if let Some(path) = &args.svg {
        let picture = svg::draw(&summary);
        if path.as_os_str() == "-" {
            out.write_all(picture.as_bytes())?;
        } else if let Err(error) = write_atomically(path, picture.as_bytes()) {
            return Ok(fail(format_args!("cannot write {}: {error}", path.to_string_lossy())));
        } else if !args.describe {
            for line in summary.state_lines() {
                writeln!(out, "{}", Escaped(&line))?;
            }
        }
    }
    if args.json {
        serde_json::to_writer(&mut out, &summary)?;
        writeln!(out)?;
    } else if args.describe {
        summary.write(&mut out)?;
    }
    out.flush()?;
    Ok(CommandStatus::Yes)
}

/// Replaces a file atomically: readers see the old contents or the new.
fn write_atomically(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(format!(".{}", std::process::id()));
    let temporary = PathBuf::from(temporary);
    let written = std::fs::write(&temporary, bytes).and_then(|()| std::fs::rename(&temporary, path));
    if written.is_err() {
        // The file may not exist.
        let _ = std::fs::remove_file(&temporary);
    }
    written
}

#[cfg(test)]
mod tests {
    #[test]
    fn speed_must_be_a_positive_number() {
        assert_eq!(super::parse_speed("0.5"), Ok(0.5));
        for wrong in ["0", "-1", "NaN", "inf", "fast", ""] {
            assert!(super::parse_speed(wrong).is_err(), "{wrong}");
        }
    }
}
