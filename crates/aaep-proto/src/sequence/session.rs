//! Checks the order of events inside one session.

use std::collections::BTreeMap;

use serde_json::Value;

use super::SequenceView;
use super::questions::{Permission, Questions};
use super::recent::Recent;
use crate::confirm::{CONSENT_PREFIX, reported_outcome};
use crate::id::{OutputId, ReplyToken, ToolCallId};
use crate::limits;
use crate::message::{CoreType, Event, OutputStreaming, Payload, StateChanged, ToolCompleted, ToolInvoked, state};
use crate::rule::{Problem, Rule};
use crate::time::Timestamp;

#[derive(Clone, Debug)]
pub(crate) struct SessionOrder {
    pub(crate) last_seen: u64,
    pub(crate) questions: Questions,
    /// Whether `session.started` was the first observed event.
    begins: bool,
    started: bool,
    events: u64,
    numbered: Option<bool>,
    next_number: u64,
    latest: Option<Timestamp>,
    state: Option<String>,
    /// The states implied by other events since the last state change.
    implied: Vec<&'static str>,
    calls: BTreeMap<ToolCallId, String>,
    used_calls: Recent,
    nameless_calls: BTreeMap<String, usize>,
    /// The open outputs, with the position of the next chunk.
    outputs: BTreeMap<Option<OutputId>, u64>,
    /// The completed outputs.
    complete_outputs: Recent,
    overflowed: bool,
}

/// Properties of the stream as a whole.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scope {
    pub(crate) view: SequenceView,
    /// Whether replies are part of the stream.
    pub(crate) replies: bool,
}

/// All states that events imply; see [`implied_state`].
const IMPLIED: [&str; 4] = [state::CALLING_TOOL, state::AWAITING_INPUT, state::WRITING_OUTPUT, state::HANDING_OFF];

impl SessionOrder {
    /// Creates the state of a session. `starts` is true if its first observed event is `session.started`.
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

    /// Restores a session that was open before a restart, with its latest timestamp, its state and its running calls.
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

    /// Checks the next event and applies it. Returns the token of the question that it asks, if any.
    pub(crate) fn observe<'e>(
        &mut self,
        event: &'e Event,
        scope: Scope,
        out: &mut Vec<Problem>,
    ) -> Option<&'e ReplyToken> {
        self.check(event, scope, out);
        self.commit(event, scope)
    }

    /// Checks whether an event may come next, without applying it.
    pub(crate) fn check(&self, event: &Event, scope: Scope, out: &mut Vec<Problem>) {
        let view = scope.view;
        self.check_envelope(event, view, out);
        match &event.payload {
            Payload::SessionStarted(_) => self.check_start(view, out),
            Payload::StateChanged(change) => self.check_state(change, view, out),
            Payload::ToolInvoked(tool) => self.check_invoked(tool, event.envelope.timestamp, scope, out),
            Payload::ToolCompleted(tool) => self.check_completed(tool, view, out),
            Payload::OutputStreaming(chunk) => self.check_chunk(chunk, view, out),
            Payload::AwaitingConfirmation(asked) => {
                self.questions.check_confirmation(asked, event.envelope.timestamp, out);
            }
            _ => {}
        }
        if let Some(core) = event.core_type()
            && core.is_terminal()
        {
            self.check_end(core, view, out);
        }
    }

    /// Applies an event, valid or not. Returns the token of the question that it asks, if any.
    pub(crate) fn commit<'e>(&mut self, event: &'e Event, scope: Scope) -> Option<&'e ReplyToken> {
        self.commit_envelope(event);
        let at = event.envelope.timestamp;
        let mut asks = None;
        match &event.payload {
            Payload::SessionStarted(_) => self.started = true,
            Payload::StateChanged(change) => {
                match reported_outcome(event) {
                    Some((token, outcome)) => self.questions.settle_by_outcome(&token, outcome, scope.replies),
                    None if change.from_state == state::AWAITING_INPUT => {
                        self.questions.settle_by_state(&change.to_state, scope.replies);
                    }
                    None => {}
                }
                self.commit_state(change, scope);
            }
            Payload::ToolInvoked(tool) => self.commit_invoked(tool, at, scope),
            Payload::ToolCompleted(tool) => self.commit_completed(tool),
            Payload::OutputStreaming(chunk) => self.commit_chunk(chunk),
            Payload::AwaitingConfirmation(asked) => {
                self.questions.ask_confirmation(asked, tool_asked_about(event), at);
                asks = Some(&asked.reply_token);
            }
            Payload::AwaitingClarification(asked) => {
                self.questions.ask_clarification(asked, at);
                asks = Some(&asked.reply_token);
            }
            _ => {}
        }
        if let Some(state) = event.core_type().and_then(implied_state)
            && !self.implied.contains(&state)
        {
            self.implied.push(state);
        }
        asks
    }

    fn check_start(&self, view: SequenceView, out: &mut Vec<Problem>) {
        // If a subscriber that joined midway received other events first, the start is already past.
        if self.started || (view.is_midway() && !self.begins) {
            out.push(Problem::new(Rule::StartedOnce, "/type", "Send agent.session.started once, at the beginning."));
        }
    }

    fn check_envelope(&self, event: &Event, view: SequenceView, out: &mut Vec<Problem>) {
        if self.latest.is_some_and(|latest| event.envelope.timestamp < latest) {
            let message = "Do not go back in time: an earlier event of the session is later.";
            out.push(Problem::new(Rule::TimestampOrder, "/timestamp", message));
        }
        let first = self.events == 0;
        match (self.numbered, event.envelope.sequence_number) {
            (Some(true), None) | (Some(false), Some(_)) => {
                let message = "Number all events of a session or none.";
                out.push(Problem::new(Rule::SequenceOrder, "/sequence_number", message));
            }
            (_, Some(number)) if number != self.next_number && !(first && view.is_midway()) => {
                let message = format!("Count from 0 by one: {} was expected, not {number}.", self.next_number);
                out.push(Problem::new(Rule::SequenceOrder, "/sequence_number", message));
            }
            _ => {}
        }
    }

    fn commit_envelope(&mut self, event: &Event) {
        self.events += 1;
        self.latest = self.latest.max(Some(event.envelope.timestamp));
        let number = event.envelope.sequence_number;
        match (self.numbered, number) {
            (Some(true), None) | (Some(false), Some(_)) => {
                // Only the change is reported; numbering continues from here.
                self.next_number = number.unwrap_or(self.next_number).saturating_add(1);
                self.numbered = Some(true);
            }
            (_, Some(number)) => self.next_number = number.saturating_add(1),
            _ => {}
        }
        self.numbered.get_or_insert(number.is_some());
    }

    fn check_state(&self, change: &StateChanged, view: SequenceView, out: &mut Vec<Problem>) {
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
    }

    fn commit_state(&mut self, change: &StateChanged, scope: Scope) {
        if change.to_state == state::CALLING_TOOL && !scope.replies {
            self.questions.reconsider();
        }
        self.state = Some(change.to_state.clone());
        self.implied.clear();
    }

    /// Returns whether an invocation needs a permission that is visible in this stream.
    fn needs_permission(tool: &ToolInvoked, view: SequenceView) -> bool {
        tool.irreversible == Some(true) && view.shows(CoreType::AwaitingConfirmation)
    }

    fn check_invoked(&self, tool: &ToolInvoked, at: Timestamp, scope: Scope, out: &mut Vec<Problem>) {
        if Self::needs_permission(tool, scope.view) {
            self.check_permission(tool, at, scope, out);
        }
        match &tool.tool_call_id {
            Some(id) => {
                if self.used_calls.contains(id.as_str()) {
                    let message = "Give every tool call an id of its own.";
                    out.push(Problem::new(Rule::CallIdReused, "/tool_call_id", message));
                }
                self.check_room(self.calls.len(), out);
            }
            None => self.check_room(self.nameless_calls.len(), out),
        }
    }

    fn check_permission(&self, tool: &ToolInvoked, at: Timestamp, scope: Scope, out: &mut Vec<Problem>) {
        let (rule, message) = match self.questions.permission(&tool.tool, at, scope.replies) {
            Permission::Granted(_) => return,
            Permission::Refused => (Rule::ToolAfterReject, format!("Do not run {}: the user said no.", tool.tool)),
            Permission::Missing | Permission::NotAsked | Permission::ByDefault if scope.view.is_midway() => return,
            Permission::NotAsked => (
                Rule::IrreversibleNotAsked,
                format!(
                    "Ask about {} with irreversible: true: the question that was accepted did not say so.",
                    tool.tool
                ),
            ),
            Permission::ByDefault => (
                Rule::IrreversibleByDefault,
                format!(
                    "Do not run {}: nobody agreed to it, and only a low risk may be accepted by default.",
                    tool.tool
                ),
            ),
            Permission::Missing => (
                Rule::IrreversibleUnconfirmed,
                format!("Ask first: {} cannot be undone and nobody has agreed to it.", tool.tool),
            ),
        };
        out.push(Problem::new(rule, "/tool", message));
    }

    fn commit_invoked(&mut self, tool: &ToolInvoked, at: Timestamp, scope: Scope) {
        if Self::needs_permission(tool, scope.view)
            && let Permission::Granted(Some(token)) = self.questions.permission(&tool.tool, at, scope.replies)
        {
            self.questions.spend(&token);
        }
        match &tool.tool_call_id {
            Some(id) => {
                self.used_calls.insert(id.as_str());
                if self.take_room(self.calls.len()) {
                    self.calls.insert(id.clone(), tool.tool.clone());
                }
            }
            None => {
                if self.take_room(self.nameless_calls.len()) {
                    *self.nameless_calls.entry(tool.tool.clone()).or_default() += 1;
                }
            }
        }
    }

    fn check_completed(&self, tool: &ToolCompleted, view: SequenceView, out: &mut Vec<Problem>) {
        let unpaired = match &tool.tool_call_id {
            Some(id) => match self.calls.get(id) {
                Some(name) if *name != tool.tool => {
                    let message = format!("Name the tool that was invoked: {name}.");
                    out.push(Problem::new(Rule::ToolName, "/tool", message));
                    false
                }
                Some(_) => false,
                None => true,
            },
            None => !self.nameless_calls.contains_key(&tool.tool),
        };
        let excused = self.overflowed || view.is_midway() || !view.shows(CoreType::ToolInvoked);
        if unpaired && !excused {
            let message = format!("Announce {} with agent.tool.invoked before it completes.", tool.tool);
            let pointer = if tool.tool_call_id.is_some() { "/tool_call_id" } else { "/tool" };
            out.push(Problem::new(Rule::ToolUnpaired, pointer, message));
        }
    }

    fn commit_completed(&mut self, tool: &ToolCompleted) {
        match &tool.tool_call_id {
            Some(id) => {
                self.calls.remove(id);
            }
            None => match self.nameless_calls.get_mut(&tool.tool) {
                Some(open) if *open > 1 => *open -= 1,
                _ => {
                    self.nameless_calls.remove(&tool.tool);
                }
            },
        }
    }

    /// Returns whether a chunk belongs to a completed output.
    fn is_after_complete(&self, chunk: &OutputStreaming) -> bool {
        let name = chunk.output_id.as_ref().map_or("", OutputId::as_str);
        !self.outputs.contains_key(&chunk.output_id) && self.complete_outputs.contains(name)
    }

    fn check_chunk(&self, chunk: &OutputStreaming, view: SequenceView, out: &mut Vec<Problem>) {
        if self.is_after_complete(chunk) {
            let message = "Start a new output: this one was complete.";
            out.push(Problem::new(Rule::OutputAfterComplete, "/output_id", message));
            return;
        }
        let known = self.outputs.get(&chunk.output_id).copied();
        let expected = known.unwrap_or(0);
        // The position in an output that was not observed from its start is unknown.
        let unknown = known.is_none() && (view.is_midway() || self.overflowed);
        if chunk.position != expected && !unknown {
            let message =
                format!("Set position to {expected}, the number of characters sent before, not {}.", chunk.position);
            out.push(Problem::new(Rule::Position, "/position", message));
        }
        if !chunk.complete && known.is_none() {
            self.check_room(self.outputs.len(), out);
        }
    }

    fn commit_chunk(&mut self, chunk: &OutputStreaming) {
        if self.is_after_complete(chunk) {
            return;
        }
        if chunk.complete {
            self.outputs.remove(&chunk.output_id);
            self.complete_outputs.insert(chunk.output_id.as_ref().map_or("", OutputId::as_str));
        } else if self.outputs.contains_key(&chunk.output_id) || self.take_room(self.outputs.len()) {
            let length = chunk.chunk.chars().count() as u64;
            self.outputs.insert(chunk.output_id.clone(), chunk.position.saturating_add(length));
        }
    }

    fn check_end(&self, core: CoreType, view: SequenceView, out: &mut Vec<Problem>) {
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

    /// Reports, once, that there is no room to check one more entry.
    fn check_room(&self, used: usize, out: &mut Vec<Problem>) {
        if used >= limits::CHECKED_ITEMS_PER_SESSION && !self.overflowed {
            let message =
                format!("More than {} open at once: the rest is not checked.", limits::CHECKED_ITEMS_PER_SESSION);
            out.push(Problem::new(Rule::Forgotten, "/session_id", message));
        }
    }

    /// Returns whether there is room to check one more entry.
    fn take_room(&mut self, used: usize) -> bool {
        let has_room = used < limits::CHECKED_ITEMS_PER_SESSION;
        self.overflowed |= !has_room;
        has_room
    }
}

/// Returns the consent extension of an event, if it has one.
fn consent(event: &Event) -> Option<&Value> {
    event.envelope.extensions.as_ref()?.get(CONSENT_PREFIX)
}

/// Returns the tool of a confirmation, if the consent extension names it.
fn tool_asked_about(event: &Event) -> Option<&str> {
    consent(event)?.get("tool")?.as_str()
}

/// Returns the state that an event of this type implies for its session (see the example in 4.6).
fn implied_state(core: CoreType) -> Option<&'static str> {
    match core {
        CoreType::ToolInvoked | CoreType::ToolCompleted => Some(state::CALLING_TOOL),
        CoreType::AwaitingConfirmation | CoreType::AwaitingClarification => Some(state::AWAITING_INPUT),
        CoreType::OutputStreaming => Some(state::WRITING_OUTPUT),
        CoreType::HandoffRequested => Some(state::HANDING_OFF),
        _ => None,
    }
}
