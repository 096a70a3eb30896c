//! `aaep capture`: records the events of an agent as JSON lines.

mod selection;
mod writer;

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::time::Duration;

use aaep_client::{ConnectOptions, EndReason, Notice, Subscriber, SubscriberEvent};
use aaep_proto::language::LanguageTag;
use aaep_proto::message::{Capabilities, CapabilityFields, CloseReason, EventFilters, Message, Verbosity};

use crate::CommandStatus;
use crate::connect_flags::ConnectFlags;
use crate::output::{ProgressReporter, count, fail, print_error};
use crate::runtime::runtime;
use crate::signals::shutdown_signal;
use selection::EventSelection;
use writer::RecordingWriter;

/// How long closing the subscription may take.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Record the events of an agent as JSON lines.
///
/// Requests every event and coalesces none. If the recording is incomplete, the exit code is 1. See docs/guide/recording.md.
#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  aaep capture localhost:8377 -o session.ndjson
  aaep capture stdio: --type tool.* -- ./agent")]
pub(crate) struct CaptureArgs {
    /// URL of the agent: http, https, ws, wss, grpc, grpcs, unix or stdio
    url: String,
    /// For stdio: the command that starts the agent, after --
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
    /// Output file (appended); '-' for stdout
    #[arg(long, short, value_name = "FILE", default_value = "-")]
    output: PathBuf,
    /// Only events of this type, such as tool.invoked or tool.* (repeatable)
    #[arg(long = "type", value_name = "PATTERN")]
    types: Vec<String>,
    /// Only events of this session (repeatable)
    #[arg(long = "session", value_name = "ID")]
    sessions: Vec<String>,
    /// Only events of this urgency (repeatable)
    #[arg(long = "urgency", value_name = "WORD", value_parser = ["background", "normal", "critical"])]
    urgencies: Vec<String>,
    /// Also record questions and their resolutions, regardless of other filters
    #[arg(long)]
    include_replies: bool,
    /// Stop after this duration, such as 500ms, 30s, 5m or 1h
    #[arg(long = "for", value_name = "TIME", value_parser = parse_duration)]
    time: Option<Duration>,
    /// Stop after this number of events
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Preferred language, best first (repeatable)
    #[arg(long = "language", value_name = "TAG")]
    languages: Vec<LanguageTag>,
    #[command(flatten)]
    connect: ConnectFlags,
}

/// How a recording ended.
#[derive(Debug, PartialEq, Eq)]
enum CaptureEnd {
    /// It was stopped, or has as many events as requested.
    Stopped,
    /// The agent has ended.
    Complete,
    /// Events are missing, and why.
    Incomplete(String),
    /// The subscription never began, and why.
    Unreachable(String),
}

pub(crate) fn run(args: CaptureArgs) -> io::Result<CommandStatus> {
    let options = match options(&args) {
        Ok(options) => options,
        Err(reason) => return Ok(fail(reason)),
    };
    let selection = EventSelection::new(&args.types, &args.sessions, &args.urgencies, args.include_replies);
    let (writer, note) = match RecordingWriter::open(&args.output) {
        Ok(opened) => opened,
        Err(reason) => return Ok(fail(format_args!("{}: {reason}", args.output.to_string_lossy()))),
    };
    if let Some(note) = note {
        print_error(format_args!("{}: {note}", args.output.to_string_lossy()));
    }
    let capture = Capture {
        writer,
        selection,
        max_events: args.count,
        subscribed: false,
        malformed: 0,
        progress: ProgressReporter::start(),
    };
    runtime()?.block_on(capture.run(&args.url, options, args.time))
}

fn options(args: &CaptureArgs) -> Result<ConnectOptions, String> {
    let fields = CapabilityFields {
        preferred_verbosity: Some(Verbosity::Detailed),
        languages: (!args.languages.is_empty()).then(|| args.languages.clone()),
        event_filters: Some(EventFilters { include: Some(vec!["*".to_owned()]), exclude: None }),
        ..CapabilityFields::default()
    };
    // It does not claim to support replies, so no question waits for it.
    let capabilities = Capabilities { fields, ..Capabilities::default() };
    let mut options = ConnectOptions::new("aaep-capture", capabilities);
    options.config.request.subscriber_name = Some("aaep capture".to_owned());
    options.config.max_events_per_second = u32::MAX;
    options.raw = true;
    options.command = (!args.command.is_empty()).then(|| args.command.clone());
    args.connect.apply(options)
}

struct Capture {
    writer: RecordingWriter,
    selection: EventSelection,
    max_events: Option<u64>,
    /// Whether the subscription was accepted or an event was received.
    subscribed: bool,
    /// The number of malformed messages.
    malformed: u64,
    progress: ProgressReporter,
}

impl Capture {
    async fn run(mut self, url: &str, options: ConnectOptions, time: Option<Duration>) -> io::Result<CommandStatus> {
        let mut stop = Box::pin(shutdown_signal());
        let mut subscriber = match Subscriber::connect(url, options) {
            Ok(subscriber) => subscriber,
            Err(error) => return Ok(fail(error)),
        };
        let timeout = async {
            match time {
                Some(time) => tokio::time::sleep(time).await,
                None => std::future::pending().await,
            }
        };
        tokio::pin!(timeout);
        let end = loop {
            let event = tokio::select! {
                biased;
                () = &mut stop => break Ok(CaptureEnd::Stopped),
                () = &mut timeout => break Ok(CaptureEnd::Stopped),
                event = subscriber.recv() => event,
            };
            match self.handle_event(event) {
                Ok(None) => {}
                Ok(Some(end)) => break Ok(end),
                Err(error) => break Err(error),
            }
        };
        // A producer that does not respond is not waited for.
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, subscriber.close(CloseReason::SubscriberShutdown)).await;
        self.finish(end?)
    }

    /// Handles an event of the subscriber. Returns how the recording ended, if it did.
    fn handle_event(&mut self, event: Option<SubscriberEvent>) -> io::Result<Option<CaptureEnd>> {
        Ok(Some(match event {
            Some(SubscriberEvent::Message(bytes)) => return self.handle_message(&bytes),
            Some(SubscriberEvent::Accepted(_)) => {
                self.subscribed = true;
                return Ok(None);
            }
            Some(SubscriberEvent::Notice(Notice::Malformed(why))) => {
                print_error(format_args!("malformed message: {why}"));
                self.malformed += 1;
                return Ok(None);
            }
            Some(SubscriberEvent::Notice(
                notice @ (Notice::Disconnected(_) | Notice::NoResponse | Notice::Rejected(_)),
            )) => self.interrupted(notice.to_string()),
            Some(SubscriberEvent::Notice(Notice::KeyChanged(agent))) => {
                print_error(Notice::KeyChanged(agent));
                return Ok(None);
            }
            Some(SubscriberEvent::Ended(ended)) => match ended {
                EndReason::Closed => CaptureEnd::Stopped,
                EndReason::ProducerEnded(_) => CaptureEnd::Complete,
                EndReason::Rejected(rejected) => {
                    CaptureEnd::Unreachable(format!("the subscription was rejected: {}", rejected.reason_message))
                }
                EndReason::Refused(why) | EndReason::ManifestMismatch(why) => {
                    self.interrupted(format!("cannot subscribe: {why}"))
                }
            },
            Some(SubscriberEvent::Skipped(number)) => {
                CaptureEnd::Incomplete(format!("lost {}", count(number, "event")))
            }
            Some(_) => return Ok(None),
            None => self.interrupted("the connection was closed".to_owned()),
        }))
    }

    fn interrupted(&self, why: String) -> CaptureEnd {
        if self.subscribed { CaptureEnd::Incomplete(why) } else { CaptureEnd::Unreachable(why) }
    }

    fn handle_message(&mut self, bytes: &[u8]) -> io::Result<Option<CaptureEnd>> {
        // A malformed message is reported by its own notice.
        let Ok(message) = Message::parse(bytes) else { return Ok(None) };
        match message {
            Message::Event(event) => {
                self.subscribed = true;
                if self.selection.contains(&event) {
                    self.writer.write(bytes)?;
                    let written = self.writer.written();
                    self.progress.tick(|| format!("{} so far.", count(written, "event")));
                    return Ok((Some(written) == self.max_events).then_some(CaptureEnd::Stopped));
                }
                Ok(None)
            }
            Message::SubscriptionClose(close) => {
                let code = close.reason_code.as_ref();
                let why = close.reason_message.as_deref().or(code.map(CloseReason::as_str)).unwrap_or_default();
                Ok(Some(match code {
                    Some(CloseReason::ProducerEnded | CloseReason::ProducerShutdown) => CaptureEnd::Complete,
                    Some(CloseReason::TooSlow) => CaptureEnd::Incomplete(format!(
                        "the producer closed the subscription because this reader was too slow: {why}"
                    )),
                    _ => CaptureEnd::Incomplete(format!("the producer closed the subscription: {why}")),
                }))
            }
            _ => Ok(None),
        }
    }

    fn finish(self, end: CaptureEnd) -> io::Result<CommandStatus> {
        let written = count(self.writer.written(), "event");
        match end {
            CaptureEnd::Unreachable(why) => Ok(fail(why)),
            CaptureEnd::Incomplete(why) => {
                print_error(format_args!("{why}; the recording is incomplete after {written}"));
                Ok(CommandStatus::No)
            }
            CaptureEnd::Stopped | CaptureEnd::Complete if self.malformed > 0 => {
                print_error(format_args!(
                    "the recording is incomplete: left out {}",
                    count(self.malformed, "malformed message")
                ));
                Ok(CommandStatus::No)
            }
            CaptureEnd::Stopped | CaptureEnd::Complete => {
                if io::stderr().is_terminal() {
                    // If standard error is closed, nobody reads it.
                    let _ = writeln!(io::stderr(), "Captured {written}.");
                }
                Ok(CommandStatus::Yes)
            }
        }
    }
}

/// Parses a duration such as `500ms`, `30s`, `5m` or `1h`; a number alone is in seconds.
fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong = || "give a duration such as 500ms, 30s, 5m or 1h".to_owned();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    let millis = match &text[digits.len()..] {
        "ms" => 1,
        "s" | "" => 1000,
        "m" => 60 * 1000,
        "h" => 60 * 60 * 1000,
        _ => return Err(wrong()),
    };
    number.checked_mul(millis).filter(|millis| *millis > 0).map(Duration::from_millis).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn close_reasons_tell_complete_from_incomplete_recordings() {
        let directory = tempfile::tempdir().unwrap();
        let (writer, _) = RecordingWriter::open(&directory.path().join("recording")).unwrap();
        let selection = EventSelection::new(&[], &[], &[], false);
        let mut capture = Capture {
            writer,
            selection,
            max_events: None,
            subscribed: true,
            malformed: 0,
            progress: ProgressReporter::start(),
        };
        let mut close = |code: &str| {
            let json = format!(
                r#"{{"type":"subscription.close","subscription_id":"sub_1","reason_code":"{code}","reason_message":"Why."}}"#
            );
            capture.handle_message(json.as_bytes()).unwrap()
        };
        assert_eq!(close("producer_ended"), Some(CaptureEnd::Complete));
        assert_eq!(close("producer_shutdown"), Some(CaptureEnd::Complete));
        let slow = CaptureEnd::Incomplete(
            "the producer closed the subscription because this reader was too slow: Why.".to_owned(),
        );
        assert_eq!(close("too_slow"), Some(slow));
        assert_eq!(
            close("violation"),
            Some(CaptureEnd::Incomplete("the producer closed the subscription: Why.".to_owned()))
        );
        let lost =
            capture.handle_event(Some(SubscriberEvent::Notice(Notice::Disconnected("it broke".into())))).unwrap();
        assert!(matches!(lost, Some(CaptureEnd::Incomplete(_))));
        capture.subscribed = false;
        let lost =
            capture.handle_event(Some(SubscriberEvent::Notice(Notice::Disconnected("it broke".into())))).unwrap();
        assert!(matches!(lost, Some(CaptureEnd::Unreachable(_))));
    }

    #[test]
    fn durations_are_parsed() {
        let of = |text| parse_duration(text).ok().map(|time| time.as_millis());
        assert_eq!(["500ms", "30s", "5m", "1h", "7"].map(of), [500, 30_000, 300_000, 3_600_000, 7000].map(Some));
        for wrong in ["", "s", "0", "-1s", "1d", "1.5s", "99999999999999999999h", "9999999999999999999h", "５s"] {
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
    }
}
