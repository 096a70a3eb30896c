//! The queue of a voice: it selects the next utterance, decides what is canceled, and produces events. It does no I/O.

mod item;

use std::collections::VecDeque;

use aaep_announce::{Priority, Turn, Utterance};

use super::error::{SayError, VoiceError};
use super::wire::{SpeechEvent, clean};
use item::{Item, makes_obsolete};

/// The longest text: about an hour of speech.
const MAX_TEXT_BYTES: usize = 64 * 1024;

/// How many skipped progress messages are remembered, because the server may speak them later.
const MAX_PASSED_MESSAGES: usize = 8;

/// The id of an utterance, unique within its voice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpeechId(u64);

/// A change of an utterance or of the voice.
///
/// ```
/// use aaep_voice::{SpeechId, VoiceEvent};
/// fn was_heard(event: &VoiceEvent, prompt: SpeechId) -> bool {
///     matches!(event, VoiceEvent::Ended { id, .. } if *id == prompt)
/// }
/// # let _ = was_heard;
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum VoiceEvent {
    /// The server began to speak an utterance.
    Begun {
        /// The utterance.
        id: SpeechId,
        /// The subject of the utterance.
        about: Option<String>,
    },
    /// An utterance was spoken completely.
    Ended {
        /// The utterance.
        id: SpeechId,
        /// The subject of the utterance.
        about: Option<String>,
    },
    /// An utterance was canceled, interrupted or skipped: it was not spoken, or not completely.
    Canceled {
        /// The utterance.
        id: SpeechId,
        /// The subject of the utterance.
        about: Option<String>,
    },
    /// The connection to the server was lost. Emitted once until it is back.
    Lost(VoiceError),
    /// The connection to the server is back.
    Back,
}

/// What should happen with the message that the server has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Disposition {
    Said,
    /// Canceled for good.
    Cut,
    /// Canceled to let a more urgent utterance go first, and sent again after it.
    Later,
}

/// The message that the server has; there is at most one.
#[derive(Debug)]
struct Current {
    item: Item,
    /// The server's id of the message, once it was sent.
    message: Option<u64>,
    begun: bool,
    paused: bool,
    fate: Disposition,
    /// Whether the server was asked to cancel it.
    asked: bool,
}

/// A message that the server interrupts for the important one that is now current.
#[derive(Debug)]
struct Leaving {
    message: u64,
    item: Item,
    /// Whether it is spoken again later.
    again: bool,
}

/// What the timeout of the current message applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Watch {
    /// There is no message, or speech is paused.
    Nothing,
    /// The message is being spoken or waits for other clients: its id, whether it has begun, its length in characters.
    Speaking(u64, bool, usize),
    /// The message was canceled; the server should report that at once.
    Leaving(u64),
}

/// The utterances of a voice.
pub(super) struct Queue {
    waiting: VecDeque<Item>,
    limit: usize,
    current: Option<Current>,
    leaving: Option<Leaving>,
    /// Progress messages that the server skipped. It speaks the last one of a series later by itself.
    passed: VecDeque<(u64, Item)>,
    next: u64,
    out: Vec<VoiceEvent>,
}

impl Queue {
    pub(super) fn new(limit: usize) -> Queue {
        let (waiting, passed, out) = (VecDeque::new(), VecDeque::new(), Vec::new());
        Queue { waiting, limit, current: None, leaving: None, passed, next: 1, out }
    }

    /// Takes the events since the last call, in order.
    pub(super) fn take_events(&mut self) -> Vec<VoiceEvent> {
        std::mem::take(&mut self.out)
    }

    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.current.is_none() && self.leaving.is_none()
    }

    pub(super) fn push(&mut self, mut utterance: Utterance) -> Result<SpeechId, SayError> {
        if utterance.text.len() > MAX_TEXT_BYTES {
            return Err(SayError::TooLong);
        }
        utterance.text = clean(&utterance.text);
        if utterance.text.is_empty() {
            return Err(SayError::Empty);
        }
        let priority = utterance.priority;
        let interrupts = utterance.interrupts;
        if priority == Priority::Notification && !self.is_idle() {
            // A notification is spoken only into silence.
            let item = self.item(utterance);
            self.canceled(&item);
            return Ok(item.id);
        }
        self.drop_waiting(|item| makes_obsolete(&utterance, &item.utterance));
        self.make_room(&utterance)?;
        self.make_way(&utterance);
        let item = self.item(utterance);
        let id = item.id;
        let first = item.is_first();
        let place = self.waiting.iter().position(|other| match interrupts {
            _ if first || other.is_first() => first && !other.is_first(),
            true => other.utterance.priority <= priority,
            false => other.utterance.priority < priority,
        });
        self.waiting.insert(place.unwrap_or(self.waiting.len()), item);
        Ok(id)
    }

    fn item(&mut self, utterance: Utterance) -> Item {
        let id = SpeechId(self.next);
        self.next += 1;
        Item { id, utterance, again: false }
    }

    /// Removes the oldest utterance of the lowest rank if the queue is full. Fails if none has a lower rank.
    fn make_room(&mut self, new: &Utterance) -> Result<(), SayError> {
        if self.waiting.len() < self.limit {
            return Ok(());
        }
        let rank = |utterance: &Utterance| (utterance.turn == Turn::First, utterance.priority);
        let least = self.waiting.iter().map(|item| rank(&item.utterance)).min();
        let Some(least) = least.filter(|least| *least < rank(new)) else {
            return Err(SayError::Full);
        };
        let place = self.waiting.iter().position(|item| rank(&item.utterance) == least);
        if let Some(item) = place.and_then(|place| self.waiting.remove(place)) {
            self.canceled(&item);
        }
        Ok(())
    }

    /// Cancels the current message if the new utterance should not wait for it.
    fn make_way(&mut self, new: &Utterance) {
        let Some(current) = self.current.as_mut().filter(|current| current.fate == Disposition::Said) else {
            return;
        };
        let (priority, interrupts) = (new.priority, new.interrupts);
        let less = current.item.utterance.priority;
        let passes = match (new.turn == Turn::First, current.item.is_first()) {
            (true, is_first) => !is_first,
            (false, true) => false,
            (false, false) => less < priority || less == priority && interrupts,
        };
        let first_waits = self.waiting.front().is_some_and(Item::is_first);
        // The server itself interrupts it, see `must_pass`.
        let server_interrupts = priority == Priority::Important && less < Priority::Important && !first_waits;
        if passes && !current.begun {
            // It waits for the speech of other clients.
            current.fate =
                if makes_obsolete(new, &current.item.utterance) { Disposition::Cut } else { Disposition::Later };
        } else if passes && new.turn == Turn::First {
            if interrupts && !server_interrupts {
                current.fate = if current.item.comes_again() { Disposition::Later } else { Disposition::Cut };
            }
        } else if passes && interrupts && (less == priority || priority < Priority::Important) {
            current.fate = Disposition::Cut;
        }
    }

    /// Returns whether an important utterance must interrupt the current message. The server itself interrupts it when it
    /// receives the important one. Canceling it first would let messages of other clients begin, only to be interrupted.
    fn must_pass(&self) -> bool {
        let next = self.waiting.front().is_some_and(|item| item.utterance.priority == Priority::Important);
        let current = self.current.as_ref().filter(|current| current.fate == Disposition::Said && current.begun);
        next && current
            .is_some_and(|current| current.item.utterance.priority < Priority::Important && !current.item.is_first())
    }

    fn leave(&mut self) {
        self.left();
        let for_first = self.waiting.front().is_some_and(Item::is_first);
        if let Some(Current { item, message: Some(message), .. }) = self.current.take() {
            let again = for_first && item.comes_again();
            self.leaving = Some(Leaving { message, item, again });
        }
    }

    /// Ends the message that was interrupted for an important one, whether or not the server reported it: it is queued
    /// again or reported as canceled.
    fn left(&mut self) {
        match self.leaving.take() {
            Some(Leaving { item, again: true, .. }) => self.requeue(item),
            Some(Leaving { item, .. }) => self.canceled(&item),
            None => {}
        }
    }

    /// Cancels all utterances about a subject.
    pub(super) fn cancel_about(&mut self, about: &str) {
        self.drop_waiting(|item| item.is_about(about));
        self.passed.retain(|(_, item)| !item.is_about(about));
        if let Some(current) = self.current.as_mut().filter(|current| current.item.is_about(about)) {
            current.fate = Disposition::Cut;
        }
        if let Some(leaving) = self.leaving.as_mut().filter(|leaving| leaving.item.is_about(about)) {
            leaving.again = false;
        }
    }

    /// Makes way for a response to the user: what is being spoken stops. Text and results are spoken again after the
    /// response; what was first or is out of date is canceled. A question or a failure that was not begun stays.
    pub(super) fn hush(&mut self) {
        let unheard = |item: &&Item| item.is_first() && item.utterance.priority == Priority::Important;
        let kept: Vec<String> = self.waiting.iter().filter(unheard).filter_map(|i| i.utterance.about.clone()).collect();
        self.drop_waiting(|item| match item.utterance.turn {
            Turn::Passing => true,
            Turn::Normal => false,
            Turn::First => item.utterance.about.as_ref().is_none_or(|about| !kept.contains(about)),
        });
        self.passed.clear();
        if let Some(current) = self.current.as_mut().filter(|current| current.fate == Disposition::Said) {
            current.fate = if current.item.comes_again() { Disposition::Later } else { Disposition::Cut };
        }
    }

    /// Cancels all utterances.
    pub(super) fn stop(&mut self) {
        self.drop_waiting(|_| true);
        self.passed.clear();
        if let Some(current) = &mut self.current {
            current.fate = Disposition::Cut;
        }
        if let Some(leaving) = &mut self.leaving {
            leaving.again = false;
        }
    }

    fn drop_waiting(&mut self, gone: impl Fn(&Item) -> bool) {
        let (dropped, kept): (Vec<Item>, Vec<Item>) = self.waiting.drain(..).partition(|item| gone(item));
        self.waiting = kept.into();
        for item in dropped {
            self.canceled(&item);
        }
    }

    /// Returns the utterance to send now, if any.
    pub(super) fn next(&mut self) -> Option<Utterance> {
        if self.must_pass() {
            self.leave();
        }
        if self.current.is_some() {
            return None;
        }
        let item = self.waiting.pop_front()?;
        let utterance = item.utterance.clone();
        self.current =
            Some(Current { item, message: None, begun: false, paused: false, fate: Disposition::Said, asked: false });
        Some(utterance)
    }

    /// Sets the server's id of the utterance that `next` returned, or `None` if the server did not accept it.
    pub(super) fn set_message(&mut self, message: Option<u64>) {
        match (&mut self.current, message) {
            (Some(current), Some(message)) => current.message = Some(message),
            _ => self.give_up(),
        }
    }

    /// Returns whether the server must be asked to cancel the current message. Returns `true` once per message.
    pub(super) fn take_cancel_request(&mut self) -> bool {
        match &mut self.current {
            Some(current) if current.fate != Disposition::Said && current.message.is_some() && !current.asked => {
                current.asked = true;
                true
            }
            _ => false,
        }
    }

    /// Handles an event of the server. Returns whether the message that it just began must be stopped.
    pub(super) fn handle_event(&mut self, message: u64, happened: SpeechEvent) -> bool {
        if self.leaving.as_ref().is_some_and(|leaving| leaving.message == message) {
            self.handle_leaving_event(happened);
            return false;
        }
        match &mut self.current {
            Some(current) if current.message == Some(message) => {
                match happened {
                    SpeechEvent::Begun => {
                        current.begun = true;
                        let (id, about) = name(&current.item);
                        // It began although it was canceled: a message on its way to the synthesizer can escape a CANCEL.
                        current.asked = false;
                        self.out.push(VoiceEvent::Begun { id, about });
                    }
                    SpeechEvent::Paused => current.paused = true,
                    SpeechEvent::Resumed => current.paused = false,
                    SpeechEvent::Ended | SpeechEvent::Canceled => self.over(happened),
                }
                false
            }
            _ => self.handle_passed_event(message, happened),
        }
    }

    fn handle_leaving_event(&mut self, happened: SpeechEvent) {
        match happened {
            SpeechEvent::Canceled => self.left(),
            // It ended before the important one interrupted it.
            SpeechEvent::Ended => {
                if let Some(Leaving { item, .. }) = self.leaving.take() {
                    let (id, about) = name(&item);
                    self.out.push(VoiceEvent::Ended { id, about });
                }
            }
            SpeechEvent::Begun | SpeechEvent::Paused | SpeechEvent::Resumed => {}
        }
    }

    fn over(&mut self, happened: SpeechEvent) {
        self.left();
        let Some(Current { item, message, fate, .. }) = self.current.take() else {
            return;
        };
        if happened == SpeechEvent::Ended {
            let (id, about) = name(&item);
            self.out.push(VoiceEvent::Ended { id, about });
        } else if fate == Disposition::Later {
            self.requeue(item);
        } else {
            self.canceled(&item);
            if fate == Disposition::Said && item.utterance.priority == Priority::Progress {
                self.passed.extend(message.map(|message| (message, item)));
                if self.passed.len() > MAX_PASSED_MESSAGES {
                    self.passed.pop_front();
                }
            }
        }
    }

    /// Queues an utterance again: first of its priority, behind more urgent ones and those that interrupt.
    fn requeue(&mut self, item: Item) {
        let priority = item.utterance.priority;
        let first = item.is_first();
        let place = self.waiting.iter().position(|item| {
            let other = &item.utterance;
            let behind = other.priority < priority || other.priority == priority && !other.interrupts;
            if first { true } else { !item.is_first() && behind }
        });
        self.waiting.insert(place.unwrap_or(self.waiting.len()), item);
    }

    fn handle_passed_event(&mut self, message: u64, happened: SpeechEvent) -> bool {
        let Some(place) = self.passed.iter().position(|(id, _)| *id == message) else {
            // It was given up or canceled, and the server speaks it all the same.
            return happened == SpeechEvent::Begun;
        };
        let (id, about) = name(&self.passed[place].1);
        match happened {
            SpeechEvent::Begun => {
                self.out.push(VoiceEvent::Begun { id, about });
                if self.current.is_none()
                    && let Some((_, item)) = self.passed.remove(place)
                {
                    let fate = Disposition::Said;
                    let message = Some(message);
                    self.current = Some(Current { item, message, begun: true, paused: false, fate, asked: false });
                }
            }
            SpeechEvent::Ended => {
                self.out.push(VoiceEvent::Ended { id, about });
                self.passed.remove(place);
            }
            SpeechEvent::Canceled | SpeechEvent::Paused | SpeechEvent::Resumed => {}
        }
        false
    }

    /// Stops waiting for the current message.
    pub(super) fn give_up(&mut self) {
        self.over(SpeechEvent::Canceled);
    }

    /// Handles the timeout of the current message: cancels it, or gives it up if it was canceled already.
    pub(super) fn overdue(&mut self) {
        match &mut self.current {
            Some(current) if current.fate == Disposition::Said => current.fate = Disposition::Cut,
            _ => self.give_up(),
        }
    }

    pub(super) fn watch(&self) -> Watch {
        match &self.current {
            Some(Current { message: Some(message), fate: Disposition::Cut | Disposition::Later, .. }) => {
                Watch::Leaving(*message)
            }
            Some(Current { message: Some(message), paused: false, item, begun, .. }) => {
                Watch::Speaking(*message, *begun, item.utterance.text.chars().count())
            }
            _ => Watch::Nothing,
        }
    }

    /// Handles the loss of the connection. Queues the current message again, once, unless it is only progress.
    pub(super) fn lost(&mut self) {
        self.passed.clear();
        self.left();
        if let Some(Current { mut item, fate, .. }) = self.current.take() {
            if fate == Disposition::Cut || item.again || !item.matters() {
                self.canceled(&item);
            } else {
                item.again = true;
                self.requeue(item);
            }
        }
        self.drop_waiting(|item| !item.matters());
    }

    pub(super) fn push_event(&mut self, event: VoiceEvent) {
        self.out.push(event);
    }

    fn canceled(&mut self, item: &Item) {
        let (id, about) = name(item);
        self.out.push(VoiceEvent::Canceled { id, about });
    }
}

fn name(item: &Item) -> (SpeechId, Option<String>) {
    (item.id, item.utterance.about.clone())
}

#[cfg(test)]
mod tests;
