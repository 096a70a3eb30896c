//! The context of every input of a state machine.

use crate::id::Entropy;
use crate::time::Now;

/// What the caller passes with every input: one reading of the clocks, and a source of random bytes.
pub struct Cx<'a> {
    /// The time.
    pub now: Now,
    /// The source of identifiers.
    pub entropy: &'a mut dyn Entropy,
}
