//! Retention: old records are deleted in small steps between commits, so that no caller waits for it.

use rusqlite::{Connection, OptionalExtension, params};

use crate::calls;

/// How long and how much the store keeps.
///
/// ```
/// assert_eq!(aaep_store::Retention::default().days, 30);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Days that events and decisions are kept. Questions that are open, and permits that can still be used, stay.
    pub days: u32,
    /// Bytes that the store may use. With more, the oldest events are deleted; decisions stay.
    pub bytes: u64,
}

impl Default for Retention {
    fn default() -> Retention {
        Retention { days: 30, bytes: 4 << 30 }
    }
}

/// Records that are deleted in one step.
const MAX_DELETED_PER_STEP: i64 = 2000;

/// Pages that are freed in one step.
const MAX_FREED_PAGES: i64 = 64;

const DAY_MILLIS: i64 = 86_400_000;

/// Deletes old records in one step. Returns whether there is more to do.
pub(crate) fn step(connection: &Connection, retention: Retention, now: i64) -> rusqlite::Result<bool> {
    let cutoff = now - i64::from(retention.days).saturating_mul(DAY_MILLIS);
    let oldest = connection
        .prepare_cached("SELECT seq, at FROM log ORDER BY seq LIMIT 1")?
        .query_row([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))
        .optional()?;
    let too_much = used(connection)? > retention.bytes;
    let mut more = false;
    if let Some((seq, at)) = oldest
        && (too_much || at < cutoff)
    {
        let until = seq + MAX_DELETED_PER_STEP;
        let cutoff = if too_much { i64::MAX } else { cutoff };
        let transaction = connection.unchecked_transaction()?;
        let gone =
            transaction.prepare_cached("DELETE FROM log WHERE seq < ? AND at < ?")?.execute(params![until, cutoff])?;
        // A resume point is of use only as long as everything after it is there.
        let first: Option<i64> = transaction.query_row("SELECT min(seq) FROM log", [], |row| row.get(0))?;
        let first = first.unwrap_or(until).min(until);
        transaction.prepare_cached("DELETE FROM sent WHERE seq < ?")?.execute([first])?;
        transaction.commit()?;
        more = gone > 0;
    }
    let old = "DELETE FROM questions WHERE token IN (SELECT token FROM questions INDEXED BY decided_questions
        WHERE state <> 0 AND state <> 2 AND decided_at < ? ORDER BY decided_at LIMIT ?)";
    let gone = connection.prepare_cached(old)?.execute(params![cutoff, MAX_DELETED_PER_STEP])?;
    if gone > 0 {
        calls::delete_old(connection)?;
    }
    let free: i64 = connection.pragma_query_value(None, "freelist_count", |row| row.get(0))?;
    if free > MAX_FREED_PAGES {
        free_pages(connection)?;
        more = true;
    }
    Ok(more || gone as i64 == MAX_DELETED_PER_STEP)
}

/// Frees pages of the database file. Each step of the statement frees one.
fn free_pages(connection: &Connection) -> rusqlite::Result<()> {
    let mut vacuum = connection.prepare(&format!("PRAGMA incremental_vacuum({MAX_FREED_PAGES})"))?;
    let mut rows = vacuum.query([])?;
    while rows.next()?.is_some() {}
    drop(rows);
    // The file gets smaller when the log is written back.
    connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))
}

/// Returns how many bytes the store uses.
pub(crate) fn used(connection: &Connection) -> rusqlite::Result<u64> {
    let number = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let pages = number("page_count")? - number("freelist_count")?;
    Ok(u64::try_from(pages * number("page_size")?).unwrap_or(0))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]
mod tests {
    use aaep_proto::engine::JournalEntry;
    use aaep_proto::id::EventId;
    use serde_json::{Value, json};

    use super::*;
    use crate::apply::LogWriter;
    use crate::read::{self, DeliveryPoint};
    use crate::{resume, schema, users};

    /// A store with a clock that the test sets.
    struct World {
        dir: tempfile::TempDir,
        connection: Connection,
        log_writer: LogWriter,
        count: u32,
    }

    impl World {
        fn new() -> World {
            let dir = tempfile::tempdir().unwrap();
            let connection = schema::open(dir.path(), crate::completeness::DirectoryContents::Nothing).unwrap();
            World { dir, connection, log_writer: LogWriter::default(), count: 0 }
        }

        fn keep(&mut self, day: i64, entry: &JournalEntry) {
            self.log_writer.apply(&self.connection, users::LOCAL, entry, day * DAY_MILLIS).unwrap();
            self.log_writer.write_checksums(&self.connection).unwrap();
        }

        /// Records an event of a session and that it was sent.
        fn say(&mut self, day: i64, session: &str, mut event: Value) -> EventId {
            self.count += 1;
            let id: EventId = format!("evt_{}", self.count).parse().unwrap();
            let envelope = json!({"@context": "https://aaep-protocol.org/context/v1", "event_id": id,
                "session_id": session, "timestamp": "2026-05-24T14:22:13Z", "producer": {"agent_id": "a"}});
            event.as_object_mut().unwrap().extend(envelope.as_object().unwrap().clone());
            self.keep(day, &JournalEntry::Event(Box::new(serde_json::from_value(event).unwrap())));
            self.keep(day, &JournalEntry::Sent(id.clone(), None));
            id
        }

        fn start(&mut self, day: i64, session: &str) -> EventId {
            self.say(day, session, json!({"type": "aaep:agent.session.started", "summary_normal": "Working."}))
        }

        fn step_on(&mut self, day: i64, session: &str) -> EventId {
            self.say(day, session, json!({"type": "aaep:agent.progress.updated", "progress": {"step": 1}}))
        }

        fn end(&mut self, day: i64, session: &str) {
            self.say(day, session, json!({"type": "aaep:agent.session.completed", "summary_normal": "Done."}));
        }

        fn ask(&mut self, day: i64, session: &str, token: &str) {
            let asked = json!({"token": token, "asked_at": time(day), "deadline": time(day), "call": null,
                "takes_modified": false, "origin": null, "event": {
                "@context": "https://aaep-protocol.org/context/v1", "type": "aaep:agent.awaiting.confirmation",
                "event_id": "evt_asked", "session_id": session, "timestamp": time(day), "producer": {"agent_id": "a"},
                "action": "Dig.", "consequence": "A hole.", "reply_token": token, "timeout_seconds": 60,
                "default_decision": "reject"}});
            self.keep(day, &JournalEntry::Asked(Box::new(serde_json::from_value(asked).unwrap())));
        }

        fn decide(&mut self, day: i64, session: &str, token: &str, decision: &str) {
            let resolution = if decision == "accept" { "accepted" } else { "rejected" };
            let decided = json!({"record": {"reply_token": token, "session_id": session, "asked_at": time(day),
                "decided_at": time(day), "verdict": resolution, "decision": decision, "principal": "user",
                "decided_by": null, "subscription_id": null, "shown": "Dig.", "consequence": "A hole.", "call": null},
                "modified": null, "response": null});
            self.keep(day, &JournalEntry::Decided(Box::new(serde_json::from_value(decided).unwrap())));
        }

        fn run_retention(&mut self, day: i64, retention: Retention) {
            let mut steps = 0;
            while step(&self.connection, retention, day * DAY_MILLIS).unwrap() {
                steps += 1;
                assert!(steps < 1000, "it does not come to an end");
            }
        }

        fn sessions_in_log(&self) -> Vec<String> {
            self.column("SELECT DISTINCT session FROM log ORDER BY session")
        }

        fn questions(&self) -> Vec<String> {
            self.column("SELECT token FROM questions ORDER BY token")
        }

        fn column(&self, sql: &str) -> Vec<String> {
            let mut select = self.connection.prepare(sql).unwrap();
            select.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
        }

        /// Returns whether a subscription that is as old as the store, and received this event last, can be sent everything
        /// after it.
        fn knows_all_since(&self, last: &EventId) -> bool {
            let point = DeliveryPoint { user: users::LOCAL, opened: 0, held: false, changed: 0 };
            !resume::missed(&self.connection, point, Some(last), self.log_writer.last).gap
        }

        /// Checks that the checksums match and that opening the store would read the same state.
        fn is_sound(&self) {
            let start = read::load(self.dir.path(), &self.connection).unwrap();
            assert_eq!(start.log_writer.total(), self.log_writer.total());
        }
    }

    fn time(day: i64) -> String {
        aaep_proto::time::Timestamp::from_millis(day * DAY_MILLIS).to_string()
    }

    const MONTH: Retention = Retention { days: 30, bytes: u64::MAX };

    #[test]
    fn what_is_old_goes_and_what_is_recent_stays() {
        let mut world = World::new();
        let first = world.start(0, "sess_old");
        world.end(1, "sess_old");
        world.start(2, "sess_long");
        let late = world.step_on(29, "sess_long");
        world.start(30, "sess_new");
        world.run_retention(30, MONTH);
        assert!(world.knows_all_since(&first), "nothing is older than thirty days");
        world.run_retention(31, MONTH);
        assert!(!world.knows_all_since(&first), "what came after it is not all there any more");
        assert!(world.knows_all_since(&late));
        assert_eq!(world.sessions_in_log(), ["sess_long", "sess_new", "sess_old"], "its end is a day younger");
        world.run_retention(33, MONTH);
        assert_eq!(world.sessions_in_log(), ["sess_long", "sess_new"]);
        assert!(world.knows_all_since(&late));
        // A live session does not need its history to continue.
        world.run_retention(90, MONTH);
        assert!(world.sessions_in_log().is_empty() && !world.knows_all_since(&late));
        let live = read::load_user(world.dir.path(), &world.connection, users::LOCAL).unwrap().restored.sessions;
        assert_eq!(live.len(), 2);
        world.is_sound();
    }

    #[test]
    fn decisions_go_by_their_age_and_open_questions_never() {
        let mut world = World::new();
        world.start(0, "sess_live");
        world.start(0, "sess_ended");
        for (session, token) in [("sess_live", "rpl_live"), ("sess_ended", "rpl_ended")] {
            world.ask(0, session, &format!("{token}Open"));
            world.ask(0, session, &format!("{token}No"));
            world.decide(0, session, &format!("{token}No"), "reject");
            world.ask(0, session, &format!("{token}Yes"));
            world.decide(0, session, &format!("{token}Yes"), "accept");
        }
        world.ask(20, "sess_live", "rpl_late");
        world.decide(20, "sess_live", "rpl_late", "reject");
        world.decide(0, "sess_ended", "rpl_endedOpen", "reject");
        world.end(0, "sess_ended");
        world.is_sound();
        world.run_retention(30, Retention { days: 30, bytes: 0 });
        assert_eq!(world.questions().len(), 7, "how much there is does not count for decisions");
        assert!(world.sessions_in_log().is_empty(), "for events it does");
        world.run_retention(31, MONTH);
        // An accepted question whose permit was not used stays for as long as the permit can be used.
        assert_eq!(world.questions(), ["rpl_late", "rpl_liveOpen", "rpl_liveYes"]);
        world.is_sound();
        world.run_retention(51, MONTH);
        assert_eq!(world.questions(), ["rpl_liveOpen", "rpl_liveYes"]);
        world.end(52, "sess_live");
        world.run_retention(1000, MONTH);
        assert_eq!(world.questions(), ["rpl_liveOpen"], "only an answer ends a question");
        world.is_sound();
    }

    #[test]
    fn when_there_is_too_much_the_oldest_go_first() {
        let mut world = World::new();
        world.connection.execute_batch("BEGIN").unwrap();
        let words = "word ".repeat(100);
        for n in 0..40 {
            world.start(0, &format!("sess_{n:02}"));
            for _ in 0..200 {
                let step = json!({"type": "aaep:agent.progress.updated", "progress": {"description": words}});
                world.say(0, &format!("sess_{n:02}"), step);
            }
        }
        world.connection.execute_batch("COMMIT").unwrap();
        let all = used(&world.connection).unwrap();
        let half = Retention { days: 30, bytes: all / 2 };
        world.run_retention(0, half);
        let left = world.sessions_in_log();
        assert!(!left.is_empty() && left.len() < 40, "{left:?}");
        assert_eq!(left.last().map(String::as_str), Some("sess_39"));
        let first: usize = left[0].trim_start_matches("sess_").parse().unwrap();
        assert_eq!(left.len(), 40 - first, "without a gap");
        assert!(used(&world.connection).unwrap() <= half.bytes);
        world.is_sound();
    }
}
