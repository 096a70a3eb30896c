//! All transports of one producer at once.

use aaep::Confirmation;
use aaep::message::Decision;
use aaep_server::{Config, Server};
use serde_json::{Value, json};

use crate::clients::{Client, Grpc, LengthSocket, LineSocket, Sse, Stdio, WebSocket};
use crate::harness::*;

/// Subscribes and receives until the session ends. Accepts all questions. Returns `subscription.accepted` first, then the
/// events.
async fn follow<C: Client + Sync>(
    test: &TestServer,
    terms: &Value,
) -> (String, tokio::task::JoinHandle<(C, Vec<Value>)>) {
    let (mut client, id) = C::subscribed(test, terms).await;
    let own = id.clone();
    let listening = tokio::spawn(async move {
        let mut events = Vec::new();
        loop {
            let event = client.receive().await.unwrap();
            if kind_of(&event) == "awaiting.confirmation" {
                client.send(&reply(&own, &event, "accept")).await;
            }
            let last = kind_of(&event) == "session.completed";
            events.push(event);
            if last {
                return (client, events);
            }
        }
    });
    (id, listening)
}

#[tokio::test]
async fn all_transports_deliver_the_same_events() {
    let test = TestServer::start().await;
    let terms =
        request(json!({"supports_confirmation_reply": true, "coalesce_boundaries": ["sentence", "completion"]}));
    let sse = follow::<Sse>(&test, &terms).await;
    let websocket = follow::<WebSocket>(&test, &terms).await;
    let lengths = follow::<LengthSocket>(&test, &terms).await;
    let lines = follow::<LineSocket>(&test, &terms).await;
    let grpc = follow::<Grpc>(&test, &terms).await;
    let stdio = follow::<Stdio>(&test, &terms).await;
    let ids = [&sse.0, &websocket.0, &lengths.0, &lines.0, &grpc.0, &stdio.0];
    assert_eq!(ids.iter().collect::<std::collections::BTreeSet<_>>().len(), ids.len(), "each has its own subscription");
    test.subscriptions(ids.len()).await;
    let session = test.producer().session("Preparing a letter.").await.unwrap();
    session.set_state("thinking", Some("Thinking about the words.")).await.unwrap();
    let output = session.output().await.unwrap();
    for token in ["Dear Ada. Th", "is is a let", "ter: 日本語 — ", "naïve. Yours"] {
        output.write(token).await.unwrap();
    }
    output.finish().await.unwrap();
    let outcome = session.confirm(Confirmation::new("Send the letter.", "It cannot be taken back.")).await.unwrap();
    assert_eq!(outcome.decision, Decision::Accept);
    session.complete("The letter is sent.").await.unwrap();
    let received = [
        ("sse", sse.1.await.unwrap().1),
        ("websocket", websocket.1.await.unwrap().1),
        ("lengths", lengths.1.await.unwrap().1),
        ("lines", lines.1.await.unwrap().1),
        ("grpc", grpc.1.await.unwrap().1),
        ("stdio", stdio.1.await.unwrap().1),
    ];
    let (_, first) = &received[0];
    assert!(first.len() >= 8, "{first:?}");
    for (name, events) in &received {
        assert_eq!(events.len(), first.len(), "{name}");
        for (mine, other) in events.iter().zip(first) {
            assert_eq!(mine, other, "{name}");
        }
    }
}

#[tokio::test]
async fn sse_stream_resumes_without_repeating_events() {
    let test = TestServer::start().await;
    let (mut client, _) = Sse::subscribed(&test, &replying_request()).await;
    let session = test.producer().session("Working.").await.unwrap();
    client.find("session.started").await;
    client.lose();
    session.complete("Done.").await.unwrap();
    client.open().await;
    let mut kinds = Vec::new();
    while kinds.last().map(String::as_str) != Some("session.completed") {
        kinds.push(kind_of(&client.receive().await.unwrap()).to_owned());
    }
    assert!(!kinds.contains(&"session.started".to_owned()), "nothing comes twice: {kinds:?}");
}

async fn manifest(test: &TestServer) -> Value {
    let request = aaep_grpc::v1::GetManifestRequest {};
    let answer = Grpc::channel(test).await.get_manifest(request).await.unwrap().into_inner();
    serde_json::from_slice(&answer.json).unwrap()
}

#[tokio::test]
async fn manifest_lists_the_enabled_transports() {
    let all = TestServer::start().await;
    let named = manifest(&all).await;
    assert_eq!(aaep_proto::validate(named.to_string().as_bytes()).problems, []);
    assert_eq!(named["transports_supported"], json!(["sse", "websocket", "unix-socket", "grpc"]));
    let few = TestServer::with(|config| {
        config.transports.sse = false;
        config.transports.unix = false;
    })
    .await;
    assert_eq!(manifest(&few).await["transports_supported"], json!(["websocket", "grpc"]));
    assert_eq!(few.server.socket(), None);
}

#[tokio::test]
async fn socket_in_use_is_not_replaced() {
    let test = TestServer::start().await;
    let mut config = Config { listen: "127.0.0.1:0".parse().unwrap(), ..Config::default() };
    config.transports.unix_path = Some(test.socket());
    let producer = Server::producer(&config);
    let error = Server::new(config, producer).start().await.unwrap_err().to_string();
    assert!(error.contains("in use by another process"), "{error}");
    LineSocket::subscribed(&test, &replying_request()).await;
}

#[tokio::test]
async fn socket_file_is_removed_at_shutdown() {
    let test = TestServer::start().await;
    let path = test.socket();
    assert!(path.exists());
    test.server.stop("Going home.").await;
    assert!(!path.exists());
}
