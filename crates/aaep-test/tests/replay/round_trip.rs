//! A capture of a replay equals the recording, event by event, over every transport.

use aaep_test::aaep;

use crate::harness::{RecordingDir, events, read, recording, run, start};

#[test]
fn capture_of_a_replay_equals_the_recording_over_every_transport() {
    let dir = RecordingDir::new();
    let lines = recording();
    let expected = events(&lines);
    let first = dir.file("x", &lines);
    let check = run(&["validate", &first]);
    assert_eq!(check.code, Some(0), "{check:?}");
    let (replay, urls) = dir.replay(&first, &["--no-delay", "--wait", "4"]);
    let captures: Vec<_> = urls
        .iter()
        .enumerate()
        .map(|(index, url)| start(&["capture", url, "-o", &dir.name(&format!("y{index}"))]))
        .collect();
    for (index, capture) in captures.into_iter().enumerate() {
        let left = capture.end();
        assert_eq!((left.code, left.err.as_str()), (Some(0), ""), "{}", urls[index]);
        assert_eq!(read(&dir.path(&format!("y{index}"))), expected, "{}", urls[index]);
    }
    let left = replay.end();
    assert_eq!((left.code, left.err.as_str()), (Some(0), ""));

    // The capture can be replayed like the first recording.
    let (replay, [url, ..]) = dir.replay(&dir.name("y0"), &["--no-delay"]);
    let left = run(&["capture", &url]);
    assert_eq!((left.code, left.err.as_str()), (Some(0), ""));
    assert_eq!(events(&left.out), expected);
    assert_eq!(replay.end().code, Some(0));
}

#[test]
fn capture_of_a_replay_equals_the_recording_over_stdio() {
    let dir = RecordingDir::new();
    let lines = recording();
    let (file, written) = (dir.file("x", &lines), dir.name("y"));
    let program = aaep().to_str().unwrap();
    let left = run(&["capture", "stdio:", "-o", &written, "--", program, "replay", "--stdio", "--no-delay", &file]);
    assert_eq!((left.code, left.err.as_str()), (Some(0), ""));
    assert_eq!(read(&dir.path("y")), events(&lines));
}

#[test]
fn fresh_ids_change_ids_and_nothing_else() {
    let dir = RecordingDir::new();
    let lines = recording();
    let (replay, [_, _, url, _]) = dir.replay(&dir.file("x", &lines), &["--no-delay", "--fresh-ids"]);
    let left = run(&["capture", &url]);
    assert_eq!(replay.end().code, Some(0));
    let (heard, expected) = (events(&left.out), events(&lines));
    assert_eq!(heard.len(), expected.len());
    for (mut is, should) in heard.into_iter().zip(expected) {
        for name in ["event_id", "session_id"] {
            assert_ne!(is[name], should[name]);
        }
        for name in ["event_id", "session_id", "reply_token", "tool_call_id", "output_id"] {
            if should.get(name).is_some() {
                assert_ne!(is[name], should[name]);
                is[name] = should[name].clone();
            }
        }
        assert_eq!(is, should);
    }
}

#[test]
fn loop_repeats_with_fresh_ids_until_stopped() {
    let dir = RecordingDir::new();
    let lines = recording();
    let expected = events(&lines);
    let (replay, [url, ..]) = dir.replay(&dir.file("x", &lines), &["--no-delay", "--loop"]);
    let twice = (2 * expected.len()).to_string();
    let left = run(&["capture", &url, "--count", &twice]);
    assert_eq!((left.code, left.err.as_str()), (Some(0), ""));
    let heard = events(&left.out);
    assert_eq!(heard[..expected.len()], expected[..]);
    let mut ids: Vec<&str> = heard.iter().map(|event| event["event_id"].as_str().unwrap()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), heard.len(), "an id came twice");
    replay.signal("TERM");
    assert_eq!(replay.end().code, Some(0));
}
