//! The calls that permits were used for, and how each ended, so that readers of decisions can say what became of them.

use aaep_proto::id::ReplyToken;
use aaep_proto::message::{Event, Payload};
use rusqlite::{Connection, OptionalExtension, params};

use crate::checksum;

pub(crate) const TABLE: &str = "
CREATE TABLE IF NOT EXISTS calls(token TEXT PRIMARY KEY, session TEXT NOT NULL, call TEXT NOT NULL, status TEXT NOT NULL,
    sum INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS calls_of_session ON calls(session, call);
";

/// Records that the permit of a question was used for this call.
pub(crate) fn begin(to: &Connection, token: &ReplyToken, event: &Event) -> rusqlite::Result<()> {
    let Payload::ToolInvoked(tool) = &event.payload else { return Ok(()) };
    let call = tool.tool_call_id.as_ref().map_or(tool.tool.as_str(), |id| id.as_str());
    write(to, token.as_str(), event.envelope.session_id.as_str(), call, "")
}

/// Records how a call ended, if a permit was used for it.
pub(crate) fn end(to: &Connection, event: &Event) -> rusqlite::Result<()> {
    let Payload::ToolCompleted(tool) = &event.payload else { return Ok(()) };
    let call = tool.tool_call_id.as_ref().map_or(tool.tool.as_str(), |id| id.as_str());
    let session = event.envelope.session_id.as_str();
    let sql = "SELECT token FROM calls WHERE session = ? AND call = ? AND status = ''";
    let found = to.prepare_cached(sql)?.query_row(params![session, call], |row| row.get::<_, String>(0)).optional()?;
    match found {
        Some(token) => write(to, &token, session, call, tool.status.as_str()),
        None => Ok(()),
    }
}

fn write(to: &Connection, token: &str, session: &str, call: &str, status: &str) -> rusqlite::Result<()> {
    let sum = checksum::row(&[], &[token, session, call, status]);
    let sql = "INSERT INTO calls VALUES(?, ?, ?, ?, ?) ON CONFLICT(token) DO UPDATE SET
        session = excluded.session, call = excluded.call, status = excluded.status, sum = excluded.sum";
    to.prepare_cached(sql)?.execute(params![token, session, call, status, sum])?;
    Ok(())
}

/// Deletes the calls whose decisions were deleted.
pub(crate) fn delete_old(connection: &Connection) -> rusqlite::Result<()> {
    let sql = "DELETE FROM calls WHERE NOT EXISTS (SELECT 1 FROM questions WHERE questions.token = calls.token)";
    connection.prepare_cached(sql)?.execute([])?;
    Ok(())
}

/// Returns how the call that a permit was used for ended. `None` if that is not recorded, or if the record is damaged.
pub(crate) fn status(from: &Connection, token: &str) -> rusqlite::Result<Option<String>> {
    // A store of an earlier version has no such table until a server opens it.
    let has_table = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'calls'";
    if from.prepare_cached(has_table)?.query_row([], |_| Ok(())).optional()?.is_none() {
        return Ok(None);
    }
    let mut select = from.prepare_cached("SELECT session, call, status, sum FROM calls WHERE token = ?")?;
    let found = select.query_row([token], |row| {
        let (session, call, status): (String, String, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let is_intact = checksum::row(&[], &[token, &session, &call, &status]) == row.get::<_, i64>(3)?;
        Ok((is_intact && !status.is_empty()).then_some(status))
    });
    Ok(found.optional()?.flatten())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]
mod tests {
    use super::*;

    fn event(kind: &str, fields: &str) -> Event {
        let text = format!(
            r#"{{"@context":"https://aaep-protocol.org/context/v1","type":"aaep:agent.tool.{kind}","event_id":"evt_1",
            "session_id":"sess_1","timestamp":"2026-05-24T14:22:13Z","producer":{{"agent_id":"a"}},"tool":"transfer"{fields}}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn a_call_has_a_status_when_its_tool_completed() {
        let connection = Connection::open_in_memory().unwrap();
        let status = |token: &str| status(&connection, token).unwrap();
        assert_eq!(status("rpl_1"), None, "a store of an earlier version");
        connection.execute_batch(TABLE).unwrap();
        let token: ReplyToken = "rpl_1".parse().unwrap();
        let invoked = event("invoked", r#","tool_call_id":"call_1","summary_normal":"Moving.""#);
        begin(&connection, &token, &invoked).unwrap();
        end(&connection, &event("completed", r#","tool_call_id":"call_2","status":"success""#)).unwrap();
        assert_eq!(status("rpl_1"), None, "another call completed");
        end(&connection, &event("completed", r#","tool_call_id":"call_1","status":"success""#)).unwrap();
        end(&connection, &event("completed", r#","tool_call_id":"call_1","status":"error""#)).unwrap();
        assert_eq!(status("rpl_1").as_deref(), Some("success"), "the first end counts");
        connection.execute("UPDATE calls SET status = 'error'", []).unwrap();
        assert_eq!(status("rpl_1"), None, "a damaged record says nothing");
    }
}
