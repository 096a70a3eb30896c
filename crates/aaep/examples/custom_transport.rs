//! A transport of your own: JSON lines over any byte stream. Here the stream is in memory; a serial port or a pipe would
//! do as well.
//!
//! ```text
//! cargo run -p aaep --example custom_transport
//! ```

use std::error::Error;

use aaep::Producer;
use aaep::message::{Decision, Message};
use aaep::transport::{Inbound, LinkSender, Outbound, ResumePolicy};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader, DuplexStream, Lines};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// Serves one connection. The principal is who the peer is; a real transport finds that out from credentials.
async fn serve<S: AsyncRead + AsyncWrite + Unpin>(stream: S, producer: &Producer, principal: &str) -> Result<()> {
    let (read, mut write) = tokio::io::split(stream);
    let mut lines = BufReader::new(read).lines();

    // A connection starts with a request. `Inbound::read` validates it; what it rejects has a message for the peer.
    let first = lines.next_line().await?.ok_or("the peer sent nothing")?;
    let subscribed = match Inbound::read(first.as_bytes()).into_request() {
        // A connection of this transport cannot be resumed: the subscription ends with it.
        Ok(request) => producer.subscribe(&request, principal, ResumePolicy::Connection).await,
        Err(rejection) => Err(rejection),
    };
    let mut link = match subscribed {
        Ok(link) => link,
        Err(rejection) => return send(&mut write, &Message::from(rejection.to_message())).await,
    };

    let sender = link.sender();
    loop {
        // Both are cancel safe. Dropping the link at the end closes the subscription.
        tokio::select! {
            outbound = link.recv() => match outbound {
                // The JSON of an event is made once and shared by subscriptions with equal terms.
                Some(Outbound::Event(frame)) => {
                    write.write_all(frame.json()).await?;
                    write.write_all(b"\n").await?;
                }
                Some(Outbound::Message(message)) => send(&mut write, &message).await?,
                Some(Outbound::Closed(_)) | None => return Ok(()),
            },
            line = lines.next_line() => match line? {
                Some(line) => handle_line(&sender, &line).await?,
                None => return Ok(()),
            },
        }
    }
}

/// Passes a message of the subscriber to the producer.
async fn handle_line(sender: &LinkSender, line: &str) -> Result<()> {
    match Inbound::read(line.as_bytes()) {
        Inbound::Message(message) => sender.send(message).await?,
        // A second request, or an invalid message: the producer replies where the protocol wants a reply.
        invalid => sender.send_invalid(invalid).await?,
    }
    Ok(())
}

async fn send(write: &mut (impl AsyncWrite + Unpin), message: &Message) -> Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(write.write_all(&line).await?)
}

/// Runs the example.
#[tokio::main(flavor = "current_thread")]
pub async fn main() -> Result<()> {
    let producer = Producer::builder("gardener").build();
    let (server_end, client_end) = tokio::io::duplex(64 * 1024);
    let server = tokio::spawn({
        let producer = producer.clone();
        async move { serve(server_end, &producer, "console").await }
    });
    let client = tokio::spawn(subscribe(client_end));
    while producer.subscriber_counts().await.subscriptions == 0 {
        tokio::task::yield_now().await;
    }

    let session = producer.session("Planning your garden.").await?;
    let seeds = aaep::Confirmation::new("Order seeds.", "They cost 12 dollars.");
    let outcome = session.confirm(seeds).await?;
    assert_eq!(outcome.decision, Decision::Accept);
    session.complete("The seeds are ordered.").await?;

    let received = client.await??;
    assert_eq!(received.first().map(String::as_str), Some("subscription.accepted"));
    assert_eq!(received.last().map(String::as_str), Some("aaep:agent.session.completed"));
    // The client has hung up, which ends the connection.
    server.await?
}

/// The other end: subscribes, accepts the first confirmation and hangs up after the session. Returns what it received.
async fn subscribe(stream: DuplexStream) -> Result<Vec<String>> {
    let (read, mut write) = tokio::io::split(stream);
    let mut lines = BufReader::new(read).lines();
    let request = json!({"type": "subscription.request", "aaep_version": "1.0.0", "subscriber_id": "console",
        "capabilities": {"supports_confirmation_reply": true}});
    write.write_all(format!("{request}\n").as_bytes()).await?;
    let accepted = next(&mut lines).await?;
    let mut received = vec![type_name(&accepted)];
    loop {
        let event = next(&mut lines).await?;
        received.push(type_name(&event));
        match event["type"].as_str() {
            Some("aaep:agent.awaiting.confirmation") => {
                let reply = json!({"type": "confirmation.reply", "reply_token": event["reply_token"],
                    "decision": "accept", "subscription_id": accepted["subscription_id"],
                    "timestamp": event["timestamp"]});
                write.write_all(format!("{reply}\n").as_bytes()).await?;
            }
            Some("aaep:agent.session.completed") => return Ok(received),
            _ => {}
        }
    }
}

async fn next(lines: &mut Lines<impl AsyncBufReadExt + Unpin>) -> Result<Value> {
    let line = lines.next_line().await?.ok_or("the server hung up")?;
    Ok(serde_json::from_str(&line)?)
}

fn type_name(message: &Value) -> String {
    message["type"].as_str().unwrap_or_default().to_owned()
}
