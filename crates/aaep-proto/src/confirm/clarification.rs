//! Clarifications: questions for information that the agent needs.

use std::fmt;

use serde_json::{Map, Value};

use super::question::texts;
use crate::id::ReplyToken;
use crate::language::LanguageTag;
use crate::message::{AwaitingClarification, Choice, EventMeta, Response, ResponseKind, add_variant};

/// The error for a question that has no valid response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnanswerableError {
    /// The question is multiple choice and has no choices.
    NoChoices,
    /// The default response is not one of the choices.
    DefaultIsNoChoice,
}

impl fmt::Display for UnanswerableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            UnanswerableError::NoChoices => "a multiple-choice question needs choices",
            UnanswerableError::DefaultIsNoChoice => "default_response must be the value of one of the choices",
        })
    }
}

impl std::error::Error for UnanswerableError {}

/// A question about what the user wants.
///
/// ```
/// use aaep_proto::confirm::Clarification;
/// let ask = Clarification::choice("Which folder?", [("in", "Inbox"), ("old", "Old mail")]).default_response("in");
/// # let _ = ask;
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Clarification {
    question: String,
    kinds: Vec<ResponseKind>,
    choices: Vec<(String, String)>,
    context: Option<String>,
    default_response: Option<String>,
    summaries: [Option<String>; 3],
    variants: Map<String, Value>,
    meta: EventMeta,
    timeout_seconds: u32,
    origin: Option<String>,
}

impl Clarification {
    fn new(question: impl Into<String>, kind: ResponseKind) -> Clarification {
        Clarification {
            question: question.into(),
            kinds: vec![kind],
            choices: Vec::new(),
            context: None,
            default_response: None,
            summaries: [None, None, None],
            variants: Map::new(),
            meta: EventMeta::default(),
            timeout_seconds: 120,
            origin: None,
        }
    }

    /// Restores a question from the event that asked it.
    pub(crate) fn restore(
        asked: &AwaitingClarification,
        variants: &Map<String, Value>,
        origin: Option<String>,
    ) -> Clarification {
        let choices = asked.choices.iter().flatten().map(|choice| (choice.value.clone(), choice.label.clone()));
        Clarification {
            question: asked.question.clone(),
            kinds: asked.accepted_response_kinds.clone().unwrap_or_default(),
            choices: choices.collect(),
            context: asked.context.clone(),
            default_response: asked.default_response.clone(),
            summaries: [asked.summary_terse.clone(), asked.summary_normal.clone(), asked.summary_detailed.clone()],
            variants: variants.clone(),
            // The metadata is in the recorded event, which is sent again as it is.
            meta: EventMeta::default(),
            timeout_seconds: asked.timeout_seconds,
            origin,
        }
    }

    /// Sets the agent's own key for this question, by which it finds the question again after a restart.
    pub fn origin(mut self, origin: impl Into<String>) -> Clarification {
        self.origin = Some(origin.into());
        self
    }

    pub(crate) fn origin_key(&self) -> Option<&str> {
        self.origin.as_deref()
    }

    /// Creates a question that accepts any text.
    pub fn freetext(question: impl Into<String>) -> Clarification {
        Clarification::new(question, ResponseKind::Freetext)
    }

    /// Creates a question that accepts yes or no.
    pub fn yes_no(question: impl Into<String>) -> Clarification {
        Clarification::new(question, ResponseKind::YesNo)
    }

    /// Creates a question that accepts a number.
    pub fn numeric(question: impl Into<String>) -> Clarification {
        Clarification::new(question, ResponseKind::Numeric)
    }

    /// Creates a multiple-choice question. Each choice is a value and a label.
    pub fn choice<V: Into<String>, L: Into<String>>(
        question: impl Into<String>,
        choices: impl IntoIterator<Item = (V, L)>,
    ) -> Clarification {
        let mut ask = Clarification::new(question, ResponseKind::MultipleChoice);
        ask.choices = choices.into_iter().map(|(v, l)| (v.into(), l.into())).collect();
        ask
    }

    /// Accepts another kind of response as well.
    pub fn or(mut self, kind: ResponseKind) -> Clarification {
        self.kinds.push(kind);
        self
    }

    /// Sets the explanation of why the agent asks.
    pub fn context(mut self, context: impl Into<String>) -> Clarification {
        self.context = Some(context.into());
        self
    }

    /// Sets the response that the agent assumes if nobody replies.
    pub fn default_response(mut self, response: impl Into<String>) -> Clarification {
        self.default_response = Some(response.into());
        self
    }

    /// Sets the summaries for the announcement, from terse to detailed.
    pub fn summaries(
        mut self,
        terse: Option<String>,
        normal: Option<String>,
        detailed: Option<String>,
    ) -> Clarification {
        self.summaries = [terse, normal, detailed];
        self
    }

    /// Sets texts in other languages, by field name and language suffix, and the metadata of the event. In each
    /// language, the question is also the normal summary unless there is another.
    pub fn with_variants(mut self, variants: Map<String, Value>, meta: EventMeta) -> Clarification {
        self.variants.extend(variants);
        self.meta = meta;
        for (suffix, question) in texts(&self.variants, "question_") {
            self.variants.entry(format!("summary_normal_{suffix}")).or_insert(question.into());
        }
        self
    }

    /// Adds the question in another language. Choices, context and default response are not translated, so use them
    /// only if they need no translation.
    pub fn in_language(mut self, language: &LanguageTag, question: &str) -> Clarification {
        add_variant(&mut self.variants, "question", language, question);
        add_variant(&mut self.variants, "summary_normal", language, question);
        self
    }

    /// Sets the timeout, from one second to one day.
    pub fn timeout_seconds(mut self, seconds: u32) -> Clarification {
        self.timeout_seconds = seconds.clamp(1, 86_400);
        self
    }

    pub(crate) fn timeout(&self) -> u32 {
        self.timeout_seconds
    }

    /// Checks that the question can be answered and that the default response is one of its choices. A question that
    /// also accepts other kinds of responses may have any default.
    pub(crate) fn check(&self) -> Result<(), UnanswerableError> {
        let chooses = self.kinds.contains(&ResponseKind::MultipleChoice);
        if chooses && self.choices.is_empty() {
            return Err(UnanswerableError::NoChoices);
        }
        let only_chooses = self.kinds.iter().all(|kind| *kind == ResponseKind::MultipleChoice);
        let known = |default: &String| self.choices.iter().any(|(value, _)| value == default);
        if chooses && only_chooses && !self.default_response.iter().all(known) {
            return Err(UnanswerableError::DefaultIsNoChoice);
        }
        Ok(())
    }

    /// Returns the language variants and the metadata of the event.
    pub(crate) fn rest(&self) -> (Map<String, Value>, EventMeta) {
        (self.variants.clone(), self.meta.clone())
    }

    pub(crate) fn fallback(&self) -> Option<Response> {
        self.default_response.clone().map(Response::Text)
    }

    /// Returns whether the response is of an accepted kind (6.5.5).
    pub(crate) fn takes(&self, response: &Response) -> bool {
        self.kinds.iter().any(|kind| match (kind, response) {
            (ResponseKind::Freetext, Response::Text(_)) => true,
            (ResponseKind::MultipleChoice, Response::Text(text)) => self.choices.iter().any(|(value, _)| value == text),
            (ResponseKind::YesNo, Response::Boolean(_)) => true,
            (ResponseKind::Numeric, Response::Number(n)) => n.is_finite(),
            _ => false,
        })
    }

    pub(crate) fn payload(&self, reply_token: ReplyToken, timeout_seconds: u32) -> AwaitingClarification {
        let choice = |(value, label): &(String, String)| Choice { value: value.clone(), label: label.clone() };
        let [summary_terse, summary_normal, summary_detailed] = self.summaries.clone();
        AwaitingClarification {
            question: self.question.clone(),
            reply_token,
            timeout_seconds,
            accepted_response_kinds: Some(self.kinds.clone()),
            choices: (!self.choices.is_empty()).then(|| self.choices.iter().map(choice).collect()),
            context: self.context.clone(),
            default_response: self.default_response.clone(),
            summary_terse,
            summary_normal: summary_normal.or_else(|| Some(self.question.clone())),
            summary_detailed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_timeout_is_in_the_recommended_range() {
        assert!((60..=300).contains(&Clarification::freetext("c").timeout()));
    }

    #[test]
    fn unanswerable_question_is_refused() {
        let choice = |default: Option<&str>| {
            let ask = Clarification::choice("Which?", [("a", "A"), ("b", "B")]);
            default.into_iter().fold(ask, Clarification::default_response)
        };
        let none: [(&str, &str); 0] = [];
        assert_eq!(Clarification::choice("Which?", none).check(), Err(UnanswerableError::NoChoices));
        let other = Clarification::freetext("Which?").or(ResponseKind::MultipleChoice);
        assert_eq!(other.check(), Err(UnanswerableError::NoChoices));
        assert_eq!(choice(Some("c")).check(), Err(UnanswerableError::DefaultIsNoChoice));
        // The label is not the value.
        assert_eq!(choice(Some("A")).check(), Err(UnanswerableError::DefaultIsNoChoice));
        assert_eq!(choice(Some("a")).check(), Ok(()));
        assert_eq!(choice(None).check(), Ok(()));
        assert_eq!(choice(Some("c")).or(ResponseKind::Freetext).check(), Ok(()));
        assert_eq!(Clarification::freetext("Which?").default_response("c").check(), Ok(()));
    }
}
