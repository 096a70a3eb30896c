//! Invalid bytes on every transport. Other connections are not affected.

use std::net::SocketAddr;

use bytes::Bytes;
use futures_util::StreamExt;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::json;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio_tungstenite::tungstenite::Message;

use crate::clients::{Client, LengthSocket, LineSocket, Stdio, WebSocket};
use crate::harness::*;

/// Sends these bytes and waits until the peer closes the connection.
async fn throw(mut stream: impl AsyncRead + AsyncWrite + Unpin, bytes: &[u8]) {
    // The connection may be closed before everything is sent.
    let _ = stream.write_all(bytes).await;
    let _ = stream.shutdown().await;
    let mut rest = Vec::new();
    let _ = soon("the end", stream.read_to_end(&mut rest)).await;
}

/// Returns deterministic pseudorandom bytes.
fn noise(mut seed: u64) -> Vec<u8> {
    let mut next = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as u8
    };
    (0..4096).map(|_| next()).collect()
}

#[tokio::test]
async fn garbage_bytes_end_their_own_connection_only() {
    let test = TestServer::start().await;
    let (mut witness, _) = LineSocket::subscribed(&test, &replying_request()).await;
    let tcp: [SocketAddr; 2] = [test.server.address(), test.server.grpc_address().unwrap()];
    for seed in 0..20 {
        let mut bytes = noise(seed);
        bytes[0] = [0x00, b'{', 0xFF, b'\n'][seed as usize % 4];
        throw(UnixStream::connect(test.socket()).await.unwrap(), &bytes).await;
        for address in tcp {
            throw(TcpStream::connect(address).await.unwrap(), &bytes).await;
        }
    }
    test.subscriptions(1).await;
    test.producer().session("Working.").await.unwrap().complete("Done.").await.unwrap();
    witness.find("session.completed").await;
}

#[tokio::test]
async fn frame_that_announces_four_gibibytes_is_refused_on_the_socket() {
    let test = TestServer::start().await;
    for announced in [u32::MAX, 0x00FF_FFFF, 1024 * 1024 + 1] {
        // As the first frame. The stream stays open: the error is sent without waiting for the whole message.
        let mut stream = UnixStream::connect(test.socket()).await.unwrap();
        stream.write_all(&announced.to_be_bytes()).await.unwrap();
        let mut rest = Vec::new();
        let _ = soon("the end", stream.read_to_end(&mut rest)).await;
        // As a later frame.
        let mut stream = UnixStream::connect(test.socket()).await.unwrap();
        let first = replying_request().to_string();
        stream.write_all(&u32::try_from(first.len()).unwrap().to_be_bytes()).await.unwrap();
        stream.write_all(first.as_bytes()).await.unwrap();
        test.subscriptions(1).await;
        stream.write_all(&announced.to_be_bytes()).await.unwrap();
        let mut rest = Vec::new();
        soon("the end", stream.read_to_end(&mut rest)).await.unwrap();
        let said = String::from_utf8_lossy(&rest);
        assert!(said.contains("subscription.close") && said.contains("the message is too large"), "{said}");
        test.subscriptions(0).await;
    }
}

#[tokio::test]
async fn frame_that_announces_four_gibibytes_is_refused_on_websocket() {
    let test = TestServer::start().await;
    let address = test.server.address();
    let stream = TcpStream::connect(address).await.unwrap();
    let upgrade = tokio_tungstenite::client_async(format!("ws://{address}/aaep/v1/ws"), stream);
    let mut socket = soon("an upgrade", upgrade).await.unwrap().0;
    let mut frame = vec![0x81, 0xFF];
    frame.extend_from_slice(&(1u64 << 32).to_be_bytes());
    frame.extend_from_slice(&[0; 4]);
    socket.get_mut().write_all(&frame).await.unwrap();
    let code = loop {
        match soon("a close", socket.next()).await.unwrap().unwrap() {
            Message::Close(frame) => break u16::from(frame.unwrap().code),
            _ => continue,
        }
    };
    assert_eq!(code, 4004);
}

#[tokio::test]
async fn frame_that_announces_four_gibibytes_is_refused_on_grpc() {
    let test = TestServer::start().await;
    let stream = TcpStream::connect(test.server.grpc_address().unwrap()).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request = Request::post(format!("{}/aaep.v1.AaepService/Subscribe", test.grpc()))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(Full::new(Bytes::from_static(&[0, 0xFF, 0xFF, 0xFF, 0xFF, b'x'])))
        .unwrap();
    let answer = soon("an answer", sender.send_request(request)).await.unwrap();
    let body = soon("the end", answer.into_body().collect()).await.unwrap();
    let trailers = body.trailers().expect("a status");
    assert_eq!(trailers["grpc-status"], "8", "RESOURCE_EXHAUSTED: {trailers:?}");
}

#[tokio::test]
async fn oversized_line_is_refused() {
    let test = TestServer::start().await;
    let endless = "{".repeat(1024 * 1024 + 100_000);
    let (mut client, _) = Stdio::subscribed(&test, &replying_request()).await;
    client.send_text("", &endless).await;
    let close = client.receive().await.unwrap();
    assert_eq!((kind_of(&close), &close["reason_message"]), ("subscription.close", &json!("the message is too large")));
    assert_eq!(client.receive().await, None);
    let (mut client, _) = LineSocket::subscribed(&test, &replying_request()).await;
    client.send_text("", &endless).await;
    client.rest().await;
    test.subscriptions(0).await;
}

#[tokio::test]
async fn partial_message_is_not_handled() {
    let test = TestServer::start().await;
    let whole = replying_request().to_string();
    let (half, _) = whole.split_at(whole.len() / 2);
    throw(UnixStream::connect(test.socket()).await.unwrap(), half.as_bytes()).await;
    let length = u32::try_from(whole.len()).unwrap().to_be_bytes();
    throw(UnixStream::connect(test.socket()).await.unwrap(), &[&length, half.as_bytes()].concat()).await;
    assert_eq!(test.producer().subscriber_counts().await.subscriptions, 0);
    // Sent byte by byte it is valid.
    let mut stream = UnixStream::connect(test.socket()).await.unwrap();
    for byte in [&length, whole.as_bytes()].concat() {
        stream.write_all(&[byte]).await.unwrap();
    }
    assert!(soon("an answer", stream.read_u32()).await.unwrap() > 0);
    drop(stream);
    test.subscriptions(0).await;
}

#[tokio::test]
async fn simultaneous_disconnections_leave_no_subscriptions() {
    let test = TestServer::start().await;
    for _ in 0..10 {
        let sockets = [
            LengthSocket::subscribed(&test, &replying_request()).await,
            LengthSocket::subscribed(&test, &replying_request()).await,
        ];
        drop((
            sockets,
            WebSocket::subscribed(&test, &replying_request()).await,
            Stdio::subscribed(&test, &replying_request()).await,
        ));
    }
    test.subscriptions(0).await;
}
