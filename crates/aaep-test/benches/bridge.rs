//! What a bridge adds: the round trip of a message and of a read-only tool call through `aaep mcp`, and the time of a hook,
//! each compared with the same thing without it. A server of a few lines answers at once.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

const ROUNDS: usize = 2000;
const HOOKS: usize = 100;

/// Answers every request at once.
fn serve() {
    let (input, mut output) = (std::io::stdin().lock(), std::io::stdout().lock());
    for line in input.lines().map_while(Result::ok) {
        let message: serde_json::Value = serde_json::from_str(&line).expect("a message");
        let Some(id) = message.get("id") else { continue };
        let result = match message["method"].as_str() {
            Some("tools/list") => r#"{"tools":[{"name":"read","annotations":{"readOnlyHint":true}}]}"#,
            Some("tools/call") => r#"{"content":[{"type":"text","text":"ok"}]}"#,
            _ => "{}",
        };
        writeln!(output, r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#).expect("the client reads");
        output.flush().expect("the client reads");
    }
}

struct Peer {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Peer {
    fn start(command: &mut Command) -> Peer {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("the command can be started");
        let input = child.stdin.take().expect("it is piped");
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        Peer { child, input, output }
    }

    fn round_trip(&mut self, id: usize, method: &str) -> Duration {
        let params = r#"{"name":"read","arguments":{"path":"/a"}}"#;
        let line = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":{params}}}\n");
        let start = Instant::now();
        self.input.write_all(line.as_bytes()).expect("the peer reads");
        let mut answer = String::new();
        self.output.read_line(&mut answer).expect("the peer answers");
        assert!(answer.contains("result"), "{answer}");
        start.elapsed()
    }

    fn measure(mut self, name: &str, method: &str) -> Vec<Duration> {
        self.round_trip(0, "tools/list");
        for id in 1..200 {
            self.round_trip(id, method);
        }
        let mut times: Vec<Duration> = (0..ROUNDS).map(|round| self.round_trip(round + 1000, method)).collect();
        times.sort();
        println!("{name}: median {:?}, p99 {:?}", times[ROUNDS / 2], times[ROUNDS * 99 / 100]);
        let _ = self.child.kill();
        let _ = self.child.wait();
        times
    }
}

fn hook_time(aaep: &std::path::Path, home: &std::path::Path) -> Vec<Duration> {
    let payload =
        r#"{"session_id":"s","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"ls"}}"#;
    let mut times: Vec<Duration> = (0..HOOKS)
        .map(|_| {
            let start = Instant::now();
            let mut command = Command::new(aaep);
            command.args(["hook", "claude", "PreToolUse"]).env("HOME", home).env("XDG_RUNTIME_DIR", home);
            let mut child = command.stdin(Stdio::piped()).spawn().expect("it can be started");
            child.stdin.take().expect("it is piped").write_all(payload.as_bytes()).expect("it reads");
            child.wait().expect("it ends");
            start.elapsed()
        })
        .collect();
    times.sort();
    times
}

fn main() {
    if std::env::args().any(|argument| argument == "--serve") {
        return serve();
    }
    let aaep = aaep_test::aaep_release();
    let own = std::env::current_exe().expect("this program has a path");
    let home = tempfile::tempdir().expect("a temporary directory can be created");
    let bridge = || {
        let mut command = Command::new(aaep);
        command.args(["mcp", "--listen", "127.0.0.1:0", "--no-unix", "--"]).arg(&own).arg("--serve");
        command.env("HOME", home.path()).env("XDG_RUNTIME_DIR", home.path());
        command
    };
    let direct = Peer::start(Command::new(&own).arg("--serve")).measure("message without the bridge", "ping");
    let through = Peer::start(&mut bridge()).measure("message through the bridge", "ping");
    let calls = Peer::start(&mut bridge()).measure("tool call through the bridge", "tools/call");
    let at = ROUNDS * 99 / 100;
    println!("added to a message at p99: {:?}", through[at].saturating_sub(direct[at]));
    println!("added to a tool call at p99: {:?}", calls[at].saturating_sub(direct[at]));
    let up = |argument: &[&str]| {
        let mut command = Command::new(aaep);
        command.arg("up").args(argument).env("HOME", home.path()).env("XDG_RUNTIME_DIR", home.path());
        assert!(command.stdout(Stdio::null()).status().expect("it can be started").success());
    };
    up(&[]);
    let hooks = hook_time(aaep, home.path());
    println!("hook: median {:?}, p99 {:?}", hooks[HOOKS / 2], hooks[HOOKS * 99 / 100]);
    up(&["--stop"]);
}
