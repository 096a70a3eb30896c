//! Questions as the user knows them: by a number that is never used twice.

use std::sync::Arc;

use aaep_announce::{Phrases, Utterance};
use aaep_proto::id::ReplyToken;
use aaep_proto::message::{
    AwaitingClarification, AwaitingConfirmation, Decision, Event, Payload, Response, ResponseKind, Reversibility,
    RiskLevel,
};
use aaep_proto::subscriber::{PromptAnswer, PromptId, memory_size};
use aaep_proto::time::Moment;
use aaep_proto::validate::find_deception;
use serde_json::{Value, json};

use crate::command::{TypedCommand, is_numeric, parse, parse_number};

/// The most questions that are kept. Ended ones are kept to tell the user how they ended.
const MAX_QUESTIONS: usize = 256;
/// About how many bytes of memory they may take. Questions that can be answered are kept in any case; the subscriber
/// bounds them.
const MAX_QUESTION_BYTES: usize = 8 * 1024 * 1024;

/// The shortest code that is shortened in details.
const MIN_CODE_CHARS: usize = 32;
/// How much of a shortened code is shown.
const CODE_START_CHARS: usize = 8;

/// The answer that a question expects instead of the one that was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExpectedAnswer {
    phrase_id: &'static str,
    choices: usize,
}

impl ExpectedAnswer {
    fn new(phrase_id: &'static str) -> ExpectedAnswer {
        ExpectedAnswer { phrase_id, choices: 0 }
    }

    /// Returns a sentence that describes the expected answer.
    pub(crate) fn describe(self, phrases: &Phrases) -> String {
        phrases.format(self.phrase_id, &[("last", self.choices.into())])
    }
}

/// A question with the number that the user knows it by.
#[derive(Clone, Debug)]
pub(crate) struct NumberedQuestion {
    pub(crate) number: u32,
    /// The index of the producer that asks.
    pub(crate) producer: usize,
    pub(crate) event: Arc<Event>,
    /// The prompt to answer. `None` until the subscriber opens it.
    pub(crate) prompt: Option<PromptId>,
    pub(crate) can_answer: bool,
    pub(crate) deadline: Moment,
    /// How it was announced.
    pub(crate) utterances: Vec<Utterance>,
    /// About how many bytes of memory it takes.
    bytes: usize,
    /// Whether the signing key of its producer changed, so that it may come from an impostor.
    pub(crate) key_changed: bool,
    /// The answer that was sent from here, in words.
    pub(crate) sent: String,
    /// How it ended, as the id of a phrase. `None` while it is open.
    pub(crate) ended: Option<&'static str>,
}

impl NumberedQuestion {
    pub(crate) fn token(&self) -> Option<&ReplyToken> {
        self.event.reply_token()
    }

    /// Returns the name of the agent that asks.
    pub(crate) fn agent(&self) -> &str {
        let producer = &self.event.envelope.producer;
        producer.agent_name.as_deref().unwrap_or(&producer.agent_id)
    }

    /// Returns the question as the agent wrote it.
    pub(crate) fn text(&self) -> &str {
        match &self.event.payload {
            Payload::AwaitingConfirmation(asked) => &asked.action,
            Payload::AwaitingClarification(asked) => &asked.question,
            _ => "",
        }
    }

    /// Returns the first sentence of the announcement, or the text of the agent if there was none.
    pub(crate) fn headline(&self) -> &str {
        self.utterances.first().map_or(self.text(), |utterance| &utterance.text)
    }

    /// Returns whether it asks for consent to something that a slip of a finger must not start.
    pub(crate) fn needs_care(&self) -> bool {
        matches!(&self.event.payload, Payload::AwaitingConfirmation(asked) if self.key_changed || needs_care(asked))
    }

    pub(crate) fn is_confirmation(&self) -> bool {
        matches!(self.event.payload, Payload::AwaitingConfirmation(_))
    }

    /// Reads words as an answer to this question; the error is the answer that it expects.
    pub(crate) fn answer(&self, words: &str) -> Result<PromptAnswer, ExpectedAnswer> {
        let words = words.trim();
        let command = parse(words);
        match &self.event.payload {
            Payload::AwaitingConfirmation(_) => match command {
                TypedCommand::Yes { named: None, .. } => Ok(PromptAnswer::accept()),
                TypedCommand::No { named: None } => Ok(PromptAnswer::reject()),
                _ => Err(ExpectedAnswer::new("takes-yes-no")),
            },
            Payload::AwaitingClarification(asked) => parse_response(asked, words, &command).map(PromptAnswer::response),
            _ => Err(ExpectedAnswer::new("takes-nothing")),
        }
    }

    /// Returns whether the word would be sent as a text in the user's own words, and not as a yes, a no or a choice.
    pub(crate) fn takes_as_text(&self, word: &str) -> bool {
        let Payload::AwaitingClarification(asked) = &self.event.payload else { return false };
        let choices = asked.choices.as_deref().unwrap_or_default();
        let is_choice = choices.iter().any(|c| [&c.label, &c.value].iter().any(|text| text.to_lowercase() == word));
        let sent = PromptAnswer::response(Response::Text(word.to_owned()));
        !is_choice && self.answer(word) == Ok(sent)
    }

    /// Returns an answer as the user knows it: yes, no, a number, the label of a choice, a text.
    pub(crate) fn describe_answer(&self, answer: &PromptAnswer, phrases: &Phrases) -> String {
        let word = |yes: bool| phrases.text(if yes { "word-yes" } else { "word-no" });
        match answer {
            PromptAnswer::Decision { decision, .. } => word(*decision == Decision::Accept),
            PromptAnswer::Response { response: Response::Boolean(yes), .. } => word(*yes),
            PromptAnswer::Response { response: Response::Number(number), .. } => number.to_string(),
            PromptAnswer::Response { response: Response::Text(text), .. } => {
                let Payload::AwaitingClarification(asked) = &self.event.payload else { return text.clone() };
                let choice = asked.choices.iter().flatten().find(|choice| choice.value == *text);
                choice.map_or_else(|| text.clone(), |choice| choice.label.clone())
            }
        }
    }

    /// Returns the seconds until the agent stops waiting.
    pub(crate) fn seconds_left(&self, now: Moment) -> u64 {
        self.deadline.since(now) / 1_000_000
    }

    /// Returns the question as an object for programs.
    pub(crate) fn to_json(&self, now: Moment) -> Value {
        json!({
            "type": "prompt",
            "state": if self.ended.is_some() { "ended" } else { "open" },
            "number": self.number,
            "agent": self.agent(),
            "asks": self.text(),
            "said": self.utterances.iter().map(|utterance| utterance.text.as_str()).collect::<Vec<_>>(),
            "kind": if self.is_confirmation() { "confirmation" } else { "clarification" },
            "needs_care": self.needs_care(),
            "can_answer": self.can_answer && self.prompt.is_some(),
            "seconds_left": self.seconds_left(now),
            "event": &*self.event,
        })
    }

    /// Returns every field of the question, exactly as it came, one line each, and whether codes in its context or its
    /// extensions were shortened. With `all`, none is.
    pub(crate) fn details(&self, now: Moment, all: bool) -> (Vec<String>, bool) {
        let mut shortened = false;
        let mut shorten = |text: String| {
            let short = if all { text.clone() } else { shorten_codes(&text) };
            shortened |= short != text;
            short
        };
        let mut lines = Vec::new();
        let producer = &self.event.envelope.producer;
        lines.push(format!("From {}, agent id {}.", self.agent(), producer.agent_id));
        match &self.event.payload {
            Payload::AwaitingConfirmation(asked) => confirmation_details(asked, &mut lines, &mut shorten),
            Payload::AwaitingClarification(asked) => clarification_details(asked, &mut lines),
            _ => {}
        }
        for (prefix, value) in self.event.envelope.extensions.iter().flatten() {
            lines.push(shorten(format!("Extension {prefix}: {value}")));
        }
        lines.push(format!("Session {}, {} seconds left.", self.event.envelope.session_id, self.seconds_left(now)));
        (lines, shortened)
    }
}

/// Returns a text with long codes, such as digests, cut to their start.
fn shorten_codes(text: &str) -> String {
    let is_code = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '_' | '=');
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(is_code) {
        let length = rest[start..].find(|c| !is_code(c)).unwrap_or(rest.len() - start);
        let (code, after) = rest[start..].split_at(length);
        out.push_str(&rest[..start]);
        // No word and no name of a file is that long and has digits in it.
        if length >= MIN_CODE_CHARS && code.contains(|c: char| c.is_ascii_digit()) {
            out.push_str(&code[..CODE_START_CHARS]);
            out.push('…');
        } else {
            out.push_str(code);
        }
        rest = after;
    }
    out + rest
}

fn confirmation_details(
    asked: &AwaitingConfirmation,
    lines: &mut Vec<String>,
    shorten: &mut impl FnMut(String) -> String,
) {
    lines.push(format!("Action: {}", asked.action));
    lines.push(format!("Consequence: {}", asked.consequence));
    for (name, value) in asked.extra_context.iter().flatten() {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        lines.push(shorten(format!("{name}: {value}")));
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

/// Returns whether consent to this needs care: always, unless the agent says that it is harmless.
fn needs_care(asked: &AwaitingConfirmation) -> bool {
    let reversible = asked.irreversible == Some(false)
        || matches!(asked.reversibility, Some(Reversibility::Reversible | Reversibility::ReversibleWithEffort));
    let low_risk = match &asked.risk_level {
        Some(RiskLevel::Low) => true,
        Some(RiskLevel::Medium) | None => reversible,
        // High, or a level that this program does not know.
        Some(_) => false,
    };
    let deceives = [&asked.action, &asked.consequence].into_iter().any(|text| find_deception(text).is_some());
    !low_risk || asked.is_irreversible() || deceives
}

/// Reads words as an answer to a clarification.
fn parse_response(
    asked: &AwaitingClarification,
    words: &str,
    command: &TypedCommand,
) -> Result<Response, ExpectedAnswer> {
    let choices = asked.choices.as_deref().unwrap_or_default();
    let kinds = asked.accepted_response_kinds.as_deref();
    let takes = |kind: ResponseKind| kinds.is_some_and(|kinds| kinds.contains(&kind));
    let by_choice = takes(ResponseKind::MultipleChoice) || (kinds.is_none() && !choices.is_empty());
    if by_choice {
        let place = parse_number(words).and_then(|n| usize::try_from(n).ok()?.checked_sub(1));
        let same = |text: &str| text.to_lowercase() == words.to_lowercase();
        let found =
            place.and_then(|i| choices.get(i)).or_else(|| choices.iter().find(|c| same(&c.label) || same(&c.value)));
        if let Some(choice) = found {
            return Ok(Response::Text(choice.value.clone()));
        }
    }
    match command {
        TypedCommand::Yes { named: None, .. } if takes(ResponseKind::YesNo) => return Ok(Response::Boolean(true)),
        TypedCommand::No { named: None } if takes(ResponseKind::YesNo) => return Ok(Response::Boolean(false)),
        _ => {}
    }
    if takes(ResponseKind::Numeric) && is_numeric(words) {
        return words
            .replace(',', ".")
            .parse()
            .map(Response::Number)
            .map_err(|_| ExpectedAnswer::new("takes-no-such-number"));
    }
    if (takes(ResponseKind::Freetext) || (kinds.is_none() && choices.is_empty())) && !words.is_empty() {
        return Ok(Response::Text(words.to_owned()));
    }
    Err(match () {
        () if by_choice => ExpectedAnswer { phrase_id: "takes-choice", choices: choices.len() },
        () if takes(ResponseKind::YesNo) => ExpectedAnswer::new("takes-yes-no"),
        () if takes(ResponseKind::Numeric) => ExpectedAnswer::new("takes-number"),
        () => ExpectedAnswer::new("takes-words"),
    })
}

/// The questions of all producers, the newest last.
#[derive(Debug, Default)]
pub(crate) struct QuestionList {
    all: Vec<NumberedQuestion>,
    next: u32,
}

impl QuestionList {
    /// Adds a question and returns its number.
    pub(crate) fn add(
        &mut self,
        producer: usize,
        event: Arc<Event>,
        deadline: Moment,
        utterances: Vec<Utterance>,
    ) -> u32 {
        self.next += 1;
        let number = self.next;
        let bytes = memory_size(&event) + utterances.iter().map(|utterance| utterance.text.len()).sum::<usize>();
        self.all.push(NumberedQuestion {
            number,
            producer,
            event,
            prompt: None,
            can_answer: false,
            deadline,
            utterances,
            bytes,
            key_changed: false,
            sent: String::new(),
            ended: None,
        });
        number
    }

    /// Drops questions above the bounds: the oldest that have ended, then the oldest that cannot be answered. Returns the
    /// numbers of those that were still open.
    pub(crate) fn evict(&mut self) -> Vec<u32> {
        let mut dropped = Vec::new();
        while self.all.len() > MAX_QUESTIONS || self.all.iter().map(|q| q.bytes).sum::<usize>() > MAX_QUESTION_BYTES {
            let earlier = &self.all[..self.all.len().saturating_sub(1)];
            let ended = earlier.iter().position(|q| q.ended.is_some());
            let Some(index) = ended.or_else(|| earlier.iter().position(|q| q.prompt.is_none())) else { break };
            let evicted = self.all.remove(index);
            dropped.extend(evicted.ended.is_none().then_some(evicted.number));
        }
        dropped
    }

    pub(crate) fn get(&self, number: u32) -> Option<&NumberedQuestion> {
        self.all.iter().find(|q| q.number == number)
    }

    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut NumberedQuestion> {
        self.all.iter_mut().find(|q| q.number == number)
    }

    /// Ends a question; `how` is the id of a phrase.
    pub(crate) fn end(&mut self, number: u32, how: &'static str) {
        if let Some(question) = self.get_mut(number) {
            question.ended = Some(how);
        }
    }

    /// Returns the open question of a producer with this reply token.
    pub(crate) fn by_token(&self, producer: usize, token: &ReplyToken) -> Option<&NumberedQuestion> {
        self.open().find(|q| q.producer == producer && q.token() == Some(token))
    }

    /// Returns the number of the question of a producer with this prompt.
    pub(crate) fn by_prompt(&self, producer: usize, prompt: PromptId) -> Option<u32> {
        self.all.iter().rev().find(|q| q.producer == producer && q.prompt == Some(prompt)).map(|q| q.number)
    }

    /// Returns the open questions, the oldest first.
    pub(crate) fn open(&self) -> impl Iterator<Item = &NumberedQuestion> {
        self.all.iter().filter(|q| q.ended.is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn question(fields: Value) -> NumberedQuestion {
        let kind = if fields.get("action").is_some() { "confirmation" } else { "clarification" };
        let mut event = json!({"@context": "https://aaep-protocol.org/context/v1",
            "type": format!("aaep:agent.awaiting.{kind}"), "event_id": "evt_1", "session_id": "sess_1",
            "timestamp": "2026-05-24T14:22:11Z", "producer": {"agent_id": "a"}, "urgency": "critical",
            "consequence": "C.", "reply_token": "rpl_1", "timeout_seconds": 60, "default_decision": "reject"});
        event.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let mut questions = QuestionList::default();
        questions.add(0, Arc::new(serde_json::from_value(event).unwrap()), Moment::from_millis(60_000), Vec::new());
        questions.all.remove(0)
    }

    #[test]
    fn consent_needs_care_unless_the_agent_says_it_is_harmless() {
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
        let key_changed =
            NumberedQuestion { key_changed: true, ..question(json!({"action": "A", "risk_level": "low"})) };
        assert!(key_changed.needs_care());
    }

    #[test]
    fn words_become_the_kind_of_answer_that_is_asked_for() {
        let choices = json!([{"value": "train", "label": "By train"}, {"value": "bus", "label": "By bus"}]);
        let choice =
            question(json!({"question": "Q", "choices": choices, "accepted_response_kinds": ["multiple_choice"]}));
        let text = |t: &str| Ok(PromptAnswer::response(Response::Text(t.into())));
        assert_eq!(choice.answer("2"), text("bus"));
        assert_eq!(choice.answer("by TRAIN"), text("train"));
        assert!(choice.answer("3").unwrap_err().describe(Phrases::for_languages(&[])).contains("1 to 2"));
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
    fn details_contain_the_exact_fields() {
        let asked = question(json!({"action": "rm -rf ./x", "extra_context": {"path": "/tmp/x", "files": 3}}));
        let (lines, shortened) = asked.details(Moment::from_millis(0), false);
        assert!(!shortened);
        for line in ["Action: rm -rf ./x", "path: /tmp/x", "files: 3", "Consequence: C."] {
            assert!(lines.iter().any(|l| l == line), "{line} in {lines:?}");
        }
    }

    #[test]
    fn details_spell_digests_only_if_all_is_asked_for() {
        let digest = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
        let asked = question(json!({"action": format!("Run {digest}"), "extra_context": {"sum": digest},
            "extensions": {"consent": {"arguments_digest": digest}}}));
        let (lines, shortened) = asked.details(Moment::from_millis(0), false);
        assert!(shortened && lines.contains(&format!("Action: Run {digest}")), "what is decided is exact: {lines:?}");
        assert!(lines.contains(&"sum: 9f86d081…".to_owned()), "{lines:?}");
        assert_eq!(lines.iter().filter(|line| line.contains(digest)).count(), 1, "{lines:?}");
        let (lines, shortened) = asked.details(Moment::from_millis(0), true);
        assert!(!shortened && lines.contains(&format!("sum: {digest}")), "{lines:?}");
    }

    #[test]
    fn answers_are_described_by_the_words_of_the_question() {
        let phrases = Phrases::for_languages(&[]);
        let choices = json!([{"value": "train", "label": "By train"}]);
        let choice = question(json!({"question": "Q", "choices": choices}));
        for (answer, words) in [
            (PromptAnswer::reject(), "no"),
            (PromptAnswer::accept(), "yes"),
            (PromptAnswer::response(Response::Boolean(true)), "yes"),
            (PromptAnswer::response(Response::Number(4.0)), "4"),
            (PromptAnswer::response(Response::Text("train".into())), "By train"),
            (PromptAnswer::response(Response::Text("Lagos".into())), "Lagos"),
        ] {
            assert_eq!(choice.describe_answer(&answer, phrases), words);
        }
    }
}
