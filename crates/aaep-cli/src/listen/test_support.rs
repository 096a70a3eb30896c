//! A stage for tests: the terminal with a producer that only they know.

use aaep_announce::Profile;
use aaep_client::{PromptAnswer, ReplyError};
use aaep_proto::engine::Cx;
use aaep_proto::id::Entropy;
use aaep_proto::subscriber::{Subscriber, SubscriberConfig, SubscriberOutput};
use aaep_proto::time::{Moment, Now, Timestamp};
use serde_json::{Value, json};

use super::line::Effect;
use super::session::ListenSession;

struct Zeros;

impl Entropy for Zeros {
    fn fill(&mut self, bytes: &mut [u8]) {
        bytes.fill(0);
    }
}

/// A terminal, and the rules of a real subscriber before it, without any network.
pub(super) struct Stage {
    pub(super) terminal: ListenSession,
    pub(super) subscribers: Vec<Subscriber>,
    pub(super) millis: u64,
    pub(super) count: u64,
    /// What was done so far.
    pub(super) acts: Vec<Effect>,
}

impl Stage {
    pub(super) fn new(addresses: &[&str]) -> Stage {
        let addresses: Vec<String> = addresses.iter().map(|a| (*a).to_owned()).collect();
        let mut stage = Stage {
            terminal: ListenSession::new(Profile::default(), &addresses),
            subscribers: Vec::new(),
            millis: 0,
            count: 0,
            acts: Vec::new(),
        };
        for (source, _) in addresses.iter().enumerate() {
            let mut config = SubscriberConfig::new("r", Profile::default().capabilities());
            config.handshake = aaep_proto::subscriber::HandshakeMode::Absent;
            stage.subscribers.push(Subscriber::new(config));
            stage.machine(source, |machine, cx| machine.start(cx));
            stage.machine(source, |machine, cx| machine.connected(cx, false));
        }
        stage
    }

    pub(super) fn now(&self) -> Moment {
        Moment::from_millis(self.millis)
    }

    pub(super) fn wait(&mut self, millis: u64) {
        self.millis += millis;
    }

    pub(super) fn machine<T>(&mut self, source: usize, input: impl FnOnce(&mut Subscriber, &mut Cx<'_>) -> T) -> T {
        let wall = Timestamp::from_millis(1_779_632_531_000 + i64::try_from(self.millis).unwrap());
        let now = Now { moment: self.now(), wall };
        let result = input(&mut self.subscribers[source], &mut Cx { now, entropy: &mut Zeros });
        loop {
            match self.subscribers[source].poll_output() {
                SubscriberOutput::Idle(_) => break,
                SubscriberOutput::Event(event) => self.terminal.hear(self.now(), source, event),
                _ => {}
            }
        }
        self.perform();
        result
    }

    /// Does what the core wants, with the rules of the subscriber for answers.
    pub(super) fn perform(&mut self) {
        loop {
            let acts = self.terminal.take();
            if acts.is_empty() {
                return;
            }
            for act in acts {
                self.acts.push(act.clone());
                if let Effect::Reply { source, id, number, answer } = act {
                    let result = self.machine(source, |machine, cx| machine.reply(cx, id, answer));
                    self.terminal.sent(self.now(), number, result.map_err(ReplyError::Refused));
                }
            }
        }
    }

    pub(super) fn event(&mut self, source: usize, kind: &str, fields: Value) {
        self.count += 1;
        let mut event = json!({"@context": "https://aaep-protocol.org/context/v1", "type": format!("aaep:agent.{kind}"),
            "event_id": format!("evt_{}", self.count), "session_id": "sess_1",
            "timestamp": Timestamp::from_millis(1_779_632_531_000 + i64::try_from(self.millis).unwrap()).to_string(),
            "producer": {"agent_id": format!("agent{source}"), "agent_name": format!("Agent {source}")},
            "localization_hints": {"primary_language": "en"}});
        event.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let bytes = event.to_string();
        self.machine(source, |machine, cx| machine.handle_bytes(cx, bytes.as_bytes()));
    }

    pub(super) fn ask(&mut self, source: usize, token: &str, action: &str) {
        let fields = json!({"urgency": "critical", "action": action, "consequence": "It is gone.", "reply_token": token,
            "timeout_seconds": 600, "default_decision": "reject", "irreversible": true, "risk_level": "high"});
        self.event(source, "awaiting.confirmation", fields);
    }

    pub(super) fn ask_lightly(&mut self, token: &str) {
        let fields = json!({"urgency": "critical", "action": "Sort.", "consequence": "Sorted.", "reply_token": token,
            "timeout_seconds": 600, "default_decision": "accept", "irreversible": false, "risk_level": "low"});
        self.event(0, "awaiting.confirmation", fields);
    }

    pub(super) fn line(&mut self, line: &str) {
        self.terminal.line(self.now(), line);
        self.perform();
    }

    /// The lines since the last look.
    pub(super) fn lines(&mut self) -> Vec<String> {
        let shown = |act: &Effect| if let Effect::Show(shown) = act { Some(shown.line()) } else { None };
        let lines = self.acts.iter().filter_map(shown).collect();
        self.acts.clear();
        lines
    }

    /// The answers since the last look.
    pub(super) fn answers(&self) -> Vec<(u32, PromptAnswer)> {
        let reply = |act: &Effect| {
            if let Effect::Reply { number, answer, .. } = act { Some((*number, answer.clone())) } else { None }
        };
        self.acts.iter().filter_map(reply).collect()
    }
}

pub(super) fn has(lines: &[String], part: &str) -> bool {
    lines.iter().any(|line| line.contains(part))
}
