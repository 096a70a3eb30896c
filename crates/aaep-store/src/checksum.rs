//! Checksums of records. SQLite itself has none for the pages of the main file.

/// Returns a checksum of these parts and their lengths. Any changed byte changes it.
pub(crate) fn sum(parts: &[&[u8]]) -> i64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |bytes: &[u8]| {
        for byte in bytes {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    for part in parts {
        add(&(part.len() as u64).to_le_bytes());
        add(part);
    }
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xff51_afd7_ed55_8ccd);
    (hash ^ (hash >> 33)) as i64
}

/// Returns the checksum of a row: its numbers and texts in a fixed order.
pub(crate) fn row(numbers: &[i64], texts: &[&str]) -> i64 {
    let numbers: Vec<[u8; 8]> = numbers.iter().map(|n| n.to_le_bytes()).collect();
    let parts: Vec<&[u8]> = numbers.iter().map(|n| n.as_slice()).chain(texts.iter().map(|t| t.as_bytes())).collect();
    sum(&parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_bits_and_moved_boundaries_change_the_checksum() {
        let text = b"accept".to_vec();
        for at in 0..text.len() {
            for bit in 0..8 {
                let mut other = text.clone();
                other[at] ^= 1 << bit;
                assert_ne!(sum(&[&text]), sum(&[&other]));
            }
        }
        assert_ne!(sum(&[b"ab", b"c"]), sum(&[b"a", b"bc"]));
        assert_ne!(row(&[1], &["a"]), row(&[2], &["a"]));
    }
}
