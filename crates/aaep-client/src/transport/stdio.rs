//! A producer that is run as a command: JSON-RPC 2.0, one object per line (appendix B.6).

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use aaep_proto::binding::{DecodedLine, LineDecoder, RpcMethod, TransportKind};
use aaep_proto::json::Json;
use aaep_proto::limits;
use aaep_proto::message::Message;
use aaep_proto::subscriber::{DisconnectReason, HandshakeMode};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStderr, ChildStdin, Command};
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinSet;

use super::message_loop::{MessageReader, MessageWriter, read_loop, write_loop};
use super::{MAX_DISCARDED_BYTES, TransportConnection, TransportEvent, message_too_long};

/// Bytes of the JSON-RPC call around a message.
const MAX_OVERHEAD_BYTES: usize = 1024;

/// How long the command may run after its input has ended, before it is killed.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);

/// Answers to pings that wait to be written.
const MAX_WAITING_PONGS: usize = 4;

/// Runs the command and connects to its standard input and output.
pub(crate) async fn open(words: &[OsString], timeout: Duration) -> Result<TransportConnection, DisconnectReason> {
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
        return Err(DisconnectReason::Broken(
            "the standard input and output of the command are not available".to_owned(),
        ));
    };
    let (mut connection, channels) = TransportConnection::new(TransportKind::Stdio, HandshakeMode::Full, true);
    let stdin = Arc::new(Mutex::new(Some(stdin)));
    connection.tasks.spawn(read_loop(StdioReader::new(stdout, stdin.clone()), channels.events.clone()));
    connection.tasks.spawn(log_stderr(stderr));
    let writer = StdioWriter { stdin, child, last_id: 0 };
    // Closing may take the whole exit timeout.
    let timeout = timeout.max(EXIT_TIMEOUT * 2);
    connection.tasks.spawn(write_loop(writer, channels.commands, channels.events, timeout));
    Ok(connection)
}

/// Logs the standard error output of the command.
async fn log_stderr(mut stderr: ChildStderr) {
    let mut lines = LineDecoder::new(4096);
    let mut buffer = vec![0; 4096];
    while let Ok(read @ 1..) = stderr.read(&mut buffer).await {
        lines.push(&buffer[..read], |_, line| {
            if let DecodedLine::Text(text) = line {
                tracing::info!(target: "aaep_client::stdio", "{}", String::from_utf8_lossy(text));
            }
        });
    }
}

type SharedStdin = Arc<Mutex<Option<ChildStdin>>>;

async fn write_line(stdin: &SharedStdin, value: &Value) -> io::Result<()> {
    let mut guard = stdin.lock().await;
    let Some(pipe) = guard.as_mut() else { return Err(io::ErrorKind::BrokenPipe.into()) };
    let mut line = value.to_string();
    line.push('\n');
    pipe.write_all(line.as_bytes()).await?;
    pipe.flush().await
}

struct StdioReader<R> {
    stdout: R,
    lines: LineDecoder,
    /// Lines that were read and not yet returned, or their length if they are too long.
    ready: VecDeque<Result<Vec<u8>, usize>>,
    /// Answers to pings. A task of its own writes them: a command that does not read must not stop our reading.
    pongs: mpsc::Sender<Value>,
    _pong_task: JoinSet<()>,
}

impl<R> StdioReader<R> {
    fn new(stdout: R, stdin: SharedStdin) -> StdioReader<R> {
        let (pongs, mut waiting) = mpsc::channel::<Value>(MAX_WAITING_PONGS);
        let mut pong_task = JoinSet::new();
        pong_task.spawn(async move {
            while let Some(pong) = waiting.recv().await {
                if write_line(&stdin, &pong).await.is_err() {
                    return;
                }
            }
        });
        let lines = LineDecoder::new(limits::MESSAGE_BYTES + MAX_OVERHEAD_BYTES);
        StdioReader { stdout, lines, ready: Default::default(), pongs, _pong_task: pong_task }
    }

    /// Decodes a JSON-RPC object.
    fn decode(&self, line: &[u8]) -> TransportEvent {
        let Ok(Value::Object(mut call)) = Json::parse_from_peer(line).map(|json| json.to_value()) else {
            return TransportEvent::Unreadable("it is not a JSON-RPC object.".to_owned());
        };
        let id = call.remove("id");
        if let Some(method) = call.get("method").and_then(Value::as_str) {
            return match RpcMethod::parse(method) {
                Some(RpcMethod::Event | RpcMethod::Close | RpcMethod::Reply) => match call.remove("params") {
                    Some(params) => TransportEvent::Message(params.to_string().into()),
                    None => TransportEvent::Unreadable("it has no params.".to_owned()),
                },
                Some(RpcMethod::Ping) => {
                    if let Some(id) = id {
                        // A command that pings faster than it reads gets no answer.
                        let _ = self.pongs.try_send(json!({"jsonrpc": "2.0", "id": id, "result": {}}));
                    }
                    TransportEvent::Alive
                }
                _ => TransportEvent::Unreadable("its method is unknown.".to_owned()),
            };
        }
        if let Some(result) = call.remove("result") {
            // The result of a ping contains no message.
            return if result.get("type").is_some() {
                TransportEvent::Message(result.to_string().into())
            } else {
                TransportEvent::Alive
            };
        }
        let Some(error) = call.remove("error") else {
            return TransportEvent::Unreadable("it has no method, result or error.".to_owned());
        };
        match error.get("data").filter(|data| data.get("type").is_some()) {
            Some(message) => TransportEvent::Message(message.to_string().into()),
            None => {
                let why = error.get("message").and_then(Value::as_str).unwrap_or("the command reports an error");
                TransportEvent::Disconnected(DisconnectReason::Broken(why.to_owned()))
            }
        }
    }
}

impl<R: AsyncRead + Send + Unpin + 'static> MessageReader for StdioReader<R> {
    async fn next(&mut self) -> Result<TransportEvent, DisconnectReason> {
        loop {
            match self.ready.pop_front() {
                Some(Ok(line)) if line.is_empty() => continue,
                Some(Ok(line)) => {
                    return match self.decode(&line) {
                        TransportEvent::Disconnected(reason) => Err(reason),
                        other => Ok(other),
                    };
                }
                Some(Err(length)) => return Ok(TransportEvent::Unreadable(format!("it has {length} bytes."))),
                None => {}
            }
            let mut buffer = [0; 16 * 1024];
            let read =
                self.stdout.read(&mut buffer).await.map_err(|error| DisconnectReason::Broken(error.to_string()))?;
            if read == 0 {
                return Err(DisconnectReason::Broken("the command has ended".to_owned()));
            }
            if self.lines.skipped() > MAX_DISCARDED_BYTES {
                return Err(message_too_long());
            }
            let ready = &mut self.ready;
            self.lines.push(&buffer[..read], |_, line| {
                ready.push_back(match line {
                    DecodedLine::Text(text) => Ok(text.to_vec()),
                    DecodedLine::TooLong(length) => Err(length),
                });
            });
        }
    }
}

struct StdioWriter {
    stdin: SharedStdin,
    child: Child,
    /// The id of the last JSON-RPC request.
    last_id: u64,
}

impl StdioWriter {
    /// Writes a request or a notification, depending on the method.
    async fn call(&mut self, method: RpcMethod, params: Value) -> io::Result<()> {
        let mut call = json!({"jsonrpc": "2.0", "method": method.as_str(), "params": params});
        if method.is_request() {
            self.last_id += 1;
            call["id"] = self.last_id.into();
        }
        write_line(&self.stdin, &call).await
    }
}

impl MessageWriter for StdioWriter {
    async fn send(&mut self, message: &Message) -> io::Result<()> {
        let params = serde_json::to_value(message).map_err(io::Error::other)?;
        self.call(RpcMethod::for_message(message).unwrap_or(RpcMethod::Reply), params).await
    }

    async fn probe(&mut self) -> io::Result<()> {
        self.call(RpcMethod::Ping, json!({})).await
    }

    async fn close(&mut self) {
        // The end of its input asks the command to exit.
        drop(self.stdin.lock().await.take());
        if tokio::time::timeout(EXIT_TIMEOUT, self.child.wait()).await.is_err() {
            let _ = self.child.kill().await;
        }
    }
}
