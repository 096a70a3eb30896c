//! Tool calls of the agent. They are announced a moment after the agent reports them, because some agents report a call
//! before they ask whether to make it.

use std::collections::BTreeMap;

use aaep_proto::message::{RiskLevel, ToolInvoked, ToolStatus};
use aaep_proto::time::{Moment, Now};
use serde_json::{Map, Value, json};

use crate::describe::{arguments, shorten, tool_name};
use crate::effect::{BridgeEffect, CallKey, QuestionKey};
use crate::rpc::RpcId;

use super::{AcpProxy, Turn};

/// How long a call that only reads is held back, in milliseconds.
const GRACE_MILLIS: u64 = 300;

/// How long any other call is held back, in milliseconds. A busy agent may take so long to ask for permission.
const RISKY_GRACE_MILLIS: u64 = 2000;

/// Most tool calls of one prompt that are followed.
const MAX_TOOLS: usize = 10_000;

/// Where a call is on its way.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum AcpToolPhase {
    /// It is announced at this moment, unless the agent asks first.
    Held(Moment),
    /// The agent asks for permission.
    Asking,
    /// Its event is being emitted. Then the permission is answered, and its end reported if it has ended.
    Invoking { answers: Option<RpcId>, ended: Option<Result<(), String>> },
    /// It was announced.
    Announced,
    /// Its end was announced, or it was refused.
    Over,
}

/// A tool call.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct AcpTool {
    pub(super) key: CallKey,
    pub(super) kind: String,
    pub(super) title: String,
    pub(super) input: Value,
    pub(super) places: Vec<String>,
    pub(super) phase: AcpToolPhase,
    started: Moment,
}

impl AcpTool {
    pub(super) fn announce_at(&self) -> Option<Moment> {
        if let AcpToolPhase::Held(at) = self.phase { Some(at) } else { None }
    }

    /// Takes over what an update says.
    pub(super) fn merge(&mut self, update: &Value) {
        if let Some(title) = update["title"].as_str().filter(|title| !title.trim().is_empty()) {
            self.title = shorten(title.trim(), 300);
        }
        if let Some(kind) = update["kind"].as_str() {
            self.kind = kind.to_owned();
        }
        if update["rawInput"].is_object() {
            self.input = update["rawInput"].clone();
        }
        let paths = |list: &Value| -> Vec<String> {
            list.as_array().into_iter().flatten().filter_map(|item| item["path"].as_str()).map(str::to_owned).collect()
        };
        for path in paths(&update["locations"]).into_iter().chain(paths(&update["content"])) {
            if !self.places.contains(&path) && self.places.len() < 20 {
                self.places.push(path);
            }
        }
    }

    /// Returns how much harm the call can do.
    pub(super) fn risk(&self) -> RiskLevel {
        match self.kind.as_str() {
            "read" | "search" | "think" | "fetch" => RiskLevel::Low,
            "delete" | "execute" => RiskLevel::High,
            _ => RiskLevel::Medium,
        }
    }

    pub(super) fn is_irreversible(&self) -> bool {
        matches!(self.kind.as_str(), "delete" | "execute")
    }

    /// Returns the name of the tool for events. Agents have only kinds and titles.
    pub(super) fn name(&self) -> String {
        tool_name(if self.kind.is_empty() { "other" } else { &self.kind })
    }

    /// Describes the call: what kind, what the agent calls it, where, and with what.
    pub(super) fn describe(&self) -> String {
        let verb = match self.kind.as_str() {
            "read" => "Read",
            "edit" => "Change",
            "delete" => "Delete",
            "move" => "Move",
            "search" => "Search",
            "execute" => "Run",
            "fetch" => "Fetch",
            "think" => "Think",
            _ => "Use a tool",
        };
        let mut text = format!("{verb}: {}", if self.title.is_empty() { "something" } else { &self.title });
        let places: Vec<&String> = self.places.iter().filter(|place| !self.title.contains(*place)).collect();
        if !places.is_empty() {
            let places = places.into_iter().map(|place| shorten(place, 200)).collect::<Vec<_>>().join(", ");
            text.push_str(&format!(", in {places}"));
        }
        let input = arguments(self.input.as_object().unwrap_or(&Map::new()));
        if !input.is_empty() {
            text.push_str(&format!(", with {input}"));
        }
        text
    }

    /// Returns the arguments that a permit is bound to.
    pub(super) fn bound_arguments(&self, id: &str) -> Value {
        json!({"toolCallId": id, "title": self.title, "input": self.input, "places": self.places})
    }
}

impl AcpProxy {
    /// Returns a tool call of a prompt, which is created if it is new.
    pub(super) fn tool(&mut self, now: Now, session: &str, id: &str) -> Option<&mut AcpTool> {
        let key = CallKey(self.next_key());
        let turn = self.turns.get_mut(session)?;
        if turn.tools.len() >= MAX_TOOLS && !turn.tools.contains_key(id) {
            return None;
        }
        Some(turn.tools.entry(id.to_owned()).or_insert_with(|| AcpTool {
            key,
            kind: String::new(),
            title: String::new(),
            input: Value::Null,
            places: Vec::new(),
            phase: AcpToolPhase::Held(now.moment.plus_millis(RISKY_GRACE_MILLIS)),
            started: now.moment,
        }))
    }

    pub(super) fn update_tool(&mut self, now: Now, session: &str, update: &Value) {
        let Some(id) = update["toolCallId"].as_str() else { return };
        let Some(tool) = self.tool(now, session, id) else { return };
        tool.merge(update);
        if let AcpToolPhase::Held(at) = &mut tool.phase
            && matches!(tool.kind.as_str(), "read" | "search" | "think" | "fetch")
        {
            *at = (*at).min(tool.started.plus_millis(GRACE_MILLIS));
        }
        let failed = || {
            let contents = update["content"].as_array().into_iter().flatten();
            let text = contents.filter_map(|part| part["content"]["text"].as_str()).next();
            shorten(text.map_or("The tool failed.", str::trim), 500)
        };
        let ended = match update["status"].as_str() {
            Some("completed") => Some(Ok(())),
            Some("failed") => Some(Err(failed())),
            Some("cancelled") => Some(Err("It was cancelled.".to_owned())),
            _ => None,
        };
        match (&mut tool.phase, ended) {
            // If the editor was asked, what it allowed is known only now.
            (AcpToolPhase::Held(_) | AcpToolPhase::Asking, Some(Ok(()))) => {
                self.invoke(session, id, None, Some(Ok(())));
            }
            // It never ran, as far as anyone can tell.
            (AcpToolPhase::Held(_), Some(Err(_))) => tool.phase = AcpToolPhase::Over,
            (AcpToolPhase::Invoking { ended, .. }, end @ Some(_)) => *ended = end,
            (AcpToolPhase::Announced, Some(end)) => {
                tool.phase = AcpToolPhase::Over;
                let (call, since) = (tool.key, now.moment.since(tool.started) / 1000);
                self.complete(call, end, since);
            }
            _ => {}
        }
    }

    pub(super) fn announce_due_tools(&mut self, now: Now) {
        let mut due = Vec::new();
        for (session, turn) in &self.turns {
            let is_due = |tool: &AcpTool| tool.announce_at().is_some_and(|at| at <= now.moment);
            due.extend(turn.tools.iter().filter(|(_, tool)| is_due(tool)).map(|(id, _)| (session.clone(), id.clone())));
        }
        due.into_iter().for_each(|(session, id)| self.invoke(&session, &id, None, None));
    }

    /// Has the event of a call emitted. `permit_of` is the request of the agent that is answered then, and its question if
    /// the call cannot be undone.
    pub(super) fn invoke(
        &mut self,
        session: &str,
        id: &str,
        permit_of: Option<(RpcId, Option<QuestionKey>)>,
        ended: Option<Result<(), String>>,
    ) {
        let Some(turn) = self.turns.get_mut(session) else { return };
        let Turn { key, tools, has_output, is_thinking, .. } = turn;
        let Some(tool) = tools.get_mut(id) else { return };
        let (answers, permit) = permit_of.unzip();
        tool.phase = AcpToolPhase::Invoking { answers, ended };
        let arguments = tool.bound_arguments(id);
        let invoked = ToolInvoked {
            tool: tool.name(),
            summary_normal: crate::describe::sentence(&tool.describe()),
            risk_level: Some(tool.risk()).filter(|risk| *risk != RiskLevel::Low),
            ..ToolInvoked::default()
        };
        let (session, call) = (*key, tool.key);
        // Text after a tool is a new output.
        let finishes = std::mem::take(has_output);
        *is_thinking = false;
        if finishes {
            self.push(BridgeEffect::FinishOutput(session));
        }
        let permit_of = permit.flatten();
        self.push(BridgeEffect::Invoke { session, call, invoked: Box::new(invoked), arguments, permit_of });
    }

    pub(super) fn finish_invoke(&mut self, now: Now, call: CallKey, emitted: Result<(), String>) {
        let found = self.turns.values_mut().find_map(|turn| {
            let tool = turn.tools.values_mut().find(|tool| tool.key == call)?;
            turn.tool_calls += u64::from(emitted.is_ok());
            Some(tool)
        });
        let Some(tool) = found else { return };
        let AcpToolPhase::Invoking { answers, ended } = std::mem::replace(&mut tool.phase, AcpToolPhase::Announced)
        else {
            return;
        };
        let since = now.moment.since(tool.started) / 1000;
        if emitted.is_err() || ended.is_some() {
            tool.phase = AcpToolPhase::Over;
        }
        if let Some(id) = answers {
            self.answer_permission(&id, emitted.is_ok());
        }
        match (emitted, ended) {
            (Ok(()), Some(end)) => self.complete(call, end, since),
            (Err(why), _) => self.push(BridgeEffect::Warn(format!("A tool call could not be announced: {why}."))),
            (Ok(()), None) => {}
        }
    }

    /// Reports that a call which was announced already did not run.
    pub(super) fn complete_refused(&mut self, now: Now, session: &str, id: &str) {
        let tool = self.turns.get_mut(session).and_then(|turn| turn.tools.get_mut(id));
        let Some(tool) = tool else { return };
        if std::mem::replace(&mut tool.phase, AcpToolPhase::Over) == AcpToolPhase::Announced {
            let (call, since) = (tool.key, now.moment.since(tool.started) / 1000);
            self.complete(call, Err("It was refused.".to_owned()), since);
        }
    }

    fn complete(&mut self, call: CallKey, end: Result<(), String>, duration_ms: u64) {
        let status = if end.is_ok() { ToolStatus::Success } else { ToolStatus::Error };
        self.push(BridgeEffect::Complete { call, status, error: end.err(), duration_ms });
    }

    /// Ends the calls of a prompt that has ended. Agents do not report the end of every call.
    pub(super) fn complete_open_tools(&mut self, tools: BTreeMap<String, AcpTool>) {
        for tool in tools.into_values() {
            if tool.phase == AcpToolPhase::Announced {
                let error = Err("Its end was not reported.".to_owned());
                self.complete(tool.key, error, 0);
            }
        }
    }
}
