//! How the demo ends.

use std::process::Command;

use aaep_test::{Process, aaep};
use serde_json::Value;

use super::agents::Demo;
use super::said::heard;
use super::tmux::Tmux;
use aaep_test::speechd::TestSpeechd;

#[test]
fn stop_signal_right_after_the_start_ends_the_demo_cleanly() {
    // Several times, because the race with the signal handler does not always show.
    for _ in 0..10 {
        let mut command = Command::new(aaep());
        command.args(["demo", "banking", "--listen", "127.0.0.1:0", "--no-unix", "--no-input"]);
        let mut demo = Process::start(&mut command);
        demo.find("its address", |line| line.contains("http://").then_some(()));
        demo.terminate();
        assert_eq!(demo.wait().code(), Some(0));
    }
}

const ENDED: &str = "Demo has ended the connection. You will be told when it is back.";

#[test]
fn demo_ends_only_after_listeners_received_everything() {
    let demo = Demo::start(&["greetings", "--once", "--no-pauses"]);
    let home = tempfile::tempdir().unwrap();
    let mut command = Command::new(aaep());
    command.args(["listen", "--json", &demo.url]);
    command.env("HOME", home.path()).env("XDG_RUNTIME_DIR", home.path());
    let listener = Process::start(&mut command);
    // Everything is sent at once, but this listener receives it at the pace of speech.
    let last = listener.find("the end of the session", |line| {
        let line: Value = serde_json::from_str(line).unwrap();
        assert_ne!(line["text"], ENDED);
        (line["kind"] == "end").then_some(line)
    });
    assert_eq!(last["text"], "Done. The opening hours are ready in five languages.");
    // A clean end is not reported as a fault.
    let then = listener.find("the next line", |line| Some(serde_json::from_str::<Value>(line).unwrap()));
    assert_eq!(then["text"], ENDED);
}

/// The arguments of a demo that writes a long report as fast as it can.
const REPORT: [&str; 6] = ["demo", "report", "--no-pauses", "--no-unix", "--listen", "127.0.0.1:0"];
/// The end of the report, and the end of its session.
const ENDS: [&str; 2] = ["Nothing has been ordered.", "Done. The report about water in the garden is ready."];

#[test]
fn report_is_printed_to_its_end_and_not_at_the_pace_of_speech() {
    let start = std::time::Instant::now();
    let tmux = Tmux::start(&REPORT, &[]);
    let text = tmux.sees("exit code: 0");
    // At the pace of speech, 180 words per minute, it takes more than 70 seconds.
    assert!(start.elapsed() < std::time::Duration::from_secs(60), "it took {:?}", start.elapsed());
    let order = ["Heading: Water in the garden.", ENDS[0], &format!("End: {}", ENDS[1]), "exit code: 0"];
    assert!(order.map(|part| text.find(part).unwrap_or_else(|| panic!("{part:?} in {text}"))).is_sorted(), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn report_is_spoken_to_its_end_before_the_demo_ends() {
    let mut place = TestSpeechd::held();
    place.go();
    place.serve().await;
    let address = format!("unix_socket:{}", place.path("tap.sock").display());
    let profile = place.path("profile.toml");
    // Fast for a voice, but more than half a minute for the report.
    std::fs::write(&profile, "pace_wpm = 300").unwrap();
    let words = [&REPORT[..], &["--speak", "--profile", profile.to_str().unwrap()]].concat();
    let tmux = Tmux::start(&words, &[("SPEECHD_ADDRESS", &address)]);
    tokio::task::spawn_blocking(move || drop(tmux.sees("exit code: 0"))).await.unwrap();
    let heard: Vec<String> = heard(&place).into_iter().map(|said| said.text).collect();
    let [.., text, end] = heard.as_slice() else { panic!("{heard:?}") };
    assert!(text.ends_with(ENDS[0]) && end == ENDS[1], "{heard:#?}");
}
