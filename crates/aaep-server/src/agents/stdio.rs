//! An agent that is a process: events come on its standard output, answers go to its standard input.

use std::io;
use std::time::Duration;

use aaep_proto::binding::{Line, LineDecoder};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::relay::Relay;
use super::reply::Reply;
use super::urgent::{Urgent, UrgentMark};

/// Longest line.
pub const LINE: usize = 1024 * 1024;

/// What is read at once: as much as a pipe holds.
const READ: usize = 64 * 1024;

/// Reads that may wait to be handled: a question is noticed there behind text that is held back.
const AHEAD: usize = 2;

/// Answers that may wait for the agent to read them.
const ANSWERS: usize = 1024;

/// How long to wait for more after the agent has ended: something that it started may keep its output open.
const AFTER_END: Duration = Duration::from_secs(2);

/// What is not for subscribers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SideOutput<'l> {
    /// Lines that are no events, each with its end.
    Lines(&'l [u8]),
    /// What is wrong with the line of this number.
    Problem(u64, String),
}

/// Reads events until the agent writes no more. `ended` says that the process is gone.
///
/// While no subscriber keeps up, little is read, and so the agent is slowed by its own writing, until it asks something. An
/// agent that does not read its answers is held up when too many outcomes wait; refusals are told beside in any case.
///
/// ```
/// use aaep::Producer;
/// use aaep_server::agents::stdio::{SideOutput, relay_lines};
/// use aaep_server::agents::{Relay, AgentIdentity};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut relay = Relay::new(Producer::builder("house").build(), AgentIdentity::anyone("gardener", "en".parse()?));
/// let output = &b"Hello.\n{\"type\": \"session.started\", \"summary_normal\": \"Planning.\"}\n{oops\n"[..];
/// let mut beside = Vec::new();
/// let ended = std::future::pending();
/// relay_lines(&mut relay, (output, tokio::io::sink()), ended, |said| beside.push(format!("{said:?}"))).await?;
/// assert_eq!(relay.sessions(), 1);
/// assert_eq!(beside.len(), 2);
/// # Ok(())
/// # }
/// ```
pub async fn relay_lines(
    relay: &mut Relay,
    (mut output, input): (impl AsyncRead + Unpin, impl AsyncWrite + Unpin + Send + 'static),
    ended: impl Future<Output = ()>,
    mut beside: impl FnMut(SideOutput<'_>),
) -> io::Result<()> {
    let (to, mut batches) = mpsc::channel(AHEAD);
    let reading = read_lines(&mut output, ended, relay.urgent(), to);
    let taking = async {
        let mut answers = Answers::new(input);
        let mut others = Vec::new();
        while let Some(batch) = batches.recv().await {
            for Numbered { number, line, urgent } in batch {
                if let Ok(line) = &line
                    && line.first() != Some(&b'{')
                {
                    others.extend_from_slice(line);
                    others.push(b'\n');
                    continue;
                }
                pass_on(&mut others, &mut beside);
                let line = match line {
                    Ok(line) => line,
                    Err(length) => {
                        let text = format!("{length} bytes are too long for a line; at most {LINE} are taken");
                        beside(SideOutput::Problem(number, text));
                        continue;
                    }
                };
                let reply = relay.take(&line).await;
                drop(urgent);
                if let Reply::Now(answer) = &reply
                    && let Some(words) = answer.words()
                {
                    beside(SideOutput::Problem(number, words));
                }
                answers.give(reply).await;
            }
            pass_on(&mut others, &mut beside);
            relay.flush().await;
        }
    };
    tokio::join!(reading, taking).0
}

/// A line with its number.
struct Numbered {
    number: u64,
    /// The length of one that is too long.
    line: Result<Vec<u8>, usize>,
    urgent: Option<UrgentMark>,
}

/// Reads lines until the agent writes no more, or nothing more for a while after it has ended. What was read at once goes
/// on together.
async fn read_lines(
    output: &mut (impl AsyncRead + Unpin),
    ended: impl Future<Output = ()>,
    urgent: Urgent,
    to: mpsc::Sender<Vec<Numbered>>,
) -> io::Result<()> {
    let mut ended = std::pin::pin!(ended);
    let mut is_over = false;
    let mut lines = LineDecoder::new(LINE);
    let mut bytes = vec![0; READ];
    loop {
        let read = tokio::select! {
            biased;
            read = output.read(&mut bytes) => read?,
            () = &mut ended, if !is_over => {
                is_over = true;
                continue;
            }
            () = tokio::time::sleep(AFTER_END), if is_over => 0,
        };
        let mut batch = Vec::new();
        let mut keep = |number, line: Line<'_>| {
            let urgent = match line {
                Line::Text(text) => urgent.mark_if_urgent(text),
                Line::TooLong(_) => None,
            };
            batch.push(Numbered { number, line: owned(line), urgent });
        };
        if read == 0 {
            lines.finish(&mut keep)
        } else {
            lines.push(&bytes[..read], &mut keep)
        }
        if to.send(batch).await.is_err() || read == 0 {
            return Ok(());
        }
    }
}

/// Passes on what came between two events, at once.
fn pass_on(others: &mut Vec<u8>, beside: &mut impl FnMut(SideOutput<'_>)) {
    if !others.is_empty() {
        beside(SideOutput::Lines(others));
        others.clear();
    }
}

/// A line, or the length of one that is too long.
fn owned(line: Line<'_>) -> Result<Vec<u8>, usize> {
    match line {
        Line::Text(text) => Ok(text.to_vec()),
        Line::TooLong(length) => Err(length),
    }
}

/// What goes back to the agent.
struct Answers {
    lines: mpsc::Sender<String>,
    tasks: JoinSet<()>,
}

impl Answers {
    fn new(input: impl AsyncWrite + Unpin + Send + 'static) -> Answers {
        let (lines, waiting) = mpsc::channel(ANSWERS);
        let mut tasks = JoinSet::new();
        tasks.spawn(write_answers(input, waiting));
        Answers { lines, tasks }
    }

    async fn give(&mut self, reply: Reply) {
        match reply {
            Reply::Now(answer) if answer.is_said() => {}
            // An agent that does not read its refusals is not waited for: they were told beside.
            Reply::Now(answer) if answer.is_refused() => {
                let _ = self.lines.try_send(answer.to_json().to_string());
            }
            // An agent that has closed its input does not want to know.
            Reply::Now(answer) => drop(self.lines.send(answer.to_json().to_string()).await),
            Reply::Later(pending) => {
                while self.tasks.try_join_next().is_some() {}
                let lines = self.lines.clone();
                self.tasks.spawn(async move {
                    let _ = lines.send(pending.wait().await.to_json().to_string()).await;
                });
            }
        }
    }
}

async fn write_answers(mut input: impl AsyncWrite + Unpin, mut waiting: mpsc::Receiver<String>) {
    while let Some(mut line) = waiting.recv().await {
        line.push('\n');
        // An agent that has closed its input does not want to know.
        if input.write_all(line.as_bytes()).await.is_err() || input.flush().await.is_err() {
            return;
        }
    }
}
