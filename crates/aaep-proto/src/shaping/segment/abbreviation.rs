//! Decides whether a full stop after a word can end a sentence.

use super::Cluster;
use super::class::is_thai;
use super::language::SentenceRules;

/// The meaning of a full stop, judged by the word before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StopVerdict {
    /// The end of a sentence.
    End,
    /// Part of an abbreviation or a number.
    Part,
    /// The end of a sentence unless a number follows.
    EndUnlessNumber,
    /// The end of a sentence only if the next word is a sentence starter.
    EndBeforeStarter,
}

/// Maximum length of an abbreviation in bytes.
const MAX_TOKEN: usize = 32;

/// The text since the last space, up to the maximum length of an abbreviation.
#[derive(Debug, Default)]
pub(super) struct LastWord {
    text: String,
    too_long: bool,
    /// Whether it looks like an address or code, where `?` and `!` are not punctuation.
    pub(super) technical: bool,
    /// Whether it is at the start of its sentence or after a colon, where a number is a label.
    pub(super) leads: bool,
    ends_with_colon: bool,
    /// Whether a number is expected after it, as after `No.`
    before_number: bool,
    /// Whether a number was expected after the token before it.
    after_number_word: bool,
}

impl LastWord {
    /// Starts a new token after a space.
    pub(super) fn next(&mut self) {
        if !self.is_empty() {
            let (leads, after_number_word) = (self.ends_with_colon, self.before_number);
            self.restart();
            self.leads = leads;
            self.after_number_word = after_number_word;
        }
    }

    /// Starts a new token at the start of a sentence.
    pub(super) fn restart(&mut self) {
        self.text.clear();
        self.too_long = false;
        self.technical = false;
        self.leads = true;
        self.ends_with_colon = false;
        self.before_number = false;
        self.after_number_word = false;
    }

    pub(super) fn push(&mut self, cluster: &Cluster<'_>) {
        let text = cluster.text;
        self.technical |= matches!(cluster.first, '/' | '@' | '=' | '&' | '\\' | '#');
        self.ends_with_colon = matches!(cluster.first, ':' | '：');
        if self.text.len() + text.len() <= MAX_TOKEN {
            self.text.push_str(text);
        } else {
            self.too_long = true;
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty() && !self.too_long
    }

    pub(super) fn last(&self) -> Option<char> {
        self.text.chars().next_back().filter(|_| !self.too_long)
    }

    /// Returns the token without opening punctuation.
    fn word(&self) -> &str {
        if self.too_long { "" } else { self.text.trim_start_matches(|c: char| !c.is_alphanumeric()) }
    }

    /// Returns whether the token is a sentence starter. A single letter is not: it may be an initial.
    pub(super) fn is_starter(&self, language: &SentenceRules) -> bool {
        !is_letter(self.word()) && contains(language.starters, &self.word().to_lowercase())
    }

    /// Returns what a full stop after this token means.
    pub(super) fn verdict(&mut self, language: &SentenceRules) -> StopVerdict {
        let word = self.word();
        let Some(first) = word.chars().next() else { return StopVerdict::End };
        // In Thai, full stops end abbreviations but not sentences.
        if word.chars().next_back().is_some_and(is_thai) {
            return StopVerdict::Part;
        }
        if first.is_numeric() {
            return self.number(word, language);
        }
        let lower = word.to_lowercase();
        let before_number = contains(language.before_number, &lower);
        let verdict = if contains(language.never, &lower) {
            StopVerdict::Part
        } else if before_number && !is_initial(word) {
            StopVerdict::EndUnlessNumber
        } else if contains(language.doubtful, &lower) || is_short_form(word, language) {
            StopVerdict::EndBeforeStarter
        } else {
            StopVerdict::End
        };
        self.before_number = before_number;
        verdict
    }

    fn number(&self, word: &str, language: &SentenceRules) -> StopVerdict {
        if !word.chars().all(|c| c.is_numeric() || c == '.') {
            return StopVerdict::End;
        }
        if self.leads && word.split('.').all(|part| part.chars().count() <= 3) {
            return StopVerdict::Part;
        }
        if language.ordinals && word.len() <= 2 && !self.after_number_word {
            StopVerdict::EndBeforeStarter
        } else {
            StopVerdict::End
        }
    }
}

fn contains(table: &[&str], word: &str) -> bool {
    table.contains(&word)
}

/// Returns whether the word is an initial, an acronym or a Roman ordinal.
fn is_short_form(word: &str, language: &SentenceRules) -> bool {
    is_acronym(word)
        || is_initial(word)
        || (is_letter(word) && !language.letter_words)
        || (language.ordinals && word.chars().all(|c| matches!(c, 'I' | 'V' | 'X')))
}

/// Returns whether the word is a single letter of a script with case. Other scripts have words of one letter.
fn is_letter(word: &str) -> bool {
    let mut chars = word.chars();
    chars.next().is_some_and(|c| c.is_lowercase() || c.is_uppercase()) && chars.next().is_none()
}

fn is_initial(word: &str) -> bool {
    is_letter(word) && word.chars().all(char::is_uppercase)
}

/// Returns whether the word consists of short groups of letters separated by stops, such as `U.S`, `Ph.D` or `J.-P`.
fn is_acronym(word: &str) -> bool {
    word.contains('.')
        && word.split('.').map(|part| part.trim_start_matches('-')).all(|part| {
            (1..=2).contains(&part.chars().count()) && part.chars().all(|c| c.is_lowercase() || c.is_uppercase())
        })
}

#[cfg(test)]
mod tests {
    use super::super::language;
    use super::*;

    fn check(tag: &str, word: &str, expected: StopVerdict) {
        let mut token = LastWord::default();
        for (at, c) in word.char_indices() {
            let text = &word[at..at + c.len_utf8()];
            token.push(&Cluster { first: c, at: at as u64, text });
        }
        assert_eq!(token.verdict(language::of(tag)), expected, "{tag} {word}");
    }

    #[test]
    fn words_before_a_stop() {
        check("en", "(e.g", StopVerdict::Part);
        check("en", "No", StopVerdict::EndUnlessNumber);
        check("en", "U.S", StopVerdict::EndBeforeStarter);
        check("en", "J", StopVerdict::EndBeforeStarter);
        check("en", "done", StopVerdict::End);
        check("en", "3", StopVerdict::End);
        check("de", "3", StopVerdict::EndBeforeStarter);
        check("de", "2024", StopVerdict::End);
        check("vi", "ạ", StopVerdict::End);
        check("th", "พ.ศ", StopVerdict::Part);
        check("ko", "네", StopVerdict::End);
    }
}
