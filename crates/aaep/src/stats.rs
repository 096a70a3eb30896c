//! Counters of a producer, for metrics and for diagnosis.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::AddAssign;
use std::sync::{Mutex, PoisonError};

use aaep_proto::confirm::{AuditRecord, Resolution};
use aaep_proto::engine::{Engine, ReplyRejection};
use aaep_proto::frame::Frame;
use aaep_proto::id::ReplyToken;
use aaep_proto::message::Payload;

pub use aaep_proto::engine::{EngineStats, QuestionSnapshot, SubscriberCounts, SubscriptionSnapshot};

use crate::driver::DriverState;
use crate::transport::LinkTx;

/// Decisions that are kept for operators.
const MAX_RECENT_DECISIONS: usize = 50;

/// Counters of questions and replies, shared by the driver and the producer. Both are rare compared to events, so locks
/// are cheap enough.
#[derive(Debug, Default)]
pub(crate) struct Stats {
    resolved: Mutex<BTreeMap<Resolution, u64>>,
    ignored: Mutex<BTreeMap<ReplyRejection, u64>>,
    /// Questions that were delivered to a subscription and are not resolved. The engine bounds how many there are.
    open: Mutex<BTreeSet<ReplyToken>>,
    /// The last decisions, the newest last.
    recent: Mutex<VecDeque<AuditRecord>>,
}

impl Stats {
    pub(crate) fn count_resolved(&self, resolution: Resolution) {
        *self.resolved.lock().unwrap_or_else(PoisonError::into_inner).entry(resolution).or_default() += 1;
    }

    pub(crate) fn note_decision(&self, record: &AuditRecord) {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        if recent.len() >= MAX_RECENT_DECISIONS {
            recent.pop_front();
        }
        recent.push_back(record.clone());
    }

    pub(crate) fn recent_decisions(&self) -> Vec<AuditRecord> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner).iter().rev().cloned().collect()
    }

    pub(crate) fn count_ignored(&self, rejection: ReplyRejection) {
        *self.ignored.lock().unwrap_or_else(PoisonError::into_inner).entry(rejection).or_default() += 1;
    }

    pub(crate) fn insert_open(&self, token: &ReplyToken) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).insert(token.clone());
    }

    /// Counts a question as open if the event asks one. A question that was resolved while its event was queued is not
    /// open.
    pub(crate) fn note_question(&self, engine: &Engine, frame: &Frame) {
        let token = match &frame.event().payload {
            Payload::AwaitingConfirmation(question) => &question.reply_token,
            Payload::AwaitingClarification(question) => &question.reply_token,
            _ => return,
        };
        if engine.is_open(token) {
            self.insert_open(token);
        }
    }

    pub(crate) fn remove_open(&self, token: &ReplyToken) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(token);
    }

    pub(crate) fn is_open(&self, token: &ReplyToken) -> bool {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).contains(token)
    }

    pub(crate) fn replies(&self) -> ReplyStats {
        ReplyStats {
            resolved: self.resolved.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            ignored: self.ignored.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }
}

/// How questions were resolved and why replies were ignored, since the producer started. Returned by
/// [`Producer::reply_stats`](crate::Producer::reply_stats).
///
/// ```
/// let counts = aaep::stats::ReplyStats::default();
/// assert!(counts.ignored.is_empty());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReplyStats {
    /// Resolved questions by resolution.
    pub resolved: BTreeMap<Resolution, u64>,
    /// Ignored replies by reason.
    pub ignored: BTreeMap<ReplyRejection, u64>,
}

/// The state of a producer in numbers. Returned by [`Producer::stats`](crate::Producer::stats).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let producer = aaep::Producer::builder("gardener").build();
/// assert_eq!(producer.stats().await.expect("the producer runs").sessions, 0);
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProducerStats {
    /// Subscriptions, and how many of them can reply.
    pub subscribers: SubscriberCounts,
    /// Counters since the producer started.
    pub counts: EngineStats,
    /// Open sessions.
    pub sessions: usize,
    /// Open questions.
    pub questions: usize,
    /// Events that the engine holds back, because of the rate or pace of their subscription or because its link is full.
    pub held: usize,
    /// Items that are queued in links.
    pub queued: usize,
    /// Links that are full.
    pub blocked: usize,
    /// Whether the journal cannot record at the moment. Then every question is rejected.
    pub storage_failing: bool,
    /// Subscriptions that were closed because queued events used too much memory.
    pub shed: u64,
    /// About how many bytes of events are queued, or kept for subscribers that may resume.
    pub queued_bytes: usize,
}

impl ProducerStats {
    /// Whether the producer has no session, question or subscription.
    pub fn is_idle(&self) -> bool {
        self.sessions == 0 && self.questions == 0 && self.subscribers.subscriptions == 0
    }
}

/// Adds the numbers of another producer.
impl AddAssign for ProducerStats {
    fn add_assign(&mut self, other: ProducerStats) {
        let (subscribers, counts) = (&mut self.subscribers, &mut self.counts);
        subscribers.subscriptions += other.subscribers.subscriptions;
        subscribers.can_confirm += other.subscribers.can_confirm;
        subscribers.can_clarify += other.subscribers.can_clarify;
        counts.sessions += other.counts.sessions;
        counts.published += other.counts.published;
        counts.queued += other.counts.queued;
        counts.delivered += other.counts.delivered;
        self.sessions += other.sessions;
        self.questions += other.questions;
        self.held += other.held;
        self.queued += other.queued;
        self.blocked += other.blocked;
        self.storage_failing |= other.storage_failing;
        self.shed += other.shed;
        self.queued_bytes += other.queued_bytes;
    }
}

/// Adds the numbers of another producer.
impl AddAssign for ReplyStats {
    fn add_assign(&mut self, other: ReplyStats) {
        other
            .resolved
            .into_iter()
            .for_each(|(resolution, count)| *self.resolved.entry(resolution).or_default() += count);
        other.ignored.into_iter().for_each(|(rejection, count)| *self.ignored.entry(rejection).or_default() += count);
    }
}

/// What an operator sees of a producer. Returned by [`Producer::snapshot`](crate::Producer::snapshot).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let producer = aaep::Producer::builder("gardener").build();
/// assert!(producer.snapshot().await.expect("the producer runs").subscriptions.is_empty());
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ProducerSnapshot {
    /// The numbers.
    pub stats: ProducerStats,
    /// The subscriptions, each with how many items are queued in its link.
    pub subscriptions: Vec<(SubscriptionSnapshot, usize)>,
    /// The open questions.
    pub questions: Vec<QuestionSnapshot>,
    /// The last decisions, the newest first.
    pub decisions: Vec<AuditRecord>,
}

/// Adds what there is of another producer.
impl AddAssign for ProducerSnapshot {
    fn add_assign(&mut self, other: ProducerSnapshot) {
        self.stats += other.stats;
        self.subscriptions.extend(other.subscriptions);
        self.questions.extend(other.questions);
        self.decisions.extend(other.decisions);
        self.decisions.sort_by_key(|record| std::cmp::Reverse(record.decided_at));
        self.decisions.truncate(MAX_RECENT_DECISIONS);
    }
}

impl DriverState {
    /// Returns what an operator sees.
    pub(crate) fn producer_snapshot(&self) -> ProducerSnapshot {
        let queued = |subscription: &SubscriptionSnapshot| self.links.get(&subscription.key).map_or(0, LinkTx::queued);
        let subscriptions = self.engine().subscription_snapshots().into_iter();
        ProducerSnapshot {
            stats: self.producer_stats(),
            subscriptions: subscriptions.map(|subscription| (subscription.clone(), queued(&subscription))).collect(),
            questions: self.engine().question_snapshots(),
            decisions: self.recent_decisions(),
        }
    }

    /// Returns the current numbers.
    pub(crate) fn producer_stats(&self) -> ProducerStats {
        ProducerStats {
            subscribers: self.engine().subscriber_counts(),
            counts: self.engine().stats(),
            sessions: self.engine().open_sessions(),
            questions: self.engine().open_questions(),
            held: self.links.keys().map(|key| self.engine().waiting(*key)).sum(),
            queued: self.links.values().map(LinkTx::queued).sum(),
            storage_failing: self.recorder.as_ref().is_some_and(|recorder| !recorder.journal.is_healthy()),
            blocked: self.links.values().filter(|link_tx| link_tx.is_blocked()).count(),
            shed: self.memory_limit.closed,
            queued_bytes: self.queued_bytes(),
        }
    }
}
