//! Runs the command with timeouts.

use std::fs::Permissions;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use aaep_test::{aaep, example};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A timeout that is longer than anything takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(180);

/// Waits until a condition holds.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "waited too long for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A running command. It is killed if a test ends before it.
pub(crate) struct Running {
    child: Child,
    lines: Receiver<String>,
    errors: Arc<Mutex<String>>,
    readers: Vec<std::thread::JoinHandle<()>>,
}

/// The result of a command.
#[derive(Debug)]
pub(crate) struct CommandResult {
    pub(crate) code: Option<i32>,
    pub(crate) out: Vec<String>,
    pub(crate) err: String,
}

pub(crate) fn start(args: &[&str]) -> Running {
    start_with(args, Stdio::null())
}

pub(crate) fn start_with(args: &[&str], input: Stdio) -> Running {
    let mut command = Command::new(aaep());
    command.args(args).stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped());
    // Settings of the environment must not change the test.
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("AAEP_")) {
        command.env_remove(name);
    }
    let mut child = command.spawn().unwrap();
    let (out, err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let (sender, lines) = channel();
    let errors = Arc::<Mutex<String>>::default();
    let told = errors.clone();
    let readers = vec![
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines() {
                // The test may have ended.
                let _ = sender.send(line.unwrap());
            }
        }),
        std::thread::spawn(move || {
            let mut err = BufReader::new(err);
            let mut buffer = [0; 4096];
            loop {
                match err.read(&mut buffer) {
                    Ok(0) | Err(_) => return,
                    Ok(length) => told.lock().unwrap().push_str(&String::from_utf8_lossy(&buffer[..length])),
                }
            }
        }),
    ];
    Running { child, lines, errors, readers }
}

impl Running {
    /// Returns the next line of its output.
    pub(crate) fn line(&self) -> String {
        self.lines.recv_timeout(PATIENCE).unwrap_or_else(|e| panic!("{e}; it said: {}", self.said()))
    }

    /// Returns its standard error so far.
    pub(crate) fn said(&self) -> String {
        self.errors.lock().unwrap().clone()
    }

    pub(crate) fn stdin(&mut self) -> ChildStdin {
        self.child.stdin.take().unwrap()
    }

    pub(crate) fn signal(&self, name: &str) {
        let status = Command::new("kill").args([format!("-{name}"), self.child.id().to_string()]).status().unwrap();
        assert!(status.success());
    }

    /// Waits until it exits.
    pub(crate) fn end(mut self) -> CommandResult {
        until("the end of a command", || self.child.try_wait().unwrap().is_some());
        let code = self.child.wait().unwrap().code();
        for reader in self.readers.drain(..) {
            reader.join().unwrap();
        }
        CommandResult { code, out: self.lines.try_iter().collect(), err: self.said() }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn run(args: &[&str]) -> CommandResult {
    start(args).end()
}

/// A directory for the files and sockets of one test.
pub(crate) struct RecordingDir(TempDir);

impl RecordingDir {
    pub(crate) fn new() -> RecordingDir {
        // A socket is created only in a directory that nobody else can write.
        RecordingDir(tempfile::Builder::new().permissions(Permissions::from_mode(0o700)).tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn name(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// Writes a file of lines. Returns its path.
    pub(crate) fn file(&self, name: &str, lines: &[String]) -> String {
        std::fs::write(self.path(name), lines.iter().map(|line| format!("{line}\n")).collect::<String>()).unwrap();
        self.name(name)
    }

    /// Starts a replay over every transport. Returns it and its addresses: HTTP, WebSocket, Unix socket, gRPC.
    pub(crate) fn replay(&self, file: &str, more: &[&str]) -> (Running, [String; 4]) {
        let socket = self.name("socket");
        let base = ["replay", file, "--listen", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--unix-path", &socket];
        let replay = start(&[&base[..], more].concat());
        let [http, unix, grpc] = std::array::from_fn(|_| {
            let line = replay.line();
            line.strip_prefix("Serving at ").unwrap_or_else(|| panic!("{line}")).to_owned()
        });
        assert!(unix.starts_with("unix:") && grpc.starts_with("grpc://"), "{unix} {grpc}");
        let ws = http.replace("http://", "ws://");
        (replay, [http, ws, unix, grpc])
    }
}

/// Returns the JSON lines of a file, each of which must be complete.
pub(crate) fn read(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    assert!(text.is_empty() || text.ends_with('\n'), "the last line is torn");
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e} in {line}"))).collect()
}

/// Returns the current number of lines of a file.
pub(crate) fn lines(path: &Path) -> usize {
    std::fs::read(path).map_or(0, |bytes| bytes.iter().filter(|byte| **byte == b'\n').count())
}

/// Returns the events among lines.
pub(crate) fn events(lines: &[String]) -> Vec<Value> {
    let all = lines.iter().map(|line| serde_json::from_str::<Value>(line).unwrap());
    all.filter(|event| event.get("event_id").is_some()).collect()
}

/// Returns a recording with every type of event, texts in other languages, an extension, and a whole session.
pub(crate) fn recording() -> Vec<String> {
    let mut lines = example("events.ndjson");
    lines.extend(example("banking.ndjson"));
    let mut own = event(9000, "2026-06-02T09:15:12.300Z");
    own["type"] = json!("haptic:pulse");
    own["@context"] = json!(["https://aaep-protocol.org/context/v1", "https://example.org/haptic/v1"]);
    own["strength"] = json!(3);
    for name in ["chunk", "position", "complete", "output_id"] {
        own.as_object_mut().unwrap().remove(name);
    }
    lines.push(own.to_string());
    lines
}

/// Returns a chunk of text with this number.
pub(crate) fn event(number: usize, timestamp: &str) -> Value {
    json!({"@context": "https://aaep-protocol.org/context/v1", "type": "aaep:agent.output.streaming",
        "event_id": format!("evt_{number}"), "session_id": "sess_long", "timestamp": timestamp,
        "producer": {"agent_id": "talker"}, "localization_hints": {"primary_language": "en-US"},
        "chunk": format!("Word {number}. "), "position": number * 20, "complete": false, "output_id": "out_1"})
}

/// Returns many events with this distance in milliseconds.
pub(crate) fn long_recording(count: usize, apart: usize) -> Vec<String> {
    let at = |number: usize| {
        let ms = number * apart;
        let (hour, minute, second) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60);
        format!("2026-06-02T{hour:02}:{minute:02}:{second:02}.{:03}Z", ms % 1000)
    };
    (0..count).map(|number| event(number, &at(number)).to_string()).collect()
}

/// Asserts that one is the beginning of the other.
pub(crate) fn assert_begins(part: &[Value], whole: &[Value]) {
    assert!(part.len() <= whole.len(), "{} of {}", part.len(), whole.len());
    for (index, (is, should)) in part.iter().zip(whole).enumerate() {
        assert_eq!(is, should, "at {index}");
    }
}
