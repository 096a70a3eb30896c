//! Questions of an agent: put to the user, and waited for beside everything else.

use std::sync::Arc;

use aaep::message::{AwaitingClarification, AwaitingConfirmation, Decision, EventMeta, Payload, ResponseKind};
use aaep::recovery::RecoveredQuestion;
use aaep::{Clarification, Confirmation, ConfirmationOutcome, EngineError, UnanswerableError};
use serde_json::Value;
use tokio::task::JoinSet;

use super::raw_event::CompletedEvent;
use super::reply::{Pending, Reply, outcome};
use super::response::{AgentError, AgentResponse, Ending, faults};
use super::session::{Open, Permits};

/// Asks; the answer comes by what is returned. The name is that of the agent, and one to find it again by.
pub(super) async fn ask(
    open: &mut Open,
    told: &CompletedEvent,
    (id, origin): (&str, Option<&str>),
    waiting: &mut JoinSet<()>,
) -> Result<Pending, Vec<AgentError>> {
    let asker = Asker::new(open, told, id);
    match &told.event.payload {
        Payload::AwaitingConfirmation(asked) => {
            let mut confirmation = confirmation(asked, told).map_err(|fault| vec![fault])?;
            guard(open, told)?;
            if let Some(origin) = origin {
                confirmation = confirmation.origin(origin);
            }
            let question = open.session.ask_confirmation(confirmation).await.map_err(faults)?;
            Ok(wait(waiting, id, async move { asker.decided(question.await) }))
        }
        Payload::AwaitingClarification(asked) => {
            let mut clarification = clarification(asked, told);
            if let Some(origin) = origin {
                clarification = clarification.origin(origin);
            }
            let question = open.session.ask_clarification(clarification).await.map_err(unanswerable)?;
            Ok(wait(waiting, id, async move { asker.answered(question.await) }))
        }
        _ => Err(vec![AgentError::at("/type", "This is no question.")]),
    }
}

/// Why a clarification was refused, with the field to put right.
fn unanswerable(error: aaep::Error) -> Vec<AgentError> {
    let aaep::Error::Misuse(EngineError::Unanswerable(what)) = error else { return faults(error) };
    vec![match what {
        UnanswerableError::NoChoices => {
            AgentError::at("/choices", "Add choices: a multiple_choice question cannot be answered without them.")
        }
        UnanswerableError::DefaultIsNoChoice => {
            AgentError::at("/default_response", "Set default_response to the value of one of the choices.")
        }
    }]
}

/// Goes on with a question that was asked before a restart.
pub(super) fn resume(
    open: &mut Open,
    (told, id): (&CompletedEvent, &str),
    found: RecoveredQuestion,
    waiting: &mut JoinSet<()>,
) -> Result<Reply, Vec<AgentError>> {
    let asker = Asker::new(open, told, id);
    guard(open, told)?;
    Ok(match found {
        RecoveredQuestion::Confirmation(question) => {
            Reply::Later(wait(waiting, id, async move { asker.decided(question.await) }))
        }
        RecoveredQuestion::Clarification(question) => {
            Reply::Later(wait(waiting, id, async move { asker.answered(question.await) }))
        }
        RecoveredQuestion::Decided(end) => Reply::Now(asker.decided(Ok(end)).into()),
        RecoveredQuestion::Answered(end) => Reply::Now(asker.answered(Ok(end)).into()),
    })
}

/// From now on the tool of an irreversible question needs a permit.
fn guard(open: &mut Open, told: &CompletedEvent) -> Result<(), Vec<AgentError>> {
    match (&told.event.payload, &told.tool) {
        (Payload::AwaitingConfirmation(asked), Some(tool)) if asked.is_irreversible() => {
            open.guarded.add(tool).map_err(|fault| vec![fault])
        }
        _ => Ok(()),
    }
}

/// Waits beside everything else.
fn wait(waiting: &mut JoinSet<()>, id: &str, end: impl Future<Output = AgentResponse> + Send + 'static) -> Pending {
    let (decide, pending) = Pending::new(id);
    waiting.spawn(async move {
        decide.send_replace(Some(Arc::new(end.await)));
    });
    pending
}

/// Who asked, and for what.
struct Asker {
    id: String,
    session: String,
    permits: Permits,
    tool: Option<String>,
    args: Option<Value>,
}

impl Asker {
    fn new(open: &Open, told: &CompletedEvent, id: &str) -> Asker {
        let (tool, args) = (told.tool.clone(), told.args.clone());
        Asker { id: id.to_owned(), session: open.session.id().to_string(), permits: open.permits.clone(), tool, args }
    }

    fn decided(self, end: Result<ConfirmationOutcome, aaep::Error>) -> AgentResponse {
        match end {
            Ok(end) => {
                // The permit is there before the agent hears of it.
                if let (Some(permit), Some(tool)) = (end.permit, self.tool) {
                    self.permits.keep(&tool, self.args.as_ref(), permit);
                }
                outcome(&self.id, &self.session, end.resolution, Ending::Decision(end.decision, end.modified_action))
            }
            Err(error) => AgentResponse::refused(Some(&self.id), faults(error)),
        }
    }

    fn answered(self, end: Result<aaep::ClarificationOutcome, aaep::Error>) -> AgentResponse {
        match end {
            Ok(end) => outcome(&self.id, &self.session, end.resolution, Ending::Response(end.response)),
            Err(error) => AgentResponse::refused(Some(&self.id), faults(error)),
        }
    }
}

fn confirmation(asked: &AwaitingConfirmation, told: &CompletedEvent) -> Result<Confirmation, AgentError> {
    let summaries = (&asked.summary_terse, &asked.summary_normal, &asked.summary_detailed);
    let mut ask = Confirmation::new(&asked.action, &asked.consequence).summaries(
        summaries.0.clone(),
        summaries.1.clone(),
        summaries.2.clone(),
    );
    // What the agent did not state stays unstated: nobody hears that something can be undone unless the agent says so.
    match asked.irreversible {
        Some(true) => ask = ask.irreversible(),
        Some(false) => ask = ask.reversible(),
        None => {}
    }
    if let Some(reversibility) = &asked.reversibility {
        ask = ask.reversibility(reversibility.clone());
    }
    if let Some(replies) = &asked.allowed_replies {
        ask = ask.allowed_replies(replies.clone());
    }
    if let Some(context) = &asked.extra_context {
        ask = ask.extra_context(context.clone());
    }
    if let Some(risk) = &asked.risk_level {
        ask = ask.risk(risk.clone());
    }
    if let Some(seconds) = told.timeout_seconds {
        ask = ask.timeout_seconds(seconds);
    }
    if let Some(tool) = &told.tool {
        ask = ask.for_call(tool, told.args.as_ref().unwrap_or(&Value::Null));
    }
    if told.takes_modified {
        ask = ask.allow_modified_action();
    }
    ask = ask.with_variants(told.event.extra.clone(), EventMeta::of(&told.event.envelope));
    if asked.default_decision == Decision::Accept {
        let message = "Set default_decision to reject: the action cannot be undone, so silence must not start it.";
        ask = ask.accept_on_timeout().map_err(|_| AgentError::at("/default_decision", message))?;
    }
    Ok(ask)
}

fn clarification(asked: &AwaitingClarification, told: &CompletedEvent) -> Clarification {
    let mut kinds = asked.accepted_response_kinds.clone().unwrap_or_default();
    let choices = asked.choices.iter().flatten().map(|choice| (choice.value.clone(), choice.label.clone()));
    if asked.choices.is_some() && !kinds.contains(&ResponseKind::MultipleChoice) {
        kinds.push(ResponseKind::MultipleChoice);
    }
    // Choices come with their kind; the other kinds are added to it.
    let first = kinds.iter().position(|kind| *kind == ResponseKind::MultipleChoice).unwrap_or(0);
    let first = if kinds.is_empty() { ResponseKind::Freetext } else { kinds.remove(first) };
    let mut ask = match first {
        ResponseKind::MultipleChoice => Clarification::choice(&asked.question, choices),
        ResponseKind::YesNo => Clarification::yes_no(&asked.question),
        ResponseKind::Numeric => Clarification::numeric(&asked.question),
        ResponseKind::Freetext | ResponseKind::Other(_) => Clarification::freetext(&asked.question),
    };
    ask = kinds.into_iter().fold(ask, Clarification::or);
    if let Some(context) = &asked.context {
        ask = ask.context(context);
    }
    if let Some(response) = &asked.default_response {
        ask = ask.default_response(response);
    }
    if let Some(seconds) = told.timeout_seconds {
        ask = ask.timeout_seconds(seconds);
    }
    let summaries = (&asked.summary_terse, &asked.summary_normal, &asked.summary_detailed);
    ask.summaries(summaries.0.clone(), summaries.1.clone(), summaries.2.clone())
        .with_variants(told.event.extra.clone(), EventMeta::of(&told.event.envelope))
}
