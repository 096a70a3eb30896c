//! Reads the state that a restart needs: live sessions, active questions, subscriptions. The history is not read.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use aaep_proto::engine::{
    AskedQuestion, RecoveredResolution, RecoveredState, ResolvedQuestion, SessionSnapshot, SubscriptionRecord,
};
use aaep_proto::id::{ReplyToken, SubscriptionId};
use aaep_proto::limits;
use rusqlite::{Connection, params};

use crate::apply::{LiveSession, LogWriter, QuestionRow, SubscriptionRow};
use crate::error::StoreError;
use crate::schema::{OPEN, PERMITTED, SPENT};
use crate::users;

/// Up to which record a subscription was served when its engine ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeliveryPoint {
    pub(crate) user: i64,
    pub(crate) opened: i64,
    pub(crate) held: bool,
    pub(crate) changed: i64,
}

/// The active rows of all users.
#[derive(Debug, Default)]
pub(crate) struct ActiveRows {
    pub(crate) log_writer: LogWriter,
    /// Users with a live session, an open question, an unused permit or a subscription.
    pub(crate) users: BTreeSet<i64>,
}

/// Reads the active rows of all users. Fails if their checksums do not match.
pub(crate) fn load(dir: &Path, from: &Connection) -> Result<ActiveRows, StoreError> {
    let mut rows = ActiveRows::default();
    let wrong = |error: ReadError| error.in_store(dir);
    let expected = read_active(from, &mut rows).map_err(wrong)?;
    if rows.log_writer.total() != expected {
        return Err(wrong(ReadError::Record("an active session, question or subscription")));
    }
    Ok(rows)
}

/// Reads the active rows of all users after some were deleted, when the stored total no longer matches.
pub(crate) fn load_unchecked(dir: &Path, from: &Connection) -> Result<ActiveRows, StoreError> {
    let mut rows = ActiveRows::default();
    read_active(from, &mut rows).map_err(|error| error.in_store(dir))?;
    Ok(rows)
}

fn read_active(from: &Connection, rows: &mut ActiveRows) -> Result<i64, ReadError> {
    let ActiveRows { log_writer, users } = rows;
    log_writer.last = meta(from, "last")?;
    for row in session_rows(from, None)? {
        let SessionRow { id, user, first, state, sum } = row;
        log_writer.set_sum('s', id, sum);
        let session = state.started.envelope.session_id.clone();
        log_writer.live.insert(session, LiveSession { user, first, state });
        users.insert(user);
    }
    for row in active_question_rows(from, None)? {
        log_writer.set_sum('q', row.token.clone(), row.sum());
        users.insert(row.user);
    }
    for row in subscription_rows(from, None)? {
        log_writer.set_sum('u', row.id.clone(), row.sum());
        users.insert(row.user);
    }
    Ok(meta(from, "active")?)
}

/// The state of one user in the database.
#[derive(Debug, Default)]
pub(crate) struct UserState {
    pub(crate) restored: RecoveredState,
    pub(crate) points: BTreeMap<SubscriptionId, DeliveryPoint>,
    /// The number of the last record of any user.
    pub(crate) last: i64,
}

/// Reads the state of one user. Damaged rows are an error.
pub(crate) fn load_user(dir: &Path, from: &Connection, user: i64) -> Result<UserState, StoreError> {
    let wrong = |error: ReadError| error.in_store(dir);
    // One transaction, so that all reads see the same state.
    let transaction = from.unchecked_transaction().map_err(|error| wrong(error.into()))?;
    read_user(&transaction, user).map_err(wrong)
}

fn read_user(from: &Connection, user: i64) -> Result<UserState, ReadError> {
    let mut state = UserState { last: meta(from, "last")?, ..UserState::default() };
    let hole: Option<i64> = from.query_row("SELECT max(seq) FROM holes", [], |row| row.get(0))?;
    let mut live = Vec::new();
    for row in session_rows(from, Some(user))? {
        live.push(row.id);
        // Records of this session are missing.
        let broken = hole.is_some_and(|hole| hole > row.first);
        let restored = &mut state.restored;
        if broken { &mut restored.broken } else { &mut restored.sessions }.push(row.state);
    }
    for row in active_question_rows(from, Some(user))? {
        if row.state == OPEN {
            state.restored.questions.push(parse(&row.asked, "a question")?);
        }
    }
    for row in subscription_rows(from, Some(user))? {
        let subscriber: SubscriptionRecord = parse(&row.body, "a subscription")?;
        let point = DeliveryPoint { user, opened: row.opened, held: row.held, changed: row.changed };
        state.points.insert(subscriber.id.clone(), point);
        state.restored.subscriptions.push(subscriber);
    }
    read_settled(from, user, &live, &mut state.restored)?;
    Ok(state)
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

impl ReadError {
    fn in_store(self, dir: &Path) -> StoreError {
        match self {
            ReadError::Sql(error) => StoreError::sql(dir, &error),
            ReadError::Record(what) => {
                StoreError::Damaged(dir.to_owned(), format!("a record of {what} was changed or truncated"))
            }
        }
    }
}

fn meta(from: &Connection, key: &str) -> rusqlite::Result<i64> {
    from.query_row("SELECT value FROM meta WHERE key = ?", [key], |row| row.get(0))
}

/// Returns the condition that selects rows of one user, or of all of them.
fn of_user(user: Option<i64>) -> String {
    user.map_or_else(|| "1".to_owned(), |user| format!("user = {user}"))
}

struct SessionRow {
    id: String,
    user: i64,
    first: i64,
    state: SessionSnapshot,
    sum: i64,
}

fn session_rows(from: &Connection, user: Option<i64>) -> Result<Vec<SessionRow>, ReadError> {
    let sql = format!("SELECT id, first, body, sum, user FROM sessions WHERE {}", of_user(user));
    let mut select = from.prepare(&sql)?;
    let rows = select.query_map([], |row| {
        let texts = (row.get::<_, String>(0)?, row.get::<_, String>(2)?);
        Ok((texts, row.get::<_, i64>(1)?, row.get::<_, i64>(3)?, row.get::<_, i64>(4)?))
    })?;
    let parse_row = |row: rusqlite::Result<_>| {
        let ((id, body), first, sum, user): ((String, String), i64, i64, i64) = row?;
        if users::checksum_of(user, &[first], &[&id, &body]) != sum {
            return Err(ReadError::Record("a session"));
        }
        let state = parse(&body, "a session")?;
        Ok(SessionRow { id, user, first, state, sum })
    };
    rows.map(parse_row).collect()
}

/// Returns the questions that are open, or whose permit was not used.
fn active_question_rows(from: &Connection, user: Option<i64>) -> Result<Vec<QuestionRow>, ReadError> {
    let (columns, of_user) = (QuestionRow::COLUMNS, of_user(user));
    let sql = format!("SELECT {columns} FROM questions WHERE state IN ({OPEN}, {PERMITTED}) AND {of_user}");
    let mut select = from.prepare(&sql)?;
    let rows = select.query_map([], QuestionRow::read)?;
    rows.map(|row| row?.ok_or(ReadError::Record("a question"))).collect()
}

fn subscription_rows(from: &Connection, user: Option<i64>) -> Result<Vec<SubscriptionRow>, ReadError> {
    let sql = format!("SELECT {} FROM subscriptions WHERE {}", SubscriptionRow::COLUMNS, of_user(user));
    let mut select = from.prepare(&sql)?;
    let rows = select.query_map([], SubscriptionRow::read)?;
    let check = |row: rusqlite::Result<(SubscriptionRow, i64)>| {
        let (row, sum) = row?;
        if row.sum() == sum { Ok(row) } else { Err(ReadError::Record("a subscription")) }
    };
    rows.map(check).collect()
}

/// Reads the resolved questions of live sessions, for agents that ask again, and the most recently used tokens.
fn read_settled(from: &Connection, user: i64, live: &[String], restored: &mut RecoveredState) -> Result<(), ReadError> {
    let sql = format!("SELECT {} FROM questions WHERE session = ? AND state <> {OPEN}", QuestionRow::COLUMNS);
    let mut select = from.prepare(&sql)?;
    for session in live {
        for row in select.query_map([session], QuestionRow::read)? {
            let row = row?.ok_or(ReadError::Record("a decision"))?;
            if row.asked.is_empty() {
                continue;
            }
            let asked: AskedQuestion = parse(&row.asked, "a question")?;
            let decided: ResolvedQuestion = parse(&row.decided, "a decision")?;
            let resolution = RecoveredResolution { asked, resolved: decided, permit_used: row.state == SPENT };
            restored.resolved.push(resolution);
        }
    }
    let sql =
        format!("SELECT token FROM questions WHERE user = ? AND state <> {OPEN} ORDER BY decided_at DESC LIMIT ?");
    let mut select = from.prepare(&sql)?;
    let params = params![user, limits::REPLY_TOKENS as i64];
    for token in select.query_map(params, |row| row.get::<_, String>(0))? {
        restored.spent.push(token?.parse::<ReplyToken>().map_err(|_| ReadError::Record("a decision"))?);
    }
    restored.spent.reverse();
    Ok(())
}

fn parse<'t, T: serde::Deserialize<'t>>(text: &'t str, what: &'static str) -> Result<T, ReadError> {
    serde_json::from_str(text).map_err(|_| ReadError::Record(what))
}
