//! Random bytes of the operating system.

use std::fmt;

use aaep_proto::id::Entropy;

/// Random bytes that are read from the operating system at once: every event needs some.
const BUFFER_BYTES: usize = 1024;

/// Random bytes of the operating system, each used once.
///
/// Filling panics if the operating system has no random bytes: ids would repeat, and reply tokens could be guessed.
#[derive(Default)]
pub struct SystemEntropy {
    unused: Vec<u8>,
}

impl Entropy for SystemEntropy {
    fn fill(&mut self, bytes: &mut [u8]) {
        if self.unused.len() < bytes.len() {
            self.unused.resize(BUFFER_BYTES.max(bytes.len()), 0);
            getrandom::fill(&mut self.unused).expect("an operating system that runs this program has random bytes");
        }
        let rest = self.unused.len() - bytes.len();
        bytes.copy_from_slice(&self.unused[rest..]);
        self.unused.truncate(rest);
    }
}

/// Leaves out the bytes, which become reply tokens.
impl fmt::Debug for SystemEntropy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SystemEntropy").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_bytes_are_returned_twice() {
        let mut entropy = SystemEntropy::default();
        let mut seen = BTreeSet::new();
        // More than two buffers, in pieces that do not divide one.
        for _ in 0..200 {
            let mut bytes = [0; 15];
            entropy.fill(&mut bytes);
            assert!(seen.insert(bytes));
        }
    }

    #[test]
    fn request_larger_than_the_buffer_is_filled() {
        let mut bytes = [0; 2 * BUFFER_BYTES];
        SystemEntropy::default().fill(&mut bytes);
        assert!(bytes.chunks(32).all(|chunk| chunk.iter().any(|byte| *byte != 0)));
    }
}
