//! A listener that hears arbitrary lines, with time passing: it never panics, never loops, never answers by itself.
#![no_main]

use aaep_proto::id::Entropy;
use aaep_proto::message::{Capabilities, Message};
use aaep_proto::subscriber::{SubscriberConfig, Cx, SubscriberEffect, Subscriber};
use aaep_proto::time::{Moment, Now, Timestamp};
use libfuzzer_sys::fuzz_target;

struct Counter(u8);

impl Entropy for Counter {
    fn fill(&mut self, bytes: &mut [u8]) {
        self.0 = self.0.wrapping_add(1);
        bytes.fill(self.0);
    }
}

fuzz_target!(|bytes: &[u8]| {
    let mut entropy = Counter(0);
    let mut subscriber = Subscriber::new(SubscriberConfig::new("fuzz", Capabilities::default()));
    let mut act = |millis: u64, input: &mut dyn FnMut(&mut Subscriber, &mut Cx<'_>)| {
        let wall = Timestamp::from_millis(1_780_000_000_000 + millis as i64);
        let now = Now { moment: Moment::from_millis(millis), wall };
        input(&mut subscriber, &mut Cx { now, entropy: &mut entropy });
        for _ in 0..100_000 {
            match subscriber.poll_effect() {
                SubscriberEffect::Idle(_) => return,
                SubscriberEffect::Send(message) => assert!(!matches!(
                    *message,
                    Message::ConfirmationReply(_) | Message::ClarificationReply(_)
                )),
                _ => {}
            }
        }
        panic!("it never comes to rest");
    };
    act(0, &mut |s, cx| s.start(cx));
    act(1, &mut |s, cx| s.connected(cx, false));
    for (n, line) in bytes.split(|b| *b == b'\n').enumerate() {
        let millis = 2 + 37 * n as u64;
        act(millis, &mut |s, cx| s.handle_bytes(cx, line));
        act(millis, &mut |s, cx| s.handle_timeout(cx));
    }
});
