//! A listener that prints what an agent does and answers its questions.
//!
//! Run it with the address of a producer, or without one to listen to a scripted producer on a Unix socket:
//!
//! ```text
//! cargo run -p aaep-client --example listener -- unix:/run/user/1000/aaep/gardener.sock
//! cargo run -p aaep-client --example listener
//! ```

use std::error::Error;

use aaep_client::{ConnectOptions, PromptAnswer, Subscriber, SubscriberEvent};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    match std::env::args().nth(1) {
        Some(address) => listen(&address).await.map(drop),
        None => run().await,
    }
}

/// Prints events and answers questions until the subscription ends. Returns the types of the events.
async fn listen(address: &str) -> Result<Vec<String>, Box<dyn Error>> {
    let capabilities = serde_json::from_str(r#"{"supports_confirmation_reply": true}"#)?;
    let mut subscriber = Subscriber::connect(address, ConnectOptions::new("example-listener", capabilities))?;
    let mut received = Vec::new();
    while let Some(event) = subscriber.recv().await {
        match event {
            SubscriberEvent::Accepted(accepted) => println!("connected to {}", accepted.producer.agent_id),
            SubscriberEvent::Event(event) => {
                println!("{}", event.type_name());
                received.push(event.type_name().to_owned());
                if event.core_type().is_some_and(|core_type| core_type.is_terminal()) {
                    subscriber.close("user_request").await;
                }
            }
            // A real listener asks the user. It never accepts by itself.
            SubscriberEvent::PromptOpened(prompt, _deadline) => {
                println!("question {:?}: answering no", prompt.id);
                subscriber.reply(prompt.id, PromptAnswer::reject()).await?;
            }
            SubscriberEvent::Notice(notice) => println!("notice: {notice}"),
            SubscriberEvent::Ended(reason) => println!("ended: {reason:?}"),
            _ => {}
        }
    }
    Ok(received)
}

/// Listens to the scripted producer and checks what both sides received. Returns when both have ended.
pub async fn run() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("gardener.sock");
    let socket = tokio::net::UnixListener::bind(&path)?;
    let producer = tokio::spawn(scripted_producer::serve(socket));
    let received = listen(&format!("unix:{}", path.display())).await?;
    let decision = producer.await?.map_err(|error| error.to_string())?;
    assert_eq!(received, ["aaep:agent.awaiting.confirmation", "aaep:agent.session.completed"]);
    assert_eq!(decision, "reject");
    Ok(())
}

/// A producer that asks one question and ends its session when the answer arrives. Real agents use the crate `aaep`.
mod scripted_producer {
    use std::io;

    use aaep_proto::binding::MessageFraming;
    use bytes::BytesMut;
    use serde_json::{Value, json};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{UnixListener, UnixStream};

    /// Serves one subscriber. Returns its decision.
    pub(super) async fn serve(listener: UnixListener) -> io::Result<String> {
        let (mut stream, _) = listener.accept().await?;
        receive(&mut stream).await?;
        let accepted = json!({"type": "subscription.accepted", "subscription_id": "sub_1", "aaep_version": "1.0.0",
            "producer": {"agent_id": "gardener"}, "honored_capabilities": {"supports_confirmation_reply": true}});
        send(&mut stream, &accepted).await?;
        let question = event(
            "evt_1",
            "awaiting.confirmation",
            json!({"urgency": "critical", "action": "Cut the hedge.",
            "consequence": "It grows back slowly.", "reply_token": "rpl_1", "timeout_seconds": 600,
            "default_decision": "reject"}),
        );
        send(&mut stream, &question).await?;
        let reply = receive(&mut stream).await?;
        send(&mut stream, &event("evt_2", "session.completed", json!({"summary_normal": "Done."}))).await?;
        // The subscriber closes the subscription.
        receive(&mut stream).await?;
        Ok(reply["decision"].as_str().unwrap_or_default().to_owned())
    }

    fn event(id: &str, kind: &str, payload: Value) -> Value {
        let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        let timestamp = aaep_proto::time::Timestamp::from_millis(now.as_millis() as i64).to_string();
        let mut event = json!({"@context": "https://aaep-protocol.org/context/v1", "type": format!("aaep:agent.{kind}"),
            "event_id": id, "session_id": "sess_1", "timestamp": timestamp, "producer": {"agent_id": "gardener"},
            "localization_hints": {"primary_language": "en"}});
        if let (Some(event), Value::Object(payload)) = (event.as_object_mut(), payload) {
            event.extend(payload);
        }
        event
    }

    async fn send(stream: &mut UnixStream, message: &Value) -> io::Result<()> {
        let mut frame = BytesMut::new();
        MessageFraming::LengthPrefix.encode(message.to_string().as_bytes(), &mut frame).map_err(io::Error::other)?;
        stream.write_all(&frame).await
    }

    async fn receive(stream: &mut UnixStream) -> io::Result<Value> {
        let mut json = vec![0; stream.read_u32().await? as usize];
        stream.read_exact(&mut json).await?;
        serde_json::from_slice(&json).map_err(io::Error::other)
    }
}
