//! What an agent receives: one JSON object for each resolved question and for each refused event.

use aaep::message::{Decision, Response};
use aaep::{EngineError, Resolution};
use aaep_proto::Problem;
use serde_json::{Map, Value, json};

/// One reason why an event was refused.
///
/// ```
/// let error = aaep_server::agents::AgentError::new("Ask first.");
/// assert_eq!(error.message, "Ask first.");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentError {
    /// What is wrong and what to do about it.
    pub message: String,
    /// The rule of the protocol that was violated, if it was one.
    pub rule: Option<&'static str>,
    /// JSON pointer to the field, if it is about one.
    pub pointer: Option<String>,
}

impl AgentError {
    /// Creates an error that is about no rule and no field.
    pub fn new(message: impl Into<String>) -> AgentError {
        AgentError { message: message.into(), rule: None, pointer: None }
    }

    /// Creates an error about one field.
    pub(super) fn at(pointer: &str, message: impl Into<String>) -> AgentError {
        AgentError { pointer: Some(pointer.to_owned()), ..AgentError::new(message) }
    }

    fn to_json(&self) -> Value {
        let mut map = Map::new();
        map.insert("message".to_owned(), self.message.clone().into());
        if let Some(rule) = self.rule {
            map.insert("rule".to_owned(), rule.into());
        }
        if let Some(pointer) = &self.pointer {
            map.insert("pointer".to_owned(), pointer.clone().into());
        }
        Value::Object(map)
    }
}

impl From<Problem> for AgentError {
    fn from(problem: Problem) -> AgentError {
        AgentError { message: problem.message, rule: Some(problem.rule.id()), pointer: Some(problem.pointer) }
    }
}

impl From<AgentError> for Vec<AgentError> {
    fn from(error: AgentError) -> Vec<AgentError> {
        vec![error]
    }
}

/// Converts an error of the producer into errors for the agent.
pub(super) fn agent_errors(error: aaep::Error) -> Vec<AgentError> {
    match error {
        aaep::Error::Misuse(EngineError::Invalid(problems) | EngineError::OutOfOrder(problems)) => {
            problems.into_iter().map(AgentError::from).collect()
        }
        aaep::Error::Misuse(EngineError::UnknownSession) => {
            vec![AgentError::at("/session_id", "This session has ended.")]
        }
        other => vec![AgentError::new(to_sentence(&other.to_string()))],
    }
}

/// Makes a sentence of an error text: capitalized, with a full stop.
fn to_sentence(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|c| c.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", chars.as_str())
}

/// The response to one event.
///
/// ```
/// use aaep_server::agents::{AgentResponse, AgentError};
/// let refused = AgentResponse::Refused { event_id: Some("evt_1".into()), errors: vec![AgentError::new("Ask first.")] };
/// assert_eq!(refused.to_json()["problems"][0]["message"], "Ask first.");
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum AgentResponse {
    /// The event was emitted.
    Published {
        /// The agent's id of the event.
        event_id: String,
        /// The producer's id of the session.
        session_id: String,
    },
    /// The event was a question, which is resolved.
    Outcome {
        /// The agent's id of the question.
        event_id: String,
        /// The producer's id of the session.
        session_id: String,
        /// How the question was resolved.
        resolution: Resolution,
        /// The decision or the response.
        value: OutcomeValue,
    },
    /// The event was not emitted, and nothing has changed.
    Refused {
        /// The agent's id of the event, if it has one.
        event_id: Option<String>,
        /// Why it was refused.
        errors: Vec<AgentError>,
    },
}

/// The decision or the response that resolved a question.
#[derive(Clone, Debug, PartialEq)]
pub enum OutcomeValue {
    /// The question was a confirmation.
    Decision {
        /// The decision that applies.
        decision: Decision,
        /// The action that the user wants instead, if there is one.
        modified_action: Option<Map<String, Value>>,
    },
    /// The question was a clarification; `None` if there is no response.
    Response(Option<Response>),
}

impl AgentResponse {
    pub(super) fn refused(event_id: Option<&str>, errors: Vec<AgentError>) -> AgentResponse {
        AgentResponse::Refused { event_id: event_id.map(str::to_owned), errors }
    }

    /// Returns whether the event was refused.
    pub fn is_refused(&self) -> bool {
        matches!(self, AgentResponse::Refused { .. })
    }

    /// Returns whether the event was emitted and was no question.
    pub fn is_published(&self) -> bool {
        matches!(self, AgentResponse::Published { .. })
    }

    /// Returns the errors of a refused event as one line of text, or `None` if it was not refused.
    pub fn error_text(&self) -> Option<String> {
        let AgentResponse::Refused { errors, .. } = self else { return None };
        Some(errors.iter().map(|error| error.message.as_str()).collect::<Vec<_>>().join(" "))
    }

    /// Returns the JSON that the agent receives.
    pub fn to_json(&self) -> Value {
        match self {
            AgentResponse::Published { event_id, session_id } => {
                json!({"type": "published", "event_id": event_id, "session_id": session_id})
            }
            AgentResponse::Outcome { event_id, session_id, resolution, value } => {
                let mut outcome = json!({
                    "type": "outcome", "event_id": event_id, "session_id": session_id, "verdict": resolution.as_str(),
                });
                match value {
                    OutcomeValue::Decision { decision, modified_action } => {
                        outcome["decision"] = decision.as_str().into();
                        if let Some(modified_action) = modified_action {
                            outcome["modified_action"] = Value::Object(modified_action.clone());
                        }
                    }
                    OutcomeValue::Response(response) => {
                        outcome["response"] = serde_json::to_value(response).unwrap_or_default();
                    }
                }
                outcome
            }
            AgentResponse::Refused { event_id, errors } => {
                let problems: Vec<Value> = errors.iter().map(AgentError::to_json).collect();
                json!({"type": "refused", "event_id": event_id, "problems": problems})
            }
        }
    }
}
