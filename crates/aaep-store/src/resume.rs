//! Finds what a subscription missed before the restart: every event after the last one it received, or a gap. Whatever
//! cannot be determined exactly is reported as a gap.

use std::collections::BTreeMap;

use aaep::journal::{MissedEvents, ReplayItem};
use aaep_proto::engine::OutputFormat;
use aaep_proto::id::{EventId, OutputId, SessionId};
use rusqlite::{Connection, OptionalExtension, params};

use crate::read::DeliveryPoint;
use crate::schema::{ENDING, FINISHED, TEXT};
use crate::users;

/// With more missed records than this, a gap is reported.
const MAX_REPLAYED_RECORDS: i64 = 1024;

/// How many ends of sessions are sent after a gap.
const MAX_REPLAYED_ENDINGS: i64 = 64;

/// A record of the log.
struct LogRecord {
    kind: i64,
    session: SessionId,
    output: String,
    position: i64,
    body: String,
}

/// Returns what was missed up to a record. Errors of the database are reported as a gap.
pub(crate) fn missed(from: &Connection, point: DeliveryPoint, last: Option<&EventId>, until: i64) -> MissedEvents {
    let exact = last.and_then(|last| exact_events(from, point, last, until).ok().flatten());
    match exact {
        Some(past) => MissedEvents { items: past, gap: false },
        None => MissedEvents { items: endings(from, point, until).unwrap_or_default(), gap: true },
    }
}

/// Returns the condition that selects records of one user. The index of records by user leaves out the local user, who has
/// all records where there are no others.
fn of_user(user: i64) -> String {
    if user == users::LOCAL { format!("user = {user}") } else { format!("user = {user} AND user <> {}", users::LOCAL) }
}

fn exact_events(
    from: &Connection,
    point: DeliveryPoint,
    last: &EventId,
    until: i64,
) -> rusqlite::Result<Option<Vec<ReplayItem>>> {
    let sql =
        "SELECT seq, output, reached, sum FROM sent WHERE event = ? AND seq <= ? AND user = ? ORDER BY seq LIMIT 1";
    let sent = from.prepare_cached(sql)?.query_row(params![last.as_str(), until, point.user], |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?, row.get::<_, i64>(2)?, row.get::<_, i64>(3)?))
    });
    let Some((seq, output, reached, check)) = sent.optional()? else { return Ok(None) };
    let sound = users::checksum_of(point.user, &[seq, reached], &[last.as_str(), &output]) == check;
    // Events may have waited for the subscription when this one was sent.
    let all_before = !point.held && seq >= point.changed;
    let holes: bool =
        from.prepare_cached("SELECT EXISTS(SELECT 1 FROM holes WHERE seq >= ?)")?.query_row([seq], |row| row.get(0))?;
    if !sound || !all_before || holes {
        return Ok(None);
    }
    let Some(records) = records(from, point.user, seq, until)? else { return Ok(None) };
    let mut texts = OpenOutputs::default();
    if !output.is_empty() {
        let Some(rest) = unsent_text(from, point.user, &output, (reached, seq))? else { return Ok(None) };
        texts.known.insert(output, (reached, rest));
    }
    Ok(records
        .into_iter()
        .map(|record| texts.replay(record))
        .collect::<Option<Vec<_>>>()
        .map(|past| past.into_iter().flatten().collect()))
}

/// Returns the records after this one, or `None` if there are too many or one is damaged.
fn records(from: &Connection, user: i64, after: i64, until: i64) -> rusqlite::Result<Option<Vec<LogRecord>>> {
    let sql =
        format!("SELECT {LOG_COLUMNS} FROM log WHERE {} AND seq > ? AND seq <= ? ORDER BY seq LIMIT ?", of_user(user));
    let mut select = from.prepare(&sql)?;
    let rows = select.query_map(params![after, until, MAX_REPLAYED_RECORDS + 1], record)?;
    let records: Option<Vec<LogRecord>> = rows.collect::<rusqlite::Result<Vec<_>>>()?.into_iter().collect();
    Ok(records.filter(|records| records.len() as i64 <= MAX_REPLAYED_RECORDS))
}

const LOG_COLUMNS: &str = "seq, at, kind, session, output, position, body, sum, user";

fn record(row: &rusqlite::Row<'_>) -> rusqlite::Result<Option<LogRecord>> {
    let (seq, at, kind): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
    let (session, output, position): (String, String, i64) = (row.get(3)?, row.get(4)?, row.get(5)?);
    let (body, check): (String, i64) = (row.get(6)?, row.get(7)?);
    if users::checksum_of(row.get(8)?, &[seq, at, kind, position], &[&session, &output, &body]) != check {
        return Ok(None);
    }
    Ok(session.parse().ok().map(|session| LogRecord { kind, session, output, position, body }))
}

/// Returns the text of an output after position `reached` that was written before record `before`. Returns `None` if it
/// cannot be determined.
fn unsent_text(
    from: &Connection,
    user: i64,
    output: &str,
    (reached, before): (i64, i64),
) -> rusqlite::Result<Option<String>> {
    let sql = format!(
        "SELECT {LOG_COLUMNS} FROM log WHERE {} AND seq < ? AND seq > ? AND kind = ? AND output = ? ORDER BY seq DESC",
        of_user(user)
    );
    let mut select = from.prepare(&sql)?;
    let mut rows = select.query(params![before, before - 8 * MAX_REPLAYED_RECORDS, TEXT, output])?;
    let mut pieces: Vec<(i64, String)> = Vec::new();
    while let Some(row) = rows.next()? {
        let Some(piece) = record(row)? else { return Ok(None) };
        let end = piece.position + piece.body.chars().count() as i64;
        if end <= reached {
            break;
        }
        pieces.push((piece.position, piece.body));
    }
    let mut text = String::new();
    let mut at = reached;
    for (position, body) in pieces.into_iter().rev() {
        let Ok(skip) = usize::try_from(at - position) else { return Ok(None) };
        text.extend(body.chars().skip(skip));
        at = position + body.chars().count() as i64;
    }
    Ok(Some(text))
}

/// Outputs that are not finished at the current record: where the unsent text of each begins, and that text.
#[derive(Default)]
struct OpenOutputs {
    known: BTreeMap<String, (i64, String)>,
}

impl OpenOutputs {
    /// Returns what the subscriber gets for a record, if anything. The outer `None` means that it cannot be determined.
    fn replay(&mut self, record: LogRecord) -> Option<Option<ReplayItem>> {
        match record.kind {
            TEXT => {
                let fresh = (record.position == 0).then_some((0, String::new()));
                let known = match self.known.remove(&record.output) {
                    Some(known) => Some(known),
                    None => fresh,
                };
                let (start, mut text) = known?;
                // Text that was received already is skipped.
                let has = start + text.chars().count() as i64;
                let skip = usize::try_from(has - record.position).ok()?;
                text.extend(record.body.chars().skip(skip));
                self.known.insert(record.output, (start, text));
                Some(None)
            }
            FINISHED => {
                let (start, text) = self.known.remove(&record.output)?;
                let kind: OutputFormat = serde_json::from_str(&record.body).ok()?;
                let output: OutputId = record.output.parse().ok()?;
                let position = u64::try_from(start).ok()?;
                Some(Some(ReplayItem::Output { session: record.session, output, format: kind, position, text }))
            }
            _ => serde_json::from_str(&record.body).ok().map(|event| Some(ReplayItem::Event(Box::new(event)))),
        }
    }
}

fn endings(from: &Connection, point: DeliveryPoint, until: i64) -> rusqlite::Result<Vec<ReplayItem>> {
    let sql = format!(
        "SELECT {LOG_COLUMNS} FROM log WHERE kind = 3 AND {} AND seq > ? AND seq <= ? ORDER BY seq DESC LIMIT ?",
        of_user(point.user)
    );
    debug_assert_eq!(ENDING, 3, "the index is on this");
    let mut select = from.prepare(&sql)?;
    let rows = select.query_map(params![point.opened, until, MAX_REPLAYED_ENDINGS], record)?;
    let mut past: Vec<ReplayItem> = rows
        .filter_map(|row| serde_json::from_str(&row.ok()??.body).ok())
        .map(|event| ReplayItem::Event(Box::new(event)))
        .collect();
    past.reverse();
    Ok(past)
}
