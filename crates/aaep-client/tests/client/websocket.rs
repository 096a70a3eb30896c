//! The WebSocket transport.

use aaep_client::{EndReason, Gap, NoticeKind, PromptAnswer, PromptEnd, Subscriber, SubscriberEvent};
use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use hyper::Method;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{Request, Response};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;

use crate::harness::*;

struct FakeSocket(WebSocketStream<TcpStream>);

async fn listen() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}", listener.local_addr().unwrap());
    (listener, url)
}

impl FakeSocket {
    /// Accepts the next connection, with or without the subprotocol.
    async fn accept(listener: &TcpListener, choose: bool) -> FakeSocket {
        loop {
            let (tcp, _) = in_time("a connection", listener.accept()).await.unwrap();
            #[expect(clippy::result_large_err, reason = "the library's signature")]
            let callback = |request: &Request, mut response: Response| {
                assert_eq!(request.uri().path(), "/aaep/v1/ws");
                if let Some(offered) = request.headers().get("sec-websocket-protocol").filter(|_| choose) {
                    response.headers_mut().insert("sec-websocket-protocol", offered.clone());
                }
                Ok(response)
            };
            if let Ok(socket) = tokio_tungstenite::accept_hdr_async(tcp, callback).await {
                return FakeSocket(socket);
            }
        }
    }

    async fn send(&mut self, value: &Value) {
        self.0.send(Message::text(value.to_string())).await.unwrap();
    }

    /// Receives the next text message. Others are skipped.
    async fn next(&mut self) -> Value {
        loop {
            match in_time("a frame", self.0.next()).await.unwrap().unwrap() {
                Message::Text(text) => return serde_json::from_str(&text).unwrap(),
                Message::Close(_) => panic!("it was closed"),
                _ => {}
            }
        }
    }

    async fn serve(&mut self, id: &str) {
        assert_eq!(self.next().await["type"], "subscription.request");
        self.send(&accepted(id)).await;
    }
}

#[tokio::test]
async fn question_is_answered_and_a_lost_connection_subscribes_again() {
    let (listener, url) = listen().await;
    let mut subscriber = Subscriber::connect(&url, options()).unwrap();
    let mut socket = FakeSocket::accept(&listener, true).await;
    socket.serve("sub_1").await;
    socket.send(&question("evt_1", "rpl_1")).await;
    let asked = subscriber.wait_for("the question", prompt).await;
    subscriber.reply(asked.id, PromptAnswer::accept()).await.unwrap();
    let reply = socket.next().await;
    assert_eq!((&reply["reply_token"], &reply["subscription_id"]), (&json!("rpl_1"), &json!("sub_1")));
    socket.send(&question("evt_2", "rpl_2")).await;
    let open = subscriber.wait_for("the question", prompt).await;
    drop(socket);
    let mut socket = FakeSocket::accept(&listener, true).await;
    socket.serve("sub_2").await;
    let away = subscriber
        .wait_for("the gap", |received| if let SubscriberEvent::Gap(gap) = received { Some(gap) } else { None });
    assert_eq!(away.await, Gap::Away);
    // It is not sent again, so it has ended.
    assert_eq!(subscriber.wait_for("its end", prompt_end).await, (open.id, PromptEnd::ConnectionLost));
}

#[tokio::test]
async fn producer_without_subprotocols_is_accepted() {
    let (listener, url) = listen().await;
    let mut subscriber = Subscriber::connect(&url, options()).unwrap();
    // The client drops the first connection if no subprotocol is selected.
    let mut socket = FakeSocket::accept(&listener, false).await;
    if in_time("a frame", socket.0.next()).await.is_none_or(|frame| frame.is_err()) {
        socket = FakeSocket::accept(&listener, false).await;
        socket.serve("sub_1").await;
    } else {
        socket.send(&accepted("sub_1")).await;
    }
    subscriber.wait_for("terms", live).await;
}

#[tokio::test]
async fn close_codes_decide_between_retry_and_end() {
    let (listener, url) = listen().await;
    let mut subscriber = Subscriber::connect(&url, options()).unwrap();
    let mut socket = FakeSocket::accept(&listener, true).await;
    socket.serve("sub_1").await;
    subscriber.wait_for("terms", live).await;
    let close = CloseFrame { code: 4004.into(), reason: "too slow".into() };
    socket.0.send(Message::Close(Some(close))).await.unwrap();
    let told = subscriber.wait_for("the loss", notice(NoticeKind::Disconnected)).await;
    assert!(told.to_string().contains("4004"), "{told}");
    let mut socket = FakeSocket::accept(&listener, true).await;
    let close = CloseFrame { code: 4002.into(), reason: "who are you?".into() };
    socket.0.send(Message::Close(Some(close))).await.unwrap();
    assert!(matches!(subscriber.wait_for("the end", end).await, EndReason::Refused(_)));
}

#[tokio::test]
async fn binary_message_is_reported_and_pings_get_pongs() {
    let (listener, url) = listen().await;
    let mut subscriber = Subscriber::connect(&url, options()).unwrap();
    let mut socket = FakeSocket::accept(&listener, true).await;
    socket.serve("sub_1").await;
    socket.0.send(Message::Binary(Bytes::from_static(b"{}"))).await.unwrap();
    subscriber.wait_for("the notice", notice(NoticeKind::Malformed)).await;
    socket.0.send(Message::Ping(Bytes::from_static(b"there?"))).await.unwrap();
    let pong = in_time("the pong", socket.0.next()).await.unwrap().unwrap();
    assert_eq!(pong, Message::Pong(Bytes::from_static(b"there?")));
}

#[tokio::test]
async fn close_sends_the_message_and_then_the_close_frame() {
    let (listener, url) = listen().await;
    let mut subscriber = Subscriber::connect(&url, options()).unwrap();
    let mut socket = FakeSocket::accept(&listener, true).await;
    socket.serve("sub_1").await;
    subscriber.wait_for("terms", live).await;
    let voice = subscriber.handle();
    let closing = tokio::spawn(async move { voice.close("user_left").await });
    assert_eq!(socket.next().await["type"], "subscription.close");
    let last = in_time("the close frame", socket.0.next()).await.unwrap().unwrap();
    let Message::Close(Some(frame)) = last else { panic!("{last:?}") };
    assert_eq!(u16::from(frame.code), 4000);
    // Reading lets the library respond to the close frame.
    assert!(in_time("the end", socket.0.next()).await.is_none_or(|frame| frame.is_err()));
    in_time("the close", closing).await.unwrap();
}

#[tokio::test]
async fn missing_websocket_falls_back_to_sse_of_the_manifest() {
    let mut producer = FakeHttp::new().await;
    producer.fix("/aaep/v1/ws", 404, "");
    producer.fix("/.well-known/aaep-manifest.json", 200, manifest(&["sse"]));
    let mut subscriber = Subscriber::connect(&format!("ws://127.0.0.1:{}", producer.port), options()).unwrap();
    let stream = producer.serve("sub_1").await;
    subscriber.wait_for("terms", live).await;
    stream.send(&question("evt_1", "rpl_1"));
    let asked = subscriber.wait_for("the question", prompt).await;
    subscriber.reply(asked.id, PromptAnswer::accept()).await.unwrap();
    producer.expect(Method::POST, "/aaep/v1/replies").await.empty(204);
}

#[tokio::test]
async fn reply_does_not_block_on_a_producer_that_never_reads() {
    let (listener, url) = listen().await;
    let mut subscriber = Subscriber::connect(&url, options()).unwrap();
    let mut socket = FakeSocket::accept(&listener, true).await;
    socket.serve("sub_1").await;
    // From here on the peer only sends. Every reply still returns at once.
    for n in 0..40 {
        socket.send(&question(&format!("evt_{n}"), &format!("rpl_{n}"))).await;
        let asked = subscriber.wait_for("a question", prompt).await;
        in_time("the answer", subscriber.reply(asked.id, PromptAnswer::reject())).await.unwrap();
    }
}

#[tokio::test]
async fn shutdown_of_the_producer_ends_the_subscription() {
    let (listener, url) = listen().await;
    let mut subscriber = Subscriber::connect(&url, options()).unwrap();
    let mut socket = FakeSocket::accept(&listener, true).await;
    socket.serve("sub_1").await;
    subscriber.wait_for("terms", live).await;
    let close = json!({"type": "subscription.close", "subscription_id": "sub_1", "reason_code": "producer_shutdown",
        "reason_message": "The producer shuts down."});
    socket.0.send(Message::text(close.to_string())).await.unwrap();
    let ended = subscriber.wait_for("the end", end).await;
    assert_eq!(ended, EndReason::ProducerEnded("The producer shuts down.".into()));
    assert_eq!(in_time("nothing more", subscriber.recv()).await, None);
}
