//! Every bound of the core, with its reason.

/// Soft bound of a serialized event (3.7): larger is a warning, not an error.
pub const EVENT_BYTES: usize = 64 * 1024;
/// Hard bound of one message on any transport (8.3 asks transports to carry this much).
pub const MESSAGE_BYTES: usize = 1024 * 1024;
/// Values in one message of a peer: a mebibyte of empty objects would take a hundred times as much in memory.
pub const MESSAGE_VALUES: usize = 16_384;
/// Soft bound of top-level fields (3.7).
pub const TOP_LEVEL_FIELDS: usize = 32;
/// Soft bound of nesting, the event itself being level 1 (3.7).
pub const DEPTH: usize = 8;
/// Soft bound of any string (3.7).
pub const STRING_BYTES: usize = 16 * 1024;
/// Languages of an event's text variants that are considered for a subscription; an event should have 32 at most (3.7).
pub const VARIANT_LANGUAGES: usize = 64;
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
/// How long a word or a sentence is held back because what follows could show that it belongs to a secret.
pub const HELD_TEXT_MILLIS: u64 = 100;
/// Text that is shorter than this gives no secret away, even in the middle of a word.
pub const HELD_WORD_BYTES: usize = 8;
/// Hidden characters of one text that are shown in words; the others are left out.
pub const EXPOSED_CHARACTERS: usize = 16;
/// How long an agent is silent before a sentence that ends with its last word is complete.
pub const PAUSE_MILLIS: u64 = 300;
/// The same where the last full stop may belong to a number, an abbreviation or an address.
pub const DOUBTFUL_PAUSE_MILLIS: u64 = 1000;
/// Events that may wait for one subscription; above, it is closed, since nothing may be dropped.
pub const HELD_EVENTS: usize = 1024;
/// Bytes of text that may wait for one subscription.
pub const HELD_BYTES: usize = 1024 * 1024;
/// Patterns in one list of a subscription's event filters. There are twelve core event types, so that this is plenty,
/// and the server keeps the patterns for as long as the subscription lives.
pub const FILTER_PATTERNS: usize = 256;
/// Questions that may be open at once in one session: more than a person can keep in mind.
pub const OPEN_QUESTIONS: usize = 64;
/// How long after the decision a permit can be used: by then the user still remembers what was agreed to.
pub const PERMIT_SECONDS: u64 = 600;
/// Sessions that a producer runs at once.
pub const SESSIONS: usize = 4096;
/// How long the agent of a session may take to come back after a restart.
pub const ORPHAN_SECONDS: u64 = 120;
/// Ended questions that are remembered by the names that their askers gave them.
pub const REMEMBERED_ORIGINS: usize = 4096;
/// How long a stream that counts as gone is kept for its return.
pub const FORGET_SECONDS: u64 = 300;
/// How long a stream that can be resumed may be away before it counts as gone (decision 2).
pub const RESUME_WINDOW_SECS: u64 = 15;
/// Event ids that a subscriber remembers to leave out what comes twice.
pub const HEARD_EVENT_IDS: usize = 8192;
/// Sessions that a subscriber follows at once; beyond, the longest silent one is let go.
pub const FOLLOWED_SESSIONS: usize = 256;
/// Questions that a subscriber keeps open at once: more than a person can keep in mind.
pub const OPEN_PROMPTS: usize = 64;
/// Bytes of questions that a subscriber keeps open.
pub const PROMPT_BYTES: usize = 4 * 1024 * 1024;
/// Answered questions that a subscriber keeps, in case the answer did not arrive; their bytes are bounded as those of
/// open ones.
pub const ANSWERED_PROMPTS: usize = 16;
/// Events that wait with a subscriber for earlier ones of their session.
pub const EARLY_EVENTS: usize = 64;
/// Bytes of such events.
pub const EARLY_BYTES: usize = 1024 * 1024;
/// How long they wait before what is missing counts as lost.
pub const EARLY_MILLIS: u64 = 500;
/// Most events per second that a subscriber passes on when no lower rate was agreed.
pub const FLOOD_EVENTS_PER_SECOND: u32 = 50;
/// Events above that rate that a subscriber holds back before it drops some.
pub const FLOOD_HELD_EVENTS: usize = 256;
/// Bytes of events that a subscriber holds back.
pub const FLOOD_HELD_BYTES: usize = 1024 * 1024;
/// Critical events per second above which a subscriber warns; they are passed on all the same.
pub const CRITICAL_PER_SECOND: u32 = 20;
/// Notices of one kind per second; the rest is counted only.
pub const NOTICES_PER_SECOND: u32 = 2;
/// Most characters of a peer's words that a notice repeats.
pub const NOTICE_CHARACTERS: usize = 512;
/// How long a subscriber waits for the answer to a request.
pub const ANSWER_SECONDS: u64 = 10;
/// How long, after a new subscription began, an open question may take to be asked again before it counts as over.
pub const REASK_SECONDS: u64 = 5;
/// The first wait before a subscriber connects again; it doubles each time.
pub const BACKOFF_FIRST_MILLIS: u64 = 500;
/// The longest such wait.
pub const BACKOFF_MOST_MILLIS: u64 = 30_000;
/// A connection that lasted this long was a good one: the wait starts from the beginning.
pub const GOOD_CONNECTION_SECONDS: u64 = 10;
/// How long a connection may say nothing, not even that it is alive.
pub const SILENCE_SECONDS: u64 = 45;
/// How long a sign of life may take that was asked for.
pub const PROBE_SECONDS: u64 = 10;
