//! A small file beside the database that says how far it must reach. If the end of the database's log is damaged,
//! SQLite drops that end without a word; this tells.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;

use crate::sum::sum;

/// Written after each commit, in two places in turn. It is not synced: it may be older than the database, never newer.
#[derive(Debug)]
pub(crate) struct Mark {
    file: File,
    turn: u64,
}

const PLACE: usize = 24;

impl Mark {
    /// Opens the mark; answers how far the database must reach.
    pub(crate) fn open(path: &Path) -> std::io::Result<(Mark, u64)> {
        let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        let mut bytes = Vec::new();
        Read::by_ref(&mut file).take(2 * PLACE as u64).read_to_end(&mut bytes)?;
        let best = bytes.chunks_exact(PLACE).filter_map(read).max();
        let (turn, reached) = best.unwrap_or((0, 0));
        Ok((Mark { file, turn }, reached))
    }

    pub(crate) fn set(&mut self, reached: u64) -> std::io::Result<()> {
        self.turn += 1;
        let mut bytes = [0; PLACE];
        bytes[..8].copy_from_slice(&self.turn.to_le_bytes());
        bytes[8..16].copy_from_slice(&reached.to_le_bytes());
        let check = sum(&[&bytes[..16]]);
        bytes[16..].copy_from_slice(&check.to_le_bytes());
        self.file.seek(SeekFrom::Start((self.turn % 2) * PLACE as u64))?;
        self.file.write_all(&bytes)
    }
}

fn read(place: &[u8]) -> Option<(u64, u64)> {
    let number = |range: std::ops::Range<usize>| place[range].try_into().ok().map(u64::from_le_bytes);
    let check = sum(&[&place[..16]]).to_le_bytes();
    if place[16..] != check {
        return None;
    }
    Some((number(0..8)?, number(8..16)?))
}
