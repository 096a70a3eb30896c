//! Braille through a real BRLTTY with a virtual display that the test holds in its hands, and hostile servers.
//!
//! Needs the Debian package brltty. Its server listens in `/var/lib/BrlAPI` under a name that is the test's own.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on should stop")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use aaep_voice::brlapi::{BrailleConfig, KeyKind};
use aaep_voice::{Braille, BrailleError, Endpoint};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixListener;
use tokio::net::unix::OwnedWriteHalf;
use tokio::sync::watch;
use tokio::time::timeout;

/// Far longer than anything takes, also on a busy machine.
const LONG: Duration = Duration::from_secs(120);

async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    timeout(LONG, future).await.unwrap_or_else(|_| panic!("waited too long for {what}"))
}

/// What BRLTTY says when it starts.
const GREETING: &str = "the display is ready";

/// What is on the display.
#[derive(Default)]
struct Shown {
    text: String,
    dots: String,
    /// Whether the greeting was there before.
    greeted: bool,
}

/// A BRLTTY of the test's own, and the display that it drives.
struct Place {
    directory: TempDir,
    brltty: Child,
    socket: PathBuf,
    shown: watch::Receiver<Shown>,
    keys: OwnedWriteHalf,
}

impl Place {
    async fn start(auth: impl FnOnce(&Path) -> String) -> Place {
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
        let mut place = Place { directory, brltty, socket, shown, keys };
        let greeted = place.shown.wait_for(|shown| shown.greeted);
        let log = || std::fs::read_to_string(place.directory.path().join("log")).unwrap_or_default();
        let ready = timeout(LONG, greeted).await.is_ok_and(|greeted| greeted.is_ok());
        assert!(ready, "BRLTTY does not start: {}", log());
        place.shows("no screen").await;
        place
    }

    async fn open() -> Place {
        Place::start(|_| "none".into()).await
    }

    fn config(&self) -> BrailleConfig {
        BrailleConfig { address: Some(Endpoint::Unix(self.socket.clone())), key_file: None }
    }

    async fn connect(&self) -> Braille {
        soon("the connection", Braille::connect(&self.config())).await.unwrap()
    }

    /// Waits until the display shows this text, and blanks after it.
    async fn shows(&mut self, text: &str) {
        let line = format!("{text:40}");
        let mut seen = String::new();
        let shown = self.shown.wait_for(|shown| {
            seen = shown.text.clone();
            shown.text == line
        });
        let waited = timeout(LONG, shown).await.is_ok_and(|shown| shown.is_ok());
        let log = || std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default();
        assert!(waited, "the display shows {seen:?}, not {line:?}; BRLTTY says: {}", log());
    }

    async fn press(&mut self, key: &str) {
        self.keys.write_all(format!("{key}\n").as_bytes()).await.unwrap();
    }

    fn end(&mut self) {
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

impl Drop for Place {
    fn drop(&mut self) {
        self.end();
        // Left behind only if it had to be killed.
        let lock = format!(".{}", self.socket.file_name().unwrap_or_default().display());
        let _ = std::fs::remove_file(&self.socket);
        let _ = std::fs::remove_file(self.socket.with_file_name(lock));
    }
}

#[tokio::test]
async fn text_reaches_the_display_and_keys_come_back() {
    let mut place = Place::open().await;
    let mut display = place.connect().await;
    assert_eq!(soon("the driver", display.driver()).await, Ok("Virtual".into()));
    assert_eq!(display.write("too early", None).await, Err(BrailleError::NotEntered));
    assert_eq!(soon("the display", display.enter(&[])).await, Ok((40, 1)));
    display.write("Löschen? 3 files", None).await.unwrap();
    place.shows("Löschen? 3 files").await;
    display.write("abc", None).await.unwrap();
    place.shows("abc").await;
    let dots = place.shown.wait_for(|shown| shown.dots.starts_with("1|12|14| |"));
    soon("the dots of abc", dots).await.unwrap();
    for (press, kind) in [
        ("KEY_ENTER", KeyKind::Enter),
        ("KEY_ESCAPE", KeyKind::Escape),
        ("KEY_CURSOR_UP", KeyKind::Up),
        ("FWINLT", KeyKind::PanLeft),
        ("FWINRT", KeyKind::PanRight),
        ("LNUP", KeyKind::LineUp),
        ("LNDN", KeyKind::LineDown),
        ("TOP", KeyKind::Top),
        ("HOME", KeyKind::ToCursor),
        ("PASSCHAR 121", KeyKind::Character('y')),
    ] {
        place.press(press).await;
        assert_eq!(soon(press, display.key()).await.unwrap().kind, kind);
    }
    place.press("ROUTE 5").await;
    let KeyKind::Route(cell) = soon("the routing key", display.key()).await.unwrap().kind else {
        panic!("no routing key");
    };
    // The driver's manual counts from 1, its code from 0.
    assert!((4..=5).contains(&cell), "{cell}");
    assert_eq!(soon("leaving", display.leave()).await, Ok(()));
    assert_eq!(display.leave().await, Err(BrailleError::NotEntered));
    assert_eq!(display.write("too late", None).await, Err(BrailleError::NotEntered));
}

#[tokio::test]
async fn the_display_can_be_taken_again_and_is_given_back() {
    let mut place = Place::open().await;
    let mut display = place.connect().await;
    for text in ["first", "second"] {
        soon("the display", display.enter(&[1])).await.unwrap();
        display.write(text, Some(0)).await.unwrap();
        place.shows(text).await;
        soon("leaving", display.leave()).await.unwrap();
    }
    let mut other = place.connect().await;
    soon("the display", other.enter(&[1])).await.unwrap();
    other.write(&"long ".repeat(100), None).await.unwrap();
    place.shows(&"long ".repeat(8)).await;
    place.press("KEY_ENTER").await;
    assert_eq!(soon("the key", other.key()).await.unwrap().kind, KeyKind::Enter);
    assert!(timeout(Duration::from_millis(1), display.key()).await.is_err(), "who has left gets no keys");
    drop(other);
    soon("the display", display.enter(&[1])).await.unwrap();
    display.write("third", None).await.unwrap();
    place.shows("third").await;
}

#[tokio::test]
async fn a_wait_for_a_key_can_be_given_up() {
    let mut place = Place::open().await;
    let mut display = place.connect().await;
    soon("the display", display.enter(&[])).await.unwrap();
    for key in [KeyKind::Enter, KeyKind::Escape] {
        for _ in 0..5 {
            assert!(timeout(Duration::from_millis(1), display.key()).await.is_err());
        }
        place.press(if key == KeyKind::Enter { "KEY_ENTER" } else { "KEY_ESCAPE" }).await;
        assert_eq!(soon("the key", display.key()).await.unwrap().kind, key);
    }
}

#[tokio::test]
async fn a_display_that_goes_away_is_told() {
    let mut place = Place::open().await;
    let mut display = place.connect().await;
    soon("the display", display.enter(&[])).await.unwrap();
    place.end();
    assert_eq!(soon("the end", display.key()).await, Err(BrailleError::Closed));
    match soon("the refusal", Braille::connect(&place.config())).await.err() {
        Some(error @ BrailleError::NotRunning(_)) => assert!(error.to_string().contains("install the package brltty")),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_key_file_opens_the_door() {
    let place = Place::start(|directory| {
        std::fs::write(directory.join("key"), "a secret of the test").unwrap();
        std::fs::write(directory.join("wrong"), "another").unwrap();
        format!("keyfile:{}", directory.join("key").display())
    })
    .await;
    for (name, good) in [("wrong", false), ("absent", false), ("key", true)] {
        let key_file = place.directory.path().join(name);
        let config = BrailleConfig { key_file: Some(key_file.clone()), ..place.config() };
        match soon("the connection", Braille::connect(&config)).await {
            Ok(mut display) => {
                assert!(good);
                assert_eq!(soon("the display", display.enter(&[])).await, Ok((40, 1)));
            }
            Err(error) => {
                assert!(!good);
                assert_eq!(error, BrailleError::NotAllowed(key_file.display().to_string()));
            }
        }
    }
}

/// A packet of the protocol.
fn packet(kind: u8, content: &[u8]) -> Vec<u8> {
    let size = u32::try_from(content.len()).unwrap();
    [&size.to_be_bytes()[..], &[0, 0, 0, kind], content].concat()
}

fn hello() -> Vec<u8> {
    [packet(b'v', &[0, 0, 0, 8]), packet(b'a', &[0, 0, 0, b'N'])].concat()
}

fn size(columns: u32, rows: u32) -> Vec<u8> {
    packet(b's', &[columns.to_be_bytes(), rows.to_be_bytes()].concat())
}

/// A server that says this, whatever it is asked, and then waits until its client goes.
fn fake(says: Vec<Vec<u8>>) -> (TempDir, BrailleConfig) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("fake.sock");
    let listener = UnixListener::bind(&path).unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let _ = stream.write_all(&says.concat()).await;
        let _ = stream.read_to_end(&mut Vec::new()).await;
    });
    (directory, BrailleConfig { address: Some(Endpoint::Unix(path)), key_file: None })
}

#[tokio::test]
async fn hostile_greetings_are_typed_errors() {
    for (says, error) in [
        (packet(b'v', &[0, 0, 0, 9]), BrailleError::Version(9)),
        (packet(b'v', &[8]), BrailleError::Garbled("no version")),
        (b"HTTP/1.1 400 Bad Request\r\n".to_vec(), BrailleError::Garbled("an oversized packet")),
        (packet(b'E', &[0, 0, 0, 15, 0, 0, 0, 0]), BrailleError::Exception(15)),
        (packet(b'e', &[]), BrailleError::Garbled("an error without a number")),
        (packet(b'k', &[1, 2, 3]), BrailleError::Garbled("a key without a number")),
    ] {
        let (_directory, config) = fake(vec![says]);
        assert_eq!(soon("the error", Braille::connect(&config)).await.err(), Some(error));
    }
}

#[tokio::test]
async fn hostile_sizes_are_typed_errors() {
    for (says, error) in [
        (size(0, 0), BrailleError::NoDisplay),
        (size(u32::MAX, u32::MAX), BrailleError::Garbled("an impossible size")),
        (size(100_000, 1), BrailleError::Garbled("an impossible size")),
        (packet(b's', &[0, 0, 0, 40]), BrailleError::Garbled("a size without numbers")),
        ([size(40, 1), packet(b'e', &[0, 0, 0, 2])].concat(), BrailleError::Refused(2)),
    ] {
        let (_directory, config) = fake(vec![hello(), says]);
        let mut display = soon("the connection", Braille::connect(&config)).await.unwrap();
        assert_eq!(soon("the error", display.enter(&[])).await, Err(error));
    }
}

#[tokio::test]
async fn a_flood_of_keys_is_bounded() {
    let enter = packet(b'k', &[0, 0, 0, 0, 0, 0, 0xff, 0x0d]);
    let escape = packet(b'k', &[0, 0, 0, 0, 0, 0, 0xff, 0x1b]);
    let unknown = packet(b'?', &[7; 4096]);
    // The keys before the answer are kept up to a bound; the one after it comes as always.
    let says = vec![hello(), size(40, 1), enter.repeat(5000), unknown, packet(b'A', &[]), escape];
    let (_directory, config) = fake(says);
    let mut display = soon("the connection", Braille::connect(&config)).await.unwrap();
    soon("the display", display.enter(&[])).await.unwrap();
    let mut count = 0;
    while soon("a key", display.key()).await.unwrap().kind == KeyKind::Enter {
        count += 1;
    }
    assert_eq!(count, 256);
}
