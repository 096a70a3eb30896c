//! Braille through a real BRLTTY with a virtual display that the test controls, and hostile servers.
//!
//! Needs the Debian package brltty. Its server listens in `/var/lib/BrlAPI` under a name unique to the test.

use std::time::Duration;

use aaep_test::brltty::TestBrltty;
use aaep_test::soon;
use aaep_voice::brlapi::{BrailleConfig, KeyKind};
use aaep_voice::{Braille, BrailleError, Endpoint};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixListener;
use tokio::time::timeout;

#[tokio::test]
async fn text_is_shown_and_keys_are_received() {
    let mut brltty = TestBrltty::open().await;
    let mut display = brltty.connect().await;
    assert_eq!(soon("the driver", display.driver()).await, Ok("Virtual".into()));
    assert_eq!(display.write("too early", None).await, Err(BrailleError::NotEntered));
    assert_eq!(soon("the display", display.enter_tty_mode(&[])).await, Ok((40, 1)));
    display.write("Löschen? 3 files", None).await.unwrap();
    brltty.shows("Löschen? 3 files").await;
    display.write("abc", None).await.unwrap();
    brltty.shows("abc").await;
    let dots = brltty.shown.wait_for(|shown| shown.dots.starts_with("1|12|14| |"));
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
        brltty.press(press).await;
        assert_eq!(soon(press, display.key()).await.unwrap().kind, kind);
    }
    brltty.press("ROUTE 5").await;
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
async fn display_can_be_entered_again_after_leaving() {
    let mut brltty = TestBrltty::open().await;
    let mut display = brltty.connect().await;
    for text in ["first", "second"] {
        soon("the display", display.enter_tty_mode(&[1])).await.unwrap();
        display.write(text, Some(0)).await.unwrap();
        brltty.shows(text).await;
        soon("leaving", display.leave()).await.unwrap();
    }
    let mut other = brltty.connect().await;
    soon("the display", other.enter_tty_mode(&[1])).await.unwrap();
    other.write(&"long ".repeat(100), None).await.unwrap();
    brltty.shows(&"long ".repeat(8)).await;
    brltty.press("KEY_ENTER").await;
    assert_eq!(soon("the key", other.key()).await.unwrap().kind, KeyKind::Enter);
    assert!(timeout(Duration::from_millis(1), display.key()).await.is_err(), "a client that left gets no keys");
    drop(other);
    soon("the display", display.enter_tty_mode(&[1])).await.unwrap();
    display.write("third", None).await.unwrap();
    brltty.shows("third").await;
}

#[tokio::test]
async fn waiting_for_a_key_can_be_cancelled() {
    let mut brltty = TestBrltty::open().await;
    let mut display = brltty.connect().await;
    soon("the display", display.enter_tty_mode(&[])).await.unwrap();
    for key in [KeyKind::Enter, KeyKind::Escape] {
        for _ in 0..5 {
            assert!(timeout(Duration::from_millis(1), display.key()).await.is_err());
        }
        brltty.press(if key == KeyKind::Enter { "KEY_ENTER" } else { "KEY_ESCAPE" }).await;
        assert_eq!(soon("the key", display.key()).await.unwrap().kind, key);
    }
}

#[tokio::test]
async fn lost_display_is_reported() {
    let mut brltty = TestBrltty::open().await;
    let mut display = brltty.connect().await;
    soon("the display", display.enter_tty_mode(&[])).await.unwrap();
    brltty.end();
    assert_eq!(soon("the end", display.key()).await, Err(BrailleError::Closed));
    match soon("the refusal", Braille::connect(&brltty.config())).await.err() {
        Some(error @ BrailleError::NotRunning(_)) => assert!(error.to_string().contains("install the package brltty")),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn key_file_is_required_to_connect() {
    let brltty = TestBrltty::start(|directory| {
        std::fs::write(directory.join("key"), "a secret of the test").unwrap();
        std::fs::write(directory.join("wrong"), "another").unwrap();
        format!("keyfile:{}", directory.join("key").display())
    })
    .await;
    for (name, good) in [("wrong", false), ("absent", false), ("key", true)] {
        let key_file = brltty.directory.path().join(name);
        let config = BrailleConfig { key_file: Some(key_file.clone()), ..brltty.config() };
        match soon("the connection", Braille::connect(&config)).await {
            Ok(mut display) => {
                assert!(good);
                assert_eq!(soon("the display", display.enter_tty_mode(&[])).await, Ok((40, 1)));
            }
            Err(error) => {
                assert!(!good);
                assert_eq!(error, BrailleError::NotAllowed(key_file.display().to_string()));
            }
        }
    }
}

/// Encodes a BrlAPI packet.
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

/// Starts a server that sends these packets, whatever it receives, and then waits until the client disconnects.
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
        (packet(b'v', &[8]), BrailleError::MalformedReply("no version")),
        (b"HTTP/1.1 400 Bad Request\r\n".to_vec(), BrailleError::MalformedReply("an oversized packet")),
        (packet(b'E', &[0, 0, 0, 15, 0, 0, 0, 0]), BrailleError::Exception(15)),
        (packet(b'e', &[]), BrailleError::MalformedReply("an error without a number")),
        (packet(b'k', &[1, 2, 3]), BrailleError::MalformedReply("a key without a number")),
    ] {
        let (_directory, config) = fake(vec![says]);
        assert_eq!(soon("the error", Braille::connect(&config)).await.err(), Some(error));
    }
}

#[tokio::test]
async fn hostile_sizes_are_typed_errors() {
    for (says, error) in [
        (size(0, 0), BrailleError::NoDisplay),
        (size(u32::MAX, u32::MAX), BrailleError::MalformedReply("an impossible size")),
        (size(100_000, 1), BrailleError::MalformedReply("an impossible size")),
        (packet(b's', &[0, 0, 0, 40]), BrailleError::MalformedReply("a size without numbers")),
        ([size(40, 1), packet(b'e', &[0, 0, 0, 2])].concat(), BrailleError::Refused(2)),
    ] {
        let (_directory, config) = fake(vec![hello(), says]);
        let mut display = soon("the connection", Braille::connect(&config)).await.unwrap();
        assert_eq!(soon("the error", display.enter_tty_mode(&[])).await, Err(error));
    }
}

#[tokio::test]
async fn queued_keys_are_bounded() {
    let enter = packet(b'k', &[0, 0, 0, 0, 0, 0, 0xff, 0x0d]);
    let escape = packet(b'k', &[0, 0, 0, 0, 0, 0, 0xff, 0x1b]);
    let unknown = packet(b'?', &[7; 4096]);
    // Keys before the response are queued up to a bound; the one after it is received normally.
    let says = vec![hello(), size(40, 1), enter.repeat(5000), unknown, packet(b'A', &[]), escape];
    let (_directory, config) = fake(says);
    let mut display = soon("the connection", Braille::connect(&config)).await.unwrap();
    soon("the display", display.enter_tty_mode(&[])).await.unwrap();
    let mut count = 0;
    while soon("a key", display.key()).await.unwrap().kind == KeyKind::Enter {
        count += 1;
    }
    assert_eq!(count, 256);
}
