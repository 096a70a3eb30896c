//! Streams: framing and sequencing never panic, and where the input is cut changes nothing.
#![no_main]

use aaep_proto::framing::{AutoDecoder, Decoded};
use aaep_proto::message::Message;
use aaep_proto::SequenceChecker;
use libfuzzer_sys::fuzz_target;

fn read(chunks: &[&[u8]]) -> Vec<(u64, Vec<u8>)> {
    let mut mixed = AutoDecoder::new(4096);
    let mut sequence = SequenceChecker::new();
    let mut documents = Vec::new();
    let mut sink = |line: u64, piece: Decoded<'_>| {
        if let Decoded::Document(bytes) = piece {
            if let Ok(message) = Message::parse(bytes) {
                sequence.observe(&message);
            }
            documents.push((line, bytes.to_vec()));
        }
    };
    for chunk in chunks {
        mixed.push(chunk, &mut sink);
    }
    mixed.finish(&mut sink);
    documents
}

fuzz_target!(|bytes: &[u8]| {
    let (first, second) = bytes.split_at(bytes.len() / 2);
    assert_eq!(read(&[bytes]), read(&[first, second]));
});
