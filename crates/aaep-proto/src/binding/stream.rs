//! Messages on a stream of bytes, in one of two framings: a length of four bytes before each message, or one line per
//! message. The first byte decides which, and both directions use the same.

use std::fmt;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use memchr::memchr;

/// The bytes of a length prefix: an unsigned integer in network byte order.
pub const LENGTH_PREFIX_BYTES: usize = 4;

/// How messages are set apart on a stream of bytes.
///
/// ```
/// use aaep_proto::binding::{MessageDecoder, MessageFraming};
/// use bytes::BytesMut;
///
/// let mut stream = BytesMut::new();
/// MessageFraming::LengthPrefix.encode(b"{}", &mut stream)?;
/// assert_eq!(&stream[..], b"\0\0\0\x02{}");
///
/// let framing = MessageFraming::detect(stream[0]).unwrap();
/// let mut decoder = MessageDecoder::new(1000);
/// assert_eq!(decoder.decode(framing, &mut stream, false)?.as_deref(), Some(&b"{}"[..]));
/// assert_eq!(decoder.decode(framing, &mut stream, false)?, None);
/// # Ok::<(), aaep_proto::binding::MessageTooLong>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageFraming {
    /// A length of [`LENGTH_PREFIX_BYTES`] before each message.
    LengthPrefix,
    /// A line feed after each message.
    Lines,
}

impl MessageFraming {
    /// Returns the framing of a stream that starts with this byte, or `None` if it is neither.
    pub fn detect(first: u8) -> Option<MessageFraming> {
        match first {
            // A length up to 16 MiB starts with a zero byte, and JSON never does.
            0 => Some(MessageFraming::LengthPrefix),
            b'{' | b' ' | b'\t' | b'\r' | b'\n' => Some(MessageFraming::Lines),
            _ => None,
        }
    }

    /// Appends one message, which must not contain a line feed if the framing is [`MessageFraming::Lines`].
    pub fn encode(self, json: &[u8], out: &mut BytesMut) -> Result<(), MessageTooLong> {
        match self {
            MessageFraming::LengthPrefix => {
                let length = u32::try_from(json.len()).map_err(|_| MessageTooLong { bytes: json.len() })?;
                out.reserve(LENGTH_PREFIX_BYTES + json.len());
                out.put_u32(length);
                out.put_slice(json);
            }
            MessageFraming::Lines => {
                out.reserve(json.len() + 1);
                out.put_slice(json);
                out.put_u8(b'\n');
            }
        }
        Ok(())
    }
}

/// A message longer than the bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageTooLong {
    /// Its length, or how much of it has been received so far.
    pub bytes: usize,
}

impl fmt::Display for MessageTooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "message too long: {} bytes", self.bytes)
    }
}

impl std::error::Error for MessageTooLong {}

/// Splits a buffer into messages without copying them.
#[derive(Clone, Debug)]
pub struct MessageDecoder {
    max_bytes: usize,
    /// How many bytes of the buffer hold no line feed, so that no byte is searched twice.
    searched: usize,
}

impl MessageDecoder {
    /// Creates a decoder that refuses messages of more than `max_bytes`.
    pub fn new(max_bytes: usize) -> MessageDecoder {
        MessageDecoder { max_bytes, searched: 0 }
    }

    /// Takes the next whole message from the front of the buffer. Returns `None` if more bytes are needed. With
    /// `is_end`, a last line without a line feed counts as whole.
    ///
    /// The buffer is kept as it is if the message is too long; the stream cannot be read further.
    pub fn decode(
        &mut self,
        framing: MessageFraming,
        buffer: &mut BytesMut,
        is_end: bool,
    ) -> Result<Option<Bytes>, MessageTooLong> {
        match framing {
            MessageFraming::LengthPrefix => self.decode_length_prefixed(buffer),
            MessageFraming::Lines => self.decode_line(buffer, is_end),
        }
    }

    fn decode_length_prefixed(&self, buffer: &mut BytesMut) -> Result<Option<Bytes>, MessageTooLong> {
        let Some(prefix) = buffer.first_chunk::<LENGTH_PREFIX_BYTES>() else { return Ok(None) };
        let length = u32::from_be_bytes(*prefix) as usize;
        if length > self.max_bytes {
            return Err(MessageTooLong { bytes: length });
        }
        if buffer.len() < LENGTH_PREFIX_BYTES + length {
            return Ok(None);
        }
        buffer.advance(LENGTH_PREFIX_BYTES);
        Ok(Some(buffer.split_to(length).freeze()))
    }

    fn decode_line(&mut self, buffer: &mut BytesMut, is_end: bool) -> Result<Option<Bytes>, MessageTooLong> {
        let (length, end) = match memchr(b'\n', &buffer[self.searched..]) {
            Some(at) => (self.searched + at, self.searched + at + 1),
            None if is_end && !buffer.is_empty() => (buffer.len(), buffer.len()),
            None => {
                self.searched = buffer.len();
                let too_long = MessageTooLong { bytes: self.searched };
                return if self.searched > self.max_bytes { Err(too_long) } else { Ok(None) };
            }
        };
        if length > self.max_bytes {
            return Err(MessageTooLong { bytes: length });
        }
        self.searched = 0;
        let mut line = buffer.split_to(end).freeze();
        line.truncate(length);
        Ok(Some(line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode_all(framing: MessageFraming, input: &[u8], step: usize) -> Vec<Vec<u8>> {
        let (mut decoder, mut buffer, mut messages) = (MessageDecoder::new(20), BytesMut::new(), Vec::new());
        for (number, bytes) in input.chunks(step).enumerate() {
            buffer.extend_from_slice(bytes);
            let is_end = (number + 1) * step >= input.len();
            while let Some(message) = decoder.decode(framing, &mut buffer, is_end).unwrap() {
                messages.push(message.to_vec());
            }
        }
        assert!(buffer.is_empty(), "{buffer:?} is left");
        messages
    }

    #[test]
    fn what_is_encoded_is_decoded_however_it_arrives() {
        for framing in [MessageFraming::LengthPrefix, MessageFraming::Lines] {
            let messages = [&b"{}"[..], b"", b"{\"a\":1}"];
            let mut stream = BytesMut::new();
            messages.iter().for_each(|message| framing.encode(message, &mut stream).unwrap());
            for step in [1, 2, 5, 100] {
                assert_eq!(decode_all(framing, &stream, step), messages, "{framing:?} in steps of {step}");
            }
        }
    }

    #[test]
    fn last_line_may_lack_its_line_feed() {
        assert_eq!(decode_all(MessageFraming::Lines, b"{}\n{\"a\":1}", 3), [&b"{}"[..], b"{\"a\":1}"]);
    }

    #[test]
    fn messages_over_the_bound_are_refused_before_they_are_buffered() {
        let mut announced = BytesMut::from(&b"\0\0\0\x15{"[..]);
        let refused = MessageDecoder::new(20).decode(MessageFraming::LengthPrefix, &mut announced, false);
        assert_eq!(refused, Err(MessageTooLong { bytes: 21 }));
        for whole in [&[b'x'; 21][..], b"xxxxxxxxxxxxxxxxxxxxx\n"] {
            let refused = MessageDecoder::new(20).decode(MessageFraming::Lines, &mut BytesMut::from(whole), false);
            assert_eq!(refused, Err(MessageTooLong { bytes: 21 }));
        }
    }

    #[test]
    fn first_byte_decides_the_framing() {
        assert_eq!(MessageFraming::detect(0), Some(MessageFraming::LengthPrefix));
        for byte in *b"{ \t\r\n" {
            assert_eq!(MessageFraming::detect(byte), Some(MessageFraming::Lines));
        }
        assert_eq!(MessageFraming::detect(b'G'), None);
    }
}
