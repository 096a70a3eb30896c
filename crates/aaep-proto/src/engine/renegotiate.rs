//! New terms for a subscription that goes on: everything sent after the answer follows them (5.7.2, decision 77).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::delivery::{GroupId, GroupKey};
use super::session::SessionState;
use super::subscriptions::{Subscription, SubscriptionKey};
use super::{Cx, Engine, EngineOutput};
use crate::frame::Frame;
use crate::id::{OutputId, SessionId};
use crate::message::{CoreType, SubscriptionRenegotiate};
use crate::negotiate::{self, Terms};
use crate::shaping::outbox::Flow;
use crate::shaping::text::TextChunk;

/// A subscription goes from one shape to another.
#[derive(Clone, Copy)]
struct Move {
    from: GroupId,
    to: GroupId,
    /// Nobody had the new shape before.
    is_new: bool,
}

impl Engine {
    /// New terms for everything that is sent after the answer. A refusal ends the subscription.
    pub(super) fn renegotiate(&mut self, cx: &mut Cx<'_>, key: SubscriptionKey, change: &SubscriptionRenegotiate) {
        let Some(subscription) = self.subscriptions.get(key) else { return };
        let id = subscription.id.clone();
        let agreement = match negotiate::renegotiate(&subscription.terms, &change.capabilities, &self.config.offer) {
            Ok(agreement) => agreement,
            Err(rejection) => return self.reject_renegotiation(cx, key, &rejection),
        };
        let accepted = self.accepted(&id, &agreement);
        self.out.push_back(EngineOutput::Message(key, Box::new(accepted.into())));
        self.apply_terms(cx, key, agreement.terms);
        self.note_subscription(key);
        self.pump(cx, key);
        self.default_what_nobody_can_answer(cx);
        self.hand_over_questions(cx, key);
    }

    fn apply_terms(&mut self, cx: &mut Cx<'_>, key: SubscriptionKey, terms: Terms) {
        let Some(subscription) = self.subscriptions.get_mut(key) else { return };
        subscription.outbox.set_flow(Flow::of(&terms), cx.now.moment);
        let (old, wanted) = (subscription.shape, GroupKey::of(&terms));
        *subscription.terms = terms;
        if self.shapes.is(old, &wanted) {
            return;
        }
        let (shape, is_new) = self.shapes.join(wanted, key);
        subscription.shape = shape;
        let Some(shape_key) = self.shapes.key(shape) else { return };
        subscription.outbox.refit(|frame| shape_key.refit(frame));
        let change = Move { from: old, to: shape, is_new };
        let wants_text = shape_key.wants_core(CoreType::OutputStreaming);
        let mut missing = Vec::new();
        let mut again = Vec::new();
        for (id, session) in &mut self.sessions {
            for output in session.outputs.keys().cloned().collect::<Vec<_>>() {
                let frame = move_output(cx, session, &output, (change, &mut *subscription));
                missing.extend(frame.filter(|_| wants_text));
                again.push((id.clone(), output));
            }
        }
        if self.shapes.leave(old, key) {
            self.sessions.values_mut().for_each(|s| s.farewell(old));
        }
        for frame in missing {
            self.deliver_frame(cx, key, &frame);
        }
        self.cut_again(cx, key, again.into_iter().filter(|_| is_new));
    }

    /// Cuts outputs by the new terms. The text that waited keeps its place.
    fn cut_again(
        &mut self,
        cx: &mut Cx<'_>,
        key: SubscriptionKey,
        outputs: impl Iterator<Item = (SessionId, OutputId)>,
    ) {
        for (session, output) in outputs {
            self.deliver_text(cx, &session, &output);
        }
        if let Some(subscription) = self.subscriptions.get_mut(key) {
            subscription.outbox.give_up_places();
        }
    }
}

/// Moves a subscription in one output: nothing may be lost or said twice. Answers the text that its new shape has
/// handed on and that it lacks.
fn move_output(
    cx: &mut Cx<'_>,
    session: &mut SessionState,
    id: &OutputId,
    (change, subscription): (Move, &mut Subscription),
) -> Option<Arc<Frame>> {
    let mut output = session.outputs.remove(id)?;
    let handed = output.cursor(change.from);
    // It was handed what its old shape was, or more if it was ahead of that; the last of it may still wait.
    let known = subscription.known.remove(id).unwrap_or(0);
    let had = output.text.advance(handed, known.max(handed.chars()));
    let mut frame = None;
    if change.is_new {
        let cursor = match subscription.outbox.take_text(&session.id, id) {
            Some(text) => output.text.restore(had, &text),
            None => had,
        };
        output.set_cursor(change.to, cursor);
    } else {
        let has = output.cursor(change.to);
        let level = output.text.level(has);
        if has.chars() > had.chars() {
            let text = output.text.between(had, has).unwrap_or_default().to_owned();
            let hint = subscription.cutting().hint(level, false);
            let piece = TextChunk { text, position: had.chars(), hint, level, complete: false };
            frame = Some(session.text_frame(cx, id, &output, &piece));
        } else {
            let held = subscription.outbox.truncate_text(&session.id, id, has.chars(), level);
            let sent = held.unwrap_or(had.chars());
            if sent > has.chars() {
                subscription.known.insert(id.clone(), sent);
            }
        }
    }
    session.outputs.insert(id.clone(), output);
    frame
}

/// How much of each output a subscription has, by characters, where that is more than its shape has.
pub(super) type Known = BTreeMap<OutputId, u64>;
