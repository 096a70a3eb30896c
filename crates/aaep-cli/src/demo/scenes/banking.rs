//! The banking session of chapter 4.6: a balance, a question, a transfer that cannot be undone.

use aaep::message::{CancelledBy, RiskLevel, state};
use aaep::{Confirmation, ConfirmationOutcome, Error, Permit, Producer, Resolution, Session, SessionOptions};
use serde_json::{Value, json};

use super::{Pace, as_written, tag, tell};

pub(super) async fn play(producer: &Producer, pace: Pace) -> Result<(), Error> {
    let mut options = SessionOptions::new("Looking after your transfer to savings.");
    options.started.request_text = Some("Put 500 dollars into savings.".to_owned());
    options.started.tools_available = Some(vec!["fetch_balance".to_owned(), "transfer_funds".to_owned()]);
    let session = producer.session_with(options).await?;
    pace.step().await;
    let lookup = session
        .tool("fetch_balance")
        .summary("Looking up your checking balance.")
        .args_summary("Account: checking")
        .risk(RiskLevel::Low)
        .success_summary("Your checking account holds 12,500 dollars.");
    as_written(lookup.run(at_work(pace, ())).await)?;
    session.set_state(state::DECIDING, Some("Checking that there is enough money.")).await?;
    pace.step().await;
    session.set_state(state::THINKING, None).await?;
    let arguments = json!({"from": "checking", "to": "savings", "amount": 500, "currency": "USD"});
    let outcome = session.confirm(question(&arguments)).await?;
    match outcome {
        ConfirmationOutcome { permit: Some(permit), .. } => transfer(session, pace, arguments, permit).await,
        ConfirmationOutcome { resolution, .. } => decline(session, pace, resolution).await,
    }
}

fn question(arguments: &Value) -> Confirmation {
    let action = "Transfer 500 dollars from checking to savings.";
    let consequence = "The money moves at once and the bank cannot take it back.";
    let terse = "Transfer 500 dollars to savings?".to_owned();
    let detailed = format!("{action} {consequence} Afterwards checking holds 12,000 dollars.");
    Confirmation::new(action, consequence)
        .for_call("transfer_funds", arguments)
        .irreversible()
        .risk(RiskLevel::High)
        .summaries(Some(terse), None, Some(detailed))
        .in_language(
            &tag("es"),
            "Transferir 500 dólares de la cuenta corriente a la de ahorros.",
            "El dinero se mueve de inmediato y el banco no puede devolverlo.",
        )
        .in_language(
            &tag("de"),
            "500 Dollar vom Girokonto auf das Sparkonto überweisen.",
            "Das Geld wird sofort bewegt und die Bank kann es nicht zurückholen.",
        )
}

async fn transfer(session: Session, pace: Pace, arguments: Value, permit: Permit) -> Result<(), Error> {
    let call = session
        .irreversible("transfer_funds", arguments)
        .summary("Transferring 500 dollars to savings.")
        .args_summary("From checking to savings, 500 US dollars")
        .risk(RiskLevel::High)
        .success_summary("The transfer is done.")
        .permit(permit);
    as_written(call.run(|agreed| at_work(pace, agreed)).await)?;
    tell(&session, pace, "text/plain", "Transferred $500 successfully. New balance: $12,000.").await?;
    session.complete("500 dollars are in savings now. Checking holds 12,000 dollars.").await
}

/// Nothing is done without acceptance. A rejection is respected, and a timeout is not reported as a rejection.
async fn decline(session: Session, pace: Pace, resolution: Resolution) -> Result<(), Error> {
    if resolution == Resolution::Rejected {
        tell(&session, pace, "text/plain", "All right. Nothing was transferred, and your money stays where it is.")
            .await?;
        return session.complete("Nothing was transferred, as you wished.").await;
    }
    let by = if resolution == Resolution::TimedOut { CancelledBy::Timeout } else { CancelledBy::Producer };
    session.cancel(by, "Nobody said yes, so nothing was transferred.").await
}

async fn at_work<T>(pace: Pace, result: T) -> Result<T, &'static str> {
    pace.step().await;
    Ok(result)
}
