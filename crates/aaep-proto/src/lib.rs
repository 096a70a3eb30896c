//! The pure core of AAEP, the Agent Accessibility Event Protocol.
//!
//! Agents emit events so that people who use screen readers, braille displays, captions or voice
//! control know what an agent is doing, and so that nothing irreversible happens before they said
//! yes. This crate holds what needs no machine: no sockets, no clock, no randomness, no threads.
//!
//! The rooms:
//! - [`message`]: everything that is said, as types.
//! - [`validate`](mod@validate): whether one document keeps the rules.
//! - [`sequence`]: whether a stream of documents does.
//! - [`framing`]: from bytes to documents.
//! - [`schema`]: the JSON Schemas, made from the same tables as the types.
//! - [`record`]: those tables.
//! - [`engine`]: the producer's state machine: sessions, subscriptions, questions.
//! - [`subscriber`]: the listener's state machine: order, prompts, reconnection.
//! - [`inbound`]: what a producer reads from a subscriber, and the answer to what is not valid.
//! - [`negotiate`]: a request becomes terms or a refusal.
//! - [`shape`], [`frame`]: what one subscription gets, and when.
//! - [`confirm`]: questions, their outcomes, and the permit that an accepted one yields.
//! - [`id`], [`time`], [`language`], [`json`], [`rule`], [`limits`]: the small parts.
//!
//! ```
//! use aaep_proto::message::{Message, Payload};
//!
//! let line = br#"{"@context":"https://aaep-protocol.org/context/v1","type":"aaep:agent.tool.invoked",
//!   "event_id":"evt_1","session_id":"sess_1","timestamp":"2026-05-24T14:22:14.527Z",
//!   "producer":{"agent_id":"planner"},"localization_hints":{"primary_language":"en"},
//!   "tool":"fetch_balance","summary_normal":"Retrieving your balance."}"#;
//! assert!(aaep_proto::validate(line).problems.is_empty());
//! let Message::Event(event) = Message::parse(line)? else { unreachable!() };
//! let Payload::ToolInvoked(tool) = &event.payload else { unreachable!() };
//! assert_eq!(tool.tool, "fetch_balance");
//! # Ok::<(), aaep_proto::message::MessageError>(())
//! ```

pub mod binding;
pub mod confirm;
pub mod cx;
pub mod engine;
pub mod escape;
pub mod filter;
pub mod frame;
pub mod framing;
pub mod id;
pub mod inbound;
pub mod json;
pub mod language;
pub mod limits;
pub mod message;
pub mod negotiate;
pub mod occupancy;
pub mod pace;
pub mod record;
pub mod rule;
pub mod schema;
pub mod sequence;
pub mod shaping;
pub mod subscriber;
pub mod time;
pub(crate) mod to_json;
pub mod validate;

pub use rule::{Problem, Rule, Severity};
pub use sequence::SequenceChecker;
pub use validate::{Report, Validator, validate};
