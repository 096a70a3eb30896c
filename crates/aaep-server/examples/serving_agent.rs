//! The smallest useful agent with a server: it asks, acts only if the user accepts, and reports what it did. The README
//! shows the same code; a test compares them.
use aaep::Confirmation;
use aaep_server::{Config, Server};
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let config = Config { agent_id: "banker".into(), agent_name: Some("Banker".into()), ..Config::default() };
    let producer = Server::producer(&config);
    let server = Server::new(config, producer.clone()).with_free_port_if_taken().start().await?;
    println!("Listen to it with: aaep listen {}", server.url());

    let session = producer.session("Moving your money.").await?;
    let call = json!({"amount": 500, "to": "savings"});
    let ask = Confirmation::new("Move 500 dollars to savings.", "Only the bank can bring it back.")
        .for_call("transfer", &call)
        .irreversible();
    if let Some(permit) = session.confirm(ask).await?.permit {
        session.irreversible("transfer", call).permit(permit).run(async |_call| Ok::<_, String>(())).await?;
        session.output().await?.write("500 dollars are on their way.").await?;
    }
    session.complete("Your transfer was looked after.").await?;
    server.stop("The agent has finished.").await;
    Ok(())
}
