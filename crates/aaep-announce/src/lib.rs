//! Announcements: events and a user's profile become utterances.
//!
//! Agents write for the eye: Markdown, tables, spinners, tokens. People who listen need whole sentences, few of them,
//! in their language, and every question with all that is needed to decide. This crate turns the first into the second.
//! It is as pure as the core: no clock, no I/O. Events and time are arguments, utterances are results.
//!
//! # The loop
//!
//! 1. Read or make a [`Profile`]; ask the producer for [`Profile::capabilities`].
//! 2. Pass each event to [`Announcer::announce`] and speak the result; a [`Pacer`] keeps a voice from falling behind.
//! 3. Call [`Announcer::handle_timeout`] no later than [`Announcer::next_deadline`]: heartbeats,
//!    reminders, sums of tool calls.
//! 4. Report what only the connection knows: [`Announcer::connection_notice`], [`Announcer::prompt_ended`].
//! 5. Respond to the user: [`Announcer::catch_up`], [`Announcer::status`], [`Announcer::open_questions`],
//!    [`Announcer::repeat_question`].
//!
//! ```
//! use aaep_announce::{Announcer, Earcon, SubscriberKind, Priority, Profile};
//! use aaep_proto::{message::Event, time::Moment};
//!
//! let event: Event = serde_json::from_str(r#"{"@context":"https://aaep-protocol.org/context/v1",
//!   "type":"aaep:agent.awaiting.confirmation","event_id":"evt_1","session_id":"sess_1",
//!   "timestamp":"2026-05-24T14:22:14Z","producer":{"agent_id":"bank","agent_name":"Bank"},"urgency":"critical",
//!   "localization_hints":{"primary_language":"en"},"action":"Move $500 to checking.",
//!   "consequence":"You will have $20 in savings.","reply_token":"rpl_1","timeout_seconds":120,
//!   "default_decision":"reject","irreversible":true,"risk_level":"high"}"#)?;
//!
//! let mut announcer = Announcer::new(Profile::preset(SubscriberKind::ScreenReader));
//! let said = announcer.announce(Moment::from_millis(0), &event);
//! assert_eq!(said[0].text, "Bank asks: Move $500 to checking.");
//! assert_eq!((said[0].priority, said[0].earcon), (Priority::Important, Some(Earcon::Prompt)));
//! assert_eq!(said[3].text, "You have 2 minutes to answer. Without an answer it will not be done. Answer yes or no.");
//! # Ok::<(), serde_json::Error>(())
//! ```
//!
//! # Guarantees
//!
//! - **Nothing critical is left out.** Questions, failures and handoffs are announced in quiet hours and under low load.
//! - **A question is one block.** Its headline, consequence, reversibility, time and the way to answer follow one
//!   another; other speech that waits comes after them or is dropped ([`Turn`]).
//! - **A question is exact.** Addresses, paths, commands and numbers of a question are spoken to the last symbol, hidden
//!   and look-alike characters are named. Everywhere else they are shortened.
//! - **No long speeches.** No utterance is longer than [`Profile::max_utterance_words`].
//! - **No fragments.** Streamed text is held until a sentence, a row, a block of code has ended.
//! - **Nothing twice in a row** about the same thing, apart from output that repeats itself.
//! - **Nothing unspeakable.** No control, drawing or zero-width character is in a result of [`speakable`].
//! - **Bounded.** Sessions, questions, tools, outputs and texts have bounds, whatever an agent sends.
//! - **One language per utterance**: that of the text it carries. Fixed phrases come in the user's first language that
//!   `locales/` has; all but English wait for review by native speakers.
//!
//! # Modules
//!
//! - [`Profile`]: the wishes of the user. [`Phrases`]: fixed phrases, by Fluent.
//! - [`speakable`]: glyphs, blocks, lines, words and code, made speakable.
//! - `announcer/`: the state machine. `words.rs` selects the text, `output.rs` holds streams, `prompt.rs` announces
//!   questions, `tools.rs` sums tool calls up, `endings.rs` announces ends, `heartbeat.rs` breaks the silence,
//!   `digest.rs` responds to the user.

mod announcer;
mod pacer;
mod phrases;
mod profile;
pub mod speakable;
mod utterance;

pub use announcer::{Announcer, ConnectionNotice, PromptResolution};
pub use pacer::Pacer;
pub use phrases::{Arg, Phrases};
pub use profile::{CodePolicy, ParseProfileError, Profile, Punctuation, QuietHours, SubscriberKind, TimeOfDay};
pub use utterance::{Earcon, Priority, Turn, Utterance};
