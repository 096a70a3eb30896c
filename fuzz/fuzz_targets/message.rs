//! Messages: a document that the validator calls valid can be read, and survives its own text.
#![no_main]

use aaep_proto::message::Message;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let valid = aaep_proto::validate(bytes).is_valid();
    let message = Message::parse(bytes);
    assert!(!valid || message.is_ok(), "valid but unreadable: {message:?}");
    if let Ok(message) = message {
        let text = serde_json::to_vec(&message).expect("a message can be written");
        assert_eq!(Message::parse(&text), Ok(message));
    }
});
