//! A real BRLTTY of the test's own with a virtual display that the test holds in its hands.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on should stop")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use aaep_voice::brlapi::BrailleConfig;
use aaep_voice::{Braille, Endpoint};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixListener;
use tokio::net::unix::OwnedWriteHalf;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::{PATIENCE, soon};

/// What BRLTTY says when it starts.
const GREETING: &str = "the display is ready";

/// What is on the display.
#[derive(Default)]
pub struct Shown {
    /// The text on the cells.
    pub text: String,
    /// The dots of the cells, separated by bars.
    pub dots: String,
    /// Whether the greeting was there before.
    greeted: bool,
}

/// A BRLTTY of the test's own, and the display that it drives.
pub struct TestBrltty {
    /// Its directory, which has its log.
    pub directory: TempDir,
    brltty: Child,
    /// The socket of its API.
    pub socket: PathBuf,
    /// What is on the display now.
    pub shown: watch::Receiver<Shown>,
    keys: OwnedWriteHalf,
}

impl TestBrltty {
    /// Starts a server. `auth` returns the value of its parameter of that name; it is given the directory.
    pub async fn start(auth: impl FnOnce(&Path) -> String) -> TestBrltty {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("aaep-test-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let directory = tempfile::tempdir().unwrap();
        let display = directory.path().join("display.sock");
        let listener = UnixListener::bind(&display).unwrap();
        let log = std::fs::File::create(directory.path().join("log")).unwrap();
        let mut command = Command::new("brltty");
        command.args(["--no-daemon", "--standard-error", "--stay-privileged", "--configuration-file=/dev/null"]);
        command.args(["--braille-driver=vr", "--screen-driver=no", "--speech-driver=no", "--text-table=en-nabcc"]);
        command.args(["--message-time=10", "--override-preferences=alert-tunes=no"]);
        command.arg(format!("--start-message={GREETING}"));
        command.arg(format!("--braille-device=client:{}", display.display()));
        command.arg(format!("--api-parameters=auth={},host=:{name}", auth(directory.path())));
        command.arg(format!("--pid-file={}", directory.path().join("pid").display()));
        command.arg(format!("--updatable-directory={}", directory.path().display()));
        command.arg(format!("--writable-directory={}", directory.path().display()));
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        // Debian has it where only root looks.
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{path}:/usr/sbin:/sbin"));
        let brltty = command.spawn().expect("brltty cannot be run: install the Debian package brltty");
        let (stream, _) = soon("BRLTTY to look for its display", listener.accept()).await.unwrap();
        let (from, mut keys) = stream.into_split();
        keys.write_all(b"cells 40\n").await.unwrap();
        let (show, shown) = watch::channel(Shown::default());
        tokio::spawn(async move {
            let mut lines = BufReader::new(from).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                let (what, content) = line.split_once(' ').unwrap_or_default();
                let content = content.trim_matches('"').to_owned();
                show.send_modify(|shown| match what {
                    "Visual" => {
                        shown.greeted |= content.trim() == GREETING;
                        shown.text = content;
                    }
                    "Braille" => shown.dots = content,
                    _ => {}
                });
            }
        });
        let socket = Path::new("/var/lib/BrlAPI").join(name);
        let mut brltty = TestBrltty { directory, brltty, socket, shown, keys };
        let greeted = brltty.shown.wait_for(|shown| shown.greeted);
        let log = || std::fs::read_to_string(brltty.directory.path().join("log")).unwrap_or_default();
        let ready = timeout(PATIENCE, greeted).await.is_ok_and(|greeted| greeted.is_ok());
        assert!(ready, "BRLTTY does not start: {}", log());
        brltty.shows("no screen").await;
        brltty
    }

    /// Starts a server that asks for no key.
    pub async fn open() -> TestBrltty {
        TestBrltty::start(|_| "none".into()).await
    }

    /// How a client finds this server.
    pub fn config(&self) -> BrailleConfig {
        BrailleConfig { address: Some(Endpoint::Unix(self.socket.clone())), key_file: None }
    }

    /// Connects a client.
    pub async fn connect(&self) -> Braille {
        soon("the connection", Braille::connect(&self.config())).await.unwrap()
    }

    /// Waits until the display shows this text, and blanks after it.
    pub async fn shows(&mut self, text: &str) {
        let line = format!("{text:40}");
        let mut seen = String::new();
        let shown = self.shown.wait_for(|shown| {
            seen = shown.text.clone();
            shown.text == line
        });
        let waited = timeout(PATIENCE, shown).await.is_ok_and(|shown| shown.is_ok());
        let log = || std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default();
        assert!(waited, "the display shows {seen:?}, not {line:?}; BRLTTY says: {}", log());
    }

    /// Presses a key of the virtual display.
    pub async fn press(&mut self, key: &str) {
        self.keys.write_all(format!("{key}\n").as_bytes()).await.unwrap();
    }

    /// Stops the server and waits until it has ended.
    pub fn end(&mut self) {
        if !matches!(self.brltty.try_wait(), Ok(None)) {
            return;
        }
        let _ = Command::new("kill").args(["-TERM", &self.brltty.id().to_string()]).status();
        let end = std::time::Instant::now() + Duration::from_secs(10);
        while matches!(self.brltty.try_wait(), Ok(None)) && std::time::Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.brltty.kill();
        let _ = self.brltty.wait();
    }
}

impl Drop for TestBrltty {
    fn drop(&mut self) {
        self.end();
        // Left behind only if it had to be killed.
        let lock = format!(".{}", self.socket.file_name().unwrap_or_default().display());
        let _ = std::fs::remove_file(&self.socket);
        let _ = std::fs::remove_file(self.socket.with_file_name(lock));
    }
}
