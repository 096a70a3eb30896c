//! Arbitrary events become words that can be said: no panic, no control characters, nothing without bounds.
#![no_main]

use aaep_announce::{Announcer, SubscriberKind, Profile};
use aaep_proto::message::Message;
use aaep_proto::time::Moment;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut announcer = Announcer::new(Profile::preset(SubscriberKind::ScreenReader));
    for (n, line) in bytes.split(|b| *b == b'\n').enumerate() {
        let now = Moment::from_millis(1000 * n as u64);
        let mut said = announcer.handle_timeout(now);
        if let Ok(Message::Event(event)) = Message::parse(line) {
            said.extend(announcer.announce(now, &event));
        }
        for utterance in said {
            assert!(!utterance.text.is_empty());
            assert!(!utterance.text.chars().any(char::is_control), "{utterance:?}");
        }
    }
    announcer.catch_up(Moment::from_millis(10_000_000));
});
