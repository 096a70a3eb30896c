//! Questions as the user knows them: by a number that is never used twice.

use std::sync::Arc;

use aaep_announce::{Phrases, Utterance};
use aaep_client::{PromptAnswer, PromptId};
use aaep_proto::id::ReplyToken;
use aaep_proto::message::{
    AwaitingClarification, AwaitingConfirmation, Event, Payload, Response, ResponseKind, Reversibility, RiskLevel,
};
use aaep_proto::subscriber::memory_size;
use aaep_proto::time::Moment;
use aaep_proto::validate::find_deception;
use serde_json::{Value, json};

use super::command::{Command, number_of, number_text, parse};

/// Questions that are remembered, so that the user can be told what became of them.
const REMEMBERED: usize = 256;
/// About how many bytes of them. Those that can be answered stay in any case; the listener's rules bound them.
const REMEMBERED_BYTES: usize = 8 * 1024 * 1024;

/// What would be an answer: the id of its phrase, and how many choices there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Takes(&'static str, usize);

impl Takes {
    /// In words.
    pub(crate) fn say(self, words: &Phrases) -> String {
        words.say_with(self.0, &[("last", self.1.into())])
    }
}

/// A question.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    pub(crate) number: u32,
    /// Which producer asks.
    pub(crate) source: usize,
    pub(crate) event: Arc<Event>,
    /// What to answer to; nothing if it cannot be answered here.
    pub(crate) id: Option<PromptId>,
    pub(crate) can_answer: bool,
    pub(crate) deadline: Moment,
    /// How it was put.
    pub(crate) said: Vec<Utterance>,
    /// About how much memory it takes.
    bytes: usize,
    /// The agent may not be the one it was.
    pub(crate) doubtful: bool,
    /// What became of it, by the id of its phrase.
    pub(crate) over: Option<&'static str>,
}

impl Question {
    pub(crate) fn token(&self) -> Option<&ReplyToken> {
        token_of(&self.event)
    }

    /// Who asks.
    pub(crate) fn agent(&self) -> &str {
        let producer = &self.event.envelope.producer;
        producer.agent_name.as_deref().unwrap_or(&producer.agent_id)
    }

    /// What is asked, as the agent wrote it.
    pub(crate) fn asked(&self) -> &str {
        match &self.event.payload {
            Payload::AwaitingConfirmation(asked) => &asked.action,
            Payload::AwaitingClarification(asked) => &asked.question,
            _ => "",
        }
    }

    /// What is asked, in the words that were said; the agent's own without.
    pub(crate) fn headline(&self) -> &str {
        self.said.first().map_or(self.asked(), |utterance| &utterance.text)
    }

    /// Whether it asks for consent to something that a slip of a finger must not start.
    pub(crate) fn needs_care(&self) -> bool {
        matches!(&self.event.payload, Payload::AwaitingConfirmation(asked) if self.doubtful || needs_care(asked))
    }

    pub(crate) fn is_confirmation(&self) -> bool {
        matches!(self.event.payload, Payload::AwaitingConfirmation(_))
    }

    /// What these words answer, or what would be an answer.
    pub(crate) fn answer(&self, words: &str) -> Result<PromptAnswer, Takes> {
        let words = words.trim();
        let command = parse(words);
        match &self.event.payload {
            Payload::AwaitingConfirmation(_) => match command {
                Command::Yes { named: None, .. } => Ok(PromptAnswer::accept()),
                Command::No { named: None } => Ok(PromptAnswer::reject()),
                _ => Err(Takes("takes-yes-no", 0)),
            },
            Payload::AwaitingClarification(asked) => clarify(asked, words, &command).map(PromptAnswer::response),
            _ => Err(Takes("takes-nothing", 0)),
        }
    }

    /// Seconds until the agent stops waiting.
    pub(crate) fn seconds_left(&self, now: Moment) -> u64 {
        self.deadline.since(now) / 1_000_000
    }

    /// The question for programs.
    pub(crate) fn json(&self, now: Moment) -> Value {
        json!({
            "type": "prompt",
            "state": if self.over.is_some() { "ended" } else { "open" },
            "number": self.number,
            "agent": self.agent(),
            "asks": self.asked(),
            "said": self.said.iter().map(|utterance| utterance.text.as_str()).collect::<Vec<_>>(),
            "kind": if self.is_confirmation() { "confirmation" } else { "clarification" },
            "needs_care": self.needs_care(),
            "can_answer": self.can_answer && self.id.is_some(),
            "seconds_left": self.seconds_left(now),
            "event": &*self.event,
        })
    }

    /// Everything about it, exactly as it came.
    pub(crate) fn details(&self, now: Moment) -> Vec<String> {
        let mut lines = Vec::new();
        let producer = &self.event.envelope.producer;
        lines.push(format!("From {}, agent id {}.", self.agent(), producer.agent_id));
        match &self.event.payload {
            Payload::AwaitingConfirmation(asked) => confirmation_details(asked, &mut lines),
            Payload::AwaitingClarification(asked) => clarification_details(asked, &mut lines),
            _ => {}
        }
        for (prefix, value) in self.event.envelope.extensions.iter().flatten() {
            lines.push(format!("Extension {prefix}: {value}"));
        }
        lines.push(format!("Session {}, {} seconds left.", self.event.envelope.session_id, self.seconds_left(now)));
        lines
    }
}

fn confirmation_details(asked: &AwaitingConfirmation, lines: &mut Vec<String>) {
    lines.push(format!("Action: {}", asked.action));
    lines.push(format!("Consequence: {}", asked.consequence));
    for (name, value) in asked.extra_context.iter().flatten() {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        lines.push(format!("{name}: {value}"));
    }
    let risk = asked.risk_level.as_ref().map_or("not told", RiskLevel::as_str);
    let undo = match (asked.is_irreversible(), &asked.reversibility) {
        (true, _) => "It cannot be undone",
        (false, Some(how)) => how.as_str(),
        (false, None) if asked.irreversible == Some(false) => "It can be undone",
        _ => "It is not told whether it can be undone",
    };
    lines.push(format!("Risk: {risk}. {undo}. Without an answer: {}.", asked.default_decision.as_str()));
}

fn clarification_details(asked: &AwaitingClarification, lines: &mut Vec<String>) {
    lines.push(format!("Question: {}", asked.question));
    lines.extend(asked.context.as_ref().map(|context| format!("Context: {context}")));
    for (index, choice) in asked.choices.iter().flatten().enumerate() {
        lines.push(format!("Choice {}: {} ({})", index + 1, choice.label, choice.value));
    }
    lines.extend(asked.default_response.as_ref().map(|response| format!("Without an answer: {response}")));
}

/// Only what is said to be harmless is taken lightly.
fn needs_care(asked: &AwaitingConfirmation) -> bool {
    let undone = asked.irreversible == Some(false)
        || matches!(asked.reversibility, Some(Reversibility::Reversible | Reversibility::ReversibleWithEffort));
    let light = match &asked.risk_level {
        Some(RiskLevel::Low) => true,
        Some(RiskLevel::Medium) | None => undone,
        Some(RiskLevel::High | RiskLevel::Other(_)) => false,
    };
    let hides = [&asked.action, &asked.consequence].into_iter().any(|text| find_deception(text).is_some());
    !light || asked.is_irreversible() || hides
}

fn clarify(asked: &AwaitingClarification, words: &str, command: &Command) -> Result<Response, Takes> {
    let choices = asked.choices.as_deref().unwrap_or_default();
    let kinds = asked.accepted_response_kinds.as_deref();
    let takes = |kind: ResponseKind| kinds.is_some_and(|kinds| kinds.contains(&kind));
    let by_choice = takes(ResponseKind::MultipleChoice) || (kinds.is_none() && !choices.is_empty());
    if by_choice {
        let place = number_of(words).and_then(|n| usize::try_from(n).ok()?.checked_sub(1));
        let same = |text: &str| text.to_lowercase() == words.to_lowercase();
        let found =
            place.and_then(|i| choices.get(i)).or_else(|| choices.iter().find(|c| same(&c.label) || same(&c.value)));
        if let Some(choice) = found {
            return Ok(Response::Text(choice.value.clone()));
        }
    }
    match command {
        Command::Yes { named: None, .. } if takes(ResponseKind::YesNo) => return Ok(Response::Boolean(true)),
        Command::No { named: None } if takes(ResponseKind::YesNo) => return Ok(Response::Boolean(false)),
        _ => {}
    }
    if takes(ResponseKind::Numeric) && number_text(words) {
        return words.replace(',', ".").parse().map(Response::Number).map_err(|_| Takes("takes-no-such-number", 0));
    }
    if (takes(ResponseKind::Freetext) || (kinds.is_none() && choices.is_empty())) && !words.is_empty() {
        return Ok(Response::Text(words.to_owned()));
    }
    Err(match () {
        () if by_choice => Takes("takes-choice", choices.len()),
        () if takes(ResponseKind::YesNo) => Takes("takes-yes-no", 0),
        () if takes(ResponseKind::Numeric) => Takes("takes-number", 0),
        () => Takes("takes-words", 0),
    })
}

/// The token of the question that an event asks.
pub(crate) fn token_of(event: &Event) -> Option<&ReplyToken> {
    match &event.payload {
        Payload::AwaitingConfirmation(asked) => Some(&asked.reply_token),
        Payload::AwaitingClarification(asked) => Some(&asked.reply_token),
        _ => None,
    }
}

/// All questions, the newest last.
#[derive(Debug, Default)]
pub(crate) struct Questions {
    all: Vec<Question>,
    next: u32,
}

impl Questions {
    /// Gives a question its number.
    pub(crate) fn add(&mut self, source: usize, event: Arc<Event>, deadline: Moment, said: Vec<Utterance>) -> u32 {
        self.next += 1;
        let number = self.next;
        let bytes = memory_size(&event) + said.iter().map(|utterance| utterance.text.len()).sum::<usize>();
        let id = None;
        self.all.push(Question {
            number,
            source,
            event,
            id,
            can_answer: false,
            deadline,
            said,
            bytes,
            doubtful: false,
            over: None,
        });
        number
    }

    /// Forgets what there is no room for: the oldest that are over, then the oldest that cannot be answered. Answers the
    /// numbers of those that were still open.
    pub(crate) fn forget(&mut self) -> Vec<u32> {
        let mut lost = Vec::new();
        while self.all.len() > REMEMBERED || self.all.iter().map(|q| q.bytes).sum::<usize>() > REMEMBERED_BYTES {
            let earlier = &self.all[..self.all.len().saturating_sub(1)];
            let over = earlier.iter().position(|q| q.over.is_some());
            let Some(index) = over.or_else(|| earlier.iter().position(|q| q.id.is_none())) else { break };
            let forgotten = self.all.remove(index);
            lost.extend(forgotten.over.is_none().then_some(forgotten.number));
        }
        lost
    }

    pub(crate) fn get(&self, number: u32) -> Option<&Question> {
        self.all.iter().find(|q| q.number == number)
    }

    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut Question> {
        self.all.iter_mut().find(|q| q.number == number)
    }

    /// A question is over.
    pub(crate) fn end(&mut self, number: u32, how: &'static str) {
        if let Some(question) = self.get_mut(number) {
            question.over = Some(how);
        }
    }

    /// The open question with this token.
    pub(crate) fn by_token(&self, source: usize, token: &ReplyToken) -> Option<&Question> {
        self.open().find(|q| q.source == source && q.token() == Some(token))
    }

    pub(crate) fn by_id(&self, source: usize, id: PromptId) -> Option<u32> {
        self.all.iter().rev().find(|q| q.source == source && q.id == Some(id)).map(|q| q.number)
    }

    /// Questions that wait, the oldest first.
    pub(crate) fn open(&self) -> impl Iterator<Item = &Question> {
        self.all.iter().filter(|q| q.over.is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn question(fields: Value) -> Question {
        let kind = if fields.get("action").is_some() { "confirmation" } else { "clarification" };
        let mut event = json!({"@context": "https://aaep-protocol.org/context/v1",
            "type": format!("aaep:agent.awaiting.{kind}"), "event_id": "evt_1", "session_id": "sess_1",
            "timestamp": "2026-05-24T14:22:11Z", "producer": {"agent_id": "a"}, "urgency": "critical",
            "consequence": "C.", "reply_token": "rpl_1", "timeout_seconds": 60, "default_decision": "reject"});
        event.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let mut questions = Questions::default();
        questions.add(0, Arc::new(serde_json::from_value(event).unwrap()), Moment::from_millis(60_000), Vec::new());
        questions.all.remove(0)
    }

    #[test]
    fn only_what_is_said_to_be_harmless_is_taken_lightly() {
        for (fields, care) in [
            (json!({"action": "A", "risk_level": "low"}), false),
            (json!({"action": "A", "risk_level": "medium", "irreversible": false}), false),
            (json!({"action": "A", "reversibility": "reversible"}), false),
            (json!({"action": "A"}), true),
            (json!({"action": "A", "risk_level": "low", "irreversible": true}), true),
            (json!({"action": "A", "risk_level": "high", "irreversible": false}), true),
            (json!({"action": "A", "risk_level": "odd", "irreversible": false}), true),
            (json!({"action": "Pay \u{202e}001", "risk_level": "low"}), true),
        ] {
            assert_eq!(question(fields.clone()).needs_care(), care, "{fields}");
        }
        let doubtful = Question { doubtful: true, ..question(json!({"action": "A", "risk_level": "low"})) };
        assert!(doubtful.needs_care());
    }

    #[test]
    fn words_become_the_answer_that_was_asked_for() {
        let choices = json!([{"value": "train", "label": "By train"}, {"value": "bus", "label": "By bus"}]);
        let choice =
            question(json!({"question": "Q", "choices": choices, "accepted_response_kinds": ["multiple_choice"]}));
        let text = |t: &str| Ok(PromptAnswer::response(Response::Text(t.into())));
        assert_eq!(choice.answer("2"), text("bus"));
        assert_eq!(choice.answer("by TRAIN"), text("train"));
        assert!(choice.answer("3").unwrap_err().say(Phrases::for_languages(&[])).contains("1 to 2"));
        assert!(choice.answer("0").is_err() && choice.answer("plane").is_err());
        let yes_no = question(json!({"question": "Q", "accepted_response_kinds": ["yes_no"]}));
        assert_eq!(yes_no.answer("ja"), Ok(PromptAnswer::response(Response::Boolean(true))));
        assert!(yes_no.answer("perhaps").is_err());
        let number = question(json!({"question": "Q", "accepted_response_kinds": ["numeric"]}));
        assert_eq!(number.answer("2,5"), Ok(PromptAnswer::response(Response::Number(2.5))));
        assert!(number.answer("two").is_err() && number.answer("1e999").is_err());
        let free = question(json!({"question": "Q", "accepted_response_kinds": ["freetext"]}));
        assert_eq!(free.answer(" Lagos "), text("Lagos"));
        assert_eq!(free.answer("no"), text("no"));
        assert!(free.answer("  ").is_err());
        let consent = question(json!({"action": "A"}));
        assert_eq!(consent.answer("no"), Ok(PromptAnswer::reject()));
        assert!(consent.answer("go ahead").is_err());
    }

    #[test]
    fn details_hold_the_exact_words() {
        let asked = question(json!({"action": "rm -rf ./x", "extra_context": {"path": "/tmp/x", "files": 3}}));
        let lines = asked.details(Moment::from_millis(0));
        for line in ["Action: rm -rf ./x", "path: /tmp/x", "files: 3", "Consequence: C."] {
            assert!(lines.iter().any(|l| l == line), "{line} in {lines:?}");
        }
    }
}
