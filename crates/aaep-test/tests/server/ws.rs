//! The WebSocket binding: subprotocol, first message, close codes.

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::handshake::client::Response;

use crate::harness::*;

pub(crate) type Socket = WebSocketStream<TcpStream>;

/// Connects with these headers.
pub(crate) async fn connect(address: std::net::SocketAddr, headers: &[(&'static str, &str)]) -> (Socket, Response) {
    let mut request = format!("ws://{address}/aaep/v1/ws").into_client_request().unwrap();
    for (name, value) in headers {
        request.headers_mut().insert(*name, value.parse().unwrap());
    }
    let stream = TcpStream::connect(address).await.unwrap();
    soon("an upgrade", tokio_tungstenite::client_async(request, stream)).await.unwrap()
}

pub(crate) async fn send(socket: &mut Socket, message: &Value) {
    socket.send(Message::text(message.to_string())).await.unwrap();
}

/// Receives the next message, or the close code.
pub(crate) async fn receive(socket: &mut Socket) -> Result<Value, u16> {
    soon("a message", async {
        loop {
            match socket.next().await {
                Some(Ok(Message::Text(text))) => return Ok(serde_json::from_str(&text).unwrap()),
                Some(Ok(Message::Close(frame))) => return Err(frame.map_or(0, |frame| frame.code.into())),
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return Err(1006),
            }
        }
    })
    .await
}

/// Opens a socket and subscribes. Returns it with the subscription id.
pub(crate) async fn subscribed(address: std::net::SocketAddr) -> (Socket, String) {
    let (mut socket, _) = connect(address, &[("sec-websocket-protocol", "aaep.v1")]).await;
    send(&mut socket, &request()).await;
    let accepted = receive(&mut socket).await.unwrap();
    assert_eq!(accepted["type"], "subscription.accepted");
    let id = accepted["subscription_id"].as_str().unwrap().to_owned();
    (socket, id)
}

async fn find(socket: &mut Socket, kind: &str) -> Value {
    loop {
        let message = receive(socket).await.unwrap();
        if kind_of(&message) == kind {
            return message;
        }
    }
}

/// Receives until the connection is closed. Returns the close code.
async fn code(mut socket: Socket) -> u16 {
    loop {
        if let Err(code) = receive(&mut socket).await {
            return code;
        }
    }
}

#[tokio::test]
async fn question_is_answered_over_websocket() {
    let server = start(config()).await;
    let (mut socket, id) = subscribed(server.address()).await;
    let producer = server.producer().clone();
    let agent = tokio::spawn(async move {
        let session = session(&producer).await;
        let permitted = ask(&session).await;
        session.complete("Done.").await.unwrap();
        permitted
    });
    let question = find(&mut socket, "awaiting.confirmation").await;
    send(&mut socket, &reply(&id, question["reply_token"].as_str().unwrap(), "accept")).await;
    assert!(agent.await.unwrap());
    find(&mut socket, "session.completed").await;
}

#[tokio::test]
async fn subprotocol_is_selected_when_offered() {
    let server = start(config()).await;
    let (_, response) = connect(server.address(), &[("sec-websocket-protocol", "other, aaep.v1")]).await;
    assert_eq!(response.headers()["sec-websocket-protocol"], "aaep.v1");
    let (mut bare, response) = connect(server.address(), &[]).await;
    assert!(response.headers().get("sec-websocket-protocol").is_none());
    send(&mut bare, &request()).await;
    assert_eq!(receive(&mut bare).await.unwrap()["type"], "subscription.accepted", "served without it too");
}

#[tokio::test]
async fn server_shutdown_closes_with_4000() {
    let server = start(config()).await;
    let (mut socket, id) = subscribed(server.address()).await;
    let working = session(server.producer()).await;
    let stopping = tokio::spawn(server.stop("The server is being stopped."));
    let cancelled = find(&mut socket, "session.cancelled").await;
    assert_eq!(cancelled["cancellation_reason"], "producer_shutdown");
    let close = receive(&mut socket).await.unwrap();
    assert_eq!((&close["type"], &close["subscription_id"]), (&json!("subscription.close"), &json!(id)));
    assert_eq!(close["reason_code"], "producer_shutdown");
    assert_eq!(receive(&mut socket).await, Err(4000));
    drop(socket);
    soon("the end", stopping).await.unwrap();
    drop(working);
}

#[tokio::test]
async fn connection_without_a_first_message_does_not_delay_shutdown() {
    let server = start(config()).await;
    let (mut socket, _) = connect(server.address(), &[]).await;
    let stopping = tokio::spawn(server.stop("The server is being stopped."));
    assert_eq!(receive(&mut socket).await, Err(4000));
    drop(socket);
    soon("the end", stopping).await.unwrap();
}

#[tokio::test]
async fn rejected_request_closes_with_4001() {
    let server = start(config()).await;
    for message in [json!({"aaep_version": "9.0.0"}), json!({"type": "subscription.close"})] {
        let (mut socket, _) = connect(server.address(), &[]).await;
        let mut first = request();
        first.as_object_mut().unwrap().extend(message.as_object().unwrap().clone());
        send(&mut socket, &first).await;
        assert_eq!(receive(&mut socket).await.unwrap()["type"], "subscription.rejected");
        assert_eq!(receive(&mut socket).await, Err(4001));
    }
}

#[tokio::test]
async fn protocol_violation_closes_with_4004() {
    let mut config = config();
    config.limits.message_bytes = 100_000;
    let server = start(config).await;
    let large = Message::text("x".repeat(100_001));
    let binary = Message::binary(b"{}".to_vec());
    for wrong in [large, binary] {
        let (mut socket, _) = subscribed(server.address()).await;
        socket.send(wrong).await.unwrap();
        assert_eq!(code(socket).await, 4004);
    }
    let (mut socket, _) = subscribed(server.address()).await;
    for _ in 0..17 {
        send(&mut socket, &json!({"type": "nonsense"})).await;
    }
    assert_eq!(code(socket).await, 4004, "some malformed messages are let pass, not many");
}

/// If a connection is closed before everything was read, it is reset, and the last messages may be lost.
#[tokio::test]
async fn close_code_is_delivered_to_a_client_that_keeps_sending() {
    let server = start(config()).await;
    let (mut socket, _) = subscribed(server.address()).await;
    socket.send(Message::binary(b"{}".to_vec())).await.unwrap();
    for _ in 0..20 {
        socket.send(Message::text("x".repeat(2_000))).await.unwrap();
    }
    assert_eq!(receive(&mut socket).await, Err(4004));
    let rest = soon("the end", socket.get_mut().read(&mut [0; 1])).await;
    assert_eq!(rest.unwrap(), 0, "a graceful end");
}

#[tokio::test]
async fn close_by_the_subscriber_closes_with_4005() {
    let server = start(config()).await;
    let (mut socket, id) = subscribed(server.address()).await;
    send(&mut socket, &json!({"type": "subscription.close", "subscription_id": id})).await;
    assert_eq!(code(socket).await, 4005);
}

#[tokio::test]
async fn lost_connection_resolves_its_open_question() {
    let server = start(config()).await;
    let (mut socket, _) = subscribed(server.address()).await;
    let producer = server.producer().clone();
    let agent = tokio::spawn(async move { ask(&session(&producer).await).await });
    find(&mut socket, "awaiting.confirmation").await;
    drop(socket);
    assert!(!soon("the default", agent).await.unwrap(), "no subscriber is left that could accept");
}

#[tokio::test]
async fn reply_for_another_connection_is_ignored() {
    let server = start(config()).await;
    let (mut owner, id) = subscribed(server.address()).await;
    let (mut other, _) = subscribed(server.address()).await;
    let producer = server.producer().clone();
    let agent = tokio::spawn(async move { ask(&session(&producer).await).await });
    let question = find(&mut owner, "awaiting.confirmation").await;
    let token = question["reply_token"].as_str().unwrap();
    send(&mut other, &reply(&id, token, "accept")).await;
    until("the forged reply is noted", async || {
        server.producer().reply_stats().ignored.contains_key(&aaep::transport::ReplyRejection::WrongSubscription)
    })
    .await;
    send(&mut owner, &reply(&id, token, "reject")).await;
    assert!(!agent.await.unwrap());
}
