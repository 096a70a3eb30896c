//! One simulated subscriber: its terms, and what it received.

use aaep_proto::SequenceChecker;
use aaep_proto::engine::{ResumePolicy, SubscriptionKey};
use aaep_proto::filter::EventFilter;
use aaep_proto::id::ReplyToken;
use aaep_proto::message::{Boundary, Capabilities, CognitiveLoad, CoreType, Event};
use aaep_proto::sequence::SequenceView;
use serde_json::{Value, json};

use crate::random::Random;

pub struct SimulatedSubscriber {
    pub key: SubscriptionKey,
    pub binding: ResumePolicy,
    pub capabilities: Capabilities,
    pub filter: EventFilter,
    pub sequence: SequenceChecker,
    pub blocked: bool,
    pub away: bool,
    /// When it was disconnected for so long that it no longer counts as able to reply.
    pub gone_at: Option<u64>,
    /// Times of non-critical events that count against the rate, since the rate last changed.
    pub paced: Vec<u64>,
    /// Questions it received.
    pub prompts: Vec<ReplyToken>,
    /// Text received per output: its first position, and the text.
    pub texts: std::collections::BTreeMap<String, (u64, String, bool)>,
    /// Whether it was connected from the start and never changed its terms.
    pub constant: bool,
    pub joined_at_step: usize,
    pub received: usize,
}

impl SimulatedSubscriber {
    pub fn new(
        key: SubscriptionKey,
        binding: ResumePolicy,
        wish: &Value,
        sessions_open: bool,
        step: usize,
    ) -> SimulatedSubscriber {
        let capabilities: Capabilities = serde_json::from_value(wish.clone()).unwrap();
        let filter = EventFilter::new(capabilities.fields.event_filters.as_ref());
        let view = SequenceView::of(|core| core.must_be_critical() || filter.passes_core(core));
        let view = if sessions_open { view.midway() } else { view };
        SimulatedSubscriber {
            key,
            binding,
            capabilities,
            filter,
            sequence: SequenceChecker::with_view(view),
            blocked: false,
            away: false,
            gone_at: None,
            paced: Vec::new(),
            prompts: Vec::new(),
            texts: std::collections::BTreeMap::new(),
            constant: true,
            joined_at_step: step,
            received: 0,
        }
    }

    pub fn can_confirm(&self) -> bool {
        self.capabilities.fields.supports_confirmation_reply == Some(true)
    }

    pub fn can_clarify(&self) -> bool {
        self.capabilities.fields.supports_clarification_reply == Some(true)
    }

    pub fn rate(&self) -> Option<u32> {
        self.capabilities.fields.max_events_per_second
    }

    pub fn has_low_load(&self) -> bool {
        self.capabilities.fields.cognitive_load == Some(CognitiveLoad::Low)
    }

    pub fn boundaries(&self) -> Vec<Boundary> {
        let asked = self.capabilities.fields.coalesce_boundaries.clone();
        asked.unwrap_or_else(|| vec![Boundary::Sentence, Boundary::Completion])
    }

    /// Returns whether it gets sentences as soon as they are complete.
    pub fn gets_sentences(&self) -> bool {
        let finest = [Boundary::None, Boundary::Word, Boundary::Sentence];
        let wanted = self.filter.passes_core(CoreType::OutputStreaming) && !self.has_low_load();
        wanted && self.is_unlimited() && self.boundaries().iter().any(|b| finest.contains(b))
    }

    /// Returns whether it has no limits, so that no event may wait for it.
    pub fn is_unlimited(&self) -> bool {
        self.rate().is_none() && self.capabilities.fields.pace_wpm.is_none() && !self.blocked && !self.away
    }

    pub fn wants(&self, event: &Event) -> bool {
        event.core_type().is_some_and(CoreType::must_be_critical) || self.filter.passes(event)
    }
}

/// Random terms.
pub fn wish(random: &mut Random) -> Value {
    let mut wish = json!({});
    if random.chance(50) {
        wish["max_events_per_second"] = json!(random.pick(&[1, 2, 5, 30]));
    }
    if random.chance(60) {
        wish["supports_confirmation_reply"] = json!(random.chance(70));
        wish["supports_clarification_reply"] = json!(random.chance(70));
    }
    if random.chance(50) {
        wish["coalesce_boundaries"] = random
            .pick(&[
                json!(["none"]),
                json!(["word"]),
                json!(["sentence"]),
                json!(["paragraph", "completion"]),
                json!(["completion"]),
            ])
            .clone();
    }
    if random.chance(30) {
        wish["event_filters"] = random
            .pick(&[
                json!({"exclude": ["aaep:agent.tool.*"]}),
                json!({"exclude": ["aaep:agent.progress.updated", "aaep:agent.state.changed"]}),
                json!({"include": ["aaep:agent.session.*", "aaep:agent.output.streaming"]}),
                json!({"include": []}),
            ])
            .clone();
    }
    if random.chance(30) {
        wish["cognitive_load"] = json!(random.pick(&["low", "medium", "high"]));
    }
    if random.chance(20) {
        wish["pace_wpm"] = json!(random.pick(&[60, 180, 600]));
    }
    if random.chance(20) {
        wish["more_time"] = json!({"factor": random.pick(&[1, 2, 5]), "minimum_seconds": 5});
    }
    if random.chance(30) {
        wish["preferred_verbosity"] = json!(random.pick(&["terse", "normal", "detailed"]));
    }
    wish
}

/// Returns a random change of terms. Filters do not change, so that one sequence checker is valid for the stream.
pub fn change(random: &mut Random) -> Value {
    let mut change = wish(random);
    change.as_object_mut().unwrap().remove("event_filters");
    change
}
