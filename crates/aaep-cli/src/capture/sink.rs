//! Where a recording goes. Every line is written whole, in one write, or not at all.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, IsTerminal, Read, Seek, SeekFrom, Write};
use std::path::Path;

use crate::output::{EscapedJson, count};

/// How much is looked at to find where the last whole line ends.
const LOOK: u64 = 64 * 1024;

/// The longest line that is looked at to see whether only its end is missing.
const LINE: u64 = 2 * aaep_proto::limits::MESSAGE_BYTES as u64;

enum Place {
    Output,
    /// A file, and how long it is up to the end of its last whole line.
    File(File, u64),
    /// A pipe or a device: nothing can be taken back.
    Other(File),
}

/// Where a recording goes.
pub(super) struct Sink {
    place: Place,
    line: Vec<u8>,
    written: u64,
}

impl Sink {
    /// Opens it to go on after what is there. A torn line at its end is cut off, and that is told.
    pub(super) fn open(path: &Path) -> Result<(Sink, Option<String>), String> {
        let sink = |place| Sink { place, line: Vec::new(), written: 0 };
        if path.as_os_str() == "-" {
            return Ok((sink(Place::Output), None));
        }
        let is_file = std::fs::metadata(path).map_or(true, |metadata| metadata.is_file() || metadata.is_dir());
        if !is_file {
            let file = OpenOptions::new().write(true).open(path).map_err(|error| error.to_string())?;
            return Ok((sink(Place::Other(file)), None));
        }
        let mut file = private(path).map_err(|error| format!("cannot be written: {error}"))?;
        check_private(&file, path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err("another recording is being written there".to_owned()),
            // A file system without locks is used as it is.
            Err(TryLockError::Error(_)) => {}
        }
        let (length, note) = mend(&mut file).map_err(|error| format!("its end cannot be looked at: {error}"))?;
        Ok((sink(Place::File(file, length)), note))
    }

    /// Events that were written.
    pub(super) fn written(&self) -> u64 {
        self.written
    }

    /// Writes one JSON document as a line.
    pub(super) fn write(&mut self, json: &[u8]) -> io::Result<()> {
        self.line.clear();
        // In JSON a line end stands between tokens only, so it may become a space.
        self.line.extend(json.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte }));
        self.line.push(b'\n');
        match &mut self.place {
            Place::Output => {
                let mut out = io::stdout().lock();
                if out.is_terminal() {
                    // What an agent says must not give orders to it.
                    let text = String::from_utf8_lossy(&self.line).trim_end().replace('\t', " ");
                    writeln!(out, "{}", EscapedJson(text))?;
                } else {
                    out.write_all(&self.line)?;
                }
                out.flush()?;
            }
            Place::Other(file) => file.write_all(&self.line)?,
            Place::File(file, length) => {
                let result = write_once(file, &self.line);
                if let Err(error) = result {
                    // A disk that is full must not leave half a line behind.
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

/// Opens a file to append to it. A new one is for its owner only: it holds what the user was told.
fn private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Refuses a file that other users may read or write.
#[cfg(unix)]
fn check_private(file: &File, path: &Path) -> Result<(), String> {
    use std::os::unix::fs::PermissionsExt;
    let mode = file.metadata().map_err(|error| error.to_string())?.permissions().mode() & 0o777;
    if mode & 0o077 == 0 {
        return Ok(());
    }
    let path = path.display();
    Err(format!("is open to other users (mode {mode:03o}); close it with: chmod 600 {path}"))
}

#[cfg(not(unix))]
fn check_private(_: &File, _: &Path) -> Result<(), String> {
    Ok(())
}

/// One write, all or nothing.
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

/// Makes a file end with a whole line; answers how long it is then, and what was done.
fn mend(file: &mut File) -> io::Result<(u64, Option<String>)> {
    let length = file.seek(SeekFrom::End(0))?;
    let whole = last_line_end(file, length)?;
    if whole == length {
        return Ok((length, None));
    }
    let torn = length - whole;
    if torn <= LINE {
        let mut tail = Vec::new();
        file.seek(SeekFrom::Start(whole))?;
        (&mut *file).take(torn).read_to_end(&mut tail)?;
        // A beginning of an object is never one: only the line end is missing here.
        if serde_json::from_slice::<serde::de::IgnoredAny>(&tail).is_ok() {
            write_once(file, b"\n")?;
            return Ok((length + 1, None));
        }
    }
    file.set_len(whole)?;
    Ok((whole, Some(format!("a torn line at its end was cut off, {}", count(torn, "byte")))))
}

/// Where the last line end is, or the beginning.
fn last_line_end(file: &mut File, length: u64) -> io::Result<u64> {
    let mut end = length;
    let mut buffer = Vec::new();
    while end > 0 {
        let start = end.saturating_sub(LOOK);
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

    fn mended(before: &[u8]) -> (Vec<u8>, Option<String>) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("recording");
        private(&path).unwrap().write_all(before).unwrap();
        let (mut sink, note) = Sink::open(&path).unwrap();
        sink.write(b"{\"new\":\n1}").unwrap();
        drop(sink);
        (std::fs::read(&path).unwrap(), note)
    }

    #[test]
    fn a_torn_line_is_cut_off_and_told() {
        let (after, note) = mended(b"{\"a\":1}\n{\"b\":");
        assert_eq!(after, b"{\"a\":1}\n{\"new\": 1}\n");
        assert_eq!(note.unwrap(), "a torn line at its end was cut off, 5 bytes");
        let long = [&b"{\"a\":1}\n"[..], &vec![b'x'; 3 * LOOK as usize]].concat();
        assert_eq!(mended(&long).0, b"{\"a\":1}\n{\"new\": 1}\n");
        assert_eq!(mended(b"torn").0, b"{\"new\": 1}\n");
    }

    #[test]
    fn what_is_whole_stays() {
        assert_eq!(mended(b""), (b"{\"new\": 1}\n".to_vec(), None));
        assert_eq!(mended(b"{}\n"), (b"{}\n{\"new\": 1}\n".to_vec(), None));
        assert_eq!(mended(b"{}\n{\"b\":2}"), (b"{}\n{\"b\":2}\n{\"new\": 1}\n".to_vec(), None));
    }

    #[cfg(unix)]
    #[test]
    fn recordings_are_for_their_owner_only() {
        use std::fs::Permissions;
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("recording");
        drop(Sink::open(&path).unwrap());
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        let Err(reason) = Sink::open(&path) else { panic!("a file for everyone was taken") };
        assert!(reason.contains("chmod 600") && reason.contains("644"), "{reason}");
    }

    #[test]
    fn one_recording_at_a_time() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("recording");
        let first = Sink::open(&path).unwrap();
        assert!(Sink::open(&path).is_err());
        drop(first);
        assert!(Sink::open(&path).is_ok());
        assert!(Sink::open(directory.path()).is_err());
    }
}
