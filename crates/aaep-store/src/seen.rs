//! Ids of events that agents sent recently, so that an event that is sent again after a restart is not emitted twice.

use aaep::journal::SeenEvent;
use rusqlite::{Connection, params};

use crate::apply::LogWriter;
use crate::users;

pub(crate) const TABLE: &str = "
CREATE TABLE IF NOT EXISTS heard(seq INTEGER PRIMARY KEY, at INTEGER NOT NULL, agent TEXT NOT NULL, event TEXT NOT NULL,
    content TEXT NOT NULL, session TEXT NOT NULL, sum INTEGER NOT NULL);
CREATE INDEX IF NOT EXISTS heard_of_agent ON heard(agent, seq);
";

/// How long an id is kept. Agents repeat events soon or not at all.
const MAX_AGE_MS: i64 = 3_600_000;

/// How many ids of all agents are kept.
const MAX_IDS: i64 = 100_000;
/// How many ids of one agent are read after a restart.
const MAX_IDS_PER_AGENT: i64 = 8192;

/// How many ids are deleted in one step.
const MAX_DELETED_IDS: i64 = 2000;

/// Records an id. The records of its event must come first.
pub(crate) fn record(
    log_writer: &mut LogWriter,
    to: &Connection,
    user: i64,
    seen: &SeenEvent,
    at: i64,
) -> rusqlite::Result<()> {
    let seq = log_writer.next();
    let SeenEvent { agent, event_id, content, session_id } = seen;
    let sum = users::checksum_of(user, &[seq, at], &[agent, event_id, content, session_id]);
    let sql = "INSERT INTO heard(seq, at, agent, event, content, session, sum, user) VALUES(?, ?, ?, ?, ?, ?, ?, ?)";
    to.prepare_cached(sql)?.execute(params![seq, at, agent, event_id, content, session_id, sum, user])?;
    Ok(())
}

/// Returns the newest ids of an agent up to record `until`, oldest first. Skips damaged ones.
pub(crate) fn of_agent(from: &Connection, agent: &str, until: i64, now: i64) -> rusqlite::Result<Vec<SeenEvent>> {
    let sql = "SELECT seq, at, event, content, session, sum, user FROM heard
        WHERE agent = ? AND seq <= ? AND at > ? ORDER BY seq DESC LIMIT ?";
    let mut select = from.prepare(sql)?;
    let rows = select.query_map(params![agent, until, now - MAX_AGE_MS, MAX_IDS_PER_AGENT], |row| {
        let (seq, at): (i64, i64) = (row.get(0)?, row.get(1)?);
        let seen =
            SeenEvent { agent: agent.to_owned(), event_id: row.get(2)?, content: row.get(3)?, session_id: row.get(4)? };
        let sum =
            users::checksum_of(row.get(6)?, &[seq, at], &[agent, &seen.event_id, &seen.content, &seen.session_id]);
        Ok((sum == row.get::<_, i64>(5)?).then_some(seen))
    })?;
    let mut found: Vec<SeenEvent> = rows.filter_map(Result::transpose).collect::<Result<_, _>>()?;
    found.reverse();
    Ok(found)
}

/// Deletes old ids in one step. Returns whether any were deleted.
pub(crate) fn delete_old(connection: &Connection, now: i64) -> rusqlite::Result<bool> {
    let bounds = connection.query_row("SELECT min(seq), max(seq) FROM heard", [], |row| {
        Ok(row.get::<_, Option<i64>>(0)?.zip(row.get::<_, Option<i64>>(1)?))
    })?;
    let Some((first, last)) = bounds else { return Ok(false) };
    let mut delete = connection.prepare_cached("DELETE FROM heard WHERE seq < ? AND (at < ? OR seq < ?)")?;
    let deleted = delete.execute(params![first + MAX_DELETED_IDS, now - MAX_AGE_MS, last - MAX_IDS])?;
    Ok(deleted > 0)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]
mod tests {
    use super::*;

    fn seen(agent: &str, event: i64) -> SeenEvent {
        let (event_id, content) = (format!("evt_{event}"), format!("digest {event}"));
        SeenEvent { agent: agent.to_owned(), event_id, content, session_id: "sess_1".to_owned() }
    }

    #[test]
    fn ids_are_found_by_agent_and_deleted_by_age_and_count() {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(TABLE).unwrap();
        connection.execute_batch("ALTER TABLE heard ADD COLUMN user INTEGER NOT NULL DEFAULT 1").unwrap();
        let mut log_writer = LogWriter::default();
        for event in 0..10 {
            record(
                &mut log_writer,
                &connection,
                users::LOCAL,
                &seen(if event < 5 { "ada" } else { "eve" }, event),
                event,
            )
            .unwrap();
        }
        let of = |agent, until, now| of_agent(&connection, agent, until, now).unwrap();
        assert_eq!(of("ada", 100, 10), (0..5).map(|event| seen("ada", event)).collect::<Vec<_>>());
        assert_eq!(of("ada", 3, 10).len(), 3, "ids recorded after the restart are not returned");
        assert!(of("bob", 100, 10).is_empty());
        assert_eq!(of("ada", 100, MAX_AGE_MS + 2).len(), 2);
        connection.execute("UPDATE heard SET event = 'evt_99' WHERE seq = 1", []).unwrap();
        assert_eq!(of("ada", 100, 10).len(), 4, "a damaged id is skipped");
        assert!(!delete_old(&connection, 10).unwrap());
        assert!(delete_old(&connection, MAX_AGE_MS + 7).unwrap());
        assert_eq!(of("ada", 100, 10).len() + of("eve", 100, 10).len(), 3);
        let large = log_writer.last + MAX_IDS + 1;
        log_writer.last = large;
        record(&mut log_writer, &connection, users::LOCAL, &seen("bob", 1), MAX_AGE_MS + 7).unwrap();
        delete_old(&connection, 10).unwrap();
        assert_eq!((of("eve", 200_000, 10).len(), of("bob", 200_000, 10).len()), (0, 1), "the oldest are deleted");
    }
}
