//! Finds payment card and social security numbers in text.

use super::secret::{Found, Scan, SecretKind};
use super::tail::Tail;

/// The maximum number of digits of a card number.
const MAX_DIGITS: usize = 19;
/// The maximum number of groups that a card number is written in.
const MAX_GROUPS: usize = 5;

/// A separator between two groups of digits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Separator {
    Space,
    /// A dot, a no-break space, or a space of another width.
    Other,
    Dash,
}

/// Looks for a number at the beginning of `rest`, alone or followed by other groups of digits.
pub(super) fn scan(before: &[u8], rest: &[u8], last: bool) -> Scan {
    if digit_at(rest, 0).is_none() || !may_begin(before) {
        return Scan::Nothing;
    }
    let mut digits = [0u8; MAX_DIGITS];
    let mut groups = [0usize; MAX_GROUPS];
    let mut separators = [Separator::Space; MAX_GROUPS];
    let (mut count, mut at) = (0, 0);
    for group in 0..MAX_GROUPS {
        while let Some((digit, width)) = digit_at(rest, at) {
            let Some(place) = digits.get_mut(count) else { return Scan::Nothing };
            *place = digit;
            count += 1;
            groups[group] += 1;
            at += width;
        }
        let (digits, groups) = (&digits[..count], &groups[..=group]);
        if at == rest.len() && !last {
            return if may_become(digits, groups, false) { Scan::Partial } else { Scan::Nothing };
        }
        // Digits followed by a letter or `_` are part of an identifier.
        if rest.get(at).is_some_and(|b| b.is_ascii_alphabetic() || *b == b'_') {
            return Scan::Nothing;
        }
        let found = |kind| Scan::Found(Found { kind, start: 0, end: at, tail: Tail::Nothing });
        if is_card(digits, groups) {
            return found(SecretKind::CardNumber);
        }
        let separator = separator_at(rest, at);
        if !last && separator.is_some_and(|(_, width)| at + width == rest.len()) {
            return if may_become(digits, groups, true) { Scan::Partial } else { Scan::Nothing };
        }
        let next = separator.filter(|(_, width)| digit_at(rest, at + width).is_some());
        let joined = next.is_some_and(|(separator, _)| separator == Separator::Dash);
        if !joined && is_ssn(digits, groups, &separators) && !follows_dash(before) {
            return found(SecretKind::SocialSecurityNumber);
        }
        let Some((separator, width)) = next else { return Scan::Nothing };
        separators[group] = separator;
        at += width;
    }
    Scan::Nothing
}

/// The group sizes that card and social security numbers are written in.
const GROUP_PATTERNS: [&[usize]; 5] = [&[4, 4, 4, 4, 3], &[4, 6, 5], &[3, 2, 4], &[MAX_DIGITS], &[4, 4, 4, 4]];

/// Returns whether more digits could make this a card or social security number. `closed` is true if the last group is
/// complete.
fn may_become(digits: &[u8], groups: &[usize], closed: bool) -> bool {
    let Some((current, whole)) = groups.split_last() else { return true };
    let fits = |written: &&[usize]| {
        let Some((place, rest)) = written.get(whole.len()..).and_then(<[usize]>::split_first) else { return false };
        let goes_on = if closed { current == place && !rest.is_empty() } else { current <= place };
        // A dash after a social security number would make it part of a longer number.
        let undecided = closed && **written == [3, 2, 4] && current == place;
        (goes_on || undecided) && written[..whole.len()] == *whole
    };
    digits.first().is_some_and(|first| *first != 9) && GROUP_PATTERNS.iter().any(fits)
}

/// Returns the ASCII or full-width digit at a position and its length in bytes, or `None` if there is none.
fn digit_at(bytes: &[u8], at: usize) -> Option<(u8, usize)> {
    match bytes.get(at..)? {
        [b @ b'0'..=b'9', ..] => Some((b - b'0', 1)),
        [0xEF, 0xBC, b @ 0x90..=0x99, ..] => Some((b - 0x90, 3)),
        _ => None,
    }
}

/// Returns the separator at a position and its length in bytes, or `None` if there is none.
fn separator_at(bytes: &[u8], at: usize) -> Option<(Separator, usize)> {
    match bytes.get(at..)? {
        [b' ', ..] => Some((Separator::Space, 1)),
        [b'-', ..] => Some((Separator::Dash, 1)),
        [b'.', ..] => Some((Separator::Other, 1)),
        // U+00A0.
        [0xC2, 0xA0, ..] => Some((Separator::Other, 2)),
        // U+2000 to U+200A, U+202F, U+205F, U+3000: spaces.
        [0xE2, 0x80, 0x80..=0x8A | 0xAF, ..] | [0xE2, 0x81, 0x9F, ..] | [0xE3, 0x80, 0x80, ..] => {
            Some((Separator::Other, 3))
        }
        // U+2010 to U+2015, U+2212, U+FF0D: dashes.
        [0xE2, 0x80, 0x90..=0x95, ..] | [0xE2, 0x88, 0x92, ..] | [0xEF, 0xBC, 0x8D, ..] => Some((Separator::Dash, 3)),
        _ => None,
    }
}

/// Returns whether a number can begin after this text: not inside an identifier, not after a decimal point.
fn may_begin(before: &[u8]) -> bool {
    !matches!(before, [.., b'_'] | [.., b'0'..=b'9', b'.' | b','] | [.., 0xEF, 0xBC, 0x90..=0x99])
}

fn follows_dash(before: &[u8]) -> bool {
    matches!(before, [.., b'0'..=b'9', b'-'])
}

fn is_ssn(digits: &[u8], groups: &[usize], separators: &[Separator]) -> bool {
    groups == [3, 2, 4]
        // Plain spaces also separate unrelated numbers.
        && separators[..2].iter().all(|s| *s != Separator::Space)
        && digits[0] != 9
        && !matches!(digits[..3], [0, 0, 0] | [6, 6, 6])
        && digits[3..5] != [0, 0]
        && digits[5..] != [0, 0, 0, 0]
}

/// Returns whether the digits are a card number in the groups that issuers print. Other groups are more likely to be
/// lists of numbers.
fn is_card(digits: &[u8], groups: &[usize]) -> bool {
    matches!(groups, [_] | [4, 4, 4, 4] | [4, 4, 4, 4, 3] | [4, 6, 5] | [4, 6, 4])
        && has_issuer(digits)
        && digits.iter().any(|d| *d != digits[0])
        && passes_luhn(digits)
}

fn has_issuer(digits: &[u8]) -> bool {
    let start = |n: usize| digits.iter().take(n).fold(0u32, |sum, d| sum * 10 + u32::from(*d));
    match digits.len() {
        14 => matches!(start(3), 300..=305) || matches!(start(2), 36 | 38),
        15 => matches!(start(2), 34 | 37),
        16 => digits[0] == 4 || matches!(start(2), 51..=55 | 35 | 60 | 62 | 64 | 65) || matches!(start(4), 2221..=2720),
        19 => digits[0] == 4 || start(2) == 62,
        _ => false,
    }
}

fn passes_luhn(digits: &[u8]) -> bool {
    let doubled = |(i, d): (usize, &u8)| match (i % 2, u32::from(*d)) {
        (0, d) => d,
        (_, d) if d > 4 => 2 * d - 9,
        (_, d) => 2 * d,
    };
    digits.iter().rev().enumerate().map(doubled).sum::<u32>().is_multiple_of(10)
}

#[cfg(test)]
mod tests {
    use super::super::find_secret;
    use super::*;

    fn found(text: &str) -> Option<(SecretKind, &str)> {
        find_secret(text).map(|s| (s.kind, &text[s.range]))
    }

    #[test]
    fn cards_are_found_beside_other_digits_and_in_other_writing() {
        for (text, number) in [
            ("Card 4111 1111 1111 1111 12/29", "4111 1111 1111 1111"),
            ("Card 4111111111111111 123", "4111111111111111"),
            ("Ref 12 4111 1111 1111 1111", "4111 1111 1111 1111"),
            ("No.4111111111111111", "4111111111111111"),
            ("visa-4111111111111111", "4111111111111111"),
            ("卡号4111111111111111。", "4111111111111111"),
            ("4111\u{a0}1111\u{a0}1111\u{a0}1111", "4111\u{a0}1111\u{a0}1111\u{a0}1111"),
            ("4111\u{2011}1111\u{2011}1111\u{2011}1111", "4111\u{2011}1111\u{2011}1111\u{2011}1111"),
            ("4111.1111.1111.1111", "4111.1111.1111.1111"),
            ("４１１１１１１１１１１１１１１１", "４１１１１１１１１１１１１１１１"),
            ("Amex 3782 822463 10005", "3782 822463 10005"),
            ("Diners 30569309025904", "30569309025904"),
            ("2223003122003222", "2223003122003222"),
            ("6250 9410 0652 8599", "6250 9410 0652 8599"),
        ] {
            assert_eq!(found(text), Some((SecretKind::CardNumber, number)), "{text}");
        }
    }

    #[test]
    fn social_security_numbers_are_found_beside_other_digits() {
        for (text, number) in [
            ("SSN 123-45-6789 1990", "123-45-6789"),
            ("SSN:123-45-6789", "123-45-6789"),
            ("123\u{2011}45\u{2011}6789", "123\u{2011}45\u{2011}6789"),
            ("123\u{a0}45\u{a0}6789", "123\u{a0}45\u{a0}6789"),
        ] {
            assert_eq!(found(text), Some((SecretKind::SocialSecurityNumber, number)), "{text}");
        }
    }

    #[test]
    fn other_numbers_are_left_alone() {
        for text in [
            "IMEI 356938035643809",
            "EAN 5901234123457",
            "About 0.4111111111111111 of it",
            "Part 123-45-6789-10 and 1-123-45-6789",
            "Rows 123 45 6789 12",
            "4 1111 11 1111 111 11",
            "evt_4111111111111111",
            "4111111111111111x",
            "41111111111111111111",
            "",
        ] {
            assert_eq!(found(text), None, "{text}");
        }
    }
}
