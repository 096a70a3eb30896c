//! Limits on what peers can use, per principal and in total: connections, subscriptions, agents, memory, rates.

pub(crate) mod connection_slots;
pub(crate) mod http2_frames;
pub(crate) mod idle;
pub(crate) mod memory_budget;
pub(crate) mod message_memory;
#[cfg(feature = "grpc")]
pub(crate) mod metered_body;
pub(crate) mod quota;
pub(crate) mod rate;
pub(crate) mod throttle;

use aaep::message::{ReasonCode, SubscriptionRequest};
use aaep::transport::{Link, Rejection, Reservation, ResumePolicy};
use aaep_proto::occupancy::memory_of_terms;

use crate::admission::memory_budget::{AccountKind, MemoryAccount, MemoryBudget, MemoryReservation};
use crate::admission::quota::{Quota, QuotaLimits, QuotaSlot};
use crate::config::Limits;
use crate::context::ServerContext;
use crate::engines::EngineRef;
use crate::peer::Peer;

/// Open questions of all agents.
const MAX_QUESTIONS: usize = 65_536;

/// Open sessions of one engine.
const MAX_SESSIONS_OF_ENGINE: usize = aaep_proto::limits::SESSIONS;

/// When a peer should retry after a quota was used up.
const RETRY_AFTER_SECONDS: u32 = 30;

/// Approximate memory of a subscription besides its terms: its queues, timers and map entries.
const SUBSCRIPTION_BYTES: usize = 1536;

/// The quotas and memory budgets of a server.
#[derive(Clone, Debug)]
pub(crate) struct Admission {
    pub(crate) subscriptions: Quota,
    pub(crate) agents: Quota,
    pub(crate) sessions: Quota,
    pub(crate) questions: Quota,
    /// Counts sessions by the user whom they are for.
    pub(crate) user_sessions: Quota,
    /// Counts questions by the user whom they are for.
    pub(crate) user_questions: Quota,
    pub(crate) memory: MemoryBudget,
    /// For the responses by which duplicate events are recognized. When it is used up, older ones are forgotten sooner.
    deduplication: MemoryBudget,
}

impl Admission {
    /// Creates the limits of a server without credentials, where all peers are one principal. Agents are still
    /// distinguished by the names of their connections, so that sessions and questions are shared among them.
    pub(crate) fn shared(limits: &Limits) -> Admission {
        let everything = QuotaLimits::shared;
        let (subscriptions, agents) = (everything(limits.subscriptions), everything(limits.agents));
        Admission::new(limits, subscriptions, agents, limits.sessions.min(MAX_SESSIONS_OF_ENGINE))
    }

    /// Creates the limits of a server whose peers authenticate. If all of them are one user, one engine has all sessions.
    pub(crate) fn per_principal(limits: &Limits, is_per_user: bool) -> Admission {
        let subscriptions = QuotaLimits::per_principal(limits.subscriptions, limits.subscriptions_per_principal);
        let agents = QuotaLimits::per_principal(limits.agents, limits.agents_per_principal);
        let sessions = if is_per_user { limits.sessions } else { limits.sessions.min(MAX_SESSIONS_OF_ENGINE) };
        Admission::new(limits, subscriptions, agents, sessions)
    }

    fn new(limits: &Limits, subscriptions: QuotaLimits, agents: QuotaLimits, max_sessions: usize) -> Admission {
        let sessions = QuotaLimits::per_principal(max_sessions, limits.sessions_per_principal);
        let questions = QuotaLimits::per_principal(MAX_QUESTIONS, limits.questions_per_principal);
        let of_one_user = limits.sessions_per_user.min(MAX_SESSIONS_OF_ENGINE);
        let user_sessions = QuotaLimits::per_principal(max_sessions, of_one_user);
        let user_questions = QuotaLimits::per_principal(MAX_QUESTIONS, limits.questions_per_user);
        // The other half is for events that wait for readers, which the producer limits.
        let total = limits.memory_bytes / 2;
        Admission {
            subscriptions: Quota::new("subscriptions", "limits.subscriptions_per_principal", subscriptions),
            agents: Quota::new("agents", "limits.agents_per_principal", agents),
            sessions: Quota::new("sessions", "limits.sessions_per_principal", sessions),
            questions: Quota::new("questions", "limits.questions_per_principal", questions),
            user_sessions: Quota::new("sessions", "limits.sessions_per_user", user_sessions),
            user_questions: Quota::new("questions", "limits.questions_per_user", user_questions),
            memory: MemoryBudget::new(total, limits.memory_bytes_per_principal.min(total)),
            deduplication: MemoryBudget::new(total / 4, total / 4),
        }
    }

    /// Returns an empty reservation of a subscriber.
    pub(crate) fn subscriber_memory(&self, principal: &str) -> MemoryReservation {
        self.memory.empty(MemoryAccount::new(AccountKind::Subscribe, principal))
    }

    /// Returns an empty reservation of an agent.
    pub(crate) fn agent_memory(&self, principal: &str) -> MemoryReservation {
        self.memory.empty(MemoryAccount::new(AccountKind::Produce, principal))
    }

    /// Returns an empty reservation for the responses by which duplicate events of an agent are recognized.
    pub(crate) fn remembered_memory(&self, principal: &str) -> MemoryReservation {
        self.deduplication.empty(MemoryAccount::new(AccountKind::Produce, principal))
    }

    /// Reserves the quota slot and the memory of a subscription.
    fn reserve(&self, principal: &str, bytes: usize) -> Result<SubscriptionReservation, Rejection> {
        let slot = self.subscriptions.acquire(principal).map_err(|error| rejection(error.to_string()))?;
        let mut reservation = SubscriptionReservation { memory: self.subscriber_memory(principal), _slot: slot };
        reservation.resize(bytes)?;
        Ok(reservation)
    }
}

impl ServerContext {
    /// Opens a subscription within the quotas of its principal.
    pub(crate) async fn subscribe(
        &self,
        request: &SubscriptionRequest,
        peer: &Peer,
        engine: &EngineRef,
        binding: ResumePolicy,
    ) -> Result<Link, Rejection> {
        let bytes = memory_of_terms(&request.capabilities);
        let reservation = self.admission.reserve(peer.principal(), bytes).inspect_err(|rejection| {
            self.metrics.refused_subscription();
            tracing::info!(principal = peer.principal(), reason = %rejection.message, "subscription rejected");
        })?;
        engine.subscribe_with_reservation(request, peer.principal(), binding, Box::new(reservation)).await
    }
}

/// The quota slot and memory of a subscription.
#[derive(Debug)]
struct SubscriptionReservation {
    memory: MemoryReservation,
    _slot: QuotaSlot,
}

impl Reservation for SubscriptionReservation {
    fn resize(&mut self, bytes: usize) -> Result<(), Rejection> {
        self.memory.resize(SUBSCRIPTION_BYTES + bytes).map_err(|error| rejection(error.message().to_owned()))
    }
}

fn rejection(message: String) -> Rejection {
    Rejection { reason_code: ReasonCode::RateLimit, message, retry_after_seconds: Some(RETRY_AFTER_SECONDS) }
}
