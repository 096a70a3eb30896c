//! Finds characters that may mislead a user about the content of a text.

use std::borrow::Cow;
use std::fmt;

use unicode_security::confusable_detection::skeleton;

use super::path::Brief;
use crate::json::Json;
use crate::limits;

/// The reason why a text may deceive.
///
/// Exhaustive on purpose: whoever shows a question has to warn of each of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deception {
    /// A character that is neither visible nor audible.
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
            Deception::LookAlike(word) => write!(f, "the look-alike letters of \"{}\"", Brief(word)),
        }
    }
}

/// Finds the first hidden or reordering character, or else the first look-alike word. Returns `None` if there is none.
///
/// Characters that a script needs are accepted: joiners between Persian or Devanagari letters and inside emoji, word
/// breaks in Khmer or Thai, direction marks in right-to-left text.
///
/// ```
/// use aaep_proto::validate::{Deception, find_deception};
/// assert_eq!(find_deception("Pay \u{202E}001"), Some(Deception::Direction('\u{202E}')));
/// assert_eq!(find_deception("Pay $100"), None);
/// ```
pub fn find_deception(text: &str) -> Option<Deception> {
    find_deception_in(text, None)
}

/// Finds the first deceptive character or word, as [`find_deception`] does, in a text of a known language. In Russian,
/// a word in Cyrillic letters is not deceptive.
///
/// ```
/// use aaep_proto::validate::find_deception_in;
/// assert!(find_deception_in("Pay \u{0440}\u{0430}\u{0443}", Some("en")).is_some());
/// assert!(find_deception_in("Pay \u{0440}\u{0430}\u{0443}", Some("ru")).is_none());
/// ```
pub fn find_deception_in(text: &str, language: Option<&str>) -> Option<Deception> {
    if is_plain(text) {
        return None;
    }
    find_character(text).or_else(|| find_look_alike(text, language))
}

fn find_character(text: &str) -> Option<Deception> {
    let mut first = None;
    each_character(text, |found| first = first.take().or(Some(found)));
    first.map(|found| found.deception)
}

/// A deceptive character and its position.
struct Suspect {
    at: usize,
    deception: Deception,
}

/// Reports every hidden or reordering character. Isolates that are never closed are reported last.
fn each_character(text: &str, mut found: impl FnMut(Suspect)) {
    let runs_right_to_left = text.chars().any(is_right_to_left);
    let mut isolates = Vec::new();
    let mut before = Before::default();
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        let after = &text[at + c.len_utf8()..];
        let next = after.chars().next().unwrap_or(' ');
        let mut width = c.len_utf8();
        let mut suspect = |deception| found(Suspect { at, deception });
        match c {
            '\u{2066}'..='\u{2068}' if runs_right_to_left => isolates.push((at, c)),
            '\u{2069}' if runs_right_to_left && isolates.pop().is_some() => {}
            '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}' => suspect(Deception::Direction(c)),
            '\u{200E}' | '\u{200F}' | '\u{061C}' if !runs_right_to_left => suspect(Deception::Direction(c)),
            // A black flag and the tags that spell a region are one unit.
            '\u{1F3F4}' => width += region_of_flag(after),
            c if is_hidden(c, before, next) => suspect(Deception::Hidden(c)),
            _ => {}
        }
        before = before.then(c);
        at += width;
    }
    isolates.into_iter().rev().for_each(|(at, c)| found(Suspect { at, deception: Deception::Direction(c) }));
}

/// Returns whether a value contains a text that [`expose`] would change.
pub(crate) fn hides(json: &Json<'_>) -> bool {
    match json {
        Json::String(text) => !is_plain(text) && find_character(text).is_some(),
        Json::Array(items) => items.iter().any(hides),
        Json::Object(object) => object.iter().any(|(_, value)| hides(value)),
        _ => false,
    }
}

fn is_plain(text: &str) -> bool {
    text.bytes().all(|b| (0x20..0x7f).contains(&b))
}

/// Replaces hidden and reordering characters by a description, so that they cannot change what is heard or seen.
/// Characters that a script needs are kept, as by [`find_deception`]. Adjacent characters are described as one, and
/// after the first 16 places the others are removed.
///
/// ```
/// use aaep_proto::validate::expose;
/// assert_eq!(expose("Pay \u{202E}001"), "Pay [direction control U+202E]001");
/// assert_eq!(expose("Pay $100"), "Pay $100");
/// ```
pub fn expose(text: &str) -> Cow<'_, str> {
    let mut suspects = Vec::new();
    if !is_plain(text) {
        each_character(text, |found| suspects.push(found));
    }
    if suspects.is_empty() {
        return Cow::Borrowed(text);
    }
    suspects.sort_by_key(|suspect| suspect.at);
    let (mut exposed, mut handed, mut places) = (String::with_capacity(text.len()), 0, 0);
    let width = |suspect: &Suspect| text[suspect.at..].chars().next().map_or(0, char::len_utf8);
    for together in suspects.chunk_by(|a, b| a.at + width(a) == b.at) {
        let (first, end) = (&together[0], together.last().map_or(0, |last| last.at + width(last)));
        exposed.push_str(&text[handed..first.at]);
        handed = end;
        places += 1;
        if places > limits::REVEALED_CHARACTERS {
            continue;
        }
        exposed.push_str(&match (&first.deception, together.len()) {
            (Deception::Direction(c), 1) => format!("[direction control U+{:04X}]", *c as u32),
            (Deception::Hidden(c), 1) => format!("[hidden character U+{:04X}]", *c as u32),
            (_, count) => format!("[{count} hidden characters]"),
        });
    }
    exposed.push_str(&text[handed..]);
    Cow::Owned(exposed)
}

/// The context before a character.
#[derive(Clone, Copy)]
struct Before {
    /// The last character.
    last: char,
    /// The last character that is not a joiner.
    base: char,
    /// The number of joiners after it.
    joiners: u8,
}

impl Default for Before {
    fn default() -> Before {
        Before { last: ' ', base: ' ', joiners: 0 }
    }
}

impl Before {
    fn then(self, c: char) -> Before {
        match c {
            '\u{200C}' | '\u{200D}' => Before { last: c, joiners: self.joiners.saturating_add(1), ..self },
            _ => Before { last: c, base: c, joiners: 0 },
        }
    }
}

fn is_hidden(c: char, before: Before, next: char) -> bool {
    match c {
        '\t' | '\n' | '\r' => false,
        // A doubled joiner is a typing error; more could encode hidden data.
        '\u{200C}' | '\u{200D}' => !joins(before.base) || before.joiners >= 2,
        '\u{200B}' => !breaks_without_space(before.last),
        '\u{00AD}' => !before.last.is_alphabetic() || !next.is_alphabetic(),
        '\u{FE0E}' | '\u{FE0F}' if matches!(before.last, '0'..='9' | '#' | '*') => false,
        '\u{FE00}'..='\u{FE0F}' => !takes_variation(before.last),
        '\u{E0100}'..='\u{E01EF}' => !is_ideograph(before.last),
        '\u{180B}'..='\u{180D}' | '\u{180F}' => !matches!(before.last, '\u{1820}'..='\u{18AA}'),
        '\u{034F}'
        | '\u{115F}'
        | '\u{1160}'
        | '\u{17B4}'
        | '\u{17B5}'
        | '\u{180E}'
        | '\u{2028}'
        | '\u{2029}'
        | '\u{2060}'..='\u{2065}'
        | '\u{206A}'..='\u{206F}'
        | '\u{3164}'
        | '\u{FEFF}'
        | '\u{FFA0}'
        | '\u{FFF9}'..='\u{FFFB}'
        | '\u{1BCA0}'..='\u{1BCA3}'
        | '\u{1D173}'..='\u{1D17A}'
        | '\u{E0000}'..='\u{E0FFF}' => true,
        c => c.is_control(),
    }
}

fn is_right_to_left(c: char) -> bool {
    let here = matches!(c, '\u{0590}'..='\u{08FF}' | '\u{FB1D}'..='\u{FDFF}' | '\u{FE70}'..='\u{FEFC}' | '\u{10800}'..='\u{10FFF}' | '\u{1E800}'..='\u{1EFFF}');
    here && c.is_alphabetic()
}

/// Returns whether a joiner after this character can change its shape.
fn joins(previous: char) -> bool {
    matches!(previous, '\u{0600}'..='\u{1CFF}' | '\u{2190}'..='\u{2BFF}' | '\u{FE0F}' | '\u{1F000}'..='\u{1FAFF}')
}

/// Returns whether the script of this character marks word breaks without spaces: Thai, Lao, Myanmar, Khmer.
fn breaks_without_space(previous: char) -> bool {
    matches!(previous, '\u{0E01}'..='\u{0EFF}' | '\u{1000}'..='\u{109F}' | '\u{1780}'..='\u{17FF}')
}

/// Returns whether this character can have a variation selector: symbols, emoji and scripts with standardized variants.
fn takes_variation(previous: char) -> bool {
    matches!(previous, '\u{A9}' | '\u{AE}' | '\u{1000}'..='\u{109F}' | '\u{2010}'..='\u{2027}' | '\u{2030}'..='\u{205E}'
        | '\u{20A0}'..='\u{2BFF}' | '\u{3001}'..='\u{9FFF}' | '\u{A840}'..='\u{A87F}' | '\u{F900}'..='\u{FAFF}'
        | '\u{10000}'..='\u{3FFFF}')
}

fn is_ideograph(c: char) -> bool {
    matches!(c, '\u{3400}'..='\u{9FFF}' | '\u{F900}'..='\u{FAFF}' | '\u{20000}'..='\u{3FFFF}')
}

/// Returns the length in bytes of the tags that make a black flag the flag of a region: one to six letters or digits
/// and the end tag. Returns 0 if they do not.
fn region_of_flag(after: &str) -> usize {
    let is_part = |c: char| matches!(c, '\u{E0030}'..='\u{E0039}' | '\u{E0061}'..='\u{E007A}');
    let count = after.chars().take(7).take_while(|c| is_part(*c)).count();
    let ended = after.chars().nth(count) == Some('\u{E007F}');
    // Every tag is four bytes long.
    if ended && (1..=6).contains(&count) { 4 * (count + 1) } else { 0 }
}

/// Latin, and the scripts with letters that look like Latin ones.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Script {
    Latin,
    Greek,
    Cyrillic,
    Armenian,
    Cherokee,
}

fn script_of(c: char) -> Option<Script> {
    match c {
        'A'..='Z' | 'a'..='z' | '\u{C0}'..='\u{24F}' | '\u{1E00}'..='\u{1EFF}' if c.is_alphabetic() => {
            Some(Script::Latin)
        }
        '\u{0370}'..='\u{03FF}' | '\u{1F00}'..='\u{1FFF}' => Some(Script::Greek),
        '\u{0400}'..='\u{052F}' | '\u{1C80}'..='\u{1C8F}' | '\u{A640}'..='\u{A69F}' => Some(Script::Cyrillic),
        '\u{0531}'..='\u{0589}' => Some(Script::Armenian),
        '\u{13A0}'..='\u{13FF}' | '\u{AB70}'..='\u{ABBF}' => Some(Script::Cherokee),
        _ => None,
    }
}

/// Returns the script of a language if it can be mistaken for Latin, otherwise `None`.
fn script_of_language(tag: &str) -> Option<Script> {
    let mut subtags = tag.split(['-', '_']);
    let language = subtags.next().unwrap_or_default().to_ascii_lowercase();
    for script in subtags.filter(|s| s.len() == 4) {
        match script.to_ascii_lowercase().as_str() {
            "cyrl" => return Some(Script::Cyrillic),
            "latn" => return None,
            _ => {}
        }
    }
    match language.as_str() {
        "ru" | "uk" | "be" | "bg" | "sr" | "mk" | "kk" | "ky" | "tg" | "mn" | "tt" | "ba" | "cv" | "ce" | "os"
        | "ab" | "av" | "rue" | "sah" | "udm" | "cu" => Some(Script::Cyrillic),
        "el" | "grc" => Some(Script::Greek),
        "hy" | "hyw" => Some(Script::Armenian),
        "chr" => Some(Script::Cherokee),
        _ => None,
    }
}

/// The letters of a word by script.
struct Word<'t> {
    text: &'t str,
    latin: bool,
    /// The script of letters that are not Latin.
    foreign: Option<Script>,
    /// Whether each non-Latin letter looks like an ASCII letter.
    alike: bool,
    letters: usize,
}

fn word(text: &str) -> Word<'_> {
    let mut word = Word { text, latin: false, foreign: None, alike: true, letters: 0 };
    let mut buffer = [0; 4];
    for c in text.chars() {
        word.letters += usize::from(c.is_alphabetic());
        match script_of(c) {
            Some(Script::Latin) => word.latin = true,
            Some(script) => {
                word.foreign = Some(script);
                word.alike = word.alike && skeleton(c.encode_utf8(&mut buffer)).all(|s| s.is_ascii_alphabetic());
            }
            None => {}
        }
    }
    word
}

fn find_look_alike(text: &str, language: Option<&str>) -> Option<Deception> {
    // A combining mark belongs to the letter before it.
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '\u{0300}'..='\u{036F}');
    let words = || text.split(|c| !is_part(c)).filter(|w| !w.is_empty()).map(word);
    let found = |word: Word<'_>| Deception::LookAlike(word.text.to_owned());
    if let Some(mixed) = words().find(|w| w.latin && w.foreign.is_some() && w.alike) {
        return Some(found(mixed));
    }
    // A whole word in another script that looks like Latin, next to Latin words, is deceptive unless the language uses
    // that script or, if no language is given, the text has other words in it.
    if !words().any(|w| w.latin) {
        return None;
    }
    let native = language.and_then(script_of_language);
    let vouched = |script| language.is_none() && words().any(|w| w.foreign == Some(script) && !w.alike);
    let whole = |w: &Word<'_>| !w.latin && w.alike && w.letters >= 3 && w.foreign.is_some() && w.foreign != native;
    let candidate = words().find(whole)?;
    match candidate.foreign {
        Some(script) if vouched(script) => None,
        _ => Some(found(candidate)),
    }
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
            ("Pay аррӏе", Deception::LookAlike("аррӏе".into())),
            ("😀\u{E0100}\u{E0101}\u{E0102}", Deception::Hidden('\u{E0100}')),
            ("❤\u{FE0F}\u{FE0F}", Deception::Hidden('\u{FE0F}')),
            ("1\u{E0155}", Deception::Hidden('\u{E0155}')),
            ("é\u{FE01}", Deception::Hidden('\u{FE01}')),
            ("\u{1F3F4}\u{E0067}\u{E0062}", Deception::Hidden('\u{E0067}')),
            (
                "\u{1F3F4}\u{E0061}\u{E0062}\u{E0063}\u{E0064}\u{E0065}\u{E0066}\u{E0067}\u{E007F}",
                Deception::Hidden('\u{E0061}'),
            ),
            ("a\u{FFF9}b", Deception::Hidden('\u{FFF9}')),
            ("a\u{1D173}", Deception::Hidden('\u{1D173}')),
            ("a\u{1BCA0}", Deception::Hidden('\u{1BCA0}')),
            ("a\u{2065}", Deception::Hidden('\u{2065}')),
            ("a\u{E0080}", Deception::Hidden('\u{E0080}')),
            ("a\u{180F}", Deception::Hidden('\u{180F}')),
            ("a\u{2028}b", Deception::Hidden('\u{2028}')),
            ("a\u{2029}b", Deception::Hidden('\u{2029}')),
            ("pay \u{AD}bob", Deception::Hidden('\u{AD}')),
            ("می\u{200C}\u{200D}\u{200C}خواهم", Deception::Hidden('\u{200C}')),
            ("א Pay \u{2066}100", Deception::Direction('\u{2066}')),
            ("א Pay 100\u{2069}", Deception::Direction('\u{2069}')),
        ] {
            assert_eq!(find_deception(text), Some(expected), "{text:?}");
        }
    }

    #[test]
    fn ordinary_text_of_many_scripts_is_accepted() {
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
            "将500美元从A账户转到B账户",
            "PDFを山田さんに送信します",
            "보고서 PDF를 보내기",
            "T恤 购买",
            "ส่งไฟล์PDFให้แม่",
            "बिल का PDFको भेजें",
            "الـPDF إرسال",
            "10 μg of medicine",
            "10 \u{B5}g of medicine",
            "5 kΩ resistor",
            "Δt is 5",
            "ខ្ញុំ\u{200B}ចង់\u{200B}ផ្ញើ",
            "می\u{200C}\u{200C}خواهم",
            "Donau\u{AD}dampf\u{AD}schiff",
            "Press 1\u{FE0F}\u{20E3} now ☎\u{FE0E}",
            "葛\u{E0100}城市",
            "שלום \u{2066}abc\u{2069} שלום",
            "Она сама купит PayPal",
        ] {
            assert_eq!(find_deception(text), None, "{text:?}");
        }
    }
}
