//! Killed processes: every written line is complete, and missing events are reported.

use std::io::Write;

use crate::harness::{RecordingDir, assert_begins, events, lines, long_recording, read, run, start, until};

/// Returns a recording that takes minutes to replay.
fn slow_recording() -> Vec<String> {
    long_recording(20_000, 10)
}

#[test]
fn killed_capture_leaves_complete_lines_and_the_next_appends() {
    let dir = RecordingDir::new();
    let recording = slow_recording();
    let expected = events(&recording);
    let (replay, [url, ..]) = dir.replay(&dir.file("x", &recording), &[]);
    let capture = start(&["capture", &url, "-o", &dir.name("y")]);
    until("some events", || lines(&dir.path("y")) >= 50);
    capture.signal("KILL");
    assert_eq!(capture.end().code, None);
    let written = read(&dir.path("y"));
    assert!(written.len() >= 50);
    assert_begins(&written, &expected);

    // An incomplete line, as a power cut may leave it, is removed; nothing before it is lost.
    let mut file = std::fs::OpenOptions::new().append(true).open(dir.path("y")).unwrap();
    file.write_all(br#"{"@context":"#).unwrap();
    drop(file);
    let left = run(&["capture", &url, "-o", &dir.name("y"), "--count", "3"]);
    assert_eq!(left.code, Some(0));
    assert_eq!(left.err, format!("aaep: {}: removed an incomplete line at its end, 12 bytes\n", dir.name("y")));
    let after = read(&dir.path("y"));
    assert_eq!(after.len(), written.len() + 3);
    assert_eq!(after[..written.len()], written[..]);
    replay.signal("TERM");
    assert_eq!(replay.end().code, Some(0));
}

#[test]
fn every_capture_reports_a_killed_replay() {
    let dir = RecordingDir::new();
    let recording = slow_recording();
    let expected = events(&recording);
    let (replay, urls) = dir.replay(&dir.file("x", &recording), &["--wait", "4"]);
    let name = |index: usize| format!("y{index}");
    let captures: Vec<_> =
        urls.iter().enumerate().map(|(index, url)| start(&["capture", url, "-o", &dir.name(&name(index))])).collect();
    until("some events", || (0..4).all(|index| lines(&dir.path(&name(index))) >= 50));
    replay.signal("KILL");
    assert_eq!(replay.end().code, None);
    for (index, capture) in captures.into_iter().enumerate() {
        let left = capture.end();
        let written = read(&dir.path(&name(index)));
        assert_eq!(left.code, Some(1), "{}", urls[index]);
        let told = format!("the recording is incomplete after {} events", written.len());
        assert!(left.err.contains("connection") && left.err.contains(&told), "{}: {}", urls[index], left.err);
        assert_begins(&written, &expected);
    }
}

#[test]
fn signals_stop_capture_and_replay_in_order() {
    let dir = RecordingDir::new();
    let recording = slow_recording();
    let expected = events(&recording);
    let (replay, [url, ..]) = dir.replay(&dir.file("x", &recording), &["--wait", "2"]);
    let captures = ["a", "b"].map(|name| start(&["capture", &url, "-o", &dir.name(name)]));
    until("some events", || ["a", "b"].iter().all(|name| lines(&dir.path(name)) >= 20));
    for (capture, (name, signal)) in captures.into_iter().zip([("a", "TERM"), ("b", "INT")]) {
        capture.signal(signal);
        let left = capture.end();
        assert_eq!((left.code, left.err.as_str()), (Some(0), ""), "{signal}");
        assert_begins(&read(&dir.path(name)), &expected);
    }
    let last = start(&["capture", &url, "-o", &dir.name("c")]);
    until("some events", || lines(&dir.path("c")) >= 5);
    replay.signal("TERM");
    assert_eq!(replay.end().code, Some(0));
    // The agent said goodbye: there is no more to be had.
    assert_eq!(last.end().code, Some(0));
}

#[test]
fn replay_waiting_for_its_first_subscriber_can_be_stopped() {
    let dir = RecordingDir::new();
    let (replay, _) = dir.replay(&dir.file("x", &slow_recording()), &[]);
    replay.signal("TERM");
    let left = replay.end();
    assert_eq!((left.code, left.err.as_str()), (Some(0), ""));
}
