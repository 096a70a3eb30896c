//! What a listener hears: events and a user's profile become utterances.
//!
//! Agents write for the eye: Markdown, tables, spinners, tokens. People who listen need whole sentences, few of them,
//! in their language, and every question with all that is needed to decide. This crate makes the second out of the
//! first. It is as pure as the core: no clock, no I/O. Time comes in as an argument, words come out.
//!
//! # The loop
//!
//! 1. Read or make a [`Profile`]; ask the producer for [`Profile::capabilities`].
//! 2. Give each event to [`Announcer::announce`] and say what comes out; a [`Pacer`] keeps a voice from falling behind.
//! 3. Call [`Announcer::handle_timeout`] no later than [`Announcer::next_deadline`]: signs of life, reminders, sums of tools.
//! 4. Tell it what only the connection knows: [`Announcer::connection_notice`], [`Announcer::prompt_ended`].
//! 5. Answer the user: [`Announcer::catch_up`], [`Announcer::status`], [`Announcer::waiting`].
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
//! # What it promises
//!
//! - **Nothing critical is left out.** Questions, failures and handoffs are said in quiet hours and under low load.
//! - **A question is exact.** Addresses, paths, commands and numbers of a question are said to the last symbol, hidden
//!   and look-alike characters are named. Everywhere else they are shortened to what can be listened to.
//! - **No long speeches.** No utterance is longer than [`Profile::max_utterance_words`].
//! - **No fragments.** Streamed text is held until a sentence, a row, a block of code has ended.
//! - **Nothing twice in a row** about the same thing, apart from output that repeats itself.
//! - **Nothing unspeakable.** No control, drawing or zero-width character comes out of [`listenable`].
//! - **Bounded.** Sessions, questions, tools, outputs and texts have bounds, whatever an agent sends.
//! - **One language per utterance**: that of the text it carries. Fixed phrases come in the user's first language that
//!   `locales/` has; all but English wait for review by native speakers.
//!
//! # The rooms
//!
//! - [`Profile`]: what the user wants. [`Phrases`]: fixed words, by Fluent.
//! - [`listenable`]: text to words: glyphs, blocks, lines, words, code.
//! - `announcer/`: the state machine. `words.rs` picks the text, `output.rs` holds streams, `prompt.rs` puts questions,
//!   `tools.rs` sums up, `endings.rs` ends, `pulse.rs` breaks the silence, `digest.rs` answers the user.

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
pub use utterance::{Earcon, Priority, Utterance};
