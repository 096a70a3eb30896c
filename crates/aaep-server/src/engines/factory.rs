//! Makes the engines of users.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::OnceLock;
use std::time::Duration;

use aaep::journal::SeenEvent;
use aaep::transport::QueueBudget;
use aaep::{Producer, Worker};
use aaep_keys::UserId;

use super::EngineUnavailable;
use crate::config::{Config, ConfigError};

/// Makes the engines of users from the configuration of a server, and from its store if it has one.
#[derive(Debug)]
pub(crate) struct EngineFactory {
    config: Config,
    budget: QueueBudget,
    /// One for each core. Spawned with the first engine.
    workers: OnceLock<Vec<Worker>>,
    #[cfg(feature = "store")]
    store: Option<std::sync::Arc<aaep_store::Store>>,
    /// Users with unfinished sessions, open questions or subscriptions from before the start.
    to_recover: Vec<UserId>,
}

impl EngineFactory {
    /// Opens the store of the configuration, if it has one. Reads files.
    pub(crate) fn open(config: &Config) -> Result<EngineFactory, ConfigError> {
        config.check_features()?;
        let budget = QueueBudget::new(config.limits.memory_bytes / 2);
        #[cfg(feature = "store")]
        {
            let store = crate::server::open_store(config)?;
            let users = store.as_ref().map(aaep_store::Store::active_users).unwrap_or_default();
            // A store holds the names of users as they were when they were written, so they are valid.
            let to_recover = users.iter().filter_map(|user| user.parse().ok()).collect();
            Ok(EngineFactory {
                config: config.clone(),
                budget,
                workers: OnceLock::new(),
                store: store.map(std::sync::Arc::new),
                to_recover,
            })
        }
        #[cfg(not(feature = "store"))]
        Ok(EngineFactory { config: config.clone(), budget, workers: OnceLock::new(), to_recover: Vec::new() })
    }

    /// Returns the users whose engines must run from the start.
    pub(super) fn users_to_recover(&self) -> Vec<UserId> {
        self.to_recover.clone()
    }

    /// Returns how long an engine stays after it was last used.
    pub(super) fn idle_after(&self) -> Duration {
        Duration::from_secs(self.config.limits.idle_user_seconds)
    }

    /// Returns the worker that hosts the engine of a user: always the same one.
    fn worker_of(&self, user: &UserId) -> &Worker {
        let spawn = || (0..self.config.workers().get()).map(|_| Worker::spawn()).collect();
        let workers = self.workers.get_or_init(spawn);
        let mut hasher = DefaultHasher::new();
        user.hash(&mut hasher);
        // The remainder is below the number of workers, which fits.
        &workers[(hasher.finish() % workers.len() as u64) as usize]
    }

    /// Makes the engine of a user, with what the store has of it.
    pub(super) async fn make(&self, user: &UserId) -> Result<Producer, EngineUnavailable> {
        let builder = crate::server::user_builder(&self.config).queue_budget(&self.budget);
        #[cfg(feature = "store")]
        if let Some(store) = &self.store {
            let (store, name) = (store.clone(), user.as_str().to_owned());
            let opened = tokio::task::spawn_blocking(move || store.open_user(&name)).await;
            return match opened.map_err(|_| EngineUnavailable)? {
                Ok((journal, recovered)) => Ok(builder.journal(journal, recovered).build_on(self.worker_of(user))),
                Err(error) => {
                    tracing::error!(%error, "the records of a user cannot be read; the user is not served");
                    Err(EngineUnavailable)
                }
            };
        }
        Ok(builder.build_on(self.worker_of(user)))
    }

    /// Returns the events of an agent that were emitted before the last restart, for any user.
    pub(super) async fn seen_events(&self, agent: &str) -> Vec<SeenEvent> {
        #[cfg(feature = "store")]
        if let Some(store) = &self.store {
            let (store, agent) = (store.clone(), agent.to_owned());
            return tokio::task::spawn_blocking(move || store.seen_events(&agent)).await.unwrap_or_default();
        }
        let _ = agent;
        Vec::new()
    }
}
