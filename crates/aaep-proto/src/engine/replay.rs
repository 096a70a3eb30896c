//! Replay of recordings: recorded events are emitted again unchanged, without changing any session (decision 50).

use super::{Cx, Engine, EngineError};
use crate::message::Event;
use crate::rule::Severity;
use crate::validate::Validator;

impl Engine {
    /// Emits a recorded event unchanged, with its id, its time and its texts. Filters, rates and paces apply. No session
    /// starts or ends by it and no question is asked: a reply to it is a reply to an unknown question.
    ///
    /// ```
    /// # use aaep_proto::engine::{EngineConfig, Cx, Engine};
    /// # use aaep_proto::id::Entropy;
    /// # use aaep_proto::message::Producer;
    /// # use aaep_proto::time::{Moment, Now, Timestamp};
    /// # struct Zeros;
    /// # impl Entropy for Zeros { fn fill(&mut self, bytes: &mut [u8]) { bytes.fill(0) } }
    /// # let now = Now { moment: Moment::default(), wall: Timestamp::from_millis(0) };
    /// # let cx = &mut Cx { now, entropy: &mut Zeros };
    /// let mut engine = Engine::new(EngineConfig::new(Producer::new("narrator")));
    /// let event = serde_json::from_str(r#"{"@context":"https://aaep-protocol.org/context/v1",
    ///   "type":"aaep:agent.session.started","event_id":"evt_1","session_id":"sess_1","timestamp":"2026-05-24T14:22:11Z",
    ///   "producer":{"agent_id":"planner"},"localization_hints":{"primary_language":"en"},"summary_normal":"Planning."}"#)?;
    /// engine.replay_event(cx, &event)?;
    /// assert_eq!(engine.open_sessions(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn replay_event(&mut self, cx: &mut Cx<'_>, event: &Event) -> Result<(), EngineError> {
        self.observe_time(cx);
        // Subscribers must be able to tell a recording from a live session.
        let is_live = self.sessions.contains(&event.envelope.session_id)
            || event.reply_token().is_some_and(|token| self.questions.contains(token));
        if is_live {
            return Err(EngineError::RecordedIdInUse);
        }
        let mut problems = Validator::new().check_event(event).problems;
        problems.retain(|problem| problem.severity == Severity::Error);
        if !problems.is_empty() {
            return Err(EngineError::Invalid(problems));
        }
        self.stats.published += 1;
        self.deliver_verbatim(cx, event);
        Ok(())
    }
}
