//! The high-water mark: a small file beside the database with the number of the last record that the database must have.
//! It reveals an incomplete store: a copy of the database file alone lacks the records in the write-ahead log, and SQLite
//! silently drops a damaged end of that log.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use crate::checksum::sum;
use crate::permissions;

pub(crate) const FILE: &str = "mark";

/// The open file. It is written after each commit, alternately in two slots, so that one slot is always intact. Only its
/// creation is synced: the mark may be behind the database and never ahead of it.
#[derive(Debug)]
pub(crate) struct HighWaterFile {
    file: File,
    /// How often the mark was written; the slots alternate.
    turn: u64,
}

/// The high-water mark of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reached {
    /// The file does not exist.
    Missing,
    /// Neither slot is intact.
    Damaged,
    /// The database must have this record.
    Record(u64),
}

/// A slot: the turn, the record number and a checksum, 8 bytes each.
const SLOT_BYTES: usize = 24;

impl Reached {
    /// Reads the high-water mark of a directory.
    pub(crate) fn read(dir: &Path) -> io::Result<Reached> {
        match File::open(dir.join(FILE)) {
            Ok(file) => Ok(newest_slot(file)?.map_or(Reached::Damaged, |(_, reached)| Reached::Record(reached))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Reached::Missing),
            Err(error) => Err(error),
        }
    }
}

impl HighWaterFile {
    /// Opens the file, or creates it and syncs it before this returns.
    pub(crate) fn open(dir: &Path) -> io::Result<HighWaterFile> {
        let file = permissions::open(&dir.join(FILE))?;
        let turn = newest_slot(file.try_clone()?)?.map_or(0, |(turn, _)| turn);
        let mut mark = HighWaterFile { file, turn };
        if turn == 0 {
            mark.set(0)?;
            mark.sync(dir)?;
        }
        Ok(mark)
    }

    /// Writes that the database has this record.
    pub(crate) fn set(&mut self, reached: u64) -> io::Result<()> {
        self.turn += 1;
        let mut bytes = [0; SLOT_BYTES];
        bytes[..8].copy_from_slice(&self.turn.to_le_bytes());
        bytes[8..16].copy_from_slice(&reached.to_le_bytes());
        let check = sum(&[&bytes[..16]]);
        bytes[16..].copy_from_slice(&check.to_le_bytes());
        self.file.seek(SeekFrom::Start((self.turn % 2) * SLOT_BYTES as u64))?;
        self.file.write_all(&bytes)
    }

    /// Syncs the file and its directory.
    pub(crate) fn sync(&self, dir: &Path) -> io::Result<()> {
        self.file.sync_all()?;
        permissions::sync_directory(dir)
    }
}

/// Returns the turn and the record number of the newest intact slot.
fn newest_slot(mut file: File) -> io::Result<Option<(u64, u64)>> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    Read::by_ref(&mut file).take(2 * SLOT_BYTES as u64).read_to_end(&mut bytes)?;
    Ok(bytes.chunks_exact(SLOT_BYTES).filter_map(read_slot).max())
}

/// Returns the turn and the record number of a slot, or `None` if its checksum is wrong.
fn read_slot(slot: &[u8]) -> Option<(u64, u64)> {
    let number = |range: std::ops::Range<usize>| slot[range].try_into().ok().map(u64::from_le_bytes);
    let check = sum(&[&slot[..16]]).to_le_bytes();
    if slot[16..] != check {
        return None;
    }
    Some((number(0..8)?, number(8..16)?))
}
