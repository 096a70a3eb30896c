//! Whoever is killed in the middle, every line that was written is whole, and what is missing is told.

use std::io::Write;

use crate::harness::{Room, assert_begins, events, lines, long_recording, read, run, start, until};

/// Minutes of it, so that the middle is easily met.
fn slow_recording() -> Vec<String> {
    long_recording(20_000, 10)
}

#[test]
fn a_capture_that_is_killed_leaves_whole_lines_and_the_next_goes_on() {
    let room = Room::new();
    let recording = slow_recording();
    let expected = events(&recording);
    let (replay, [url, ..]) = room.replay(&room.file("x", &recording), &[]);
    let capture = start(&["capture", &url, "-o", &room.name("y")]);
    until("some events", || lines(&room.path("y")) >= 50);
    capture.signal("KILL");
    assert_eq!(capture.end().code, None);
    let written = read(&room.path("y"));
    assert!(written.len() >= 50);
    assert_begins(&written, &expected);

    // What a power cut may leave behind is mended, and nothing before it is lost.
    let mut file = std::fs::OpenOptions::new().append(true).open(room.path("y")).unwrap();
    file.write_all(br#"{"@context":"#).unwrap();
    drop(file);
    let left = run(&["capture", &url, "-o", &room.name("y"), "--count", "3"]);
    assert_eq!(left.code, Some(0));
    assert_eq!(left.err, format!("aaep: {}: a torn line at its end was cut off, 12 bytes\n", room.name("y")));
    let after = read(&room.path("y"));
    assert_eq!(after.len(), written.len() + 3);
    assert_eq!(after[..written.len()], written[..]);
    replay.signal("TERM");
    assert_eq!(replay.end().code, Some(0));
}

#[test]
fn a_replay_that_is_killed_is_told_by_every_capture() {
    let room = Room::new();
    let recording = slow_recording();
    let expected = events(&recording);
    let (replay, urls) = room.replay(&room.file("x", &recording), &["--wait", "4"]);
    let name = |index: usize| format!("y{index}");
    let captures: Vec<_> =
        urls.iter().enumerate().map(|(index, url)| start(&["capture", url, "-o", &room.name(&name(index))])).collect();
    until("some events", || (0..4).all(|index| lines(&room.path(&name(index))) >= 50));
    replay.signal("KILL");
    assert_eq!(replay.end().code, None);
    for (index, capture) in captures.into_iter().enumerate() {
        let left = capture.end();
        let written = read(&room.path(&name(index)));
        assert_eq!(left.code, Some(1), "{}", urls[index]);
        let told = format!("The recording has {} events and is not complete.", written.len());
        assert!(left.err.contains("connection") && left.err.contains(&told), "{}: {}", urls[index], left.err);
        assert_begins(&written, &expected);
    }
}

#[test]
fn signals_end_both_in_good_order() {
    let room = Room::new();
    let recording = slow_recording();
    let expected = events(&recording);
    let (replay, [url, ..]) = room.replay(&room.file("x", &recording), &["--wait", "2"]);
    let captures = ["a", "b"].map(|name| start(&["capture", &url, "-o", &room.name(name)]));
    until("some events", || ["a", "b"].iter().all(|name| lines(&room.path(name)) >= 20));
    for (capture, (name, signal)) in captures.into_iter().zip([("a", "TERM"), ("b", "INT")]) {
        capture.signal(signal);
        let left = capture.end();
        assert_eq!((left.code, left.err.as_str()), (Some(0), ""), "{signal}");
        assert_begins(&read(&room.path(name)), &expected);
    }
    let last = start(&["capture", &url, "-o", &room.name("c")]);
    until("some events", || lines(&room.path("c")) >= 5);
    replay.signal("TERM");
    assert_eq!(replay.end().code, Some(0));
    // The agent said goodbye: there is no more to be had.
    assert_eq!(last.end().code, Some(0));
}

#[test]
fn a_replay_that_waits_for_its_first_subscriber_can_be_stopped() {
    let room = Room::new();
    let (replay, _) = room.replay(&room.file("x", &slow_recording()), &[]);
    replay.signal("TERM");
    let left = replay.end();
    assert_eq!((left.code, left.err.as_str()), (Some(0), ""));
}
