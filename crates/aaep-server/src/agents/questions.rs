//! Questions of an agent: asked in a session, and waited for in tasks of their own.

use std::sync::Arc;

use aaep::message::{AwaitingClarification, AwaitingConfirmation, Decision, EventMeta, Payload, ResponseKind};
use aaep::recovery::RecoveredQuestion;
use aaep::{Clarification, ClarificationOutcome, Confirmation, ConfirmationOutcome, EngineError, UnanswerableError};
use serde_json::Value;
use tokio::task::JoinSet;

use super::pending::{PendingResponse, ResponseState};
use super::permits::UnusedPermits;
use super::raw_event::CompletedEvent;
use super::response::{AgentError, AgentResponse, OutcomeValue, agent_errors};
use super::session::AgentSession;

/// A question that an agent wants to ask.
#[derive(Clone, Copy, Debug)]
pub(super) struct AgentQuestion<'a> {
    pub(super) event: &'a CompletedEvent,
    /// The agent's id of the question.
    pub(super) event_id: &'a str,
    /// The key to find it by after a restart, if the agent can be recognized then.
    pub(super) origin: Option<&'a str>,
}

/// Asks the user. A task in `waiters` waits for the resolution and sets the pending response.
pub(super) async fn ask(
    session: &mut AgentSession,
    question: AgentQuestion<'_>,
    waiters: &mut JoinSet<()>,
) -> Result<PendingResponse, Vec<AgentError>> {
    let AgentQuestion { event, event_id, origin } = question;
    let context = QuestionContext::new(session, question);
    match &event.event.payload {
        Payload::AwaitingConfirmation(payload) => {
            let mut confirmation = confirmation(payload, event)?;
            mark_irreversible(session, event)?;
            if let Some(origin) = origin {
                confirmation = confirmation.origin(origin);
            }
            let asked = session.session.ask_confirmation(confirmation).await.map_err(agent_errors)?;
            Ok(spawn_waiter(waiters, event_id, async move { context.confirmed(asked.await) }))
        }
        Payload::AwaitingClarification(payload) => {
            let mut clarification = clarification(payload, event);
            if let Some(origin) = origin {
                clarification = clarification.origin(origin);
            }
            let asked = session.session.ask_clarification(clarification).await.map_err(clarification_errors)?;
            Ok(spawn_waiter(waiters, event_id, async move { context.clarified(asked.await) }))
        }
        _ => Err(AgentError::at("/type", "This event is not a question.").into()),
    }
}

/// Converts an error of the producer, naming the field of a clarification that nobody could answer.
fn clarification_errors(error: aaep::Error) -> Vec<AgentError> {
    let aaep::Error::Misuse(EngineError::Unanswerable(reason)) = error else { return agent_errors(error) };
    vec![match reason {
        UnanswerableError::NoChoices => {
            AgentError::at("/choices", "Add choices: a multiple_choice question cannot be answered without them.")
        }
        UnanswerableError::DefaultIsNoChoice => {
            AgentError::at("/default_response", "Set default_response to the value of one of the choices.")
        }
        other => AgentError::new(other.to_string()),
    }]
}

/// Continues a question that was asked before a restart.
pub(super) fn reattach(
    session: &mut AgentSession,
    question: AgentQuestion<'_>,
    recovered: RecoveredQuestion,
    waiters: &mut JoinSet<()>,
) -> Result<ResponseState, Vec<AgentError>> {
    let context = QuestionContext::new(session, question);
    mark_irreversible(session, question.event)?;
    let event_id = question.event_id;
    Ok(match recovered {
        RecoveredQuestion::Confirmation(asked) => {
            ResponseState::Pending(spawn_waiter(waiters, event_id, async move { context.confirmed(asked.await) }))
        }
        RecoveredQuestion::Clarification(asked) => {
            ResponseState::Pending(spawn_waiter(waiters, event_id, async move { context.clarified(asked.await) }))
        }
        RecoveredQuestion::Decided(outcome) => context.confirmed(Ok(outcome)).into(),
        RecoveredQuestion::Answered(outcome) => context.clarified(Ok(outcome)).into(),
    })
}

/// Adds the tool of an irreversible question to the irreversible tools of the agent.
fn mark_irreversible(session: &AgentSession, event: &CompletedEvent) -> Result<(), AgentError> {
    match (&event.event.payload, &event.tool) {
        (Payload::AwaitingConfirmation(payload), Some(tool)) if payload.is_irreversible() => {
            session.irreversible_tools.add(tool)
        }
        _ => Ok(()),
    }
}

/// Spawns a task that waits for a question to be resolved.
fn spawn_waiter(
    waiters: &mut JoinSet<()>,
    event_id: &str,
    resolved: impl Future<Output = AgentResponse> + Send + 'static,
) -> PendingResponse {
    let (sender, pending) = PendingResponse::new(event_id);
    waiters.spawn(async move {
        sender.send_replace(Some(Arc::new(resolved.await)));
    });
    pending
}

/// What is needed to respond to the agent when its question is resolved.
struct QuestionContext {
    event_id: String,
    session_id: String,
    permits: UnusedPermits,
    tool: Option<String>,
    args: Option<Value>,
}

impl QuestionContext {
    fn new(session: &AgentSession, question: AgentQuestion<'_>) -> QuestionContext {
        QuestionContext {
            event_id: question.event_id.to_owned(),
            session_id: session.session.id().to_string(),
            permits: session.permits.clone(),
            tool: question.event.tool.clone(),
            args: question.event.args.clone(),
        }
    }

    fn confirmed(self, result: Result<ConfirmationOutcome, aaep::Error>) -> AgentResponse {
        match result {
            Ok(outcome) => {
                // The permit must be usable before the agent learns of the decision.
                if let (Some(permit), Some(tool)) = (outcome.permit, &self.tool) {
                    self.permits.add(tool, self.args.as_ref(), permit);
                }
                let value =
                    OutcomeValue::Decision { decision: outcome.decision, modified_action: outcome.modified_action };
                self.outcome(outcome.resolution, value)
            }
            Err(error) => AgentResponse::refused(Some(&self.event_id), agent_errors(error)),
        }
    }

    fn clarified(self, result: Result<ClarificationOutcome, aaep::Error>) -> AgentResponse {
        match result {
            Ok(outcome) => self.outcome(outcome.resolution, OutcomeValue::Response(outcome.response)),
            Err(error) => AgentResponse::refused(Some(&self.event_id), agent_errors(error)),
        }
    }

    fn outcome(self, resolution: aaep::Resolution, value: OutcomeValue) -> AgentResponse {
        AgentResponse::Outcome { event_id: self.event_id, session_id: self.session_id, resolution, value }
    }
}

fn confirmation(payload: &AwaitingConfirmation, event: &CompletedEvent) -> Result<Confirmation, AgentError> {
    let mut confirmation = Confirmation::new(&payload.action, &payload.consequence).summaries(
        payload.summary_terse.clone(),
        payload.summary_normal.clone(),
        payload.summary_detailed.clone(),
    );
    // Subscribers announce that something can be undone only if the agent states it.
    match payload.irreversible {
        Some(true) => confirmation = confirmation.irreversible(),
        Some(false) => confirmation = confirmation.reversible(),
        None => {}
    }
    if let Some(reversibility) = &payload.reversibility {
        confirmation = confirmation.reversibility(reversibility.clone());
    }
    if let Some(replies) = &payload.allowed_replies {
        confirmation = confirmation.allowed_replies(replies.clone());
    }
    if let Some(extra) = &payload.extra_context {
        confirmation = confirmation.extra_context(extra.clone());
    }
    if let Some(risk) = &payload.risk_level {
        confirmation = confirmation.risk(risk.clone());
    }
    if let Some(seconds) = event.timeout_seconds {
        confirmation = confirmation.timeout_seconds(seconds);
    }
    if let Some(tool) = &event.tool {
        confirmation = confirmation.for_call(tool, event.args.as_ref().unwrap_or(&Value::Null));
    }
    if event.allows_modified_action {
        confirmation = confirmation.allow_modified_action();
    }
    confirmation = confirmation.with_variants(event.event.extra.clone(), EventMeta::of(&event.event.envelope));
    if payload.default_decision == Decision::Accept {
        let message = "Set default_decision to reject: the action cannot be undone, so silence must not start it.";
        confirmation = confirmation.accept_on_timeout().map_err(|_| AgentError::at("/default_decision", message))?;
    }
    Ok(confirmation)
}

fn clarification(payload: &AwaitingClarification, event: &CompletedEvent) -> Clarification {
    let mut kinds = payload.accepted_response_kinds.clone().unwrap_or_default();
    let choices = payload.choices.iter().flatten().map(|choice| (choice.value.clone(), choice.label.clone()));
    if payload.choices.is_some() && !kinds.contains(&ResponseKind::MultipleChoice) {
        kinds.push(ResponseKind::MultipleChoice);
    }
    // Choices are given when the clarification is created, so their kind comes first; the other kinds are added to it.
    let first = kinds.iter().position(|kind| *kind == ResponseKind::MultipleChoice).unwrap_or(0);
    let first = if kinds.is_empty() { ResponseKind::Freetext } else { kinds.remove(first) };
    let mut clarification = match first {
        ResponseKind::MultipleChoice => Clarification::choice(&payload.question, choices),
        ResponseKind::YesNo => Clarification::yes_no(&payload.question),
        ResponseKind::Numeric => Clarification::numeric(&payload.question),
        _ => Clarification::freetext(&payload.question),
    };
    clarification = kinds.into_iter().fold(clarification, Clarification::or);
    if let Some(context) = &payload.context {
        clarification = clarification.context(context);
    }
    if let Some(response) = &payload.default_response {
        clarification = clarification.default_response(response);
    }
    if let Some(seconds) = event.timeout_seconds {
        clarification = clarification.timeout_seconds(seconds);
    }
    clarification
        .summaries(payload.summary_terse.clone(), payload.summary_normal.clone(), payload.summary_detailed.clone())
        .with_variants(event.event.extra.clone(), EventMeta::of(&event.event.envelope))
}
