//! New terms for waiting events (decision 77).

use std::sync::Arc;

use super::{CoalescedText, FoldKey, FoldKind, Outbox, OutboxTerms, OutgoingFrame, QueuedContent};
use crate::frame::{Frame, FrameClass};
use crate::id::{OutputId, SessionId};
use crate::shaping::segment::BoundaryLevel;
use crate::time::Moment;

impl Outbox {
    /// Changes the terms. Text that is being announced continues at the new pace.
    pub(crate) fn set_terms(&mut self, terms: OutboxTerms, now: Moment) {
        self.budget = self.budget.with_rate(terms.rate, now);
        let left = self.text_ready.since(now);
        self.text_ready = match (self.terms.pace_wpm, terms.pace_wpm) {
            (Some(old), Some(new)) => now.plus_micros(left.saturating_mul(old.into()) / u64::from(new.max(1))),
            _ => now,
        };
        self.terms = terms;
        for release in &mut self.urgent {
            match &mut release.content {
                OutgoingFrame::Coalesced(run) if run.frame.cut().is_some() => {
                    run.hint = terms.boundaries.hint(run.level, run.complete);
                }
                OutgoingFrame::Frame(frame) => {
                    if let Some(run) = CoalescedText::with_hint(frame, terms.boundaries) {
                        release.content = OutgoingFrame::Coalesced(run);
                    }
                }
                _ => {}
            }
        }
    }

    /// Replaces each waiting frame by the result of `fit`. `None` means that the subscription no longer wants it; critical
    /// events are kept in any case.
    pub(crate) fn refit(&mut self, mut fit: impl FnMut(&Arc<Frame>) -> Option<Arc<Frame>>) {
        self.urgent.retain_mut(|release| {
            let fitted = fit(release.content.frame());
            match (&mut release.content, fitted) {
                (OutgoingFrame::Frame(frame) | OutgoingFrame::State(frame, _), Some(fitted)) => *frame = fitted,
                (OutgoingFrame::Coalesced(_), Some(_)) => {}
                (content, None) => return content.frame().class() == FrameClass::Critical,
            }
            true
        });
        let mut unwanted = Vec::new();
        for (place, held) in &mut self.queued {
            let fitted = fit(held.content.frame());
            match (&mut held.content, fitted) {
                (_, None) => unwanted.push(*place),
                (QueuedContent::State(frame, _) | QueuedContent::Other(frame), Some(fitted)) => *frame = fitted,
                (QueuedContent::Text(_), Some(_)) => {}
            }
        }
        for place in unwanted {
            self.drop_unsent(place);
        }
    }

    /// Removes the waiting text of an output so that it can be split again. The next chunk of the output takes its place
    /// in the queue, until [`Outbox::release_places`].
    pub(crate) fn take_text(&mut self, session: &SessionId, output: &OutputId) -> Option<String> {
        let place = *self.places.get(&text_key(session, output))?;
        let held = self.queued.remove(&place)?;
        let QueuedContent::Text(text) = held.content else { return None };
        self.queued_text_bytes = self.queued_text_bytes.saturating_sub(text.bytes());
        Some(text.into_text())
    }

    /// Releases the places that [`Outbox::take_text`] reserved and that are still empty.
    pub(crate) fn release_places(&mut self) {
        let held = &self.queued;
        self.places.retain(|_, place| held.contains_key(place));
    }

    /// Drops the waiting text of an output after character `end`, where a boundary of this level is. Returns how many
    /// characters of the output were sent, or `None` if no text waits.
    pub(crate) fn truncate_text(
        &mut self,
        session: &SessionId,
        output: &OutputId,
        end: u64,
        level: BoundaryLevel,
    ) -> Option<u64> {
        let place = *self.places.get(&text_key(session, output))?;
        let QueuedContent::Text(text) = &mut self.queued.get_mut(&place)?.content else { return None };
        let (before, sent) = (text.bytes(), text.position());
        text.truncate(end, level);
        let (after, empty) = (text.bytes(), text.is_empty());
        self.queued_text_bytes = (self.queued_text_bytes + after).saturating_sub(before);
        if empty {
            self.remove(place);
        }
        Some(sent)
    }
}

fn text_key(session: &SessionId, output: &OutputId) -> FoldKey {
    FoldKey { session: session.clone(), kind: FoldKind::Text(Some(output.clone())) }
}
