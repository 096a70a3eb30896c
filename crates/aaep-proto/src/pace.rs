//! How long text takes to announce.

/// Returns how many words a text counts for at a pace in words per minute. In scripts that are written without spaces
/// two characters count as one word (decision 81).
///
/// ```
/// use aaep_proto::pace::spoken_words;
/// assert_eq!(spoken_words("Three flights found."), 3);
/// assert_eq!(spoken_words("航班三個"), 2);
/// ```
pub fn spoken_words(text: &str) -> u64 {
    let mut words = 0u64;
    let mut dense = 0u64;
    let mut inside = false;
    for c in text.chars() {
        let is_dense = matches!(c, '\u{0E00}'..='\u{0EFF}' | '\u{1000}'..='\u{109F}' | '\u{1780}'..='\u{17FF}' | '\u{3040}'..='\u{30FF}' | '\u{3400}'..='\u{9FFF}');
        dense += u64::from(is_dense);
        let in_word = !c.is_whitespace() && !is_dense;
        words += u64::from(in_word && !inside);
        inside = in_word;
    }
    words + dense.div_ceil(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_without_spaces_count_by_characters() {
        assert_eq!(spoken_words(""), 0);
        assert_eq!(spoken_words(" one  two\nthree "), 3);
        assert_eq!(spoken_words("漢字漢字漢"), 3);
        // A word beside them counts as a word, and the run itself not once more.
        assert_eq!(spoken_words("Hello 漢字 world"), 3);
        // Korean is written with spaces.
        assert_eq!(spoken_words("안녕하세요 세계"), 2);
    }
}
