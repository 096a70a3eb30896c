//! Names of events that agents sent, for a while: an event that is sent again after a restart is not emitted twice.

use aaep::journal::SeenEvent;
use rusqlite::{Connection, params};

use crate::apply::LogWriter;
use crate::checksum;

pub(crate) const TABLE: &str = "
CREATE TABLE IF NOT EXISTS heard(seq INTEGER PRIMARY KEY, at INTEGER NOT NULL, agent TEXT NOT NULL, event TEXT NOT NULL,
    content TEXT NOT NULL, session TEXT NOT NULL, sum INTEGER NOT NULL);
CREATE INDEX IF NOT EXISTS heard_of_agent ON heard(agent, seq);
";

/// How long a name is kept. Whoever sends an event again does so soon.
const KEPT_MILLIS: i64 = 3_600_000;

/// Names that are kept of all agents, and of one agent at a start.
const KEPT: i64 = 100_000;
const OF_ONE_AGENT: i64 = 8192;

/// Names that go in one step.
const STEP: i64 = 2000;

/// Adds a name, after the records of its event.
pub(crate) fn keep(log_writer: &mut LogWriter, to: &Connection, heard: &SeenEvent, at: i64) -> rusqlite::Result<()> {
    let seq = log_writer.next();
    let SeenEvent { agent, event_id, content, session_id } = heard;
    let sum = checksum::row(&[seq, at], &[agent, event_id, content, session_id]);
    let mut insert = to.prepare_cached("INSERT INTO heard VALUES(?, ?, ?, ?, ?, ?, ?)")?;
    insert.execute(params![seq, at, agent, event_id, content, session_id, sum])?;
    Ok(())
}

/// The newest names of an agent up to this record, the oldest first. A damaged one is left out.
pub(crate) fn of_agent(from: &Connection, agent: &str, until: i64, now: i64) -> rusqlite::Result<Vec<SeenEvent>> {
    let sql = "SELECT seq, at, event, content, session, sum FROM heard
        WHERE agent = ? AND seq <= ? AND at > ? ORDER BY seq DESC LIMIT ?";
    let mut select = from.prepare(sql)?;
    let rows = select.query_map(params![agent, until, now - KEPT_MILLIS, OF_ONE_AGENT], |row| {
        let (seq, at): (i64, i64) = (row.get(0)?, row.get(1)?);
        let heard =
            SeenEvent { agent: agent.to_owned(), event_id: row.get(2)?, content: row.get(3)?, session_id: row.get(4)? };
        let sum = checksum::row(&[seq, at], &[agent, &heard.event_id, &heard.content, &heard.session_id]);
        Ok((sum == row.get::<_, i64>(5)?).then_some(heard))
    })?;
    let mut found: Vec<SeenEvent> = rows.filter_map(Result::transpose).collect::<Result<_, _>>()?;
    found.reverse();
    Ok(found)
}

/// Removes old names, a few at a time; answers whether there are more.
pub(crate) fn step(connection: &Connection, now: i64) -> rusqlite::Result<bool> {
    let bounds = connection.query_row("SELECT min(seq), max(seq) FROM heard", [], |row| {
        Ok(row.get::<_, Option<i64>>(0)?.zip(row.get::<_, Option<i64>>(1)?))
    })?;
    let Some((first, last)) = bounds else { return Ok(false) };
    let mut delete = connection.prepare_cached("DELETE FROM heard WHERE seq < ? AND (at < ? OR seq < ?)")?;
    let gone = delete.execute(params![first + STEP, now - KEPT_MILLIS, last - KEPT])?;
    Ok(gone > 0)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]
mod tests {
    use super::*;

    fn heard(agent: &str, event: i64) -> SeenEvent {
        let (event_id, content) = (format!("evt_{event}"), format!("digest {event}"));
        SeenEvent { agent: agent.to_owned(), event_id, content, session_id: "sess_1".to_owned() }
    }

    #[test]
    fn names_are_found_by_agent_and_go_after_a_while() {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(TABLE).unwrap();
        let mut log_writer = LogWriter::default();
        for event in 0..10 {
            keep(&mut log_writer, &connection, &heard(if event < 5 { "ada" } else { "eve" }, event), event).unwrap();
        }
        let of = |agent, until, now| of_agent(&connection, agent, until, now).unwrap();
        assert_eq!(of("ada", 100, 10), (0..5).map(|event| heard("ada", event)).collect::<Vec<_>>());
        assert_eq!(of("ada", 3, 10).len(), 3, "those after the restart are not of before it");
        assert!(of("bob", 100, 10).is_empty());
        assert_eq!(of("ada", 100, KEPT_MILLIS + 2).len(), 2);
        connection.execute("UPDATE heard SET event = 'evt_99' WHERE seq = 1", []).unwrap();
        assert_eq!(of("ada", 100, 10).len(), 4, "a changed one is left out");
        assert!(!step(&connection, 10).unwrap());
        assert!(step(&connection, KEPT_MILLIS + 7).unwrap());
        assert_eq!(of("ada", 100, 10).len() + of("eve", 100, 10).len(), 3);
        let large = log_writer.last + KEPT + 1;
        log_writer.last = large;
        keep(&mut log_writer, &connection, &heard("bob", 1), KEPT_MILLIS + 7).unwrap();
        step(&connection, 10).unwrap();
        assert_eq!((of("eve", 200_000, 10).len(), of("bob", 200_000, 10).len()), (0, 1), "the oldest go");
    }
}
