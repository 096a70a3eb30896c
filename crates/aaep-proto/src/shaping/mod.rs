//! Fits events to the terms of a subscription: language and verbosity ([`tailor`]), boundaries ([`segment`], [`text`]),
//! coalescing ([`fold`]), rate ([`budget`]), and the queue of waiting events ([`outbox`]).

pub mod budget;
pub mod fold;
pub mod outbox;
pub mod segment;
pub mod tailor;
pub mod text;
