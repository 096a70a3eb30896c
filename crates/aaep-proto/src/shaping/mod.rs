//! From what an agent says to what one subscription gets: filter, language and verbosity, cognitive
//! load, coalescing, pace, and the box of events that wait.

pub mod budget;
pub mod fold;
pub mod outbox;
pub mod segment;
pub mod tailor;
pub mod text;
