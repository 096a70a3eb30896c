//! One session of an agent that does random things, some of which it may not do.

use std::collections::BTreeMap;

use aaep_proto::confirm::{Clarification, Confirmation, Permit};
use aaep_proto::engine::EngineError;
use aaep_proto::id::{OutputId, ReplyToken, SessionId, ToolCallId};
use aaep_proto::message::{
    ErrorCategory, Progress, ProgressUpdated, Reversibility, RiskLevel, ToolCompleted, ToolInvoked, ToolStatus,
};
use aaep_proto::record::Decimal;
use serde_json::{Value, json};

use crate::harness::EngineHarness;
use crate::random::Random;

/// The expected state of a question.
pub struct Asked {
    pub confirmation: bool,
    pub deadline_millis: u64,
    pub asked_wall_millis: i64,
    pub default_accept: bool,
    /// Whether the question was asked as irreversible, and whether its risk was stated as low.
    pub irreversible: bool,
    pub low_risk: bool,
    pub call: Option<Value>,
    pub settled: bool,
}

pub struct Session {
    pub id: SessionId,
    pub outputs: BTreeMap<OutputId, String>,
    pub calls: Vec<(ToolCallId, String)>,
    pub questions: BTreeMap<ReplyToken, Asked>,
    /// Permits, the call that each is for, and when it was given.
    pub permits: Vec<(Permit, Value, u64)>,
    /// How many irreversible calls the user accepted, and how many ran.
    pub agreed: usize,
    pub ran: usize,
    asked: usize,
}

const TOKENS: [&str; 16] = [
    "Hello",
    " there",
    ". ",
    "It",
    " is",
    " done",
    "! ",
    "\n\n",
    "Dr",
    ". Who",
    " 3.14",
    "日本",
    "。",
    "e",
    "\u{301}",
    " 🇳🇬",
];

impl Session {
    pub fn start(harness: &mut EngineHarness) -> Session {
        Session {
            id: harness.start(),
            outputs: BTreeMap::new(),
            calls: Vec::new(),
            questions: BTreeMap::new(),
            permits: Vec::new(),
            agreed: 0,
            ran: 0,
            asked: 0,
        }
    }

    /// Performs one random action. Returns whether the session has ended, and the full text of finished outputs.
    pub fn step(&mut self, harness: &mut EngineHarness, random: &mut Random) -> (bool, Vec<(OutputId, String)>) {
        let id = self.id.clone();
        let mut finished = Vec::new();
        if !self.permits.is_empty() && random.chance(30) {
            self.run_permitted(harness, random);
            return (false, finished);
        }
        match random.below(16) {
            0 => drop(harness.act(|e, cx| e.set_state(cx, &id, "deciding", Some("Deciding."))).unwrap()),
            1 => {
                let progress = Progress { percent: Some(Decimal(random.below(101) as f64)), ..Progress::default() };
                let updated = ProgressUpdated { progress, ..ProgressUpdated::default() };
                harness.act(|e, cx| e.emit(cx, &id, updated.into())).unwrap();
            }
            2 => {
                let tool =
                    ToolInvoked { tool: "look".into(), summary_normal: "Looking.".into(), ..ToolInvoked::default() };
                let call = harness.act(|e, cx| e.invoke_tool(cx, &id, tool)).unwrap();
                self.calls.push((call, "look".into()));
            }
            3 => self.complete_call(harness),
            4 => {
                let output = harness.act(|e, cx| e.open_output(cx, &id, "text/markdown", None)).unwrap();
                self.outputs.insert(output, String::new());
            }
            5..=8 => self.write(harness, random),
            9 => {
                if let Some((output, text)) = self.outputs.pop_first() {
                    harness.act(|e, cx| e.finish_output(cx, &id, &output)).unwrap();
                    finished.push((output, text));
                }
            }
            10 | 11 => self.ask(harness, random),
            12 => self.withdraw(harness, random),
            13 => self.run_permitted(harness, random),
            14 => self.misbehave(harness),
            _ => {
                if random.chance(40) {
                    finished.extend(std::mem::take(&mut self.outputs));
                    return (self.end(harness, random), finished);
                }
            }
        }
        (false, finished)
    }

    fn complete_call(&mut self, harness: &mut EngineHarness) {
        if let Some((call, tool)) = self.calls.pop() {
            let done = ToolCompleted { tool_call_id: Some(call), ..ToolCompleted::new(tool, ToolStatus::Success) };
            let id = self.id.clone();
            harness.act(|e, cx| e.complete_tool(cx, &id, done)).unwrap();
        }
    }

    fn write(&mut self, harness: &mut EngineHarness, random: &mut Random) {
        let id = self.id.clone();
        let count = self.outputs.len();
        if let Some((output, text)) = self.outputs.iter_mut().nth(random.below(count)) {
            for _ in 0..1 + random.below(6) {
                let token = *random.pick(&TOKENS);
                text.push_str(token);
                harness.act(|e, cx| e.write(cx, &id, output, token)).unwrap();
            }
        }
    }

    fn ask(&mut self, harness: &mut EngineHarness, random: &mut Random) {
        let id = self.id.clone();
        self.asked += 1;
        let seconds = *random.pick(&[2u32, 10, 90, 300]);
        let wall = harness.wall().millis();
        let (mut irreversible, mut low_risk) = (false, false);
        let (result, confirmation, default_accept, call) = if random.chance(70) {
            let call = json!({"n": self.asked});
            let risk = random.pick(&[RiskLevel::Low, RiskLevel::Medium, RiskLevel::High]).clone();
            low_risk = risk == RiskLevel::Low;
            let mut ask = Confirmation::new(format!("Do {}.", self.asked), "It is done.")
                .for_call("act", &call)
                .risk(risk)
                .timeout_seconds(seconds);
            (ask, irreversible) = match random.below(5) {
                0 => (ask, false),
                1 => (ask.reversible(), false),
                2 => (ask.reversibility(Reversibility::Irreversible), true),
                _ => (ask.irreversible(), true),
            };
            let default_accept = (low_risk || !irreversible) && random.chance(50);
            if default_accept {
                ask = ask.accept_on_timeout().unwrap();
            }
            (harness.act(|e, cx| e.ask(cx, &id, ask)), true, default_accept, Some(call))
        } else {
            let ask = Clarification::yes_no(format!("Really {}?", self.asked)).timeout_seconds(seconds);
            (harness.act(|e, cx| e.clarify(cx, &id, ask)), false, false, None)
        };
        if let Ok(token) = result {
            let timeout_millis = u64::from(stretched(harness, seconds, confirmation)) * 1000;
            self.questions.insert(
                token,
                Asked {
                    confirmation,
                    deadline_millis: harness.millis + timeout_millis,
                    asked_wall_millis: wall,
                    default_accept,
                    irreversible,
                    low_risk,
                    call,
                    settled: false,
                },
            );
        }
    }

    fn withdraw(&mut self, harness: &mut EngineHarness, random: &mut Random) {
        let open: Vec<ReplyToken> = self.questions.iter().filter(|(_, q)| !q.settled).map(|(t, _)| t.clone()).collect();
        if !open.is_empty() && random.chance(30) {
            let token = random.pick(&open).clone();
            let superseded = random.chance(50);
            harness.act(|e, cx| e.withdraw(cx, &token, superseded)).unwrap();
        }
    }

    /// Uses a permit, sometimes for another call than was accepted.
    fn run_permitted(&mut self, harness: &mut EngineHarness, random: &mut Random) {
        let Some((permit, call, given)) = self.permits.pop() else { return };
        let id = self.id.clone();
        let honest = random.chance(80);
        let arguments = if honest { call } else { json!({"n": "something else"}) };
        let tool = ToolInvoked { tool: "act".into(), summary_normal: "Acting.".into(), ..ToolInvoked::default() };
        let result = harness.act(|e, cx| e.invoke_irreversible(cx, &id, tool, &arguments, permit));
        let in_time = harness.millis < given + 600_000;
        assert_eq!(result.is_ok(), honest && in_time, "{result:?}");
        if let Ok(call) = result {
            self.ran += 1;
            self.calls.push((call, "act".into()));
        }
    }

    /// What an agent must not be able to do.
    fn misbehave(&mut self, harness: &mut EngineHarness) {
        let id = self.id.clone();
        let tool = ToolInvoked {
            tool: "act".into(),
            summary_normal: "x".into(),
            irreversible: Some(true),
            ..ToolInvoked::default()
        };
        assert_eq!(harness.act(|e, cx| e.invoke_tool(cx, &id, tool.clone())), Err(EngineError::NeedsPermit));
        assert_eq!(harness.act(|e, cx| e.emit(cx, &id, tool.into())), Err(EngineError::NeedsPermit));
    }

    fn end(&mut self, harness: &mut EngineHarness, random: &mut Random) -> bool {
        let id = self.id.clone();
        match random.below(3) {
            0 => harness.act(|e, cx| e.fail_session(cx, &id, ErrorCategory::Unknown, "Broken.")).unwrap(),
            1 => harness.act(|e, cx| e.cancel_session(cx, &id, "user".into(), "Stopped.")).unwrap(),
            _ => {
                while !self.calls.is_empty() {
                    self.complete_call(harness);
                }
                let open: Vec<ReplyToken> =
                    self.questions.iter().filter(|(_, q)| !q.settled).map(|(t, _)| t.clone()).collect();
                for token in open {
                    let _ = harness.act(|e, cx| e.withdraw(cx, &token, false));
                }
                harness.act(|e, cx| e.complete_session(cx, &id, "Done.")).unwrap();
            }
        }
        true
    }
}

/// Computes the longest timeout that any subscriber that can reply requests.
fn stretched(harness: &EngineHarness, seconds: u32, confirmation: bool) -> u32 {
    let mut longest = seconds;
    for key in harness.known.iter() {
        let Some(terms) = harness.engine.terms(*key) else { continue };
        let able = if confirmation { terms.can_confirm() } else { terms.can_clarify() };
        if able && !harness.gone.contains(key) {
            let more = terms.more_time();
            longest = longest.max((seconds * more.factor).max(more.minimum_seconds));
        }
    }
    longest
}
