//! A connection to BRLTTY and its display.

use std::collections::VecDeque;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use super::address::BrailleConfig;
use super::error::BrailleError;
use super::key::BrailleKey;
use super::packet::{MAX_PACKET_BYTES, Packet, PacketParser, kind};
use crate::endpoint::Stream;

/// The version of the BrlAPI protocol.
const VERSION: u32 = 8;

// Methods of authentication.
const AUTH_NONE: u32 = b'N' as u32;
const AUTH_KEY: u32 = b'K' as u32;

// Flags of a write: which fields it has.
const WRITE_REGION: u32 = 0x02;
const WRITE_TEXT: u32 = 0x04;
const WRITE_CURSOR: u32 = 0x20;
const WRITE_CHARSET: u32 = 0x40;

/// How long the server may take to reply.
const REPLY_TIMEOUT: Duration = Duration::from_secs(30);

/// How many keys are queued while a reply is awaited. No user presses more in that time.
const MAX_QUEUED_KEYS: usize = 256;

/// The most cells of a display. No display is larger, and a line must fit into a packet.
const MAX_CELLS: u32 = 640;

/// A connection to a braille display.
///
/// Acquire the display with [`enter_tty_mode`](Braille::enter_tty_mode), show lines with [`write`](Braille::write), read keys with
/// [`key`](Braille::key). BRLTTY shows the terminal again after [`leave`](Braille::leave), or when this is dropped.
///
/// ```no_run
/// use aaep_voice::Braille;
/// use aaep_voice::brlapi::{BrailleConfig, KeyKind};
/// # async fn example() -> Result<(), aaep_voice::BrailleError> {
/// let mut display = Braille::connect(&BrailleConfig::default()).await?;
/// display.enter_tty_mode(&[]).await?;
/// display.write("Delete 3 files? Enter: yes", None).await?;
/// let accepted = display.key().await?.kind == KeyKind::Enter;
/// display.leave().await?;
/// # let _ = accepted;
/// # Ok(())
/// # }
/// ```
pub struct Braille {
    stream: Box<dyn Stream>,
    parser: PacketParser,
    /// Keys that were received while a reply was awaited.
    keys: VecDeque<BrailleKey>,
    /// Columns and rows, while in tty mode.
    size: Option<(u32, u32)>,
    /// The rest of a packet whose sending was cancelled. It must be sent first.
    unsent: Vec<u8>,
}

impl Braille {
    /// Connects and authenticates.
    pub async fn connect(config: &BrailleConfig) -> Result<Braille, BrailleError> {
        let variable = |name: &str| std::env::var(name).ok();
        let endpoint = config.endpoint(variable)?;
        let lost = || BrailleError::NotRunning(endpoint.to_string());
        let connecting = timeout(REPLY_TIMEOUT, endpoint.connect());
        let stream = connecting.await.map_err(|_| lost())?.map_err(|_| lost())?;
        let (parser, keys) = (PacketParser::default(), VecDeque::new());
        let mut display = Braille { stream, parser, keys, size: None, unsent: Vec::new() };
        display.handshake(&config.key_file(variable)).await?;
        Ok(display)
    }

    async fn handshake(&mut self, key_file: &Path) -> Result<(), BrailleError> {
        let version = self.answer(kind::VERSION).await?.number(0).ok_or(BrailleError::MalformedReply("no version"))?;
        if version != VERSION {
            return Err(BrailleError::Version(version));
        }
        self.send(Packet::new(kind::VERSION, VERSION.to_be_bytes())).await?;
        let ways = self.answer(kind::AUTH).await?;
        if ways.numbers().any(|way| way == AUTH_NONE) {
            return Ok(());
        }
        let not_allowed = || BrailleError::NotAllowed(key_file.display().to_string());
        if !ways.numbers().any(|way| way == AUTH_KEY) {
            return Err(not_allowed());
        }
        let key = read_key(key_file).ok_or_else(not_allowed)?;
        self.send(Packet::new(kind::AUTH, [&AUTH_KEY.to_be_bytes()[..], &key].concat())).await?;
        match self.answer(kind::ACK).await {
            Ok(_) => Ok(()),
            Err(BrailleError::Refused(_) | BrailleError::Exception(_) | BrailleError::Closed) => Err(not_allowed()),
            Err(error) => Err(error),
        }
    }

    /// Returns the name of the driver that BRLTTY uses.
    pub async fn driver(&mut self) -> Result<String, BrailleError> {
        self.send(Packet::new(kind::DRIVER, [])).await?;
        let name = self.answer(kind::DRIVER).await?.content;
        Ok(String::from_utf8_lossy(&name).trim_end_matches('\0').to_owned())
    }

    /// Acquires the display for the terminal with this path ([`tty_path`](super::tty_path)); with an empty path, whatever
    /// terminal has the focus. Returns the columns and rows of the display.
    pub async fn enter_tty_mode(&mut self, path: &[u32]) -> Result<(u32, u32), BrailleError> {
        let depth = u32::try_from(path.len()).ok().filter(|depth| *depth <= 64);
        let depth = depth.ok_or(BrailleError::Refused(6))?;
        self.send(Packet::new(kind::SIZE, [])).await?;
        let size = self.answer(kind::SIZE).await?;
        let (Some(columns), Some(rows)) = (size.number(0), size.number(1)) else {
            return Err(BrailleError::MalformedReply("a size without numbers"));
        };
        match columns.checked_mul(rows) {
            Some(0) => return Err(BrailleError::NoDisplay),
            Some(cells) if cells <= MAX_CELLS => {}
            _ => return Err(BrailleError::MalformedReply("an impossible size")),
        }
        self.keys.clear();
        let mut content = depth.to_be_bytes().to_vec();
        content.extend(path.iter().flat_map(|part| part.to_be_bytes()));
        // Without the name of a driver, keys are sent as commands that are the same for every display.
        content.push(0);
        self.send(Packet::new(kind::ENTER, content)).await?;
        self.answer(kind::ACK).await?;
        self.size = Some((columns, rows));
        Ok((columns, rows))
    }

    /// Releases the display.
    pub async fn leave(&mut self) -> Result<(), BrailleError> {
        self.size.take().ok_or(BrailleError::NotEntered)?;
        self.send(Packet::new(kind::LEAVE, [])).await?;
        self.answer(kind::ACK).await?;
        self.keys.clear();
        Ok(())
    }

    /// Shows the beginning of the text that fits on the display, with the cursor at this cell, counted from 0. The server
    /// does not confirm it; [`key`](Braille::key) returns the error if it failed.
    pub async fn write(&mut self, text: &str, cursor: Option<u32>) -> Result<(), BrailleError> {
        let (columns, rows) = self.size.ok_or(BrailleError::NotEntered)?;
        let cells = columns * rows;
        let line = line(text, cells);
        let cursor = cursor.filter(|cell| *cell < cells).map_or(0, |cell| cell + 1);
        let length = u32::try_from(line.len()).expect("a display has few cells");
        let flags = WRITE_REGION | WRITE_TEXT | WRITE_CURSOR | WRITE_CHARSET;
        let mut content = Vec::with_capacity(line.len() + 32);
        for number in [flags, 1, cells, length] {
            content.extend(number.to_be_bytes());
        }
        content.extend(line.as_bytes());
        content.extend(cursor.to_be_bytes());
        content.extend(b"\x05UTF-8");
        self.send(Packet::new(kind::WRITE, content)).await
    }

    /// Receives the next key. Cancel safe. [`Refused`](BrailleError::Refused) means that an earlier write failed; the
    /// connection still works.
    pub async fn key(&mut self) -> Result<BrailleKey, BrailleError> {
        loop {
            if let Some(key) = self.keys.pop_front() {
                return Ok(key);
            }
            self.flush().await?;
            let packet = self.packet().await?;
            self.handle_packet(packet)?;
        }
    }

    /// Waits for a reply of this kind. Queues the keys that are received before it.
    async fn answer(&mut self, expected: u32) -> Result<Packet, BrailleError> {
        let waiting = async {
            loop {
                let packet = self.packet().await?;
                if packet.kind == expected {
                    return Ok(packet);
                }
                self.handle_packet(packet)?;
            }
        };
        timeout(REPLY_TIMEOUT, waiting).await.unwrap_or(Err(BrailleError::Silent))
    }

    /// Handles a packet that is not a reply.
    fn handle_packet(&mut self, packet: Packet) -> Result<(), BrailleError> {
        let code = packet.number(0);
        match packet.kind {
            kind::KEY => {
                let (Some(high), Some(low)) = (code, packet.number(1)) else {
                    return Err(BrailleError::MalformedReply("a key without a number"));
                };
                if self.keys.len() < MAX_QUEUED_KEYS {
                    self.keys.push_back(BrailleKey::from_code(u64::from(high) << 32 | u64::from(low)));
                } else {
                    tracing::warn!("too many keys at once; one is lost");
                }
                Ok(())
            }
            kind::ERROR => {
                Err(BrailleError::Refused(code.ok_or(BrailleError::MalformedReply("an error without a number"))?))
            }
            kind::EXCEPTION => {
                Err(BrailleError::Exception(code.ok_or(BrailleError::MalformedReply("an exception without a number"))?))
            }
            // Changed parameters, and packets of later versions.
            _ => Ok(()),
        }
    }

    /// Receives the next packet. Cancel safe.
    async fn packet(&mut self) -> Result<Packet, BrailleError> {
        loop {
            if let Some(packet) = self.parser.next()? {
                return Ok(packet);
            }
            let mut buffer = [0; 1024];
            let count = self.stream.read(&mut buffer).await.map_err(|_| BrailleError::Closed)?;
            if count == 0 {
                return Err(BrailleError::Closed);
            }
            self.parser.feed(&buffer[..count]);
        }
    }

    async fn send(&mut self, packet: Packet) -> Result<(), BrailleError> {
        if self.unsent.len() > 4 * MAX_PACKET_BYTES {
            return Err(BrailleError::Silent);
        }
        self.unsent.extend(packet.bytes());
        timeout(REPLY_TIMEOUT, self.flush()).await.unwrap_or(Err(BrailleError::Silent))
    }

    /// Sends the buffered bytes. If it is cancelled, the next call continues with the rest, so that packets stay complete.
    async fn flush(&mut self) -> Result<(), BrailleError> {
        while !self.unsent.is_empty() {
            let count = self.stream.write(&self.unsent).await.map_err(|_| BrailleError::Closed)?;
            if count == 0 {
                return Err(BrailleError::Closed);
            }
            self.unsent.drain(..count);
        }
        self.stream.flush().await.map_err(|_| BrailleError::Closed)
    }
}

/// Reads the key in a file. Refuses an empty or long file.
fn read_key(file: &Path) -> Option<Vec<u8>> {
    let mut key = Vec::new();
    let largest = MAX_PACKET_BYTES - 4;
    std::fs::File::open(file).ok()?.take(largest as u64 + 1).read_to_end(&mut key).ok()?;
    (1..=largest).contains(&key.len()).then_some(key)
}

/// Returns the text with exactly one character for each cell.
fn line(text: &str, cells: u32) -> String {
    let plain = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    plain.chain(std::iter::repeat(' ')).take(cells as usize).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_has_one_character_for_each_cell() {
        assert_eq!(line("é\n!", 5), "é !  ");
        assert_eq!(line("abcdef", 3), "abc");
        assert!(line(&"\u{10ffff}".repeat(1000), MAX_CELLS).len() + 32 <= MAX_PACKET_BYTES);
    }

    #[test]
    fn empty_and_long_key_files_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("key");
        assert_eq!(read_key(&file), None);
        for (content, good) in [(vec![], false), (vec![1; 33], true), (vec![1; MAX_PACKET_BYTES], false)] {
            std::fs::write(&file, &content).unwrap();
            assert_eq!(read_key(&file), good.then_some(content));
        }
    }
}
