//! Checks for damage. Opening a large store checks only its newest decisions; a background thread checks the rest.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, params};

use crate::apply::QuestionRow;
use crate::error::StoreError;
use crate::schema::{self, FILE, OPEN};

/// The size from which opening a store does not check every page and every decision.
const LARGE_STORE_BYTES: u64 = 16 << 20;

/// How many of the newest decisions are checked when a large store is opened.
const MAX_DECISIONS_ON_OPEN: i64 = 1024;

/// How many decisions the background check reads at once. Between two reads SQLite can checkpoint the log.
const MAX_DECISIONS_PER_STEP: i64 = 512;

/// Checks a store that is being opened. Returns whether all of it was checked.
pub(crate) fn on_open(dir: &Path, connection: &Connection) -> Result<bool, StoreError> {
    let size = std::fs::metadata(dir.join(FILE)).map_or(0, |metadata| metadata.len());
    if size >= LARGE_STORE_BYTES {
        let sql = format!(
            "SELECT {} FROM questions WHERE state <> {OPEN} ORDER BY decided_at DESC LIMIT {MAX_DECISIONS_ON_OPEN}",
            QuestionRow::COLUMNS
        );
        decisions(dir, connection, &sql)?;
        return Ok(false);
    }
    every_page(dir, connection)?;
    every_decision(dir, connection)?;
    Ok(true)
}

/// Checks every page of the database.
pub(crate) fn every_page(dir: &Path, connection: &Connection) -> Result<(), StoreError> {
    let found = connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get::<_, String>(0));
    match found {
        Ok(result) if result == "ok" => Ok(()),
        Ok(problem) => Err(StoreError::Damaged(dir.to_owned(), problem)),
        Err(error) => Err(StoreError::sql(dir, &error)),
    }
}

/// Checks the checksum of every question and decision.
pub(crate) fn every_decision(dir: &Path, connection: &Connection) -> Result<(), StoreError> {
    decisions(dir, connection, &format!("SELECT {} FROM questions", QuestionRow::COLUMNS))
}

fn decisions(dir: &Path, connection: &Connection, sql: &str) -> Result<(), StoreError> {
    let failed = |e: rusqlite::Error| StoreError::sql(dir, &e);
    let mut select = connection.prepare(sql).map_err(failed)?;
    let mut rows = select.query_map([], QuestionRow::read).map_err(failed)?;
    rows.try_for_each(|row| row.map_err(failed)?.map(drop).ok_or_else(|| StoreError::changed_decision(dir)))
}

/// Checks all decisions of a large store in a background thread and logs an error if one is damaged. Reading a large
/// history before serving would make users wait.
pub(crate) fn in_background(dir: PathBuf) {
    let checking = std::thread::Builder::new().name("aaep-check".to_owned()).spawn(move || {
        if let Err(error) = check_decisions_in_steps(&dir) {
            tracing::error!(%error, "the store is damaged; some earlier decisions cannot be shown");
        }
    });
    if let Err(error) = checking {
        tracing::warn!(%error, "cannot start the check of older decisions for damage");
    }
}

fn check_decisions_in_steps(dir: &Path) -> Result<(), StoreError> {
    let connection = schema::open_to_read(dir)?;
    let failed = |e: rusqlite::Error| StoreError::sql(dir, &e);
    let sql = format!("SELECT {} FROM questions WHERE token > ? ORDER BY token LIMIT ?", QuestionRow::COLUMNS);
    let mut after = String::new();
    loop {
        let mut select = connection.prepare_cached(&sql).map_err(failed)?;
        let rows = select.query_map(params![after, MAX_DECISIONS_PER_STEP], QuestionRow::read).map_err(failed)?;
        let rows: Vec<Option<QuestionRow>> = rows.collect::<Result<_, _>>().map_err(failed)?;
        let (count, rows) = (rows.len() as i64, rows.into_iter().collect::<Option<Vec<_>>>());
        let mut rows = rows.ok_or_else(|| StoreError::changed_decision(dir))?;
        match rows.pop() {
            Some(row) if count == MAX_DECISIONS_PER_STEP => after = row.token,
            _ => return Ok(()),
        }
    }
}
