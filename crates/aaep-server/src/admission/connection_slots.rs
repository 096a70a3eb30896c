//! Connection slots of a listener: how many connections it has, and which one is evicted for a new one.
//!
//! A new connection is admitted as long as a slot is free or any open connection can be evicted. Connections that carry a
//! subscription or an agent are never evicted, nor are those that have authenticated while a request is in progress.
//! The others are evicted in this order: peers that have not authenticated and have no request in progress, such peers
//! with one, authenticated peers without one. Within a class the connection that has been in it longest is evicted first.

use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::config::Limits;

/// Where a connection comes from. Connections of one origin are counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ConnectionOrigin {
    /// An IPv4 address, or the first 64 bits of an IPv6 address: one host can use every address of such a network.
    Address(IpAddr),
    /// A trusted proxy, whose connections carry requests of many clients.
    Proxy,
    /// The local socket or pipe.
    #[cfg_attr(not(any(unix, windows)), expect(dead_code, reason = "there is no local socket"))]
    Local,
}

impl From<IpAddr> for ConnectionOrigin {
    fn from(address: IpAddr) -> ConnectionOrigin {
        ConnectionOrigin::Address(match address.to_canonical() {
            IpAddr::V6(ip) if !ip.is_loopback() => {
                let [a, b, c, d, ..] = ip.segments();
                IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
            }
            ip => ip,
        })
    }
}

/// The order of eviction, first to last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum EvictionClass {
    Unauthenticated,
    UnauthenticatedRequest,
    AuthenticatedIdle,
}

/// The position of a connection in the order of eviction: its class, when it entered the class, and its id.
type EvictionRank = (EvictionClass, u64, u64);

#[derive(Debug)]
struct SlotEntry {
    origin: ConnectionOrigin,
    /// Whether a trusted proxy has opened the connection. Its origin is then that of the client whose request is in
    /// progress.
    is_proxied: bool,
    slot: Weak<ConnectionSlot>,
    authenticated: bool,
    /// Requests in progress.
    requests: usize,
    /// Subscriptions and agents that the connection carries.
    held: usize,
    /// Whether there was any request yet.
    requested: bool,
    idle_since: Instant,
    rank: Option<EvictionRank>,
}

impl SlotEntry {
    fn class(&self) -> Option<EvictionClass> {
        match (self.authenticated, self.requests) {
            _ if self.held > 0 => None,
            (false, 0) => Some(EvictionClass::Unauthenticated),
            (false, _) => Some(EvictionClass::UnauthenticatedRequest),
            (true, 0) => Some(EvictionClass::AuthenticatedIdle),
            (true, _) => None,
        }
    }

    /// Attributes an idle connection of a proxy to the proxy again: the next request may be another client's.
    fn forget_client(&mut self) {
        if self.is_proxied && self.requests == 0 && self.held == 0 {
            (self.origin, self.authenticated) = (ConnectionOrigin::Proxy, false);
        }
    }
}

#[derive(Debug, Default)]
struct SlotTable {
    /// Counts connections and changes of class.
    next: u64,
    open: HashMap<u64, SlotEntry>,
    evictable: BTreeSet<EvictionRank>,
    /// By origin, the connections that have not authenticated and carry nothing.
    unauthenticated: HashMap<ConnectionOrigin, BTreeSet<EvictionRank>>,
}

impl SlotTable {
    fn next_number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Changes an entry and updates its class.
    fn update(&mut self, id: u64, change: impl FnOnce(&mut SlotEntry)) {
        let number = self.next_number();
        let Some(entry) = self.open.get_mut(&id) else { return };
        let old_origin = entry.origin;
        change(entry);
        let (class, origin) = (entry.class(), entry.origin);
        if origin == old_origin && entry.rank.map(|(class, ..)| class) == class {
            return;
        }
        let old = std::mem::replace(&mut entry.rank, class.map(|class| (class, number, id)));
        let new = entry.rank;
        self.remove_rank(old_origin, old);
        if let Some(rank) = new {
            self.evictable.insert(rank);
            if rank.0 < EvictionClass::AuthenticatedIdle {
                self.unauthenticated.entry(origin).or_default().insert(rank);
            }
        }
    }

    fn remove_rank(&mut self, origin: ConnectionOrigin, rank: Option<EvictionRank>) {
        let Some(rank) = rank else { return };
        self.evictable.remove(&rank);
        if let Some(list) = self.unauthenticated.get_mut(&origin) {
            list.remove(&rank);
            if list.is_empty() {
                self.unauthenticated.remove(&origin);
            }
        }
    }

    fn remove(&mut self, id: u64) -> Option<SlotEntry> {
        let entry = self.open.remove(&id)?;
        self.remove_rank(entry.origin, entry.rank);
        Some(entry)
    }

    /// Returns the oldest connection of an origin that has this many which have not authenticated. Proxies are exempt.
    fn oldest_of_many(&self, origin: ConnectionOrigin, many: usize) -> Option<u64> {
        let list = self.unauthenticated.get(&origin).filter(|list| list.len() >= many)?;
        list.first().map(|(_, _, id)| *id).filter(|_| origin != ConnectionOrigin::Proxy)
    }

    /// Returns the connection to evict when all slots are in use. Among those that have not authenticated, it is one of the
    /// origin with the most: a peer that opens many connections evicts its own.
    fn eviction_candidate(&self) -> Option<u64> {
        let most = self.unauthenticated.values().max_by_key(|list| list.len());
        let rank = most.and_then(BTreeSet::first).or_else(|| self.evictable.first());
        rank.map(|(_, _, id)| *id)
    }
}

/// The slots of one listener.
#[derive(Debug)]
pub(crate) struct ConnectionSlots {
    connections: usize,
    per_origin: usize,
    state: Mutex<SlotTable>,
}

/// A new connection that has a slot.
#[derive(Debug)]
pub(crate) struct AdmittedConnection {
    pub(crate) slot: Arc<ConnectionSlot>,
    /// Whether another connection was evicted for it.
    pub(crate) evicted: bool,
}

impl ConnectionSlots {
    pub(crate) fn new(limits: &Limits) -> Arc<ConnectionSlots> {
        Arc::new(ConnectionSlots {
            connections: limits.connections,
            per_origin: limits.unauthenticated_per_address().max(1),
            state: Mutex::default(),
        })
    }

    /// No code that can panic runs under this lock.
    fn lock(&self) -> MutexGuard<'_, SlotTable> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a slot for a new connection, or `None` if all are in use and no connection can be evicted.
    pub(crate) fn admit(self: &Arc<Self>, origin: ConnectionOrigin) -> Option<AdmittedConnection> {
        let mut state = self.lock();
        let victim = match state.oldest_of_many(origin, self.per_origin) {
            Some(id) => Some(id),
            None if state.open.len() >= self.connections => Some(state.eviction_candidate()?),
            None => None,
        };
        // Dropping a slot locks the table again, so the last reference must not be dropped here.
        let victim = victim.and_then(|id| state.remove(id)).and_then(|entry| entry.slot.upgrade());
        let id = state.next_number();
        let slot = Arc::new(ConnectionSlot { slots: self.clone(), id, evict: Notify::new() });
        let entry = SlotEntry {
            origin,
            is_proxied: origin == ConnectionOrigin::Proxy,
            slot: Arc::downgrade(&slot),
            authenticated: false,
            requests: 0,
            held: 0,
            requested: false,
            idle_since: Instant::now(),
            rank: None,
        };
        state.open.insert(id, entry);
        state.update(id, |_| ());
        drop(state);
        let evicted = victim.is_some();
        if let Some(victim) = victim {
            victim.evict.notify_one();
        }
        Some(AdmittedConnection { slot, evicted })
    }
}

/// The slot of one connection. It is free again when the last reference is dropped.
#[derive(Debug)]
pub(crate) struct ConnectionSlot {
    slots: Arc<ConnectionSlots>,
    id: u64,
    evict: Notify,
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let removed = self.slots.lock().remove(self.id);
        drop(removed);
    }
}

impl ConnectionSlot {
    /// Waits until the connection is evicted.
    pub(crate) async fn evicted(&self) {
        self.evict.notified().await;
    }

    /// Records that the peer has presented valid credentials.
    pub(crate) fn mark_authenticated(&self) {
        self.slots.lock().update(self.id, |entry| entry.authenticated = true);
    }

    /// Attributes a connection of a proxy to the client of the request that is in progress. If it carries several requests,
    /// it stays one of the proxy. Returns whether a connection was evicted, because the client has too many.
    pub(crate) fn attribute_to(&self, client: ConnectionOrigin) -> bool {
        let mut state = self.slots.lock();
        state.update(self.id, |entry| {
            if entry.is_proxied && entry.origin != client {
                entry.origin = if entry.requests <= 1 { client } else { ConnectionOrigin::Proxy };
            }
        });
        let victim = state.oldest_of_many(client, self.slots.per_origin + 1);
        // Dropping a slot locks the table again, so the last reference must not be dropped here.
        let victim = victim.and_then(|id| state.remove(id)).and_then(|entry| entry.slot.upgrade());
        drop(state);
        victim.is_some_and(|victim| {
            victim.evict.notify_one();
            true
        })
    }

    /// Counts a request as in progress until the guard is dropped.
    pub(crate) fn start_request(self: &Arc<Self>) -> RequestGuard {
        self.slots.lock().update(self.id, |entry| {
            entry.requests += 1;
            entry.requested = true;
        });
        RequestGuard(self.clone())
    }

    /// Protects the connection from eviction until the guard is dropped, for a subscription or agent that it carries.
    pub(crate) fn hold(self: &Arc<Self>) -> SlotHold {
        self.slots.lock().update(self.id, |entry| entry.held += 1);
        SlotHold(self.clone())
    }

    /// Returns when the connection reaches its idle timeout, or `None` while it is in use.
    pub(crate) fn idle_until(&self, limits: &Limits) -> Option<Instant> {
        let state = self.slots.lock();
        let entry = state.open.get(&self.id)?;
        let most = if entry.requested { limits.idle() } else { limits.request() };
        (entry.requests == 0 && entry.held == 0).then(|| later(entry.idle_since, most))
    }
}

/// Adds at most a day, so that a large setting cannot overflow.
fn later(from: Instant, by: Duration) -> Instant {
    from + by.min(Duration::from_secs(24 * 60 * 60))
}

/// A request in progress.
#[derive(Debug)]
pub(crate) struct RequestGuard(Arc<ConnectionSlot>);

impl Drop for RequestGuard {
    fn drop(&mut self) {
        self.0.slots.lock().update(self.0.id, |entry| {
            entry.requests -= 1;
            entry.idle_since = Instant::now();
            entry.forget_client();
        });
    }
}

/// Protects a connection from eviction until it is dropped.
#[derive(Debug)]
pub(crate) struct SlotHold(Arc<ConnectionSlot>);

impl Drop for SlotHold {
    fn drop(&mut self) {
        self.0.slots.lock().update(self.0.id, |entry| {
            entry.held -= 1;
            entry.idle_since = Instant::now();
            entry.forget_client();
        });
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn slots(connections: usize, per_address: usize) -> Arc<ConnectionSlots> {
        let limits = Limits { connections, unauthenticated_per_address: Some(per_address), ..Limits::default() };
        ConnectionSlots::new(&limits)
    }

    fn from(address: &str) -> ConnectionOrigin {
        ConnectionOrigin::from(address.parse::<IpAddr>().unwrap())
    }

    fn is_evicted(slot: &ConnectionSlot) -> bool {
        slot.evicted().now_or_never().is_some()
    }

    #[test]
    fn oldest_silent_connection_is_evicted_first() {
        let slots = slots(3, 3);
        let [first, second, third] = [(); 3].map(|()| slots.admit(from("10.0.0.1")).unwrap().slot);
        let _request = first.start_request();
        let admitted = slots.admit(from("10.0.0.2")).unwrap();
        assert!(admitted.evicted);
        assert_eq!([&first, &second, &third].map(|slot| is_evicted(slot)), [false, true, false]);
        let _another = slots.admit(from("10.0.0.2")).unwrap();
        assert!(is_evicted(&third) && !is_evicted(&first), "a request in progress is evicted later");
    }

    #[test]
    fn subscriptions_and_authenticated_requests_are_not_evicted() {
        let slots = slots(2, 2);
        let [subscriber, caller] = [(); 2].map(|()| slots.admit(from("10.0.0.1")).unwrap().slot);
        let held = subscriber.hold();
        caller.mark_authenticated();
        let request = caller.start_request();
        assert!(slots.admit(from("10.0.0.2")).is_none(), "both keep their slots");
        drop(request);
        let stranger = slots.admit(from("10.0.0.2")).unwrap().slot;
        assert!(is_evicted(&caller), "an idle connection can be opened again");
        let _next = slots.admit(from("10.0.0.2")).unwrap();
        assert!(is_evicted(&stranger) && !is_evicted(&subscriber));
        drop(held);
    }

    #[test]
    fn address_at_its_limit_evicts_its_own_connection() {
        let slots = slots(10, 2);
        let other = slots.admit(from("10.0.0.9")).unwrap().slot;
        let [first, second] = [(); 2].map(|()| slots.admit(from("2001:db8::1")).unwrap().slot);
        let third = slots.admit(from("2001:db8::ffff:1")).unwrap();
        assert!(third.evicted && is_evicted(&first), "one network of 64 bits counts as one address");
        assert!(!is_evicted(&second) && !is_evicted(&other));
        second.mark_authenticated();
        assert!(!slots.admit(from("2001:db8::1")).unwrap().evicted, "authenticated connections do not count");
    }

    #[test]
    fn full_listener_evicts_from_the_origin_with_the_most_connections() {
        let slots = slots(4, 4);
        let single = slots.admit(from("10.0.0.1")).unwrap().slot;
        let many = [(); 3].map(|()| slots.admit(from("10.0.0.2")).unwrap().slot);
        let _new = slots.admit(from("10.0.0.3")).unwrap();
        assert!(!is_evicted(&single) && is_evicted(&many[0]));
    }

    #[test]
    fn connections_of_a_proxy_count_for_the_clients_of_their_requests() {
        let slots = slots(10, 2);
        let many = [(); 5].map(|()| slots.admit(ConnectionOrigin::Proxy).unwrap());
        assert!(many.iter().all(|admitted| !admitted.evicted), "a proxy has no limit of its own");
        let requests = [0, 1, 2].map(|i| many[i].slot.start_request());
        let evicted = [0, 1, 2].map(|i| many[i].slot.attribute_to(from("192.0.2.1")));
        assert_eq!(evicted, [false, false, true], "the client is above its limit");
        assert!(is_evicted(&many[0].slot) && !is_evicted(&many[1].slot) && !is_evicted(&many[2].slot));
        let _other = many[3].slot.start_request();
        assert!(!many[3].slot.attribute_to(from("192.0.2.2")), "other clients are not affected");
        drop(requests);
        let state = slots.lock();
        assert!(!state.unauthenticated.contains_key(&from("192.0.2.1")), "idle connections are the proxy's again");
        assert_eq!(state.unauthenticated.get(&ConnectionOrigin::Proxy).map(BTreeSet::len), Some(3));
    }

    #[test]
    fn credentials_of_one_client_do_not_protect_the_next_one_on_a_proxy_connection() {
        let slots = slots(1, 1);
        let slot = slots.admit(ConnectionOrigin::Proxy).unwrap().slot;
        let first = slot.start_request();
        slot.attribute_to(from("192.0.2.1"));
        slot.mark_authenticated();
        assert!(slots.admit(ConnectionOrigin::Proxy).is_none(), "an authenticated request is in progress");
        drop(first);
        let _second = slot.start_request();
        slot.attribute_to(from("192.0.2.2"));
        assert!(slots.admit(ConnectionOrigin::Proxy).unwrap().evicted && is_evicted(&slot));
    }

    #[test]
    fn slot_is_free_again_when_its_connection_ends() {
        let slots = slots(1, 1);
        let slot = slots.admit(ConnectionOrigin::Local).unwrap().slot;
        let held = slot.hold();
        drop(slot);
        assert!(slots.admit(ConnectionOrigin::Local).is_none(), "it still carries a subscription");
        drop(held);
        assert!(!slots.admit(ConnectionOrigin::Local).unwrap().evicted);
        let state = slots.lock();
        assert!(state.open.is_empty() && state.evictable.is_empty() && state.unauthenticated.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn idle_timeout_counts_from_the_last_request() {
        let limits = Limits { request_seconds: 10, idle_seconds: 60, ..Limits::default() };
        let slot = slots(1, 1).admit(ConnectionOrigin::Local).unwrap().slot;
        let start = Instant::now();
        assert_eq!(slot.idle_until(&limits), Some(start + Duration::from_secs(10)), "the first request is due");
        let request = slot.start_request();
        assert_eq!(slot.idle_until(&limits), None);
        tokio::time::advance(Duration::from_secs(100)).await;
        let held = slot.hold();
        drop(request);
        assert_eq!(slot.idle_until(&limits), None, "a subscription keeps it open");
        drop(held);
        assert_eq!(slot.idle_until(&limits), Some(start + Duration::from_secs(160)));
    }
}
