//! Checks for damage. A start checks what it can in a moment; the rest of a large store is checked beside the work.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, params};

use crate::apply::QuestionRow;
use crate::error::StoreError;
use crate::schema::{self, FILE, OPEN};

/// Up to this size a start checks every page and every decision.
const SMALL_BYTES: u64 = 16 << 20;

/// Decisions of a large store that a start checks, the newest first.
const NEWEST: i64 = 1024;

/// Decisions that are read at once beside the work, so that the log can be written back in between.
const STEP: i64 = 512;

/// What a start checks. Answers whether all of the store was checked.
pub(crate) fn at_start(dir: &Path, connection: &Connection) -> Result<bool, StoreError> {
    let size = std::fs::metadata(dir.join(FILE)).map_or(0, |metadata| metadata.len());
    if size >= SMALL_BYTES {
        let sql = format!(
            "SELECT {} FROM questions WHERE state <> {OPEN} ORDER BY decided_at DESC LIMIT {NEWEST}",
            QuestionRow::COLUMNS
        );
        decisions(dir, connection, &sql)?;
        return Ok(false);
    }
    every_page(dir, connection)?;
    every_decision(dir, connection)?;
    Ok(true)
}

/// Every page of the database.
pub(crate) fn every_page(dir: &Path, connection: &Connection) -> Result<(), StoreError> {
    let found = connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get::<_, String>(0));
    match found {
        Ok(word) if word == "ok" => Ok(()),
        Ok(problem) => Err(StoreError::Damaged(dir.to_owned(), problem)),
        Err(error) => Err(StoreError::sql(dir, &error)),
    }
}

/// The checksum of every question and decision.
pub(crate) fn every_decision(dir: &Path, connection: &Connection) -> Result<(), StoreError> {
    decisions(dir, connection, &format!("SELECT {} FROM questions", QuestionRow::COLUMNS))
}

fn decisions(dir: &Path, connection: &Connection, sql: &str) -> Result<(), StoreError> {
    let failed = |e: rusqlite::Error| StoreError::sql(dir, &e);
    let mut select = connection.prepare(sql).map_err(failed)?;
    let mut rows = select.query_map([], QuestionRow::read).map_err(failed)?;
    rows.try_for_each(|row| row.map_err(failed)?.map(drop).ok_or_else(|| StoreError::changed_decision(dir)))
}

/// Checks all decisions of a large store in a thread of its own, and logs an error for a damaged one: to read a large
/// history before serving would keep users waiting.
pub(crate) fn in_background(dir: PathBuf) {
    let checking = std::thread::Builder::new().name("aaep-check".to_owned()).spawn(move || {
        if let Err(error) = step_by_step(&dir) {
            tracing::error!(%error, "the store is damaged; what was decided before cannot all be shown");
        }
    });
    if let Err(error) = checking {
        tracing::warn!(%error, "older decisions are not checked for damage");
    }
}

fn step_by_step(dir: &Path) -> Result<(), StoreError> {
    let connection = schema::open_to_read(dir)?;
    let failed = |e: rusqlite::Error| StoreError::sql(dir, &e);
    let sql = format!("SELECT {} FROM questions WHERE token > ? ORDER BY token LIMIT ?", QuestionRow::COLUMNS);
    let mut after = String::new();
    loop {
        let mut select = connection.prepare_cached(&sql).map_err(failed)?;
        let rows = select.query_map(params![after, STEP], QuestionRow::read).map_err(failed)?;
        let rows: Vec<Option<QuestionRow>> = rows.collect::<Result<_, _>>().map_err(failed)?;
        let (count, rows) = (rows.len() as i64, rows.into_iter().collect::<Option<Vec<_>>>());
        let mut rows = rows.ok_or_else(|| StoreError::changed_decision(dir))?;
        match rows.pop() {
            Some(row) if count == STEP => after = row.token,
            _ => return Ok(()),
        }
    }
}
