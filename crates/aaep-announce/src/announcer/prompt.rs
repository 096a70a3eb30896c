//! Questions: a short headline, then everything that the user needs to decide, as one block.

use aaep_proto::confirm::CONSENT_PREFIX;
use aaep_proto::id::{ReplyToken, SessionId};
use aaep_proto::message::{
    AwaitingClarification, AwaitingConfirmation, Choice, Decision, Event, Payload, ResponseKind, Reversibility,
    RiskLevel, Verbosity,
};
use aaep_proto::time::Moment;
use aaep_proto::validate::{Deception, find_deception_in};
use serde_json::{Map, Value};

use super::words::{LocalizedText, field, headline};
use super::{Announcer, MAX_PROMPTS, PendingUtterance};
use crate::phrases::{Phrases, phrase};
use crate::profile::SubscriberKind;
use crate::speakable::{self, phrases_for, sentence, speakable_exact};
use crate::utterance::{Earcon, Priority, Turn, Utterance};

/// The most warnings about one question.
const MAX_WARNINGS: usize = 3;
/// The most entries of the context of a question.
const MAX_CONTEXT_ENTRIES: usize = 8;

/// An open question that was announced.
pub(super) struct AnnouncedPrompt {
    pub(super) session: SessionId,
    pub(super) agent: String,
    /// The headline, as it was announced.
    pub(super) asked: LocalizedText,
    pub(super) deadline: Moment,
    /// The default decision. `None` for a clarification.
    pub(super) default: Option<Decision>,
    pub(super) since: Moment,
    pub(super) reminders: u32,
    /// Whether the connection was lost since. Then the question is announced again when it comes again.
    pub(super) interrupted: bool,
}

/// How much time a question leaves.
#[derive(Clone, Copy)]
enum TimeToAnswer {
    /// It was just asked: all of it.
    Whole(u64),
    /// It is repeated: this much is left.
    Left(u64),
}

/// How a question was resolved, as far as the subscriber's side knows.
///
/// ```
/// use aaep_announce::{Announcer, Profile, PromptResolution};
/// use aaep_proto::time::Moment;
/// let mut announcer = Announcer::new(Profile::default());
/// let said = announcer.prompt_ended(Moment::from_millis(0), &"rpl_1".parse()?, PromptResolution::TimedOut);
/// assert!(said.is_empty(), "there is no such question");
/// # Ok::<(), aaep_proto::id::ParseIdError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PromptResolution {
    /// The user answered here, with these words.
    Answered(String),
    /// The question was answered elsewhere.
    AnsweredElsewhere,
    /// Nobody answered in time.
    TimedOut,
    /// The agent withdrew the question.
    Withdrawn,
}

/// The parts of a question that a confirmation and a clarification share.
struct Asking<'a> {
    token: &'a ReplyToken,
    seconds: u32,
    default: Option<Decision>,
}

impl Announcer {
    pub(super) fn confirmation(
        &mut self,
        now: Moment,
        event: &Event,
        asked: &AwaitingConfirmation,
    ) -> Vec<PendingUtterance> {
        let action = self.exact(field(event, "action", &asked.action, &self.profile), event);
        let default = Some(asked.default_decision.clone());
        let asking = Asking { token: &asked.reply_token, seconds: asked.timeout_seconds, default };
        let Some(mut drafts) = self.open(now, event, asking, &action) else {
            return self.announce_again(&asked.reply_token);
        };
        let texts = self.confirmation_texts(event, asked, &action, TimeToAnswer::Whole(asked.timeout_seconds.into()));
        self.push_texts(&mut drafts, asked.reply_token.as_str(), texts);
        drafts
    }

    /// Returns what follows the headline, in the order in which a user needs it to decide.
    fn confirmation_texts(
        &self,
        event: &Event,
        asked: &AwaitingConfirmation,
        action: &LocalizedText,
        time: TimeToAnswer,
    ) -> Vec<LocalizedText> {
        let consequence = self.exact(field(event, "consequence", &asked.consequence, &self.profile), event);
        let context = asked.extra_context.as_ref();
        let mut hidden: Vec<&str> = vec![&asked.action, &asked.consequence];
        hidden.extend(
            context.into_iter().flat_map(|c| c.iter()).flat_map(|(k, v)| [Some(k.as_str()), v.as_str()]).flatten(),
        );
        let mut texts = self.warnings(event, &hidden);
        if !headline(&action.text).1 {
            texts.push(action.clone());
        }
        if consequence.text != action.text {
            texts.push(consequence);
        }
        let phrases = self.user_phrases();
        let mut nature: Vec<String> = Vec::new();
        nature.extend(undo(asked).map(|id| phrases.text(id)));
        nature.extend(risk(asked.risk_level.as_ref()).map(|id| phrases.text(id)));
        texts.push(LocalizedText::new(nature.join(" "), phrases.language()));
        texts.extend(self.context(context, event));
        let default = if asked.default_decision == Decision::Accept { "default-accept" } else { "default-reject" };
        let terms = self.terms(time, phrases.text(default), &["yes-no"]);
        texts.push(LocalizedText::new(terms.join(" "), phrases.language()));
        texts
    }

    pub(super) fn clarification(
        &mut self,
        now: Moment,
        event: &Event,
        asked: &AwaitingClarification,
    ) -> Vec<PendingUtterance> {
        let question = self.exact(field(event, "question", &asked.question, &self.profile), event);
        let asking = Asking { token: &asked.reply_token, seconds: asked.timeout_seconds, default: None };
        let Some(mut drafts) = self.open(now, event, asking, &question) else {
            return self.announce_again(&asked.reply_token);
        };
        let time = TimeToAnswer::Whole(asked.timeout_seconds.into());
        let texts = self.clarification_texts(event, asked, &question, time);
        self.push_texts(&mut drafts, asked.reply_token.as_str(), texts);
        drafts
    }

    /// Returns what follows the headline, in the order in which a user needs it to answer.
    fn clarification_texts(
        &self,
        event: &Event,
        asked: &AwaitingClarification,
        question: &LocalizedText,
        time: TimeToAnswer,
    ) -> Vec<LocalizedText> {
        let choices = asked.choices.as_deref().unwrap_or_default();
        let mut hidden = vec![asked.question.as_str()];
        hidden.extend(asked.context.as_deref().into_iter().chain(asked.default_response.as_deref()));
        hidden.extend(choices.iter().flat_map(|c| [c.label.as_str(), c.value.as_str()]));
        let mut texts = self.warnings(event, &hidden);
        if !headline(&question.text).1 {
            texts.push(question.clone());
        }
        let context =
            asked.context.as_deref().filter(|c| !c.trim().is_empty() && self.profile.verbosity != Verbosity::Terse);
        let context = context.and_then(|c| field(event, "context", c, &self.profile));
        texts.extend(context.map(|context| self.spoken(&context)));
        texts.extend(self.choices(choices, &question.language));
        let phrases = self.user_phrases();
        let default = match default_of(asked, choices) {
            Some(response) => {
                let response = speakable_exact(&response, &question.language, &self.profile);
                phrase!(phrases, "default-response", response = &response)
            }
            None => phrases.text("default-goes-on"),
        };
        let terms = self.terms(time, default, &answers(asked));
        texts.push(LocalizedText::new(terms.join(" "), phrases.language()));
        texts
    }

    /// Returns a question again, all of it, with the time that is left. It has no sound and does not interrupt. Returns
    /// nothing for other events.
    pub fn repeat_question(&self, event: &Event, seconds_left: u64) -> Vec<Utterance> {
        let time = TimeToAnswer::Left(seconds_left);
        let (token, asked, texts) = match &event.payload {
            Payload::AwaitingConfirmation(asked) => {
                let action = self.exact(field(event, "action", &asked.action, &self.profile), event);
                let texts = self.confirmation_texts(event, asked, &action, time);
                (&asked.reply_token, action, texts)
            }
            Payload::AwaitingClarification(asked) => {
                let question = self.exact(field(event, "question", &asked.question, &self.profile), event);
                let texts = self.clarification_texts(event, asked, &question, time);
                (&asked.reply_token, question, texts)
            }
            _ => return Vec::new(),
        };
        let short = LocalizedText::new(headline(&asked.text).0, asked.language);
        let mut drafts = vec![self.headline_of(&self.agent_name(event), &short, "asks", token)];
        self.push_texts(&mut drafts, token.as_str(), texts);
        let repeated = |draft: PendingUtterance| Utterance {
            priority: Priority::Message,
            interrupts: false,
            earcon: None,
            turn: Turn::First,
            ..draft.utterance
        };
        let spoken = drafts.into_iter().map(repeated).filter(|utterance| !utterance.text.is_empty());
        spoken.flat_map(|utterance| self.split_long(utterance)).collect()
    }

    fn push_texts(&self, drafts: &mut Vec<PendingUtterance>, about: &str, texts: Vec<LocalizedText>) {
        drafts.extend(
            texts
                .into_iter()
                .map(|text| PendingUtterance { named: true, ..PendingUtterance::new(text, Priority::Message, about) }),
        );
    }

    /// Makes a text that the user decides about speakable, with nothing left out.
    fn exact(&self, text: Option<LocalizedText>, event: &Event) -> LocalizedText {
        let text = text.unwrap_or_else(|| LocalizedText::new("", super::words::primary(event, &self.profile).as_str()));
        LocalizedText::new(speakable_exact(&text.text, &text.language, &self.profile), text.language)
    }

    /// Adds a question and returns its headline. Returns `None` if the question is known already.
    fn open(
        &mut self,
        now: Moment,
        event: &Event,
        asking: Asking<'_>,
        asked: &LocalizedText,
    ) -> Option<Vec<PendingUtterance>> {
        let Asking { token, seconds, default } = asking;
        let deadline = now.plus_seconds(seconds.into());
        if let Some(known) = self.prompts.get_mut(token) {
            known.deadline = deadline;
            return None;
        }
        let agent = self.agent_name(event);
        let short = LocalizedText::new(headline(&asked.text).0, asked.language.clone());
        let said = self.headline_of(&agent, &short, "asks", token);
        if self.prompts.len() >= MAX_PROMPTS {
            let oldest = self.prompts.iter().min_by_key(|(_, p)| p.deadline).map(|(token, _)| token.clone());
            oldest.and_then(|token| self.prompts.remove(&token));
        }
        let prompt = AnnouncedPrompt {
            session: event.envelope.session_id.clone(),
            agent,
            asked: short,
            deadline,
            default,
            since: now,
            reminders: 0,
            interrupted: false,
        };
        self.prompts.insert(token.clone(), prompt);
        Some(vec![said])
    }

    fn headline_of(&self, agent: &str, asked: &LocalizedText, id: &str, token: &ReplyToken) -> PendingUtterance {
        let phrases = phrases_for(&asked.language, &self.profile.languages);
        let text = LocalizedText::new(
            sentence(&phrase!(phrases, id, agent = agent, action = &asked.text)),
            asked.language.clone(),
        );
        PendingUtterance::new(text, Priority::Important, token.as_str()).earcon(Earcon::Prompt).interrupting(true)
    }

    /// Handles a question that came again. It is announced again only after the connection was lost.
    fn announce_again(&mut self, token: &ReplyToken) -> Vec<PendingUtterance> {
        let Some(prompt) = self.prompts.get_mut(token).filter(|p| p.interrupted) else { return Vec::new() };
        prompt.interrupted = false;
        let (agent, asked) = (prompt.agent.clone(), prompt.asked.clone());
        vec![self.headline_of(&agent, &asked, "still-asks", token)]
    }

    /// Returns warnings about deceptive characters in the texts of a question.
    fn warnings(&self, event: &Event, texts: &[&str]) -> Vec<LocalizedText> {
        let language = super::words::primary(event, &self.profile);
        let name = event.envelope.producer.agent_name.as_deref();
        let mut warnings = Vec::new();
        let variants = event.extra.values().filter_map(Value::as_str);
        for text in texts.iter().copied().chain(name).chain(variants) {
            let mut rest = text.to_owned();
            while let Some(found) = find_deception_in(&rest, Some(language.as_str())) {
                let said = deception(self.user_phrases(), &found);
                if !warnings.contains(&said) {
                    warnings.push(said);
                }
                if warnings.len() >= MAX_WARNINGS {
                    return warnings;
                }
                rest = match found {
                    Deception::Hidden(c) | Deception::Direction(c) => rest.replace(c, ""),
                    Deception::LookAlike(word) => rest.replace(&word, ""),
                };
            }
        }
        warnings
    }

    /// Returns the context of a question, entry by entry.
    fn context(&self, context: Option<&Map<String, Value>>, event: &Event) -> Vec<LocalizedText> {
        let language = super::words::primary(event, &self.profile);
        let Some(context) = context.filter(|_| self.profile.verbosity != Verbosity::Terse) else { return Vec::new() };
        let entry = |(name, value): (&String, &Value)| {
            let value = match value {
                Value::String(text) => text.clone(),
                Value::Number(_) | Value::Bool(_) => value.to_string(),
                _ => return None,
            };
            let phrases = phrases_for(language.as_str(), &self.profile.languages);
            let name = speakable::name(name, &self.profile);
            let value = speakable_exact(&value, language.as_str(), &self.profile);
            Some(sentence(&phrase!(phrases, "context-entry", name = &name, value = &value)))
        };
        let entries: Vec<String> = context.iter().filter_map(entry).take(MAX_CONTEXT_ENTRIES).collect();
        if entries.is_empty() { Vec::new() } else { vec![LocalizedText::new(entries.join(" "), language.as_str())] }
    }

    fn choices(&self, choices: &[Choice], language: &str) -> Vec<LocalizedText> {
        if choices.is_empty() {
            return Vec::new();
        }
        let phrases = phrases_for(language, &self.profile.languages);
        let mut parts = vec![phrase!(phrases, "choices", count = choices.len())];
        for (i, choice) in choices.iter().enumerate() {
            let label = speakable_exact(&choice.label, language, &self.profile);
            parts.push(sentence(&phrase!(phrases, "choice", number = i + 1, label = &label)));
        }
        vec![LocalizedText::new(parts.join(" "), language)]
    }

    /// Returns the time to answer, what happens after it, and how to answer.
    fn terms(&self, time: TimeToAnswer, default: String, answers: &[&str]) -> Vec<String> {
        let phrases = self.user_phrases();
        let time = match time {
            TimeToAnswer::Whole(seconds) => phrase!(phrases, "time-to-answer", time = &phrases.duration(seconds)),
            TimeToAnswer::Left(seconds) => phrase!(phrases, "time-left", time = &phrases.duration(seconds)),
        };
        let mut parts = vec![time, default];
        if self.profile.can_reply() {
            let verb = if self.profile.kind == SubscriberKind::VoiceControl { "say" } else { "answer" };
            parts.extend(answers.iter().map(|way| phrases.text(&format!("{verb}-{way}"))));
        }
        parts
    }

    /// Announces that a question was resolved. Speech about it that waits (see [`Utterance::about`]) can be cancelled.
    pub fn prompt_ended(&mut self, now: Moment, token: &ReplyToken, how: PromptResolution) -> Vec<Utterance> {
        let Some(prompt) = self.prompts.remove(token) else { return Vec::new() };
        self.fingerprints.remove(token.as_str());
        self.restart_silence(now, &prompt.session);
        let phrases = self.user_phrases();
        let text = match how {
            PromptResolution::Answered(words) => phrase!(phrases, "answer-sent", words = &words),
            PromptResolution::AnsweredElsewhere => phrases.text("answered-elsewhere"),
            PromptResolution::TimedOut => phrases.text(timed_out(&prompt)),
            PromptResolution::Withdrawn => phrases.text("outcome-withdrawn"),
        };
        let text = LocalizedText::new(sentence(&text), phrases.language());
        let draft = PendingUtterance::new(text, Priority::Message, prompt.session.as_str()).first();
        self.finish(now, &prompt.session, vec![draft], true)
    }

    /// Returns the resolution of a question that a state change reports, in the user's language if there is a phrase.
    pub(super) fn outcome(&mut self, event: &Event) -> Option<LocalizedText> {
        let consent = consent(event)?;
        let token: ReplyToken = consent.get("reply_token")?.as_str()?.parse().ok()?;
        let outcome = consent.get("outcome")?.as_str()?;
        let prompt = self.prompts.remove(&token);
        self.fingerprints.remove(token.as_str());
        let own = self.summary(event);
        let phrases = self.user_phrases();
        let native = own.as_ref().is_some_and(|text| text.language.split('-').next() == Some(phrases.language()));
        let id = match (outcome, &prompt) {
            _ if native => return own,
            ("accepted", _) => "outcome-accepted",
            ("rejected", _) => "outcome-rejected",
            ("answered", _) => "outcome-answered",
            ("timed_out" | "nobody_could_answer" | "subscriber_left", Some(prompt)) => timed_out(prompt),
            ("cancelled" | "superseded", _) => "outcome-withdrawn",
            _ => return own,
        };
        Some(LocalizedText::new(phrases.text(id), phrases.language()))
    }
}

/// Returns the extension that producers of this project add to events about questions.
pub(super) fn consent(event: &Event) -> Option<&Map<String, Value>> {
    event.envelope.extensions.as_ref()?.get(CONSENT_PREFIX)?.as_object()
}

pub(super) fn timed_out(prompt: &AnnouncedPrompt) -> &'static str {
    match prompt.default {
        Some(Decision::Accept) => "outcome-timed-out-done",
        Some(_) => "outcome-timed-out-not-done",
        None => "outcome-timed-out-goes-on",
    }
}

fn undo(asked: &AwaitingConfirmation) -> Option<&'static str> {
    match &asked.reversibility {
        _ if asked.is_irreversible() => Some("undo-never"),
        Some(Reversibility::ReversibleWithEffort) => Some("undo-effort"),
        Some(Reversibility::Reversible) => Some("undo-easy"),
        _ if asked.irreversible == Some(false) => Some("undo-easy"),
        _ => None,
    }
}

fn risk(level: Option<&RiskLevel>) -> Option<&'static str> {
    match level? {
        RiskLevel::Low => Some("risk-low"),
        RiskLevel::Medium => Some("risk-medium"),
        RiskLevel::High => Some("risk-high"),
        _ => None,
    }
}

/// What the agent assumes without an answer, by the label that the user heard.
fn default_of(asked: &AwaitingClarification, choices: &[Choice]) -> Option<String> {
    let response = asked.default_response.as_deref().filter(|r| !r.trim().is_empty())?;
    let choice = choices.iter().find(|c| c.value == response);
    Some(choice.map_or(response, |c| c.label.as_str()).to_owned())
}

/// How the question can be answered, as ends of phrase ids.
fn answers(asked: &AwaitingClarification) -> Vec<&'static str> {
    let way = |kind: &ResponseKind| match kind {
        ResponseKind::YesNo => Some("yes-no"),
        ResponseKind::MultipleChoice => Some("choice"),
        ResponseKind::Numeric => Some("number"),
        ResponseKind::Freetext => Some("text"),
        _ => None,
    };
    let ways: Vec<_> = asked.accepted_response_kinds.iter().flatten().filter_map(way).collect();
    match (ways.is_empty(), asked.choices.is_some()) {
        (false, _) => ways,
        (true, true) => vec!["choice"],
        (true, false) => vec!["text"],
    }
}

/// A deception in words.
pub(super) fn deception(phrases: &Phrases, found: &Deception) -> LocalizedText {
    let code = |c: char| format!("U+{:04X}", c as u32);
    let said = match found {
        Deception::Hidden(c) => phrase!(phrases, "hidden-character", code = &code(*c)),
        Deception::Direction(c) => phrase!(phrases, "direction-character", code = &code(*c)),
        Deception::LookAlike(word) => {
            let strange = |c: char| {
                c.is_alphabetic() && !c.is_ascii() && !matches!(c, '\u{C0}'..='\u{24F}' | '\u{1E00}'..='\u{1EFF}')
            };
            let letters = word.chars().enumerate().filter(|(_, c)| strange(*c)).take(4);
            let letters: Vec<String> =
                letters.map(|(i, c)| phrase!(phrases, "letter", number = i + 1, code = &code(c))).collect();
            let word: String = word.chars().filter(|c| !speakable::is_unspeakable(*c)).take(40).collect();
            phrase!(phrases, "look-alike", word = &word, letters = &letters.join(", "))
        }
    };
    LocalizedText::new(said, phrases.language())
}
