//! Bridges that make existing agents audible without changing them.
//!
//! Everything here is a state machine without I/O: lines of the two peers, answers of the user and the time come in;
//! lines, sessions, questions and tool calls come out as [`BridgeEffect`]s. A driver carries them out in order.
//!
//! | Module | For |
//! |---|---|
//! | [`mcp`] | a proxy in front of a server of the Model Context Protocol |
//! | [`acp`] | a proxy between an editor and an agent of the Agent Client Protocol |
//! | [`hooks`] | hooks of agents: payloads, answers, settings |
//! | [`gate`], [`rules`] | which tool calls the user is asked about |
//! | [`strict`], [`rpc`] | reading lines of which every parser reads the same |
//!
//! Lines are forwarded as the bytes that they were received as. What a bridge changes is listed in `docs/bridges.md`.

pub mod acp;
mod describe;
mod effect;
mod form;
pub mod gate;
pub mod hooks;
pub mod mcp;
pub mod rpc;
pub mod rules;
mod splice;
pub mod strict;

pub use effect::{
    BridgeAnswer, BridgeEffect, BridgeQuestion, CallKey, LineBridge, QuestionKey, SessionEnd, SessionKey,
};

/// The prefix of the extension in which the first event of a session says what its route can enforce.
pub const ENFORCEMENT_PREFIX: &str = "enforcement";

/// The vocabulary of the enforcement extension; see `docs/bridges.md`.
pub const ENFORCEMENT_URI: &str = "urn:aaep:extension:enforcement:1";
