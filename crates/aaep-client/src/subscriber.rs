//! What the user's program holds.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use aaep_proto::message::{Capabilities, CloseReason};
use aaep_proto::subscriber::{PromptAnswer, PromptId, PromptReplyError, Subscriber as Machine, SubscriberStats};
use tokio::sync::{mpsc, oneshot};

use crate::address::Address;
use crate::connect::Connector;
use crate::driver::{Command, Driver};
use crate::options::{ConnectError, ConnectOptions};
use crate::queue::{Queue, Source, SubscriberEvent};

/// Commands that may wait. The task takes them at once, whatever the producer does.
const COMMANDS: usize = 32;

/// Why an answer was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyError {
    /// The question does not take it.
    Refused(PromptReplyError),
    /// The subscription is over.
    Over,
}

impl fmt::Display for ReplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReplyError::Refused(refused) => refused.fmt(f),
            ReplyError::Over => f.write_str("The subscription is over."),
        }
    }
}

impl std::error::Error for ReplyError {}

/// The side of a subscriber that speaks. It can be copied to wherever the user answers.
#[derive(Clone, Debug)]
pub struct SubscriberHandle {
    commands: mpsc::Sender<Command>,
}

impl SubscriberHandle {
    /// Answers a question. `Ok` means that the answer is on its way; what came of it is heard in the events.
    pub async fn reply(&self, prompt: PromptId, answer: PromptAnswer) -> Result<(), ReplyError> {
        let (done, result) = oneshot::channel();
        self.commands.send(Command::Reply(prompt, answer, done)).await.map_err(|_| ReplyError::Over)?;
        result.await.map_err(|_| ReplyError::Over)?.map_err(ReplyError::Refused)
    }

    /// Changes what this subscriber can take; what the change does not name stays. Answers whether the producer was
    /// asked; if not, the change holds from the next connection on.
    pub async fn renegotiate(&self, changes: Capabilities) -> bool {
        let (done, result) = oneshot::channel();
        let sent = self.commands.send(Command::Renegotiate(Box::new(changes), done)).await;
        sent.is_ok() && result.await.unwrap_or(false)
    }

    /// Ends the subscription, tells the producer, and waits until that is done.
    pub async fn close(&self, reason: impl Into<CloseReason>) {
        // If the task has ended already, there is nothing to end.
        let _ = self.commands.send(Command::Close(reason.into())).await;
        self.commands.closed().await;
    }

    /// What was counted since the start; nothing if it is over.
    pub async fn stats(&self) -> SubscriberStats {
        let (done, counts) = oneshot::channel();
        let _ = self.commands.send(Command::Counts(done)).await;
        counts.await.unwrap_or_default()
    }
}

fn begin(
    address: &str,
    options: ConnectOptions,
    queue: &Arc<Queue>,
    source: Source,
) -> Result<SubscriberHandle, ConnectError> {
    let address: Address = address.parse().map_err(ConnectError::Address)?;
    let machine = Machine::new(options.config.clone());
    let raw = options.raw;
    let opener = Connector::new(address, options)?;
    let (commands, inbox) = mpsc::channel(COMMANDS);
    tokio::spawn(Driver::new(machine, opener, queue.join(source, raw)).run(inbox));
    Ok(SubscriberHandle { commands })
}

/// A subscriber of one producer. When it is dropped, the subscription is closed.
///
/// ```no_run
/// use aaep_client::{PromptAnswer, SubscriberEvent, ConnectOptions, Subscriber};
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let capabilities = serde_json::from_str(r#"{"supports_confirmation_reply": true}"#)?;
/// let mut subscriber = Subscriber::connect("https://agents.example", ConnectOptions::new("reader-1", capabilities))?;
/// while let Some(heard) = subscriber.recv().await {
///     match heard {
///         SubscriberEvent::Event(event) => println!("{}", event.type_name()),
///         // Never answer for the user: this one said no.
///         SubscriberEvent::PromptOpened(prompt, _) => subscriber.reply(prompt.id, PromptAnswer::reject()).await?,
///         _ => {}
///     }
/// }
/// # Ok(())
/// # }
/// ```
pub struct Subscriber {
    voice: SubscriberHandle,
    queue: Arc<Queue>,
}

impl Subscriber {
    /// Begins to listen to the producer at this address. It connects, and connects again when it must, by itself; what
    /// becomes of that is heard. Must be called inside a tokio runtime.
    pub fn connect(address: &str, options: ConnectOptions) -> Result<Subscriber, ConnectError> {
        let queue = Arc::<Queue>::default();
        let voice = begin(address, options, &queue, 0)?;
        Ok(Subscriber { voice, queue })
    }

    /// The next thing that is heard; `None` after the end. Giving up waiting loses nothing.
    pub async fn recv(&mut self) -> Option<SubscriberEvent> {
        self.queue.recv().await.map(|(_, heard)| heard)
    }

    /// The side that speaks.
    pub fn handle(&self) -> SubscriberHandle {
        self.voice.clone()
    }

    /// Answers a question; see [`SubscriberHandle::reply`].
    pub async fn reply(&self, prompt: PromptId, answer: PromptAnswer) -> Result<(), ReplyError> {
        self.voice.reply(prompt, answer).await
    }

    /// Changes what this subscriber can take; see [`SubscriberHandle::renegotiate`].
    pub async fn renegotiate(&self, changes: Capabilities) -> bool {
        self.voice.renegotiate(changes).await
    }

    /// Ends the subscription; see [`SubscriberHandle::close`]. What was heard before can still be taken.
    pub async fn close(&self, reason: impl Into<CloseReason>) {
        self.voice.close(reason).await;
    }

    /// What was counted since the start.
    pub async fn stats(&self) -> SubscriberStats {
        self.voice.stats().await
    }
}

/// Names a producer among several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProducerId(Source);

/// Subscribers of several producers, heard through one queue: the critical first, and none can crowd out another.
///
/// ```no_run
/// use aaep_client::{ConnectOptions, Subscribers};
/// # async fn example() -> Result<(), aaep_client::ConnectError> {
/// let mut subscribers = Subscribers::new();
/// let gardener = subscribers.connect("unix:/run/user/1000/aaep/gardener.sock", ConnectOptions::new("r", Default::default()))?;
/// let librarian = subscribers.connect("wss://library.example", ConnectOptions::new("r", Default::default()))?;
/// while let Some((from, heard)) = subscribers.recv().await {
///     println!("{}: {heard:?}", if from == gardener { "gardener" } else { "librarian" });
/// }
/// # let _ = librarian;
/// # Ok(())
/// # }
/// ```
#[derive(Default)]
pub struct Subscribers {
    queue: Arc<Queue>,
    voices: BTreeMap<ProducerId, SubscriberHandle>,
    next: Source,
}

impl Subscribers {
    /// Nobody is listened to yet.
    pub fn new() -> Subscribers {
        Subscribers::default()
    }

    /// Begins to listen to one more producer; see [`Subscriber::connect`].
    pub fn connect(&mut self, address: &str, options: ConnectOptions) -> Result<ProducerId, ConnectError> {
        let id = ProducerId(self.next);
        let voice = begin(address, options, &self.queue, id.0)?;
        self.next += 1;
        self.voices.insert(id, voice);
        Ok(id)
    }

    /// The next thing that is heard, and from whom; `None` when all have ended. Giving up waiting loses nothing.
    pub async fn recv(&mut self) -> Option<(ProducerId, SubscriberEvent)> {
        let (source, heard) = self.queue.recv().await?;
        let id = ProducerId(source);
        if matches!(heard, SubscriberEvent::Ended(_)) {
            self.voices.remove(&id);
        }
        Some((id, heard))
    }

    /// The side that speaks to one producer, unless that has ended.
    pub fn handle(&self, id: ProducerId) -> Option<SubscriberHandle> {
        self.voices.get(&id).cloned()
    }

    /// The producers that have not ended.
    pub fn producers(&self) -> impl Iterator<Item = ProducerId> {
        self.voices.keys().copied()
    }

    /// Ends all subscriptions. What was heard before can still be taken.
    pub async fn close(&self, reason: impl Into<CloseReason>) {
        let reason = reason.into();
        for voice in self.voices.values() {
            // All are told first, then waited for.
            let _ = voice.commands.send(Command::Close(reason.clone())).await;
        }
        for voice in self.voices.values() {
            voice.commands.closed().await;
        }
    }
}
