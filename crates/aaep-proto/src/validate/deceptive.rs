//! Finds characters that make a user hear one thing and agree to another.

use std::fmt;

use unicode_security::MixedScript;
use unicode_security::confusable_detection::skeleton;

/// Why a text may deceive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deception {
    /// A character that is neither seen nor heard.
    Hidden(char),
    /// A character that changes the order in which the text is shown.
    Direction(char),
    /// A word whose letters look like those of another script.
    LookAlike(String),
}

impl fmt::Display for Deception {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Deception::Hidden(c) => write!(f, "the hidden character U+{:04X}", *c as u32),
            Deception::Direction(c) => write!(f, "the direction control U+{:04X}", *c as u32),
            Deception::LookAlike(word) => write!(f, "the look-alike letters of \"{word}\""),
        }
    }
}

/// Finds the first hidden, reordering or look-alike character.
///
/// Characters that a script needs are left alone: joiners between Persian or Devanagari letters
/// and inside emoji, direction marks in text that runs from right to left.
///
/// ```
/// use aaep_proto::validate::{Deception, find_deception};
/// assert_eq!(find_deception("Pay \u{202E}001"), Some(Deception::Direction('\u{202E}')));
/// assert_eq!(find_deception("Pay $100"), None);
/// ```
pub fn find_deception(text: &str) -> Option<Deception> {
    if text.bytes().all(|b| (0x20..0x7f).contains(&b)) {
        return None;
    }
    find_character(text).or_else(|| find_look_alike(text))
}

fn find_character(text: &str) -> Option<Deception> {
    let runs_right_to_left = text.chars().any(is_right_to_left);
    let mut previous = ' ';
    for c in text.chars() {
        let found = match c {
            '\t' | '\n' | '\r' => None,
            c if c.is_control() => Some(Deception::Hidden(c)),
            '\u{202A}'..='\u{202E}' => Some(Deception::Direction(c)),
            '\u{2066}'..='\u{2069}' | '\u{200E}' | '\u{200F}' | '\u{061C}' if !runs_right_to_left => {
                Some(Deception::Direction(c))
            }
            '\u{200C}' | '\u{200D}' if !joins(previous) => Some(Deception::Hidden(c)),
            '\u{FE00}'..='\u{FE0F}' | '\u{E0100}'..='\u{E01EF}' if previous.is_ascii_alphabetic() => {
                Some(Deception::Hidden(c))
            }
            // Tags are invisible except after the black flag, where they spell a region's flag.
            '\u{E0000}'..='\u{E007F}' if !is_flag_part(previous) => Some(Deception::Hidden(c)),
            '\u{00AD}'
            | '\u{034F}'
            | '\u{115F}'
            | '\u{1160}'
            | '\u{17B4}'
            | '\u{17B5}'
            | '\u{180E}'
            | '\u{200B}'
            | '\u{2060}'..='\u{2064}'
            | '\u{206A}'..='\u{206F}'
            | '\u{3164}'
            | '\u{FEFF}'
            | '\u{FFA0}' => Some(Deception::Hidden(c)),
            _ => None,
        };
        if found.is_some() {
            return found;
        }
        previous = c;
    }
    None
}

fn is_right_to_left(c: char) -> bool {
    matches!(c, '\u{0590}'..='\u{08FF}' | '\u{FB1D}'..='\u{FDFF}' | '\u{FE70}'..='\u{FEFC}' | '\u{10800}'..='\u{10FFF}' | '\u{1E800}'..='\u{1EFFF}')
        && c != '\u{061C}'
}

/// Scripts and symbols in which a joiner changes the shape of what it stands after.
fn joins(previous: char) -> bool {
    matches!(previous, '\u{0600}'..='\u{1CFF}' | '\u{2190}'..='\u{2BFF}' | '\u{FE0F}' | '\u{1F000}'..='\u{1FAFF}')
}

fn is_flag_part(previous: char) -> bool {
    matches!(previous, '\u{1F3F4}' | '\u{E0020}'..='\u{E007E}')
}

fn find_look_alike(text: &str) -> Option<Deception> {
    let words = || text.split(|c: char| !c.is_alphanumeric()).filter(|w| !w.is_empty());
    if let Some(mixed) = words().find(|w| !w.is_ascii() && !w.is_single_script()) {
        return Some(Deception::LookAlike(mixed.to_owned()));
    }
    // A whole word in another script that reads like Latin, inside a text that is mostly Latin.
    let latin = words().filter(|w| w.bytes().all(|b| b.is_ascii_alphabetic())).count();
    let other = words().filter(|w| !w.chars().any(|c| c.is_ascii())).count();
    if latin <= other {
        return None;
    }
    words()
        .filter(|w| w.chars().count() >= 3 && !w.chars().any(|c| c.is_ascii()))
        .find(|w| skeleton(w).all(|c| c.is_ascii_alphabetic()))
        .map(|w| Deception::LookAlike(w.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deceptive_text_is_found() {
        for (text, expected) in [
            ("Send to bob\u{200B}@example.org", Deception::Hidden('\u{200B}')),
            ("a\u{200D}b", Deception::Hidden('\u{200D}')),
            ("ring\u{7}", Deception::Hidden('\u{7}')),
            ("x\u{FE0F}", Deception::Hidden('\u{FE0F}')),
            ("hello\u{E0041}", Deception::Hidden('\u{E0041}')),
            ("file \u{202E}fdp.exe", Deception::Direction('\u{202E}')),
            ("plain \u{2066}text\u{2069}", Deception::Direction('\u{2066}')),
            ("Pay p\u{0430}ypal now", Deception::LookAlike("p\u{0430}ypal".into())),
            ("Pay \u{0440}\u{0430}\u{0443} now please", Deception::LookAlike("\u{0440}\u{0430}\u{0443}".into())),
        ] {
            assert_eq!(find_deception(text), Some(expected), "{text:?}");
        }
    }

    #[test]
    fn honest_text_of_many_scripts_is_left_alone() {
        for text in [
            "Transfer $500.00 from checking-7821 to savings-3344.",
            "Überweisung von 500 € nach Köln",
            "Ẹ ku àárọ̀. Ṣé o sun re?",
            "می\u{200C}خواهم",
            "क्\u{200D}ष",
            "Family \u{1F468}\u{200D}\u{1F469}\u{200D}\u{1F467} \u{2764}\u{FE0F}",
            "\u{1F3F4}\u{E0067}\u{E0062}\u{E0073}\u{E0063}\u{E0074}\u{E007F} flag",
            "שלום \u{200E}123\u{200E}",
            "Отправить письмо Ивану через PayPal",
            "東京タワーへ行きますか",
            "서울로 보내기",
            "line\nbreak",
        ] {
            assert_eq!(find_deception(text), None, "{text:?}");
        }
    }
}
