//! From one event to everyone who gets it. Subscriptions with the same terms share a shape: the work of
//! tailoring and serializing is done once per shape, not once per subscription.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::subscriptions::{ResumePolicy, Subscription, SubscriptionKey, Subscriptions};
use super::{Cx, Engine, EngineOutput, EngineStats, JournalEntry, Timer};
use crate::frame::{Frame, FrameMeter};
use crate::id::{EventId, OutputId, SessionId};
use crate::message::{Boundary, CoreType, Event, Payload};
use crate::negotiate::Terms;
use crate::shaping::filter::Filter;
use crate::shaping::outbox::{CoalescedText, OutgoingFrame, Release};
use crate::shaping::tailor::TextPreferences;
use crate::shaping::text::{BoundarySet, Cursor, OutputText, TextChunk};
use crate::time::Timestamp;

/// What makes two subscriptions alike, apart from how fast they take it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct GroupKey {
    filter: Filter,
    words: TextPreferences,
    cutting: BoundarySet,
}

impl GroupKey {
    pub(super) fn of(terms: &Terms) -> GroupKey {
        GroupKey { filter: terms.filter().clone(), words: TextPreferences::of(terms), cutting: BoundarySet::of(terms) }
    }

    fn wants(&self, event: &Event) -> bool {
        self.filter.passes(event) && self.words.wants(event)
    }

    pub(super) fn wants_core(&self, core: CoreType) -> bool {
        self.filter.passes_core(core)
    }

    /// What waits, in the words of this shape; nothing if the shape leaves it out.
    pub(super) fn refit(&self, frame: &Arc<Frame>) -> Option<Arc<Frame>> {
        match frame.source() {
            Some(source) if !self.wants(source) => None,
            Some(source) => Some(Arc::new(Frame::new(self.words.tailor(source)).with_source(source.clone()))),
            // Text and recorded events are sent as they are or not at all.
            None => self.filter.passes(frame.event()).then(|| frame.clone()),
        }
    }
}

/// Names a shape for as long as somebody has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct GroupId(u64);

/// One shape and who has it.
#[derive(Debug)]
struct SubscriberGroup {
    key: Arc<GroupKey>,
    members: Vec<SubscriptionKey>,
    /// The last runs of text that were put together, for the others who held the same.
    runs: Vec<(RunKey, Arc<Frame>)>,
}

impl SubscriberGroup {
    /// An event that these subscriptions do not get. A state change that only the load leaves out must not break the
    /// chain of those that follow; of a session that has ended nothing needs to be remembered.
    fn skip(&self, event: &Event, subscriptions: &mut Subscriptions) {
        let state = event.core_type() == Some(CoreType::StateChanged) && self.key.filter.passes(event);
        let ends = event.core_type().is_some_and(CoreType::is_terminal);
        if !state && !ends {
            return;
        }
        let frame = Frame::new(event.clone());
        for member in &self.members {
            if let Some(subscription) = subscriptions.get_mut(*member) {
                if ends { subscription.outbox.forget(frame.session()) } else { subscription.outbox.skip_state(&frame) }
            }
        }
    }
}

/// The text of an output between two positions, as it ends under the terms of a shape.
#[derive(Debug, PartialEq)]
struct RunKey {
    session: SessionId,
    output: Option<OutputId>,
    position: u64,
    end: u64,
    hint: Boundary,
    /// Text that ends the output may end where other text did, as its last piece may be empty.
    complete: bool,
    /// A subscription must not get a time from another one that is later than what it counts with itself.
    at: Timestamp,
}

/// How many runs are remembered per shape.
const RUNS: usize = 8;

/// All shapes in use.
#[derive(Debug, Default)]
pub(super) struct SubscriberGroups {
    by_key: BTreeMap<Arc<GroupKey>, GroupId>,
    by_id: BTreeMap<GroupId, SubscriberGroup>,
    next: u64,
}

impl SubscriberGroups {
    /// Adds a subscription; answers its shape and whether that is new.
    pub(super) fn join(&mut self, key: GroupKey, subscription: SubscriptionKey) -> (GroupId, bool) {
        if let Some(id) = self.by_key.get(&key) {
            if let Some(shape) = self.by_id.get_mut(id) {
                shape.members.push(subscription);
            }
            return (*id, false);
        }
        let id = GroupId(self.next);
        self.next += 1;
        let key = Arc::new(key);
        self.by_key.insert(key.clone(), id);
        self.by_id.insert(id, SubscriberGroup { key, members: vec![subscription], runs: Vec::new() });
        (id, true)
    }

    /// Takes a subscription out; answers whether the shape is gone.
    pub(super) fn leave(&mut self, id: GroupId, subscription: SubscriptionKey) -> bool {
        let Some(shape) = self.by_id.get_mut(&id) else { return true };
        shape.members.retain(|k| *k != subscription);
        if !shape.members.is_empty() {
            return false;
        }
        self.by_key.remove(&shape.key);
        self.by_id.remove(&id);
        true
    }

    pub(super) fn key(&self, id: GroupId) -> Option<Arc<GroupKey>> {
        self.by_id.get(&id).map(|shape| shape.key.clone())
    }

    pub(super) fn is(&self, id: GroupId, key: &GroupKey) -> bool {
        self.by_id.get(&id).is_some_and(|shape| *shape.key == *key)
    }

    pub(super) fn need_words(&self) -> bool {
        self.by_key.keys().any(|k| k.cutting.needs_words())
    }
}

impl Engine {
    /// Sends an event to every subscription that should get it.
    pub(super) fn deliver(&mut self, cx: &mut Cx<'_>, event: &Event) {
        self.deliver_if(cx, event, |_| true);
    }

    /// Sends an event to those subscriptions for which the predicate holds.
    pub(super) fn deliver_if(&mut self, cx: &mut Cx<'_>, event: &Event, wanted: impl FnMut(SubscriptionKey) -> bool) {
        self.deliver_made(cx, event, wanted, |words, source| {
            let source = source.get_or_insert_with(|| Arc::new(event.clone()));
            Arc::new(Frame::new(words.tailor(event)).with_source(source.clone()))
        });
    }

    /// Sends an event to those subscriptions for which the predicate holds, as a frame that the last argument makes for
    /// all who share these words. It is handed a place to keep a copy of the event between calls.
    pub(super) fn deliver_made(
        &mut self,
        cx: &mut Cx<'_>,
        event: &Event,
        mut wanted: impl FnMut(SubscriptionKey) -> bool,
        mut make: impl FnMut(&TextPreferences, &mut Option<Arc<Event>>) -> Arc<Frame>,
    ) {
        // A sentence that is complete is emitted before what follows it (decision 76).
        let mut overfull = self.push_settled_text(cx, &event.envelope.session_id, None);
        let mut source = None;
        // Shapes that differ in their filters only still say the same words.
        let mut frames: BTreeMap<TextPreferences, Arc<Frame>> = BTreeMap::new();
        for shape in self.shapes.by_id.values_mut() {
            if !shape.key.wants(event) {
                shape.skip(event, &mut self.subscriptions);
                continue;
            }
            let frame = match frames.get(&shape.key.words) {
                Some(frame) => frame.clone(),
                None => {
                    let frame = make(&shape.key.words, &mut source);
                    frames.insert(shape.key.words.clone(), frame.clone());
                    frame
                }
            };
            let mut delivery = Delivery {
                journal: self.config.journal,
                meter: &self.config.frames,
                counts: &mut self.counts,
                runs: &mut shape.runs,
                out: &mut self.out,
                timers: &mut self.timers,
            };
            for member in &shape.members {
                let Some(subscription) = self.subscriptions.get_mut(*member) else { continue };
                if wanted(*member) && delivery.push(cx, *member, subscription, &frame) {
                    overfull.push(*member);
                }
            }
        }
        self.close_overfull(cx, overfull);
    }

    /// Sends what has become ready of an output's text.
    pub(super) fn deliver_text(&mut self, cx: &mut Cx<'_>, session: &SessionId, output: &OutputId) {
        let overfull = self.push_text(cx, session, output);
        self.close_overfull(cx, overfull);
    }

    /// Hands what has become ready of an output's text to subscriptions; answers whose outboxes are too full.
    pub(super) fn push_text(
        &mut self,
        cx: &mut Cx<'_>,
        session_id: &SessionId,
        output_id: &OutputId,
    ) -> Vec<SubscriptionKey> {
        let mut overfull = Vec::new();
        let Some(session) = self.sessions.get_mut(session_id) else { return overfull };
        let Some(mut output) = session.take_output(output_id) else { return overfull };
        // What is cut alike from the same place is the same event, whoever gets it.
        let mut cuts: BTreeMap<(BoundarySet, Cursor), Option<Cut>> = BTreeMap::new();
        for (id, shape) in &mut self.shapes.by_id {
            let mut cursor = output.cursor(*id);
            let cutting = shape.key.cutting;
            let wanted = shape.key.filter.passes_core(CoreType::OutputStreaming);
            while let Some(cut) =
                cuts.entry((cutting, cursor)).or_insert_with(|| Cut::next(&output.text, cursor, cutting))
            {
                cursor = cut.after;
                output.set_cursor(*id, cursor);
                if !wanted {
                    continue;
                }
                self.counts.published += u64::from(cut.frame.is_none());
                let piece = &cut.piece;
                let make = || session.text_frame(cx, output_id, &output, piece);
                let frame = cut.frame.get_or_insert_with(make);
                let mut delivery = Delivery {
                    journal: self.config.journal,
                    meter: &self.config.frames,
                    counts: &mut self.counts,
                    runs: &mut shape.runs,
                    out: &mut self.out,
                    timers: &mut self.timers,
                };
                for member in &shape.members {
                    let Some(subscription) = self.subscriptions.get_mut(*member) else { continue };
                    let own = subscription
                        .without_known(output_id, piece)
                        .map(|rest| rest.map(|piece| session.text_frame(cx, output_id, &output, &piece)));
                    let full = match own {
                        None => delivery.push(cx, *member, subscription, frame),
                        Some(Some(rest)) => delivery.push(cx, *member, subscription, &rest),
                        Some(None) => false,
                    };
                    if full {
                        overfull.push(*member);
                    }
                }
            }
        }
        let cursors: Vec<_> = self.shapes.by_id.keys().map(|id| output.cursor(*id)).collect();
        output.text.forget_before(cursors.into_iter());
        if output.text.is_finished() {
            self.subscriptions.forget_output(output_id);
            if let Some(at) = output.pause_at.take() {
                self.timers.remove(&(at, Timer::Pause(session_id.clone(), output_id.clone())));
            }
        }
        session.put_output(output_id.clone(), output);
        overfull
    }

    /// Sends one event to one subscription, whatever others get.
    pub(super) fn deliver_to(&mut self, cx: &mut Cx<'_>, key: SubscriptionKey, event: &Event) {
        let mut overfull = self.push_settled_text(cx, &event.envelope.session_id, None);
        if self.push_to(cx, key, event) {
            overfull.push(key);
        }
        self.close_overfull(cx, overfull);
    }

    /// Hands one event to one subscription; answers whether its outbox is too full.
    fn push_to(&mut self, cx: &mut Cx<'_>, key: SubscriptionKey, event: &Event) -> bool {
        let Some(subscription) = self.subscriptions.get_mut(key) else { return false };
        let Some(shape) = self.shapes.by_id.get_mut(&subscription.shape) else { return false };
        if !shape.key.wants(event) {
            return false;
        }
        let frame = Arc::new(Frame::new(shape.key.words.tailor(event)).with_source(Arc::new(event.clone())));
        let mut delivery = Delivery {
            journal: self.config.journal,
            meter: &self.config.frames,
            counts: &mut self.counts,
            runs: &mut shape.runs,
            out: &mut self.out,
            timers: &mut self.timers,
        };
        delivery.push(cx, key, subscription, &frame)
    }

    /// Sends a piece of text to one subscription.
    pub(super) fn deliver_frame(&mut self, cx: &mut Cx<'_>, key: SubscriptionKey, frame: &Arc<Frame>) {
        let Some(subscription) = self.subscriptions.get_mut(key) else { return };
        let Some(shape) = self.shapes.by_id.get_mut(&subscription.shape) else { return };
        let mut delivery = Delivery {
            journal: self.config.journal,
            meter: &self.config.frames,
            counts: &mut self.counts,
            runs: &mut shape.runs,
            out: &mut self.out,
            timers: &mut self.timers,
        };
        if delivery.push(cx, key, subscription, frame) {
            self.close_overfull(cx, vec![key]);
        }
    }

    /// An event as a subscription hears it, if it does.
    pub(super) fn tailored(&self, key: SubscriptionKey, event: &Event) -> Option<Arc<Frame>> {
        let shape = self.shapes.by_id.get(&self.subscriptions.get(key)?.shape)?;
        let text = event.core_type() == Some(CoreType::OutputStreaming);
        let wanted = shape.key.filter.passes(event) && (text || shape.key.words.wants(event));
        wanted.then(|| Arc::new(Frame::new(if text { event.clone() } else { shape.key.words.tailor(event) })))
    }

    /// Sends what a subscription's outbox lets go by now.
    pub(super) fn pump(&mut self, cx: &mut Cx<'_>, key: SubscriptionKey) {
        let Some(subscription) = self.subscriptions.get_mut(key) else { return };
        let Some(shape) = self.shapes.by_id.get_mut(&subscription.shape) else { return };
        let mut delivery = Delivery {
            journal: self.config.journal,
            meter: &self.config.frames,
            counts: &mut self.counts,
            runs: &mut shape.runs,
            out: &mut self.out,
            timers: &mut self.timers,
        };
        delivery.pump(cx, key, subscription);
    }
}

/// A piece of text as it is cut for everyone who stands at the same place.
struct Cut {
    after: Cursor,
    piece: TextChunk,
    /// Made when somebody wants it.
    frame: Option<Arc<Frame>>,
}

impl Cut {
    fn next(text: &OutputText, mut cursor: Cursor, cutting: BoundarySet) -> Option<Cut> {
        let piece = text.next_piece(&mut cursor, cutting)?;
        Some(Cut { after: cursor, piece, frame: None })
    }
}

/// The parts of the engine that a delivery touches.
struct Delivery<'e> {
    journal: bool,
    meter: &'e FrameMeter,
    counts: &'e mut EngineStats,
    runs: &'e mut Vec<(RunKey, Arc<Frame>)>,
    out: &'e mut std::collections::VecDeque<EngineOutput>,
    timers: &'e mut std::collections::BTreeSet<(crate::time::Moment, Timer)>,
}

impl Delivery<'_> {
    /// Hands a frame to a subscription; answers whether its outbox is too full to go on.
    fn push(&mut self, cx: &mut Cx<'_>, key: SubscriptionKey, to: &mut Subscription, frame: &Arc<Frame>) -> bool {
        let (runs, out, counts) = (&mut *self.runs, &mut *self.out, &mut *self.counts);
        let now = cx.now.moment;
        frame.count_with(self.meter);
        counts.accepted += 1;
        to.outbox.push(frame, now, &mut |release| {
            counts.delivered += 1;
            let frame = finish(cx, runs, release);
            out.push_back(EngineOutput::Event(key, frame));
        });
        if to.outbox.waiting() > 0 || to.armed.is_some() {
            self.arm(cx, key, to);
        }
        self.note_held(to);
        to.outbox.is_overfull()
    }

    fn pump(&mut self, cx: &mut Cx<'_>, key: SubscriptionKey, to: &mut Subscription) {
        let (runs, out, counts) = (&mut *self.runs, &mut *self.out, &mut *self.counts);
        let now = cx.now.moment;
        to.outbox.pump(now, &mut |release| {
            counts.delivered += 1;
            let frame = finish(cx, runs, release);
            out.push_back(EngineOutput::Event(key, frame));
        });
        if let Some(old) = to.armed.take() {
            self.timers.remove(&(old, Timer::Outbox(key)));
        }
        self.arm(cx, key, to);
        self.note_held(to);
    }

    /// Who comes back after a restart must not be told that it has all, if something waited for it.
    fn note_held(&mut self, to: &mut Subscription) {
        to.count_text(self.meter);
        let held = to.outbox.waiting() > 0;
        if self.journal && held != to.held && to.binding == ResumePolicy::Resumable {
            to.held = held;
            self.out.push_back(EngineOutput::Journal(Box::new(JournalEntry::Held(to.id.clone(), held))));
        }
    }

    fn arm(&mut self, cx: &Cx<'_>, key: SubscriptionKey, to: &mut Subscription) {
        let ready = to.outbox.ready_at(cx.now.moment);
        if ready == to.armed {
            return;
        }
        if let Some(old) = to.armed {
            self.timers.remove(&(old, Timer::Outbox(key)));
        }
        if let Some(at) = ready {
            self.timers.insert((at, Timer::Outbox(key)));
        }
        to.armed = ready;
    }
}

/// Makes the frame of what was released. What was folded is another event and has another id (decision 8);
/// what was overtaken is the same event, told later.
fn finish(cx: &mut Cx<'_>, runs: &mut Vec<(RunKey, Arc<Frame>)>, release: Release) -> Arc<Frame> {
    let frame = match release.what {
        OutgoingFrame::Frame(frame) => frame,
        OutgoingFrame::State(frame, from) => {
            let mut event = frame.event().clone();
            event.envelope.event_id = EventId::random(cx.entropy);
            if let Payload::StateChanged(change) = &mut event.payload {
                change.from_state = from;
            }
            Arc::new(Frame::new(event))
        }
        OutgoingFrame::Run(run) => finish_run(cx, runs, run),
    };
    match release.not_before {
        Some(time) if frame.event().envelope.timestamp < time => {
            let mut event = frame.event().clone();
            event.envelope.timestamp = time;
            Arc::new(Frame::new(event))
        }
        _ => frame,
    }
}

fn finish_run(cx: &mut Cx<'_>, runs: &mut Vec<(RunKey, Arc<Frame>)>, run: CoalescedText) -> Arc<Frame> {
    let (session, output) = (run.session().clone(), run.output().cloned());
    let (position, end, hint) = (run.position, run.end(), run.hint.clone());
    let at = run.frame.event().envelope.timestamp;
    let key = RunKey { session, output, position, end, hint, complete: run.complete, at };
    if let Some((_, frame)) = runs.iter().find(|(k, _)| *k == key) {
        return frame.clone();
    }
    let frame = Arc::new(Frame::new(join(cx, run)));
    if runs.len() == RUNS {
        runs.remove(0);
    }
    runs.push((key, frame.clone()));
    frame
}

fn join(cx: &mut Cx<'_>, run: CoalescedText) -> Event {
    let mut event = run.frame.event().clone();
    // One piece that only ends with another hint says the same and stays the same event.
    if run.frame.position() != Some(run.position) || run.frame.chunk() != run.text {
        event.envelope.event_id = EventId::random(cx.entropy);
    }
    if let Payload::OutputStreaming(chunk) = &mut event.payload {
        chunk.position = run.position;
        chunk.chunk = run.text;
        chunk.coalesce_hint = Some(run.hint);
        chunk.complete = run.complete;
    }
    event
}

/// The part of a piece that comes after so many characters of the output.
pub(super) fn rest_after(piece: &TextChunk, known: u64) -> Option<TextChunk> {
    let end = piece.position + piece.text.chars().count() as u64;
    if known >= end && !piece.complete {
        return None;
    }
    let skip = known.saturating_sub(piece.position) as usize;
    Some(TextChunk {
        text: piece.text.chars().skip(skip).collect(),
        position: known.max(piece.position).min(end),
        ..piece.clone()
    })
}
