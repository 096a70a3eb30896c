//! The interface between the runner and the producers that it listens to.

use aaep_client::{ConnectError, ConnectOptions, ProducerId, ReplyError, Subscribers};
use aaep_listen::AnswerError;
use aaep_proto::id::SessionId;
use aaep_proto::message::{Capabilities, CloseReason};
use aaep_proto::subscriber::{CancelRequestError, PromptAnswer, PromptId, SubscriberEvent};
use aaep_runtime::Clock;

/// Producers to listen to and to answer, named by their indices.
pub(crate) trait EventSource {
    /// Waits for the next event and returns it with the index of its producer. Its moments are of the clock of the
    /// runner. Returns `None` when all subscriptions have ended. Cancel safe.
    async fn next(&mut self) -> Option<(usize, SubscriberEvent)>;
    /// Answers a prompt.
    async fn reply(&mut self, producer: usize, prompt: PromptId, answer: PromptAnswer) -> Result<(), AnswerError>;
    /// Asks the agent of a session to stop.
    async fn request_cancel(&mut self, producer: usize, session: SessionId) -> Result<(), CancelRequestError>;
    /// Asks all producers for other capabilities.
    async fn renegotiate(&mut self, changes: &Capabilities);
    /// Ends all subscriptions.
    async fn close(&mut self);
}

/// Producers that are reached through a transport.
pub(crate) struct RemoteProducers {
    subscribers: Subscribers,
    ids: Vec<ProducerId>,
    clock: Clock,
}

impl RemoteProducers {
    /// Starts to subscribe at these addresses. The error names the address that is wrong.
    pub(crate) fn connect(addresses: &[String], options: &ConnectOptions, clock: Clock) -> Result<Self, String> {
        let mut subscribers = Subscribers::new();
        let mut ids = Vec::new();
        for address in addresses {
            let describe = |error: ConnectError| format!("{address}: {error}");
            ids.push(subscribers.connect(address, options.clone()).map_err(describe)?);
        }
        Ok(RemoteProducers { subscribers, ids, clock })
    }
}

impl EventSource for RemoteProducers {
    async fn next(&mut self) -> Option<(usize, SubscriberEvent)> {
        loop {
            let (id, event) = self.subscribers.recv().await?;
            if let Some(producer) = self.ids.iter().position(|known| *known == id) {
                return Some((producer, event.map_time(|at| self.clock.moment(at))));
            }
        }
    }

    async fn reply(&mut self, producer: usize, prompt: PromptId, answer: PromptAnswer) -> Result<(), AnswerError> {
        let handle = self.ids.get(producer).and_then(|id| self.subscribers.handle(*id));
        let handle = handle.ok_or(AnswerError::SubscriptionEnded)?;
        handle.reply(prompt, answer).await.map_err(|error| match error {
            ReplyError::Refused(error) => AnswerError::Refused(error),
            ReplyError::Closed => AnswerError::SubscriptionEnded,
        })
    }

    async fn request_cancel(&mut self, producer: usize, session: SessionId) -> Result<(), CancelRequestError> {
        let handle = self.ids.get(producer).and_then(|id| self.subscribers.handle(*id));
        handle.ok_or(CancelRequestError::NotConnected)?.request_cancel(session, None).await
    }

    async fn renegotiate(&mut self, changes: &Capabilities) {
        for id in &self.ids {
            if let Some(handle) = self.subscribers.handle(*id) {
                handle.renegotiate(changes.clone()).await;
            }
        }
    }

    async fn close(&mut self) {
        self.subscribers.close(CloseReason::UserRequest).await;
    }
}
