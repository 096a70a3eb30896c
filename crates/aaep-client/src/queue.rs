//! What waits for the user's program: bounded for each producer, the critical first. A program that is slow loses
//! what is least important and is told how much; a question never waits behind a text.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aaep_proto::message::{CoreType, Event, Payload, SubscriptionAccepted, Urgency};
use aaep_proto::subscriber::{Ended, Gap, Notice, NoticeKind, Prompt, PromptEnd, PromptId, weight_of};
use bytes::Bytes;
use tokio::sync::Notify;
use tokio::time::Instant;

/// What is heard from a producer.
///
/// ```
/// use aaep_client::Heard;
/// fn is_question(heard: &Heard) -> bool {
///     matches!(heard, Heard::PromptOpened(_, _))
/// }
/// # let _ = is_question;
/// ```
#[derive(Clone, Debug)]
pub enum Heard {
    /// The producer serves on these terms.
    Accepted(Box<SubscriptionAccepted>),
    /// An event.
    Event(Arc<Event>),
    /// A message as it came, if [`Options::verbatim`](crate::Options::verbatim) was set.
    Message(Bytes),
    /// A question waits for the user, until then. Its event comes before it.
    PromptOpened(Box<Prompt>, Instant),
    /// A question has another deadline.
    PromptMoved(PromptId, Instant),
    /// A question needs no answer any more.
    PromptEnded(PromptId, PromptEnd),
    /// Events are missing.
    Gap(Gap),
    /// So many less important things were left out because the program was slow to take them.
    Skipped(u64),
    /// Something the user or the log should know.
    Notice(Notice),
    /// The connection is away; the next try comes then.
    Retrying(Instant),
    /// It is over; this is the last.
    Ended(Ended),
}

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
    heard: Heard,
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
    pub(crate) fn join(self: &Arc<Self>, source: Source, verbatim: bool) -> Feed {
        let mut state = self.lock();
        state.loads.insert(source, Load::default());
        state.live += 1;
        Feed { queue: self.clone(), source, verbatim }
    }

    /// The next thing; `None` when nothing waits and nobody is left who could say something.
    pub(crate) async fn recv(&self) -> Option<(Source, Heard)> {
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

    fn pop(&mut self) -> Option<(Source, Heard)> {
        if let Some(item) = self.urgent.pop_front() {
            let load = self.load(item.source);
            load.urgent -= 1;
            load.urgent_bytes -= item.bytes;
            return Some((item.source, item.heard));
        }
        let source = self.normal.front()?.source;
        let skipped = std::mem::take(&mut self.load(source).skipped);
        if skipped > 0 {
            return Some((source, Heard::Skipped(skipped)));
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
    fn push_last(&mut self, source: Source, heard: Heard) {
        let bytes = if let Heard::Message(bytes) = &heard { bytes.len() } else { 64 };
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
                && matches!(&item.heard, Heard::Event(e) if e.envelope.session_id == end.envelope.session_id);
            if !same {
                index += 1;
            } else if let Some(item) = self.take_normal(index) {
                self.push_urgent(item);
            }
        }
    }

    /// The place of a question that nobody has taken yet.
    fn untaken(&mut self, source: Source, id: PromptId) -> Option<usize> {
        let is = |item: &Item| matches!(&item.heard, Heard::PromptOpened(prompt, _) if prompt.id == id);
        self.urgent.iter().position(|item| item.source == source && is(item))
    }

    fn push(&mut self, source: Source, heard: Heard) {
        let bytes = if let Heard::Event(event) = &heard { weight_of(event) } else { 64 };
        match &heard {
            Heard::PromptMoved(id, at) => {
                if let Some(index) = self.untaken(source, *id)
                    && let Heard::PromptOpened(_, deadline) = &mut self.urgent[index].heard
                {
                    *deadline = *at;
                    return;
                }
            }
            Heard::PromptEnded(id, _) => {
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
            Heard::Event(event) if is_critical(event) && event.core_type().is_some_and(CoreType::is_terminal) => {
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

fn is_urgent(heard: &Heard) -> bool {
    match heard {
        Heard::Event(event) => is_critical(event),
        Heard::PromptOpened(..) | Heard::PromptMoved(..) | Heard::PromptEnded(..) => true,
        Heard::Notice(notice) => matches!(
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
fn worth(heard: &Heard) -> u8 {
    match heard {
        Heard::Ended(_) => 9,
        Heard::Accepted(_) => 8,
        Heard::Event(event) => match &event.payload {
            payload if payload.core_type().is_some_and(CoreType::is_terminal) => 7,
            Payload::SessionStarted(_) => 6,
            _ if *event.urgency() == Urgency::Background => 0,
            Payload::ProgressUpdated(_) | Payload::StateChanged(_) => 0,
            Payload::OutputStreaming(_) => 3,
            _ => 2,
        },
        Heard::Retrying(_) => 0,
        _ => 1,
    }
}

/// One producer's end of a queue.
pub(crate) struct Feed {
    queue: Arc<Queue>,
    source: Source,
    pub(crate) verbatim: bool,
}

impl Feed {
    pub(crate) fn push(&self, heard: Heard) {
        let mut state = self.queue.lock();
        if self.verbatim { state.push_last(self.source, heard) } else { state.push(self.source, heard) }
        drop(state);
        self.queue.readable.notify_one();
    }

    /// Whether more may be read from the producer.
    pub(crate) fn has_room(&self) -> bool {
        let mut state = self.queue.lock();
        let load = state.load(self.source);
        if self.verbatim {
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
