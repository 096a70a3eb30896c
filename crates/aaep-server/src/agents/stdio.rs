//! An agent that is a child process: events come from its standard output, responses go to its standard input.

use std::io;
use std::time::Duration;

use aaep_proto::binding::{DecodedLine, LineDecoder};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::cancel_requests::CancelReceiver;
use super::pending::ResponseState;
use super::raw_event::{ParsedLine, RawEvent};
use super::relay::Relay;
use super::urgent::{UrgentCounter, UrgentGuard};

/// Longest line.
pub const MAX_LINE_BYTES: usize = 1024 * 1024;

/// Most bytes of one read: as much as a pipe holds.
const READ_BUFFER_BYTES: usize = 64 * 1024;

/// Most reads that wait to be handled. An urgent event is noticed there behind text that waits for subscribers.
const MAX_QUEUED_BATCHES: usize = 2;

/// Most responses that wait for the agent to read them.
const MAX_QUEUED_RESPONSES: usize = 1024;

/// How long to wait for more output after the process has exited: a process that it started may keep the pipe open.
const EXIT_DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

/// Output of an agent that is not for subscribers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SideOutput<'l> {
    /// Lines that are no events, with their line ends.
    Passthrough(&'l [u8]),
    /// A line was refused.
    LineError {
        /// The number of the line, from 1.
        number: u64,
        /// What is wrong with it.
        message: String,
    },
}

/// The pipes of an agent process.
#[derive(Debug)]
pub struct AgentPipes<O, I> {
    /// The standard output of the agent, which events are read from.
    pub stdout: O,
    /// The standard input of the agent, which responses are written to.
    pub stdin: I,
}

/// Handles the lines of an agent until it closes its output, or writes nothing more for a while after `exited`.
///
/// Lines that begin with `{` are events; other lines and refusals are passed to `side_output`. While no subscriber keeps up,
/// little is read, which slows the agent down as soon as the pipe is full; an urgent event ends that. An agent that does
/// not read its input is stopped when too many outcomes are queued, but not by refusals.
///
/// ```
/// use aaep::Producer;
/// use aaep_server::agents::stdio::{AgentPipes, relay_lines};
/// use aaep_server::agents::{AgentIdentity, Relay};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let producer = Producer::builder("garden").build();
/// let mut relay = Relay::new(producer, AgentIdentity::unrestricted("planner", "en".parse()?));
/// let stdout = &b"Hello.\n{\"type\": \"session.started\", \"summary_normal\": \"Planning.\"}\n{oops\n"[..];
/// let pipes = AgentPipes { stdout, stdin: tokio::io::sink() };
/// let mut side_output = Vec::new();
/// let exited = std::future::pending();
/// relay_lines(&mut relay, pipes, exited, |output| side_output.push(format!("{output:?}"))).await?;
/// assert_eq!(relay.sessions(), 1);
/// assert_eq!(side_output.len(), 2);
/// # Ok(())
/// # }
/// ```
pub async fn relay_lines(
    relay: &mut Relay,
    pipes: AgentPipes<impl AsyncRead + Unpin, impl AsyncWrite + Unpin + Send + 'static>,
    exited: impl Future<Output = ()>,
    mut side_output: impl FnMut(SideOutput<'_>),
) -> io::Result<()> {
    let AgentPipes { mut stdout, stdin } = pipes;
    let (sender, mut batches) = mpsc::channel(MAX_QUEUED_BATCHES);
    let reading = read_lines(&mut stdout, exited, relay.urgent_events(), sender);
    let handling = async {
        let mut responses = ResponseWriter::new(stdin, relay.cancel_requests().subscribe());
        let mut passthrough = Vec::new();
        while let Some(batch) = batches.recv().await {
            for NumberedLine { number, content } in batch {
                if let LineContent::Other(text) = content {
                    passthrough.extend_from_slice(&text);
                    passthrough.push(b'\n');
                    continue;
                }
                flush_passthrough(&mut passthrough, &mut side_output);
                if let Err(message) = handle_content(relay, content, &mut responses).await {
                    side_output(SideOutput::LineError { number, message });
                }
            }
            flush_passthrough(&mut passthrough, &mut side_output);
            relay.flush().await;
        }
    };
    tokio::join!(reading, handling).0
}

/// Handles an event and responds to the agent. Returns the error text if it was refused.
async fn handle_content(relay: &mut Relay, content: LineContent, responses: &mut ResponseWriter) -> Result<(), String> {
    let (event, urgent) = match content {
        LineContent::Event(event, urgent) => (event, urgent),
        LineContent::TooLong(length) => {
            return Err(format!("{length} bytes are too long for a line; at most {MAX_LINE_BYTES} are accepted"));
        }
        LineContent::Other(_) => return Ok(()),
    };
    let response = relay.handle_event(event).await;
    drop(urgent);
    let error = match &response {
        ResponseState::Ready(response) => response.error_text(),
        ResponseState::Pending(_) => None,
    };
    responses.send(response).await;
    error.map_or(Ok(()), Err)
}

/// A line of the agent's output.
struct NumberedLine {
    number: u64,
    content: LineContent,
}

enum LineContent {
    /// A line that begins with `{`, counted as urgent until the guard is dropped if it is.
    Event(ParsedLine, Option<UrgentGuard>),
    /// Any other line.
    Other(Vec<u8>),
    /// The length of a line that is too long.
    TooLong(usize),
}

impl LineContent {
    fn new(line: DecodedLine<'_>, urgent_events: &UrgentCounter) -> LineContent {
        match line {
            DecodedLine::Text(text) if text.first() == Some(&b'{') => {
                let event = RawEvent::parse(text);
                let urgent = urgent_events.guard_if_urgent(&event);
                LineContent::Event(event, urgent)
            }
            DecodedLine::Text(text) => LineContent::Other(text.to_vec()),
            DecodedLine::TooLong(length) => LineContent::TooLong(length),
        }
    }
}

/// Reads lines until the output is closed, or nothing more comes for a while after `exited`. The lines of one read are sent
/// as one batch.
async fn read_lines(
    stdout: &mut (impl AsyncRead + Unpin),
    exited: impl Future<Output = ()>,
    urgent_events: UrgentCounter,
    sender: mpsc::Sender<Vec<NumberedLine>>,
) -> io::Result<()> {
    let mut exited = std::pin::pin!(exited);
    let mut has_exited = false;
    let mut decoder = LineDecoder::new(MAX_LINE_BYTES);
    let mut buffer = vec![0; READ_BUFFER_BYTES];
    loop {
        let length = tokio::select! {
            biased;
            length = stdout.read(&mut buffer) => length?,
            () = &mut exited, if !has_exited => {
                has_exited = true;
                continue;
            }
            () = tokio::time::sleep(EXIT_DRAIN_TIMEOUT), if has_exited => 0,
        };
        let mut batch = Vec::new();
        let mut push = |number, line: DecodedLine<'_>| {
            batch.push(NumberedLine { number, content: LineContent::new(line, &urgent_events) });
        };
        if length == 0 {
            decoder.finish(&mut push);
        } else {
            decoder.push(&buffer[..length], &mut push);
        }
        if sender.send(batch).await.is_err() || length == 0 {
            return Ok(());
        }
    }
}

fn flush_passthrough(passthrough: &mut Vec<u8>, side_output: &mut impl FnMut(SideOutput<'_>)) {
    if !passthrough.is_empty() {
        side_output(SideOutput::Passthrough(passthrough));
        passthrough.clear();
    }
}

/// Writes responses, and requests of users that the agent stops, to the agent's input in tasks of its own.
struct ResponseWriter {
    lines: mpsc::Sender<String>,
    tasks: JoinSet<()>,
}

impl ResponseWriter {
    fn new(stdin: impl AsyncWrite + Unpin + Send + 'static, mut cancel_requests: CancelReceiver) -> ResponseWriter {
        let (lines, queued) = mpsc::channel(MAX_QUEUED_RESPONSES);
        let mut tasks = JoinSet::new();
        tasks.spawn(write_lines(stdin, queued));
        let requests = lines.clone();
        // This fails when the agent has closed its input.
        tasks.spawn(async move { while requests.send(cancel_requests.recv().await).await.is_ok() {} });
        ResponseWriter { lines, tasks }
    }

    /// Sends a response, now or when its question is resolved. Errors are ignored: the agent may have closed its input.
    async fn send(&mut self, response: ResponseState) {
        match response {
            ResponseState::Ready(response) if response.is_published() => {}
            // Refusals do not wait for an agent that does not read them: they are on standard error too.
            ResponseState::Ready(response) if response.is_refused() => {
                let _ = self.lines.try_send(response.to_json().to_string());
            }
            ResponseState::Ready(response) => drop(self.lines.send(response.to_json().to_string()).await),
            ResponseState::Pending(pending) => {
                while self.tasks.try_join_next().is_some() {}
                let lines = self.lines.clone();
                self.tasks.spawn(async move {
                    let _ = lines.send(pending.wait().await.to_json().to_string()).await;
                });
            }
        }
    }
}

async fn write_lines(mut stdin: impl AsyncWrite + Unpin, mut queued: mpsc::Receiver<String>) {
    while let Some(mut line) = queued.recv().await {
        line.push('\n');
        if stdin.write_all(line.as_bytes()).await.is_err() || stdin.flush().await.is_err() {
            // The agent has closed its input.
            return;
        }
    }
}
