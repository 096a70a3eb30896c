//! A small file beside the database that says how far the database must reach. A store without it is incomplete: a copy
//! of the database alone lacks what is in the write-ahead log, and SQLite drops a damaged end of that log without a word.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use crate::checksum::sum;
use crate::permissions;

pub(crate) const FILE: &str = "mark";

/// Written after each commit, in two places in turn. Only its creation is synced: it may be older than the database,
/// never newer.
#[derive(Debug)]
pub(crate) struct HighWaterFile {
    file: File,
    turn: u64,
}

/// What the mark of a directory says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reached {
    /// There is none.
    Missing,
    /// It cannot be read.
    Damaged,
    /// The database has this record.
    Record(u64),
}

const PLACE: usize = 24;

impl Reached {
    /// Reads the mark of a directory.
    pub(crate) fn read(dir: &Path) -> io::Result<Reached> {
        match File::open(dir.join(FILE)) {
            Ok(file) => Ok(newest(file)?.map_or(Reached::Damaged, |(_, reached)| Reached::Record(reached))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Reached::Missing),
            Err(error) => Err(error),
        }
    }
}

impl HighWaterFile {
    /// Opens the mark of a directory. A new one is on the disk before this returns.
    pub(crate) fn open(dir: &Path) -> io::Result<HighWaterFile> {
        let file = permissions::open(&dir.join(FILE))?;
        let turn = newest(file.try_clone()?)?.map_or(0, |(turn, _)| turn);
        let mut mark = HighWaterFile { file, turn };
        if turn == 0 {
            mark.set(0)?;
            mark.sync(dir)?;
        }
        Ok(mark)
    }

    /// Notes that the database has this record.
    pub(crate) fn set(&mut self, reached: u64) -> io::Result<()> {
        self.turn += 1;
        let mut bytes = [0; PLACE];
        bytes[..8].copy_from_slice(&self.turn.to_le_bytes());
        bytes[8..16].copy_from_slice(&reached.to_le_bytes());
        let check = sum(&[&bytes[..16]]);
        bytes[16..].copy_from_slice(&check.to_le_bytes());
        self.file.seek(SeekFrom::Start((self.turn % 2) * PLACE as u64))?;
        self.file.write_all(&bytes)
    }

    /// Makes sure that the mark is on the disk.
    pub(crate) fn sync(&self, dir: &Path) -> io::Result<()> {
        self.file.sync_all()?;
        permissions::sync_directory(dir)
    }
}

fn newest(mut file: File) -> io::Result<Option<(u64, u64)>> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    Read::by_ref(&mut file).take(2 * PLACE as u64).read_to_end(&mut bytes)?;
    Ok(bytes.chunks_exact(PLACE).filter_map(read).max())
}

fn read(place: &[u8]) -> Option<(u64, u64)> {
    let number = |range: std::ops::Range<usize>| place[range].try_into().ok().map(u64::from_le_bytes);
    let check = sum(&[&place[..16]]).to_le_bytes();
    if place[16..] != check {
        return None;
    }
    Some((number(0..8)?, number(8..16)?))
}
