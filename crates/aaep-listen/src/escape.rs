//! Text that is safe to print on a terminal.

use std::fmt::{self, Display, Write as _};

/// Displays text from elsewhere so that it is safe to print: characters that move the cursor, forge a line or change
/// the order of the letters are shown as their codes.
///
/// ```
/// assert_eq!(aaep_listen::Escaped("pay\nnow").to_string(), "pay\\u{000A}now");
/// ```
pub struct Escaped<'a>(pub &'a str);

/// Returns whether a character means something to a terminal or changes the order of the letters.
pub fn is_unsafe_to_print(c: char) -> bool {
    let reorders =
        matches!(c, '\u{061C}' | '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}');
    c.is_control() || reorders || matches!(c, '\u{2028}' | '\u{2029}')
}

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            if is_unsafe_to_print(c) {
                write!(f, "\\u{{{:04X}}}", c as u32)?;
            } else {
                f.write_char(c)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_unsafe_character_is_printed() {
        let all: String = (0..0x3000).filter_map(char::from_u32).collect();
        assert!(!Escaped(&all).to_string().contains(is_unsafe_to_print));
    }
}
