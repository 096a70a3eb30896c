//! The events that are sent, each of them distinct.

use memchr::memmem::Finder;

/// Precedes the number of the user, and that of the event. A leading 1 keeps their width.
const MARK: &str = r#""step":1"#;
const NUMBER: &str = r#","total_steps":1"#;

/// Digits of the number of a user, and of an event.
const USER_DIGITS: usize = 5;
const NUMBER_DIGITS: usize = 7;

/// Most users, by the digits of their numbers.
pub(crate) const MAX_USERS: usize = 99_999;

/// The event that starts the session of an agent.
pub(crate) const STARTED: &str = r#"{"type":"session.started","session_id":"s","summary_normal":"Measuring."}"#;

/// The text of events. It makes them about 600 bytes long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventText {
    /// With numbers, as most progress has: the text must be searched for card numbers, keys and the like.
    Numbers,
    /// Without any digit: no text that is a secret looks like this, which is found quickly.
    Prose,
}

impl EventText {
    pub(crate) const ALL: [EventText; 2] = [EventText::Numbers, EventText::Prose];

    pub(crate) fn name(self) -> &'static str {
        match self {
            EventText::Numbers => "numbers",
            EventText::Prose => "prose",
        }
    }

    fn first_sentence(self) -> &'static str {
        match self {
            EventText::Numbers => "Page 3 of 8 is being read, which takes 20 seconds more.",
            EventText::Prose => "Another page is being read, which takes a little more time.",
        }
    }
}

/// The rest of the text.
const PROSE: &str = "Every bed is compared with the list of seeds that were ordered in spring. Carrots and beans stay \
    where they are; the herbs move closer to the kitchen door, so that nobody has to cross the wet grass in the \
    evening. Two of the paths are too narrow for the wheelbarrow and will be widened before the stones arrive next week.";

/// Writes events that differ in two numbers of a fixed width.
#[derive(Clone)]
pub(crate) struct EventTemplate {
    bytes: Vec<u8>,
    user_at: usize,
    number_at: usize,
}

impl EventTemplate {
    pub(crate) fn new(text: EventText) -> EventTemplate {
        let numbers = format!("{MARK}{}{NUMBER}{}", "0".repeat(USER_DIGITS), "0".repeat(NUMBER_DIGITS));
        let event = format!(
            r#"{{"type":"progress.updated","session_id":"s","progress":{{{numbers},"description":"Reading"}},"summary_terse":"One more step.","summary_normal":"{} {PROSE}"}}"#,
            text.first_sentence()
        );
        let user_at = event.find(MARK).unwrap() + MARK.len();
        let number_at = event.find(NUMBER).unwrap() + NUMBER.len();
        EventTemplate { bytes: event.into_bytes(), user_at, number_at }
    }

    /// Returns the length of every event in bytes.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the event with these numbers.
    pub(crate) fn render(&mut self, user: usize, number: usize) -> &[u8] {
        write_digits(&mut self.bytes[self.user_at..self.user_at + USER_DIGITS], user);
        write_digits(&mut self.bytes[self.number_at..self.number_at + NUMBER_DIGITS], number);
        &self.bytes
    }
}

fn write_digits(place: &mut [u8], mut number: usize) {
    for digit in place.iter_mut().rev() {
        *digit = b'0' + u8::try_from(number % 10).unwrap();
        number /= 10;
    }
    assert_eq!(number, 0, "the number is too large for its place");
}

/// Finds the numbers of an event in what was delivered.
pub(crate) struct EventFinder(Finder<'static>);

impl EventFinder {
    pub(crate) fn new() -> EventFinder {
        EventFinder(Finder::new(MARK))
    }

    /// Returns the user and the number of an event, or `None` for other events and messages.
    pub(crate) fn find(&self, delivered: &[u8]) -> Option<(usize, usize)> {
        let at = self.0.find(delivered)? + MARK.len();
        let number_at = at + USER_DIGITS + NUMBER.len();
        let user = read_digits(delivered.get(at..at + USER_DIGITS)?)?;
        Some((user, read_digits(delivered.get(number_at..number_at + NUMBER_DIGITS)?)?))
    }

    /// Returns how many events have their mark in the bytes.
    pub(crate) fn count(&self, bytes: &[u8]) -> usize {
        self.0.find_iter(bytes).count()
    }

    /// The length of a mark, of which every event has one.
    pub(crate) const LENGTH: usize = MARK.len();
}

fn read_digits(digits: &[u8]) -> Option<usize> {
    let digit = |number: usize, digit: &u8| digit.is_ascii_digit().then(|| number * 10 + usize::from(digit - b'0'));
    digits.iter().try_fold(0, digit)
}
