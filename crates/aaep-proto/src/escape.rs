//! Control sequences of terminals (ECMA-48): colours, cursor moves, titles, links, the clipboard.
//!
//! Agents copy the output of programs, which contains control sequences. Users should not hear or read the rest of a sequence when its
//! escape character is taken out, and no peer should be able to send one to a user's terminal. So whole sequences are removed.

use std::borrow::Cow;

/// The most bytes of a sequence. Longer ones are text after a meaningless escape character.
const LONGEST: usize = 4096;

/// Returns the text without control sequences. Of an unterminated one only the start is removed, so that it hides no text.
///
/// ```
/// use aaep_proto::escape::without_escapes;
/// assert_eq!(without_escapes("\u{1b}[1;31mFailed\u{1b}[0m: 2 tests"), "Failed: 2 tests");
/// assert_eq!(without_escapes("See \u{1b}]8;;https://a.example\u{7}the log\u{1b}]8;;\u{7}."), "See the log.");
/// assert_eq!(without_escapes("\u{1b}]0;All is well."), "0;All is well.");
/// ```
pub fn without_escapes(text: &str) -> Cow<'_, str> {
    if !text.contains(begins) {
        return Cow::Borrowed(text);
    }
    let mut escapes = Escapes::default();
    let mut out = escapes.push(text);
    out.push_str(&escapes.finish());
    Cow::Owned(out)
}

/// Removes control sequences from streamed text; a sequence may span several chunks.
///
/// ```
/// use aaep_proto::escape::Escapes;
/// let mut escapes = Escapes::default();
/// assert_eq!(escapes.push("Done.\u{1b}["), "Done.");
/// assert_eq!(escapes.push("0m Next."), " Next.");
/// assert_eq!(escapes.finish(), "");
/// ```
#[derive(Clone, Debug, Default)]
pub struct Escapes {
    /// A sequence that has begun.
    held: String,
}

impl Escapes {
    /// Takes more text and returns the part that is certain to be text.
    pub fn push(&mut self, text: &str) -> String {
        self.held.push_str(text);
        self.strip(false)
    }

    /// Ends the text and returns the rest.
    pub fn finish(&mut self) -> String {
        self.strip(true)
    }

    fn strip(&mut self, ended: bool) -> String {
        let text = std::mem::take(&mut self.held);
        let mut out = String::with_capacity(text.len());
        let mut rest = text.as_str();
        while let Some(at) = rest.find(begins) {
            out.push_str(&rest[..at]);
            rest = &rest[at..];
            let (kind, start) = introducer(rest);
            match end_of(kind, &rest[start..]) {
                Some(length) => rest = &rest[start + length..],
                None if !ended && rest.len() <= LONGEST => {
                    self.held = rest.to_owned();
                    return out;
                }
                // A string may be anything, so it is text; of the others only parameters are there.
                None => rest = if kind == Kind::String { &rest[start..] } else { "" },
            }
        }
        out.push_str(rest);
        out
    }
}

fn begins(c: char) -> bool {
    c == '\u{1B}' || matches!(c, '\u{80}'..='\u{9F}')
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Nothing follows.
    Alone,
    /// Perhaps marks, then one character.
    Plain,
    /// Parameters, then one character.
    Control,
    /// Anything up to a terminator.
    String,
}

/// What kind of sequence begins here, and how many bytes its introducer has.
fn introducer(text: &str) -> (Kind, usize) {
    let mut chars = text.chars();
    match (chars.next(), chars.next()) {
        (Some('\u{1B}'), Some('[')) => (Kind::Control, 2),
        (Some('\u{1B}'), Some(']' | 'P' | 'X' | '^' | '_')) => (Kind::String, 2),
        (Some('\u{1B}'), _) => (Kind::Plain, 1),
        (Some('\u{9B}'), _) => (Kind::Control, 2),
        (Some('\u{90}' | '\u{98}' | '\u{9D}' | '\u{9E}' | '\u{9F}'), _) => (Kind::String, 2),
        _ => (Kind::Alone, 2),
    }
}

/// How many bytes of the sequence follow its introducer; nothing if it is not known yet.
fn end_of(kind: Kind, text: &str) -> Option<usize> {
    let parameters = |from: char| text.find(|c: char| !(from..='?').contains(&c));
    let (end, last) = match kind {
        Kind::Alone => return Some(0),
        Kind::String => return end_of_string(text),
        Kind::Control => (parameters(' ')?, '@'..='~'),
        Kind::Plain => (text.find(|c: char| !(' '..='/').contains(&c))?, '0'..='~'),
    };
    // A character that belongs to no sequence ends it and stays.
    Some(end + usize::from(text[end..].starts_with(|c| last.contains(&c))))
}

fn end_of_string(text: &str) -> Option<usize> {
    let end = text.find(['\u{7}', '\u{9C}', '\u{1B}', '\n'])?;
    let rest = &text[end..];
    match rest.chars().next()? {
        '\u{7}' => Some(end + 1),
        '\u{9C}' => Some(end + 2),
        '\u{1B}' if rest.len() == 1 => None,
        '\u{1B}' if rest.starts_with("\u{1B}\\") => Some(end + 2),
        // Interrupted by another sequence or the end of the line, so it is text.
        _ => Some(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_go_whole_and_words_stay() {
        for (text, left) in [
            ("plain", "plain"),
            ("\u{1b}[31mred\u{1b}[m", "red"),
            ("\u{1b}[38;2;10;20;30mx\u{1b}[?25h", "x"),
            ("a\u{1b}[2J\u{1b}[Hb", "ab"),
            ("\u{9b}31mred", "red"),
            ("\u{1b}]0;title\u{7}x", "x"),
            ("\u{1b}]52;c;cm0gLXJmIC8=\u{1b}\\x", "x"),
            ("\u{9d}52;c;aGk=\u{9c}x", "x"),
            ("\u{1b}P1$tx\u{1b}\\y\u{1b}_app\u{1b}\\z", "yz"),
            ("\u{1b}(B\u{1b}7\u{1b}cx", "x"),
            ("\u{85}x\u{1b}", "x"),
            ("\u{1b}[31é", "é"),
            ("\u{1b}]0;first\nsecond\u{7}", "0;first\nsecond\u{7}"),
            ("\u{1b}]0;a\u{1b}[1mb", "0;ab"),
            ("\u{1b}[12", ""),
        ] {
            assert_eq!(without_escapes(text), left, "{text:?}");
        }
    }

    #[test]
    fn a_long_string_is_text_in_the_end() {
        let long = "word ".repeat(LONGEST);
        assert_eq!(without_escapes(&format!("\u{1b}]0;{long}")), format!("0;{long}"));
        let mut escapes = Escapes::default();
        let mut out = escapes.push("\u{1b}]0;");
        (0..LONGEST).for_each(|_| out.push_str(&escapes.push("word ")));
        assert!(escapes.held.len() <= LONGEST);
        assert_eq!(out + &escapes.finish(), format!("0;{long}"));
    }
}
