//! Event streams and WebSockets that bypass hyper send the same bytes as those that do not.

use std::net::SocketAddr;

use aaep_server::{RunningServer, Server};
use hyper::StatusCode;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::*;

/// Two servers of one producer: the first with the fast path, the second without.
async fn both_servers() -> [RunningServer; 2] {
    let producer = Server::producer(&config());
    let fast = Server::new(config(), producer.clone()).start().await.unwrap();
    let plain = Server::new(config(), producer).without_fast_path().start().await.unwrap();
    [fast, plain]
}

/// Emits the events that the subscribers of both servers receive.
async fn emit(server: &RunningServer) {
    let session = session(server.producer()).await;
    let output = session.output().await.unwrap();
    output.write("A first sentence. ").await.unwrap();
    output.write("A second one, with more words than the first.").await.unwrap();
    output.finish().await.unwrap();
    session.complete("Done.").await.unwrap();
}

async fn read_until(connection: &mut TcpStream, text: &mut Vec<u8>, end: &[u8]) {
    soon("bytes of the server", async {
        while !text.windows(end.len()).any(|window| window == end) {
            text.push(connection.read_u8().await.unwrap());
        }
    })
    .await;
}

/// Reads a response head and returns its lines without the date, which may differ.
async fn read_head(connection: &mut TcpStream) -> Vec<String> {
    let mut head = Vec::new();
    read_until(connection, &mut head, b"\r\n\r\n").await;
    let head = String::from_utf8(head).unwrap();
    head.lines().filter(|line| !line.starts_with("date:")).map(str::to_owned).collect()
}

/// Reads a chunked body to its end.
async fn read_chunked(connection: &mut TcpStream) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let mut size = Vec::new();
        read_until(connection, &mut size, b"\r\n").await;
        let size = usize::from_str_radix(std::str::from_utf8(&size).unwrap().trim_end(), 16).unwrap();
        let mut chunk = vec![0; size + 2];
        soon("a chunk", connection.read_exact(&mut chunk)).await.unwrap();
        assert_eq!(chunk.split_off(size), b"\r\n");
        if size == 0 {
            return body;
        }
        body.extend_from_slice(&chunk);
    }
}

async fn open_stream(address: SocketAddr, subscription: &str) -> TcpStream {
    let mut connection = TcpStream::connect(address).await.unwrap();
    let get = format!("GET /aaep/v1/events?subscription_id={subscription} HTTP/1.1\r\nhost: localhost\r\n\r\n");
    connection.write_all(get.as_bytes()).await.unwrap();
    connection
}

#[tokio::test]
async fn event_stream_has_the_same_bytes_with_and_without_the_fast_path() {
    let servers = both_servers().await;
    let mut streams = Vec::new();
    for server in &servers {
        let id = subscribe(server.address(), &request(), None).await;
        let mut connection = open_stream(server.address(), &id).await;
        let head = read_head(&mut connection).await;
        streams.push((id, connection, head));
    }
    emit(&servers[0]).await;
    let mut bodies = Vec::new();
    for (server, (id, connection, _)) in servers.iter().zip(&mut streams) {
        let close = json!({"type": "subscription.close", "subscription_id": id, "reason_code": "done"});
        let closed = async { post(server.address(), "/aaep/v1/replies", &close).await.status };
        let mut seen = Vec::new();
        // Without this the subscription could be closed before its last event was written.
        read_peeked(connection, &mut seen).await;
        assert_eq!(closed.await, StatusCode::NO_CONTENT);
        bodies.push(read_chunked(connection).await);
    }
    let [(_, fast, fast_head), (_, plain, plain_head)] = &mut streams[..] else { panic!("two streams") };
    assert_eq!(fast_head, plain_head);
    let text = String::from_utf8(bodies[0].clone()).unwrap();
    assert!(text.starts_with("retry: 2000\n\n") && text.contains("session.completed"), "{text}");
    assert_eq!(bodies[0], bodies[1]);
    // The fast path ends its connection, hyper keeps it open: both paths were really used.
    assert_eq!(soon("the end", fast.read(&mut [0; 8])).await.unwrap(), 0);
    plain.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    assert_eq!(read_head(plain).await[0], "HTTP/1.1 200 OK");
}

/// Waits until the last event is in the receive buffer, without taking bytes from it.
async fn read_peeked(connection: &TcpStream, seen: &mut Vec<u8>) {
    soon("the last event", async {
        loop {
            seen.resize(64 * 1024, 0);
            let length = connection.peek(seen).await.unwrap();
            seen.truncate(length);
            if String::from_utf8_lossy(seen).contains("session.completed") {
                return;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// A text frame as a client sends it, with a mask of zeros.
fn masked_text(text: &str) -> Vec<u8> {
    let length = u16::try_from(text.len()).unwrap().to_be_bytes();
    let mut frame = vec![0x81, 0x80 | 126, length[0], length[1], 0, 0, 0, 0];
    frame.extend_from_slice(text.as_bytes());
    frame
}

/// Reads one frame of the server, head included.
async fn read_frame(connection: &mut TcpStream) -> Vec<u8> {
    soon("a frame", async {
        let mut frame = vec![0; 2];
        connection.read_exact(&mut frame).await.unwrap();
        let length = match frame[1] {
            126 => {
                let length = connection.read_u16().await.unwrap();
                frame.extend_from_slice(&length.to_be_bytes());
                usize::from(length)
            }
            127 => panic!("a frame of more than 64 KiB"),
            length => usize::from(length),
        };
        let mut payload = vec![0; length];
        connection.read_exact(&mut payload).await.unwrap();
        frame.extend_from_slice(&payload);
        frame
    })
    .await
}

#[tokio::test]
async fn websocket_has_the_same_bytes_with_and_without_the_fast_path() {
    let servers = both_servers().await;
    let mut sockets = Vec::new();
    for server in &servers {
        let mut connection = TcpStream::connect(server.address()).await.unwrap();
        let upgrade = "GET /aaep/v1/ws HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
            sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
            sec-websocket-protocol: aaep.v1\r\n\r\n";
        // The first message is sent with the request: neither path may lose what hyper reads ahead.
        let early = [upgrade.as_bytes(), &masked_text(&request().to_string())].concat();
        connection.write_all(&early).await.unwrap();
        let head = read_head(&mut connection).await;
        let accepted = read_frame(&mut connection).await;
        assert!(String::from_utf8_lossy(&accepted).contains("subscription.accepted"));
        sockets.push((connection, head));
    }
    emit(&servers[0]).await;
    let mut all = Vec::new();
    for (connection, _) in &mut sockets {
        let mut frames = Vec::new();
        loop {
            let frame = read_frame(connection).await;
            let last = String::from_utf8_lossy(&frame).contains("session.completed");
            frames.push(frame);
            if last {
                break;
            }
        }
        // A close frame without a reason, with a mask of zeros.
        connection.write_all(&[0x88, 0x80, 0, 0, 0, 0]).await.unwrap();
        frames.push(read_frame(connection).await);
        all.push(frames);
    }
    assert_eq!(sockets[0].1, sockets[1].1, "the heads of the responses");
    assert!(all[0].len() > 4, "{all:?}");
    assert_eq!(all[0], all[1]);
}
