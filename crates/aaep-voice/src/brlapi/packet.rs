//! The framing of BrlAPI: a size, a type and the content.

use super::error::BrailleError;

/// The largest packet of the protocol.
pub(super) const MAX_PACKET_BYTES: usize = 4096;

const HEADER_BYTES: usize = 8;

/// The types of packets that are sent or received.
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
        let size = u32::try_from(self.content.len()).expect("packets that are sent are small");
        [&size.to_be_bytes()[..], &self.kind.to_be_bytes(), &self.content].concat()
    }

    /// Returns the number at this index; each number has 4 bytes.
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

/// Parses packets from bytes.
#[derive(Default)]
pub(super) struct PacketParser {
    bytes: Vec<u8>,
}

impl PacketParser {
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Takes the next complete packet. If it is called until it returns `None`, less than one packet stays buffered.
    pub(super) fn next(&mut self) -> Result<Option<Packet>, BrailleError> {
        let (Some(size), Some(kind)) = (self.bytes.get(..4), self.bytes.get(4..HEADER_BYTES)) else {
            return Ok(None);
        };
        let (size, kind) = (number(size) as usize, number(kind));
        if size > MAX_PACKET_BYTES {
            return Err(BrailleError::MalformedReply("an oversized packet"));
        }
        let Some(content) = self.bytes.get(HEADER_BYTES..HEADER_BYTES + size) else {
            return Ok(None);
        };
        let packet = Packet::new(kind, content);
        self.bytes.drain(..HEADER_BYTES + size);
        Ok(Some(packet))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_may_be_split_at_any_byte() {
        let packets = [Packet::new(kind::ACK, []), Packet::new(kind::SIZE, [0, 0, 0, 40, 0, 0, 0, 1])];
        let mut parser = PacketParser::default();
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
    fn oversized_packet_is_an_error_before_it_is_buffered() {
        let mut parser = PacketParser::default();
        parser.feed(&[0xff, 0xff, 0xff, 0xff, 0, 0, 0, b'k']);
        assert_eq!(parser.next(), Err(BrailleError::MalformedReply("an oversized packet")));
    }
}
