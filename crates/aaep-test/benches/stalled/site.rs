//! A server with every transport, subscribers that read only on request, and agents that post events.

use std::any::Any;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use aaep_grpc::v1::AaepMessage;
use aaep_grpc::v1::aaep_service_client::AaepServiceClient;
use aaep_server::{Config, Limits, RunningServer, Server, ServerContext, stdio};
use bytes::Bytes;
use futures_util::stream;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream, UnixStream};
use tokio::sync::mpsc;
use tonic::Streaming;
use tonic::transport::Endpoint;

/// Bytes that the kernel buffers for a subscriber that does not read.
const RECEIVE_BUFFER_BYTES: u32 = 16 * 1024;

/// Bytes that a pipe of Linux holds.
const PIPE_BYTES: usize = 64 * 1024;

/// A transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Sse,
    SseHttp2,
    WebSocket,
    UnixLines,
    UnixLengths,
    Grpc,
    Stdio,
}

pub(crate) const TRANSPORTS: [Transport; 7] = [
    Transport::Sse,
    Transport::SseHttp2,
    Transport::WebSocket,
    Transport::UnixLines,
    Transport::UnixLengths,
    Transport::Grpc,
    Transport::Stdio,
];

/// A server with every transport.
pub(crate) struct Site {
    pub(crate) server: RunningServer,
    limits: Limits,
    _directory: tempfile::TempDir,
}

impl Site {
    pub(crate) async fn start(write_timeout: Duration) -> Site {
        let permissions = std::fs::Permissions::from_mode(0o700);
        let directory = tempfile::Builder::new().permissions(permissions).tempdir().expect("a directory");
        let limits = Limits {
            requests_per_second: 1_000_000,
            write_seconds: write_timeout.as_secs(),
            silence_seconds: 600,
            ..Limits::default()
        };
        let address: SocketAddr = "127.0.0.1:0".parse().expect("an address");
        let mut config = Config { listen: address, limits: limits.clone(), ..Config::default() };
        config.transports.unix_path = Some(directory.path().join("site.sock"));
        config.transports.grpc = Some(address);
        let producer = Server::producer(&config);
        let server = Server::new(config, producer).with_agents().start().await.expect("a server");
        Site { server, limits, _directory: directory }
    }

    /// Returns the number of subscriptions, and how many of them are blocked.
    pub(crate) async fn subscriptions(&self) -> (usize, usize) {
        let measures = self.server.producer().stats().await.expect("the producer runs");
        (measures.subscribers.subscriptions, measures.blocked)
    }

    /// Opens a subscription.
    pub(crate) async fn subscribe(&self, transport: Transport) -> Subscriber {
        let request = json!({"type": "subscription.request", "aaep_version": "1.0.0", "subscriber_id": "reader",
            "capabilities": {"supports_confirmation_reply": true}})
        .to_string();
        let source = match transport {
            Transport::Sse => self.sse(&request).await,
            Transport::SseHttp2 => self.sse_http2(&request).await,
            Transport::WebSocket => self.websocket(&request).await,
            Transport::UnixLines => self.unix(format!("{request}\n").into_bytes()).await,
            Transport::UnixLengths => {
                let length = u32::try_from(request.len()).expect("it is short").to_be_bytes();
                self.unix([&length, request.as_bytes()].concat()).await
            }
            Transport::Grpc => self.grpc(request).await,
            Transport::Stdio => self.stdio(&request).await,
        };
        let mut subscriber = Subscriber { source, received: Vec::new(), id: String::new() };
        subscriber.read_until("subscription_id").await;
        while subscriber.id.is_empty() {
            let text = String::from_utf8_lossy(&subscriber.received).into_owned();
            let id = text.split_once("\"sub_").and_then(|(_, rest)| rest.split_once('"'));
            match id {
                Some((id, _)) => subscriber.id = format!("sub_{id}"),
                None => assert!(subscriber.read().await, "no answer to the request: {text}"),
            }
        }
        subscriber.received.clear();
        subscriber
    }

    async fn connect(&self) -> TcpStream {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.set_recv_buffer_size(RECEIVE_BUFFER_BYTES).expect("a small buffer");
        socket.connect(self.server.address()).await.expect("a connection")
    }

    /// Subscribes by POST. Returns the path of the events.
    async fn location(&self, request: &str) -> (String, Bytes) {
        let agent = Agent::connect(self.server.address()).await;
        let mut sender = agent.sender;
        let answer = sender.send_request(post("/aaep/v1/subscriptions", request)).await.expect("an answer");
        assert_eq!(answer.status(), StatusCode::CREATED);
        let body = answer.into_body().collect().await.expect("a body").to_bytes();
        let accepted: Value = serde_json::from_slice(&body).expect("JSON");
        let id = accepted["subscription_id"].as_str().expect("an id");
        (format!("/aaep/v1/events?subscription_id={id}"), body)
    }

    async fn sse(&self, request: &str) -> Source {
        let (location, accepted) = self.location(request).await;
        let mut stream = self.connect().await;
        let head = format!("GET {location} HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n\r\n");
        stream.write_all(head.as_bytes()).await.expect("a request");
        Source::Stream { stream: Box::new(stream), first: accepted }
    }

    async fn sse_http2(&self, request: &str) -> Source {
        let (location, accepted) = self.location(request).await;
        let io = TokioIo::new(self.connect().await);
        let (mut sender, connection) = http2::handshake(TokioExecutor::new(), io).await.expect("HTTP/2");
        tokio::spawn(connection);
        let request = Request::get(location).header("host", "localhost").body(Full::<Bytes>::default());
        let answer = sender.send_request(request.expect("a request")).await.expect("an answer");
        assert_eq!(answer.status(), StatusCode::OK);
        Source::Http2 { body: answer.into_body(), first: accepted, _keep: Box::new(sender) }
    }

    async fn websocket(&self, request: &str) -> Source {
        let mut stream = self.connect().await;
        let head = "GET /aaep/v1/ws HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
            sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
            sec-websocket-protocol: aaep.v1\r\n\r\n";
        stream.write_all(head.as_bytes()).await.expect("a request");
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            answer.push(stream.read_u8().await.expect("an answer"));
        }
        stream.write_all(&text_frame(request)).await.expect("a message");
        Source::Stream { stream: Box::new(stream), first: Bytes::new() }
    }

    async fn unix(&self, first: Vec<u8>) -> Source {
        let path = self.server.socket().expect("there is a socket");
        let mut stream = UnixStream::connect(path).await.expect("a connection");
        stream.write_all(&first).await.expect("a message");
        Source::Stream { stream: Box::new(stream), first: Bytes::new() }
    }

    async fn grpc(&self, request: String) -> Source {
        let url = format!("http://{}", self.server.grpc_address().expect("gRPC is on"));
        let channel = Endpoint::from_shared(url).expect("an address").connect().await.expect("a connection");
        let (to, mut queue) = mpsc::unbounded_channel();
        let message = AaepMessage { json: request.into(), message_type: "subscription.request".to_owned() };
        to.send(message).expect("the queue is open");
        let messages = stream::poll_fn(move |cx| queue.poll_recv(cx));
        let answer = AaepServiceClient::new(channel).subscribe(messages).await.expect("a stream");
        Source::Grpc { messages: Box::new(answer.into_inner()), _keep: Box::new(to) }
    }

    async fn stdio(&self, request: &str) -> Source {
        let (mut parent, child) = tokio::io::duplex(PIPE_BYTES);
        let hub = ServerContext::standalone(self.server.producer().clone()).with_limits(self.limits.clone());
        tokio::spawn(async move {
            let (input, output) = tokio::io::split(child);
            stdio::serve(&hub, input, output).await;
        });
        let line = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"aaep.subscribe\",\"params\":{request}}}\n");
        parent.write_all(line.as_bytes()).await.expect("a message");
        Source::Stream { stream: Box::new(parent), first: Bytes::new() }
    }
}

/// Returns a WebSocket frame of a client. The mask is zero, so the text is unchanged.
fn text_frame(text: &str) -> Vec<u8> {
    let length = u16::try_from(text.len()).expect("it is short");
    assert!((126..u16::MAX).contains(&length), "this length has another form");
    [&[0x81, 0x80 | 126], &length.to_be_bytes()[..], &[0; 4], text.as_bytes()].concat()
}

fn post(path: &str, body: &str) -> Request<Full<Bytes>> {
    let request = Request::builder().method(Method::POST).uri(path).header("host", "localhost");
    let body = Full::new(Bytes::from(body.to_owned()));
    request.header("content-type", "application/json").body(body).expect("a request")
}

trait Both: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Both for T {}

/// The unused half of a connection. Dropping it would close the stream.
type Keep = Box<dyn Any + Send>;

/// The source of bytes.
enum Source {
    Stream { stream: Box<dyn Both>, first: Bytes },
    Http2 { body: Incoming, first: Bytes, _keep: Keep },
    Grpc { messages: Box<Streaming<AaepMessage>>, _keep: Keep },
}

/// A subscription. Nothing is read from it unless one of its methods is called.
pub(crate) struct Subscriber {
    source: Source,
    received: Vec<u8>,
    pub(crate) id: String,
}

impl Subscriber {
    /// Reads once. Returns whether the stream is still open.
    pub(crate) async fn read(&mut self) -> bool {
        match &mut self.source {
            Source::Stream { first, .. } | Source::Http2 { first, .. } if !first.is_empty() => {
                self.received.extend_from_slice(&std::mem::take(first));
                true
            }
            Source::Stream { stream, .. } => {
                let mut bytes = vec![0; PIPE_BYTES];
                let length = stream.read(&mut bytes).await.unwrap_or(0);
                self.received.extend_from_slice(&bytes[..length]);
                length > 0
            }
            Source::Http2 { body, .. } => match body.frame().await {
                Some(Ok(frame)) => {
                    self.received.extend_from_slice(&frame.into_data().unwrap_or_default());
                    true
                }
                Some(Err(_)) | None => false,
            },
            Source::Grpc { messages, .. } => match messages.message().await {
                Ok(Some(message)) => {
                    self.received.extend_from_slice(&message.json);
                    true
                }
                Ok(None) | Err(_) => false,
            },
        }
    }

    /// Reads until this text was received, and discards everything up to its end.
    pub(crate) async fn read_until(&mut self, text: &str) -> Vec<u8> {
        loop {
            let found = self.received.windows(text.len()).position(|window| window == text.as_bytes());
            if let Some(at) = found {
                return self.received.drain(..at + text.len()).collect();
            }
            // Searched bytes are discarded, except for a possible beginning of the text.
            let old = self.received.len().saturating_sub(text.len());
            if old > PIPE_BYTES {
                self.received.drain(..old);
            }
            assert!(self.read().await, "the stream ended before {text}");
        }
    }
}

/// An agent with its own connection.
pub(crate) struct Agent {
    sender: http1::SendRequest<Full<Bytes>>,
}

impl Agent {
    pub(crate) async fn connect(address: SocketAddr) -> Agent {
        let stream = TcpStream::connect(address).await.expect("a connection");
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.expect("HTTP");
        tokio::spawn(connection);
        Agent { sender }
    }

    /// Posts an event of this agent. Returns the response.
    pub(crate) async fn post(&mut self, name: &str, event: &Value) -> Value {
        self.send(&format!("/aaep/v1/agent/events?agent={name}&wait=300"), event).await
    }

    /// Posts a message. Returns the response, if there is one.
    pub(crate) async fn send(&mut self, path: &str, message: &Value) -> Value {
        self.sender.ready().await.expect("the connection is open");
        let answer = self.sender.send_request(post(path, &message.to_string())).await.expect("an answer");
        assert!(answer.status().is_success(), "{path} answers {}", answer.status());
        let body = answer.into_body().collect().await.expect("a body").to_bytes();
        serde_json::from_slice(&body).unwrap_or_default()
    }
}

/// Sentences of one output, about 16 KiB.
pub(crate) fn text(round: usize) -> Value {
    let text: String = (0..256).map(|n| format!("This is sentence {n} of part {round} of a text. ")).collect();
    json!({"type": "output.streaming", "output_id": "flood", "chunk": text})
}
