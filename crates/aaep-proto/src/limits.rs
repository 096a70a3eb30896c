//! Every bound of the core, with its reason.

/// Soft bound of a serialized event (3.7): larger is a warning, not an error.
pub const EVENT_BYTES: usize = 64 * 1024;
/// Hard bound of one message on any transport (8.3 asks transports to carry this much).
pub const MESSAGE_BYTES: usize = 1024 * 1024;
/// Soft bound of top-level fields (3.7).
pub const TOP_LEVEL_FIELDS: usize = 32;
/// Soft bound of nesting, the event itself being level 1 (3.7).
pub const DEPTH: usize = 8;
/// Soft bound of any string (3.7).
pub const STRING_BYTES: usize = 16 * 1024;
/// Most problems kept per document: a hostile document must not grow a report without end.
pub const PROBLEMS: usize = 256;
/// Most characters of a name that a report repeats.
pub const NAME_CHARACTERS: usize = 128;
/// Sessions that the sequence checker follows at once; beyond, the longest silent one is let go.
pub const OPEN_SESSIONS: usize = 4096;
/// Ended sessions whose ids are remembered.
pub const ENDED_SESSIONS: usize = 65_536;
/// Event ids remembered to find one used twice.
pub const EVENT_IDS: usize = 65_536;
/// Reply tokens remembered to find one issued twice.
pub const REPLY_TOKENS: usize = 16_384;
/// How far the clocks of a producer and a subscriber may differ, in seconds.
pub const CLOCK_SKEW_SECONDS: u64 = 5;
/// Tool calls, outputs or questions that the sequence checker follows in one session.
pub const PER_SESSION: usize = 1024;
/// Most characters of one output chunk (4.3.3).
pub const CHUNK_CHARS: usize = 16_384;
/// Text that is put together for a listener with a pace takes at most this long to announce: a question that
/// comes meanwhile must not wait behind minutes of speech.
pub const SPOKEN_SECONDS: u64 = 20;
/// Events that may wait for one subscription; above, it is closed, since nothing may be dropped.
pub const HELD_EVENTS: usize = 1024;
/// Bytes of text that may wait for one subscription.
pub const HELD_BYTES: usize = 1024 * 1024;
/// Questions that may be open at once in one session: more than a person can keep in mind.
pub const OPEN_QUESTIONS: usize = 64;
/// Sessions that a producer runs at once.
pub const SESSIONS: usize = 4096;
/// How long a stream that counts as gone is kept for its return.
pub const FORGET_SECONDS: u64 = 300;
/// How long a stream that can be resumed may be away before it counts as gone (decision 2).
pub const AWAY_SECONDS: u64 = 15;
