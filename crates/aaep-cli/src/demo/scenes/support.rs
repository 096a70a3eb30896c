//! The agent reaches its limits and hands over to a person, with the context that this person needs.

use aaep::message::{HandoffRequested, HandoffTarget, RiskLevel, state};
use aaep::{Error, Producer};
use serde_json::json;

use super::{Pace, as_written};

pub(super) async fn play(producer: &Producer, pace: Pace) -> Result<(), Error> {
    let session = producer.session("Looking into your bill.").await?;
    pace.step().await;
    let fetch = session
        .tool("fetch_bill")
        .summary("Fetching the bill of May.")
        .success_summary("The bill lists one call twice.")
        .run(async {
            pace.step().await;
            Ok(())
        });
    as_written(fetch.await)?;
    session.set_state(state::DECIDING, Some("This needs someone who may change bills.")).await?;
    pace.step().await;
    let context = json!({"bill": "May", "problem": "One call is listed twice."}).as_object().cloned();
    let handoff = HandoffRequested {
        urgency_for_handoff: Some(RiskLevel::Low),
        packaged_context: context,
        summary_terse: Some("A person takes over.".to_owned()),
        summary_normal: Some("A person from support takes over. You need not repeat what you said.".to_owned()),
        ..HandoffRequested::new("Only a person may take back a charge.", HandoffTarget::Human)
    };
    session.emit(handoff).await?;
    pace.step().await;
    session.complete("Your bill is with a person from support now.").await
}
