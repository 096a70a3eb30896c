//! Where the engines of users live.
//!
//! A session and a subscription belong to exactly one user, and every user has an engine of their own (decision 99). All
//! transports and agents reach an engine through [`Engines`] alone, so this is the one place that decides where it runs.
//!
//! An engine is made when its user first needs it and goes away when nobody has used it for a while. With a store it comes
//! back with what was recorded. While something holds an [`EngineRef`], its engine stays, so there are never two engines of
//! one user.

mod factory;
mod retire;
#[cfg(test)]
mod simulation;

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aaep::Producer;
use aaep::id::{ReplyToken, SubscriptionId};
use aaep::journal::SeenEvent;
use aaep::stats::{ProducerSnapshot, ProducerStats, ReplyStats};
use aaep_keys::{Identity, Role, UserId};
use futures_util::future::join_all;
use tokio::sync::OnceCell;

pub(crate) use factory::EngineFactory;

use crate::peer::Peer;

/// The engine of one user, for as long as something uses it.
#[derive(Clone, Debug)]
pub(crate) struct EngineRef(Arc<EngineSlot>);

#[derive(Debug)]
struct EngineSlot {
    user: UserId,
    producer: Producer,
    /// How often the directory has handed the engine out.
    acquired: AtomicU64,
}

impl EngineRef {
    fn new(user: UserId, producer: Producer) -> EngineRef {
        EngineRef(Arc::new(EngineSlot { user, producer, acquired: AtomicU64::new(0) }))
    }

    /// Returns the user whom the engine belongs to.
    pub(crate) fn user(&self) -> &UserId {
        &self.0.user
    }

    /// Returns a reference for somebody who uses the engine.
    fn acquire(&self) -> EngineRef {
        self.0.acquired.fetch_add(1, Relaxed);
        self.clone()
    }
}

impl Deref for EngineRef {
    type Target = Producer;

    fn deref(&self) -> &Producer {
        &self.0.producer
    }
}

/// The engine of a user cannot be made, because the store cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EngineUnavailable;

/// The engines of all users of a server.
#[derive(Debug)]
pub(crate) struct Engines {
    /// The engine of peers without credentials. If there is only one user, it serves everybody.
    local: EngineRef,
    per_user: Option<PerUser>,
}

/// A place for an engine, which is filled when the engine is made.
type EngineCell = Arc<OnceCell<EngineRef>>;

#[derive(Debug)]
struct PerUser {
    factory: EngineFactory,
    /// Locked when a connection, request or session begins, never for each event.
    cells: Mutex<HashMap<UserId, EngineCell>>,
    settings: Mutex<ManifestSettings>,
    retired: Mutex<RetiredStats>,
}

/// What every engine tells subscribers about the manifest.
#[derive(Clone, Debug, Default)]
struct ManifestSettings {
    uri: Option<String>,
    signed: Option<String>,
}

/// The numbers of engines that have gone away.
#[derive(Debug, Default)]
struct RetiredStats {
    producers: ProducerStats,
    replies: ReplyStats,
}

impl PerUser {
    fn cells(&self) -> MutexGuard<'_, HashMap<UserId, EngineCell>> {
        self.cells.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn settings(&self) -> MutexGuard<'_, ManifestSettings> {
        self.settings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn retired(&self) -> MutexGuard<'_, RetiredStats> {
        self.retired.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn loaded(&self) -> Vec<EngineRef> {
        self.cells().values().filter_map(|cell| cell.get().cloned()).collect()
    }

    async fn make(&self, user: &UserId) -> Result<EngineRef, EngineUnavailable> {
        let producer = self.factory.make(user).await?;
        let settings = self.settings().clone();
        if let Some(uri) = settings.uri {
            // An error would mean that the producer has ended, but it was just made and is held here.
            let _ = producer.set_manifest_uri(uri).await;
        }
        let _ = producer.set_signed_manifest(settings.signed).await;
        Ok(EngineRef::new(user.clone(), producer))
    }
}

impl Engines {
    /// Creates the directory of a server that serves one producer, which belongs to one user.
    pub(crate) fn shared(producer: Producer) -> Arc<Engines> {
        let local = EngineRef::new(local_user(), producer);
        Arc::new(Engines { local, per_user: None })
    }

    /// Creates the directory of a server for many users. `local_user` is the user of peers without credentials.
    pub(crate) async fn per_user(
        factory: EngineFactory,
        local_user: &UserId,
    ) -> Result<Arc<Engines>, EngineUnavailable> {
        let recovered = factory.users_to_recover();
        let per_user =
            PerUser { factory, cells: Mutex::default(), settings: Mutex::default(), retired: Mutex::default() };
        let local = per_user.make(local_user).await?;
        let idle_after = per_user.factory.idle_after();
        let engines = Arc::new(Engines { local, per_user: Some(per_user) });
        // Open questions time out and lost sessions end even if nobody connects again.
        for user in recovered {
            engines.get(&user).await?;
        }
        tokio::spawn(retire::retire_idle_engines(Arc::downgrade(&engines), idle_after));
        Ok(engines)
    }

    /// Returns whether every user has an engine of their own.
    pub(crate) fn is_per_user(&self) -> bool {
        self.per_user.is_some()
    }

    /// Returns the engine of peers without credentials.
    pub(crate) fn local(&self) -> &EngineRef {
        &self.local
    }

    /// Returns the engine of a user. Makes it if there is none.
    pub(crate) async fn get(&self, user: &UserId) -> Result<EngineRef, EngineUnavailable> {
        let Some(per_user) = self.per_user.as_ref().filter(|_| user != self.local.user()) else {
            return Ok(self.local.clone());
        };
        loop {
            let cell = per_user.cells().entry(user.clone()).or_default().clone();
            cell.get_or_try_init(|| per_user.make(user)).await?;
            // The engine may have been retired since, and an engine is held only if the directory has it.
            if let Some(engine) = self.find(user) {
                return Ok(engine);
            }
        }
    }

    /// Returns the engine of a user, or `None` if the user has none at the moment.
    pub(crate) fn find(&self, user: &UserId) -> Option<EngineRef> {
        let Some(per_user) = self.per_user.as_ref().filter(|_| user != self.local.user()) else {
            return Some(self.local.clone());
        };
        per_user.cells().get(user)?.get().map(EngineRef::acquire)
    }

    /// Returns a peer with the roles that it has for a user. If there is only one user, these are all its roles.
    pub(crate) fn peer_for(&self, peer: &Peer, user: &UserId) -> Peer {
        if self.is_per_user() { peer.for_user(user) } else { peer.clone() }
    }

    /// Returns the engines of the users for whom a peer has a role, as far as these have one at the moment.
    fn of_peer(&self, peer: &Peer, role: Role) -> Vec<EngineRef> {
        if self.per_user.is_none() || peer.is_local() {
            return vec![self.local.clone()];
        }
        let identity = &peer.identity;
        let users = identity.known_users().filter(|user| identity.may_for(role, user));
        users.filter_map(|user| self.find(&user)).collect()
    }

    /// Returns the engine that has a subscription of this peer.
    pub(crate) async fn find_subscription(&self, peer: &Peer, id: &SubscriptionId) -> Option<EngineRef> {
        for engine in self.of_peer(peer, Role::Subscribe) {
            if engine.has_subscription(id, peer.principal()).await {
                return Some(engine);
            }
        }
        None
    }

    /// Returns whether a question with this token is open and the peer may answer it.
    pub(crate) fn awaits_reply(&self, peer: &Peer, token: &ReplyToken) -> bool {
        self.of_peer(peer, Role::Reply).iter().any(|engine| engine.awaits_reply(token))
    }

    /// Returns the engines of users that an agent may have unfinished sessions of, from before a restart.
    pub(crate) fn recovered_for(&self, identity: &Identity) -> Vec<EngineRef> {
        let Some(per_user) = &self.per_user else { return vec![self.local.clone()] };
        let users = per_user.factory.users_to_recover();
        users.iter().filter(|user| identity.may_for(Role::Produce, user)).filter_map(|user| self.find(user)).collect()
    }

    /// Returns the events of an agent that were emitted before the last restart, for any user.
    pub(crate) async fn seen_events(&self, agent: &str) -> Vec<SeenEvent> {
        match &self.per_user {
            Some(per_user) => per_user.factory.seen_events(agent).await,
            None => self.local.seen_events(agent).await,
        }
    }

    /// Sets where the manifest is published, for all engines.
    pub(crate) async fn set_manifest_uri(&self, uri: &str) {
        if let Some(per_user) = &self.per_user {
            per_user.settings().uri = Some(uri.to_owned());
        }
        for engine in self.all() {
            // An error means that the engine has ended, and nobody asks it any more.
            let _ = engine.set_manifest_uri(uri).await;
        }
    }

    /// Sets the signed manifest of all engines.
    pub(crate) async fn set_signed_manifest(&self, signed: Option<String>) {
        if let Some(per_user) = &self.per_user {
            per_user.settings().signed.clone_from(&signed);
        }
        for engine in self.all() {
            let _ = engine.set_signed_manifest(signed.clone()).await;
        }
    }

    /// Returns the numbers of all engines together, or `None` after they have ended.
    pub(crate) async fn stats(&self) -> Option<ProducerStats> {
        let mut total = self.local.stats().await?;
        if let Some(per_user) = &self.per_user {
            total += per_user.retired().producers;
            for engine in per_user.loaded() {
                total += engine.stats().await.unwrap_or_default();
            }
        }
        Some(total)
    }

    /// Returns what an operator sees of all engines together, or `None` after they have ended.
    pub(crate) async fn snapshot(&self) -> Option<ProducerSnapshot> {
        let mut total = self.local.snapshot().await?;
        for engine in self.per_user.iter().flat_map(PerUser::loaded) {
            total += engine.snapshot().await.unwrap_or_default();
        }
        if let Some(per_user) = &self.per_user {
            total.stats += per_user.retired().producers;
        }
        Some(total)
    }

    /// Returns how questions of all engines were resolved and why replies were ignored.
    pub(crate) fn reply_stats(&self) -> ReplyStats {
        let mut total = self.local.reply_stats();
        if let Some(per_user) = &self.per_user {
            total += per_user.retired().replies.clone();
            per_user.loaded().iter().for_each(|engine| total += engine.reply_stats());
        }
        total
    }

    /// Returns how many engines there are.
    pub(crate) fn count(&self) -> usize {
        self.all().len()
    }

    /// Ends all sessions and subscriptions, then the engines.
    pub(crate) async fn shut_down(&self, grace: Duration, summary: &str) {
        join_all(self.all().iter().map(|engine| engine.shut_down(grace, summary))).await;
    }

    fn all(&self) -> Vec<EngineRef> {
        let others = self.per_user.as_ref().map(PerUser::loaded).unwrap_or_default();
        std::iter::once(self.local.clone()).chain(others).collect()
    }
}

/// Returns the user of peers without credentials.
pub(crate) fn local_user() -> UserId {
    Identity::LOCAL.parse().expect("it is a short word without control characters")
}
