//! Streamed output: held until it is complete sentences.

use aaep_proto::escape::Escapes;
use aaep_proto::language::LanguageTag;
use aaep_proto::message::{Boundary, OutputStreaming};
use aaep_proto::pace::spoken_words;
use aaep_proto::shaping::text::{BoundarySet, Cursor, OutputText};

use crate::profile::Profile;
use crate::speakable::{Blocks, SpeechStyle, SpokenUnit, is_sentence, sentence};

/// The most bytes that wait for the end of an output when the user wants it whole.
const MAX_HELD_BYTES: usize = 16 * 1024;

/// One output while its chunks come in.
pub(super) struct StreamedOutput {
    pub(super) language: String,
    /// Removes control sequences of terminals.
    escapes: Escapes,
    blocks: Blocks,
    /// Finds sentences where the producer did not mark them.
    unmarked: Option<(OutputText, Cursor)>,
    /// How many characters were received.
    position: Option<u64>,
    /// Sentences that wait for the end of the output.
    held: Vec<SpokenUnit>,
    /// Whether the output is announced only when it is complete.
    whole: bool,
}

/// The text that a chunk made ready to announce.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ReadyText {
    /// Complete sentences.
    pub(super) units: Vec<SpokenUnit>,
    /// Whether text before them is missing.
    pub(super) gap: bool,
}

impl StreamedOutput {
    pub(super) fn new(chunk: &OutputStreaming, language: String, profile: &Profile, whole: bool) -> StreamedOutput {
        let content_type = chunk.content_type.as_deref().unwrap_or("text/plain");
        let blocks = Blocks::new(content_type, SpeechStyle::new(&language, profile));
        StreamedOutput {
            language,
            escapes: Escapes::default(),
            blocks,
            unmarked: None,
            position: None,
            held: Vec::new(),
            whole,
        }
    }

    /// Continues at the position of an output in another language.
    pub(super) fn continuing(mut self, other: &StreamedOutput) -> StreamedOutput {
        self.position = other.position;
        self
    }

    /// Adds a chunk. Text that was received before is skipped; missing text is reported.
    pub(super) fn push(&mut self, chunk: &OutputStreaming) -> ReadyText {
        let mut ready = ReadyText::default();
        let known = self.position.unwrap_or(chunk.position);
        let again = known.saturating_sub(chunk.position);
        let text = chunk.chunk.char_indices().nth(again as usize).map_or("", |(at, _)| &chunk.chunk[at..]);
        if chunk.position > known {
            ready.gap = true;
            self.end(&mut ready.units);
        }
        self.position = Some(chunk.position.saturating_add(chunk.chunk.chars().count() as u64).max(known));
        let marked =
            matches!(chunk.coalesce_hint, Some(Boundary::Sentence | Boundary::Paragraph | Boundary::Completion));
        let text = self.escapes.push(text);
        // A boundary that the producer claims counts only if the text ends like one.
        let ends = marked && (text.ends_with('\n') || is_sentence(text.trim_end()));
        if ends && self.unmarked.is_none() {
            self.blocks.push(&text, &mut ready.units);
        } else {
            self.push_unmarked(&text, ends, &mut ready.units);
        }
        if chunk.complete {
            self.end(&mut ready.units);
        }
        if self.whole && !ready.gap {
            self.hold(&mut ready, chunk.complete);
        }
        ready
    }

    /// Releases the rest, complete or not.
    pub(super) fn end(&mut self, units: &mut Vec<SpokenUnit>) {
        let rest = self.escapes.finish();
        self.push_unmarked(&rest, true, units);
        self.blocks.finish(units);
    }

    /// Returns the text that still waits when the output ends early.
    pub(super) fn abandon(mut self) -> Vec<SpokenUnit> {
        let mut units = std::mem::take(&mut self.held);
        self.end(&mut units);
        units
    }

    fn hold(&mut self, ready: &mut ReadyText, complete: bool) {
        self.held.append(&mut ready.units);
        let bytes: usize = self.held.iter().map(|unit| unit.text.len()).sum();
        if complete || bytes > MAX_HELD_BYTES {
            ready.units = std::mem::take(&mut self.held);
        }
    }

    /// Adds text whose boundaries the producer did not mark.
    fn push_unmarked(&mut self, text: &str, ends: bool, units: &mut Vec<SpokenUnit>) {
        if text.is_empty() && self.unmarked.is_none() {
            return;
        }
        let language: Option<LanguageTag> = self.language.parse().ok();
        let fresh = || (OutputText::new("text/markdown", language.as_ref(), false), Cursor::default());
        let (output, cursor) = self.unmarked.get_or_insert_with(fresh);
        let cutting = BoundarySet::at(&[Boundary::Sentence, Boundary::Completion]);
        let mut rest = text;
        while !rest.is_empty() {
            rest = output.write_step(rest);
            while let Some(piece) = output.next_chunk(cursor, cutting) {
                self.blocks.push(&piece.text, units);
            }
            output.forget_before(std::iter::once(*cursor));
        }
        if ends {
            output.finish();
            while let Some(piece) = output.next_chunk(cursor, cutting) {
                self.blocks.push(&piece.text, units);
            }
            self.unmarked = None;
        }
    }
}

/// Joins sentences into texts of at most [`Profile::max_utterance_words`], each made of whole sentences. Headings stay
/// alone.
pub(super) fn split_text(units: Vec<SpokenUnit>, language: &str, profile: &Profile) -> Vec<SpokenUnit> {
    let most = profile.max_utterance_words();
    let mut split_text: Vec<SpokenUnit> = Vec::new();
    let mut words = most;
    for SpokenUnit { text, heading } in units {
        for part in sentences(&text, language, most) {
            let count = spoken_words(&part);
            match split_text.last_mut() {
                Some(last) if words + count <= most && !last.heading && !heading => {
                    last.text.push(' ');
                    last.text.push_str(&part);
                    words += count;
                }
                _ => {
                    split_text.push(SpokenUnit { text: part, heading });
                    words = count;
                }
            }
        }
    }
    split_text
}

/// Returns the sentences of a text. Sentences that are too long are cut between words.
fn sentences(text: &str, language: &str, most: u64) -> Vec<String> {
    if spoken_words(text) <= most {
        return vec![text.to_owned()];
    }
    let language: Option<LanguageTag> = language.parse().ok();
    let mut output = OutputText::new("text/plain", language.as_ref(), false);
    let (mut cursor, cutting) = (Cursor::default(), BoundarySet::at(&[Boundary::Sentence, Boundary::Completion]));
    let mut parts = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        rest = output.write_step(rest);
        while let Some(piece) = output.next_chunk(&mut cursor, cutting) {
            parts.push(piece.text);
        }
        output.forget_before(std::iter::once(cursor));
    }
    output.finish();
    while let Some(piece) = output.next_chunk(&mut cursor, cutting) {
        parts.push(piece.text);
    }
    parts.iter().flat_map(|part| clauses(part, most)).filter(|part| !part.is_empty()).collect()
}

/// Cuts a sentence into parts of at most this many words: after a mark that makes a voice pause, if there is one in the
/// second half of the part.
fn clauses(text: &str, most: u64) -> Vec<String> {
    let mut parts = Vec::new();
    let mut words: Vec<&str> = Vec::new();
    let mut count = 0;
    for word in text.split_whitespace().flat_map(|word| pieces(word, most)) {
        let more = spoken_words(word);
        if count + more > most {
            let pause = [',', ';', ':', '،', '؛', '、', '，', '–', '—'];
            let pauses = |word: &&str| word.ends_with(pause);
            let cut =
                words.iter().rposition(pauses).filter(|at| at * 2 >= words.len()).map_or(words.len(), |at| at + 1);
            let part = words[..cut].join(" ");
            parts.push(format!("{}…", part.trim_end_matches(pause)));
            words.drain(..cut);
            count = words.iter().map(|word| spoken_words(word)).sum();
        }
        words.push(word);
        count += more;
    }
    parts.push(sentence(&words.join(" ")));
    parts
}

/// Cuts a run of characters of a script without spaces into pieces of at most this many words.
fn pieces(word: &str, most: u64) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = word;
    while spoken_words(rest) > most {
        // Two characters count as a word. The mark that is added where a sentence is cut counts as one more.
        let characters = (most.saturating_sub(1).max(1) * 2) as usize;
        let end = rest.char_indices().nth(characters).map_or(rest.len(), |(at, _)| at);
        let (piece, more) = rest.split_at(end);
        pieces.push(piece);
        rest = more;
    }
    pieces.push(rest);
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::speakable::joined;

    /// Splits a text, without regard to headings.
    fn split(texts: Vec<String>, language: &str, profile: &Profile) -> Vec<String> {
        let units = texts.into_iter().map(SpokenUnit::from).collect();
        split_text(units, language, profile).into_iter().map(|unit| unit.text).collect()
    }

    fn texts(units: Vec<SpokenUnit>) -> Vec<String> {
        units.into_iter().map(|unit| unit.text).collect()
    }

    fn chunk(text: &str, position: u64, hint: Option<&str>, complete: bool) -> OutputStreaming {
        OutputStreaming {
            chunk: text.into(),
            position,
            complete,
            coalesce_hint: hint.map(Boundary::from),
            content_type: Some("text/markdown".into()),
            ..OutputStreaming::default()
        }
    }

    /// Returns the text that each chunk makes ready.
    fn ready_texts(chunks: &[(&str, Option<&str>)]) -> Vec<String> {
        let profile = Profile::default();
        let mut output: Option<StreamedOutput> = None;
        let mut position = 0;
        let mut said = Vec::new();
        for (i, (text, hint)) in chunks.iter().enumerate() {
            let chunk = chunk(text, position, *hint, i + 1 == chunks.len());
            position += text.chars().count() as u64;
            let output = output.get_or_insert_with(|| StreamedOutput::new(&chunk, "en".into(), &profile, false));
            said.push(joined(output.push(&chunk).units));
        }
        said
    }

    #[test]
    fn tokens_are_held_until_a_sentence_is_complete() {
        let none = Some("none");
        assert_eq!(
            ready_texts(&[("He", none), ("llo wor", none), ("ld. How a", none), ("re you", Some("word")), ("?", None)]),
            ["", "", "Hello world.", "", "How are you?"]
        );
    }

    #[test]
    fn control_sequences_are_removed_also_across_chunks() {
        let none = Some("none");
        assert_eq!(
            ready_texts(&[
                ("\u{1b}[3", none),
                ("2mAll good.\u{1b}[0m Title:", none),
                (" \u{1b}]0;Secret. Really", none),
                (".\u{7}done.", None)
            ]),
            ["", "All good.", "", "Title: done."]
        );
    }

    #[test]
    fn marked_sentences_are_released_at_once_and_marked_fragments_are_not() {
        let sentence = Some("sentence");
        assert_eq!(ready_texts(&[("One. ", sentence), ("Two.", sentence), ("", sentence)]), ["One.", "Two.", ""]);
        assert_eq!(
            ready_texts(&[("Wor", sentence), ("ld is", sentence), (" big.", sentence)]),
            ["", "", "World is big."]
        );
    }

    #[test]
    fn repeated_text_is_skipped_and_missing_text_is_reported() {
        let profile = Profile::default();
        let first = chunk("One. ", 0, Some("sentence"), false);
        let mut output = StreamedOutput::new(&first, "en".into(), &profile, false);
        assert_eq!(texts(output.push(&first).units), ["One."]);
        assert_eq!(output.push(&first), ReadyText::default());
        assert_eq!(texts(output.push(&chunk("e. Two. ", 2, Some("sentence"), false)).units), ["Two."]);
        let after = output.push(&chunk("Four. ", 20, Some("sentence"), false));
        assert!(after.gap && texts(after.units) == ["Four."]);
    }

    #[test]
    fn joining_midstream_reports_no_gap() {
        let joined = chunk("the rest.", 500, Some("sentence"), true);
        let mut output = StreamedOutput::new(&joined, "en".into(), &Profile::default(), false);
        assert_eq!(output.push(&joined), ReadyText { units: vec!["the rest.".to_owned().into()], gap: false });
    }

    #[test]
    fn whole_output_is_held_within_a_bound() {
        let first = chunk("One. ", 0, Some("sentence"), false);
        let mut output = StreamedOutput::new(&first, "en".into(), &Profile::default(), true);
        assert_eq!(texts(output.push(&first).units), [""; 0]);
        assert_eq!(texts(output.push(&chunk("Two.", 5, Some("sentence"), true)).units), ["One.", "Two."]);
        let mut output = StreamedOutput::new(&first, "en".into(), &Profile::default(), true);
        let mut position = 0;
        let mut released = 0;
        for _ in 0..4000 {
            released += output.push(&chunk("Again and again. ", position, Some("sentence"), false)).units.len();
            position += 17;
        }
        assert!(released > 3000, "{released}");
    }

    #[test]
    fn text_without_sentences_is_held_within_a_bound() {
        let mut output = StreamedOutput::new(&chunk("", 0, None, false), "en".into(), &Profile::default(), false);
        let mut position = 0;
        let mut said = 0;
        for _ in 0..5000 {
            said += joined(output.push(&chunk("no end in sight ", position, Some("none"), false)).units).len();
            position += 16;
        }
        assert!(said > 5000 * 16 - 40_000, "{said}");
    }

    #[test]
    fn long_text_is_split_between_sentences_into_at_most_sixty_words() {
        let profile = Profile { pace_wpm: 180, ..Profile::default() };
        let count = |text: &String| text.split(' ').count();
        let sentence = "This sentence has exactly seven words here.";
        let parts = split(vec![[sentence; 30].join(" ")], "en", &profile);
        // Eight sentences of seven words fit into sixty words, nine do not.
        assert_eq!(parts.iter().map(count).collect::<Vec<_>>(), [56, 56, 56, 42]);
        assert_eq!(parts.join(" "), [sentence; 30].join(" "));
        assert_eq!(split(vec!["A.".into(), "B.".into()], "en", &profile), ["A. B."]);
    }

    #[test]
    fn long_sentence_is_split_between_words_and_at_a_pause_if_there_is_one() {
        let profile = Profile { pace_wpm: 180, ..Profile::default() };
        let count = |text: &String| text.split(' ').count();
        let endless = split(vec![["word"; 1000].join(" ")], "en", &profile);
        assert!(endless.iter().all(|part| count(part) <= 60 && is_sentence(part)), "{endless:?}");
        assert_eq!(endless.iter().map(count).sum::<usize>(), 1000, "no word is lost");
        let paused = format!("{} this is where it pauses, {}", ["word"; 40].join(" "), ["word"; 70].join(" "));
        let parts = split(vec![paused], "en", &profile);
        assert_eq!(parts[0], format!("{} this is where it pauses…", ["word"; 40].join(" ")));
        assert!(parts.iter().all(|part| count(part) <= 60), "{parts:?}");
    }

    #[test]
    fn long_text_without_spaces_is_split_by_characters() {
        let profile = Profile { pace_wpm: 180, ..Profile::default() };
        let parts = split(vec!["漢".repeat(1000)], "zh", &profile);
        let characters = |text: &String| text.chars().filter(|c| *c == '漢').count();
        assert_eq!(parts.iter().map(characters).sum::<usize>(), 1000, "no character is lost");
        // Two such characters count as one word.
        assert!(parts.iter().all(|part| characters(part) <= 120), "{parts:?}");
    }
}
