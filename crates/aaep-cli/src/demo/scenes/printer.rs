//! Tools that fail: one says why, one never answers. The session ends with an error and what can be done about it.

use aaep::message::{ErrorCategory, SessionErrored, state};
use aaep::{Error, Producer, ToolError};

use super::{Pace, as_written};

pub(super) async fn play(producer: &Producer, pace: Pace) -> Result<(), Error> {
    let session = producer.session("Printing your ticket.").await?;
    pace.step().await;
    let print = session.tool("print_page").summary("Sending the ticket to the printer in the hall.");
    let jammed = async {
        pace.step().await;
        Err::<(), _>("The printer says that paper is jammed.")
    };
    as_written(print.run(jammed).await)?;
    session.set_state(state::THINKING, Some("Trying the other printer.")).await?;
    pace.step().await;
    let again = session
        .tool("print_page")
        .summary("Sending the ticket to the printer upstairs.")
        .expected_duration(pace.patience())
        .timeout(pace.patience());
    // The work never ends, so this call can only be refused or time out.
    if let Err(ToolError::Refused(error)) = again.run(std::future::pending::<Result<(), &str>>()).await {
        return Err(error);
    }
    // The end of a session that failed overtakes what waits to be said.
    pace.step().await;
    let errored = SessionErrored {
        error_code: Some("NO_PRINTER".to_owned()),
        summary_terse: Some("Not printed.".to_owned()),
        recoverable: Some(true),
        remediation_hint: Some("Open the printer in the hall, take out the paper, and ask me again.".to_owned()),
        ..SessionErrored::new(ErrorCategory::RequiresUser, "The ticket could not be printed on either printer.")
    };
    session.end_with(aaep::message::Localized::new(errored).into_payload()).await
}
