//! Just enough of WebSocket and HTTP/1.1 for a client that must not be the bottleneck.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use memchr::memmem;

/// How long a connection may take to accept or to send anything before the measurement fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Opcodes of WebSocket frames.
pub(crate) const TEXT: u8 = 1;
pub(crate) const CLOSE: u8 = 8;
pub(crate) const PING: u8 = 9;
pub(crate) const PONG: u8 = 10;

/// Appends a masked frame with a mask of zeros.
pub(crate) fn push_frame(out: &mut Vec<u8>, opcode: u8, payload: &[u8]) {
    out.push(0x80 | opcode);
    if payload.len() < 126 {
        out.push(0x80 | u8::try_from(payload.len()).unwrap());
    } else {
        out.push(0x80 | 126);
        out.extend_from_slice(&u16::try_from(payload.len()).unwrap().to_be_bytes());
    }
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(payload);
}

/// One message of a server: a WebSocket frame or an HTTP response.
pub(crate) struct Received<'a> {
    /// The opcode, or the status.
    pub(crate) kind: u16,
    pub(crate) payload: &'a [u8],
    /// The length with the header.
    length: usize,
}

/// How the messages of a connection are separated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    WebSocket,
    Http,
}

impl Framing {
    /// Returns the first message, or `None` if it is incomplete.
    pub(crate) fn first(self, bytes: &[u8]) -> Option<Received<'_>> {
        match self {
            Framing::WebSocket => first_frame(bytes),
            Framing::Http => first_response(bytes),
        }
    }
}

fn first_frame(bytes: &[u8]) -> Option<Received<'_>> {
    let (&[first, second], rest) = bytes.split_first_chunk()?;
    let (length, header) = match second {
        // Servers do not mask.
        0..126 => (usize::from(second), 2),
        126 => (usize::from(u16::from_be_bytes(*rest.first_chunk()?)), 4),
        127 => (usize::try_from(u64::from_be_bytes(*rest.first_chunk()?)).unwrap(), 10),
        _ => panic!("a frame of the server is masked"),
    };
    let payload = bytes.get(header..header + length)?;
    Some(Received { kind: u16::from(first & 15), payload, length: header + length })
}

fn first_response(bytes: &[u8]) -> Option<Received<'_>> {
    let head = memmem::find(bytes, b"\r\n\r\n")? + 4;
    let text = std::str::from_utf8(&bytes[..head]).unwrap();
    let kind = text.get(9..12).and_then(|status| status.parse().ok()).unwrap();
    let lengths = text.lines().filter_map(|line| line.split_once(':'));
    let mut lengths = lengths.filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let length: usize = lengths.next().map_or(0, |(_, length)| length.trim().parse().unwrap());
    Some(Received { kind, payload: bytes.get(head..head + length)?, length: head + length })
}

/// Bytes that are read at once.
const READ: usize = 256 * 1024;

/// The buffer that all connections read into.
pub(crate) struct Scratch(Vec<u8>);

impl Scratch {
    pub(crate) fn new() -> Scratch {
        Scratch(vec![0; 2 * READ])
    }
}

/// The reading side of a connection.
pub(crate) struct Inbox {
    framing: Framing,
    /// The start of a message whose end was not received yet.
    rest: Vec<u8>,
}

impl Inbox {
    pub(crate) fn new(framing: Framing) -> Inbox {
        Inbox { framing, rest: Vec::new() }
    }

    /// Reads once and passes on every complete message. Fails if the server closed the connection.
    pub(crate) fn read(
        &mut self,
        mut stream: &TcpStream,
        scratch: &mut Scratch,
        mut handle: impl FnMut(&Received<'_>),
    ) -> Result<(), String> {
        let kept = self.rest.len();
        scratch.0[..kept].copy_from_slice(&self.rest);
        let read = match stream.read(&mut scratch.0[kept..kept + READ]) {
            Ok(0) => return Err("the server closed a connection".to_owned()),
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(format!("a connection was lost: {error}")),
        };
        let mut left = &scratch.0[..kept + read];
        while let Some(message) = self.framing.first(left) {
            handle(&message);
            left = &left[message.length..];
        }
        self.rest.clear();
        self.rest.extend_from_slice(left);
        Ok(())
    }

    /// Reads from a blocking connection until `handle` returns a value.
    pub(crate) fn wait_for<T>(
        &mut self,
        stream: &TcpStream,
        scratch: &mut Scratch,
        mut handle: impl FnMut(&Received<'_>) -> Option<T>,
    ) -> Result<T, String> {
        let mut found = None;
        while found.is_none() {
            self.read(stream, scratch, |message| {
                if found.is_none() {
                    found = handle(message);
                }
            })?;
        }
        found.ok_or_else(|| "nothing was received".to_owned())
    }
}

/// Writes all of it. What is in flight fits into the buffers of a connection, so this waits only for a server that does not
/// read.
pub(crate) fn write_all(mut stream: &TcpStream, mut bytes: &[u8]) {
    let mut started = None;
    while !bytes.is_empty() {
        match stream.write(bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let started = started.get_or_insert_with(Instant::now);
                assert!(started.elapsed() < PATIENCE, "the server does not read");
                std::thread::yield_now();
            }
            Err(error) => panic!("a connection was lost: {error}"),
        }
    }
}
