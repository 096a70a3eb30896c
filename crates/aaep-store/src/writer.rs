//! The thread that writes. It takes all that waits into one transaction, and syncs once for it.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use aaep::journal::{CommitCallback, JournalEntry, SeenEvent};
use rusqlite::Connection;

use crate::apply::{Failed, LogWriter};
use crate::high_water::HighWaterFile;
use crate::retention::{self, Retention};
use crate::{read, seen};

/// How long a record may wait for others if nobody waits for it.
const GATHER: Duration = Duration::from_millis(20);

/// How long after a failure it is tried again, if nothing else happens.
const RETRY: Duration = Duration::from_secs(1);

/// How often old records are looked for.
const LOOK: Duration = Duration::from_secs(60);

/// Records that may wait. A disk that stands still must not fill the memory: beyond this they are let go, and that is
/// put on record.
const WAITING: usize = 200_000;

/// What waits to be written.
#[derive(Default)]
struct Waiting {
    entries: VecDeque<JournalEntry>,
    done: Vec<CommitCallback>,
    /// Names of events, to be written after the entries.
    heard: Vec<SeenEvent>,
    /// Whether records had to be let go.
    lost: bool,
    ended: bool,
}

/// What the writer and those who record share.
#[derive(Default)]
pub(crate) struct Shared {
    waiting: Mutex<Waiting>,
    news: Condvar,
    fails: AtomicBool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn works(&self) -> bool {
        !self.fails.load(Ordering::Relaxed)
    }

    pub(crate) fn record(&self, entries: Vec<JournalEntry>, done: Option<CommitCallback>) {
        let mut waiting = self.lock();
        if waiting.ended {
            drop(waiting);
            return done.into_iter().for_each(|done| done(false));
        }
        let first = waiting.entries.is_empty() || done.is_some();
        let room = waiting.entries.len() + entries.len() <= WAITING;
        if room || done.is_some() {
            waiting.entries.extend(entries);
        } else {
            waiting.lost = true;
        }
        waiting.done.extend(done);
        drop(waiting);
        if first {
            self.news.notify_one();
        }
    }

    pub(crate) fn record_seen(&self, heard: Vec<SeenEvent>) {
        let mut waiting = self.lock();
        // Without them an event that is sent again is emitted again, which is better than to run out of memory.
        if !waiting.ended && waiting.heard.len() + heard.len() <= WAITING {
            waiting.heard.extend(heard);
        }
        drop(waiting);
        self.news.notify_one();
    }

    pub(crate) fn end(&self) {
        self.lock().ended = true;
        self.news.notify_one();
    }
}

/// The writer's own.
pub(crate) struct Writer {
    pub(crate) shared: Arc<Shared>,
    pub(crate) connection: Connection,
    pub(crate) ledger: LogWriter,
    pub(crate) mark: HighWaterFile,
    pub(crate) retention: Retention,
    pub(crate) dir: PathBuf,
    /// Records that could not be written yet, and whether some had to be let go.
    pub(crate) held: VecDeque<JournalEntry>,
    /// Names of events that could not be written yet.
    pub(crate) heard: Vec<SeenEvent>,
    pub(crate) lost: bool,
}

impl Writer {
    /// Writes until the end.
    pub(crate) fn run(mut self) {
        let mut look = Instant::now();
        loop {
            let (done, ended) = self.gather(look);
            if !self.held.is_empty() || !self.heard.is_empty() || self.lost || !done.is_empty() {
                self.write(done);
            }
            if ended {
                return;
            }
            if Instant::now() >= look && self.shared.works() {
                let more = self.let_go();
                look = Instant::now() + if more { GATHER } else { LOOK };
            }
        }
    }

    /// Waits for records, and a little for more of them if nobody waits.
    fn gather(&mut self, look: Instant) -> (Vec<CommitCallback>, bool) {
        let shared = self.shared.clone();
        let mut waiting = shared.lock();
        let begun = Instant::now();
        let mut first = None;
        loop {
            let now = Instant::now();
            if !waiting.entries.is_empty() || !waiting.heard.is_empty() {
                first.get_or_insert(now);
            }
            let due = match first {
                _ if !self.held.is_empty() => begun + RETRY,
                Some(first) => first + GATHER,
                None => look,
            };
            if now >= due || !waiting.done.is_empty() || waiting.ended {
                break;
            }
            waiting = shared.news.wait_timeout(waiting, due - now).unwrap_or_else(PoisonError::into_inner).0;
        }
        self.held.append(&mut waiting.entries);
        self.heard.append(&mut waiting.heard);
        self.lost |= std::mem::take(&mut waiting.lost);
        (std::mem::take(&mut waiting.done), waiting.ended)
    }

    fn write(&mut self, done: Vec<CommitCallback>) {
        let result = self.commit();
        let works = result.is_ok();
        if let Err(error) = result {
            self.take_back(&*error);
        } else {
            self.held.clear();
            self.heard.clear();
            self.lost = false;
            if self.shared.fails.swap(false, Ordering::Relaxed) {
                tracing::info!(dir = %self.dir.display(), "the store can be written again");
            }
        }
        done.into_iter().for_each(|done| done(works));
    }

    fn commit(&mut self) -> Result<(), Failed> {
        let at = now();
        let transaction =
            rusqlite::Transaction::new_unchecked(&self.connection, rusqlite::TransactionBehavior::Immediate)?;
        if self.lost {
            self.ledger.hole(&transaction)?;
        }
        for entry in &self.held {
            self.ledger.apply(&transaction, entry, at)?;
        }
        if self.lost {
            // Where exactly they are missing is not known.
            self.ledger.hole(&transaction)?;
        }
        for heard in &self.heard {
            seen::keep(&mut self.ledger, &transaction, heard, at)?;
        }
        self.ledger.seal(&transaction)?;
        transaction.commit()?;
        // It need not be there; without it only a cut log is not noticed.
        let _ = self.mark.set(u64::try_from(self.ledger.last).unwrap_or(0));
        Ok(())
    }

    /// Nothing was written. What somebody waits for is not tried again, since they are told that it failed; the rest is.
    fn take_back(&mut self, error: &(dyn std::error::Error + Send + Sync)) {
        if !self.shared.fails.swap(true, Ordering::Relaxed) {
            let dir = self.dir.display();
            tracing::error!(%dir, %error, "the store cannot be written: questions are answered with no until it can");
        }
        self.held.retain(|entry| !entry.is_durable());
        if self.held.len() > WAITING {
            self.held.clear();
            self.lost = true;
        }
        if self.lost || self.heard.len() > WAITING {
            self.heard.clear();
        }
        // The ledger counted what is not there.
        match read::start(&self.dir, &self.connection) {
            Ok(start) => self.ledger = start.ledger,
            Err(error) => tracing::error!(%error, "the store cannot be read either"),
        }
    }

    fn let_go(&mut self) -> bool {
        let steps = retention::step(&self.connection, self.retention, now());
        match steps.and_then(|more| Ok(seen::step(&self.connection, now())? || more)) {
            Ok(more) => more,
            Err(error) => {
                tracing::warn!(%error, "old records cannot be removed");
                false
            }
        }
    }
}

/// The wall clock in milliseconds.
pub(crate) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
