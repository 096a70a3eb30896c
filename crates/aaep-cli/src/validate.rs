//! `aaep validate`: validates files or standard input, one document at a time, in bounded memory.

use std::io::{self, BufWriter, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};

use aaep_proto::framing::{AutoDecoder, Decoded, Format};
use aaep_proto::id::SessionId;
use aaep_proto::json::Json;
use aaep_proto::message::Message;
use aaep_proto::{Problem, Rule, SequenceChecker, Severity, Validator, limits};
use serde::Serialize;

use crate::CommandStatus;
use crate::input;
use crate::output::{Escaped, IgnoreBrokenPipe, ProgressReporter, count, print_error};

/// Validate events and messages.
///
/// Prints one line for each problem: file, line, severity, rule, where in the document, and what to do. Exit code 0 if every
/// document is valid, 1 if any is not.
#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  aaep validate recording.ndjson
  aaep validate --sequence recording.ndjson
  curl --silent --no-buffer URL | aaep validate --json")]
pub(crate) struct ValidateArgs {
    /// Files to validate: a JSON object, an array, JSON lines, or a captured SSE stream; '-' for stdin [default: stdin]
    files: Vec<PathBuf>,
    /// Also check the order of events: sessions, tool calls, confirmations, outputs, states
    #[arg(long)]
    sequence: bool,
    /// Print one JSON object per document
    #[arg(long)]
    json: bool,
    /// Print nothing; use the exit code
    #[arg(long, short, conflicts_with = "json")]
    quiet: bool,
}

pub(crate) fn run(args: &ValidateArgs) -> io::Result<CommandStatus> {
    let standard_input = [PathBuf::from("-")];
    let files = if args.files.is_empty() { &standard_input[..] } else { &args.files };
    let mut run = ValidationRun {
        args,
        out: BufWriter::with_capacity(64 * 1024, IgnoreBrokenPipe::new(io::stdout().lock())),
        validator: Validator::new(),
        progress: ProgressReporter::start(),
        totals: ValidationTotals::default(),
        failed: false,
    };
    for file in files {
        run.validate_source(file)?;
    }
    run.finish()
}

#[derive(Default)]
struct ValidationTotals {
    documents: u64,
    invalid: u64,
    warnings: u64,
    bytes: u64,
}

struct ValidationRun<'a, W: Write> {
    args: &'a ValidateArgs,
    out: W,
    validator: Validator,
    progress: ProgressReporter,
    totals: ValidationTotals,
    failed: bool,
}

/// The output of `--json` for one document.
#[derive(Serialize)]
struct DocumentReport<'a> {
    source: &'a str,
    line: u64,
    valid: bool,
    problems: &'a [Problem],
}

impl<W: Write> ValidationRun<'_, W> {
    fn validate_source(&mut self, path: &Path) -> io::Result<()> {
        let is_standard_input = path.as_os_str() == "-";
        let name = if is_standard_input { "-".into() } else { path.to_string_lossy() };
        let mut input: Box<dyn Read> = if is_standard_input {
            if io::stdin().is_terminal() {
                print_error("reading from the terminal; press Ctrl-D to end");
            }
            Box::new(io::stdin())
        } else {
            match input::open(path) {
                Ok(file) => Box::new(file),
                Err(reason) => return self.skip_source(&name, &reason),
            }
        };
        let before = self.totals.documents;
        let mut decoder = AutoDecoder::new(limits::MESSAGE_BYTES);
        let mut sequence = self.args.sequence.then(SequenceChecker::new);
        let mut buffer = vec![0; 64 * 1024];
        let mut result = Ok(());
        loop {
            let length = match input.read(&mut buffer) {
                Ok(0) => break,
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return self.skip_source(&name, &format!("cannot be read: {error}")),
            };
            self.totals.bytes += length as u64;
            decoder.push(&buffer[..length], |line, decoded| {
                if result.is_ok() {
                    result = self.decoded(&name, line, decoded, sequence.as_mut());
                }
            });
            std::mem::replace(&mut result, Ok(()))?;
            let totals = &self.totals;
            self.progress.tick(|| {
                format!("Checked {} so far, {} MiB.", count(totals.documents, "document"), totals.bytes >> 20)
            });
        }
        decoder.finish(|line, decoded| {
            if result.is_ok() {
                result = self.decoded(&name, line, decoded, sequence.as_mut());
            }
        });
        result?;
        // An empty array or a stream of heartbeats is well-formed; an empty file is an error.
        let well_formed = matches!(decoder.format(), Some(Format::Values | Format::EventStream));
        if self.totals.documents == before && !well_formed {
            return self.skip_source(&name, "contains no document");
        }
        self.report_unended(&name, sequence)
    }

    fn skip_source(&mut self, name: &str, reason: &str) -> io::Result<()> {
        self.out.flush()?;
        print_error(format_args!("{name} {reason}"));
        self.failed = true;
        Ok(())
    }

    fn decoded(
        &mut self,
        source: &str,
        line: u64,
        decoded: Decoded<'_>,
        sequence: Option<&mut SequenceChecker>,
    ) -> io::Result<()> {
        let problems = match decoded {
            Decoded::Document(bytes) => self.check(bytes, sequence),
            Decoded::TooLong(length) => vec![Problem::new(
                Rule::MessageSize,
                "",
                format!("Split it: {length} bytes are more than the {} that transports carry.", limits::MESSAGE_BYTES),
            )],
            Decoded::Malformed(message) => {
                vec![Problem::new(Rule::Syntax, "", format!("This is not JSON: {message}."))]
            }
        };
        self.report(source, line, &problems)
    }

    fn check(&self, bytes: &[u8], sequence: Option<&mut SequenceChecker>) -> Vec<Problem> {
        let Some(sequence) = sequence else { return self.validator.check(bytes).problems };
        let Ok(json) = Json::parse(bytes) else { return self.validator.check(bytes).problems };
        let mut problems = self.validator.check_json(&json, Some(bytes.len())).problems;
        // A malformed document was reported already; it must not make later events of its session invalid.
        match Message::from_json_lenient(&json) {
            Ok(message) => problems.extend(sequence.observe(&message)),
            Err(_) => {
                let session = json.get("session_id").and_then(Json::text).and_then(|id| id.parse::<SessionId>().ok());
                problems.extend(session.map(|id| sequence.lose(&id)).unwrap_or_default());
            }
        }
        problems
    }

    fn report(&mut self, source: &str, line: u64, problems: &[Problem]) -> io::Result<()> {
        let valid = problems.iter().all(|p| p.severity < Severity::Error);
        self.totals.documents += 1;
        self.totals.invalid += u64::from(!valid);
        self.totals.warnings += problems.iter().filter(|p| p.severity == Severity::Warning).count() as u64;
        if self.args.json {
            serde_json::to_writer(&mut self.out, &DocumentReport { source, line, valid, problems })?;
            return self.out.write_all(b"\n");
        }
        if !self.args.quiet {
            for Problem { rule, pointer, severity, message } in problems {
                let place = if pointer.is_empty() { String::new() } else { format!(" at {}", Escaped(pointer)) };
                let (source, message) = (Escaped(source), Escaped(message));
                writeln!(self.out, "{source}:{line}: {severity} {rule}{place}: {message}")?;
            }
        }
        Ok(())
    }

    /// Reports sessions that did not end. They belong to no single document, so `--json` prints them on standard error.
    fn report_unended(&mut self, source: &str, sequence: Option<SequenceChecker>) -> io::Result<()> {
        for (_, problem) in sequence.map(SequenceChecker::finish).unwrap_or_default() {
            self.totals.warnings += 1;
            let line = format!("{}: {} {}: {}", Escaped(source), problem.severity, problem.rule, problem.message);
            if self.args.json {
                let _ = writeln!(io::stderr(), "{line}");
            } else if !self.args.quiet {
                writeln!(self.out, "{line}")?;
            }
        }
        Ok(())
    }

    fn finish(mut self) -> io::Result<CommandStatus> {
        let ValidationTotals { documents, invalid, warnings, .. } = self.totals;
        if !self.args.json && !self.args.quiet && (documents > 0 || !self.failed) {
            let verdict = match invalid {
                0 => "all valid".to_owned(),
                _ => format!("{invalid} not valid"),
            };
            writeln!(self.out, "{}: {verdict}, {}.", count(documents, "document"), count(warnings, "warning"))?;
        }
        self.out.flush()?;
        Ok(match (self.failed, invalid) {
            (true, _) => CommandStatus::Failed,
            (false, 0) => CommandStatus::Yes,
            (false, _) => CommandStatus::No,
        })
    }
}
