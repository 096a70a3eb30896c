//! The smallest useful agent: it asks, acts only if the user accepts, and reports what it did. A subscriber accepts.
use aaep::transport::{Link, Outbound};
use aaep::{Confirmation, Producer, message::Decision, message::Payload};
use serde_json::{from_value, json, to_value};
async fn receive(mut link: Link) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    while let Some(outbound) = link.recv().await {
        let Outbound::Event(frame) = outbound else { continue };
        let event = to_value(frame.event())?;
        println!("{} {}", event["summary_normal"].as_str().or(event["chunk"].as_str()).unwrap_or("..."), event["type"]);
        if let Payload::AwaitingConfirmation(ask) = &frame.event().payload {
            link.decide(&ask.reply_token, Decision::Accept).await?;
        }
    }
    Ok(())
}
/// Runs the example.
#[tokio::main(flavor = "current_thread")]
pub async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let producer = Producer::builder("banker").name("Banker").build();
    let link = producer.subscribe_local("console", from_value(json!({"supports_confirmation_reply": true}))?).await?;
    let subscriber = tokio::spawn(receive(link));
    let (session, call) = (producer.session("Moving your money.").await?, json!({"amount": 500}));
    let ask = Confirmation::new("Move 500 dollars.", "It cannot be undone.").for_call("transfer", &call).irreversible();
    if let Some(permit) = session.confirm(ask).await?.permit {
        session.irreversible("transfer", call).permit(permit).run(async |_| Ok::<_, String>(())).await?;
        session.output().await?.write("500 dollars are on their way.").await?;
    }
    session.complete("Your transfer was looked after.").await?;
    drop(producer); // The producer ends with its last handle, and then the subscriber.
    subscriber.await?
}
