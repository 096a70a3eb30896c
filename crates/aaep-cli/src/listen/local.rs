//! A producer in this process, heard through the same rules as any other.

use std::collections::VecDeque;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aaep::Producer;
use aaep::transport::{Link, Outbound, ResumePolicy};
use aaep_client::{PromptAnswer, PromptId, ReplyError, SubscriberEvent};
use aaep_proto::id::Entropy;
use aaep_proto::message::{Capabilities, CloseReason, Message};
use aaep_proto::subscriber::{Cx, DisconnectReason, Subscriber, SubscriberConfig, SubscriberOutput};
use aaep_proto::time::{Moment, Now, Timestamp};
use tokio::time::Instant;

use super::source::Source;

/// Who listens here, as the producer knows it.
const PRINCIPAL: &str = "console";

/// The listener's rules around a link.
pub(crate) struct Local {
    producer: Producer,
    machine: Subscriber,
    clock: Clock,
    link: Option<Link>,
    to_send: VecDeque<Message>,
    heard: VecDeque<SubscriberEvent>,
}

struct Clock {
    start: Instant,
}

impl Clock {
    fn now(&self) -> Now {
        let moment = Moment::from_micros(u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX));
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Now { moment, wall: Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX)) }
    }

    fn instant(&self, at: Moment) -> Instant {
        let far = Duration::from_secs(365 * 24 * 3600);
        self.start.checked_add(Duration::from_micros(at.micros())).unwrap_or(self.start + far)
    }
}

impl Entropy for Clock {
    fn fill(&mut self, bytes: &mut [u8]) {
        getrandom::fill(bytes).expect("an operating system that runs this program has random bytes");
    }
}

impl Local {
    /// Listens to this producer.
    pub(crate) fn new(producer: Producer, capabilities: Capabilities) -> Local {
        let machine = Subscriber::new(SubscriberConfig::new(PRINCIPAL, capabilities));
        let clock = Clock { start: Instant::now() };
        let (to_send, heard) = (VecDeque::new(), VecDeque::new());
        let mut local = Local { producer, machine, clock, link: None, to_send, heard };
        local.act(|machine, cx| machine.start(cx));
        local
    }

    /// One change, then drain.
    fn act<T>(&mut self, input: impl FnOnce(&mut Subscriber, &mut Cx<'_>) -> T) -> T {
        let now = self.clock.now();
        let result = input(&mut self.machine, &mut Cx { now, entropy: &mut self.clock });
        loop {
            let heard = match self.machine.poll_output() {
                SubscriberOutput::Idle(_) => return result,
                SubscriberOutput::Connect(_) => {
                    let now = self.clock.now();
                    self.machine.connected(&mut Cx { now, entropy: &mut self.clock }, false);
                    continue;
                }
                SubscriberOutput::Send(message) => {
                    self.to_send.push_back(*message);
                    continue;
                }
                SubscriberOutput::Disconnect | SubscriberOutput::Probe => continue,
                SubscriberOutput::Event(event) => event.map_time(|at| self.clock.instant(at)),
            };
            self.heard.push_back(heard);
        }
    }

    /// Sends what waits. What is given up on the way is tried again.
    async fn send(&mut self) {
        while let Some(message) = self.to_send.front() {
            if let Message::SubscriptionRequest(request) = message {
                match self.producer.subscribe(request, PRINCIPAL, ResumePolicy::Connection).await {
                    Ok(link) => self.link = Some(link),
                    Err(rejection) => {
                        self.act(|machine, cx| machine.disconnected(cx, DisconnectReason::Refused(rejection.message)))
                    }
                }
            } else if let Some(link) = &self.link {
                // If the producer is gone, the link tells.
                let _ = link.send(message.clone()).await;
            }
            self.to_send.pop_front();
        }
    }

    fn take(&mut self, outgoing: Option<Outbound>) {
        match outgoing {
            Some(Outbound::Event(frame)) => self.act(|machine, cx| machine.handle_bytes(cx, frame.json())),
            Some(Outbound::Message(message)) => {
                let bytes = serde_json::to_vec(&*message).unwrap_or_default();
                self.act(|machine, cx| machine.handle_bytes(cx, &bytes));
            }
            Some(Outbound::Closed(_)) | None => {
                self.link = None;
                self.act(|machine, cx| {
                    machine.disconnected(cx, DisconnectReason::Refused("The agent has ended.".to_owned()))
                });
            }
        }
    }
}

impl Source for Local {
    async fn next(&mut self) -> Option<(usize, SubscriberEvent)> {
        loop {
            self.send().await;
            if let Some(heard) = self.heard.pop_front() {
                return Some((0, heard));
            }
            if self.machine.is_ended() {
                return None;
            }
            let due = self.machine.next_deadline().map(|at| self.clock.instant(at));
            let outgoing = tokio::select! {
                outgoing = recv(&mut self.link) => Some(outgoing),
                () = until(due) => None,
            };
            match outgoing {
                Some(outgoing) => self.take(outgoing),
                None => self.act(|machine, cx| machine.handle_timeout(cx)),
            }
        }
    }

    async fn reply(&mut self, _: usize, id: PromptId, answer: PromptAnswer) -> Result<(), ReplyError> {
        let result = self.act(|machine, cx| machine.reply(cx, id, answer)).map_err(ReplyError::Refused);
        self.send().await;
        result
    }

    async fn renegotiate(&mut self, changes: &Capabilities) {
        self.act(|machine, cx| machine.renegotiate(cx, changes));
        self.send().await;
    }

    async fn close(&mut self) {
        self.act(|machine, cx| machine.close(cx, CloseReason::UserRequest));
        self.send().await;
        self.link = None;
    }
}

async fn recv(link: &mut Option<Link>) -> Option<Outbound> {
    match link {
        Some(link) => link.recv().await,
        None => std::future::pending().await,
    }
}

pub(super) async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aaep::Confirmation;
    use aaep::message::Decision;
    use aaep_announce::Profile;

    #[tokio::test(start_paused = true)]
    async fn a_question_is_heard_and_answered_in_one_process() {
        let producer = Producer::builder("gardener").build();
        let mut local = Local::new(producer.clone(), Profile::default().capabilities());
        assert!(matches!(local.next().await, Some((0, SubscriberEvent::Accepted(_)))));
        let session = producer.session("Pruning.").await.unwrap();
        let asking = tokio::spawn(async move {
            let outcome = session.confirm(Confirmation::new("Cut the tree.", "It is gone.").irreversible()).await;
            outcome.unwrap().decision == Decision::Accept
        });
        loop {
            if let Some((0, SubscriberEvent::PromptOpened(prompt, _))) = local.next().await {
                local.reply(0, prompt.id, PromptAnswer::accept()).await.unwrap();
                assert!(local.reply(0, prompt.id, PromptAnswer::accept()).await.is_err(), "once is enough");
                break;
            }
        }
        assert!(asking.await.unwrap());
        local.close().await;
        while let Some((_, heard)) = local.next().await {
            if matches!(heard, SubscriberEvent::Ended(_)) {
                return;
            }
        }
    }
}
