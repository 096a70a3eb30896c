//! A flood of events from a Python agent through `aaep run` to one subscriber: how fast the agent writes to a discarded
//! pipe, how fast its lines are read and delivered, and the peak memory. `AAEP_BENCH_LINES` sets the number of lines
//! (300000). Builds `aaep` in release mode unless `AAEP_BIN` has its path.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use aaep_test::aaep_release;
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

/// The kinds of lines: a name, and the Python format string that inserts a number.
const KINDS: [(&str, &str); 4] = [
    ("text, a line each", r#"{"type":"output.streaming","output_id":"all","chunk":"This is line number %d.\\n"}"#),
    ("text, a token each", r#"{"type":"output.streaming","chunk":"word%d "}"#),
    ("progress", r#"{"type":"progress.updated","progress":{"step":%d},"summary_normal":"One more step is done."}"#),
    ("lines that are no events", "DEBUG this is line number %d of the log"),
];

fn main() {
    let lines: usize = std::env::var("AAEP_BENCH_LINES").ok().and_then(|v| v.parse().ok()).unwrap_or(300_000);
    println!("{lines} lines of an agent in Python, through aaep run to one subscriber over WebSocket");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    for (name, line) in KINDS {
        let alone = alone(&script(line, lines));
        let (taken, delivered, kib) =
            runtime.block_on(through(&script(line, lines), name == "lines that are no events"));
        let rate = |time: Duration| lines as f64 / time.as_secs_f64();
        println!(
            "{name}: alone {:.0} lines/s; taken {:.0} lines/s, delivered {:.0} lines/s; peak memory {:.1} MiB",
            rate(alone),
            rate(taken),
            rate(delivered),
            kib as f64 / 1024.0
        );
    }
}

/// The agent: waits for a line of input, writes, and reports when it has written everything.
fn script(line: &str, lines: usize) -> String {
    format!(
        r#"
import os, sys, time
place = os.environ["DIR"]
while not os.path.exists(os.path.join(place, "go")):
    time.sleep(0.005)
write = sys.stdout.write
for number in range(1, {lines} + 1):
    write('{line}\n' % number)
sys.stdout.flush()
open(os.path.join(place, "written"), "w").close()
write('{{"type":"session.completed","summary_normal":"That was all."}}\n')
sys.stdout.flush()
"#
    )
}

fn python(script: &str, dir: &Path) -> Command {
    let mut command = Command::new("python3");
    command.args(["-c", script]).env("DIR", dir);
    command
}

/// Measures how long the agent takes if its lines are discarded.
fn alone(script: &str) -> Duration {
    let dir = tempfile::tempdir().expect("a directory");
    let mut reader = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("cat");
    let pipe = reader.stdin.take().expect("it is piped");
    let mut agent = python(script, dir.path()).stdout(pipe).spawn().expect("python3");
    let begun = go(dir.path());
    agent.wait().expect("an end");
    reader.wait().expect("an end");
    begun.elapsed()
}

fn go(dir: &Path) -> Instant {
    std::fs::write(dir.join("go"), "").expect("room for a file");
    Instant::now()
}

/// Measures the time until the agent has written everything, the time until the subscriber has received everything, and
/// the peak memory.
async fn through(script: &str, silent: bool) -> (Duration, Duration, u64) {
    let dir = tempfile::tempdir().expect("a directory");
    let address = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port");
    let mut served = Running(run(script, dir.path(), address));
    let mut socket = connect(address).await;
    let begun = go(dir.path());
    let written = tokio::spawn({
        let (path, id) = (dir.path().join("written"), served.0.id());
        async move {
            let mut most = 0;
            while !path.exists() {
                most = most.max(peak_kib(id));
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            (begun.elapsed(), most.max(peak_kib(id)))
        }
    });
    // Lines that are not events start no session, so there is nothing to receive.
    if !silent {
        until_completed(&mut socket).await;
    }
    let delivered = begun.elapsed();
    let (taken, kib) = written.await.expect("it was written");
    drop(socket);
    served.0.wait().expect("an end");
    (taken, if silent { taken } else { delivered }, kib)
}

async fn until_completed(socket: &mut Socket) {
    while let Some(message) = socket.next().await {
        if message.expect("a message").to_text().unwrap_or_default().contains("session.completed") {
            return;
        }
    }
}

fn run(script: &str, dir: &Path, address: SocketAddr) -> Child {
    let mut command = Command::new(aaep_release());
    command.args(["run", "--no-unix", "--listen", &address.to_string(), "--", "python3", "-c", script]);
    command.env("DIR", dir).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().expect("it starts")
}

/// Kills the process with the benchmark.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

type Socket = tokio_tungstenite::WebSocketStream<tokio_tungstenite::MaybeTlsStream<tokio::net::TcpStream>>;

async fn connect(address: SocketAddr) -> Socket {
    let until = Instant::now() + Duration::from_secs(60);
    let mut socket = loop {
        match tokio_tungstenite::connect_async(format!("ws://{address}/aaep/v1/ws")).await {
            Ok((socket, _)) => break socket,
            Err(error) => assert!(Instant::now() < until, "it does not serve: {error}"),
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    let request = json!({"type": "subscription.request", "aaep_version": "1.0.0", "subscriber_id": "ear",
        "capabilities": {"cognitive_load": "high"}});
    socket.send(Message::text(request.to_string())).await.expect("it is sent");
    let accepted = socket.next().await.expect("an answer").expect("an answer");
    let accepted: Value = serde_json::from_str(accepted.to_text().unwrap_or_default()).expect("JSON");
    assert_eq!(accepted["type"], "subscription.accepted");
    socket
}

/// Returns the peak memory of a process, or `None` after its end.
fn peak_kib(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).unwrap_or(0)
}
