//! New terms for a subscription: everything that is sent after the acceptance follows them (5.7.2, decision 77).

use std::sync::Arc;

use super::groups::{GroupId, GroupKey};
use super::session_state::SessionState;
use super::subscription::{Subscription, SubscriptionKey};
use super::{Cx, Engine};
use crate::frame::Frame;
use crate::id::OutputId;
use crate::message::SubscriptionRenegotiate;
use crate::negotiate::{self, Terms};
use crate::shaping::text::TextChunk;

/// The change of a subscription from one group to another.
#[derive(Clone, Copy)]
struct GroupChange {
    from: GroupId,
    to: GroupId,
    /// Whether the subscription is the first member of the new group.
    is_new: bool,
}

impl Engine {
    /// Applies new terms to a subscription, or rejects them and ends it.
    pub(super) fn renegotiate(&mut self, cx: &mut Cx<'_>, key: SubscriptionKey, change: &SubscriptionRenegotiate) {
        let Some(subscription) = self.subscriptions.get(key) else { return };
        let agreement = match negotiate::renegotiate(subscription.terms(), &change.capabilities, &self.config.offer) {
            Ok(agreement) => agreement,
            Err(rejection) => return self.reject_renegotiation(cx, key, &rejection),
        };
        let accepted = self.accepted(subscription.id(), &agreement);
        self.out.send(key, accepted);
        self.apply_terms(cx, key, agreement.terms);
        self.record_subscription(key);
        self.release_waiting(cx, key);
        self.resolve_unanswerable(cx);
        self.deliver_open_questions(cx, key);
    }

    fn apply_terms(&mut self, cx: &mut Cx<'_>, key: SubscriptionKey, terms: Terms) {
        let (groups, slots) = self.subscriptions.split();
        let Some(subscription) = slots.get_mut(key) else { return };
        let (from, wanted) = (subscription.group(), GroupKey::of(&terms));
        subscription.set_terms(terms, cx.now.moment);
        if groups.get(from).is_some_and(|group| **group.key() == wanted) {
            return;
        }
        let joined = groups.join(wanted, key);
        subscription.set_group(joined.id);
        let Some(group_key) = groups.get(joined.id).map(|group| group.key().clone()) else { return };
        subscription.outbox_mut().refit(|frame| group_key.refit(frame));
        let change = GroupChange { from, to: joined.id, is_new: joined.is_new };
        let mut missing = Vec::new();
        let mut outputs = Vec::new();
        for session in self.sessions.iter_mut() {
            for output in session.output_ids() {
                missing.extend(move_output(cx, session, &output, change, subscription));
                outputs.push((session.id().clone(), output));
            }
        }
        if groups.leave(from, key) {
            self.sessions.remove_group(from);
        }
        if group_key.wants_text() {
            for frame in missing {
                self.deliver_frame_to_one(cx, key, &frame);
            }
        }
        if joined.is_new {
            for (session, output) in outputs {
                self.deliver_text(cx, &session, &output);
            }
        }
        // Text that was cut again replaced the text that waited.
        if let Some(subscription) = self.subscriptions.get_mut(key) {
            subscription.outbox_mut().release_places();
        }
    }
}

/// Moves a subscription from one group to another in one output, so that no text is lost or repeated. Returns the text
/// that the new group was given and the subscription lacks.
fn move_output(
    cx: &mut Cx<'_>,
    session: &mut SessionState,
    id: &OutputId,
    change: GroupChange,
    subscription: &mut Subscription,
) -> Option<Arc<Frame>> {
    let mut output = session.take_output(id)?;
    let given = output.cursor(change.from);
    // It was given what its old group was, or more if it was ahead of that; the last of it may still wait.
    let known = subscription.take_known_chars(id).unwrap_or(0);
    let had = output.text().advance(given, known.max(given.chars()));
    let mut frame = None;
    if change.is_new {
        let cursor = match subscription.outbox_mut().take_text(session.id(), id) {
            Some(text) => output.restore_text(had, &text),
            None => had,
        };
        output.set_cursor(change.to, cursor);
    } else {
        let group_has = output.cursor(change.to);
        let level = output.text().level(group_has);
        if group_has.chars() > had.chars() {
            let text = output.text().between(had, group_has).unwrap_or_default().to_owned();
            let hint = subscription.boundaries().hint(level, false);
            let chunk = TextChunk { text, position: had.chars(), hint, level, complete: false };
            frame = Some(session.text_frame(cx, id, &output, &chunk));
        } else {
            let held = subscription.outbox_mut().truncate_text(session.id(), id, group_has.chars(), level);
            let sent = held.unwrap_or(had.chars());
            if sent > group_has.chars() {
                subscription.set_known_chars(id.clone(), sent);
            }
        }
    }
    session.add_output(id.clone(), output);
    frame
}
