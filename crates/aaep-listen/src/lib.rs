//! The state machine of a listener: what subscribers receive and users type goes in, effects come out.
//!
//! [`Listener`] is the logic of `aaep listen` without its sockets, its terminal, its voice and its clock, so that
//! other front ends can use it: a window, a web page, a test. It numbers the questions of several producers, decides
//! which question a typed answer is for, keeps a transcript, and says what to print, to speak and to send.
//!
//! # The loop
//!
//! 1. Create a [`Listener`] with the user's profile and the addresses of the producers.
//! 2. Pass each event of a subscriber to [`handle_event`](Listener::handle_event), and each line that the user
//!    enters to [`handle_line`](Listener::handle_line).
//! 3. After each input, do what [`drain_effects`](Listener::drain_effects) returns, until it returns nothing.
//! 4. Call [`handle_timeout`](Listener::handle_timeout) no later than
//!    [`next_deadline`](Listener::next_deadline).
//!
//! ```
//! use aaep_announce::Profile;
//! use aaep_listen::{Effect, Listener};
//! use aaep_proto::subscriber::SubscriberEvent;
//! use aaep_proto::time::Moment;
//! use std::sync::Arc;
//!
//! let event = serde_json::from_str(r#"{"@context":"https://aaep-protocol.org/context/v1",
//!   "type":"aaep:agent.session.started","event_id":"evt_1","session_id":"sess_1",
//!   "timestamp":"2026-05-24T14:22:14Z","producer":{"agent_id":"bank","agent_name":"Bank"},
//!   "localization_hints":{"primary_language":"en"},"summary_normal":"Checking your accounts."}"#)?;
//!
//! let mut listener = Listener::new(Profile::default(), &["http://localhost:8080".to_owned()]);
//! listener.handle_event(Moment::from_millis(0), 0, SubscriberEvent::Event(Arc::new(event)));
//!
//! let mut printed = Vec::new();
//! for effect in listener.drain_effects() {
//!     match effect {
//!         Effect::PrintLine(line) => printed.push(line.to_text()),
//!         Effect::Speak(_utterance) => { /* pass it to a voice */ }
//!         _ => {}
//!     }
//! }
//! assert_eq!(printed, ["Note: Listening to Bank at http://localhost:8080.", "Start: Checking your accounts."]);
//!
//! listener.handle_line(Moment::from_millis(900), "close");
//! assert!(listener.drain_effects().contains(&Effect::Exit));
//! # Ok::<(), serde_json::Error>(())
//! ```
//!
//! # Modules
//!
//! - `listener.rs`: [`Listener`] and its producers; `prompts.rs`: its questions; `output.rs`: its lines and speech.
//! - `command.rs` parses a typed line; `run_command.rs` runs it.
//! - `agent_names.rs` tells agents of one name apart.
//! - `answer_router.rs` decides which question an answer is for; `questions.rs` numbers questions and reads answers.
//! - `control.rs`: requests from other processes of the user, and answers of the user's own command.
//! - `line.rs`, `effect.rs`, `transcript.rs`, `escape.rs`: what is printed, done, kept and escaped.

mod agent_names;
mod answer_router;
mod cancel;
mod command;
mod control;
mod effect;
mod escape;
mod line;
mod listener;
mod output;
mod prompts;
mod questions;
mod run_command;
#[cfg(test)]
mod test_support;
#[cfg(test)]
mod tests;
mod transcript;

pub use command::MAX_LINE_BYTES;
pub use control::{ControlRequest, ControlResponse};
pub use effect::Effect;
pub use escape::{Escaped, is_unsafe_to_print};
pub use line::{Line, LineKind};
pub use listener::{AnswerError, Listener};
