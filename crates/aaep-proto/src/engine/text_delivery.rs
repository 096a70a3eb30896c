//! Delivery of output text: each group gets it cut where its terms allow, and text that is cut alike is made into a
//! frame once.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::subscription::{NewText, SubscriptionKey};
use super::timers::Timer;
use super::{Cx, Engine};
use crate::frame::Frame;
use crate::id::{OutputId, SessionId};
use crate::shaping::text::{BoundarySet, Cursor, TextChunk};

/// A chunk of text for all groups that were given the text up to the same place and cut it alike.
struct SharedChunk {
    chunk: TextChunk,
    after: Cursor,
    /// Made when a group wants it.
    frame: Option<Arc<Frame>>,
}

impl Engine {
    /// Delivers what has become ready of an output's text.
    pub(super) fn deliver_text(&mut self, cx: &mut Cx<'_>, session: &SessionId, output: &OutputId) {
        let overfull = self.push_text(cx, session, output);
        self.close_overfull(cx, overfull);
    }

    /// Puts what has become ready of an output's text into the outboxes. Returns the subscriptions whose outboxes hold
    /// too much; the caller closes them.
    #[must_use]
    pub(super) fn push_text(
        &mut self,
        cx: &mut Cx<'_>,
        session_id: &SessionId,
        output_id: &OutputId,
    ) -> Vec<SubscriptionKey> {
        let mut overfull = Vec::new();
        let (sessions, subscriptions, mut delivery) = self.delivery();
        let Ok(session) = sessions.get_mut(session_id) else { return overfull };
        let Some(mut output) = session.take_output(output_id) else { return overfull };
        let mut shared: BTreeMap<(BoundarySet, Cursor), Option<SharedChunk>> = BTreeMap::new();
        let (groups, slots) = subscriptions.split();
        for (id, group) in groups.iter_mut() {
            let boundaries = group.key().boundaries();
            let wanted = group.key().wants_text();
            let (members, coalesced) = group.members_and_coalesced();
            let mut cursor = output.cursor(id);
            while let Some(next) = shared.entry((boundaries, cursor)).or_insert_with(|| {
                let (chunk, after) = output.next_chunk(cursor, boundaries)?;
                Some(SharedChunk { chunk, after, frame: None })
            }) {
                cursor = next.after;
                output.set_cursor(id, cursor);
                if !wanted {
                    continue;
                }
                delivery.stats.published += u64::from(next.frame.is_none());
                let chunk = &next.chunk;
                let frame = next.frame.get_or_insert_with(|| session.text_frame(cx, output_id, &output, chunk));
                for member in members {
                    let Some(subscription) = slots.get_mut(*member) else { continue };
                    let frame = match subscription.new_text(output_id, chunk) {
                        NewText::All => frame.clone(),
                        NewText::Rest(rest) => session.text_frame(cx, output_id, &output, &rest),
                        NewText::Nothing => continue,
                    };
                    if delivery.push(cx, *member, subscription, coalesced, &frame) {
                        overfull.push(*member);
                    }
                }
            }
        }
        output.forget_delivered(groups.ids());
        if output.is_finished() {
            subscriptions.forget_output(output_id);
            delivery.timers.stop(Timer::Pause(session_id.clone(), output_id.clone()));
        } else {
            session.add_output(output_id.clone(), output);
        }
        overfull
    }
}
