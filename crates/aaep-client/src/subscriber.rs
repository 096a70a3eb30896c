//! The API of the program: subscribers of one and of several producers.

use std::collections::BTreeMap;
use std::sync::Arc;

use aaep_proto::id::SessionId;
use aaep_proto::message::{Capabilities, CloseReason};
use aaep_proto::subscriber::{CancelRequestError, PromptAnswer, PromptId, Subscriber as Machine, SubscriberStats};
use tokio::sync::{mpsc, oneshot};

use crate::address::Address;
use crate::connect::Connector;
use crate::driver::{Driver, DriverCommand};
use crate::error::{ConnectError, ReplyError};
use crate::options::ConnectOptions;
use crate::queue::{EventQueue, ProducerKey, SubscriberEvent};

/// Commands that wait for the driver. It handles them at once, whatever the producer does.
const MAX_WAITING_COMMANDS: usize = 32;

/// A handle for sending to a producer. It can be cloned and moved to wherever the user answers.
#[derive(Clone, Debug)]
pub struct SubscriberHandle {
    commands: mpsc::Sender<DriverCommand>,
}

impl SubscriberHandle {
    /// Answers a question. `Ok` means that the reply was passed to the transport; events report what becomes of it.
    pub async fn reply(&self, prompt: PromptId, answer: PromptAnswer) -> Result<(), ReplyError> {
        let (done, result) = oneshot::channel();
        let command = DriverCommand::Reply { prompt, answer, done };
        self.commands.send(command).await.map_err(|_| ReplyError::Closed)?;
        result.await.map_err(|_| ReplyError::Closed)?.map_err(ReplyError::Refused)
    }

    /// Changes the capabilities of this subscriber; fields that are not set stay as they are. Returns whether the
    /// producer was asked; if not, the change applies from the next connection on.
    pub async fn renegotiate(&self, changes: Capabilities) -> bool {
        let (done, result) = oneshot::channel();
        let command = DriverCommand::Renegotiate { changes: Box::new(changes), done };
        self.commands.send(command).await.is_ok() && result.await.unwrap_or(false)
    }

    /// Asks the agent of a session to stop. `Ok` means that the request was passed to the transport. The agent decides: if
    /// it stops, its session ends with an event. If the producer refuses, [`Notice::CancelRefused`](crate::Notice) reports
    /// it.
    ///
    /// The capabilities of this subscriber must [include it](Capabilities::with_cancellation), and the producer must offer
    /// it.
    pub async fn request_cancel(&self, session: SessionId, reason: Option<String>) -> Result<(), CancelRequestError> {
        let (done, result) = oneshot::channel();
        let command = DriverCommand::Cancel { session, reason, done };
        self.commands.send(command).await.map_err(|_| CancelRequestError::NotConnected)?;
        result.await.unwrap_or(Err(CancelRequestError::NotConnected))
    }

    /// Closes the subscription, notifies the producer, and waits until that is done.
    pub async fn close(&self, reason: impl Into<CloseReason>) {
        // Fails if the driver has ended, and then there is nothing to close.
        let _ = self.commands.send(DriverCommand::Close(reason.into())).await;
        self.commands.closed().await;
    }

    /// Returns the counters since the start, or zeros if the subscription has ended.
    pub async fn stats(&self) -> SubscriberStats {
        let (done, stats) = oneshot::channel();
        let _ = self.commands.send(DriverCommand::Stats { done }).await;
        stats.await.unwrap_or_default()
    }
}

fn start(
    address: &str,
    options: ConnectOptions,
    queue: &Arc<EventQueue>,
    producer: ProducerKey,
) -> Result<SubscriberHandle, ConnectError> {
    let address: Address = address.parse()?;
    let machine = Machine::new(options.config.clone());
    let raw = options.raw;
    let connector = Connector::new(address, options)?;
    let (commands, receiver) = mpsc::channel(MAX_WAITING_COMMANDS);
    tokio::spawn(Driver::new(machine, connector, queue.add_producer(producer, raw)).run(receiver));
    Ok(SubscriberHandle { commands })
}

/// A subscriber of one producer. Dropping it closes the subscription.
///
/// ```no_run
/// use aaep_client::{PromptAnswer, SubscriberEvent, ConnectOptions, Subscriber};
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let capabilities = serde_json::from_str(r#"{"supports_confirmation_reply": true}"#)?;
/// let mut subscriber = Subscriber::connect("https://agents.example", ConnectOptions::new("reader-1", capabilities))?;
/// while let Some(event) = subscriber.recv().await {
///     match event {
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
    handle: SubscriberHandle,
    queue: Arc<EventQueue>,
}

impl Subscriber {
    /// Subscribes to the producer at this address. A background task connects, and reconnects when the connection is
    /// lost; events report what becomes of that. The subscription ends with [`SubscriberEvent::Ended`] if the producer says
    /// that it has ended or shuts down, unless [`ConnectOptions::outlive_producer`] is set.
    ///
    /// # Panics
    ///
    /// Panics if it is called outside of a tokio runtime.
    pub fn connect(address: &str, options: ConnectOptions) -> Result<Subscriber, ConnectError> {
        let queue = Arc::<EventQueue>::default();
        let handle = start(address, options, &queue, 0)?;
        Ok(Subscriber { handle, queue })
    }

    /// Returns the next event, or `None` after the last one. Cancel safe: dropping the future loses no event.
    pub async fn recv(&mut self) -> Option<SubscriberEvent> {
        self.queue.recv().await.map(|(_, event)| event)
    }

    /// Returns a handle for sending to the producer.
    pub fn handle(&self) -> SubscriberHandle {
        self.handle.clone()
    }

    /// Answers a question; see [`SubscriberHandle::reply`].
    pub async fn reply(&self, prompt: PromptId, answer: PromptAnswer) -> Result<(), ReplyError> {
        self.handle.reply(prompt, answer).await
    }

    /// Changes the capabilities of this subscriber; see [`SubscriberHandle::renegotiate`].
    pub async fn renegotiate(&self, changes: Capabilities) -> bool {
        self.handle.renegotiate(changes).await
    }

    /// Asks the agent of a session to stop; see [`SubscriberHandle::request_cancel`].
    pub async fn request_cancel(&self, session: SessionId, reason: Option<String>) -> Result<(), CancelRequestError> {
        self.handle.request_cancel(session, reason).await
    }

    /// Closes the subscription; see [`SubscriberHandle::close`]. Events that wait can still be received.
    pub async fn close(&self, reason: impl Into<CloseReason>) {
        self.handle.close(reason).await;
    }

    /// Returns the counters since the start, or zeros if the subscription has ended.
    pub async fn stats(&self) -> SubscriberStats {
        self.handle.stats().await
    }
}

/// Identifies one producer of [`Subscribers`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProducerId(ProducerKey);

/// Subscribers of several producers with one queue: critical events come first, and no producer can crowd out another.
///
/// ```no_run
/// use aaep_client::{ConnectOptions, Subscribers};
/// # async fn example() -> Result<(), aaep_client::ConnectError> {
/// let mut subscribers = Subscribers::new();
/// let gardener = subscribers.connect("unix:/run/user/1000/aaep/gardener.sock", ConnectOptions::new("r", Default::default()))?;
/// let librarian = subscribers.connect("wss://library.example", ConnectOptions::new("r", Default::default()))?;
/// while let Some((from, event)) = subscribers.recv().await {
///     println!("{}: {event:?}", if from == gardener { "gardener" } else { "librarian" });
/// }
/// # let _ = librarian;
/// # Ok(())
/// # }
/// ```
#[derive(Default)]
pub struct Subscribers {
    queue: Arc<EventQueue>,
    handles: BTreeMap<ProducerId, SubscriberHandle>,
    next: ProducerKey,
}

impl Subscribers {
    /// Creates a set without producers.
    pub fn new() -> Subscribers {
        Subscribers::default()
    }

    /// Subscribes to one more producer; see [`Subscriber::connect`].
    pub fn connect(&mut self, address: &str, options: ConnectOptions) -> Result<ProducerId, ConnectError> {
        let id = ProducerId(self.next);
        let handle = start(address, options, &self.queue, id.0)?;
        self.next += 1;
        self.handles.insert(id, handle);
        Ok(id)
    }

    /// Returns the next event and its producer, or `None` when all have ended. Cancel safe: dropping the future loses no
    /// event.
    pub async fn recv(&mut self) -> Option<(ProducerId, SubscriberEvent)> {
        let (producer, event) = self.queue.recv().await?;
        let id = ProducerId(producer);
        if matches!(event, SubscriberEvent::Ended(_)) {
            self.handles.remove(&id);
        }
        Some((id, event))
    }

    /// Returns the handle for sending to one producer, or `None` if its subscription has ended.
    pub fn handle(&self, id: ProducerId) -> Option<SubscriberHandle> {
        self.handles.get(&id).cloned()
    }

    /// Iterates over the producers whose subscriptions have not ended.
    pub fn producers(&self) -> impl Iterator<Item = ProducerId> {
        self.handles.keys().copied()
    }

    /// Closes all subscriptions. Events that wait can still be received.
    pub async fn close(&self, reason: impl Into<CloseReason>) {
        let reason = reason.into();
        // All are asked to close before the first is waited for.
        for handle in self.handles.values() {
            let _ = handle.commands.send(DriverCommand::Close(reason.clone())).await;
        }
        for handle in self.handles.values() {
            handle.commands.closed().await;
        }
    }
}
