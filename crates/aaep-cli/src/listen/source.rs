//! The seam between the terminal and whatever it listens to.

use aaep_client::{
    ConnectError, ConnectOptions, ProducerId, PromptAnswer, PromptId, ReplyError, SubscriberEvent, Subscribers,
};
use aaep_proto::message::{Capabilities, CloseReason};

/// Producers that can be heard and answered, named by numbers from 0.
pub(crate) trait Source {
    /// What is heard next, and from whom; nothing when all have ended. Giving up waiting loses nothing.
    async fn next(&mut self) -> Option<(usize, SubscriberEvent)>;
    /// Answers a question.
    async fn reply(&mut self, source: usize, id: PromptId, answer: PromptAnswer) -> Result<(), ReplyError>;
    /// Asks all producers for other terms.
    async fn renegotiate(&mut self, changes: &Capabilities);
    /// Ends listening.
    async fn close(&mut self);
}

/// Producers somewhere else.
pub(crate) struct Clients {
    subscribers: Subscribers,
    ids: Vec<ProducerId>,
}

impl Clients {
    /// Begins to listen at these addresses.
    pub(crate) fn connect(addresses: &[String], options: &ConnectOptions) -> Result<Clients, (String, ConnectError)> {
        let mut subscribers = Subscribers::new();
        let mut ids = Vec::new();
        for address in addresses {
            let id = subscribers.connect(address, options.clone()).map_err(|error| (address.clone(), error))?;
            ids.push(id);
        }
        Ok(Clients { subscribers, ids })
    }
}

impl Source for Clients {
    async fn next(&mut self) -> Option<(usize, SubscriberEvent)> {
        loop {
            let (id, heard) = self.subscribers.recv().await?;
            if let Some(source) = self.ids.iter().position(|known| *known == id) {
                return Some((source, heard));
            }
        }
    }

    async fn reply(&mut self, source: usize, id: PromptId, answer: PromptAnswer) -> Result<(), ReplyError> {
        let voice = self.ids.get(source).and_then(|producer| self.subscribers.handle(*producer));
        voice.ok_or(ReplyError::Over)?.reply(id, answer).await
    }

    async fn renegotiate(&mut self, changes: &Capabilities) {
        for id in &self.ids {
            if let Some(voice) = self.subscribers.handle(*id) {
                voice.renegotiate(changes.clone()).await;
            }
        }
    }

    async fn close(&mut self) {
        self.subscribers.close(CloseReason::UserRequest).await;
    }
}
