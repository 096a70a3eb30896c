//! Random bytes of the operating system.

use aaep_proto::id::Entropy;

/// Random bytes of the operating system.
pub(crate) struct SystemEntropy;

impl Entropy for SystemEntropy {
    fn fill(&mut self, bytes: &mut [u8]) {
        // Without randomness ids would repeat, and subscribers would drop events as duplicates.
        getrandom::fill(bytes).expect("an operating system that runs this program has random bytes");
    }
}
