//! Lines that fit the terminal: wrapped at words, so that speech and braille do not tear them.

/// Lines are not wrapped for terminals that are narrower.
const MIN_WRAP_WIDTH: usize = 8;

/// Returns the width of the terminal that an output goes to, or `None` if it is no terminal.
#[cfg(unix)]
pub(crate) fn width(output: impl std::os::fd::AsFd) -> Option<usize> {
    rustix::termios::tcgetwinsize(output).ok().map(|size| size.ws_col.into())
}

/// Returns `None`: lines are wrapped on Unix only.
#[cfg(not(unix))]
pub(crate) fn width<T>(_output: T) -> Option<usize> {
    None
}

/// Wraps a line at words. Continuation lines are indented: no other line is, so text of an agent cannot forge one.
pub(crate) fn wrap(text: &str, width: Option<usize>) -> String {
    let Some(width) = width.filter(|width| *width >= MIN_WRAP_WIDTH) else { return text.to_owned() };
    let options = textwrap::Options::new(width)
        .subsequent_indent("  ")
        .word_separator(textwrap::WordSeparator::AsciiSpace)
        .word_splitter(textwrap::WordSplitter::NoHyphenation)
        .wrap_algorithm(textwrap::WrapAlgorithm::FirstFit);
    textwrap::wrap(text, options).join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_wrapped_at_words_and_continuations_are_indented() {
        let line = "Text: One two three. Question 9: harmless";
        assert_eq!(wrap(line, Some(20)), "Text: One two three.\n  Question 9:\n  harmless");
        assert_eq!(wrap(line, None), line);
        assert_eq!(wrap(line, Some(80)), line);
        assert_eq!(wrap(line, Some(1)), line, "too narrow for anything");
    }

    #[test]
    fn no_width_tears_words_or_loses_any() {
        let line = "Question 1: The money moves at once and the bank cannot take it back.";
        for width in 12..90 {
            let wrapped = wrap(line, Some(width));
            assert!(wrapped.lines().all(|part| part.chars().count() <= width), "{width}: {wrapped}");
            assert!(wrapped.lines().skip(1).all(|part| part.starts_with("  ")), "{width}: {wrapped}");
            assert_eq!(wrapped.split_whitespace().collect::<Vec<_>>(), line.split(' ').collect::<Vec<_>>(), "{width}");
        }
    }
}
