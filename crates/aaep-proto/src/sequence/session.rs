//! The order inside one session.

use std::collections::BTreeMap;

use serde_json::Value;

use super::SequenceView;
use super::questions::{Permission, Questions};
use super::recent::Recent;
use crate::confirm::CONSENT_PREFIX;
use crate::id::{OutputId, ReplyToken, ToolCallId};
use crate::limits;
use crate::message::{CoreType, Event, OutputStreaming, Payload, StateChanged, ToolCompleted, ToolInvoked, state};
use crate::rule::{Problem, Rule};
use crate::time::Timestamp;

#[derive(Clone, Debug)]
pub(crate) struct SessionOrder {
    pub(crate) last_seen: u64,
    pub(crate) questions: Questions,
    /// Whether the started event was the first that was seen.
    begins: bool,
    started: bool,
    events: u64,
    numbered: Option<bool>,
    next_number: u64,
    latest: Option<Timestamp>,
    state: Option<String>,
    /// States that other events than state changes imply, since the last state change.
    implied: Vec<&'static str>,
    calls: BTreeMap<ToolCallId, String>,
    used_calls: Recent,
    nameless_calls: BTreeMap<String, usize>,
    /// The outputs that go on, by what the next chunk has to say.
    outputs: BTreeMap<Option<OutputId>, u64>,
    /// The outputs that were complete.
    complete_outputs: Recent,
    overflowed: bool,
}

/// What the checker knows about the stream as a whole.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scope {
    pub(crate) view: SequenceView,
    /// Whether replies are part of the stream.
    pub(crate) replies: bool,
}

/// All states that events imply; see [`implied_state`].
const IMPLIED: [&str; 4] = [state::CALLING_TOOL, state::AWAITING_INPUT, state::WRITING_OUTPUT, state::HANDING_OFF];

impl SessionOrder {
    /// A session whose first event is, or is not, its started event. Whoever opens it judges that.
    pub(crate) fn new(starts: bool) -> SessionOrder {
        SessionOrder {
            last_seen: 0,
            questions: Questions::default(),
            begins: starts,
            started: false,
            events: 0,
            numbered: None,
            next_number: 0,
            latest: None,
            state: None,
            implied: Vec::new(),
            calls: BTreeMap::new(),
            used_calls: Recent::new(limits::CHECKED_ITEMS_PER_SESSION),
            nameless_calls: BTreeMap::new(),
            outputs: BTreeMap::new(),
            complete_outputs: Recent::new(limits::CHECKED_ITEMS_PER_SESSION),
            overflowed: false,
        }
    }

    /// A session that went on before a restart: in this state, with these tools running.
    pub(crate) fn resumed((latest, state): (Timestamp, &str), calls: &BTreeMap<ToolCallId, String>) -> SessionOrder {
        let mut session = SessionOrder::new(true);
        session.started = true;
        session.events = 1;
        session.numbered = Some(false);
        session.latest = Some(latest);
        session.state = (state != state::IDLE).then(|| state.to_owned());
        for id in calls.keys() {
            session.used_calls.insert(id.as_str());
        }
        session.calls.clone_from(calls);
        session
    }

    /// Looks at the next event; answers the token of a question that it asks.
    pub(crate) fn observe<'e>(
        &mut self,
        event: &'e Event,
        scope: Scope,
        out: &mut Vec<Problem>,
    ) -> Option<&'e ReplyToken> {
        let view = scope.view;
        self.check_envelope(event, view, out);
        self.events += 1;
        let at = event.envelope.timestamp;
        let mut asks = None;
        match &event.payload {
            Payload::SessionStarted(_) => self.check_start(view, out),
            Payload::StateChanged(change) => {
                match outcome_of(event) {
                    Some((token, outcome)) => self.questions.settle_by_outcome(&token, outcome, scope.replies),
                    None if change.from_state == state::AWAITING_INPUT => {
                        self.questions.settle_by_state(&change.to_state, scope.replies);
                    }
                    None => {}
                }
                self.change_state(change, scope, out);
            }
            Payload::ToolInvoked(tool) => self.invoke(tool, at, scope, out),
            Payload::ToolCompleted(tool) => self.complete(tool, view, out),
            Payload::OutputStreaming(chunk) => self.stream(chunk, view, out),
            Payload::AwaitingConfirmation(asked) => {
                self.questions.ask_confirmation(asked, (tool_asked_about(event), at), out);
                asks = Some(&asked.reply_token);
            }
            Payload::AwaitingClarification(asked) => {
                self.questions.ask_clarification(asked, at);
                asks = Some(&asked.reply_token);
            }
            _ => {}
        }
        if let Some(core) = event.core_type() {
            if let Some(state) = implied_state(core).filter(|s| !self.implied.contains(s)) {
                self.implied.push(state);
            }
            if core.is_terminal() {
                self.end(core, view, out);
            }
        }
        asks
    }

    fn check_start(&mut self, view: SequenceView, out: &mut Vec<Problem>) {
        // Who joined midway and saw other events first has missed the beginning.
        if self.started || (view.is_midway() && !self.begins) {
            out.push(Problem::new(Rule::StartedOnce, "/type", "Send agent.session.started once, at the beginning."));
        }
        self.started = true;
    }

    fn check_envelope(&mut self, event: &Event, view: SequenceView, out: &mut Vec<Problem>) {
        let at = event.envelope.timestamp;
        if self.latest.is_some_and(|latest| at < latest) {
            let message = "Do not go back in time: an earlier event of the session is later.";
            out.push(Problem::new(Rule::TimestampOrder, "/timestamp", message));
        }
        self.latest = self.latest.max(Some(at));
        let number = event.envelope.sequence_number;
        let first = self.events == 0;
        match (self.numbered, number) {
            (Some(true), None) | (Some(false), Some(_)) => {
                let message = "Number all events of a session or none.";
                out.push(Problem::new(Rule::SequenceOrder, "/sequence_number", message));
                // Said where it changes; the events after it count on from here.
                self.next_number = number.unwrap_or(self.next_number).saturating_add(1);
                self.numbered = Some(true);
            }
            (_, Some(number)) => {
                if number != self.next_number && !(first && view.is_midway()) {
                    let message = format!("Count from 0 by one: {} was expected, not {number}.", self.next_number);
                    out.push(Problem::new(Rule::SequenceOrder, "/sequence_number", message));
                }
                self.next_number = number.saturating_add(1);
            }
            _ => {}
        }
        self.numbered.get_or_insert(number.is_some());
    }

    fn change_state(&mut self, change: &StateChanged, Scope { view, replies }: Scope, out: &mut Vec<Problem>) {
        let from = change.from_state.as_str();
        let hidden = IMPLIED.contains(&from) && !CoreType::ALL.iter().all(|c| view.shows(*c));
        let implied = hidden || self.implied.contains(&from);
        match &self.state {
            None if from != state::IDLE && !implied && !view.is_midway() => {
                let message = format!("Leave idle first: the first state change leaves {from}.");
                out.push(Problem::new(Rule::StateFirst, "/from_state", message));
            }
            Some(state) if from != state && !implied => {
                let message = format!("Leave {state}: it is the state that was entered last, not {from}.");
                out.push(Problem::new(Rule::StateChain, "/from_state", message));
            }
            _ => {}
        }
        if change.to_state == state::CALLING_TOOL && !replies {
            self.questions.reconsider();
        }
        self.state = Some(change.to_state.clone());
        self.implied.clear();
    }

    fn invoke(&mut self, tool: &ToolInvoked, at: Timestamp, Scope { view, replies }: Scope, out: &mut Vec<Problem>) {
        if tool.irreversible == Some(true) && view.shows(CoreType::AwaitingConfirmation) {
            match self.questions.take_permission(&tool.tool, at, replies) {
                Permission::Granted => {}
                Permission::Refused => {
                    let message = format!("Do not run {}: the user said no.", tool.tool);
                    out.push(Problem::new(Rule::ToolAfterReject, "/tool", message));
                }
                Permission::Missing | Permission::NotAsked | Permission::ByDefault if view.is_midway() => {}
                Permission::NotAsked => {
                    let message = format!(
                        "Ask about {} with irreversible: true: the question that was accepted did not say so.",
                        tool.tool
                    );
                    out.push(Problem::new(Rule::IrreversibleNotAsked, "/tool", message));
                }
                Permission::ByDefault => {
                    let message = format!(
                        "Do not run {}: nobody agreed to it, and only a low risk may be accepted by default.",
                        tool.tool
                    );
                    out.push(Problem::new(Rule::IrreversibleByDefault, "/tool", message));
                }
                Permission::Missing => {
                    let message = format!("Ask first: {} cannot be undone and nobody has agreed to it.", tool.tool);
                    out.push(Problem::new(Rule::IrreversibleUnconfirmed, "/tool", message));
                }
            }
        }
        match &tool.tool_call_id {
            Some(id) => {
                if !self.used_calls.insert(id.as_str()) {
                    out.push(Problem::new(
                        Rule::CallIdReused,
                        "/tool_call_id",
                        "Give every tool call an id of its own.",
                    ));
                }
                if self.has_room(self.calls.len(), out) {
                    self.calls.insert(id.clone(), tool.tool.clone());
                }
            }
            None => {
                if self.has_room(self.nameless_calls.len(), out) {
                    *self.nameless_calls.entry(tool.tool.clone()).or_default() += 1;
                }
            }
        }
    }

    fn complete(&mut self, tool: &ToolCompleted, view: SequenceView, out: &mut Vec<Problem>) {
        let unpaired = match &tool.tool_call_id {
            Some(id) => match self.calls.remove(id) {
                Some(name) if name != tool.tool => {
                    let message = format!("Name the tool that was invoked: {name}.");
                    out.push(Problem::new(Rule::ToolName, "/tool", message));
                    false
                }
                Some(_) => false,
                None => true,
            },
            None => match self.nameless_calls.get_mut(&tool.tool) {
                Some(open) if *open > 1 => {
                    *open -= 1;
                    false
                }
                open => {
                    let none = open.is_none();
                    self.nameless_calls.remove(&tool.tool);
                    none
                }
            },
        };
        let excused = self.overflowed || view.is_midway() || !view.shows(CoreType::ToolInvoked);
        if unpaired && !excused {
            let message = format!("Announce {} with agent.tool.invoked before it completes.", tool.tool);
            let pointer = if tool.tool_call_id.is_some() { "/tool_call_id" } else { "/tool" };
            out.push(Problem::new(Rule::ToolUnpaired, pointer, message));
        }
    }

    fn stream(&mut self, chunk: &OutputStreaming, view: SequenceView, out: &mut Vec<Problem>) {
        let length = chunk.chunk.chars().count() as u64;
        let name = chunk.output_id.as_ref().map_or("", OutputId::as_str);
        let known = self.outputs.get(&chunk.output_id).copied();
        if known.is_none() && self.complete_outputs.contains(name) {
            let message = "Start a new output: this one was complete.";
            out.push(Problem::new(Rule::OutputAfterComplete, "/output_id", message));
            return;
        }
        let expected = known.unwrap_or(0);
        // Of an output that is not followed, nobody knows how far it is.
        let unknown = known.is_none() && (view.is_midway() || self.overflowed);
        if chunk.position != expected && !unknown {
            let message =
                format!("Set position to {expected}, the number of characters sent before, not {}.", chunk.position);
            out.push(Problem::new(Rule::Position, "/position", message));
        }
        if chunk.complete {
            self.outputs.remove(&chunk.output_id);
            self.complete_outputs.insert(name);
        } else if known.is_some() || self.has_room(self.outputs.len(), out) {
            self.outputs.insert(chunk.output_id.clone(), chunk.position.saturating_add(length));
        }
    }

    fn end(&mut self, core: CoreType, view: SequenceView, out: &mut Vec<Problem>) {
        if view.shows(CoreType::ToolCompleted) {
            for tool in self.calls.values().chain(self.nameless_calls.keys()) {
                let message =
                    format!("Complete {tool} before the session ends; an abandoned tool gets status timeout.");
                out.push(Problem::new(Rule::ToolOpen, "/type", message));
            }
        }
        for id in self.outputs.keys() {
            let name = id.as_ref().map_or("the output", OutputId::as_str);
            let message = format!("Send a last chunk of {name} with complete: true before the session ends.");
            out.push(Problem::new(Rule::OutputUnfinished, "/type", message));
        }
        if core == CoreType::SessionCompleted && self.questions.pending() > 0 {
            let message = "Settle or withdraw the open questions before the session completes.";
            out.push(Problem::new(Rule::PendingAtEnd, "/type", message));
        }
    }

    /// Whether one more entry may be followed; says once when not.
    fn has_room(&mut self, used: usize, out: &mut Vec<Problem>) -> bool {
        if used < limits::CHECKED_ITEMS_PER_SESSION {
            return true;
        }
        if !self.overflowed {
            self.overflowed = true;
            let message =
                format!("More than {} open at once: the rest is not checked.", limits::CHECKED_ITEMS_PER_SESSION);
            out.push(Problem::new(Rule::Forgotten, "/session_id", message));
        }
        false
    }
}

/// What the consent extension of an event says.
fn consent(event: &Event) -> Option<&Value> {
    event.envelope.extensions.as_ref()?.get(CONSENT_PREFIX)
}

/// The tool that a confirmation is about, if the consent extension says so.
fn tool_asked_about(event: &Event) -> Option<&str> {
    consent(event)?.get("tool")?.as_str()
}

/// The question that a state change says the end of, and how it ended, if the consent extension says so.
fn outcome_of(event: &Event) -> Option<(ReplyToken, &str)> {
    let consent = consent(event)?;
    Some((consent.get("reply_token")?.as_str()?.parse().ok()?, consent.get("outcome")?.as_str()?))
}

/// The state that an event puts its session in without saying so (see the session of 4.6).
fn implied_state(core: CoreType) -> Option<&'static str> {
    match core {
        CoreType::ToolInvoked | CoreType::ToolCompleted => Some(state::CALLING_TOOL),
        CoreType::AwaitingConfirmation | CoreType::AwaitingClarification => Some(state::AWAITING_INPUT),
        CoreType::OutputStreaming => Some(state::WRITING_OUTPUT),
        CoreType::HandoffRequested => Some(state::HANDING_OFF),
        _ => None,
    }
}
