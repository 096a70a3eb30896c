//! Lines from the keyboard.

use std::io::{self, BufRead};

use aaep_listen::MAX_LINE_BYTES;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// A line that was entered, or the end of the input.
#[derive(Debug)]
pub(crate) struct KeyboardInput {
    /// When Enter was pressed.
    pub(super) entered: Instant,
    /// The line. `None` at the end of the input.
    pub(super) line: Option<String>,
}

impl KeyboardInput {
    pub(super) fn line(line: String) -> KeyboardInput {
        KeyboardInput { entered: Instant::now(), line: Some(line) }
    }

    fn end() -> KeyboardInput {
        KeyboardInput { entered: Instant::now(), line: None }
    }
}

/// Reads lines from standard input on a thread of its own, because a terminal cannot be read asynchronously.
pub(crate) fn spawn_reader(lines: mpsc::Sender<KeyboardInput>) {
    std::thread::spawn(move || {
        let mut input = io::stdin().lock();
        while let Some(line) = read_line(&mut input) {
            if lines.blocking_send(KeyboardInput::line(line)).is_err() {
                return;
            }
        }
        let _ = lines.blocking_send(KeyboardInput::end());
    });
}

/// Reads the next line and cuts it at [`MAX_LINE_BYTES`]. Returns `None` at the end of the input.
fn read_line(input: &mut impl BufRead) -> Option<String> {
    let mut line = Vec::new();
    loop {
        let buffer = match input.fill_buf() {
            Ok(buffer) => buffer,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => return None,
        };
        if buffer.is_empty() {
            return (!line.is_empty()).then(|| String::from_utf8_lossy(&line).into_owned());
        }
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let taken = end.unwrap_or(buffer.len());
        line.extend(&buffer[..taken.min(MAX_LINE_BYTES.saturating_sub(line.len()))]);
        input.consume(end.map_or(taken, |end| end + 1));
        if end.is_some() {
            return Some(String::from_utf8_lossy(&line).trim_end_matches('\r').to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_whole_and_bounded() {
        let text = format!("yes\r\n{}\nlast", "x".repeat(MAX_LINE_BYTES * 2));
        let mut input = io::BufReader::with_capacity(7, text.as_bytes());
        assert_eq!(read_line(&mut input).as_deref(), Some("yes"));
        assert_eq!(read_line(&mut input).map(|line| line.len()), Some(MAX_LINE_BYTES));
        assert_eq!(read_line(&mut input).as_deref(), Some("last"));
        assert_eq!(read_line(&mut input), None);
    }
}
