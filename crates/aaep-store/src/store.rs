//! The store of one directory.

use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use aaep::journal::{CommitCallback, Journal, JournalEntry, MissedEvents, RecoveredState, SeenEvent};
use aaep_proto::id::{EventId, SubscriptionId};

use crate::error::StoreError;
use crate::high_water::HighWaterFile;
use crate::read::{self, DeliveryPoint, StoredState};
use crate::retention::Retention;
use crate::writer::{self, Shared, Writer};
use crate::{check, completeness, permissions, resume, schema, seen};

/// A journal in a directory. Only one process can open a directory at a time. Dropping the store writes all waiting
/// records.
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
    /// Up to which record each subscription was served when the previous process ended.
    points: BTreeMap<SubscriptionId, DeliveryPoint>,
    /// The number of the last record of the previous process.
    restart: i64,
    _lock: File,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("dir", &self.dir).finish_non_exhaustive()
    }
}

impl Store {
    /// Opens a directory, or creates it, and reads the state that a restart needs. Refuses a damaged or incomplete store.
    pub fn open(dir: &Path, retention: Retention) -> Result<(Store, RecoveredState), StoreError> {
        let io = |e: std::io::Error| StoreError::io(dir, &e);
        permissions::directory(dir)?;
        let lock = permissions::open(&dir.join("lock")).map_err(io)?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => StoreError::InUse(dir.to_owned()),
            TryLockError::Error(error) => StoreError::io(dir, &error),
        })?;
        let contents = completeness::contents(dir)?;
        // The high-water mark is created before the database: a database without it is refused as incomplete.
        let mut mark = HighWaterFile::open(dir).map_err(io)?;
        let connection = schema::open(dir, contents)?;
        let checked = check::on_open(dir, &connection)?;
        let StoredState { mut log_writer, restored, points } = read::load(dir, &connection)?;
        completeness::check_reach(dir, contents, log_writer.last)?;
        let failed = |e: crate::apply::WriteError| match e.downcast::<rusqlite::Error>() {
            Ok(error) => StoreError::sql(dir, &error),
            Err(error) => StoreError::Unusable(dir.to_owned(), error.to_string()),
        };
        let transaction = connection.unchecked_transaction().map_err(|e| StoreError::sql(dir, &e))?;
        log_writer.finish_outputs(&transaction, writer::now()).map_err(failed)?;
        log_writer.write_checksums(&transaction).map_err(failed)?;
        transaction.commit().map_err(|e| StoreError::sql(dir, &e))?;
        mark.set(u64::try_from(log_writer.last).unwrap_or(0)).map_err(io)?;
        let (restart, shared) = (log_writer.last, Arc::new(Shared::default()));
        let writer = Writer {
            shared: shared.clone(),
            connection,
            log_writer,
            mark,
            retention,
            dir: dir.to_owned(),
            held: Default::default(),
            seen: Vec::new(),
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
                tracing::warn!(%error, "cannot read the events that a subscriber missed; it gets a gap instead");
                nothing
            }
        }
    }

    fn is_healthy(&self) -> bool {
        self.shared.is_healthy()
    }

    fn record_seen(&self, seen: Vec<SeenEvent>) {
        self.shared.record_seen(seen);
    }

    fn seen_events(&self, agent: &str) -> Vec<SeenEvent> {
        let failed = |e: rusqlite::Error| StoreError::sql(&self.dir, &e);
        let found = schema::open_to_read(&self.dir)
            .and_then(|connection| seen::of_agent(&connection, agent, self.restart, writer::now()).map_err(failed));
        found.unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot read the event ids of an agent; events repeated after the restart are emitted twice");
            Vec::new()
        })
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.shared.end();
        if let Some(writer) = self.writer.take() {
            // The panic of a writer thread was printed already.
            let _ = writer.join();
        }
    }
}
