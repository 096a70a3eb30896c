//! Writes journal entries as rows. The writer thread owns a [`LogWriter`], which knows all active rows, so that a commit
//! can store their total checksum.

use std::collections::{BTreeMap, BTreeSet};

use aaep_proto::confirm::AuditRecord;
use aaep_proto::engine::{
    AskedQuestion, JournalEntry, OutputFormat, ResolvedQuestion, SessionSnapshot, SubscriptionRecord,
};
use aaep_proto::id::{EventId, OutputId, ReplyToken, SessionId};
use aaep_proto::message::{CoreType, Decision, Event};
use rusqlite::{Connection, OptionalExtension, params};

use crate::calls;
use crate::schema::{ENDING, EVENT, FINISHED, OPEN, PERMITTED, SETTLED, SPENT, TEXT};
use crate::users;

/// An error while rows are written.
pub(crate) type WriteError = Box<dyn std::error::Error + Send + Sync>;

/// The active rows, as they are on the disk after the last commit.
#[derive(Debug, Default)]
pub(crate) struct LogWriter {
    /// The number of the last record.
    pub(crate) last: i64,
    /// Sessions that go on.
    pub(crate) live: BTreeMap<SessionId, LiveSession>,
    /// Checksums of all active rows, by table and key.
    sums: BTreeMap<(char, String), i64>,
    /// The sum of these checksums.
    total: i64,
    dirty: BTreeSet<SessionId>,
}

/// A session that goes on.
#[derive(Debug)]
pub(crate) struct LiveSession {
    pub(crate) user: i64,
    /// The number of its first record.
    pub(crate) first: i64,
    pub(crate) state: SessionSnapshot,
}

/// A record of the log that has no number yet.
struct NewRecord<'a> {
    user: i64,
    at: i64,
    kind: i64,
    session: &'a SessionId,
    output: Option<&'a OutputId>,
    position: i64,
    body: &'a str,
}

impl LogWriter {
    /// Returns the sum of the checksums of all active rows.
    pub(crate) fn total(&self) -> i64 {
        self.total
    }

    /// Sets the checksum of an active row.
    pub(crate) fn set_sum(&mut self, table: char, key: String, sum: i64) {
        let before = self.sums.insert((table, key), sum).unwrap_or(0);
        self.total = self.total.wrapping_sub(before).wrapping_add(sum);
    }

    /// Removes the checksum of a row that is no longer active.
    fn remove_sum(&mut self, table: char, key: String) {
        let before = self.sums.remove(&(table, key)).unwrap_or(0);
        self.total = self.total.wrapping_sub(before);
    }

    /// Returns the number of the next record.
    pub(crate) fn next(&mut self) -> i64 {
        self.last += 1;
        self.last
    }

    pub(crate) fn apply(
        &mut self,
        to: &Connection,
        user: i64,
        entry: &JournalEntry,
        at: i64,
    ) -> Result<(), WriteError> {
        match entry {
            JournalEntry::Event(event) => self.event(to, user, event, at),
            JournalEntry::Named(session, origin) => {
                self.change(session, |state| state.origin = Some(origin.clone()));
                Ok(())
            }
            JournalEntry::Opened(session, output, kind) => {
                self.change(session, |state| drop(state.outputs.insert(output.clone(), kind.clone())));
                Ok(())
            }
            JournalEntry::Text(session, output, position, text) => {
                let position = i64::try_from(*position)?;
                let record = NewRecord { user, at, kind: TEXT, session, output: Some(output), position, body: text };
                Ok(self.append(to, &record)?)
            }
            JournalEntry::Finished(session, output) => self.finish(to, user, at, session, output),
            JournalEntry::Asked(asked) => self.ask(to, user, asked),
            JournalEntry::Decided(decided) => self.decide(to, user, decided),
            JournalEntry::Spent(token, call) => {
                self.event(to, user, call, at)?;
                calls::begin(to, token, call)?;
                self.spend(to, token)
            }
            JournalEntry::Subscribed(subscriber) => self.subscribe(to, user, subscriber),
            JournalEntry::Held(id, held) => self.hold(to, id.as_str(), *held),
            JournalEntry::Unsubscribed(id) => {
                to.prepare_cached("DELETE FROM subscriptions WHERE id = ?")?.execute([id.as_str()])?;
                self.remove_sum('u', id.to_string());
                Ok(())
            }
            JournalEntry::Sent(event, reached) => self.sent(to, user, event, reached.as_ref()),
        }
    }

    /// Writes the sessions that the entries of a transaction changed, and the total checksum.
    pub(crate) fn write_checksums(&mut self, to: &Connection) -> Result<(), WriteError> {
        let sql = "INSERT INTO sessions(id, first, body, sum, user) VALUES(?, ?, ?, ?, ?)
            ON CONFLICT(id) DO UPDATE SET first = excluded.first, body = excluded.body, sum = excluded.sum";
        for id in std::mem::take(&mut self.dirty) {
            let Some(LiveSession { user, first, state }) = self.live.get(&id) else { continue };
            let body = serde_json::to_string(state)?;
            let sum = users::checksum_of(*user, &[*first], &[id.as_str(), &body]);
            to.prepare_cached(sql)?.execute(params![id.as_str(), first, body, sum, user])?;
            self.set_sum('s', id.to_string(), sum);
        }
        let mut meta = to.prepare_cached("UPDATE meta SET value = ? WHERE key = ?")?;
        meta.execute(params![self.last, "last"])?;
        meta.execute(params![self.total(), "active"])?;
        Ok(())
    }

    /// Records that entries are missing between the last record and the next one.
    pub(crate) fn record_gap(&mut self, to: &Connection) -> Result<(), WriteError> {
        let seq = self.next();
        to.execute("INSERT INTO holes VALUES(?)", [seq])?;
        Ok(())
    }

    /// Finishes the outputs that were open when the process ended.
    pub(crate) fn finish_outputs(&mut self, to: &Connection, at: i64) -> Result<(), WriteError> {
        let open: Vec<(i64, SessionId, OutputId)> = self
            .live
            .iter()
            .flat_map(|(id, live)| live.state.outputs.keys().map(|output| (live.user, id.clone(), output.clone())))
            .collect();
        open.iter().try_for_each(|(user, session, output)| self.finish(to, *user, at, session, output))
    }

    fn change(&mut self, session: &SessionId, change: impl FnOnce(&mut SessionSnapshot)) {
        if let Some(live) = self.live.get_mut(session) {
            change(&mut live.state);
            self.dirty.insert(session.clone());
        }
    }

    fn append(&mut self, to: &Connection, record: &NewRecord<'_>) -> rusqlite::Result<()> {
        let NewRecord { user, at, kind, session, output, position, body } = *record;
        let (seq, output) = (self.next(), output.map_or("", OutputId::as_str));
        let sum = users::checksum_of(user, &[seq, at, kind, position], &[session.as_str(), output, body]);
        let sql = "INSERT INTO log(seq, at, kind, session, output, position, body, sum, user)
            VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)";
        let mut insert = to.prepare_cached(sql)?;
        insert.execute(params![seq, at, kind, session.as_str(), output, position, body, sum, user])?;
        Ok(())
    }

    fn event(&mut self, to: &Connection, user: i64, event: &Event, at: i64) -> Result<(), WriteError> {
        calls::end(to, event)?;
        let session = &event.envelope.session_id;
        let ends = event.core_type().is_some_and(CoreType::is_terminal);
        let body = serde_json::to_string(event)?;
        let kind = if ends { ENDING } else { EVENT };
        self.append(to, &NewRecord { user, at, kind, session, output: None, position: 0, body: &body })?;
        if ends {
            self.end_permits(to, session)?;
            self.live.remove(session);
            to.prepare_cached("DELETE FROM sessions WHERE id = ?")?.execute([session.as_str()])?;
            self.remove_sum('s', session.to_string());
        } else if let Some(state) = SessionSnapshot::begin(event) {
            self.live.insert(session.clone(), LiveSession { user, first: self.last, state });
            self.dirty.insert(session.clone());
        } else {
            self.change(session, |state| state.observe(event));
        }
        Ok(())
    }

    fn finish(
        &mut self,
        to: &Connection,
        user: i64,
        at: i64,
        session: &SessionId,
        output: &OutputId,
    ) -> Result<(), WriteError> {
        let mut kind = None;
        self.change(session, |state| kind = state.outputs.remove(output));
        let kind = kind.unwrap_or_else(|| OutputFormat { content_type: "text/plain".to_owned(), language: None });
        let body = serde_json::to_string(&kind)?;
        let record = NewRecord { user, at, kind: FINISHED, session, output: Some(output), position: 0, body: &body };
        Ok(self.append(to, &record)?)
    }

    fn sent(
        &mut self,
        to: &Connection,
        user: i64,
        event: &EventId,
        reached: Option<&(OutputId, u64)>,
    ) -> Result<(), WriteError> {
        let seq = self.next();
        let (output, reached) = reached.map_or(("", 0), |(output, reached)| (output.as_str(), *reached));
        let reached = i64::try_from(reached)?;
        let sum = users::checksum_of(user, &[seq, reached], &[event.as_str(), output]);
        let sql = "INSERT INTO sent(seq, event, output, reached, sum, user) VALUES(?, ?, ?, ?, ?, ?)";
        to.prepare_cached(sql)?.execute(params![seq, event.as_str(), output, reached, sum, user])?;
        Ok(())
    }

    fn ask(&mut self, to: &Connection, user: i64, asked: &AskedQuestion) -> Result<(), WriteError> {
        let row = QuestionRow {
            user,
            token: asked.token.to_string(),
            session: asked.event.envelope.session_id.to_string(),
            state: OPEN,
            decided_at: 0,
            asked: serde_json::to_string(asked)?,
            decided: String::new(),
        };
        self.change(&asked.event.envelope.session_id, |state| state.ask(asked));
        self.put(to, &row)
    }

    fn decide(&mut self, to: &Connection, user: i64, decided: &ResolvedQuestion) -> Result<(), WriteError> {
        let AuditRecord { reply_token, session_id, decided_at, decision, .. } = &decided.record;
        let known = QuestionRow::get(to, reply_token.as_str())?;
        let row = QuestionRow {
            user,
            token: reply_token.to_string(),
            session: session_id.to_string(),
            state: if *decision == Some(Decision::Accept) { PERMITTED } else { SETTLED },
            decided_at: decided_at.millis(),
            // The question itself is not known if it could not be recorded when it was asked.
            asked: known.map_or_else(String::new, |row| row.asked),
            decided: serde_json::to_string(decided)?,
        };
        self.put(to, &row)
    }

    /// Ends the permits of a session, which cannot be used after it. The decisions stay for as long as any other.
    fn end_permits(&mut self, to: &Connection, session: &SessionId) -> Result<(), WriteError> {
        let sql = format!("SELECT {} FROM questions WHERE session = ? AND state = {PERMITTED}", QuestionRow::COLUMNS);
        let mut select = to.prepare_cached(&sql)?;
        let rows: Vec<Option<QuestionRow>> =
            select.query_map([session.as_str()], QuestionRow::read)?.collect::<Result<_, _>>()?;
        // A damaged row stays as it is, so that readers of decisions report it.
        rows.into_iter().flatten().try_for_each(|row| self.put(to, &QuestionRow { state: SETTLED, ..row }))
    }

    fn spend(&mut self, to: &Connection, token: &ReplyToken) -> Result<(), WriteError> {
        match QuestionRow::get(to, token.as_str())? {
            Some(row) => self.put(to, &QuestionRow { state: SPENT, ..row }),
            None => Err(format!("the question {token} is not on record").into()),
        }
    }

    fn put(&mut self, to: &Connection, row: &QuestionRow) -> Result<(), WriteError> {
        let sql = "INSERT INTO questions(token, session, state, decided_at, asked, decided, sum, user)
            VALUES(?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT(token) DO UPDATE SET
            state = excluded.state, decided_at = excluded.decided_at, asked = excluded.asked,
            decided = excluded.decided, sum = excluded.sum";
        let QuestionRow { user, token, session, state, decided_at, asked, decided } = row;
        let sum = row.sum();
        to.prepare_cached(sql)?.execute(params![token, session, state, decided_at, asked, decided, sum, user])?;
        if matches!(row.state, OPEN | PERMITTED) {
            self.set_sum('q', token.clone(), sum);
        } else {
            self.remove_sum('q', token.clone());
        }
        Ok(())
    }

    fn subscribe(&mut self, to: &Connection, user: i64, subscriber: &SubscriptionRecord) -> Result<(), WriteError> {
        let known = SubscriptionRow::get(to, subscriber.id.as_str())?;
        let row = SubscriptionRow {
            user,
            id: subscriber.id.to_string(),
            opened: known.as_ref().map_or(self.last, |row| row.opened),
            held: known.as_ref().is_some_and(|row| row.held),
            changed: known.as_ref().map_or(self.last, |row| row.changed),
            body: serde_json::to_string(subscriber)?,
        };
        self.put_subscription(to, &row)
    }

    fn hold(&mut self, to: &Connection, id: &str, held: bool) -> Result<(), WriteError> {
        match SubscriptionRow::get(to, id)? {
            Some(row) => self.put_subscription(to, &SubscriptionRow { held, changed: self.last, ..row }),
            None => Ok(()),
        }
    }

    fn put_subscription(&mut self, to: &Connection, row: &SubscriptionRow) -> Result<(), WriteError> {
        let sql = "INSERT INTO subscriptions(id, opened, held, changed, body, sum, user)
            VALUES(?, ?, ?, ?, ?, ?, ?) ON CONFLICT(id) DO UPDATE SET
            held = excluded.held, changed = excluded.changed, body = excluded.body, sum = excluded.sum";
        let SubscriptionRow { user, id, opened, held, changed, body } = row;
        let sum = row.sum();
        to.prepare_cached(sql)?.execute(params![id, opened, held, changed, body, sum, user])?;
        self.set_sum('u', id.clone(), sum);
        Ok(())
    }
}

/// A row of the table of questions.
#[derive(Debug)]
pub(crate) struct QuestionRow {
    pub(crate) user: i64,
    pub(crate) token: String,
    pub(crate) session: String,
    pub(crate) state: i64,
    pub(crate) decided_at: i64,
    pub(crate) asked: String,
    pub(crate) decided: String,
}

impl QuestionRow {
    pub(crate) const COLUMNS: &str = "token, session, state, decided_at, asked, decided, sum, user";

    pub(crate) fn sum(&self) -> i64 {
        let numbers = [self.state, self.decided_at];
        users::checksum_of(self.user, &numbers, &[&self.token, &self.session, &self.asked, &self.decided])
    }

    /// Reads a row. Returns `None` if its checksum is wrong.
    pub(crate) fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Option<QuestionRow>> {
        let found = QuestionRow {
            user: row.get(7)?,
            token: row.get(0)?,
            session: row.get(1)?,
            state: row.get(2)?,
            decided_at: row.get(3)?,
            asked: row.get(4)?,
            decided: row.get(5)?,
        };
        Ok((found.sum() == row.get::<_, i64>(6)?).then_some(found))
    }

    fn get(from: &Connection, token: &str) -> Result<Option<QuestionRow>, WriteError> {
        let sql = format!("SELECT {} FROM questions WHERE token = ?", QuestionRow::COLUMNS);
        let found = from.prepare_cached(&sql)?.query_row([token], QuestionRow::read).optional()?;
        match found {
            Some(None) => Err(format!("the record of the question {token} is damaged").into()),
            other => Ok(other.flatten()),
        }
    }
}

/// A row of the table of subscriptions.
#[derive(Debug)]
pub(crate) struct SubscriptionRow {
    pub(crate) user: i64,
    pub(crate) id: String,
    /// The last record when it began.
    pub(crate) opened: i64,
    /// Whether something waits for it.
    pub(crate) held: bool,
    /// The last record when that changed.
    pub(crate) changed: i64,
    pub(crate) body: String,
}

impl SubscriptionRow {
    pub(crate) const COLUMNS: &str = "id, opened, held, changed, body, sum, user";

    pub(crate) fn sum(&self) -> i64 {
        let numbers = [self.opened, i64::from(self.held), self.changed];
        users::checksum_of(self.user, &numbers, &[&self.id, &self.body])
    }

    pub(crate) fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<(SubscriptionRow, i64)> {
        let found = SubscriptionRow {
            user: row.get(6)?,
            id: row.get(0)?,
            opened: row.get(1)?,
            held: row.get(2)?,
            changed: row.get(3)?,
            body: row.get(4)?,
        };
        Ok((found, row.get(5)?))
    }

    fn get(from: &Connection, id: &str) -> rusqlite::Result<Option<SubscriptionRow>> {
        let sql = format!("SELECT {} FROM subscriptions WHERE id = ?", SubscriptionRow::COLUMNS);
        let mut select = from.prepare_cached(&sql)?;
        Ok(select.query_row([id], SubscriptionRow::read).optional()?.map(|(row, _)| row))
    }
}
