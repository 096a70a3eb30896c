//! A producer that is run as a command: JSON-RPC 2.0, one object per line (appendix B.6).

use std::ffi::OsString;
use std::io;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use aaep_proto::binding::{Line, LineDecoder};
use aaep_proto::json::Json;
use aaep_proto::limits;
use aaep_proto::message::Message;
use aaep_proto::subscriber::{DisconnectReason, HandshakeMode};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStderr, ChildStdin, Command};
use tokio::sync::{Mutex, mpsc};

use super::frames::{Sink, Source, hear, speak};
use super::{ABSURD, Connection, Incoming, endless};

/// The call around a message has its own length.
const ENVELOPE: usize = 1024;

/// How long a command that was told to end may take before it is ended.
const FAREWELL: Duration = Duration::from_secs(2);

/// Runs the command.
pub(crate) async fn open(words: &[OsString], timeout: Duration) -> Result<Connection, DisconnectReason> {
    let Some((program, arguments)) = words.split_first() else {
        return Err(DisconnectReason::Refused("no command was given".to_owned()));
    };
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied => {
            DisconnectReason::Refused(format!("the command cannot be run: {error}"))
        }
        _ => DisconnectReason::Broken(format!("the command cannot be run: {error}")),
    })?;
    let (Some(stdin), Some(stdout), Some(stderr)) = (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err(DisconnectReason::Broken("the command cannot be talked to".to_owned()));
    };
    let (mut wire, ends) = Connection::new(HandshakeMode::Full, true);
    let stdin = Arc::new(Mutex::new(Some(stdin)));
    let source = In::new(stdout, stdin.clone());
    wire.tasks.spawn(hear(source, ends.heard.clone()));
    wire.tasks.spawn(log(stderr));
    let sink = Out { stdin, child, calls: 0 };
    wire.tasks.spawn(speak(sink, ends.said, ends.heard, timeout.max(FAREWELL * 2)));
    Ok(wire)
}

/// What the command says for people goes to the log.
async fn log(mut stderr: ChildStderr) {
    let mut lines = LineDecoder::new(4096);
    let mut buffer = vec![0; 4096];
    while let Ok(read @ 1..) = stderr.read(&mut buffer).await {
        lines.push(&buffer[..read], |_, line| {
            if let Line::Text(text) = line {
                tracing::info!(target: "aaep_client::stdio", "{}", String::from_utf8_lossy(text));
            }
        });
    }
}

type SharedStdin = Arc<Mutex<Option<ChildStdin>>>;

async fn write(stdin: &SharedStdin, value: &Value) -> io::Result<()> {
    let mut guard = stdin.lock().await;
    let Some(pipe) = guard.as_mut() else { return Err(io::ErrorKind::BrokenPipe.into()) };
    let mut line = value.to_string();
    line.push('\n');
    pipe.write_all(line.as_bytes()).await?;
    pipe.flush().await
}

struct In<R> {
    stdout: R,
    lines: LineDecoder,
    /// What was read and not yet handed on.
    ready: std::collections::VecDeque<Result<Vec<u8>, usize>>,
    /// Answers to pings go out beside everything else: a command that does not read must not stop our reading.
    answers: mpsc::Sender<Value>,
    _answering: tokio::task::JoinSet<()>,
}

impl<R> In<R> {
    fn new(stdout: R, stdin: SharedStdin) -> In<R> {
        let (answers, mut pending) = mpsc::channel::<Value>(4);
        let mut answering = tokio::task::JoinSet::new();
        answering.spawn(async move {
            while let Some(answer) = pending.recv().await {
                if write(&stdin, &answer).await.is_err() {
                    return;
                }
            }
        });
        let lines = LineDecoder::new(limits::MESSAGE_BYTES + ENVELOPE);
        In { stdout, lines, ready: Default::default(), answers, _answering: answering }
    }

    /// What a line means.
    fn read(&self, line: &[u8]) -> Incoming {
        let Ok(Value::Object(mut call)) = Json::parse_from_peer(line).map(|json| json.to_value()) else {
            return Incoming::Unreadable("it is no JSON-RPC object.".to_owned());
        };
        let id = call.remove("id");
        if let Some(method) = call.get("method").and_then(Value::as_str) {
            return match method {
                "aaep.event" | "aaep.close" => match call.remove("params") {
                    Some(params) => Incoming::Message(params.to_string().into()),
                    None => Incoming::Unreadable("it says nothing.".to_owned()),
                },
                "aaep.ping" => {
                    if let Some(id) = id {
                        // Who pings faster than it reads gets no answer.
                        let _ = self.answers.try_send(json!({"jsonrpc": "2.0", "id": id, "result": {}}));
                    }
                    Incoming::Alive
                }
                _ => Incoming::Unreadable("its method is not known.".to_owned()),
            };
        }
        if let Some(result) = call.remove("result") {
            // An answer to a ping holds no message.
            return if result.get("type").is_some() {
                Incoming::Message(result.to_string().into())
            } else {
                Incoming::Alive
            };
        }
        let Some(error) = call.remove("error") else { return Incoming::Unreadable("it is no call.".to_owned()) };
        match error.get("data").filter(|data| data.get("type").is_some()) {
            Some(message) => Incoming::Message(message.to_string().into()),
            None => {
                let why = error.get("message").and_then(Value::as_str).unwrap_or("the command reports an error");
                Incoming::Lost(DisconnectReason::Broken(why.to_owned()))
            }
        }
    }
}

impl<R: AsyncRead + Send + Unpin + 'static> Source for In<R> {
    async fn next(&mut self) -> Result<Incoming, DisconnectReason> {
        loop {
            match self.ready.pop_front() {
                Some(Ok(line)) if line.is_empty() => continue,
                Some(Ok(line)) => {
                    return match self.read(&line) {
                        Incoming::Lost(loss) => Err(loss),
                        other => Ok(other),
                    };
                }
                Some(Err(length)) => return Ok(Incoming::Unreadable(format!("it has {length} bytes."))),
                None => {}
            }
            let mut buffer = [0; 16 * 1024];
            let read =
                self.stdout.read(&mut buffer).await.map_err(|error| DisconnectReason::Broken(error.to_string()))?;
            if read == 0 {
                return Err(DisconnectReason::Broken("the command has ended".to_owned()));
            }
            if self.lines.skipped() > ABSURD {
                return Err(endless());
            }
            let ready = &mut self.ready;
            self.lines.push(&buffer[..read], |_, line| {
                ready.push_back(match line {
                    Line::Text(text) => Ok(text.to_vec()),
                    Line::TooLong(length) => Err(length),
                });
            });
        }
    }
}

struct Out {
    stdin: SharedStdin,
    child: Child,
    calls: u64,
}

impl Out {
    async fn call(&mut self, method: &str, params: Value) -> io::Result<()> {
        self.calls += 1;
        write(&self.stdin, &json!({"jsonrpc": "2.0", "id": self.calls, "method": method, "params": params})).await
    }
}

impl Sink for Out {
    async fn send(&mut self, message: &Message) -> io::Result<()> {
        let params = serde_json::to_value(message).map_err(io::Error::other)?;
        let method = match message {
            Message::SubscriptionRequest(_) => return self.call("aaep.subscribe", params).await,
            Message::SubscriptionRenegotiate(_) => return self.call("aaep.renegotiate", params).await,
            Message::SubscriptionClose(_) => "aaep.close",
            _ => "aaep.reply",
        };
        write(&self.stdin, &json!({"jsonrpc": "2.0", "method": method, "params": params})).await
    }

    async fn probe(&mut self) -> io::Result<()> {
        self.call("aaep.ping", json!({})).await
    }

    async fn close(&mut self) {
        // The end of its input tells the command to end; one that does not is ended.
        drop(self.stdin.lock().await.take());
        if tokio::time::timeout(FAREWELL, self.child.wait()).await.is_err() {
            let _ = self.child.kill().await;
        }
    }
}
