//! Child processes of tests: programs of others, and servers.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::aaep;

/// A timeout that is much longer than anything takes, even on a busy machine. Only a failure waits for so long.
pub const PATIENCE: Duration = Duration::from_secs(180);

/// A process whose output is read line by line. Its standard error is kept for failure messages. It is killed when
/// dropped.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    lines: Receiver<String>,
    errors: Arc<Mutex<String>>,
    stderr_reader: Option<JoinHandle<()>>,
}

impl Process {
    /// Starts a command without input.
    pub fn start(command: &mut Command) -> Process {
        Process::spawn(command.stdin(Stdio::null()))
    }

    /// Starts a command whose standard input [`Process::say`] writes to.
    pub fn with_input(command: &mut Command) -> Process {
        Process::spawn(command.stdin(Stdio::piped()))
    }

    fn spawn(command: &mut Command) -> Process {
        let name = command.get_program().to_string_lossy().into_owned();
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|e| fail(&format!("cannot start {name}: {e}")));
        let out = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut err = child.stderr.take().expect("it is piped");
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || out.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        let errors = Arc::new(Mutex::new(String::new()));
        let kept = errors.clone();
        let stderr_reader = Some(std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = err.read(&mut buffer) {
                let text = String::from_utf8_lossy(&buffer[..read]);
                kept.lock().expect("nobody panics with it").push_str(&text);
            }
        }));
        Process { name, child, lines, errors, stderr_reader }
    }

    /// Returns the process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns its peak memory in KiB, or `None` after it has ended and on systems other than Linux.
    pub fn peak_kib(&self) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id())).ok()?;
        let line = status.lines().find(|line| line.starts_with("VmHWM"))?;
        line.split_whitespace().nth(1)?.parse().ok()
    }

    /// Returns the next line of its output, or `None` at the end.
    pub fn line(&self) -> Option<String> {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => self.fail("prints nothing"),
        }
    }

    /// Reads lines until `found` returns a value for one. `what` names the value in failure messages.
    pub fn find<T>(&self, what: &str, mut found: impl FnMut(&str) -> Option<T>) -> T {
        let mut seen = String::new();
        while let Some(line) = self.line() {
            if let Some(result) = found(&line) {
                return result;
            }
            seen.push_str(&line);
            seen.push('\n');
        }
        self.fail(&format!("ended without {what}, after:\n{seen}"))
    }

    /// Returns the rest of its output.
    pub fn rest(&self) -> Vec<String> {
        std::iter::from_fn(|| self.line()).collect()
    }

    /// Writes to its standard input.
    pub fn say(&mut self, text: &str) {
        let input = self.child.stdin.as_mut().expect("it was started with input");
        if let Err(error) = input.write_all(text.as_bytes()) {
            self.fail(&format!("does not read its input: {error}"));
        }
    }

    /// Sends SIGTERM.
    #[cfg(unix)]
    pub fn terminate(&self) {
        let id = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw);
        let id = id.expect("a child has a number");
        rustix::process::kill_process(id, rustix::process::Signal::TERM).expect("the child has not been waited for");
    }

    /// Waits until it exits.
    pub fn wait(&mut self) -> ExitStatus {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().expect("a child can be waited for") {
                return status;
            }
            if Instant::now() > deadline {
                self.fail("does not exit");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Returns its standard error so far, or all of it if it has exited.
    pub fn errors(&mut self) -> String {
        if matches!(self.child.try_wait(), Ok(Some(_)))
            && let Some(reader) = self.stderr_reader.take()
        {
            reader.join().expect("the reader does not panic");
        }
        self.stderr_so_far()
    }

    fn stderr_so_far(&self) -> String {
        self.errors.lock().expect("nobody panics with it").clone()
    }

    fn fail(&self, how: &str) -> ! {
        fail(&format!("{} {how}\nIts standard error:\n{}", self.name, self.stderr_so_far()))
    }
}

#[expect(clippy::panic, reason = "a test that cannot go on should stop")]
fn fail(message: &str) -> ! {
    panic!("{message}")
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A process that serves HTTP, such as `aaep demo` or `aaep serve`, with a private runtime directory, so that many can
/// run at once. It is killed when dropped.
#[derive(Debug)]
pub struct Serving {
    /// The process itself.
    pub process: Process,
    address: SocketAddr,
    _runtime: TempDir,
}

impl Serving {
    /// Starts `aaep` with these arguments on a free port and waits until it prints its address.
    pub fn start(arguments: &[&str]) -> Serving {
        Serving::spawn(Command::new(aaep()).args(arguments).args(["--listen", "127.0.0.1:0"]))
    }

    /// Starts a command and waits until it prints the address that it serves.
    pub fn spawn(command: &mut Command) -> Serving {
        let runtime = tempfile::tempdir().expect("a temporary directory can be created");
        let process = Process::start(command.env("XDG_RUNTIME_DIR", runtime.path()));
        let address = process.find("an address", |line| {
            let (_, rest) = line.split_once("://")?;
            rest.split(['/', ' ']).next()?.parse().ok()
        });
        Serving { process, address, _runtime: runtime }
    }

    /// Returns the address at which it serves HTTP.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the `http` URL of a path.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}
