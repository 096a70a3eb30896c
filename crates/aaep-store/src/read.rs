//! Reads the state that a restart needs: live sessions, active questions, subscriptions. The history is not read.

use std::collections::BTreeMap;
use std::path::Path;

use aaep_proto::engine::{
    AskedQuestion, RecoveredResolution, RecoveredState, ResolvedQuestion, SessionSnapshot, SubscriptionRecord,
};
use aaep_proto::id::{ReplyToken, SubscriptionId};
use aaep_proto::limits;
use rusqlite::Connection;

use crate::apply::{LogWriter, QuestionRow, SubscriptionRow};
use crate::checksum;
use crate::error::StoreError;
use crate::schema::{OPEN, PERMITTED, SPENT};

/// Up to which record a subscription was served when the process ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeliveryPoint {
    pub(crate) opened: i64,
    pub(crate) held: bool,
    pub(crate) changed: i64,
}

/// The state in the database.
#[derive(Debug, Default)]
pub(crate) struct StoredState {
    pub(crate) log_writer: LogWriter,
    pub(crate) restored: RecoveredState,
    pub(crate) points: BTreeMap<SubscriptionId, DeliveryPoint>,
}

/// Reads the state. Fails if its checksums do not match.
pub(crate) fn load(dir: &Path, from: &Connection) -> Result<StoredState, StoreError> {
    let mut start = StoredState::default();
    let wrong = |e: ReadError| match e {
        ReadError::Sql(error) => StoreError::sql(dir, &error),
        ReadError::Record(what) => {
            StoreError::Damaged(dir.to_owned(), format!("a record of {what} was changed or truncated"))
        }
    };
    let expected = read(from, &mut start).map_err(wrong)?;
    if start.log_writer.total() != expected {
        return Err(wrong(ReadError::Record("an active session, question or subscription")));
    }
    read_settled(from, &mut start).map_err(wrong)?;
    Ok(start)
}

enum ReadError {
    Sql(rusqlite::Error),
    Record(&'static str),
}

impl From<rusqlite::Error> for ReadError {
    fn from(error: rusqlite::Error) -> ReadError {
        ReadError::Sql(error)
    }
}

fn read(from: &Connection, start: &mut StoredState) -> Result<i64, ReadError> {
    let meta = |key: &str| from.query_row("SELECT value FROM meta WHERE key = ?", [key], |row| row.get::<_, i64>(0));
    start.log_writer.last = meta("last")?;
    let hole: Option<i64> = from.query_row("SELECT max(seq) FROM holes", [], |row| row.get(0))?;
    read_sessions(from, start, hole)?;
    let sql = format!("SELECT {} FROM questions WHERE state IN ({OPEN}, {PERMITTED})", QuestionRow::COLUMNS);
    let mut select = from.prepare(&sql)?;
    let rows = select.query_map([], QuestionRow::read)?;
    for row in rows {
        let row = row?.ok_or(ReadError::Record("a question"))?;
        start.log_writer.sums.insert(('q', row.token.clone()), row.sum());
        if row.state == OPEN {
            start.restored.questions.push(parse(&row.asked, "a question")?);
        }
    }
    let mut select = from.prepare("SELECT * FROM subscriptions")?;
    for row in select.query_map([], SubscriptionRow::read)? {
        let (row, sum) = row?;
        if row.sum() != sum {
            return Err(ReadError::Record("a subscription"));
        }
        start.log_writer.sums.insert(('u', row.id.clone()), sum);
        let subscriber: SubscriptionRecord = parse(&row.body, "a subscription")?;
        let point = DeliveryPoint { opened: row.opened, held: row.held, changed: row.changed };
        start.points.insert(subscriber.id.clone(), point);
        start.restored.subscriptions.push(subscriber);
    }
    Ok(meta("active")?)
}

fn read_sessions(from: &Connection, start: &mut StoredState, hole: Option<i64>) -> Result<(), ReadError> {
    let mut select = from.prepare("SELECT id, first, body, sum FROM sessions")?;
    let rows = select.query_map([], |row| {
        Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?, row.get::<_, String>(2)?, row.get::<_, i64>(3)?))
    })?;
    for row in rows {
        let (id, first, body, sum) = row?;
        if checksum::row(&[first], &[&id, &body]) != sum {
            return Err(ReadError::Record("a session"));
        }
        let state: SessionSnapshot = parse(&body, "a session")?;
        start.log_writer.sums.insert(('s', id), sum);
        start.log_writer.live.insert(state.started.envelope.session_id.clone(), (first, state.clone()));
        // Records of this session are missing.
        let broken = hole.is_some_and(|hole| hole > first);
        if broken { &mut start.restored.broken } else { &mut start.restored.sessions }.push(state);
    }
    Ok(())
}

/// Reads the resolved questions of live sessions, for agents that ask again, and the most recently used tokens.
fn read_settled(from: &Connection, start: &mut StoredState) -> Result<(), ReadError> {
    let sql = format!("SELECT {} FROM questions WHERE session = ? AND state <> {OPEN}", QuestionRow::COLUMNS);
    let mut select = from.prepare(&sql)?;
    for session in start.log_writer.live.keys() {
        for row in select.query_map([session.as_str()], QuestionRow::read)? {
            let row = row?.ok_or(ReadError::Record("a decision"))?;
            if row.asked.is_empty() {
                continue;
            }
            let asked: AskedQuestion = parse(&row.asked, "a question")?;
            let decided: ResolvedQuestion = parse(&row.decided, "a decision")?;
            let resolution = RecoveredResolution { asked, resolved: decided, permit_used: row.state == SPENT };
            start.restored.resolved.push(resolution);
        }
    }
    let sql = format!("SELECT token FROM questions WHERE state <> {OPEN} ORDER BY decided_at DESC LIMIT ?");
    let mut select = from.prepare(&sql)?;
    for token in select.query_map([limits::REPLY_TOKENS as i64], |row| row.get::<_, String>(0))? {
        start.restored.spent.push(token?.parse::<ReplyToken>().map_err(|_| ReadError::Record("a decision"))?);
    }
    start.restored.spent.reverse();
    Ok(())
}

fn parse<'t, T: serde::Deserialize<'t>>(text: &'t str, what: &'static str) -> Result<T, ReadError> {
    serde_json::from_str(text).map_err(|_| ReadError::Record(what))
}
