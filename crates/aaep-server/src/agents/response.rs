//! What an agent hears: one JSON object for each question and for each event that was refused.

use aaep::message::{Decision, Response};
use aaep::{EngineError, Resolution};
use aaep_proto::Problem;
use serde_json::{Map, Value, json};

/// What is wrong with an event, in plain words.
///
/// ```
/// let fault = aaep_server::agents::AgentError::new("Ask first.");
/// assert_eq!(fault.message, "Ask first.");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentError {
    /// What to do.
    pub message: String,
    /// The rule of the protocol that was broken, if it was one.
    pub rule: Option<&'static str>,
    /// Where in the event.
    pub pointer: Option<String>,
}

impl AgentError {
    /// A fault that is no rule of the protocol.
    pub fn new(message: impl Into<String>) -> AgentError {
        AgentError { message: message.into(), rule: None, pointer: None }
    }

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

/// What the engine says, as faults.
pub(super) fn faults(error: aaep::Error) -> Vec<AgentError> {
    match error {
        aaep::Error::Misuse(EngineError::Invalid(problems) | EngineError::OutOfOrder(problems)) => {
            problems.into_iter().map(AgentError::from).collect()
        }
        aaep::Error::Misuse(EngineError::UnknownSession) => {
            vec![AgentError::at("/session_id", "This session has ended.")]
        }
        other => {
            let text = other.to_string();
            let mut letters = text.chars();
            let first = letters.next().map(|c| c.to_uppercase().to_string()).unwrap_or_default();
            vec![AgentError::new(format!("{first}{}.", letters.as_str()))]
        }
    }
}

/// What an agent is told about one event.
///
/// ```
/// use aaep_server::agents::{AgentResponse, AgentError};
/// let refused = AgentResponse::Refused { event_id: Some("evt_1".into()), faults: vec![AgentError::new("Ask first.")] };
/// assert_eq!(refused.to_json()["problems"][0]["message"], "Ask first.");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum AgentResponse {
    /// It was said.
    Published {
        /// The event, as the agent calls it.
        event_id: String,
        /// Its session, as subscribers see it.
        session_id: String,
    },
    /// It was a question, and this is how it ended.
    Outcome {
        /// The question, as the agent calls it.
        event_id: String,
        /// Its session, as subscribers see it.
        session_id: String,
        /// Why it ended.
        resolution: Resolution,
        /// What the user decided or answered.
        ending: Ending,
    },
    /// It was not said, and nothing has changed.
    Refused {
        /// The event, if it has a name.
        event_id: Option<String>,
        /// What is wrong with it.
        faults: Vec<AgentError>,
    },
}

/// What came of a question.
#[derive(Clone, Debug, PartialEq)]
pub enum Ending {
    /// Of a confirmation: what applies, and what the user wants instead.
    Decision(Decision, Option<Map<String, Value>>),
    /// Of a clarification: the answer, if there is one.
    Response(Option<Response>),
}

impl AgentResponse {
    pub(super) fn refused(event_id: Option<&str>, faults: Vec<AgentError>) -> AgentResponse {
        AgentResponse::Refused { event_id: event_id.map(str::to_owned), faults }
    }

    /// Whether the event was refused.
    pub fn is_refused(&self) -> bool {
        matches!(self, AgentResponse::Refused { .. })
    }

    /// Whether the event was said, and that is all there is to it.
    pub fn is_said(&self) -> bool {
        matches!(self, AgentResponse::Published { .. })
    }

    /// What is wrong with the event, for people.
    pub fn words(&self) -> Option<String> {
        let AgentResponse::Refused { faults, .. } = self else { return None };
        Some(faults.iter().map(|fault| fault.message.as_str()).collect::<Vec<_>>().join(" "))
    }

    /// As the agent gets it.
    pub fn to_json(&self) -> Value {
        match self {
            AgentResponse::Published { event_id, session_id } => {
                json!({"type": "published", "event_id": event_id, "session_id": session_id})
            }
            AgentResponse::Outcome { event_id, session_id, resolution, ending } => {
                let mut answer = json!({
                    "type": "outcome", "event_id": event_id, "session_id": session_id, "verdict": resolution.as_str(),
                });
                match ending {
                    Ending::Decision(decision, modified) => {
                        answer["decision"] = decision.as_str().into();
                        if let Some(modified) = modified {
                            answer["modified_action"] = Value::Object(modified.clone());
                        }
                    }
                    Ending::Response(response) => {
                        answer["response"] = serde_json::to_value(response).unwrap_or_default();
                    }
                }
                answer
            }
            AgentResponse::Refused { event_id, faults } => {
                let problems: Vec<Value> = faults.iter().map(AgentError::to_json).collect();
                json!({"type": "refused", "event_id": event_id, "problems": problems})
            }
        }
    }
}
