//! The writer thread. It writes all waiting records in one transaction, and syncs once for it.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use aaep::journal::{CommitCallback, JournalEntry, SeenEvent};
use rusqlite::Connection;

use crate::apply::{LogWriter, WriteError};
use crate::high_water::HighWaterFile;
use crate::retention::{self, Retention};
use crate::users::{self, UserNumbers};
use crate::{read, seen};

/// How long records are collected before they are written, if no caller waits for them.
const BATCH_WINDOW: Duration = Duration::from_millis(20);

/// How long after a failure the write is retried, if nothing else is recorded.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// How often old records are removed.
const RETENTION_INTERVAL: Duration = Duration::from_secs(60);

/// Records that may wait. A stalled disk must not fill the memory: more records are dropped, and the gap is recorded.
const MAX_WAITING_RECORDS: usize = 200_000;

/// A record of one user.
#[derive(Debug)]
pub(crate) struct UserEntry {
    user: i64,
    entry: JournalEntry,
}

/// Records that wait for the writer thread.
#[derive(Default)]
struct PendingWrites {
    entries: VecDeque<UserEntry>,
    done: Vec<CommitCallback>,
    /// Ids of events that agents sent, to be written after the entries.
    seen: Vec<(i64, SeenEvent)>,
    users: UserNumbers,
    /// Whether records were dropped.
    lost: bool,
    ended: bool,
}

/// The state that the writer thread and its callers share.
#[derive(Default)]
pub(crate) struct Shared {
    waiting: Mutex<PendingWrites>,
    news: Condvar,
    fails: AtomicBool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, PendingWrites> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_healthy(&self) -> bool {
        !self.fails.load(Ordering::Relaxed)
    }

    /// Creates the shared state of a store with these users.
    pub(crate) fn new(users: UserNumbers) -> Shared {
        Shared { waiting: Mutex::new(PendingWrites { users, ..PendingWrites::default() }), ..Shared::default() }
    }

    /// Returns the number of a user. A new user gets the next one.
    pub(crate) fn user_number(&self, name: &str) -> i64 {
        self.lock().users.number(name)
    }

    /// Returns the name of a user.
    pub(crate) fn user_name(&self, number: i64) -> Option<String> {
        self.lock().users.name(number).map(str::to_owned)
    }

    /// Waits until everything that was recorded before is committed. Returns whether it could be.
    pub(crate) fn wait_committed(&self) -> bool {
        let (committed_tx, committed) = std::sync::mpsc::channel();
        let report = move |committed| {
            // An error would mean that the receiver is gone, but it waits below.
            let _ = committed_tx.send(committed);
        };
        self.record(users::LOCAL, Vec::new(), Some(Box::new(report)));
        committed.recv().unwrap_or(false)
    }

    pub(crate) fn record(&self, user: i64, entries: Vec<JournalEntry>, done: Option<CommitCallback>) {
        let mut waiting = self.lock();
        if waiting.ended {
            drop(waiting);
            return done.into_iter().for_each(|done| done(false));
        }
        let first = waiting.entries.is_empty() || done.is_some();
        let room = waiting.entries.len() + entries.len() <= MAX_WAITING_RECORDS;
        if room || done.is_some() {
            waiting.entries.extend(entries.into_iter().map(|entry| UserEntry { user, entry }));
        } else {
            waiting.lost = true;
        }
        waiting.done.extend(done);
        drop(waiting);
        if first {
            self.news.notify_one();
        }
    }

    pub(crate) fn record_seen(&self, user: i64, seen: Vec<SeenEvent>) {
        let mut waiting = self.lock();
        // Without them a repeated event is emitted twice, which is better than running out of memory.
        if !waiting.ended && waiting.seen.len() + seen.len() <= MAX_WAITING_RECORDS {
            waiting.seen.extend(seen.into_iter().map(|seen| (user, seen)));
        }
        drop(waiting);
        self.news.notify_one();
    }

    pub(crate) fn end(&self) {
        self.lock().ended = true;
        self.news.notify_one();
    }
}

/// The state of the writer thread.
pub(crate) struct Writer {
    pub(crate) shared: Arc<Shared>,
    pub(crate) connection: Connection,
    pub(crate) log_writer: LogWriter,
    pub(crate) mark: HighWaterFile,
    pub(crate) retention: Retention,
    pub(crate) dir: PathBuf,
    /// Records that are not written yet.
    pub(crate) held: VecDeque<UserEntry>,
    /// Ids of events that are not written yet.
    pub(crate) seen: Vec<(i64, SeenEvent)>,
    /// Users whose row is not written yet.
    pub(crate) new_users: Vec<(i64, String)>,
    pub(crate) lost: bool,
}

impl Writer {
    /// Writes until the store is dropped.
    pub(crate) fn run(mut self) {
        let mut look = Instant::now();
        loop {
            let (done, ended) = self.gather(look);
            if !self.held.is_empty() || !self.seen.is_empty() || self.lost || !done.is_empty() {
                self.write(done);
            }
            if ended {
                return;
            }
            if Instant::now() >= look && self.shared.is_healthy() {
                let more = self.run_retention();
                look = Instant::now() + if more { BATCH_WINDOW } else { RETENTION_INTERVAL };
            }
        }
    }

    /// Waits for records, and for more of them within the batch window if no caller waits.
    fn gather(&mut self, look: Instant) -> (Vec<CommitCallback>, bool) {
        let shared = self.shared.clone();
        let mut waiting = shared.lock();
        let begun = Instant::now();
        let mut first = None;
        loop {
            let now = Instant::now();
            if !waiting.entries.is_empty() || !waiting.seen.is_empty() {
                first.get_or_insert(now);
            }
            let due = match first {
                _ if !self.held.is_empty() => begun + RETRY_INTERVAL,
                Some(first) => first + BATCH_WINDOW,
                None => look,
            };
            if now >= due || !waiting.done.is_empty() || waiting.ended {
                break;
            }
            waiting = shared.news.wait_timeout(waiting, due - now).unwrap_or_else(PoisonError::into_inner).0;
        }
        self.held.append(&mut waiting.entries);
        self.seen.append(&mut waiting.seen);
        self.new_users.append(&mut waiting.users.take_new());
        self.lost |= std::mem::take(&mut waiting.lost);
        (std::mem::take(&mut waiting.done), waiting.ended)
    }

    fn write(&mut self, done: Vec<CommitCallback>) {
        if self.held.is_empty() && self.seen.is_empty() && !self.lost {
            // Somebody waits for what was recorded before, and all of that is committed.
            return done.into_iter().for_each(|done| done(true));
        }
        let result = self.commit();
        let works = result.is_ok();
        if let Err(error) = result {
            self.roll_back(&*error);
        } else {
            self.held.clear();
            self.seen.clear();
            self.new_users.clear();
            self.lost = false;
            if self.shared.fails.swap(false, Ordering::Relaxed) {
                tracing::info!(dir = %self.dir.display(), "the store can be written again");
            }
        }
        done.into_iter().for_each(|done| done(works));
    }

    fn commit(&mut self) -> Result<(), WriteError> {
        let at = now();
        let transaction =
            rusqlite::Transaction::new_unchecked(&self.connection, rusqlite::TransactionBehavior::Immediate)?;
        users::write(&transaction, &self.new_users)?;
        if self.lost {
            self.log_writer.record_gap(&transaction)?;
        }
        for UserEntry { user, entry } in &self.held {
            self.log_writer.apply(&transaction, *user, entry, at)?;
        }
        if self.lost {
            // Where exactly records are missing is not known.
            self.log_writer.record_gap(&transaction)?;
        }
        for (user, seen) in &self.seen {
            seen::record(&mut self.log_writer, &transaction, *user, seen, at)?;
        }
        self.log_writer.write_checksums(&transaction)?;
        transaction.commit()?;
        // Optional: with an old value only a truncated log is not noticed.
        let _ = self.mark.set(u64::try_from(self.log_writer.last).unwrap_or(0));
        Ok(())
    }

    /// Handles a failed commit. Entries that a caller waits for are dropped, since the failure is reported to it; the others
    /// are retried.
    fn roll_back(&mut self, error: &(dyn std::error::Error + Send + Sync)) {
        if !self.shared.fails.swap(true, Ordering::Relaxed) {
            let dir = self.dir.display();
            tracing::error!(%dir, %error, "journal write failed; confirmations are rejected until storage recovers");
        }
        self.held.retain(|held| !held.entry.is_durable());
        if self.held.len() > MAX_WAITING_RECORDS {
            self.held.clear();
            self.lost = true;
        }
        if self.lost || self.seen.len() > MAX_WAITING_RECORDS {
            self.seen.clear();
        }
        // The log writer counted rows that were not committed.
        match read::load(&self.dir, &self.connection) {
            Ok(rows) => self.log_writer = rows.log_writer,
            Err(error) => tracing::error!(%error, "the store cannot be read either"),
        }
    }

    fn run_retention(&mut self) -> bool {
        let steps = retention::step(&self.connection, self.retention, now());
        match steps.and_then(|more| Ok(seen::delete_old(&self.connection, now())? || more)) {
            Ok(more) => more,
            Err(error) => {
                tracing::warn!(%error, "old records cannot be removed");
                false
            }
        }
    }
}

/// Returns the wall clock in milliseconds.
pub(crate) fn now() -> i64 {
    aaep_runtime::system_time().millis()
}
