//! An agent with a tool, an output and a confirmation, and a subscriber in the same process that accepts.
//!
//! ```text
//! cargo run -p aaep --example agent
//! ```

use std::error::Error;

use aaep::message::{Capabilities, CoreType, Decision, Event, Payload};
use aaep::transport::{Link, Outbound};
use aaep::{Confirmation, Producer, Resolution, Session};
use serde_json::json;

/// Runs the example.
#[tokio::main(flavor = "current_thread")]
pub async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let producer = Producer::builder("banker").name("Banker").language("en".parse()?).build();

    // Without a subscriber that can reply, the confirmation below would be rejected.
    let capabilities: Capabilities = serde_json::from_value(json!({"supports_confirmation_reply": true}))?;
    let link = producer.subscribe_local("console", capabilities).await?;
    let subscriber = tokio::spawn(receive(link));

    let session = producer.session("Moving your money.").await?;
    move_money(&session).await?;
    session.complete("500 dollars are on their way.").await?;

    // The producer ends with its last handle. Then the subscription is closed, and the subscriber's task ends.
    drop(producer);
    let events = subscriber.await??;
    let types: Vec<_> = events.iter().filter_map(Event::core_type).collect();
    // State changes come in between; subscribers use them as hints.
    let types: Vec<_> = types.into_iter().filter(|core_type| *core_type != CoreType::StateChanged).collect();
    assert_eq!(
        types,
        [
            CoreType::SessionStarted,
            CoreType::ToolInvoked,
            CoreType::ToolCompleted,
            // One event per sentence: the subscriber asked for no other boundaries.
            CoreType::OutputStreaming,
            CoreType::OutputStreaming,
            CoreType::AwaitingConfirmation,
            CoreType::ToolInvoked,
            CoreType::ToolCompleted,
            CoreType::SessionCompleted,
        ]
    );
    Ok(())
}

/// The work of the agent.
async fn move_money(session: &Session) -> Result<(), Box<dyn Error + Send + Sync>> {
    // A tool whose effect can be undone runs at once. Its start and its end are announced.
    let balance: u32 = session
        .tool("fetch_balance")
        .summary("Looking up your balance.")
        .success_summary("Your balance is known.")
        .run(async { Ok::<_, String>(1200) })
        .await?;

    // Text is written in pieces, as a language model makes them. Each subscriber gets it in the pieces it can use.
    let output = session.output().await?;
    for token in ["Your balance ", "is ", &balance.to_string(), " dollars. "] {
        output.write(token).await?;
    }
    output.finish_with("That is enough.").await?;

    // A tool whose effect cannot be undone needs a permit, and only an accepted confirmation of this very call gives one.
    let arguments = json!({"amount": 500, "to": "landlord"});
    let confirmation = Confirmation::new("Move 500 dollars to your landlord.", "It cannot be undone.")
        .for_call("transfer", &arguments)
        .irreversible();
    let question = session.ask_confirmation(confirmation).await?;
    println!("asked, replies carry {}", question.token());
    let outcome = question.await?;
    assert_eq!(outcome.resolution, Resolution::Accepted);
    let permit = outcome.permit.ok_or("an accepted irreversible confirmation has a permit")?;
    session
        .irreversible("transfer", arguments)
        .summary("Moving 500 dollars.")
        .permit(permit)
        .run(async |arguments| if arguments["amount"] == 500 { Ok(()) } else { Err("wrong amount") })
        .await?;
    Ok(())
}

/// Receives events until the subscription is closed. Accepts every confirmation; a real subscriber asks its user.
async fn receive(mut link: Link) -> Result<Vec<Event>, aaep::Error> {
    let mut events = Vec::new();
    while let Some(outbound) = link.recv().await {
        let frame = match outbound {
            Outbound::Event(frame) => frame,
            Outbound::Message(_) => continue,
            Outbound::Closed(info) => {
                println!("closed: {}", info.message);
                continue;
            }
        };
        println!("{}", frame.event().type_name());
        if let Payload::AwaitingConfirmation(asked) = &frame.event().payload {
            link.decide(&asked.reply_token, Decision::Accept).await?;
        }
        events.push(frame.event().clone());
    }
    Ok(events)
}
