//! Writes a recording. Every line is written in one write, or not at all.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, IsTerminal, Read, Seek, SeekFrom, Write};
use std::path::Path;

use crate::output::{EscapedJson, count};
use crate::private_file;

/// Block size of the backward search for the last line end.
const SEARCH_BLOCK_BYTES: u64 = 64 * 1024;

/// The longest incomplete line that is checked for a missing line end.
const MAX_TAIL_BYTES: u64 = 2 * aaep_proto::limits::MESSAGE_BYTES as u64;

/// Where a recording is written to.
enum RecordingTarget {
    Stdout,
    /// A file, and its length up to the end of its last complete line.
    File(File, u64),
    /// A pipe or a device, which cannot be truncated.
    Stream(File),
}

/// Writes the lines of a recording.
pub(super) struct RecordingWriter {
    target: RecordingTarget,
    line: Vec<u8>,
    written: u64,
}

impl RecordingWriter {
    /// Opens a target to append to it. An incomplete line at its end is removed; the second value then reports this.
    pub(super) fn open(path: &Path) -> Result<(RecordingWriter, Option<String>), String> {
        let writer = |target| RecordingWriter { target, line: Vec::new(), written: 0 };
        if path.as_os_str() == "-" {
            return Ok((writer(RecordingTarget::Stdout), None));
        }
        let is_file = std::fs::metadata(path).map_or(true, |metadata| metadata.is_file() || metadata.is_dir());
        if !is_file {
            let file = OpenOptions::new().write(true).open(path).map_err(|error| error.to_string())?;
            return Ok((writer(RecordingTarget::Stream(file)), None));
        }
        // On Windows a file that is opened to append cannot be truncated.
        let append = !cfg!(windows);
        let opened = private_file::options().read(true).write(true).append(append).open(path);
        let mut file = opened.map_err(|error| format!("cannot be written: {error}"))?;
        private_file::check(&file, path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err("is in use by another capture".to_owned()),
            // A file system without locks is used without them.
            Err(TryLockError::Error(_)) => {}
        }
        let (length, note) = repair_tail(&mut file).map_err(|error| format!("its end cannot be read: {error}"))?;
        Ok((writer(RecordingTarget::File(file, length)), note))
    }

    /// Returns the number of events written.
    pub(super) fn written(&self) -> u64 {
        self.written
    }

    /// Writes one JSON document as a line.
    pub(super) fn write(&mut self, json: &[u8]) -> io::Result<()> {
        self.line.clear();
        // In JSON a line end occurs between tokens only, so a space can replace it.
        self.line.extend(json.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte }));
        self.line.push(b'\n');
        match &mut self.target {
            RecordingTarget::Stdout => {
                let mut out = io::stdout().lock();
                if out.is_terminal() {
                    // Text of an agent must not control the terminal.
                    let text = String::from_utf8_lossy(&self.line).trim_end().replace('\t', " ");
                    writeln!(out, "{}", EscapedJson(text))?;
                } else {
                    out.write_all(&self.line)?;
                }
                out.flush()?;
            }
            RecordingTarget::Stream(file) => file.write_all(&self.line)?,
            RecordingTarget::File(file, length) => {
                let result = file.seek(SeekFrom::Start(*length)).and_then(|_| write_once(file, &self.line));
                if let Err(error) = result {
                    // A full disk must not leave an incomplete line behind.
                    let _ = file.set_len(*length);
                    return Err(error);
                }
                *length += self.line.len() as u64;
            }
        }
        self.written += 1;
        Ok(())
    }
}

/// Writes a line in one write. A partial write is an error.
fn write_once(file: &mut File, line: &[u8]) -> io::Result<()> {
    loop {
        match file.write(line) {
            Ok(length) if length == line.len() => return Ok(()),
            Ok(_) => return Err(io::ErrorKind::StorageFull.into()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Makes a file end with a complete line. Returns its length, and a note if something was removed.
fn repair_tail(file: &mut File) -> io::Result<(u64, Option<String>)> {
    let length = file.seek(SeekFrom::End(0))?;
    let complete = last_line_end(file, length)?;
    if complete == length {
        return Ok((length, None));
    }
    let tail_bytes = length - complete;
    if tail_bytes <= MAX_TAIL_BYTES {
        let mut tail = Vec::new();
        file.seek(SeekFrom::Start(complete))?;
        (&mut *file).take(tail_bytes).read_to_end(&mut tail)?;
        // A prefix of a JSON object is never valid JSON, so only the line end is missing.
        if serde_json::from_slice::<serde::de::IgnoredAny>(&tail).is_ok() {
            write_once(file, b"\n")?;
            return Ok((length + 1, None));
        }
    }
    file.set_len(complete)?;
    Ok((complete, Some(format!("removed an incomplete line at its end, {}", count(tail_bytes, "byte")))))
}

/// Returns the offset after the last line end, or 0.
fn last_line_end(file: &mut File, length: u64) -> io::Result<u64> {
    let mut end = length;
    let mut buffer = Vec::new();
    while end > 0 {
        let start = end.saturating_sub(SEARCH_BLOCK_BYTES);
        file.seek(SeekFrom::Start(start))?;
        buffer.clear();
        (&mut *file).take(end - start).read_to_end(&mut buffer)?;
        if let Some(at) = buffer.iter().rposition(|byte| *byte == b'\n') {
            return Ok(start + at as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repaired(before: &[u8]) -> (Vec<u8>, Option<String>) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("recording");
        private_file::options().append(true).open(&path).unwrap().write_all(before).unwrap();
        let (mut writer, note) = RecordingWriter::open(&path).unwrap();
        writer.write(b"{\"new\":\n1}").unwrap();
        drop(writer);
        (std::fs::read(&path).unwrap(), note)
    }

    #[test]
    fn incomplete_line_is_removed_and_reported() {
        let (after, note) = repaired(b"{\"a\":1}\n{\"b\":");
        assert_eq!(after, b"{\"a\":1}\n{\"new\": 1}\n");
        assert_eq!(note.unwrap(), "removed an incomplete line at its end, 5 bytes");
        let long = [&b"{\"a\":1}\n"[..], &vec![b'x'; 3 * SEARCH_BLOCK_BYTES as usize]].concat();
        assert_eq!(repaired(&long).0, b"{\"a\":1}\n{\"new\": 1}\n");
        assert_eq!(repaired(b"torn").0, b"{\"new\": 1}\n");
    }

    #[test]
    fn complete_lines_are_kept() {
        assert_eq!(repaired(b""), (b"{\"new\": 1}\n".to_vec(), None));
        assert_eq!(repaired(b"{}\n"), (b"{}\n{\"new\": 1}\n".to_vec(), None));
        assert_eq!(repaired(b"{}\n{\"b\":2}"), (b"{}\n{\"b\":2}\n{\"new\": 1}\n".to_vec(), None));
    }

    #[test]
    #[cfg(unix)]
    fn recordings_are_private_to_their_owner() {
        use std::fs::Permissions;
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("recording");
        drop(RecordingWriter::open(&path).unwrap());
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        let Err(reason) = RecordingWriter::open(&path) else { panic!("a file that others can read was accepted") };
        assert!(reason.contains("chmod 600") && reason.contains("644"), "{reason}");
    }

    #[test]
    fn second_writer_of_a_file_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("recording");
        let first = RecordingWriter::open(&path).unwrap();
        assert!(RecordingWriter::open(&path).is_err());
        drop(first);
        assert!(RecordingWriter::open(&path).is_ok());
        assert!(RecordingWriter::open(directory.path()).is_err());
    }
}
