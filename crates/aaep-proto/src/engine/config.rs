//! The configuration of an engine.

use crate::frame::FrameMeter;
use crate::limits;
use crate::message::Producer;
use crate::negotiate::Offer;

/// What happens to a question when nobody is subscribed at all (decision 1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoSubscriberPolicy {
    /// It waits until its timeout, and is delivered to subscribers that connect meanwhile.
    #[default]
    Wait,
    /// Its default applies at once.
    ApplyDefault,
}

/// The configuration of an engine.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EngineConfig {
    /// The producer of all sessions that name no other.
    pub producer: Producer,
    /// The capabilities that subscriptions can get.
    pub offer: Offer,
    /// What happens to a question when nobody is subscribed.
    pub no_subscriber_policy: NoSubscriberPolicy,
    /// How long a resumable subscription may be disconnected and still count as able to answer.
    pub resume_window_secs: u64,
    /// Where the manifest is published.
    pub manifest_uri: Option<String>,
    /// The signed manifest for subscribers that demand it, if the offer includes that.
    pub signed_manifest: Option<String>,
    /// Whether [`EngineEffect::Journal`](super::EngineEffect::Journal) is returned for what must survive a restart.
    /// Questions and decisions then wait for [`Engine::handle_journal_ack`](super::Engine::handle_journal_ack).
    pub journal: bool,
    /// Counts the bytes of all events that wait for subscriptions.
    pub frames: FrameMeter,
}

impl EngineConfig {
    /// Makes the default configuration for a producer.
    pub fn new(producer: Producer) -> EngineConfig {
        EngineConfig {
            producer,
            offer: Offer::default(),
            no_subscriber_policy: NoSubscriberPolicy::Wait,
            resume_window_secs: limits::RESUME_WINDOW_SECS,
            manifest_uri: None,
            signed_manifest: None,
            journal: false,
            frames: FrameMeter::default(),
        }
    }
}
