//! The public API of speech: the voice, its configuration and its events.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aaep_announce::Utterance;
use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, broadcast, watch};

use super::error::{SayError, VoiceError};
use super::queue::{Queue, SpeechId, VoiceEvent};
use super::task;
use super::wire::Connection;
use crate::endpoint::Endpoint;

/// How many events are kept for a slow receiver before it misses some.
const MAX_QUEUED_EVENTS: usize = 1024;

/// Words per minute of the rates -100, 0 and 100, as speech-dispatcher sets its default voice.
const RATES: [(i32, i32); 3] = [(80, -100), (170, 0), (449, 100)];

/// Which punctuation is read aloud.
///
/// ```
/// use aaep_voice::{VoiceConfig, ssip::Punctuation};
/// let config = VoiceConfig { punctuation: Some(Punctuation::Some), ..VoiceConfig::default() };
/// # let _ = config;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Punctuation {
    /// No punctuation.
    None,
    /// Punctuation that changes the meaning.
    Some,
    /// Most punctuation.
    Most,
    /// All punctuation.
    All,
}

impl Punctuation {
    pub(super) fn word(self) -> &'static str {
        match self {
            Punctuation::None => "none",
            Punctuation::Some => "some",
            Punctuation::Most => "most",
            Punctuation::All => "all",
        }
    }
}

/// The configuration of a voice. The user's settings of speech-dispatcher apply where a field is `None`.
///
/// ```
/// use aaep_voice::VoiceConfig;
/// let config = VoiceConfig { words_per_minute: Some(300), ..VoiceConfig::default() };
/// assert!(config.address.is_none());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VoiceConfig {
    /// The address of the server. If `None`, it is read from `SPEECHD_ADDRESS`; the default is the user's own socket.
    pub address: Option<Endpoint>,
    /// The command that starts a server if none is running, without the address. If `None`, no server is started.
    pub start: Option<Vec<String>>,
    /// The name of this client's purpose, shown to users in lists of clients.
    pub component: String,
    /// The rate of speech. Exact for espeak-ng; other synthesizers may differ.
    pub words_per_minute: Option<u16>,
    /// Which punctuation is read aloud.
    pub punctuation: Option<Punctuation>,
    /// How many utterances may be queued.
    pub waiting: usize,
    /// How long a message may take beyond the time that its length needs, before it is canceled.
    pub timeout: Duration,
}

impl Default for VoiceConfig {
    fn default() -> VoiceConfig {
        VoiceConfig {
            address: None,
            start: Some(vec!["speech-dispatcher".into(), "--spawn".into()]),
            component: "main".into(),
            words_per_minute: None,
            punctuation: None,
            waiting: 64,
            timeout: Duration::from_secs(60),
        }
    }
}

impl VoiceConfig {
    /// Returns the rate in the unit of SSIP, -100 to 100.
    pub(super) fn rate(&self) -> Option<i32> {
        let words = i32::from(self.words_per_minute?).clamp(RATES[0].0, RATES[2].0);
        let (low, high) = if words < RATES[1].0 { (RATES[0], RATES[1]) } else { (RATES[1], RATES[2]) };
        Some(low.1 + (words - low.0) * (high.1 - low.1) / (high.0 - low.0))
    }

    /// Returns the SSIP name of the client: three parts of letters, digits, `-` and `_`.
    pub(super) fn client_name(&self) -> String {
        let part = |text: &str, other: &str| {
            let plain = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
            let kept: String = text.chars().filter(plain).take(32).collect();
            if kept.is_empty() { other.to_owned() } else { kept }
        };
        let user = std::env::var("USER").unwrap_or_default();
        format!("{}:aaep:{}", part(&user, "user"), part(&self.component, "main"))
    }
}

/// The state that the handles and the task share.
pub(super) struct Shared {
    queue: Mutex<Queue>,
    events: broadcast::Sender<VoiceEvent>,
    changed: Notify,
    idle: watch::Sender<bool>,
    ended: watch::Sender<bool>,
}

impl Shared {
    /// Changes the queue and sends the resulting events, in order.
    pub(super) fn with<T>(&self, change: impl FnOnce(&mut Queue) -> T) -> T {
        // No panic leaves the queue inconsistent, so a poisoned lock can be used.
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let result = change(&mut queue);
        for event in queue.take_events() {
            // There may be no receiver.
            let _ = self.events.send(event);
        }
        let idle = queue.is_idle();
        self.idle.send_if_modified(|was| std::mem::replace(was, idle) != idle);
        result
    }

    /// Waits until a handle changed the queue.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Waits until the last handle is dropped.
    pub(super) async fn ended(&self) {
        // The sender lives in `self`, so this cannot fail.
        let _ = self.ended.subscribe().wait_for(|ended| *ended).await;
    }
}

/// Marks the voice as ended when it is dropped.
struct Holder(Arc<Shared>);

impl Drop for Holder {
    fn drop(&mut self) {
        self.0.ended.send_replace(true);
    }
}

/// A handle of a speech queue for speech-dispatcher. Clones share the queue.
///
/// No method waits for the server: utterances go into a bounded queue, and a task sends them. The task reconnects when the
/// connection is lost, and then repeats the utterance that was interrupted, unless it was only progress.
///
/// ```no_run
/// use aaep_announce::{Priority, Utterance};
/// use aaep_voice::{Voice, VoiceConfig, VoiceEvent};
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let voice = Voice::connect(VoiceConfig::default()).await?;
/// let mut events = voice.events();
/// let id = voice.say(Utterance::new("Delete three files?", "en", Priority::Important))?;
/// while let Some(event) = events.next().await {
///     if matches!(event, VoiceEvent::Ended { id: ended, .. } if ended == id) {
///         break;
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Voice {
    shared: Arc<Shared>,
    _holder: Arc<Holder>,
}

impl Voice {
    /// Starts a voice that connects in the background. Must be called within a tokio runtime.
    pub fn start(config: VoiceConfig) -> Voice {
        Voice::begin(config, None)
    }

    /// Connects and then starts a voice, so that a missing server is an error. Later failures are reported as events.
    pub async fn connect(config: VoiceConfig) -> Result<Voice, VoiceError> {
        let connection = task::open(&config).await?;
        Ok(Voice::begin(config, Some(connection)))
    }

    fn begin(config: VoiceConfig, connection: Option<Connection>) -> Voice {
        let shared = Arc::new(Shared {
            queue: Mutex::new(Queue::new(config.waiting)),
            events: broadcast::Sender::new(MAX_QUEUED_EVENTS),
            changed: Notify::new(),
            idle: watch::Sender::new(true),
            ended: watch::Sender::new(false),
        });
        let of_task = Arc::clone(&shared);
        tokio::spawn(async move {
            // Marks the voice as ended even if the task panics.
            let _ending = Holder(Arc::clone(&of_task));
            task::run(&of_task, &config, connection).await;
        });
        Voice { _holder: Arc::new(Holder(Arc::clone(&shared))), shared }
    }

    /// Queues an utterance. Events about it carry the returned id.
    pub fn say(&self, utterance: Utterance) -> Result<SpeechId, SayError> {
        if *self.shared.ended.borrow() {
            return Err(SayError::Gone);
        }
        let result = self.shared.with(|queue| queue.push(utterance));
        self.shared.changed.notify_one();
        result
    }

    /// Cancels all utterances about this subject, queued or being spoken, and no others.
    pub fn cancel_about(&self, about: &str) {
        self.shared.with(|queue| queue.cancel_about(about));
        self.shared.changed.notify_one();
    }

    /// Stops what is being spoken and queues an utterance that responds to the user. Text and results that were stopped are
    /// spoken again after it; passing news, and what was first in turn, is canceled. A question that was not begun stays.
    pub fn respond(&self, utterance: Utterance) -> Result<SpeechId, SayError> {
        if *self.shared.ended.borrow() {
            return Err(SayError::Gone);
        }
        let result = self.shared.with(|queue| {
            queue.hush();
            queue.push(utterance)
        });
        self.shared.changed.notify_one();
        result
    }

    /// Returns whether nothing is being spoken and nothing is queued.
    pub fn is_idle(&self) -> bool {
        *self.shared.idle.borrow()
    }

    /// Stops speaking at once and cancels all queued utterances.
    pub fn stop(&self) {
        self.shared.with(|queue| queue.stop());
        self.shared.changed.notify_one();
    }

    /// Returns a receiver of all events from now on.
    pub fn events(&self) -> Events {
        Events { events: self.shared.events.subscribe(), ended: self.shared.ended.subscribe() }
    }

    /// Waits until nothing is being spoken and nothing is queued.
    pub async fn idle(&self) {
        let mut idle = self.shared.idle.subscribe();
        let mut ended = self.shared.ended.subscribe();
        tokio::select! {
            _ = idle.wait_for(|idle| *idle) => {}
            _ = ended.wait_for(|ended| *ended) => {}
        }
    }
}

/// A receiver of the events of a voice.
///
/// ```no_run
/// # async fn example(voice: aaep_voice::Voice) {
/// let mut events = voice.events();
/// while let Some(event) = events.next().await {
///     println!("{event:?}");
/// }
/// # }
/// ```
pub struct Events {
    events: broadcast::Receiver<VoiceEvent>,
    ended: watch::Receiver<bool>,
}

impl Events {
    /// Receives the next event. Returns `None` when the voice has ended. A receiver that falls more than 1024 events behind
    /// misses the oldest. Cancel safe.
    pub async fn next(&mut self) -> Option<VoiceEvent> {
        loop {
            let received = tokio::select! {
                biased;
                received = self.events.recv() => received,
                _ = self.ended.wait_for(|ended| *ended) => return self.events.try_recv().ok(),
            };
            match received {
                Ok(event) => return Some(event),
                Err(broadcast::error::RecvError::Lagged(missed)) => tracing::warn!(missed, "speech events missed"),
                Err(broadcast::error::RecvError::Closed) => return None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_per_minute_become_rates() {
        let rate = |words| VoiceConfig { words_per_minute: Some(words), ..VoiceConfig::default() }.rate();
        for (words, expected) in [(0, -100), (80, -100), (125, -50), (170, 0), (310, 50), (449, 100), (2000, 100)] {
            assert_eq!(rate(words), Some(expected));
        }
        assert_eq!(VoiceConfig::default().rate(), None);
    }

    #[test]
    fn client_name_has_three_plain_parts() {
        let name = VoiceConfig { component: "a b:c\r\nSTOP all".into(), ..VoiceConfig::default() }.client_name();
        let parts: Vec<&str> = name.split(':').collect();
        assert_eq!(parts[1..], ["aaep", "abcSTOPall"]);
        assert!(!parts[0].is_empty());
    }
}
