//! Many events to several captures at once: no event is lost or coalesced.

use crate::harness::{RecordingDir, events, long_recording, read, start};

#[test]
fn every_capture_receives_all_of_20000_events() {
    let dir = RecordingDir::new();
    let lines = long_recording(20_000, 1);
    let expected = events(&lines);
    let (replay, [http, ws, unix, grpc]) = dir.replay(&dir.file("x", &lines), &["--no-delay", "--wait", "6"]);
    let urls = [&http, &http, &ws, &ws, &unix, &grpc];
    let name = |index: usize| format!("y{index}");
    let captures: Vec<_> =
        urls.iter().enumerate().map(|(index, url)| start(&["capture", url, "-o", &dir.name(&name(index))])).collect();
    for (index, capture) in captures.into_iter().enumerate() {
        let left = capture.end();
        assert_eq!((left.code, left.err.as_str()), (Some(0), ""), "{}", urls[index]);
        assert!(read(&dir.path(&name(index))) == expected, "{} got something else", urls[index]);
    }
    assert_eq!(replay.end().code, Some(0));
}
