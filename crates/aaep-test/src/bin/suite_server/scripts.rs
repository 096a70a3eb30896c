//! The sessions of the agent. Nothing here pauses, and every session is short: the suite counts messages instead of
//! seconds, and surplus or late messages are counted for its next test.

use aaep::message::{Decision, ErrorCategory, HandoffTarget, Localized, RiskLevel, SessionErrored};
use aaep::{Clarification, Confirmation, Error, Permit, Session, ToolError};
use serde_json::{Value, json};

/// Longer than any run of the suite: an unanswered question must not time out in the middle of another test.
const QUESTION_TIMEOUT_SECS: u32 = 300;

/// A session that the suite can ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SuiteScript {
    /// A short answer.
    Brief,
    /// Three sentences.
    Paragraph,
    /// An explanation, in one chunk.
    Explain,
    /// A reversible tool call.
    Fetch,
    /// A tool call whose arguments hold a secret.
    Secret,
    /// An error.
    Fail,
    /// A reversible tool call that needs a confirmation.
    Book,
    /// An irreversible tool call.
    Email,
    /// An irreversible tool call with a higher risk.
    Delete,
    /// A clarification with a free-text answer.
    Ask,
    /// A handoff to a human.
    Handoff,
}

impl SuiteScript {
    /// Chooses the session by the first keyword that occurs in the English text.
    pub(super) fn choose(text: &str) -> SuiteScript {
        let text = text.to_lowercase();
        let keywords = [
            ("api_key", SuiteScript::Secret),
            ("does not exist", SuiteScript::Fail),
            ("error", SuiteScript::Fail),
            ("delete", SuiteScript::Delete),
            ("book", SuiteScript::Book),
            ("email", SuiteScript::Email),
            ("clarification", SuiteScript::Ask),
            ("handoff", SuiteScript::Handoff),
            ("rainbow", SuiteScript::Explain),
            ("paragraph", SuiteScript::Paragraph),
            ("tool", SuiteScript::Fetch),
        ];
        keywords
            .into_iter()
            .find(|(keyword, _)| text.contains(keyword))
            .map_or(SuiteScript::Brief, |(_, script)| script)
    }

    /// Returns the summary of `session.started`. It does not repeat the user's text, which may contain secrets.
    pub(super) fn opening(self) -> &'static str {
        match self {
            SuiteScript::Brief => "Answering briefly.",
            SuiteScript::Paragraph => "Writing a paragraph.",
            SuiteScript::Explain => "Explaining rainbows.",
            SuiteScript::Fetch => "Fetching data.",
            SuiteScript::Secret => "Calling a service.",
            SuiteScript::Fail => "Looking for the tool.",
            SuiteScript::Book => "Booking a meeting room.",
            SuiteScript::Email => "Preparing an email.",
            SuiteScript::Delete => "Looking at the record.",
            SuiteScript::Ask => "Looking up the weather.",
            SuiteScript::Handoff => "Looking for a person who can help.",
        }
    }

    /// Plays a session that has been started.
    pub(super) async fn play(self, session: Session) -> Result<(), Error> {
        match self {
            SuiteScript::Brief => answer(session, "Hello, how can I help?").await,
            SuiteScript::Paragraph => answer(session, PARAGRAPH).await,
            SuiteScript::Explain => answer(session, RAINBOW).await,
            SuiteScript::Fetch => fetch(session).await,
            SuiteScript::Secret => call_service(session).await,
            SuiteScript::Fail => fail(session).await,
            SuiteScript::Book => book(session).await,
            SuiteScript::Email => email(session).await,
            SuiteScript::Delete => delete(session).await,
            SuiteScript::Ask => weather(session).await,
            SuiteScript::Handoff => hand_over(session).await,
        }
    }
}

const PARAGRAPH: &str = "The moon has no air. Its days last two weeks. Nobody has heard a sound there.";

const RAINBOW: &str = "Sunlight enters a drop of rain and bends. It is thrown back inside the drop. Each colour \
                       leaves at its own angle, and that is the bow.";

async fn answer(session: Session, text: &str) -> Result<(), Error> {
    let output = session.output().await?;
    output.write(text).await?;
    output.finish().await?;
    session.complete("The answer is ready.").await
}

async fn fetch(session: Session) -> Result<(), Error> {
    let tool = session.tool("fetch_data").summary("Fetching the data.").success_summary("The data is here.");
    refusal(tool.run(std::future::ready(Ok(()))).await)?;
    answer(session, "The data was fetched.").await
}

/// Calls a tool without mentioning the API key of its arguments, nor the name of that argument.
async fn call_service(session: Session) -> Result<(), Error> {
    let tool =
        session.tool("call_service").summary("Calling api.example.com.").args_summary("Address: api.example.com");
    refusal(tool.success_summary("The service has answered.").run(std::future::ready(Ok(()))).await)?;
    answer(session, "The service has answered.").await
}

async fn fail(session: Session) -> Result<(), Error> {
    let errored = SessionErrored {
        error_code: Some("TOOL_NOT_FOUND".to_owned()),
        recoverable: Some(false),
        remediation_hint: Some("Ask for a tool that is listed.".to_owned()),
        ..SessionErrored::new(ErrorCategory::Permanent, "There is no such tool.")
    };
    session.end_with(Localized::new(errored).into_payload()).await
}

async fn book(session: Session) -> Result<(), Error> {
    let ask = Confirmation::new("Book the meeting room for tomorrow at 2 pm.", "It is then taken for everyone else.")
        .reversible()
        .risk(RiskLevel::Medium)
        .timeout_seconds(QUESTION_TIMEOUT_SECS);
    if session.confirm(ask).await?.decision != Decision::Accept {
        return session.complete("No room was booked.").await;
    }
    let tool = session.tool("book_room").summary("Booking the room.").success_summary("The room is booked.");
    refusal(tool.run(std::future::ready(Ok(()))).await)?;
    answer(session, "The room is booked for tomorrow at 2 pm.").await
}

async fn email(session: Session) -> Result<(), Error> {
    let arguments = json!({"to": "test@example.com"});
    let ask = Confirmation::new("Send an email to test@example.com.", "It cannot be called back.");
    match consent(&session, ask, "send_email", &arguments).await? {
        Some(permit) => run_permitted(session, "send_email", arguments, permit, "The email is on its way.").await,
        None => session.complete("No email was sent.").await,
    }
}

async fn delete(session: Session) -> Result<(), Error> {
    let arguments = json!({"record": "12345"});
    let ask = Confirmation::new("Delete record 12345.", "It is gone for good.");
    match consent(&session, ask, "delete_record", &arguments).await? {
        Some(permit) => run_permitted(session, "delete_record", arguments, permit, "Record 12345 is deleted.").await,
        None => session.complete("Nothing was deleted.").await,
    }
}

/// Asks for an irreversible tool call. Only an acceptance yields a permit.
async fn consent(session: &Session, ask: Confirmation, tool: &str, arguments: &Value) -> Result<Option<Permit>, Error> {
    let ask = ask.for_call(tool, arguments).irreversible().risk(RiskLevel::High).timeout_seconds(QUESTION_TIMEOUT_SECS);
    Ok(session.confirm(ask).await?.permit)
}

/// Simulates the tool call that the user accepted.
async fn run_permitted(
    session: Session,
    tool: &str,
    arguments: Value,
    permit: Permit,
    done: &str,
) -> Result<(), Error> {
    let call = session.irreversible(tool, arguments).risk(RiskLevel::High).success_summary(done).permit(permit);
    refusal(call.run(|_| std::future::ready(Ok(()))).await)?;
    answer(session, done).await
}

async fn weather(session: Session) -> Result<(), Error> {
    let ask = Clarification::freetext("Where are you?").timeout_seconds(QUESTION_TIMEOUT_SECS);
    let place = match session.clarify(ask).await?.response {
        Some(aaep::message::Response::Text(place)) if !place.trim().is_empty() => place,
        _ => return session.complete("Without a place there is no weather to tell.").await,
    };
    answer(session, &format!("The demo has no weather service. It would look up the weather in {}.", place.trim()))
        .await
}

async fn hand_over(session: Session) -> Result<(), Error> {
    session.request_handoff("You asked for a person.", HandoffTarget::Human).await?;
    session.complete("A person takes over.").await
}

/// Returns the error of a simulated tool call, which cannot fail but may be refused.
fn refusal(result: Result<(), ToolError<&'static str>>) -> Result<(), Error> {
    match result {
        Err(ToolError::Refused(error)) => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}
