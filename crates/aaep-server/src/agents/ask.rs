//! Questions of an agent: put to the user, and waited for beside everything else.

use std::sync::Arc;

use aaep::message::{Aside, AwaitingClarification, AwaitingConfirmation, Decision, Payload, ResponseKind};
use aaep::{Attached, Clarification, Confirmation, Misuse, Outcome, UnanswerableQuestion};
use serde_json::Value;
use tokio::task::JoinSet;

use super::answer::{Answer, Ending, Fault, faults};
use super::loose::Told;
use super::reply::{Pending, Reply, outcome};
use super::session::{Open, Permits};

/// Asks; the answer comes by what is returned. The name is that of the agent, and one to find it again by.
pub(super) async fn ask(
    open: &mut Open,
    told: &Told,
    (id, origin): (&str, Option<&str>),
    waiting: &mut JoinSet<()>,
) -> Result<Pending, Vec<Fault>> {
    let asker = Asker::new(open, told, id);
    match &told.event.payload {
        Payload::AwaitingConfirmation(asked) => {
            let mut confirmation = confirmation(asked, told).map_err(|fault| vec![fault])?;
            guard(open, told)?;
            if let Some(origin) = origin {
                confirmation = confirmation.origin(origin);
            }
            let question = open.session.ask(confirmation).await.map_err(faults)?;
            Ok(wait(waiting, id, async move { asker.decided(question.end().await) }))
        }
        Payload::AwaitingClarification(asked) => {
            let mut clarification = clarification(asked, told);
            if let Some(origin) = origin {
                clarification = clarification.origin(origin);
            }
            let question = open.session.ask_about(clarification).await.map_err(unanswerable)?;
            Ok(wait(waiting, id, async move { asker.answered(question.end().await) }))
        }
        _ => Err(vec![Fault::at("/type", "This is no question.")]),
    }
}

/// Why a clarification was refused, with the field to put right.
fn unanswerable(error: aaep::Error) -> Vec<Fault> {
    let aaep::Error::Misuse(Misuse::Unanswerable(what)) = error else { return faults(error) };
    vec![match what {
        UnanswerableQuestion::NoChoices => {
            Fault::at("/choices", "Add choices: a multiple_choice question cannot be answered without them.")
        }
        UnanswerableQuestion::DefaultIsNoChoice => {
            Fault::at("/default_response", "Set default_response to the value of one of the choices.")
        }
    }]
}

/// Goes on with a question that was asked before a restart.
pub(super) fn resume(
    open: &mut Open,
    (told, id): (&Told, &str),
    found: Attached,
    waiting: &mut JoinSet<()>,
) -> Result<Reply, Vec<Fault>> {
    let asker = Asker::new(open, told, id);
    guard(open, told)?;
    Ok(match found {
        Attached::Confirmation(question) => {
            Reply::Later(wait(waiting, id, async move { asker.decided(question.end().await) }))
        }
        Attached::Clarification(question) => {
            Reply::Later(wait(waiting, id, async move { asker.answered(question.end().await) }))
        }
        Attached::Decided(end) => Reply::Now(asker.decided(Ok(end)).into()),
        Attached::Answered(end) => Reply::Now(asker.answered(Ok(end)).into()),
    })
}

/// From now on the tool of an irreversible question needs a permit.
fn guard(open: &mut Open, told: &Told) -> Result<(), Vec<Fault>> {
    match (&told.event.payload, &told.tool) {
        (Payload::AwaitingConfirmation(asked), Some(tool)) if asked.is_irreversible() => {
            open.guarded.add(tool).map_err(|fault| vec![fault])
        }
        _ => Ok(()),
    }
}

/// Waits beside everything else.
fn wait(waiting: &mut JoinSet<()>, id: &str, end: impl Future<Output = Answer> + Send + 'static) -> Pending {
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
    fn new(open: &Open, told: &Told, id: &str) -> Asker {
        let (tool, args) = (told.tool.clone(), told.args.clone());
        Asker { id: id.to_owned(), session: open.session.id().to_string(), permits: open.permits.clone(), tool, args }
    }

    fn decided(self, end: Result<Outcome, aaep::Error>) -> Answer {
        match end {
            Ok(end) => {
                // The permit is there before the agent hears of it.
                if let (Some(permit), Some(tool)) = (end.permit, self.tool) {
                    self.permits.keep(&tool, self.args.as_ref(), permit);
                }
                outcome(&self.id, &self.session, end.verdict, Ending::Decision(end.decision, end.modified_action))
            }
            Err(error) => Answer::refused(Some(&self.id), faults(error)),
        }
    }

    fn answered(self, end: Result<aaep::Answer, aaep::Error>) -> Answer {
        match end {
            Ok(end) => outcome(&self.id, &self.session, end.verdict, Ending::Response(end.response)),
            Err(error) => Answer::refused(Some(&self.id), faults(error)),
        }
    }
}

fn confirmation(asked: &AwaitingConfirmation, told: &Told) -> Result<Confirmation, Fault> {
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
        ask = ask.takes_modified_action();
    }
    ask = ask.in_other_words(told.event.extra.clone(), Aside::of(&told.event.envelope));
    if asked.default_decision == Decision::Accept {
        let message = "Set default_decision to reject: the action cannot be undone, so silence must not start it.";
        ask = ask.accept_on_timeout().map_err(|_| Fault::at("/default_decision", message))?;
    }
    Ok(ask)
}

fn clarification(asked: &AwaitingClarification, told: &Told) -> Clarification {
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
        .in_other_words(told.event.extra.clone(), Aside::of(&told.event.envelope))
}
