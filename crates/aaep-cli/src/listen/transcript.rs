//! What was said, to be walked and searched.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use super::line::{Kind, Shown};
use crate::output::Escaped;

/// Entries that can be walked. Older ones are in the file, if there is one.
const ENTRIES: usize = 2000;
/// About how many bytes they have.
const BYTES: usize = 8 * 1024 * 1024;

/// What was said, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Transcript {
    entries: VecDeque<Shown>,
    bytes: usize,
    /// How many entries were let go.
    gone: usize,
    /// The entry that was walked to, counted from the first ever; the end without.
    place: Option<usize>,
}

impl Transcript {
    pub(crate) fn push(&mut self, shown: &Shown) {
        self.entries.push_back(shown.clone());
        self.bytes += weight(shown);
        while (self.entries.len() > ENTRIES || self.bytes > BYTES)
            && let Some(oldest) = self.entries.pop_front()
        {
            self.bytes -= weight(&oldest);
            self.gone += 1;
        }
    }

    /// The next or previous entry, of a kind if one is wanted. Stays where it is if there is none.
    pub(crate) fn walk(&mut self, back: bool, kind: Option<Kind>) -> Option<Shown> {
        let fits = |(_, shown): &(usize, &Shown)| kind.is_none_or(|kind| shown.kind == kind);
        let numbered = self.entries.iter().enumerate().map(|(index, shown)| (index + self.gone, shown));
        let end = self.gone + self.entries.len();
        let place = self.place.unwrap_or(end);
        let found = if back {
            numbered.rev().filter(|(at, _)| *at < place).find(fits)
        } else {
            numbered.filter(|(at, _)| *at > place).find(fits)
        };
        let (at, shown) = found?;
        let shown = shown.clone();
        self.place = Some(at);
        Some(shown)
    }

    /// Goes back to the end, where new things are.
    pub(crate) fn go_to_end(&mut self) {
        self.place = None;
    }
}

/// About how much memory an entry takes.
fn weight(shown: &Shown) -> usize {
    size_of::<Shown>() + shown.text.len() + shown.utterance.as_ref().map_or(0, |utterance| utterance.text.len())
}

/// A transcript in a file: one line per entry, with time and kind. Only its owner may read it.
pub(crate) struct Record {
    file: File,
}

impl Record {
    /// Appends to this file.
    pub(crate) fn open(path: &Path) -> io::Result<Record> {
        let mut options = OpenOptions::new();
        options.create(true).append(true);
        #[cfg(unix)]
        {
            use std::os::unix::fs::OpenOptionsExt;
            options.mode(0o600);
        }
        Ok(Record { file: options.open(path)? })
    }

    /// Writes an entry. Each is one write, so that two listeners can share a file.
    pub(crate) fn write(&mut self, time: &str, shown: &Shown) -> io::Result<()> {
        let number = shown.number.map(|number| format!(" {number}")).unwrap_or_default();
        let line = format!("{time} {}{number} {}\n", shown.kind.name(), Escaped(&shown.text));
        self.file.write_all(line.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(texts: &[(Kind, &str)]) -> Transcript {
        let mut transcript = Transcript::default();
        texts.iter().for_each(|(kind, text)| transcript.push(&Shown::own(*kind, *text)));
        transcript
    }

    #[test]
    fn it_is_walked_by_kind_in_both_directions() {
        let mut transcript =
            filled(&[(Kind::Start, "a"), (Kind::Tool, "b"), (Kind::Text, "c"), (Kind::Tool, "d"), (Kind::End, "e")]);
        let mut walk = |back, kind| transcript.walk(back, kind).map(|shown| shown.text);
        assert_eq!(walk(false, None), None, "there is nothing after the end");
        assert_eq!(walk(true, None).as_deref(), Some("e"));
        assert_eq!(walk(true, Some(Kind::Tool)).as_deref(), Some("d"));
        assert_eq!(walk(true, Some(Kind::Tool)).as_deref(), Some("b"));
        assert_eq!(walk(true, Some(Kind::Tool)), None);
        assert_eq!(walk(false, None).as_deref(), Some("c"));
        transcript.go_to_end();
        assert_eq!(transcript.walk(true, None).unwrap().text, "e");
    }

    #[test]
    fn it_is_bounded_and_the_place_stays_with_its_entry() {
        let mut transcript = filled(&[(Kind::Start, "first")]);
        (0..ENTRIES).for_each(|_| transcript.push(&Shown::own(Kind::Text, "x")));
        assert_eq!(transcript.entries.len(), ENTRIES);
        assert_eq!(transcript.walk(true, Some(Kind::Start)), None);
        (0..10).for_each(|_| transcript.push(&Shown::own(Kind::Text, "x".repeat(BYTES / 4))));
        assert_eq!((transcript.entries.len(), transcript.bytes <= BYTES), (3, true));
        transcript.push(&Shown::own(Kind::End, "last"));
        assert_eq!(transcript.walk(true, None).unwrap().text, "last");
        (0..5).for_each(|_| transcript.push(&Shown::own(Kind::Tool, "y")));
        assert_eq!(transcript.walk(false, None).unwrap().text, "y");
    }

    #[test]
    fn a_file_gets_one_line_per_entry_and_is_private() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("transcript");
        let shown = Shown { number: Some(3), ..Shown::own(Kind::Question, "Pay\nnow?") };
        Record::open(&path).unwrap().write("2026-05-24T14:22:11Z", &shown).unwrap();
        Record::open(&path).unwrap().write("2026-05-24T14:22:12Z", &Shown::own(Kind::End, "Done.")).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text, "2026-05-24T14:22:11Z question 3 Pay\\u{000A}now?\n2026-05-24T14:22:12Z end Done.\n");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
    }
}
