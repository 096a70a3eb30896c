//! When text counts as complete although more may follow (decision 76): at once if its end is certain, after a pause,
//! and before any other event of its session.

use super::subscriptions::SubscriptionKey;
use super::{Cx, Engine, Timer};
use crate::id::{OutputId, SessionId};
use crate::limits;
use crate::shaping::segment::Pause;
use crate::time::Moment;

impl Engine {
    /// Sends what is complete of a session's outputs but of one: something else of the session comes next. An
    /// unfinished sentence waits on.
    pub(super) fn settle_text(&mut self, cx: &mut Cx<'_>, session: &SessionId, except: Option<&OutputId>) {
        let overfull = self.push_settled_text(cx, session, except);
        self.close_overfull(cx, overfull);
    }

    /// Hands complete text of a session to subscriptions; answers whose outboxes are too full. They are to be closed
    /// after the event that comes next: closing them may make other events of the session.
    pub(super) fn push_settled_text(
        &mut self,
        cx: &mut Cx<'_>,
        session: &SessionId,
        except: Option<&OutputId>,
    ) -> Vec<SubscriptionKey> {
        let Some(found) = self.sessions.get_mut(session) else { return Vec::new() };
        let mut settled = Vec::new();
        for (id, output) in &mut found.outputs {
            if Some(id) != except && output.text.awaits().is_some() {
                output.settle(Pause::Long);
                settled.push(id.clone());
            }
        }
        settled.iter().flat_map(|output| self.push_text(cx, session, output)).collect()
    }

    /// Sends what is complete of all outputs, so that who joins now begins with what follows it.
    pub(super) fn settle_all_text(&mut self, cx: &mut Cx<'_>) {
        let writing = self.sessions.iter().filter(|(_, session)| !session.outputs.is_empty());
        for id in writing.map(|(id, _)| id.clone()).collect::<Vec<_>>() {
            self.settle_text(cx, &id, None);
        }
    }

    /// Text was written: if it may be complete, a pause after it is waited for. A timer that runs already is left
    /// alone, since it looks at the time of the last writing when it fires.
    pub(super) fn await_pause(&mut self, cx: &Cx<'_>, session: &SessionId, output: &OutputId) {
        let found = self.sessions.get_mut(session).and_then(|found| found.outputs.get_mut(output));
        let Some(found) = found else { return };
        found.written_at = cx.now.moment;
        let Some(pause) = found.text.awaits().filter(|_| found.pause_at.is_none()) else { return };
        let at = end_of(pause, found.written_at);
        found.pause_at = Some(at);
        self.timers.insert((at, Timer::Pause(session.clone(), output.clone())));
    }

    /// The timer of a pause has fired.
    pub(super) fn handle_pause(&mut self, cx: &mut Cx<'_>, session: &SessionId, output: &OutputId) {
        let found = self.sessions.get_mut(session).and_then(|found| found.outputs.get_mut(output));
        let Some(found) = found else { return };
        found.pause_at = None;
        let due = |pause| end_of(pause, found.written_at) <= cx.now.moment;
        let over = [Pause::Long, Pause::Short].into_iter().find(|pause| due(*pause));
        if let Some(pause) = over {
            found.settle(pause);
        }
        if let Some(pause) = found.text.awaits() {
            // What the pause that is over did not complete may need the longer one.
            let at = end_of(if over.is_some() { Pause::Long } else { pause }, found.written_at);
            if at > cx.now.moment {
                found.pause_at = Some(at);
                self.timers.insert((at, Timer::Pause(session.clone(), output.clone())));
            }
        }
        self.deliver_text(cx, session, output);
    }
}

/// When a pause that began with the last writing is over.
fn end_of(pause: Pause, written_at: Moment) -> Moment {
    let millis = match pause {
        Pause::None | Pause::Short => limits::PAUSE_MILLIS,
        Pause::Long => limits::DOUBTFUL_PAUSE_MILLIS,
    };
    written_at.plus_micros(millis * 1000)
}
