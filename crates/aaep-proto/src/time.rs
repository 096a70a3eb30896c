//! Timestamps as the wire writes them, moments as deadlines need them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

const MICROS: i64 = 1_000_000;

/// A reading of a monotonic clock, in microseconds since an arbitrary start. Deadlines use it.
///
/// ```
/// use aaep_proto::time::Moment;
/// let later = Moment::from_millis(1_500).plus_millis(250);
/// assert_eq!(later.since(Moment::from_millis(1_000)), 750_000);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(u64);

impl Moment {
    /// The moment this many microseconds after the start.
    pub const fn from_micros(micros: u64) -> Moment {
        Moment(micros)
    }

    /// The moment this many milliseconds after the start.
    pub const fn from_millis(millis: u64) -> Moment {
        Moment(millis * 1000)
    }

    /// Microseconds since the start.
    pub const fn micros(self) -> u64 {
        self.0
    }

    /// The moment this many microseconds later.
    pub const fn plus_micros(self, micros: u64) -> Moment {
        Moment(self.0.saturating_add(micros))
    }

    /// The moment this many milliseconds later.
    pub const fn plus_millis(self, millis: u64) -> Moment {
        self.plus_micros(millis.saturating_mul(1000))
    }

    /// The moment this many seconds later.
    pub const fn plus_seconds(self, seconds: u64) -> Moment {
        self.plus_micros(seconds.saturating_mul(1_000_000))
    }

    /// Microseconds since an earlier moment, 0 if it is later.
    pub const fn since(self, earlier: Moment) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// One reading of both clocks: the one that deadlines count by, and the one on the wall.
///
/// ```
/// use aaep_proto::time::{Moment, Now, Timestamp};
/// let now = Now { moment: Moment::from_millis(5), wall: Timestamp::from_millis(1_779_632_531_342) };
/// assert_eq!(now.wall.to_string(), "2026-05-24T14:22:11.342Z");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// The monotonic time.
    pub moment: Moment,
    /// May jump when the clock is set.
    pub wall: Timestamp,
}

/// A moment in RFC 3339 form: `Z` or `±HH:MM`, with no fraction, 3 digits or 6.
///
/// Two timestamps are equal and ordered by the moment they name; how they were written is kept,
/// so that a received timestamp is sent again unchanged.
///
/// ```
/// use aaep_proto::time::Timestamp;
/// let at: Timestamp = "2026-05-24T14:22:11.342Z".parse()?;
/// let same: Timestamp = "2026-05-24T16:22:11.342+02:00".parse()?;
/// assert_eq!(at, same);
/// assert_eq!(same.to_string(), "2026-05-24T16:22:11.342+02:00");
/// # Ok::<(), aaep_proto::time::ParseTimestampError>(())
/// ```
#[derive(Clone, Copy)]
pub struct Timestamp {
    /// Microseconds since 1970-01-01T00:00:00Z.
    micros: i64,
    /// Minutes east of UTC as written; `None` is `Z`.
    offset: Option<i16>,
    /// Digits of the fraction as written: 0, 3 or 6.
    digits: u8,
    /// Written as second 60.
    leap: bool,
}

/// Text that is not a timestamp the protocol allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseTimestampError;

impl fmt::Display for ParseTimestampError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("must be a date and time like 2026-05-24T14:22:11.342Z with 0, 3 or 6 digits of fraction")
    }
}

impl std::error::Error for ParseTimestampError {}

impl Timestamp {
    /// The shape of a timestamp as a regular expression, for the published schemas.
    /// That the day exists in its month is beyond it.
    pub const PATTERN: &str = "^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:([0-5][0-9]|60)(\\.[0-9]{3}|\\.[0-9]{6})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$";

    /// The moment this many milliseconds after the start of 1970, written in UTC with three digits.
    pub fn from_millis(millis: i64) -> Timestamp {
        Timestamp { micros: millis.saturating_mul(1000), offset: None, digits: 3, leap: false }
    }

    /// Milliseconds since the start of 1970, rounded down.
    pub fn millis(self) -> i64 {
        self.micros.div_euclid(1000)
    }

    /// Microseconds since the start of 1970.
    pub fn micros(self) -> i64 {
        self.micros
    }

    /// The moment this many seconds later.
    pub fn plus_seconds(self, seconds: u64) -> Timestamp {
        let more = i64::try_from(seconds).unwrap_or(i64::MAX).saturating_mul(MICROS);
        Timestamp { micros: self.micros.saturating_add(more), ..self }
    }
}

impl FromStr for Timestamp {
    type Err = ParseTimestampError;

    fn from_str(text: &str) -> Result<Self, ParseTimestampError> {
        parse(text.as_bytes()).ok_or(ParseTimestampError)
    }
}

fn digits(bytes: &[u8]) -> Option<i64> {
    bytes.iter().try_fold(0i64, |n, b| b.is_ascii_digit().then(|| n * 10 + i64::from(b - b'0')))
}

fn parse(b: &[u8]) -> Option<Timestamp> {
    if b.len() < 20 || b[4] != b'-' || b[7] != b'-' || b[10] != b'T' || b[13] != b':' || b[16] != b':' {
        return None;
    }
    let (year, month, day) = (digits(&b[..4])?, digits(&b[5..7])?, digits(&b[8..10])?);
    let (hour, minute, second) = (digits(&b[11..13])?, digits(&b[14..16])?, digits(&b[17..19])?);
    if !(1..=12).contains(&month) || day < 1 || day > days_in_month(year, month) {
        return None;
    }
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let rest = &b[19..];
    let (fraction, zone) = match rest.strip_prefix(b".") {
        None => (&[][..], rest),
        Some(rest) => {
            let len = rest.iter().take_while(|b| b.is_ascii_digit()).count();
            if len != 3 && len != 6 {
                return None;
            }
            rest.split_at(len)
        }
    };
    let offset = match zone {
        b"Z" => None,
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => {
            let (h, m) = (digits(&[*h1, *h2])?, digits(&[*m1, *m2])?);
            if h > 23 || m > 59 {
                return None;
            }
            let minutes = i16::try_from(h * 60 + m).ok()?;
            Some(if *sign == b'-' { -minutes } else { minutes })
        }
        _ => return None,
    };
    let scale = if fraction.len() == 3 { 1000 } else { 1 };
    let seconds = ((days_from_civil(year, month, day) * 24 + hour) * 60 + minute) * 60 + second
        - i64::from(offset.unwrap_or(0)) * 60;
    Some(Timestamp {
        micros: seconds * MICROS + digits(fraction)? * scale,
        offset,
        digits: fraction.len() as u8,
        leap: second == 60,
    })
}

fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since 1970-01-01 in the Gregorian calendar; the year starts in March so that the leap day comes last.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let m = (5 * day_of_year + 2) / 153;
    let month = if m < 10 { m + 3 } else { m - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day_of_year - (153 * m + 2) / 5 + 1)
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let local =
            self.micros + i64::from(self.offset.unwrap_or(0)) * 60 * MICROS - if self.leap { MICROS } else { 0 };
        let (seconds, micros) = (local.div_euclid(MICROS), local.rem_euclid(MICROS));
        let (year, month, day) = civil_from_days(seconds.div_euclid(86_400));
        let s = seconds.rem_euclid(86_400);
        let second = s % 60 + i64::from(self.leap);
        write!(f, "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{second:02}", s / 3600, s / 60 % 60)?;
        match self.digits {
            0 => {}
            3 => write!(f, ".{:03}", micros / 1000)?,
            _ => write!(f, ".{micros:06}")?,
        }
        match self.offset {
            None => f.write_str("Z"),
            Some(m) => {
                write!(f, "{}{:02}:{:02}", if m < 0 { '-' } else { '+' }, m.abs() / 60, m.abs() % 60)
            }
        }
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl PartialEq for Timestamp {
    fn eq(&self, other: &Self) -> bool {
        self.micros == other.micros
    }
}

impl Eq for Timestamp {}

impl PartialOrd for Timestamp {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Timestamp {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.micros.cmp(&other.micros)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn only_the_allowed_precisions_and_zones() {
        for good in [
            "2026-05-24T14:22:11Z",
            "2026-05-24T14:22:11.342Z",
            "2026-05-24T14:22:11.342001-05:30",
            "2024-02-29T00:00:00.000+14:00",
            "2016-12-31T23:59:60Z",
            "0001-01-01T00:00:00Z",
        ] {
            assert_eq!(at(good).to_string(), good);
        }
        for bad in [
            "yesterday",
            "2026-05-24T14:22:11.3Z",
            "2026-05-24T14:22:11.34212Z",
            "2026-05-24T14:22:11.1234567Z",
            "2026-05-24T14:22:11.Z",
            "2026-05-24T14:22:11",
            "2026-05-24 14:22:11Z",
            "2026-05-24t14:22:11z",
            "2026-02-29T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-05-24T24:00:00Z",
            "2026-05-24T14:22:11+0200",
            "2026-05-24T14:22:11+24:00",
            "20260524T142211Z",
            "",
        ] {
            assert!(bad.parse::<Timestamp>().is_err(), "{bad}");
        }
    }

    #[test]
    fn order_follows_the_moment_not_the_text() {
        assert!(at("2026-05-24T23:00:00Z") > at("2026-05-25T00:30:00+02:00"));
        assert_eq!(at("1970-01-01T00:00:00Z").micros(), 0);
        assert_eq!(at("2026-05-24T14:22:11.342Z").millis(), 1_779_632_531_342);
        assert_eq!(at("2016-12-31T23:59:60Z"), at("2017-01-01T00:00:00Z"));
    }

    proptest! {
        #[test]
        fn millis_survive_text(millis in -60_000_000_000_000i64..250_000_000_000_000) {
            let at = Timestamp::from_millis(millis);
            prop_assert_eq!(at.to_string().parse::<Timestamp>().unwrap().millis(), millis);
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,40}") {
            let _ = text.parse::<Timestamp>();
        }
    }
}
