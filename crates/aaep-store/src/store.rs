//! A directory in use.

use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use aaep::journal::{CommitCallback, Journal, JournalEntry, MissedEvents, RecoveredState, SeenEvent};
use aaep_proto::id::{EventId, SubscriptionId};

use crate::error::StoreError;
use crate::high_water::HighWaterFile;
use crate::read::{self, Point, Start};
use crate::retention::Retention;
use crate::writer::{self, Shared, Writer};
use crate::{check, private, resume, schema, seen, whole};

/// A directory that keeps what must survive a restart. One process at a time can have it. Dropping it writes what
/// waits.
///
/// ```
/// use aaep_store::{Retention, Store, StoreError};
/// # let dir = tempfile::tempdir()?;
/// let (store, restored) = Store::open(dir.path(), Retention::default())?;
/// assert!(restored.sessions.is_empty());
/// assert!(matches!(Store::open(dir.path(), Retention::default()), Err(StoreError::InUse(_))));
/// # drop(store);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Store {
    dir: PathBuf,
    shared: Arc<Shared>,
    writer: Option<JoinHandle<()>>,
    /// How far subscriptions were served when the last process ended.
    points: BTreeMap<SubscriptionId, Point>,
    /// The last record of the last process.
    restart: i64,
    _lock: File,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("dir", &self.dir).finish_non_exhaustive()
    }
}

impl Store {
    /// Opens a directory, or makes it, and reads what goes on. Refuses what is damaged.
    pub fn open(dir: &Path, retention: Retention) -> Result<(Store, RecoveredState), StoreError> {
        let io = |e: std::io::Error| StoreError::io(dir, &e);
        private::directory(dir)?;
        let lock = private::open(&dir.join("lock")).map_err(io)?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => StoreError::InUse(dir.to_owned()),
            TryLockError::Error(error) => StoreError::io(dir, &error),
        })?;
        let contents = whole::contents(dir)?;
        // The mark is there before the database: a database without one is not whole.
        let mut mark = HighWaterFile::open(dir).map_err(io)?;
        let connection = schema::open(dir, contents)?;
        let checked = check::at_start(dir, &connection)?;
        let Start { mut ledger, restored, points } = read::start(dir, &connection)?;
        whole::check_reach(dir, contents, ledger.last)?;
        let failed = |e: crate::apply::Failed| match e.downcast::<rusqlite::Error>() {
            Ok(error) => StoreError::sql(dir, &error),
            Err(error) => StoreError::Unusable(dir.to_owned(), error.to_string()),
        };
        let transaction = connection.unchecked_transaction().map_err(|e| StoreError::sql(dir, &e))?;
        ledger.finish_outputs(&transaction, writer::now()).map_err(failed)?;
        ledger.seal(&transaction).map_err(failed)?;
        transaction.commit().map_err(|e| StoreError::sql(dir, &e))?;
        mark.set(u64::try_from(ledger.last).unwrap_or(0)).map_err(io)?;
        let (restart, shared) = (ledger.last, Arc::new(Shared::default()));
        let writer = Writer {
            shared: shared.clone(),
            connection,
            ledger,
            mark,
            retention,
            dir: dir.to_owned(),
            held: Default::default(),
            heard: Vec::new(),
            lost: false,
        };
        let writer = std::thread::Builder::new().name("aaep-store".to_owned()).spawn(|| writer.run()).map_err(io)?;
        let dir = dir.to_owned();
        if !checked {
            check::in_background(dir.clone());
        }
        Ok((Store { dir, shared, writer: Some(writer), points, restart, _lock: lock }, restored))
    }
}

impl Journal for Store {
    fn record(&self, entries: Vec<JournalEntry>, done: Option<CommitCallback>) {
        self.shared.record(entries, done);
    }

    fn missed(&self, subscription: &SubscriptionId, last: Option<&EventId>) -> MissedEvents {
        let nothing = MissedEvents { items: Vec::new(), gap: true };
        let Some(point) = self.points.get(subscription) else { return nothing };
        match schema::open_to_read(&self.dir) {
            Ok(connection) => resume::missed(&connection, *point, last, self.restart),
            Err(error) => {
                tracing::warn!(%error, "what a subscriber missed cannot be read");
                nothing
            }
        }
    }

    fn is_healthy(&self) -> bool {
        self.shared.works()
    }

    fn record_seen(&self, heard: Vec<SeenEvent>) {
        self.shared.record_seen(heard);
    }

    fn seen_events(&self, agent: &str) -> Vec<SeenEvent> {
        let failed = |e: rusqlite::Error| StoreError::sql(&self.dir, &e);
        let found = schema::open_to_read(&self.dir)
            .and_then(|connection| seen::of_agent(&connection, agent, self.restart, writer::now()).map_err(failed));
        found.unwrap_or_else(|error| {
            tracing::warn!(%error, "what an agent said before the restart cannot be read");
            Vec::new()
        })
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.shared.end();
        if let Some(writer) = self.writer.take() {
            // A writer that failed has said so.
            let _ = writer.join();
        }
    }
}
