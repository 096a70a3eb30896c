//! The core of AAEP, the Agent Accessibility Event Protocol, without I/O.
//!
//! Agents emit events so that people who use screen readers, braille displays, captions or voice control know what an
//! agent is doing, and so that nothing irreversible happens before they said yes. This crate holds the part that needs
//! no machine: no sockets, no clock, no randomness, no threads.
//!
//! # Modules
//!
//! - [`message`]: all messages as types.
//! - [`validate`](mod@validate), [`sequence`]: the rules of one document, and of a stream of documents.
//! - [`engine`]: the state machine of a producer: sessions, subscriptions, questions.
//! - [`subscriber`]: the state machine of a subscriber: order, prompts, reconnection.
//! - [`confirm`]: questions, their outcomes, and the permit that an accepted one yields.
//! - [`negotiate`], [`filter`], [`inbound`]: requests become terms or rejections.
//! - [`shaping`], [`frame`], [`pace`]: events are fitted to the terms of a subscription.
//! - [`binding`]: paths, close codes, methods and framings of the transports.
//! - [`framing`]: files and pipes of recorded documents.
//! - [`schema`], [`record`], [`rule`]: the JSON Schemas, and the tables they share with the types and the validator.
//! - [`cx`], [`id`], [`time`], [`language`], [`json`], [`escape`], [`occupancy`], [`limits`]: small parts.
//!
//! # Driving a state machine
//!
//! [`engine::Engine`] and [`subscriber::Subscriber`] are driven alike:
//!
//! 1. Read the clocks once, and pass **one input** to the state machine, with the time and a source of random bytes in a
//!    [`cx::Cx`]: a method call of the agent, a message of a peer, or `handle_timeout` when the deadline has passed.
//! 2. **Drain the effects**: call `poll_effect` and carry out each one until it returns `Idle`.
//! 3. Wait for the next input, but no longer than the deadline in `Idle`.
//!
//! Every effect must be taken before the next input, so that they happen in the order in which they were decided. This
//! is the whole loop of an agent and one subscriber in one process, with a simulated clock:
//!
//! ```
//! use aaep_proto::cx::Cx;
//! use aaep_proto::engine::{Engine, EngineConfig, EngineEffect, ResumePolicy, SessionOptions};
//! use aaep_proto::id::Entropy;
//! use aaep_proto::message::{Message, Producer};
//! use aaep_proto::subscriber::{Subscriber, SubscriberConfig, SubscriberEffect, SubscriberEvent};
//! use aaep_proto::time::{Moment, Now, Timestamp};
//!
//! struct Counter(u8);
//! impl Entropy for Counter {
//!     fn fill(&mut self, bytes: &mut [u8]) {
//!         for byte in bytes {
//!             self.0 = self.0.wrapping_add(1);
//!             *byte = self.0;
//!         }
//!     }
//! }
//!
//! let mut entropy = Counter(0);
//! let mut millis = 0;
//! let mut engine = Engine::new(EngineConfig::new(Producer::new("planner")));
//! let mut subscriber = Subscriber::new(SubscriberConfig::new("reader-1", Default::default()));
//! let mut received = Vec::new();
//! let (mut script, mut session) = (0, None);
//! loop {
//!     let now = Now { moment: Moment::from_millis(millis), wall: Timestamp::from_millis(millis as i64) };
//!     let cx = &mut Cx { now, entropy: &mut entropy };
//!
//!     // One input each.
//!     match script {
//!         0 => subscriber.start(cx),
//!         1 => session = Some(engine.start_session(cx, SessionOptions::new("Planning your trip."))?),
//!         2 => {
//!             if let Some(session) = session.take() {
//!                 engine.complete_session(cx, &session, "Your plan is ready.")?;
//!             }
//!         }
//!         _ => break,
//!     }
//!     script += 1;
//!
//!     // Drain the effects of both, which are the inputs of the other one.
//!     let deadlines = loop {
//!         match subscriber.poll_effect() {
//!             SubscriberEffect::Connect(_) => subscriber.connected(cx, false),
//!             SubscriberEffect::Send(message) => match *message {
//!                 Message::SubscriptionRequest(request) => {
//!                     engine.subscribe(cx, &request, "local", ResumePolicy::Connection)?;
//!                 }
//!                 other => unreachable!("{other:?}"),
//!             },
//!             SubscriberEffect::Event(SubscriberEvent::Event(event)) => received.push(event.type_name().to_owned()),
//!             SubscriberEffect::Idle(deadline) => match engine.poll_effect() {
//!                 EngineEffect::Message(_, message) => subscriber.handle_message(cx, *message),
//!                 EngineEffect::Event(_, frame) => subscriber.handle_bytes(cx, frame.json()),
//!                 EngineEffect::Idle(other) => break [deadline, other],
//!                 _ => {}
//!             },
//!             _ => {}
//!         }
//!     };
//!
//!     // Wait for the next input, which comes after 10 ms here, but no longer than the first deadline. A driver calls
//!     // `handle_timeout` when a deadline has passed.
//!     let next = Moment::from_millis(millis + 10);
//!     if deadlines.into_iter().flatten().any(|deadline| deadline < next) {
//!         engine.handle_timeout(cx);
//!         subscriber.handle_timeout(cx);
//!     }
//!     millis += 10;
//! }
//! assert_eq!(received.first().map(String::as_str), Some("aaep:agent.session.started"));
//! assert_eq!(received.last().map(String::as_str), Some("aaep:agent.session.completed"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
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
