//! The store of one directory.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use aaep::journal::{CommitCallback, Journal, JournalEntry, MissedEvents, RecoveredState, SeenEvent};
use aaep_proto::id::{EventId, SubscriptionId};
use rusqlite::Connection;

use crate::error::StoreError;
use crate::high_water::HighWaterFile;
use crate::read::{self, ActiveRows, DeliveryPoint, UserState};
use crate::retention::Retention;
use crate::users::{self, UserNumbers};
use crate::writer::{self, Shared, Writer};
use crate::{check, completeness, permissions, resume, schema, seen};

/// The journals of all users in a directory. Only one process can open a directory at a time. Dropping the store and all
/// its journals writes all waiting records.
///
/// ```
/// use std::sync::Arc;
/// use aaep_store::{Retention, Store, StoreError};
/// # let dir = tempfile::tempdir()?;
/// let store = Arc::new(Store::open(dir.path(), Retention::default())?);
/// let (journal, restored) = store.open_user("ada")?;
/// assert!(restored.sessions.is_empty());
/// assert!(matches!(Store::open(dir.path(), Retention::default()), Err(StoreError::InUse(_))));
/// # drop((store, journal));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Store {
    dir: PathBuf,
    shared: Arc<Shared>,
    writer: Option<JoinHandle<()>>,
    /// Users who had something unfinished when the store was opened.
    active: BTreeSet<i64>,
    /// The number of the last record of the previous process.
    restart: i64,
    /// A connection for the state of users. `None` when the store is being dropped: it must be closed before the writer's, which
    /// then writes the log back into the database.
    reader: Mutex<Option<Connection>>,
    _lock: File,
}

/// The journal of one user. It keeps its store open.
#[derive(Debug)]
pub struct UserJournal {
    store: Arc<Store>,
    user: i64,
    /// Up to which record each subscription was served when the user's previous engine ended.
    points: BTreeMap<SubscriptionId, DeliveryPoint>,
    /// The number of the last record before this journal was opened.
    restart: i64,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("dir", &self.dir).finish_non_exhaustive()
    }
}

impl Store {
    /// Opens the journal of a producer without users, and reads the state that a restart needs.
    pub fn open_single(dir: &Path, retention: Retention) -> Result<(UserJournal, RecoveredState), StoreError> {
        Arc::new(Store::open(dir, retention)?).open_number(users::LOCAL)
    }

    /// Opens a directory, or creates it. Refuses a damaged or incomplete store.
    pub fn open(dir: &Path, retention: Retention) -> Result<Store, StoreError> {
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
        let ActiveRows { mut log_writer, users: active } = read::load(dir, &connection)?;
        let users = UserNumbers::read(&connection).map_err(|e| StoreError::sql(dir, &e))?;
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
        let (restart, shared) = (log_writer.last, Arc::new(Shared::new(users)));
        let writer = Writer {
            shared: shared.clone(),
            connection,
            log_writer,
            mark,
            retention,
            dir: dir.to_owned(),
            held: Default::default(),
            seen: Vec::new(),
            new_users: Vec::new(),
            lost: false,
        };
        let writer = std::thread::Builder::new().name("aaep-store".to_owned()).spawn(|| writer.run()).map_err(io)?;
        let dir = dir.to_owned();
        if !checked {
            check::in_background(dir.clone());
        }
        let reader = Mutex::new(Some(schema::open_to_read(&dir)?));
        Ok(Store { dir, shared, writer: Some(writer), active, restart, reader, _lock: lock })
    }

    /// Returns the users who had unfinished sessions, open questions, unused permits or subscriptions when the store was
    /// opened.
    pub fn active_users(&self) -> Vec<String> {
        self.active.iter().filter_map(|user| self.shared.user_name(*user)).collect()
    }

    /// Opens the journal of a user, and reads the state that the user's engine needs. May block. Open it again only after the
    /// engine that uses it has ended.
    pub fn open_user(self: &Arc<Self>, name: &str) -> Result<(UserJournal, RecoveredState), StoreError> {
        let user = self.shared.user_number(name);
        self.open_number(user)
    }

    fn open_number(self: &Arc<Self>, user: i64) -> Result<(UserJournal, RecoveredState), StoreError> {
        if !self.shared.wait_committed() {
            let what = "the last records could not be written".to_owned();
            return Err(StoreError::Unusable(self.dir.clone(), what));
        }
        let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        let connection = match reader.take() {
            Some(connection) => connection,
            // The last read failed or panicked.
            None => schema::open_to_read(&self.dir)?,
        };
        let UserState { restored, points, last } = read::load_user(&self.dir, &connection, user)?;
        *reader = Some(connection);
        drop(reader);
        Ok((UserJournal { store: self.clone(), user, points, restart: last }, restored))
    }

    /// Whether the last records of all users could be written.
    pub fn is_healthy(&self) -> bool {
        self.shared.is_healthy()
    }

    /// Returns the events of an agent from before this process, for any user, the oldest first. May block.
    pub fn seen_events(&self, agent: &str) -> Vec<SeenEvent> {
        self.seen_before(agent, self.restart)
    }

    fn seen_before(&self, agent: &str, restart: i64) -> Vec<SeenEvent> {
        let failed = |e: rusqlite::Error| StoreError::sql(&self.dir, &e);
        let found = schema::open_to_read(&self.dir)
            .and_then(|connection| seen::of_agent(&connection, agent, restart, writer::now()).map_err(failed));
        found.unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot read the event ids of an agent; events repeated after the restart are emitted twice");
            Vec::new()
        })
    }

    /// Deletes everything of a user in a directory that no process uses. Returns how many records there were, or `None` if
    /// the store knows no such user.
    pub fn delete_user(dir: &Path, name: &str) -> Result<Option<usize>, StoreError> {
        // Opening checks the store and brings it up to date; closing it waits for its writer. Nothing else is deleted.
        drop(Store::open(dir, Retention { days: u32::MAX, bytes: u64::MAX })?);
        let wrong = |e: rusqlite::Error| StoreError::sql(dir, &e);
        let lock = permissions::open(&dir.join("lock")).map_err(|e| StoreError::io(dir, &e))?;
        lock.try_lock().map_err(|_| StoreError::InUse(dir.to_owned()))?;
        let connection = schema::open(dir, completeness::contents(dir)?)?;
        let users = UserNumbers::read(&connection).map_err(wrong)?;
        let Some(user) = users.find(name) else { return Ok(None) };
        // Deleted text is overwritten, and does not stay in the write-ahead log.
        connection.pragma_update(None, "secure_delete", true).map_err(wrong)?;
        let transaction = connection.unchecked_transaction().map_err(wrong)?;
        let deleted = users::delete(&transaction, user).map_err(wrong)?;
        let mut rows = read::load_unchecked(dir, &transaction)?;
        rows.log_writer
            .write_checksums(&transaction)
            .map_err(|e| StoreError::Unusable(dir.to_owned(), e.to_string()))?;
        transaction.commit().map_err(wrong)?;
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).map_err(wrong)?;
        Ok(Some(deleted))
    }
}

impl Journal for UserJournal {
    fn record(&self, entries: Vec<JournalEntry>, done: Option<CommitCallback>) {
        self.store.shared.record(self.user, entries, done);
    }

    fn missed(&self, subscription: &SubscriptionId, last: Option<&EventId>) -> MissedEvents {
        let nothing = MissedEvents { items: Vec::new(), gap: true };
        let Some(point) = self.points.get(subscription) else { return nothing };
        match schema::open_to_read(&self.store.dir) {
            Ok(connection) => resume::missed(&connection, *point, last, self.restart),
            Err(error) => {
                tracing::warn!(%error, "cannot read the events that a subscriber missed; it gets a gap instead");
                nothing
            }
        }
    }

    fn is_healthy(&self) -> bool {
        self.store.is_healthy()
    }

    fn record_seen(&self, seen: Vec<SeenEvent>) {
        self.store.shared.record_seen(self.user, seen);
    }

    fn seen_events(&self, agent: &str) -> Vec<SeenEvent> {
        self.store.seen_before(agent, self.restart)
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        drop(self.reader.get_mut().unwrap_or_else(PoisonError::into_inner).take());
        self.shared.end();
        if let Some(writer) = self.writer.take() {
            // The panic of a writer thread was printed already.
            let _ = writer.join();
        }
    }
}
