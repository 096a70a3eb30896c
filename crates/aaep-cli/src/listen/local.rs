//! A producer in this process, received through the rules of any other subscriber.

use std::collections::VecDeque;

use aaep::Producer;
use aaep::transport::{Link, Outbound, ResumePolicy};
use aaep_listen::AnswerError;
use aaep_proto::id::SessionId;
use aaep_proto::message::{Capabilities, CloseReason, Message};
use aaep_proto::subscriber::{
    CancelRequestError, Cx, DisconnectReason, PromptAnswer, PromptId, Subscriber, SubscriberConfig, SubscriberEffect,
    SubscriberEvent,
};
use aaep_runtime::{Clock, SystemEntropy};

use super::source::EventSource;

/// The principal of the listener in this process.
const PRINCIPAL: &str = "console";

/// A subscriber around the link to a producer in this process.
pub(crate) struct LocalProducer {
    producer: Producer,
    subscriber: Subscriber,
    clock: Clock,
    entropy: SystemEntropy,
    link: Option<Link>,
    to_send: VecDeque<Message>,
    events: VecDeque<SubscriberEvent>,
}

impl LocalProducer {
    /// Starts to subscribe to this producer.
    pub(crate) fn new(producer: Producer, capabilities: Capabilities, clock: Clock) -> LocalProducer {
        let subscriber = Subscriber::new(SubscriberConfig::new(PRINCIPAL, capabilities));
        let (entropy, to_send, events) = (SystemEntropy::default(), VecDeque::new(), VecDeque::new());
        let mut local = LocalProducer { producer, subscriber, clock, entropy, link: None, to_send, events };
        local.update(|subscriber, cx| subscriber.start(cx));
        local
    }

    /// Changes the subscriber once, then drains its effects.
    fn update<T>(&mut self, input: impl FnOnce(&mut Subscriber, &mut Cx<'_>) -> T) -> T {
        let now = self.clock.now();
        let cx = &mut Cx { now, entropy: &mut self.entropy };
        let result = input(&mut self.subscriber, cx);
        loop {
            match self.subscriber.poll_effect() {
                SubscriberEffect::Idle(_) => return result,
                SubscriberEffect::Connect(_) => self.subscriber.connected(cx, false),
                SubscriberEffect::Send(message) => self.to_send.push_back(*message),
                SubscriberEffect::Disconnect | SubscriberEffect::Probe => {}
                SubscriberEffect::Event(event) => self.events.push_back(event),
            }
        }
    }

    /// Sends the messages that wait. A message stays in the queue until it was sent, so that this can be cancelled.
    async fn send_waiting(&mut self) {
        while let Some(message) = self.to_send.front() {
            if let Message::SubscriptionRequest(request) = message {
                match self.producer.subscribe(request, PRINCIPAL, ResumePolicy::Connection).await {
                    Ok(link) => self.link = Some(link),
                    Err(rejection) => self.disconnected(rejection.message),
                }
            } else if let Some(link) = &self.link {
                // If this fails the producer has ended, and the link reports it.
                let _ = link.send(message.clone()).await;
            }
            self.to_send.pop_front();
        }
    }

    fn receive(&mut self, outbound: Option<Outbound>) {
        match outbound {
            Some(Outbound::Event(frame)) => self.update(|subscriber, cx| subscriber.handle_bytes(cx, frame.json())),
            Some(Outbound::Message(message)) => {
                let bytes = serde_json::to_vec(&*message).unwrap_or_default();
                self.update(|subscriber, cx| subscriber.handle_bytes(cx, &bytes));
            }
            Some(Outbound::Closed(_)) | None => {
                self.link = None;
                self.disconnected("The agent has ended.".to_owned());
            }
        }
    }

    fn disconnected(&mut self, why: String) {
        self.update(|subscriber, cx| subscriber.disconnected(cx, DisconnectReason::Refused(why)));
    }
}

impl EventSource for LocalProducer {
    async fn next(&mut self) -> Option<(usize, SubscriberEvent)> {
        loop {
            self.send_waiting().await;
            if let Some(event) = self.events.pop_front() {
                return Some((0, event));
            }
            if self.subscriber.is_ended() {
                return None;
            }
            let deadline = self.subscriber.next_deadline();
            tokio::select! {
                outbound = recv(&mut self.link) => self.receive(outbound),
                () = self.clock.sleep_until(deadline) => self.update(|subscriber, cx| subscriber.handle_timeout(cx)),
            }
        }
    }

    async fn reply(&mut self, _: usize, prompt: PromptId, answer: PromptAnswer) -> Result<(), AnswerError> {
        let result = self.update(|subscriber, cx| subscriber.reply(cx, prompt, answer)).map_err(AnswerError::Refused);
        self.send_waiting().await;
        result
    }

    async fn request_cancel(&mut self, _: usize, session: SessionId) -> Result<(), CancelRequestError> {
        let result = self.update(|subscriber, cx| subscriber.request_cancel(cx, &session, None));
        self.send_waiting().await;
        result
    }

    async fn renegotiate(&mut self, changes: &Capabilities) {
        self.update(|subscriber, cx| subscriber.renegotiate(cx, changes));
        self.send_waiting().await;
    }

    async fn close(&mut self) {
        self.update(|subscriber, cx| subscriber.close(cx, CloseReason::UserRequest));
        self.send_waiting().await;
        self.link = None;
    }
}

async fn recv(link: &mut Option<Link>) -> Option<Outbound> {
    match link {
        Some(link) => link.recv().await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aaep::Confirmation;
    use aaep::message::Decision;
    use aaep_announce::Profile;

    async fn next(local: &mut LocalProducer) -> SubscriberEvent {
        let (producer, event) = local.next().await.expect("a subscription that has not ended");
        assert_eq!(producer, 0);
        event
    }

    #[tokio::test(start_paused = true)]
    async fn question_is_received_and_answered_once_in_one_process() {
        let producer = Producer::builder("gardener").build();
        let mut local = LocalProducer::new(producer.clone(), Profile::default().capabilities(), Clock::new());
        assert!(matches!(next(&mut local).await, SubscriberEvent::Accepted(_)));
        let session = producer.session("Pruning.").await.unwrap();
        let asking = tokio::spawn(async move {
            let outcome = session.confirm(Confirmation::new("Cut the tree.", "It is gone.").irreversible()).await;
            outcome.unwrap().decision == Decision::Accept
        });
        loop {
            if let SubscriberEvent::PromptOpened(prompt, _) = next(&mut local).await {
                local.reply(0, prompt.id, PromptAnswer::accept()).await.unwrap();
                assert!(local.reply(0, prompt.id, PromptAnswer::accept()).await.is_err(), "a second answer is refused");
                break;
            }
        }
        assert!(asking.await.unwrap());
        local.close().await;
        while !matches!(next(&mut local).await, SubscriberEvent::Ended(_)) {}
        assert!(local.next().await.is_none());
    }
}
