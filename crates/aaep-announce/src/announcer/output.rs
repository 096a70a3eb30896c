//! Streamed output: held until it is something that can be listened to.

use aaep_proto::escape::Escapes;
use aaep_proto::language::LanguageTag;
use aaep_proto::message::{Boundary, OutputStreaming};
use aaep_proto::pace::spoken_words;
use aaep_proto::shaping::text::{BoundarySet, Cursor, OutputText};

use crate::profile::Profile;
use crate::speakable::{Blocks, SpeechStyle, is_sentence, sentence};

/// The most bytes that wait for the end of an output when the user wants it whole.
const MAX_HELD_BYTES: usize = 16 * 1024;

/// One output while it comes in.
pub(super) struct StreamedOutput {
    pub(super) language: String,
    /// Takes out what was meant for a terminal.
    escapes: Escapes,
    blocks: Blocks,
    /// Finds sentences where the producer did not mark them.
    loose: Option<(OutputText, Cursor)>,
    /// How many characters have come.
    position: Option<u64>,
    /// Sentences that wait because the user wants the output whole.
    held: Vec<String>,
    whole: bool,
}

/// What a chunk brought.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ReadyText {
    /// Sentences that can be said.
    pub(super) units: Vec<String>,
    /// Text before these is missing.
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
            loose: None,
            position: None,
            held: Vec::new(),
            whole,
        }
    }

    /// Goes on where another one ends, in another language.
    pub(super) fn after(mut self, other: &StreamedOutput) -> StreamedOutput {
        self.position = other.position;
        self
    }

    /// Takes a chunk. One that came before is left out; a chunk that is missing is noticed.
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
        // The producer's word is good only where the text bears it out.
        let ends = marked && (text.ends_with('\n') || is_sentence(text.trim_end()));
        if ends && self.loose.is_none() {
            self.blocks.push(&text, &mut ready.units);
        } else {
            self.push_loose(&text, ends, &mut ready.units);
        }
        if chunk.complete {
            self.end(&mut ready.units);
        }
        if self.whole && !ready.gap {
            self.hold(&mut ready, chunk.complete);
        }
        ready
    }

    /// Says what is left, whole or not.
    pub(super) fn end(&mut self, units: &mut Vec<String>) {
        let rest = self.escapes.finish();
        self.push_loose(&rest, true, units);
        self.blocks.finish(units);
    }

    /// What still waits at an early end.
    pub(super) fn abandon(mut self) -> Vec<String> {
        let mut units = std::mem::take(&mut self.held);
        self.end(&mut units);
        units
    }

    fn hold(&mut self, ready: &mut ReadyText, complete: bool) {
        self.held.append(&mut ready.units);
        let bytes: usize = self.held.iter().map(String::len).sum();
        if complete || bytes > MAX_HELD_BYTES {
            ready.units = std::mem::take(&mut self.held);
        }
    }

    /// Text of which nobody knows where it may be cut.
    fn push_loose(&mut self, text: &str, ends: bool, units: &mut Vec<String>) {
        if text.is_empty() && self.loose.is_none() {
            return;
        }
        let language: Option<LanguageTag> = self.language.parse().ok();
        let fresh = || (OutputText::new("text/markdown", language.as_ref(), false), Cursor::default());
        let (output, cursor) = self.loose.get_or_insert_with(fresh);
        let cutting = BoundarySet::at(&[Boundary::Sentence, Boundary::Completion]);
        let mut rest = text;
        while !rest.is_empty() {
            rest = output.write_step(rest);
            while let Some(piece) = output.next_piece(cursor, cutting) {
                self.blocks.push(&piece.text, units);
            }
            output.forget_before(std::iter::once(*cursor));
        }
        if ends {
            output.finish();
            while let Some(piece) = output.next_piece(cursor, cutting) {
                self.blocks.push(&piece.text, units);
            }
            self.loose = None;
        }
    }
}

/// Sentences as utterances that are short enough to be listened to in one go, each made of whole sentences.
pub(super) fn split_text(units: Vec<String>, language: &str, profile: &Profile) -> Vec<String> {
    let most = profile.max_utterance_words();
    let mut split_text: Vec<String> = Vec::new();
    let mut words = most;
    for unit in units {
        for part in sentences(&unit, language, most) {
            let count = spoken_words(&part);
            match split_text.last_mut() {
                Some(last) if words + count <= most => {
                    last.push(' ');
                    last.push_str(&part);
                    words += count;
                }
                _ => {
                    split_text.push(part);
                    words = count;
                }
            }
        }
    }
    split_text
}

/// The sentences of a text; one that takes minutes is cut between words.
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
        while let Some(piece) = output.next_piece(&mut cursor, cutting) {
            parts.push(piece.text);
        }
        output.forget_before(std::iter::once(cursor));
    }
    output.finish();
    while let Some(piece) = output.next_piece(&mut cursor, cutting) {
        parts.push(piece.text);
    }
    parts.iter().flat_map(|part| clauses(part, most)).filter(|part| !part.is_empty()).collect()
}

/// A sentence in parts of so many words at most, cut after a mark that lets a voice pause if there is one far enough on.
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

/// A word, or so much of it at a time as can be said in one go where words are not written apart.
fn pieces(word: &str, most: u64) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = word;
    while spoken_words(rest) > most {
        let end = rest.char_indices().nth((most * 2) as usize).map_or(rest.len(), |(at, _)| at);
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

    /// What each chunk makes ready.
    fn run(chunks: &[(&str, Option<&str>)]) -> Vec<String> {
        let profile = Profile::default();
        let mut output: Option<StreamedOutput> = None;
        let mut position = 0;
        let mut said = Vec::new();
        for (i, (text, hint)) in chunks.iter().enumerate() {
            let chunk = chunk(text, position, *hint, i + 1 == chunks.len());
            position += text.chars().count() as u64;
            let output = output.get_or_insert_with(|| StreamedOutput::new(&chunk, "en".into(), &profile, false));
            said.push(output.push(&chunk).units.join(" "));
        }
        said
    }

    #[test]
    fn tokens_are_never_said_alone() {
        let none = Some("none");
        assert_eq!(
            run(&[("He", none), ("llo wor", none), ("ld. How a", none), ("re you", Some("word")), ("?", None)]),
            ["", "", "Hello world.", "", "How are you?"]
        );
    }

    #[test]
    fn what_was_meant_for_a_terminal_goes_also_in_pieces() {
        let none = Some("none");
        assert_eq!(
            run(&[
                ("\u{1b}[3", none),
                ("2mAll good.\u{1b}[0m Title:", none),
                (" \u{1b}]0;Secret. Really", none),
                (".\u{7}done.", None)
            ]),
            ["", "All good.", "", "Title: done."]
        );
    }

    #[test]
    fn marked_sentences_are_said_at_once_and_fragments_that_claim_to_be_are_not() {
        let sentence = Some("sentence");
        assert_eq!(run(&[("One. ", sentence), ("Two.", sentence), ("", sentence)]), ["One.", "Two.", ""]);
        assert_eq!(run(&[("Wor", sentence), ("ld is", sentence), (" big.", sentence)]), ["", "", "World is big."]);
    }

    #[test]
    fn what_came_before_is_left_out_and_what_is_missing_is_noticed() {
        let profile = Profile::default();
        let first = chunk("One. ", 0, Some("sentence"), false);
        let mut output = StreamedOutput::new(&first, "en".into(), &profile, false);
        assert_eq!(output.push(&first).units, ["One."]);
        assert_eq!(output.push(&first), ReadyText::default());
        assert_eq!(output.push(&chunk("e. Two. ", 2, Some("sentence"), false)).units, ["Two."]);
        let after = output.push(&chunk("Four. ", 20, Some("sentence"), false));
        assert!(after.gap && after.units == ["Four."]);
    }

    #[test]
    fn who_joins_in_the_middle_is_told_of_no_gap() {
        let joined = chunk("the rest.", 500, Some("sentence"), true);
        let mut output = StreamedOutput::new(&joined, "en".into(), &Profile::default(), false);
        assert_eq!(output.push(&joined), ReadyText { units: vec!["the rest.".into()], gap: false });
    }

    #[test]
    fn an_output_that_is_wanted_whole_comes_whole_or_in_bounded_parts() {
        let first = chunk("One. ", 0, Some("sentence"), false);
        let mut output = StreamedOutput::new(&first, "en".into(), &Profile::default(), true);
        assert_eq!(output.push(&first).units, [""; 0]);
        assert_eq!(output.push(&chunk("Two.", 5, Some("sentence"), true)).units, ["One.", "Two."]);
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
    fn text_without_end_stays_bounded() {
        let mut output = StreamedOutput::new(&chunk("", 0, None, false), "en".into(), &Profile::default(), false);
        let mut position = 0;
        let mut said = 0;
        for _ in 0..5000 {
            said += output.push(&chunk("no end in sight ", position, Some("none"), false)).units.join(" ").len();
            position += 16;
        }
        assert!(said > 5000 * 16 - 40_000, "{said}");
    }

    #[test]
    fn long_text_is_said_in_portions_of_whole_sentences() {
        let profile = Profile::default();
        let text = "This sentence has exactly seven words here. ".repeat(30);
        let said = split_text(vec![text], "en", &profile);
        assert!(said.len() > 3 && said.iter().all(|p| spoken_words(p) <= 60 && p.ends_with("here.")), "{said:?}");
        let endless = split_text(vec!["word ".repeat(1000)], "en", &profile);
        assert!(endless.iter().all(|p| spoken_words(p) <= 60 && is_sentence(p)));
        let winding = format!("{}this is where it pauses, {}", "word ".repeat(40), "word ".repeat(70));
        let said = split_text(vec![winding], "en", &profile);
        assert!(said[0].ends_with("where it pauses…") && said.iter().all(|p| spoken_words(p) <= 60), "{said:?}");
        let dense = split_text(vec!["漢".repeat(1000)], "zh", &profile);
        assert!(dense.len() > 3 && dense.iter().all(|p| spoken_words(p) <= 60), "{dense:?}");
        assert_eq!(split_text(vec!["A.".into(), "B.".into()], "en", &profile), ["A. B."]);
    }
}
