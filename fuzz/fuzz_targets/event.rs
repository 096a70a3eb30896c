//! Events: validation never panics, and what can be read survives its own text.
#![no_main]

use aaep_proto::message::Event;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let report = aaep_proto::validate(bytes);
    assert!(report.problems.len() <= aaep_proto::limits::PROBLEMS_PER_DOCUMENT + 1);
    if let Ok(event) = serde_json::from_slice::<Event>(bytes) {
        let text = serde_json::to_vec(&event).expect("an event can be written");
        assert_eq!(serde_json::from_slice::<Event>(&text).expect("and read again"), event);
    }
});
