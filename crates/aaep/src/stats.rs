//! What can be counted about a producer while it runs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use aaep_proto::confirm::Resolution;
use aaep_proto::engine::{Engine, ReplyRejection};
use aaep_proto::frame::Frame;
use aaep_proto::id::ReplyToken;
use aaep_proto::message::Payload;

pub use aaep_proto::engine::{EngineStats, SubscriberCounts};

use crate::driver::DriverState;
use crate::transport::LinkTx;

/// What happened to questions and replies. Both are rare beside events, so a lock will do.
#[derive(Debug, Default)]
pub(crate) struct Stats {
    decided: Mutex<BTreeMap<Resolution, u64>>,
    ignored: Mutex<BTreeMap<ReplyRejection, u64>>,
    /// Questions that were put to someone and have not ended. The engine bounds how many there are.
    open: Mutex<BTreeSet<ReplyToken>>,
}

impl Stats {
    pub(crate) fn decided(&self, resolution: Resolution) {
        *self.decided.lock().unwrap_or_else(PoisonError::into_inner).entry(resolution).or_default() += 1;
    }

    pub(crate) fn ignored(&self, fault: ReplyRejection) {
        *self.ignored.lock().unwrap_or_else(PoisonError::into_inner).entry(fault).or_default() += 1;
    }

    pub(crate) fn asked(&self, token: &ReplyToken) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).insert(token.clone());
    }

    /// Notes that a question is put to a subscription. One that has ended meanwhile may still be on its way.
    pub(crate) fn note_question(&self, engine: &Engine, frame: &Frame) {
        let token = match &frame.event().payload {
            Payload::AwaitingConfirmation(question) => &question.reply_token,
            Payload::AwaitingClarification(question) => &question.reply_token,
            _ => return,
        };
        if engine.is_open(token) {
            self.asked(token);
        }
    }

    pub(crate) fn settled(&self, token: &ReplyToken) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(token);
    }

    pub(crate) fn is_open(&self, token: &ReplyToken) -> bool {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).contains(token)
    }

    pub(crate) fn replies(&self) -> ReplyStats {
        ReplyStats {
            decided: self.decided.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            ignored: self.ignored.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }
}

/// How questions ended and which replies were ignored, since the start.
///
/// ```
/// let counts = aaep::stats::ReplyStats::default();
/// assert!(counts.ignored.is_empty());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReplyStats {
    /// Questions by how they ended.
    pub decided: BTreeMap<Resolution, u64>,
    /// Replies by why they were ignored.
    pub ignored: BTreeMap<ReplyRejection, u64>,
}

/// Where a producer stands. Made by [`Producer::measure`](crate::Producer::measure).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let producer = aaep::Producer::builder("gardener").build();
/// assert_eq!(producer.stats().await.expect("it runs").sessions, 0);
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProducerStats {
    /// Who listens.
    pub presence: SubscriberCounts,
    /// What has happened since the start.
    pub counts: EngineStats,
    /// Sessions that go on.
    pub sessions: usize,
    /// Questions that wait.
    pub questions: usize,
    /// Events that wait for the pace of their subscription.
    pub held: usize,
    /// Events that wait for the reader of their link.
    pub queued: usize,
    /// Links whose reader does not keep up.
    pub blocked: usize,
    /// Whether what must survive a restart cannot be kept at the moment: every question is answered with no.
    pub storage_failing: bool,
    /// Subscriptions that were ended because too much waited for all readers.
    pub shed: u64,
    /// About how many bytes of events wait for readers or are kept for those that come back.
    pub waiting_bytes: usize,
}

impl DriverState {
    /// What there is to count.
    pub(crate) fn measure(&self) -> ProducerStats {
        let depths = self.ports.values().map(LinkTx::depth);
        ProducerStats {
            presence: self.engine().subscriber_counts(),
            counts: self.engine().stats(),
            sessions: self.engine().open_sessions(),
            questions: self.engine().open_questions(),
            held: self.ports.keys().map(|key| self.engine().waiting(*key)).sum(),
            queued: depths.sum(),
            storage_failing: self.recorder.as_ref().is_some_and(|recorder| !recorder.journal.is_healthy()),
            blocked: self.ports.values().filter(|port| port.blocked).count(),
            shed: self.shedding.ended,
            waiting_bytes: self.engine().config().frames.bytes(),
        }
    }
}
