//! Character classes for sentence boundaries.

use super::Cluster;

/// The class of a cluster. Similar to the classes of UAX 29, with finer distinctions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CharClass {
    Newline,
    Space,
    /// A full stop that may also be part of a number or an abbreviation.
    Dot,
    Ellipsis,
    /// `!` and `?`, which also occur in addresses and code.
    Bang,
    /// An unambiguous terminator, which needs no space after it.
    Full,
    Open,
    Close,
    /// A quotation mark that opens or closes depending on its position, such as `"`.
    Quote,
    /// Punctuation that never ends a sentence.
    Continue,
    Dash,
    Backtick,
    Lower,
    Upper,
    /// A letter without case.
    Letter,
    Digit,
    /// An invisible character, or a part of a cluster that was too long.
    Transparent,
    Other,
}

/// Language-specific punctuation.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ScriptRules {
    /// `;` is a question mark.
    pub(super) greek: bool,
    /// Quotation marks point inwards: `»quotes«`.
    pub(super) inward_quotes: bool,
    /// The closing mark is the opening mark of other languages: `„quotes“`.
    pub(super) low_quotes: bool,
    /// Opening and closing marks are equal: `”quotes”`.
    pub(super) same_quotes: bool,
}

pub(super) fn class(cluster: &Cluster<'_>, habits: ScriptRules) -> CharClass {
    let c = cluster.first;
    if !c.is_ascii() {
        return wide(c, habits);
    }
    match c {
        'a'..='z' => CharClass::Lower,
        ' ' | '\t' => CharClass::Space,
        'A'..='Z' => CharClass::Upper,
        // An emoji, for example a keycap.
        '0'..='9' | '#' | '*' if cluster.text.len() > 1 => CharClass::Other,
        '0'..='9' => CharClass::Digit,
        '\n' | '\r' | '\x0b' | '\x0c' => CharClass::Newline,
        '.' => CharClass::Dot,
        '!' | '?' => CharClass::Bang,
        ';' if habits.greek => CharClass::Bang,
        ',' | ';' | ':' => CharClass::Continue,
        '-' => CharClass::Dash,
        '(' | '[' | '{' => CharClass::Open,
        ')' | ']' | '}' => CharClass::Close,
        '"' | '\'' | '*' | '_' | '~' => CharClass::Quote,
        '`' => CharClass::Backtick,
        '\0'..' ' => CharClass::Transparent,
        _ => CharClass::Other,
    }
}

fn wide(c: char, habits: ScriptRules) -> CharClass {
    match c {
        '\u{85}' | '\u{2028}' | '\u{2029}' => CharClass::Newline,
        '.' | '\u{2024}' | '\u{fe52}' | '\u{ff0e}' => CharClass::Dot,
        '\u{2026}' | '\u{22ef}' => CharClass::Ellipsis,
        '\u{37e}' | '\u{203c}' | '\u{203d}' | '\u{2047}'..='\u{2049}' => CharClass::Bang,
        '»' | '›' if habits.inward_quotes => CharClass::Open,
        '«' | '‹' if habits.inward_quotes => CharClass::Close,
        '“' | '‘' if habits.low_quotes => CharClass::Quote,
        '”' if habits.same_quotes => CharClass::Quote,
        '»' | '›' | '”' | '」' | '』' | '）' | '］' | '｝' | '】' | '〕' | '〉' | '》' | '｣' | '〞' | '〟' | '〗'
        | '〙' | '\u{f0b}' => CharClass::Close,
        '«' | '‹' | '“' | '‘' | '¿' | '¡' | '„' | '‚' | '「' | '『' | '（' | '［' | '｛' | '【' | '〔' | '〈'
        | '《' | '｢' | '〝' | '〖' | '〘' => CharClass::Open,
        '’' | '＂' | '＇' => CharClass::Quote,
        '，' | '、' | '；' | '：' | '､' | '،' | '؛' | '·' | '՝' | '\u{1802}' | '\u{1808}' | '\u{fe50}' | '\u{fe51}' => {
            CharClass::Continue
        }
        '\u{2010}'..='\u{2015}' | '\u{2212}' | '\u{ff0d}' => CharClass::Dash,
        '\u{ad}'
        | '\u{61c}'
        | '\u{200b}'..='\u{200f}'
        | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{2069}'
        | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}' => CharClass::Transparent,
        // Georgian has case in Unicode but does not use it for sentences (UAX 29).
        '\u{10d0}'..='\u{10ff}' => CharClass::Letter,
        _ if c.is_whitespace() => CharClass::Space,
        _ if c.is_lowercase() => CharClass::Lower,
        _ if c.is_uppercase() => CharClass::Upper,
        _ if is_terminal(c) => CharClass::Full,
        _ if unicode_normalization::char::is_combining_mark(c) => CharClass::Transparent,
        _ if c.is_numeric() => CharClass::Digit,
        _ if c.is_alphabetic() => CharClass::Letter,
        _ => CharClass::Other,
    }
}

/// Characters beyond ASCII with the Unicode property Sentence_Terminal, without those that have a class above and without
/// the Burmese U+104A, which is used as a comma.
const TERMINALS: &[(char, char)] = &[
    ('\u{589}', '\u{589}'),
    ('\u{61d}', '\u{61f}'),
    ('\u{6d4}', '\u{6d4}'),
    ('\u{700}', '\u{702}'),
    ('\u{7f9}', '\u{7f9}'),
    ('\u{837}', '\u{837}'),
    ('\u{839}', '\u{839}'),
    ('\u{83d}', '\u{83e}'),
    ('\u{964}', '\u{965}'),
    ('\u{104b}', '\u{104b}'),
    ('\u{1362}', '\u{1362}'),
    ('\u{1367}', '\u{1368}'),
    ('\u{166e}', '\u{166e}'),
    ('\u{1735}', '\u{1736}'),
    ('\u{17d4}', '\u{17d5}'),
    ('\u{1803}', '\u{1803}'),
    ('\u{1809}', '\u{1809}'),
    ('\u{1944}', '\u{1945}'),
    ('\u{1aa8}', '\u{1aab}'),
    ('\u{1b4e}', '\u{1b4f}'),
    ('\u{1b5a}', '\u{1b5b}'),
    ('\u{1b5e}', '\u{1b5f}'),
    ('\u{1b7d}', '\u{1b7f}'),
    ('\u{1c3b}', '\u{1c3c}'),
    ('\u{1c7e}', '\u{1c7f}'),
    ('\u{2cf9}', '\u{2cfb}'),
    ('\u{2e2e}', '\u{2e2e}'),
    ('\u{2e3c}', '\u{2e3c}'),
    ('\u{2e53}', '\u{2e54}'),
    ('\u{3002}', '\u{3002}'),
    ('\u{a4ff}', '\u{a4ff}'),
    ('\u{a60e}', '\u{a60f}'),
    ('\u{a6f3}', '\u{a6f3}'),
    ('\u{a6f7}', '\u{a6f7}'),
    ('\u{a876}', '\u{a877}'),
    ('\u{a8ce}', '\u{a8cf}'),
    ('\u{a92f}', '\u{a92f}'),
    ('\u{a9c8}', '\u{a9c9}'),
    ('\u{aa5d}', '\u{aa5f}'),
    ('\u{aaf0}', '\u{aaf1}'),
    ('\u{abeb}', '\u{abeb}'),
    ('\u{fe12}', '\u{fe12}'),
    ('\u{fe15}', '\u{fe16}'),
    ('\u{fe56}', '\u{fe57}'),
    ('\u{ff01}', '\u{ff01}'),
    ('\u{ff1f}', '\u{ff1f}'),
    ('\u{ff61}', '\u{ff61}'),
    ('\u{10a56}', '\u{10a57}'),
    ('\u{10f55}', '\u{10f59}'),
    ('\u{10f86}', '\u{10f89}'),
    ('\u{11047}', '\u{11048}'),
    ('\u{110be}', '\u{110c1}'),
    ('\u{11141}', '\u{11143}'),
    ('\u{111c5}', '\u{111c6}'),
    ('\u{111cd}', '\u{111cd}'),
    ('\u{111de}', '\u{111df}'),
    ('\u{11238}', '\u{11239}'),
    ('\u{1123b}', '\u{1123c}'),
    ('\u{112a9}', '\u{112a9}'),
    ('\u{113d4}', '\u{113d5}'),
    ('\u{1144b}', '\u{1144c}'),
    ('\u{115c2}', '\u{115c3}'),
    ('\u{115c9}', '\u{115d7}'),
    ('\u{11641}', '\u{11642}'),
    ('\u{1173c}', '\u{1173e}'),
    ('\u{11944}', '\u{11944}'),
    ('\u{11946}', '\u{11946}'),
    ('\u{11a42}', '\u{11a43}'),
    ('\u{11a9b}', '\u{11a9c}'),
    ('\u{11c41}', '\u{11c42}'),
    ('\u{11ef7}', '\u{11ef8}'),
    ('\u{11f43}', '\u{11f44}'),
    ('\u{16a6e}', '\u{16a6f}'),
    ('\u{16af5}', '\u{16af5}'),
    ('\u{16b37}', '\u{16b38}'),
    ('\u{16b44}', '\u{16b44}'),
    ('\u{16d6e}', '\u{16d6f}'),
    ('\u{16e98}', '\u{16e98}'),
    ('\u{1bc9f}', '\u{1bc9f}'),
    ('\u{1da88}', '\u{1da88}'),
];

fn is_terminal(c: char) -> bool {
    let next = TERMINALS.partition_point(|(first, _)| *first <= c);
    next > 0 && c <= TERMINALS[next - 1].1
}

/// Returns whether the script of this letter has no spaces between words.
pub(super) fn is_spaceless(c: char) -> bool {
    matches!(c,
        '\u{e00}'..='\u{eff}'
        | '\u{1000}'..='\u{109f}'
        | '\u{1780}'..='\u{17ff}'
        | '\u{1950}'..='\u{19df}'
        | '\u{1a20}'..='\u{1aaf}'
        | '\u{3005}'..='\u{3007}'
        | '\u{3040}'..='\u{30ff}'
        | '\u{3400}'..='\u{4dbf}'
        | '\u{4e00}'..='\u{9fff}'
        | '\u{a9e0}'..='\u{a9ff}'
        | '\u{aa60}'..='\u{aa7f}'
        | '\u{f900}'..='\u{faff}'
        | '\u{ff66}'..='\u{ff9f}'
        | '\u{20000}'..='\u{3ffff}')
}

/// Returns whether this is an East Asian letter, after which an ASCII full stop needs no space.
pub(super) fn is_east_asian(c: char) -> bool {
    matches!(c, '\u{ac00}'..='\u{d7a3}' | '\u{3005}'..='\u{9fff}')
}

pub(super) fn is_thai(c: char) -> bool {
    matches!(c, '\u{e00}'..='\u{e7f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminals_are_sorted_and_found() {
        assert!(TERMINALS.windows(2).all(|w| w[0].1 < w[1].0));
        for c in "。！？｡।॥؟۔።។။։".chars() {
            assert!(is_terminal(c), "{c}");
        }
        for c in "a၊、,\u{10ffff}".chars() {
            assert!(!is_terminal(c), "{c}");
        }
    }
}
