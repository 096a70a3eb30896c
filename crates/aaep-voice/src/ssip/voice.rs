//! What callers hold: the voice, how it should sound, and what it tells.

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

/// How many events wait for a slow listener before it misses some.
const EVENTS: usize = 1024;

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
    /// None of it.
    None,
    /// What changes the meaning.
    Some,
    /// Nearly all.
    Most,
    /// All of it.
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

/// How a voice is found and how it sounds. The user's own settings of speech-dispatcher apply where this says nothing.
///
/// ```
/// use aaep_voice::VoiceConfig;
/// let config = VoiceConfig { words_per_minute: Some(300), ..VoiceConfig::default() };
/// assert!(config.address.is_none());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VoiceConfig {
    /// Where the server listens. Without it `SPEECHD_ADDRESS` decides, else it is the user's own socket.
    pub address: Option<Endpoint>,
    /// The command that starts a server when none answers, without the address. `None`: none is started.
    pub start: Option<Vec<String>>,
    /// What this client is for, as users see it in lists of clients.
    pub component: String,
    /// How fast. Voices other than espeak-ng may differ.
    pub words_per_minute: Option<u16>,
    /// Which punctuation is read aloud.
    pub punctuation: Option<Punctuation>,
    /// How many utterances may wait.
    pub waiting: usize,
    /// How long a message may take beyond the time its length explains, before it is given up.
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
    /// The rate in the server's own measure.
    pub(super) fn rate(&self) -> Option<i32> {
        let words = i32::from(self.words_per_minute?).clamp(RATES[0].0, RATES[2].0);
        let (low, high) = if words < RATES[1].0 { (RATES[0], RATES[1]) } else { (RATES[1], RATES[2]) };
        Some(low.1 + (words - low.0) * (high.1 - low.1) / (high.0 - low.0))
    }

    /// The name has three parts of letters, digits, `-` and `_`.
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

/// What the callers and the task share.
pub(super) struct Shared {
    queue: Mutex<Queue>,
    events: broadcast::Sender<VoiceEvent>,
    changed: Notify,
    idle: watch::Sender<bool>,
    ended: watch::Sender<bool>,
}

impl Shared {
    /// Changes the queue and tells what came of it, in order.
    pub(super) fn with<T>(&self, change: impl FnOnce(&mut Queue) -> T) -> T {
        // The queue is whole between any two statements, so a panic elsewhere does not spoil it.
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let result = change(&mut queue);
        for event in queue.take_events() {
            // Nobody has to listen.
            let _ = self.events.send(event);
        }
        let idle = queue.is_idle();
        self.idle.send_if_modified(|was| std::mem::replace(was, idle) != idle);
        result
    }

    /// Waits until a caller wants something.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Waits until nobody holds the voice any more.
    pub(super) async fn ended(&self) {
        // The sender lives in `self`, so this cannot fail.
        let _ = self.ended.subscribe().wait_for(|ended| *ended).await;
    }
}

/// Ends the task together with the last voice.
struct Holder(Arc<Shared>);

impl Drop for Holder {
    fn drop(&mut self) {
        self.0.ended.send_replace(true);
    }
}

/// A voice of speech-dispatcher. Copies speak with the same voice.
///
/// Nothing here waits for the server: utterances go into a bounded queue, and one task does the talking. A server
/// that dies is looked for again; what then was not said to its end and matters is said once more.
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
    /// Starts a voice that looks for its server by itself. Must be called within a tokio runtime.
    pub fn start(config: VoiceConfig) -> Voice {
        Voice::begin(config, None)
    }

    /// Connects first, so that a missing server is known at once. Later losses are told as events.
    pub async fn connect(config: VoiceConfig) -> Result<Voice, VoiceError> {
        let connection = task::open(&config).await?;
        Ok(Voice::begin(config, Some(connection)))
    }

    fn begin(config: VoiceConfig, connection: Option<Connection>) -> Voice {
        let shared = Arc::new(Shared {
            queue: Mutex::new(Queue::new(config.waiting)),
            events: broadcast::Sender::new(EVENTS),
            changed: Notify::new(),
            idle: watch::Sender::new(true),
            ended: watch::Sender::new(false),
        });
        let of_task = Arc::clone(&shared);
        tokio::spawn(async move {
            // However it ends, callers must learn that nothing is said any more.
            let _ending = Holder(Arc::clone(&of_task));
            task::run(&of_task, &config, connection).await;
        });
        Voice { _holder: Arc::new(Holder(Arc::clone(&shared))), shared }
    }

    /// Puts an utterance into the queue. What becomes of it is told as events with this number.
    pub fn say(&self, utterance: Utterance) -> Result<SpeechId, SayError> {
        if *self.shared.ended.borrow() {
            return Err(SayError::Gone);
        }
        let result = self.shared.with(|queue| queue.push(utterance));
        self.shared.changed.notify_one();
        result
    }

    /// Takes back everything that belongs to this, be it waiting or being said, and nothing else.
    pub fn cancel_about(&self, about: &str) {
        self.shared.with(|queue| queue.cancel_about(about));
        self.shared.changed.notify_one();
    }

    /// Silence, now. What waits is taken back too.
    pub fn stop(&self) {
        self.shared.with(|queue| queue.stop());
        self.shared.changed.notify_one();
    }

    /// What happens from now on.
    pub fn events(&self) -> Events {
        Events { events: self.shared.events.subscribe(), ended: self.shared.ended.subscribe() }
    }

    /// Waits until nothing is being said and nothing waits.
    pub async fn idle(&self) {
        let mut idle = self.shared.idle.subscribe();
        let mut ended = self.shared.ended.subscribe();
        tokio::select! {
            _ = idle.wait_for(|idle| *idle) => {}
            _ = ended.wait_for(|ended| *ended) => {}
        }
    }
}

/// What a voice tells.
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
    /// The next event, or nothing when the voice has ended. A listener that sleeps through a thousand events misses
    /// the oldest. Nothing is lost if the wait is dropped.
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
    fn a_client_name_has_three_plain_parts() {
        let name = VoiceConfig { component: "a b:c\r\nSTOP all".into(), ..VoiceConfig::default() }.client_name();
        let parts: Vec<&str> = name.split(':').collect();
        assert_eq!(parts[1..], ["aaep", "abcSTOPall"]);
        assert!(!parts[0].is_empty());
    }
}
