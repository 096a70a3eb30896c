//! The parts of a line: emphasis, code, links, addresses, words.

use super::code::{named, spoken};
use super::word::{host, url, word};
use super::{SpeechStyle, tidy};
use crate::phrases::phrase;

/// Longer code inside a sentence is announced by its length.
const MAX_READ_CODE_CHARS: usize = 80;
/// How far the end of a link or of code is searched for.
const MAX_MARKUP_BYTES: usize = 2048;

/// Makes a line speakable.
pub(super) fn inline(text: &str, style: SpeechStyle) -> String {
    let mut out = String::with_capacity(text.len());
    let mut before = ' ';
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let taken = special(rest, before, style, &mut out);
        let taken = match taken {
            Some(taken) => taken,
            None if starts_word(before) && !c.is_whitespace() => take_word(rest, style, &mut out),
            None => {
                out.push(if c.is_whitespace() { ' ' } else { c });
                c.len_utf8()
            }
        };
        before = rest[..taken].chars().last().unwrap_or(' ');
        rest = &rest[taken..];
    }
    tidy(&out)
}

fn starts_word(before: char) -> bool {
    before.is_whitespace() || matches!(before, '*' | '_' | '~' | '`' | ')' | ']' | '>' | '(')
}

/// Handles markup at this place and returns how many bytes it has. Returns `None` if there is none.
fn special(rest: &str, before: char, style: SpeechStyle, out: &mut String) -> Option<usize> {
    if rest.starts_with('`') {
        return code_span(rest, style, out);
    }
    if let Some(length) = address(rest, before) {
        push(out, &url(&rest[..length], style));
        out.truncate(out.trim_end().len());
        return Some(length);
    }
    if style.exact {
        return None;
    }
    let next = rest.chars().nth(1).unwrap_or(' ');
    match rest.as_bytes()[0] {
        b'!' if next == '[' => image(rest, style, out),
        b'[' => link(rest, style, out),
        b'<' => tag(rest, style, out),
        b'&' => entity(rest, out),
        b'\\' if style.markdown && next.is_ascii_punctuation() => {
            out.push(next);
            Some(2)
        }
        b'*' | b'_' | b'~' => emphasis(rest, before, style),
        _ => None,
    }
}

fn push(out: &mut String, text: &str) {
    if !text.is_empty() {
        if !out.is_empty() && !out.ends_with([' ', '(', '"', '\'']) {
            out.push(' ');
        }
        out.push_str(text);
        out.push(' ');
    }
}

fn code_span(rest: &str, style: SpeechStyle, out: &mut String) -> Option<usize> {
    let ticks = rest.bytes().take_while(|b| *b == b'`').count();
    let (fence, body) = rest.split_at(ticks);
    let near = &body[..floor(body, MAX_MARKUP_BYTES)];
    let Some(end) = near.find(fence) else { return Some(ticks) };
    let code = &near[..end];
    let length = code.chars().count();
    if length > MAX_READ_CODE_CHARS && !style.exact {
        let start: String = code.split_whitespace().next().unwrap_or_default().chars().take(20).collect();
        push(out, &phrase!(style.phrases, "long-code", count = length, start = &spoken(&start, style)));
    } else {
        push(out, &spoken(code, style));
        // The sentence goes on after the code: no space before its comma.
        out.truncate(out.trim_end().len());
    }
    Some(ticks + end + ticks)
}

/// Returns the length of a web address that starts here.
fn address(rest: &str, before: char) -> Option<usize> {
    if before.is_alphanumeric() {
        return None;
    }
    let schemes = ["http://", "https://", "ftp://", "file://", "ws://", "wss://", "www."];
    let scheme = schemes.iter().find(|s| rest.get(..s.len()).is_some_and(|start| start.eq_ignore_ascii_case(s)))?;
    let stop = |c: char| c.is_whitespace() || matches!(c, '<' | '>' | '"' | '`' | '|');
    let end = rest.find(stop).unwrap_or(rest.len());
    let mut found = rest[..end].trim_end_matches(['.', ',', ';', ':', '!', '?', '\'', ']', '*']);
    // A closing bracket belongs to the text unless the address opened it.
    while found.ends_with(')') && found.matches('(').count() < found.matches(')').count() {
        found = found[..found.len() - 1].trim_end_matches(['.', ',', ';', ':', '!', '?']);
    }
    (found.len() > scheme.len()).then_some(found.len())
}

/// Returns the text and the target of `[text](target)`, and its length.
fn bracketed(rest: &str) -> Option<(&str, &str, usize)> {
    let near = &rest[..floor(rest, MAX_MARKUP_BYTES)];
    let mut depth = 0usize;
    let close = near.char_indices().find_map(|(i, c)| {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        (depth == 0).then_some(i)
    })?;
    let text = &near[1..close];
    let after = &near[close + 1..];
    if let Some(inside) = after.strip_prefix('(') {
        let end = inside.find(')')?;
        let target = inside[..end].split_whitespace().next().unwrap_or_default();
        return Some((text, target, close + 1 + 1 + end + 1));
    }
    let reference = after.strip_prefix('[').and_then(|r| r.find(']'))?;
    Some((text, "", close + 1 + 1 + reference + 1))
}

fn link(rest: &str, style: SpeechStyle, out: &mut String) -> Option<usize> {
    if rest.starts_with("[^") {
        // The number of a footnote means nothing inside a sentence.
        return rest[..floor(rest, 40)].find(']').map(|end| end + 1);
    }
    let (text, target, length) = bracketed(rest)?;
    let text = inline(text, style);
    match host(target) {
        Some(host) if text.is_empty() => push(out, &phrase!(style.phrases, "link", host = &host)),
        Some(host) => push(out, &phrase!(style.phrases, "link-text", text = &text, host = &host)),
        None => push(out, &text),
    }
    out.truncate(out.trim_end().len());
    Some(length)
}

fn image(rest: &str, style: SpeechStyle, out: &mut String) -> Option<usize> {
    let (text, _, length) = bracketed(&rest[1..])?;
    let text = inline(text, style);
    let said =
        if text.is_empty() { style.phrases.text("image-plain") } else { phrase!(style.phrases, "image", text = &text) };
    push(out, &said);
    out.truncate(out.trim_end().len());
    Some(length + 1)
}

/// Handles `<https://…>`, which is an address, and `<b>`, which is markup.
fn tag(rest: &str, style: SpeechStyle, out: &mut String) -> Option<usize> {
    let near = &rest[1..floor(rest, MAX_MARKUP_BYTES).max(1)];
    let end = near.find('>')?;
    let inside = &near[..end];
    if inside.contains("://") && !inside.contains(char::is_whitespace) {
        push(out, &url(inside, style));
        return Some(end + 2);
    }
    let name = inside.trim_start_matches('/');
    let is_tag = style.markdown && name.starts_with(|c: char| c.is_ascii_alphabetic()) && !inside.contains('<');
    is_tag.then(|| {
        out.push(' ');
        end + 2
    })
}

fn entity(rest: &str, out: &mut String) -> Option<usize> {
    let known = [("&amp;", '&'), ("&lt;", '<'), ("&gt;", '>'), ("&quot;", '"'), ("&#39;", '\''), ("&nbsp;", ' ')];
    let (name, c) = known.iter().find(|(name, _)| rest.starts_with(name))?;
    out.push(*c);
    Some(name.len())
}

/// Returns the length of marks for bold, italic or struck out text.
fn emphasis(rest: &str, before: char, style: SpeechStyle) -> Option<usize> {
    let mark = rest.chars().next()?;
    let length = rest.chars().take_while(|c| *c == mark).count();
    let after = rest[length..].chars().next().unwrap_or(' ');
    let opens = !after.is_whitespace() && !before.is_alphanumeric();
    let closes = !before.is_whitespace() && !after.is_alphanumeric();
    let is_emphasis = match (mark, length) {
        ('~', 2) | ('*', 2..=3) => opens || closes || !after.is_whitespace() || !before.is_whitespace(),
        ('_', 2..=3) => (opens || closes) && after != '(',
        ('*' | '_', 1) => style.markdown && (opens || closes),
        _ => false,
    };
    is_emphasis.then_some(length)
}

/// Makes the word up to the next space or markup speakable, and returns its length.
fn take_word(rest: &str, style: SpeechStyle, out: &mut String) -> usize {
    let mut end = rest.len();
    for (i, c) in rest.char_indices().skip(1) {
        let markup =
            !style.exact && (rest[i..].starts_with("**") || rest[i..].starts_with("~~") || c == '[' || c == '<');
        let slanted = style.markdown && !style.exact && c == '*';
        let closing =
            style.markdown && !style.exact && c == '_' && { !rest[i + 1..].starts_with(|c: char| c.is_alphanumeric()) };
        let escaped = style.markdown && c == '\\' && rest[i + 1..].starts_with(|c: char| c.is_ascii_punctuation());
        if c.is_whitespace() || c == '`' || escaped || markup || slanted || closing {
            end = i;
            break;
        }
    }
    let token = &rest[..end];
    let alone = !token.chars().any(char::is_alphanumeric) && token.is_ascii();
    if alone && style.exact {
        push(out, &lone_marks(token, style));
    } else {
        out.push_str(&word(token, style));
    }
    end
}

/// Names marks without letters. Marks that only end a sentence stay as they are.
fn lone_marks(token: &str, style: SpeechStyle) -> String {
    if token.chars().all(|c| matches!(c, '.' | ',' | ';' | ':' | '!' | '?' | '-')) {
        return token.to_owned();
    }
    named(token, style.phrases)
}

/// Returns the largest index up to this one that is between two characters.
fn floor(text: &str, most: usize) -> usize {
    if text.len() <= most { text.len() } else { (0..=most).rev().find(|i| text.is_char_boundary(*i)).unwrap_or(0) }
}
