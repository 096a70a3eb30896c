//! The envelope of BrlAPI: a size, a type, and so many bytes.

use super::error::BrailleError;

/// The largest packet that the protocol knows.
pub(super) const LARGEST: usize = 4096;

const HEADER: usize = 8;

/// The types of packets that we send or read.
pub(super) mod kind {
    pub(in crate::brlapi) const VERSION: u32 = b'v' as u32;
    pub(in crate::brlapi) const AUTH: u32 = b'a' as u32;
    pub(in crate::brlapi) const DRIVER: u32 = b'n' as u32;
    pub(in crate::brlapi) const SIZE: u32 = b's' as u32;
    pub(in crate::brlapi) const ENTER: u32 = b't' as u32;
    pub(in crate::brlapi) const LEAVE: u32 = b'L' as u32;
    pub(in crate::brlapi) const KEY: u32 = b'k' as u32;
    pub(in crate::brlapi) const WRITE: u32 = b'w' as u32;
    pub(in crate::brlapi) const ACK: u32 = b'A' as u32;
    pub(in crate::brlapi) const ERROR: u32 = b'e' as u32;
    pub(in crate::brlapi) const EXCEPTION: u32 = b'E' as u32;
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Packet {
    pub(super) kind: u32,
    pub(super) content: Vec<u8>,
}

impl Packet {
    pub(super) fn new(kind: u32, content: impl Into<Vec<u8>>) -> Packet {
        Packet { kind, content: content.into() }
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        let size = u32::try_from(self.content.len()).expect("our packets are small");
        [&size.to_be_bytes()[..], &self.kind.to_be_bytes(), &self.content].concat()
    }

    /// The number at this place, counted in numbers.
    pub(super) fn number(&self, place: usize) -> Option<u32> {
        self.content.chunks_exact(4).nth(place).map(number)
    }

    pub(super) fn numbers(&self) -> impl Iterator<Item = u32> + '_ {
        self.content.chunks_exact(4).map(number)
    }
}

fn number(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |sum, byte| sum << 8 | u32::from(*byte))
}

/// Makes packets of bytes.
#[derive(Default)]
pub(super) struct Parser {
    bytes: Vec<u8>,
}

impl Parser {
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next complete packet. Called until there is none, it keeps less than one packet.
    pub(super) fn next(&mut self) -> Result<Option<Packet>, BrailleError> {
        let (Some(size), Some(kind)) = (self.bytes.get(..4), self.bytes.get(4..HEADER)) else {
            return Ok(None);
        };
        let (size, kind) = (number(size) as usize, number(kind));
        if size > LARGEST {
            return Err(BrailleError::MalformedReply("an oversized packet"));
        }
        let Some(content) = self.bytes.get(HEADER..HEADER + size) else {
            return Ok(None);
        };
        let packet = Packet::new(kind, content);
        self.bytes.drain(..HEADER + size);
        Ok(Some(packet))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_survive_any_cut() {
        let packets = [Packet::new(kind::ACK, []), Packet::new(kind::SIZE, [0, 0, 0, 40, 0, 0, 0, 1])];
        let mut parser = Parser::default();
        let mut seen = Vec::new();
        for byte in packets.iter().flat_map(Packet::bytes) {
            parser.feed(&[byte]);
            seen.extend(parser.next().unwrap());
        }
        assert_eq!(seen, packets);
        assert_eq!(seen[1].numbers().collect::<Vec<u32>>(), [40, 1]);
        assert_eq!((seen[1].number(0), seen[1].number(2)), (Some(40), None));
    }

    #[test]
    fn an_oversized_packet_is_an_error_before_it_is_kept() {
        let mut parser = Parser::default();
        parser.feed(&[0xff, 0xff, 0xff, 0xff, 0, 0, 0, b'k']);
        assert_eq!(parser.next(), Err(BrailleError::MalformedReply("an oversized packet")));
    }
}
