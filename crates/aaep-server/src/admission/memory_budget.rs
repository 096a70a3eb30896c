//! A budget for the memory that peers can make the server use, per account and in total.
//!
//! Memory is reserved before it is used: subscriptions with their terms, sessions, outputs, questions, incomplete messages.
//! If a reservation does not fit, it is refused together with the work that needs it; earlier reservations stay. The last
//! eighth of an account and the last quarter of the budget are for small reservations, and the last eighth of the budget is
//! for small accounts, so that a peer that needs little is served while others use much. Events that wait for readers are
//! limited separately, by the producer, because subscriptions share them.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A reservation up to this size is small: enough to start, such as a subscription with usual terms, or an agent with a
/// session and an output.
const SMALL_RESERVATION_BYTES: usize = 64 * 1024;

/// An incomplete message up to this size is not counted: every connection has buffers of this size anyway, and a reply to a
/// question must always be received.
const UNCOUNTED_BYTES: usize = 8 * 1024;

/// An account up to this size is small.
const SMALL_ACCOUNT_BYTES: usize = 256 * 1024;

/// The kind of an account. Agents and subscribers of one principal have separate accounts: without credentials all peers
/// are one principal, and neither kind must exhaust the memory of the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum AccountKind {
    /// Subscriptions and what subscribers send.
    Subscribe,
    /// Sessions and what agents send.
    Produce,
}

/// The account that a reservation is charged to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct MemoryAccount {
    part: AccountKind,
    principal: Arc<str>,
}

impl MemoryAccount {
    pub(crate) fn new(part: AccountKind, principal: &str) -> MemoryAccount {
        MemoryAccount { part, principal: principal.into() }
    }
}

/// The memory that peers can make the server use. Clones share the budget.
#[derive(Clone, Debug)]
pub(crate) struct MemoryBudget(Arc<BudgetInner>);

#[derive(Debug)]
struct BudgetInner {
    total_limit: usize,
    account_limit: usize,
    used: Mutex<BudgetUsage>,
}

#[derive(Debug, Default)]
struct BudgetUsage {
    total_bytes: usize,
    /// Bytes by account; no entry is zero.
    accounts: HashMap<MemoryAccount, usize>,
    refusals: u64,
}

impl MemoryBudget {
    /// Creates a budget with a limit in total and for each account.
    pub(crate) fn new(total_limit: usize, account_limit: usize) -> MemoryBudget {
        MemoryBudget(Arc::new(BudgetInner { total_limit, account_limit, used: Mutex::default() }))
    }

    /// Reserves memory for an account, until the reservation is dropped.
    #[cfg(test)]
    pub(crate) fn reserve(&self, account: MemoryAccount, bytes: usize) -> Result<MemoryReservation, OutOfMemory> {
        let mut reservation = self.empty(account);
        reservation.resize(bytes)?;
        Ok(reservation)
    }

    /// Returns an empty reservation of an account.
    pub(crate) fn empty(&self, account: MemoryAccount) -> MemoryReservation {
        MemoryReservation { budget: self.clone(), account, bytes: 0 }
    }

    /// Returns the reserved bytes.
    pub(crate) fn used(&self) -> usize {
        self.lock().total_bytes
    }

    /// Returns how many reservations were refused.
    pub(crate) fn refusals(&self) -> u64 {
        self.lock().refusals
    }

    fn lock(&self) -> MutexGuard<'_, BudgetUsage> {
        // No code that can panic runs under this lock.
        self.0.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reserved memory. Dropping it releases it.
#[derive(Debug)]
pub(crate) struct MemoryReservation {
    budget: MemoryBudget,
    account: MemoryAccount,
    bytes: usize,
}

impl MemoryReservation {
    /// Changes the size of the reservation. If that does not fit, nothing changes. Shrinking always succeeds.
    pub(crate) fn resize(&mut self, bytes: usize) -> Result<(), OutOfMemory> {
        let BudgetInner { total_limit, account_limit, .. } = *self.budget.0;
        let mut used = self.budget.lock();
        let of_account = used.accounts.get(&self.account).copied().unwrap_or(0);
        let (total, account) = (used.total_bytes - self.bytes + bytes, of_account - self.bytes + bytes);
        if bytes > self.bytes {
            let large = usize::from(bytes > SMALL_RESERVATION_BYTES);
            let large_account = usize::from(account > SMALL_ACCOUNT_BYTES);
            let account_limit = account_limit - large * account_limit / 8;
            let total_limit = total_limit - (large + large_account) * total_limit / 8;
            if total > total_limit || account > account_limit {
                used.refusals += 1;
                return Err(if account > account_limit { OutOfMemory::Account } else { OutOfMemory::Total });
            }
        }
        used.total_bytes = total;
        match account {
            0 => drop(used.accounts.remove(&self.account)),
            account => drop(used.accounts.insert(self.account.clone(), account)),
        }
        drop(used);
        self.bytes = bytes;
        Ok(())
    }

    /// Reserves memory for the received bytes of an incomplete message. A buffer grows by doubling. Such a reservation never
    /// counts as small: the share of small reservations is for work, not for messages that may never be completed.
    pub(crate) fn resize_unfinished(&mut self, message_bytes: usize) -> Result<(), OutOfMemory> {
        if message_bytes <= UNCOUNTED_BYTES {
            return self.resize(0);
        }
        self.resize((2 * message_bytes).max(SMALL_RESERVATION_BYTES + 1))
    }

    /// Reserves more.
    #[cfg(test)]
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), OutOfMemory> {
        self.resize(self.bytes.saturating_add(bytes))
    }
}

impl Drop for MemoryReservation {
    fn drop(&mut self) {
        // Shrinking always succeeds.
        let _ = self.resize(0);
    }
}

/// Why memory cannot be reserved, and what to do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutOfMemory {
    /// The account has reached its limit.
    Account,
    /// The server has reached its limit.
    Total,
}

impl OutOfMemory {
    /// Returns the message for people.
    pub(crate) fn message(self) -> &'static str {
        match self {
            OutOfMemory::Account => {
                "These credentials have reached their memory limit (limits.memory_bytes_per_principal). \
                 End sessions or subscriptions first."
            }
            OutOfMemory::Total => "The server has reached its memory limit (limits.memory_bytes). Try again later.",
        }
    }
}

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

impl std::error::Error for OutOfMemory {}

#[cfg(test)]
mod tests {
    use super::*;

    fn eve() -> MemoryAccount {
        MemoryAccount::new(AccountKind::Subscribe, "eve")
    }

    #[test]
    fn account_cannot_use_the_memory_of_another() {
        let budget = MemoryBudget::new(100, 60);
        let held = budget.reserve(eve(), 60).unwrap();
        assert_eq!(budget.reserve(eve(), 1).unwrap_err(), OutOfMemory::Account);
        let agent = budget.reserve(MemoryAccount::new(AccountKind::Produce, "eve"), 40).unwrap();
        assert_eq!(
            budget.reserve(MemoryAccount::new(AccountKind::Subscribe, "ada"), 1).unwrap_err(),
            OutOfMemory::Total
        );
        drop((held, agent));
        assert_eq!((budget.used(), budget.refusals()), (0, 2));
        assert!(budget.lock().accounts.is_empty());
    }

    #[test]
    fn large_reservations_leave_memory_for_small_ones() {
        let budget = MemoryBudget::new(8 << 20, 8 << 20);
        let mut large = budget.reserve(eve(), 0).unwrap();
        while large.grow(4096).is_ok() {}
        assert_eq!(budget.used(), 6 << 20);
        let mut small = Vec::new();
        while let Ok(reservation) = budget.reserve(eve(), 4096) {
            small.push(reservation);
        }
        assert_eq!(budget.used(), 7 << 20);
        assert!(budget.reserve(MemoryAccount::new(AccountKind::Subscribe, "ada"), 4096).is_ok());
    }

    #[test]
    fn reservation_that_cannot_grow_is_unchanged() {
        let budget = MemoryBudget::new(100, 100);
        let mut reservation = budget.reserve(eve(), 50).unwrap();
        assert!(reservation.grow(51).is_err());
        assert_eq!(budget.used(), 50);
        reservation.grow(50).unwrap();
        reservation.resize(10).unwrap();
        assert_eq!(budget.used(), 10);
    }
}
