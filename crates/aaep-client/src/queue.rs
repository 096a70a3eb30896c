//! What waits for the user's program: bounded for each producer, the critical first. A program that is slow loses
//! what is least important and is told how much; a question never waits behind a text.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aaep_proto::message::{CoreType, Event, Payload, Urgency};
use aaep_proto::subscriber::{NoticeKind, PromptId, memory_size};
use tokio::sync::Notify;
use tokio::time::Instant;

/// What a subscriber reports, with instants of tokio's clock.
///
/// ```
/// use aaep_client::SubscriberEvent;
/// let event = SubscriberEvent::Skipped(3);
/// assert!(!matches!(event, SubscriberEvent::PromptOpened(_, _)));
/// ```
pub type SubscriberEvent = aaep_proto::subscriber::SubscriberEvent<Instant>;

/// Things of one producer that may wait.
const MOST: usize = 1024;
/// Their bytes.
const MOST_BYTES: usize = 4 * 1024 * 1024;
/// Critical things of one producer that may wait. Above, no more is read from it until some are taken.
const MOST_URGENT: usize = 256;

/// Names a producer in a queue.
pub(crate) type Source = u32;

struct Item {
    source: Source,
    heard: SubscriberEvent,
    bytes: usize,
}

#[derive(Default)]
struct Load {
    count: usize,
    bytes: usize,
    urgent: usize,
    urgent_bytes: usize,
    skipped: u64,
}

#[derive(Default)]
struct State {
    urgent: VecDeque<Item>,
    normal: VecDeque<Item>,
    /// Producers that may still say something.
    loads: BTreeMap<Source, Load>,
    live: usize,
}

#[derive(Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    readable: Notify,
    room: Notify,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a place for a producer. Verbatim means that nothing overtakes and nothing is left out.
    pub(crate) fn join(self: &Arc<Self>, source: Source, raw: bool) -> Feed {
        let mut state = self.lock();
        state.loads.insert(source, Load::default());
        state.live += 1;
        Feed { queue: self.clone(), source, raw }
    }

    /// The next thing; `None` when nothing waits and nobody is left who could say something.
    pub(crate) async fn recv(&self) -> Option<(Source, SubscriberEvent)> {
        loop {
            let mut readable = std::pin::pin!(self.readable.notified());
            readable.as_mut().enable();
            {
                let mut state = self.lock();
                if let Some(next) = state.pop() {
                    self.room.notify_waiters();
                    return Some(next);
                }
                if state.live == 0 {
                    return None;
                }
            }
            readable.await;
        }
    }
}

impl State {
    fn load(&mut self, source: Source) -> &mut Load {
        self.loads.entry(source).or_default()
    }

    fn pop(&mut self) -> Option<(Source, SubscriberEvent)> {
        if let Some(item) = self.urgent.pop_front() {
            let load = self.load(item.source);
            load.urgent -= 1;
            load.urgent_bytes -= item.bytes;
            return Some((item.source, item.heard));
        }
        let source = self.normal.front()?.source;
        let skipped = std::mem::take(&mut self.load(source).skipped);
        if skipped > 0 {
            return Some((source, SubscriberEvent::Skipped(skipped)));
        }
        self.take_normal(0).map(|item| (item.source, item.heard))
    }

    fn take_normal(&mut self, index: usize) -> Option<Item> {
        let item = self.normal.remove(index)?;
        let load = self.load(item.source);
        load.count -= 1;
        load.bytes -= item.bytes;
        Some(item)
    }

    fn push_urgent(&mut self, item: Item) {
        let load = self.load(item.source);
        load.urgent += 1;
        load.urgent_bytes += item.bytes;
        self.urgent.push_back(item);
    }

    fn push_normal(&mut self, item: Item) {
        let source = item.source;
        let load = self.load(source);
        load.count += 1;
        load.bytes += item.bytes;
        self.normal.push_back(item);
        while {
            let load = self.load(source);
            load.count > MOST || load.bytes > MOST_BYTES
        } {
            let own = self.normal.iter().enumerate().filter(|(_, item)| item.source == source);
            let least = own.min_by_key(|(index, item)| (worth(&item.heard), *index)).map(|(index, _)| index);
            if least.and_then(|index| self.take_normal(index)).is_none() {
                return;
            }
            self.load(source).skipped += 1;
        }
    }

    /// After everything else. Who fills the queue looks for room first.
    fn push_last(&mut self, source: Source, heard: SubscriberEvent) {
        let bytes = if let SubscriberEvent::Message(bytes) = &heard { bytes.len() } else { 64 };
        let load = self.load(source);
        load.count += 1;
        load.bytes += bytes;
        self.normal.push_back(Item { source, heard, bytes });
    }

    /// A critical end overtakes nothing of its own session.
    fn hurry_session(&mut self, source: Source, end: &Event) {
        let mut index = 0;
        while let Some(item) = self.normal.get(index) {
            let same = item.source == source
                && matches!(&item.heard, SubscriberEvent::Event(e) if e.envelope.session_id == end.envelope.session_id);
            if !same {
                index += 1;
            } else if let Some(item) = self.take_normal(index) {
                self.push_urgent(item);
            }
        }
    }

    /// The place of a question that nobody has taken yet.
    fn untaken(&mut self, source: Source, id: PromptId) -> Option<usize> {
        let is = |item: &Item| matches!(&item.heard, SubscriberEvent::PromptOpened(prompt, _) if prompt.id == id);
        self.urgent.iter().position(|item| item.source == source && is(item))
    }

    fn push(&mut self, source: Source, heard: SubscriberEvent) {
        let bytes = if let SubscriberEvent::Event(event) = &heard { memory_size(event) } else { 64 };
        match &heard {
            SubscriberEvent::PromptMoved(id, at) => {
                if let Some(index) = self.untaken(source, *id)
                    && let SubscriberEvent::PromptOpened(_, deadline) = &mut self.urgent[index].heard
                {
                    *deadline = *at;
                    return;
                }
            }
            SubscriberEvent::PromptEnded(id, _) => {
                // A question that nobody has taken and that needs no answer is not put at all. Its event stays.
                if let Some(index) = self.untaken(source, *id)
                    && let Some(item) = self.urgent.remove(index)
                {
                    let load = self.load(source);
                    load.urgent -= 1;
                    load.urgent_bytes -= item.bytes;
                    return;
                }
            }
            SubscriberEvent::Event(event)
                if is_critical(event) && event.core_type().is_some_and(CoreType::is_terminal) =>
            {
                self.hurry_session(source, event);
            }
            _ => {}
        }
        let urgent = is_urgent(&heard);
        let item = Item { source, heard, bytes };
        if urgent { self.push_urgent(item) } else { self.push_normal(item) }
    }
}

fn is_critical(event: &Event) -> bool {
    *event.urgency() == Urgency::Critical || event.core_type().is_some_and(CoreType::must_be_critical)
}

fn is_urgent(heard: &SubscriberEvent) -> bool {
    match heard {
        SubscriberEvent::Event(event) => is_critical(event),
        SubscriberEvent::PromptOpened(..) | SubscriberEvent::PromptMoved(..) | SubscriberEvent::PromptEnded(..) => true,
        SubscriberEvent::Notice(notice) => matches!(
            notice.kind(),
            NoticeKind::KeyChanged
                | NoticeKind::UnfitManifest
                | NoticeKind::ReusedToken
                | NoticeKind::AnswerOvertaken
                | NoticeKind::LateQuestion
                | NoticeKind::TooManyPrompts
        ),
        _ => false,
    }
}

/// How bad it would be to leave it out.
fn worth(heard: &SubscriberEvent) -> u8 {
    match heard {
        SubscriberEvent::Ended(_) => 9,
        SubscriberEvent::Accepted(_) => 8,
        SubscriberEvent::Event(event) => match &event.payload {
            payload if payload.core_type().is_some_and(CoreType::is_terminal) => 7,
            Payload::SessionStarted(_) => 6,
            _ if *event.urgency() == Urgency::Background => 0,
            Payload::ProgressUpdated(_) | Payload::StateChanged(_) => 0,
            Payload::OutputStreaming(_) => 3,
            _ => 2,
        },
        SubscriberEvent::Retrying(_) => 0,
        _ => 1,
    }
}

/// One producer's end of a queue.
pub(crate) struct Feed {
    queue: Arc<Queue>,
    source: Source,
    pub(crate) raw: bool,
}

impl Feed {
    pub(crate) fn push(&self, heard: SubscriberEvent) {
        let mut state = self.queue.lock();
        if self.raw {
            state.push_last(self.source, heard)
        } else {
            state.push(self.source, heard)
        }
        drop(state);
        self.queue.readable.notify_one();
    }

    /// Whether more may be read from the producer.
    pub(crate) fn has_room(&self) -> bool {
        let mut state = self.queue.lock();
        let load = state.load(self.source);
        if self.raw {
            return load.count < MOST && load.bytes < MOST_BYTES;
        }
        load.urgent < MOST_URGENT && load.urgent_bytes < MOST_BYTES
    }

    /// Waits until more may be read.
    pub(crate) async fn room(&self) {
        loop {
            let mut room = std::pin::pin!(self.queue.room.notified());
            room.as_mut().enable();
            if self.has_room() {
                return;
            }
            room.await;
        }
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.queue.lock().live -= 1;
        self.queue.readable.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aaep_proto::engine::Cx;
    use aaep_proto::id::Entropy;
    use aaep_proto::message::Message;
    use aaep_proto::subscriber::{HandshakeMode, Prompt, PromptEnd, Subscriber, SubscriberConfig, SubscriberOutput};
    use aaep_proto::time::{Moment, Now, Timestamp};
    use serde_json::{Value, json};

    struct Zeros;

    impl Entropy for Zeros {
        fn fill(&mut self, bytes: &mut [u8]) {
            bytes.fill(0);
        }
    }

    fn event(n: u32, kind: &str, session: u32, fields: Value) -> Value {
        let mut event = json!({"@context": "https://aaep-protocol.org/context/v1", "type": format!("aaep:agent.{kind}"),
            "event_id": format!("evt_{n}"), "session_id": format!("sess_{session}"),
            "timestamp": "2026-05-24T14:22:13Z", "producer": {"agent_id": "a"}});
        for (name, value) in fields.as_object().unwrap() {
            event[name] = value.clone();
        }
        event
    }

    fn heard(value: Value) -> SubscriberEvent {
        match Message::parse(value.to_string().as_bytes()).unwrap() {
            Message::Event(event) => SubscriberEvent::Event(event.into()),
            other => panic!("{other:?}"),
        }
    }

    fn tool(n: u32, session: u32) -> SubscriberEvent {
        heard(event(n, "tool.invoked", session, json!({"tool": "look", "summary_normal": "Looking."})))
    }

    fn failed(n: u32, session: u32) -> SubscriberEvent {
        let fields = json!({"urgency": "critical", "error_category": "unknown", "summary_normal": "Failed."});
        heard(event(n, "session.errored", session, fields))
    }

    /// A prompt as the machine makes it.
    fn opened() -> Box<Prompt> {
        let mut machine = Subscriber::new(SubscriberConfig {
            handshake: HandshakeMode::Absent,
            ..SubscriberConfig::new("r", Default::default())
        });
        let wall = Timestamp::from_millis(0);
        let cx = &mut Cx { now: Now { moment: Moment::default(), wall }, entropy: &mut Zeros };
        machine.start(cx);
        machine.connected(cx, false);
        let fields = json!({"urgency": "critical", "action": "Delete.", "consequence": "Gone.", "reply_token": "rpl_1",
            "timeout_seconds": 60, "default_decision": "reject", "timestamp": "1970-01-01T00:00:00Z"});
        machine.handle_bytes(cx, event(0, "awaiting.confirmation", 1, fields).to_string().as_bytes());
        loop {
            match machine.poll_output() {
                SubscriberOutput::Event(aaep_proto::subscriber::SubscriberEvent::PromptOpened(prompt, _)) => {
                    return prompt;
                }
                SubscriberOutput::Idle(_) => panic!("no prompt"),
                _ => {}
            }
        }
    }

    async fn ids(queue: &Queue) -> Vec<String> {
        let mut ids = Vec::new();
        while let Some((source, heard)) = queue.recv().await {
            ids.push(match heard {
                SubscriberEvent::Event(event) => format!("{source} {}", event.envelope.event_id),
                SubscriberEvent::Skipped(count) => format!("{source} skipped {count}"),
                SubscriberEvent::PromptOpened(..) => format!("{source} opened"),
                SubscriberEvent::PromptEnded(..) => format!("{source} ended"),
                other => format!("{source} {other:?}"),
            });
        }
        ids
    }

    #[tokio::test]
    async fn a_critical_end_takes_its_session_along_and_overtakes_the_rest() {
        let queue = Arc::<Queue>::default();
        let feed = queue.join(1, false);
        for heard in [tool(1, 1), tool(2, 2), tool(3, 1), failed(4, 1), tool(5, 2)] {
            feed.push(heard);
        }
        drop(feed);
        assert_eq!(ids(&queue).await, ["1 evt_1", "1 evt_3", "1 evt_4", "1 evt_2", "1 evt_5"]);
    }

    #[tokio::test]
    async fn a_question_that_ended_before_it_was_taken_is_not_put() {
        let queue = Arc::<Queue>::default();
        let feed = queue.join(1, false);
        let at = tokio::time::sleep(std::time::Duration::ZERO).deadline();
        let first = opened();
        feed.push(SubscriberEvent::PromptOpened(first.clone(), at));
        feed.push(SubscriberEvent::PromptEnded(first.id, PromptEnd::Expired));
        assert!(queue.lock().urgent.is_empty());
        feed.push(SubscriberEvent::PromptOpened(first.clone(), at));
        assert!(matches!(queue.recv().await, Some((1, SubscriberEvent::PromptOpened(..)))));
        feed.push(SubscriberEvent::PromptEnded(first.id, PromptEnd::Expired));
        drop(feed);
        assert_eq!(ids(&queue).await, ["1 ended"]);
    }

    #[tokio::test]
    async fn one_producer_cannot_crowd_out_another() {
        let queue = Arc::<Queue>::default();
        let (loud, quiet) = (queue.join(1, false), queue.join(2, false));
        quiet.push(tool(0, 1));
        for n in 0..3000 {
            loud.push(tool(n, 1));
        }
        assert!(quiet.has_room() && loud.has_room());
        for n in 0..MOST_URGENT as u32 {
            loud.push(failed(n + 3000, n + 10));
        }
        assert!(quiet.has_room() && !loud.has_room());
        drop((loud, quiet));
        let ids = ids(&queue).await;
        assert!(ids.contains(&"2 evt_0".to_owned()));
        assert!(ids.contains(&format!("1 skipped {}", 3000 - MOST)));
        assert_eq!(ids.len(), 1 + MOST + 1 + MOST_URGENT);
    }
}
