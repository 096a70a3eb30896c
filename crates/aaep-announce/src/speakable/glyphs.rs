//! Characters that no voice can speak, or that mean nothing when spoken.

use crate::phrases::Phrases;

/// What to do with a character.
enum GlyphAction<'p> {
    Keep,
    Drop,
    Space,
    /// Replace it by a pause, as between the cells of a drawn table.
    Pause,
    /// Replace it by the phrase with this id.
    Word(&'p str),
    Emoji,
}

/// Replaces characters that cannot be spoken. Line breaks stay, other white space becomes a plain space.
pub(super) fn clean(text: &str, phrases: &Phrases) -> String {
    let mut out = String::with_capacity(text.len());
    // Whether the last word was for an emoji: of a row of emoji one is enough.
    let mut after_emoji = false;
    for c in text.chars() {
        let glyph_action = glyph_action(c);
        match &glyph_action {
            GlyphAction::Keep => out.push(c),
            GlyphAction::Drop => continue,
            GlyphAction::Space => push_space(&mut out),
            GlyphAction::Pause => push_pause(&mut out),
            GlyphAction::Word(id) => {
                push_space(&mut out);
                out.push_str(&phrases.text(id));
                out.push(' ');
            }
            GlyphAction::Emoji if after_emoji => continue,
            GlyphAction::Emoji => {
                push_space(&mut out);
                out.push(c);
                out.push(' ');
            }
        }
        after_emoji = matches!(glyph_action, GlyphAction::Emoji)
            || (after_emoji && (c == ' ' || matches!(glyph_action, GlyphAction::Space)));
    }
    out
}

fn push_space(out: &mut String) {
    if !out.is_empty() && !out.ends_with([' ', '\n']) {
        out.push(' ');
    }
}

/// Adds a comma, unless the text already makes the voice pause.
fn push_pause(out: &mut String) {
    let said = out.trim_end_matches(' ').len();
    if out[..said].ends_with(|c: char| c.is_alphanumeric()) {
        out.truncate(said);
        out.push(',');
    }
    push_space(out);
}

fn glyph_action(c: char) -> GlyphAction<'static> {
    match c {
        '\n' => GlyphAction::Keep,
        ' '..='~' => GlyphAction::Keep,
        '\t' | '\r' | '\u{B}' | '\u{C}' | '\u{85}' | '\u{2028}' | '\u{2029}' => GlyphAction::Space,
        '✓' | '✔' | '✅' | '☑' => GlyphAction::Word("glyph-check"),
        '✗' | '✘' | '❌' | '✖' | '❎' | '☒' => GlyphAction::Word("glyph-cross"),
        '⚠' => GlyphAction::Word("glyph-warning"),
        '→' | '⇒' | '➜' | '➔' | '➡' | '⟶' | '↦' => GlyphAction::Word("glyph-arrow"),
        '\u{2010}' | '\u{2011}' => GlyphAction::Keep,
        '\u{2502}' | '\u{2503}' | '\u{2551}' | '\u{2022}' | '\u{2023}' | '\u{25E6}' | '\u{2043}' | '\u{2219}' => {
            GlyphAction::Pause
        }
        // Persian joins the parts of some words by this; a space sounds the same.
        '\u{200C}' => GlyphAction::Space,
        c if is_unspeakable(c) => {
            if is_zero_width(c) || c.is_control() {
                GlyphAction::Drop
            } else {
                GlyphAction::Space
            }
        }
        c if is_emoji(c) => GlyphAction::Emoji,
        c if c.is_whitespace() => GlyphAction::Space,
        _ => GlyphAction::Keep,
    }
}

/// Returns whether a voice cannot speak the character: control characters, characters without width, drawings, spinners,
/// private use.
///
/// ```
/// use aaep_announce::speakable::is_unspeakable;
/// assert!(is_unspeakable('│') && is_unspeakable('⠋') && is_unspeakable('\u{200B}') && is_unspeakable('•'));
/// assert!(!is_unspeakable('é') && !is_unspeakable('€') && !is_unspeakable('\n'));
/// ```
pub fn is_unspeakable(c: char) -> bool {
    (c.is_control() && c != '\n')
        || is_zero_width(c)
        || matches!(c,
            // Arrows, technical signs, enclosed letters, boxes, blocks, shapes, braille, more arrows.
            '\u{2190}'..='\u{21FF}' | '\u{2300}'..='\u{23FF}' | '\u{2400}'..='\u{2426}' | '\u{2500}'..='\u{25FF}'
            | '\u{2700}'..='\u{27BF}' | '\u{27F0}'..='\u{27FF}' | '\u{2800}'..='\u{28FF}' | '\u{2900}'..='\u{297F}'
            | '\u{2B00}'..='\u{2BFF}'
            // Bullets.
            | '\u{2022}' | '\u{2023}' | '\u{2043}' | '\u{2219}'
            // Line separators, the replacement character, private use.
            | '\u{2028}' | '\u{2029}' | '\u{FFFC}' | '\u{FFFD}' | '\u{E000}'..='\u{F8FF}'
            | '\u{F0000}'..='\u{FFFFD}' | '\u{100000}'..='\u{10FFFD}')
}

/// Characters without width of their own that change how others look or are ordered.
fn is_zero_width(c: char) -> bool {
    matches!(c,
        '\u{AD}' | '\u{34F}' | '\u{61C}' | '\u{115F}' | '\u{1160}' | '\u{17B4}' | '\u{17B5}' | '\u{180B}'..='\u{180F}'
        | '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2060}'..='\u{206F}' | '\u{3164}'
        | '\u{FE00}'..='\u{FE0F}' | '\u{FEFF}' | '\u{FFA0}' | '\u{FFF0}'..='\u{FFFB}' | '\u{1BCA0}'..='\u{1BCA3}'
        | '\u{1D173}'..='\u{1D17A}' | '\u{1F3FB}'..='\u{1F3FF}' | '\u{20E3}' | '\u{E0000}'..='\u{E0FFF}')
}

fn is_emoji(c: char) -> bool {
    matches!(c, '\u{2600}'..='\u{26FF}' | '\u{1F000}'..='\u{1FAFF}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawings_spinners_and_invisible_characters_go_words_stay() {
        let english = Phrases::for_languages(&[]);
        for (text, said) in [
            ("┌──┐", ""),
            ("│ a │ b │", "a, b,"),
            ("a • b", "a, b"),
            ("⠋ Loading", "Loading"),
            ("✅ Tests", "check Tests"),
            ("❌ Tests ⚠\u{FE0F} now", "cross Tests warning now"),
            ("A → B", "A to B"),
            ("pay\u{200B}pal \u{202E}x", "paypal x"),
            ("می\u{200C}خواهم", "می خواهم"),
            ("🎉🎉🚀 go", "🎉 go"),
            ("🎉 🎉 go", "🎉 go"),
            ("👍🏽", "👍"),
            ("👨\u{200D}👩\u{200D}👧", "👨"),
            ("naïve € 5 × 3", "naïve € 5 × 3"),
            ("Ẹ kú àárọ̀", "Ẹ kú àárọ̀"),
        ] {
            let cleaned = clean(text, english);
            assert_eq!(cleaned.split_whitespace().collect::<Vec<_>>().join(" "), said, "{text:?}");
        }
    }
}
