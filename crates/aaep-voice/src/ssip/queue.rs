//! What is said next, what is taken back, what is told to whom. Nothing here waits or talks.

use std::collections::VecDeque;

use aaep_announce::{Priority, Utterance};

use super::error::{SayError, VoiceError};
use super::wire::{SpeechEvent, clean};

/// The longest text, in bytes: an hour of speech.
const TEXT: usize = 64 * 1024;

/// How many progress messages are remembered that the server passed over but may say later after all.
const PASSED: usize = 8;

/// The number of an utterance, unique within its voice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpeechId(u64);

/// What became of an utterance, or of the voice.
///
/// ```
/// use aaep_voice::{SpeechId, VoiceEvent};
/// fn was_heard(event: &VoiceEvent, prompt: SpeechId) -> bool {
///     matches!(event, VoiceEvent::Ended { id, .. } if *id == prompt)
/// }
/// # let _ = was_heard;
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VoiceEvent {
    /// The first sound of it.
    Begun {
        /// Which one.
        id: SpeechId,
        /// What it belongs to.
        about: Option<String>,
    },
    /// It was said to its end.
    Ended {
        /// Which one.
        id: SpeechId,
        /// What it belongs to.
        about: Option<String>,
    },
    /// It was taken back, cut, or passed over: it was not heard, or not to its end.
    Canceled {
        /// Which one.
        id: SpeechId,
        /// What it belongs to.
        about: Option<String>,
    },
    /// There is no voice. Told once until it is back.
    Lost(VoiceError),
    /// The voice is back.
    Back,
}

#[derive(Clone, Debug)]
struct Item {
    id: SpeechId,
    utterance: Utterance,
    /// Whether it was already handed to a voice that died.
    again: bool,
}

impl Item {
    fn matters(&self) -> bool {
        self.utterance.priority >= Priority::Message
    }

    fn is_about(&self, about: &str) -> bool {
        self.utterance.about.as_deref() == Some(about)
    }
}

/// What is to become of the message that the server has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Disposition {
    Said,
    /// Taken back for good.
    Cut,
    /// Taken back to let a more urgent one pass; it comes after that.
    Later,
}

/// The one message that the server has.
#[derive(Debug)]
struct Current {
    item: Item,
    /// The server's number, once it was handed over.
    message: Option<u64>,
    begun: bool,
    paused: bool,
    fate: Disposition,
    /// Whether the server was asked to take it back.
    asked: bool,
}

/// How the message that the server has is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Watch {
    /// There is none, or somebody made the voice pause.
    Nothing,
    /// It is being said, or waits for others: its number, whether it has begun, its length in characters.
    Speaking(u64, bool, usize),
    /// It was taken back; the server should say so at once.
    Leaving(u64),
}

/// The utterances of one voice.
pub(super) struct Queue {
    waiting: VecDeque<Item>,
    limit: usize,
    current: Option<Current>,
    /// What the server cuts for the important one that is now current.
    leaving: Option<(u64, Item)>,
    /// Progress that the server passed over. It says the last one of a series later, without being asked.
    passed: VecDeque<(u64, Item)>,
    next: u64,
    out: Vec<VoiceEvent>,
}

impl Queue {
    pub(super) fn new(limit: usize) -> Queue {
        let (waiting, passed, out) = (VecDeque::new(), VecDeque::new(), Vec::new());
        Queue { waiting, limit, current: None, leaving: None, passed, next: 1, out }
    }

    /// What happened since the last call, in order.
    pub(super) fn take_events(&mut self) -> Vec<VoiceEvent> {
        std::mem::take(&mut self.out)
    }

    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.current.is_none() && self.leaving.is_none()
    }

    pub(super) fn push(&mut self, mut utterance: Utterance) -> Result<SpeechId, SayError> {
        if utterance.text.len() > TEXT {
            return Err(SayError::TooLong);
        }
        utterance.text = clean(&utterance.text);
        if utterance.text.is_empty() {
            return Err(SayError::Empty);
        }
        let priority = utterance.priority;
        let interrupts = utterance.interrupts;
        if priority == Priority::Notification && !self.is_idle() {
            // It is for silence only, and there is none.
            let item = self.item(utterance);
            self.canceled(&item);
            return Ok(item.id);
        }
        self.drop_waiting(|item| outdates(&utterance, &item.utterance));
        self.make_room(priority)?;
        self.make_way(&utterance);
        let item = self.item(utterance);
        let id = item.id;
        let place = self.waiting.iter().position(|other| match interrupts {
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

    /// If the queue is full, the oldest of the least that matters less gives its place.
    fn make_room(&mut self, priority: Priority) -> Result<(), SayError> {
        if self.waiting.len() < self.limit {
            return Ok(());
        }
        let least = self.waiting.iter().map(|item| item.utterance.priority).min();
        let Some(least) = least.filter(|least| *least < priority) else {
            return Err(SayError::Full);
        };
        let place = self.waiting.iter().position(|item| item.utterance.priority == least);
        if let Some(item) = place.and_then(|place| self.waiting.remove(place)) {
            self.canceled(&item);
        }
        Ok(())
    }

    /// Takes back what the server has, if the new one should not wait for it.
    fn make_way(&mut self, new: &Utterance) {
        let Some(current) = self.current.as_mut().filter(|current| current.fate == Disposition::Said) else {
            return;
        };
        let (priority, interrupts) = (new.priority, new.interrupts);
        let less = current.item.utterance.priority;
        let passes = less < priority || less == priority && interrupts;
        if passes && !current.begun {
            // It waits for others' speech.
            current.fate = if outdates(new, &current.item.utterance) { Disposition::Cut } else { Disposition::Later };
        } else if passes && interrupts && (less == priority || priority < Priority::Important) {
            current.fate = Disposition::Cut;
        }
    }

    /// Whether an important one has to pass what is being said. The server itself cuts that when it gets the important
    /// one; silence first would let others' messages begin, only to be cut.
    fn must_pass(&self) -> bool {
        let next = self.waiting.front().is_some_and(|item| item.utterance.priority == Priority::Important);
        let current = self.current.as_ref().filter(|current| current.fate == Disposition::Said && current.begun);
        next && current.is_some_and(|current| current.item.utterance.priority < Priority::Important)
    }

    fn leave(&mut self) {
        self.left();
        if let Some(Current { item, message: Some(message), .. }) = self.current.take() {
            self.leaving = Some((message, item));
        }
    }

    /// What was cut for an important one is gone, whether the server said so or not.
    fn left(&mut self) {
        if let Some((_, item)) = self.leaving.take() {
            self.canceled(&item);
        }
    }

    /// Takes back what belongs to something that is over.
    pub(super) fn cancel_about(&mut self, about: &str) {
        self.drop_waiting(|item| item.is_about(about));
        self.passed.retain(|(_, item)| !item.is_about(about));
        if let Some(current) = self.current.as_mut().filter(|current| current.item.is_about(about)) {
            current.fate = Disposition::Cut;
        }
    }

    /// Takes back everything.
    pub(super) fn stop(&mut self) {
        self.drop_waiting(|_| true);
        self.passed.clear();
        if let Some(current) = &mut self.current {
            current.fate = Disposition::Cut;
        }
    }

    fn drop_waiting(&mut self, gone: impl Fn(&Item) -> bool) {
        let (dropped, kept): (Vec<Item>, Vec<Item>) = self.waiting.drain(..).partition(|item| gone(item));
        self.waiting = kept.into();
        for item in dropped {
            self.canceled(&item);
        }
    }

    /// What is to be handed to the server now.
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

    /// The server took what `next` gave, under this number, or did not take it.
    pub(super) fn handed(&mut self, message: Option<u64>) {
        match (&mut self.current, message) {
            (Some(current), Some(message)) => current.message = Some(message),
            _ => self.give_up(),
        }
    }

    /// Whether the server has to be asked to take back what it has. Says so once.
    pub(super) fn take_back(&mut self) -> bool {
        match &mut self.current {
            Some(current) if current.fate != Disposition::Said && current.message.is_some() && !current.asked => {
                current.asked = true;
                true
            }
            _ => false,
        }
    }

    /// Takes in an event. Returns whether what the server just began must be stopped.
    pub(super) fn heard(&mut self, message: u64, happened: SpeechEvent) -> bool {
        if self.leaving.as_ref().is_some_and(|(leaving, _)| *leaving == message) {
            self.heard_leaving(happened);
            return false;
        }
        match &mut self.current {
            Some(current) if current.message == Some(message) => {
                match happened {
                    SpeechEvent::Begun => {
                        current.begun = true;
                        let (id, about) = name(&current.item);
                        // It began although it was taken back: a message on its way to the synthesizer can slip through.
                        current.asked = false;
                        self.out.push(VoiceEvent::Begun { id, about });
                    }
                    SpeechEvent::Paused => current.paused = true,
                    SpeechEvent::Resumed => current.paused = false,
                    SpeechEvent::Ended | SpeechEvent::Canceled => self.over(happened),
                }
                false
            }
            _ => self.heard_passed(message, happened),
        }
    }

    fn heard_leaving(&mut self, happened: SpeechEvent) {
        match happened {
            SpeechEvent::Canceled => self.left(),
            // It was faster than the important one.
            SpeechEvent::Ended => {
                if let Some((_, item)) = self.leaving.take() {
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
            self.come_back(item);
        } else {
            self.canceled(&item);
            if fate == Disposition::Said && item.utterance.priority == Priority::Progress {
                self.passed.extend(message.map(|message| (message, item)));
                if self.passed.len() > PASSED {
                    self.passed.pop_front();
                }
            }
        }
    }

    /// Puts back what had its turn: first among its own, behind what is more urgent or interrupts.
    fn come_back(&mut self, item: Item) {
        let priority = item.utterance.priority;
        let place = self.waiting.iter().position(|Item { utterance: other, .. }| {
            other.priority < priority || other.priority == priority && !other.interrupts
        });
        self.waiting.insert(place.unwrap_or(self.waiting.len()), item);
    }

    fn heard_passed(&mut self, message: u64, happened: SpeechEvent) -> bool {
        let Some(place) = self.passed.iter().position(|(id, _)| *id == message) else {
            // Given up or taken back, and now it speaks all the same.
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

    /// What the server has is not waited for any longer.
    pub(super) fn give_up(&mut self) {
        self.over(SpeechEvent::Canceled);
    }

    /// What the server has takes longer than anything should: it is taken back.
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

    /// The server is gone. What was not said to its end and matters is said again, once.
    pub(super) fn lost(&mut self) {
        self.passed.clear();
        self.left();
        if let Some(Current { mut item, fate, .. }) = self.current.take() {
            if fate == Disposition::Cut || item.again || !item.matters() {
                self.canceled(&item);
            } else {
                item.again = true;
                self.come_back(item);
            }
        }
        self.drop_waiting(|item| !item.matters());
    }

    pub(super) fn tell(&mut self, event: VoiceEvent) {
        self.out.push(event);
    }

    fn canceled(&mut self, item: &Item) {
        let (id, about) = name(item);
        self.out.push(VoiceEvent::Canceled { id, about });
    }
}

/// Whether something that waits is pointless beside a new one. What is for silence only has lost its chance, and newer
/// words about the same thing make progress old: said after them, it would tell the story backwards.
fn outdates(new: &Utterance, old: &Utterance) -> bool {
    match old.priority {
        Priority::Notification => true,
        Priority::Progress if new.priority == Priority::Progress => new.about == old.about,
        Priority::Progress => new.about.is_some() && new.about == old.about,
        Priority::Message | Priority::Important => false,
    }
}

fn name(item: &Item) -> (SpeechId, Option<String>) {
    (item.id, item.utterance.about.clone())
}

#[cfg(test)]
mod tests;
