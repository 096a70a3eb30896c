//! The transcript in a file: one line per entry, with time and kind. Only its owner may read it.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use aaep_listen::{Escaped, Line};

use crate::private_file;

/// An open transcript file.
pub(crate) struct TranscriptFile {
    file: File,
}

impl TranscriptFile {
    /// Opens this file to append to it, and creates it if it is missing.
    pub(crate) fn open(path: &Path) -> io::Result<TranscriptFile> {
        Ok(TranscriptFile { file: private_file::options().append(true).open(path)? })
    }

    /// Appends a line. Each is one write, so that two listeners can share a file.
    pub(crate) fn write(&mut self, time: &str, line: &Line) -> io::Result<()> {
        let number = line.number.map(|number| format!(" {number}")).unwrap_or_default();
        let entry = format!("{time} {}{number} {}\n", line.kind.name(), Escaped(&line.text));
        self.file.write_all(entry.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aaep_listen::LineKind;

    #[test]
    fn file_gets_one_line_per_entry_and_is_private() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("transcript");
        let line = Line { number: Some(3), ..Line::new(LineKind::Question, "Pay\nnow?") };
        TranscriptFile::open(&path).unwrap().write("2026-05-24T14:22:11Z", &line).unwrap();
        let line = Line::new(LineKind::End, "Done.");
        TranscriptFile::open(&path).unwrap().write("2026-05-24T14:22:12Z", &line).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text, "2026-05-24T14:22:11Z question 3 Pay\\u{000A}now?\n2026-05-24T14:22:12Z end Done.\n");
        assert_eq!(private_file::check(&File::open(&path).unwrap(), &path), Ok(()));
    }
}
