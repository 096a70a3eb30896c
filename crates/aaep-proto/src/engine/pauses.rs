//! When text counts as complete although more may follow (decision 76): at once if its end is certain, after a pause,
//! and before any other event of its session.

use super::subscription::SubscriptionKey;
use super::timers::Timer;
use super::{Cx, Engine};
use crate::id::{OutputId, SessionId};
use crate::limits;
use crate::shaping::segment::WriterPause;
use crate::time::Moment;

impl Engine {
    /// Delivers the complete text of a session's outputs, except for one, as something else of the session comes next. An
    /// unfinished sentence goes on waiting.
    pub(super) fn deliver_complete_text(&mut self, cx: &mut Cx<'_>, session: &SessionId, except: Option<&OutputId>) {
        let overfull = self.push_complete_text(cx, session, except);
        self.close_overfull(cx, overfull);
    }

    /// Puts the complete text of a session's outputs, except for one, into the outboxes. Returns the subscriptions whose
    /// outboxes hold too much; the caller closes them after the event that comes next, since that may emit other events
    /// of the session.
    #[must_use]
    pub(super) fn push_complete_text(
        &mut self,
        cx: &mut Cx<'_>,
        session: &SessionId,
        except: Option<&OutputId>,
    ) -> Vec<SubscriptionKey> {
        let Ok(found) = self.sessions.get_mut(session) else { return Vec::new() };
        let mut complete = Vec::new();
        for (id, output) in found.outputs_mut() {
            if Some(id) != except && output.awaited_pause().is_some() {
                output.complete_after(WriterPause::Long);
                complete.push(id.clone());
            }
        }
        complete.iter().flat_map(|output| self.push_text(cx, session, output)).collect()
    }

    /// Delivers the complete text of all outputs, so that a new subscription begins with what follows it.
    pub(super) fn deliver_all_complete_text(&mut self, cx: &mut Cx<'_>) {
        let writing = self.sessions.iter().filter(|session| session.output_count() > 0);
        for id in writing.map(|session| session.id().clone()).collect::<Vec<_>>() {
            self.deliver_complete_text(cx, &id, None);
        }
    }

    /// Waits for a pause after text that may be complete. A timer that is set already stays: when it is due, it looks at
    /// the time of the last text.
    pub(super) fn await_pause(&mut self, cx: &Cx<'_>, session: &SessionId, output: &OutputId) {
        let Ok(found) = self.sessions.output_mut(session, output) else { return };
        found.set_written_at(cx.now.moment);
        let Some(pause) = found.awaited_pause() else { return };
        let timer = Timer::Pause(session.clone(), output.clone());
        if !self.timers.is_set(&timer) {
            self.timers.set(timer, end_of(pause, cx.now.moment));
        }
    }

    /// Delivers what is complete after the pause that is over, and waits for a longer one if there is more.
    pub(super) fn handle_pause(&mut self, cx: &mut Cx<'_>, session: &SessionId, output: &OutputId) {
        let Ok(found) = self.sessions.output_mut(session, output) else { return };
        let written_at = found.written_at();
        let over = [WriterPause::Long, WriterPause::Short]
            .into_iter()
            .find(|pause| end_of(*pause, written_at) <= cx.now.moment);
        if let Some(pause) = over {
            found.complete_after(pause);
        }
        if let Some(pause) = found.awaited_pause() {
            // What the pause that is over did not complete may need the longer one.
            let at = end_of(if over.is_some() { WriterPause::Long } else { pause }, written_at);
            if at > cx.now.moment {
                self.timers.set(Timer::Pause(session.clone(), output.clone()), at);
            }
        }
        self.deliver_text(cx, session, output);
    }
}

/// Returns when a pause is over that began with the last text.
fn end_of(pause: WriterPause, written_at: Moment) -> Moment {
    let millis = match pause {
        WriterPause::None | WriterPause::Short => limits::SENTENCE_PAUSE_MILLIS,
        WriterPause::Long => limits::DOUBTFUL_SENTENCE_PAUSE_MILLIS,
    };
    written_at.plus_millis(millis)
}
