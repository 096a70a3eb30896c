//! Fits events to the terms of a subscription.
//!
//! Where text may be cut is public, since subscribers cut text too: [`segment`] finds boundaries, [`text`] cuts at those
//! that the terms allow. The other parts are the engine's: `tailor` (language and verbosity), `fold` (coalescing),
//! `budget` (rate), and `outbox` (the queue of waiting events).

pub(crate) mod budget;
pub(crate) mod fold;
pub(crate) mod outbox;
pub mod segment;
pub(crate) mod tailor;
pub mod text;
