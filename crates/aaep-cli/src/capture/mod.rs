//! `aaep capture`: writes down what an agent says, all of it, a line for each event.

mod choice;
mod sink;

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::time::Duration;

use aaep_client::{ConnectOptions, EndReason, Notice, Subscriber, SubscriberEvent, TlsOptions};
use aaep_proto::language::LanguageTag;
use aaep_proto::message::{Capabilities, CapabilityFields, CloseReason, EventFilters, Message, Verbosity};

use crate::CommandStatus;
use crate::output::{Progress, complain, count};
use crate::serve::{runtime, told_to_stop};
use choice::Choice;
use sink::Sink;

/// How long the farewell may take.
const FAREWELL: Duration = Duration::from_secs(2);

/// Record what an agent says, as one JSON object per line.
///
/// Everything is asked for and nothing is folded or left out, unless filters say so. A recording that is not whole is
/// told, and the exit code is 1. See docs/guide/recording.md.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Where the agent is: http, https, ws, wss, grpc, grpcs, unix or stdio
    url: String,
    /// For `stdio:`, the command that is the agent, after two dashes
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
    /// Where to write; what is there already stays; '-' is standard output
    #[arg(long, short, value_name = "FILE", default_value = "-")]
    output: PathBuf,
    /// Only events of this type, such as tool.invoked, or that begin so, such as tool.*
    #[arg(long = "type", value_name = "PATTERN")]
    types: Vec<String>,
    /// Only events of this session
    #[arg(long = "session", value_name = "ID")]
    sessions: Vec<String>,
    /// Only events of this urgency
    #[arg(long = "urgency", value_name = "WORD", value_parser = ["background", "normal", "critical"])]
    urgencies: Vec<String>,
    /// Also questions, and what tells how they ended, whatever the other filters say
    #[arg(long)]
    include_replies: bool,
    /// Stop after this time, such as 500ms, 30s, 5m or 1h
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
    time: Option<Duration>,
    /// Stop after so many events
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// A language to ask for, the best first
    #[arg(long = "language", value_name = "TAG")]
    languages: Vec<LanguageTag>,
    /// A file that holds the token to show
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Authorities to trust besides those of the system, in PEM
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Allow the way to another machine to be without encryption
    #[arg(long)]
    allow_plain: bool,
}

/// How a recording ended.
#[derive(Debug, PartialEq, Eq)]
enum End {
    /// It was told to, or has what was asked for.
    Enough,
    /// The agent has said everything.
    Complete,
    /// Something is missing, and why.
    Broken(String),
    /// It never began, and why.
    Unreachable(String),
}

pub(crate) fn run(args: Args) -> io::Result<CommandStatus> {
    let options = match options(&args) {
        Ok(options) => options,
        Err(reason) => return Ok(failed(&reason)),
    };
    let choice = Choice::new(&args.types, &args.sessions, &args.urgencies, args.include_replies);
    let (sink, note) = match Sink::open(&args.output) {
        Ok(opened) => opened,
        Err(reason) => return Ok(failed(&format!("{}: {reason}", args.output.to_string_lossy()))),
    };
    if let Some(note) = note {
        complain(format_args!("{}: {note}", args.output.to_string_lossy()));
    }
    let capture = Capture { sink, choice, most: args.count, began: false, unread: 0, progress: Progress::start() };
    runtime()?.block_on(capture.run(&args.url, options, args.time))
}

fn failed(reason: &str) -> CommandStatus {
    complain(reason);
    CommandStatus::Failed
}

fn options(args: &Args) -> Result<ConnectOptions, String> {
    let read = |path: &PathBuf| {
        std::fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.to_string_lossy()))
    };
    let fields = CapabilityFields {
        preferred_verbosity: Some(Verbosity::Detailed),
        languages: (!args.languages.is_empty()).then(|| args.languages.clone()),
        event_filters: Some(EventFilters { include: Some(vec!["*".to_owned()]), exclude: None }),
        ..CapabilityFields::default()
    };
    // It does not say that it could answer: nobody may wait for an answer that never comes.
    let capabilities = Capabilities { fields, ..Capabilities::default() };
    let mut options = ConnectOptions::new("aaep-capture", capabilities);
    options.config.request.subscriber_name = Some("aaep capture".to_owned());
    options.config.max_events_per_second = u32::MAX;
    options.raw = true;
    options.allow_insecure = args.allow_plain;
    options.command = (!args.command.is_empty()).then(|| args.command.clone());
    if let Some(path) = &args.token_file {
        let token = String::from_utf8(read(path)?).map_err(|_| "the token is not text".to_owned())?;
        options = options.bearer(token.trim().to_owned());
    }
    if let Some(path) = &args.ca {
        options = options.tls(TlsOptions { authorities: read(path)?, ..TlsOptions::default() });
    }
    Ok(options)
}

struct Capture {
    sink: Sink,
    choice: Choice,
    most: Option<u64>,
    /// Whether the agent has said anything at all.
    began: bool,
    /// Messages that could not be read.
    unread: u64,
    progress: Progress,
}

impl Capture {
    async fn run(mut self, url: &str, options: ConnectOptions, time: Option<Duration>) -> io::Result<CommandStatus> {
        let mut stop = Box::pin(told_to_stop());
        let mut subscriber = match Subscriber::connect(url, options) {
            Ok(subscriber) => subscriber,
            Err(error) => return Ok(failed(&error.to_string())),
        };
        let over = async {
            match time {
                Some(time) => tokio::time::sleep(time).await,
                None => std::future::pending().await,
            }
        };
        tokio::pin!(over);
        let end = loop {
            let heard = tokio::select! {
                biased;
                () = &mut stop => break Ok(End::Enough),
                () = &mut over => break Ok(End::Enough),
                heard = subscriber.recv() => heard,
            };
            match self.take(heard) {
                Ok(None) => {}
                Ok(Some(end)) => break Ok(end),
                Err(error) => break Err(error),
            }
        };
        // Who does not listen is not waited for.
        let _ = tokio::time::timeout(FAREWELL, subscriber.close(CloseReason::SubscriberShutdown)).await;
        self.conclude(end?)
    }

    /// Takes what was heard; answers how it ended, if it did.
    fn take(&mut self, heard: Option<SubscriberEvent>) -> io::Result<Option<End>> {
        Ok(Some(match heard {
            Some(SubscriberEvent::Message(bytes)) => return self.message(&bytes),
            Some(SubscriberEvent::Accepted(_)) => {
                self.began = true;
                return Ok(None);
            }
            Some(SubscriberEvent::Notice(Notice::Malformed(why))) => {
                complain(format_args!("a message could not be read: {why}"));
                self.unread += 1;
                return Ok(None);
            }
            Some(SubscriberEvent::Notice(
                notice @ (Notice::Disconnected(_) | Notice::NoAnswer | Notice::Rejected(_)),
            )) => self.broken(notice.to_string()),
            Some(SubscriberEvent::Notice(Notice::KeyChanged(agent))) => {
                complain(Notice::KeyChanged(agent));
                return Ok(None);
            }
            Some(SubscriberEvent::Ended(ended)) => match ended {
                EndReason::Closed => End::Enough,
                EndReason::Rejected(rejected) => {
                    End::Unreachable(format!("The agent does not serve: {}", rejected.reason_message))
                }
                EndReason::Refused(why) | EndReason::ManifestMismatch(why) => {
                    self.broken(format!("The agent cannot be heard: {why}"))
                }
            },
            Some(SubscriberEvent::Skipped(number)) => End::Broken(format!("{} were lost.", count(number, "event"))),
            Some(_) => return Ok(None),
            None => self.broken("The connection has ended.".to_owned()),
        }))
    }

    fn broken(&self, why: String) -> End {
        if self.began { End::Broken(why) } else { End::Unreachable(why) }
    }

    fn message(&mut self, bytes: &[u8]) -> io::Result<Option<End>> {
        // What cannot be read is told of by its own notice.
        let Ok(message) = Message::parse(bytes) else { return Ok(None) };
        match message {
            Message::Event(event) => {
                self.began = true;
                if self.choice.takes(&event) {
                    self.sink.write(bytes)?;
                    let written = self.sink.written();
                    self.progress.tick(|| format!("{} so far.", count(written, "event")));
                    return Ok((Some(written) == self.most).then_some(End::Enough));
                }
                Ok(None)
            }
            Message::SubscriptionClose(close) => {
                let code = close.reason_code.as_ref();
                let why = close.reason_message.as_deref().or(code.map(CloseReason::as_str)).unwrap_or_default();
                Ok(Some(match code {
                    Some(CloseReason::ProducerEnded | CloseReason::ProducerShutdown) => End::Complete,
                    Some(CloseReason::TooSlow) => {
                        End::Broken(format!("The agent ended it because this was too slow: {why}"))
                    }
                    _ => End::Broken(format!("The agent ended it: {why}")),
                }))
            }
            _ => Ok(None),
        }
    }

    fn conclude(self, end: End) -> io::Result<CommandStatus> {
        let written = count(self.sink.written(), "event");
        match end {
            End::Unreachable(why) => Ok(failed(&why)),
            End::Broken(why) => {
                complain(format_args!("{why} The recording has {written} and is not complete."));
                Ok(CommandStatus::No)
            }
            End::Enough | End::Complete if self.unread > 0 => {
                complain(format_args!(
                    "{} could not be read and are not in the recording",
                    count(self.unread, "message")
                ));
                Ok(CommandStatus::No)
            }
            End::Enough | End::Complete => {
                if io::stderr().is_terminal() {
                    // Nobody is left to tell when standard error is closed.
                    let _ = writeln!(io::stderr(), "Captured {written}.");
                }
                Ok(CommandStatus::Yes)
            }
        }
    }
}

/// A time such as `500ms`, `30s`, `5m`, `1h`; a number alone counts seconds.
fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || "give a time such as 500ms, 30s, 5m or 1h".to_owned();
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
    fn an_end_that_leaves_something_out_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let (sink, _) = Sink::open(&directory.path().join("recording")).unwrap();
        let choice = Choice::new(&[], &[], &[], false);
        let mut capture = Capture { sink, choice, most: None, began: true, unread: 0, progress: Progress::start() };
        let mut close = |code: &str| {
            let json = format!(
                r#"{{"type":"subscription.close","subscription_id":"sub_1","reason_code":"{code}","reason_message":"Why."}}"#
            );
            capture.message(json.as_bytes()).unwrap()
        };
        assert_eq!(close("producer_ended"), Some(End::Complete));
        assert_eq!(close("producer_shutdown"), Some(End::Complete));
        let slow = End::Broken("The agent ended it because this was too slow: Why.".to_owned());
        assert_eq!(close("too_slow"), Some(slow));
        assert_eq!(close("violation"), Some(End::Broken("The agent ended it: Why.".to_owned())));
        let lost = capture.take(Some(SubscriberEvent::Notice(Notice::Disconnected("it broke".into())))).unwrap();
        assert!(matches!(lost, Some(End::Broken(_))));
        capture.began = false;
        let lost = capture.take(Some(SubscriberEvent::Notice(Notice::Disconnected("it broke".into())))).unwrap();
        assert!(matches!(lost, Some(End::Unreachable(_))));
    }

    #[test]
    fn times_are_read() {
        let of = |text| duration(text).ok().map(|time| time.as_millis());
        assert_eq!(["500ms", "30s", "5m", "1h", "7"].map(of), [500, 30_000, 300_000, 3_600_000, 7000].map(Some));
        for wrong in ["", "s", "0", "-1s", "1d", "1.5s", "99999999999999999999h", "9999999999999999999h", "５s"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }
}
