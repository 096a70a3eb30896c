//! Many events to several captures at once: nothing is lost, nothing is folded, for nobody.

use crate::harness::{Room, events, long_recording, read, start};

#[test]
fn twenty_thousand_events_reach_everyone() {
    let room = Room::new();
    let lines = long_recording(20_000, 1);
    let expected = events(&lines);
    let (replay, [http, ws, unix, grpc]) = room.replay(&room.file("x", &lines), &["--no-delay", "--wait", "6"]);
    let urls = [&http, &http, &ws, &ws, &unix, &grpc];
    let name = |index: usize| format!("y{index}");
    let captures: Vec<_> =
        urls.iter().enumerate().map(|(index, url)| start(&["capture", url, "-o", &room.name(&name(index))])).collect();
    for (index, capture) in captures.into_iter().enumerate() {
        let left = capture.end();
        assert_eq!((left.code, left.err.as_str()), (Some(0), ""), "{}", urls[index]);
        assert!(read(&room.path(&name(index))) == expected, "{} got something else", urls[index]);
    }
    assert_eq!(replay.end().code, Some(0));
}
