//! Every bound of the core, with its unit in its name and the reason for its value.

/// Soft bound of a serialized event (3.7): a larger one is a warning, not an error.
pub const EVENT_BYTES: usize = 64 * 1024;

/// Hard bound of one message on any transport. 8.3 asks transports to carry this much.
pub const MESSAGE_BYTES: usize = 1024 * 1024;

/// Values in one message of a peer. Without it, a mebibyte of empty objects would take a hundred times as much memory.
pub const MESSAGE_VALUES: usize = 16_384;

/// Soft bound of top-level fields of an event (3.7).
pub const TOP_LEVEL_FIELDS: usize = 32;

/// Soft bound of the nesting of an event, which itself is level 1 (3.7).
pub const NESTING_LEVELS: usize = 8;

/// Soft bound of any string (3.7).
pub const STRING_BYTES: usize = 16 * 1024;

/// Languages of an event's text variants that are considered for a subscription. An event should have 32 at most
/// (3.7); twice as many are tolerated.
pub const VARIANT_LANGUAGES: usize = 64;

/// Problems that a report keeps of one document, so that a hostile document cannot grow it without end.
pub const PROBLEMS_PER_DOCUMENT: usize = 256;

/// Characters of a name that a report repeats, so that a line of a report stays readable.
pub const NAME_CHARACTERS: usize = 128;

/// Sessions that the sequence checker follows at once. Beyond, it forgets the one that was idle longest.
pub const CHECKED_SESSIONS: usize = 4096;

/// Ended sessions whose ids the sequence checker remembers, to find events after the end.
pub const ENDED_SESSIONS: usize = 65_536;

/// Event ids that the sequence checker remembers, to find one that is used twice.
pub const EVENT_IDS: usize = 65_536;

/// Reply tokens that the sequence checker remembers, to find one that is issued twice.
pub const REPLY_TOKENS: usize = 16_384;

/// How far the clocks of a producer and a subscriber may differ. Synchronized clocks differ by less.
pub const CLOCK_SKEW_SECONDS: u64 = 5;

/// Tool calls, outputs or questions that the sequence checker follows in one session.
pub const CHECKED_ITEMS_PER_SESSION: usize = 1024;

/// Characters of one output chunk (4.3.3).
pub const CHUNK_CHARS: usize = 16_384;

/// How long coalesced text may take to announce at the pace of a subscription: a question must not wait behind
/// minutes of speech (decision 23).
pub const CHUNK_SPEECH_SECONDS: u64 = 20;

/// How long a word or a sentence is held back because the text that follows could show that it is part of a secret.
pub const SECRET_CHECK_DELAY_MILLIS: u64 = 100;

/// Text shorter than this gives no secret away, even in the middle of a word.
pub const SECRET_CHECK_WORD_BYTES: usize = 8;

/// Hidden characters of one text that are replaced by their names; further ones are removed.
pub const REVEALED_CHARACTERS: usize = 16;

/// How long an agent pauses before a sentence that ends its text so far counts as complete (decision 76).
pub const SENTENCE_PAUSE_MILLIS: u64 = 300;

/// How long an agent pauses before a sentence counts as complete whose full stop may belong to a number, an
/// abbreviation or an address (decision 76).
pub const DOUBTFUL_SENTENCE_PAUSE_MILLIS: u64 = 1000;

/// Events that may wait for one subscription. Above, it is closed, since no event may be dropped.
pub const OUTBOX_EVENTS: usize = 1024;

/// Bytes of text that may wait for one subscription. Above, it is closed.
pub const OUTBOX_TEXT_BYTES: usize = 1024 * 1024;

/// Patterns in one list of a subscription's event filters. There are twelve core event types, so this is plenty, and the
/// server keeps the patterns for as long as the subscription lives.
pub const FILTER_PATTERNS: usize = 256;

/// Questions that may be open at once in one session: more than a person can keep in mind.
pub const OPEN_QUESTIONS: usize = 64;

/// How long after the decision a permit can be used. The user still remembers then what they agreed to.
pub const PERMIT_LIFETIME_SECONDS: u64 = 600;

/// Sessions that a producer runs at once.
pub const SESSIONS: usize = 4096;

/// How long the agent of a recovered session may take to adopt it after a restart.
pub const ORPHANED_SESSION_SECONDS: u64 = 120;

/// Ended questions that are remembered by the keys that agents gave them.
pub const REMEMBERED_ORIGINS: usize = 4096;

/// How long a subscription that has expired is kept in case its subscriber resumes it.
pub const EXPIRED_SUBSCRIPTION_SECONDS: u64 = 300;

/// How long a resumable subscription may be without a connection before it expires (decision 2).
pub const RESUME_WINDOW_SECS: u64 = 15;

/// Event ids that a subscriber remembers, to ignore events that arrive twice.
pub const RECEIVED_EVENT_IDS: usize = 8192;

/// Sessions that a subscriber follows at once. Beyond, it forgets the one that was idle longest.
pub const FOLLOWED_SESSIONS: usize = 256;

/// Questions that a subscriber keeps open at once: more than a person can keep in mind.
pub const OPEN_PROMPTS: usize = 64;

/// Bytes of questions that a subscriber keeps open.
pub const PROMPT_BYTES: usize = 4 * 1024 * 1024;

/// Answered questions that a subscriber keeps in case the reply was lost. Their bytes are bounded by [`PROMPT_BYTES`].
pub const ANSWERED_PROMPTS: usize = 16;

/// Events of all sessions that wait at a subscriber for events with lower sequence numbers.
pub const EARLY_EVENTS: usize = 64;

/// Bytes of events that wait at a subscriber for events with lower sequence numbers.
pub const EARLY_BYTES: usize = 1024 * 1024;

/// How long an event waits for events with lower sequence numbers before those count as lost. Longer would be heard as
/// a stall.
pub const EARLY_WAIT_MILLIS: u64 = 500;

/// Events per second that a subscriber delivers if no lower rate was agreed.
pub const FLOOD_EVENTS_PER_SECOND: u32 = 50;

/// Events above the rate that a subscriber queues before it drops some.
pub const FLOOD_HELD_EVENTS: usize = 256;

/// Bytes of events above the rate that a subscriber queues before it drops some.
pub const FLOOD_HELD_BYTES: usize = 1024 * 1024;

/// Critical events per second above which a subscriber warns. They are still delivered.
pub const CRITICAL_EVENTS_PER_SECOND: u32 = 20;

/// Notices of one kind per second. Further ones are only counted.
pub const NOTICES_PER_SECOND: u32 = 2;

/// Characters of a peer's text that a notice repeats, so that it stays short to hear.
pub const NOTICE_CHARACTERS: usize = 512;

/// How long a subscriber waits for the response to a request.
pub const RESPONSE_SECONDS: u64 = 10;

/// How long after the start of a new subscription an open question may take to be asked again before it counts as over.
pub const REASK_SECONDS: u64 = 5;

/// The first delay before a subscriber reconnects. It doubles with each attempt.
pub const BACKOFF_FIRST_MILLIS: u64 = 500;

/// The longest delay before a subscriber reconnects.
pub const BACKOFF_MAX_MILLIS: u64 = 30_000;

/// A connection that lasted this long resets the delay before the next attempt.
pub const GOOD_CONNECTION_SECONDS: u64 = 10;

/// How long a producer may be silent before a subscriber asks for a sign of life. Transports send one more often.
pub const SILENCE_SECONDS: u64 = 45;

/// How long a producer may take to answer a probe.
pub const PROBE_SECONDS: u64 = 10;
