//! New terms for what waits (decision 77).

use std::sync::Arc;

use super::{CoalescedText, Flow, FoldKey, FoldKind, Outbox, OutgoingFrame, What};
use crate::frame::{Frame, FrameClass};
use crate::id::{OutputId, SessionId};
use crate::shaping::segment::Level;
use crate::time::Moment;

impl Outbox {
    /// Other terms from now on. What is being announced goes on at the new pace.
    pub fn set_flow(&mut self, flow: Flow, now: Moment) {
        self.budget = self.budget.with_rate(flow.rate, now);
        let left = self.text_ready.since(now);
        self.text_ready = match (self.flow.pace_wpm, flow.pace_wpm) {
            (Some(old), Some(new)) => now.plus_micros(left.saturating_mul(old.into()) / u64::from(new.max(1))),
            _ => now,
        };
        self.flow = flow;
        for release in &mut self.urgent {
            match &mut release.what {
                OutgoingFrame::Run(run) if run.frame.cut().is_some() => {
                    run.hint = flow.cutting.hint(run.level, run.complete);
                }
                OutgoingFrame::Frame(frame) => {
                    if let Some(run) = CoalescedText::renamed(frame, flow.cutting) {
                        release.what = OutgoingFrame::Run(run);
                    }
                }
                _ => {}
            }
        }
    }

    /// Puts what waits into other words. Nothing for a frame means that the subscription no longer wants it; critical
    /// events wait on in any case.
    pub fn refit(&mut self, mut fit: impl FnMut(&Arc<Frame>) -> Option<Arc<Frame>>) {
        self.urgent.retain_mut(|release| {
            let fitted = fit(release.what.frame());
            match (&mut release.what, fitted) {
                (OutgoingFrame::Frame(frame) | OutgoingFrame::State(frame, _), Some(fitted)) => *frame = fitted,
                (OutgoingFrame::Run(_), Some(_)) => {}
                (what, None) => return what.frame().class() == FrameClass::Critical,
            }
            true
        });
        let mut unwanted = Vec::new();
        for (place, held) in &mut self.held {
            let fitted = fit(held.what.frame());
            match (&mut held.what, fitted) {
                (_, None) => unwanted.push(*place),
                (What::State(frame, _) | What::Other(frame), Some(fitted)) => *frame = fitted,
                (What::Text(_), Some(_)) => {}
            }
        }
        for place in unwanted {
            if let Some(held) = self.remove(place) {
                self.drop_unsent(held.what);
            }
        }
    }

    /// Takes the waiting text of an output out, to be cut again. What comes of it next gets its place back, until
    /// [`Outbox::give_up_places`].
    pub fn take_text(&mut self, session: &SessionId, output: &OutputId) -> Option<String> {
        let place = *self.places.get(&text_key(session, output))?;
        let held = self.held.remove(&place)?;
        let What::Text(text) = held.what else { return None };
        self.held_bytes = self.held_bytes.saturating_sub(text.bytes());
        Some(text.into_text())
    }

    /// Frees the places that text was taken from and that nothing came back to.
    pub fn give_up_places(&mut self) {
        let held = &self.held;
        self.places.retain(|_, place| held.contains_key(place));
    }

    /// Drops waiting text of an output from so many characters on, where a boundary of this level is; answers how many
    /// characters of the output were sent, if any text waited.
    pub fn truncate_text(&mut self, session: &SessionId, output: &OutputId, end: u64, level: Level) -> Option<u64> {
        let place = *self.places.get(&text_key(session, output))?;
        let What::Text(text) = &mut self.held.get_mut(&place)?.what else { return None };
        let (before, sent) = (text.bytes(), text.position());
        text.truncate(end, level);
        let (after, empty) = (text.bytes(), text.is_empty());
        self.held_bytes = (self.held_bytes + after).saturating_sub(before);
        if empty {
            self.remove(place);
        }
        Some(sent)
    }
}

fn text_key(session: &SessionId, output: &OutputId) -> FoldKey {
    FoldKey { session: session.clone(), kind: FoldKind::Text(Some(output.clone())) }
}
