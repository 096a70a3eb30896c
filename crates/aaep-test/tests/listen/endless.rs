//! Producers that send without end: the user is warned, nothing is answered, and memory stays bounded.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::process::Command;

use aaep_test::{Process, aaep};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::agents::FakeProducer;

/// The most memory that a listener may use, whatever is sent to it. Of this, a third is the program itself where it was
/// not optimized.
const MOST_KIB: u64 = 96 * 1024;

/// `aaep listen` without a keyboard, in a temporary home directory.
pub(crate) struct ListenProcess {
    pub(crate) process: Process,
    _home: TempDir,
}

impl ListenProcess {
    pub(crate) fn start(arguments: &[&str]) -> ListenProcess {
        let home = tempfile::tempdir().unwrap();
        let mut command = Command::new(aaep());
        command.args(arguments).env("XDG_RUNTIME_DIR", home.path()).env("HOME", home.path());
        command.env_remove("XDG_CONFIG_HOME").env_remove("XDG_STATE_HOME").env_remove("AAEP_TOKEN");
        ListenProcess { process: Process::start(&mut command), _home: home }
    }

    /// Waits for a line with this text in it.
    fn wait_for_line(&self, part: &str) -> String {
        self.process.find(part, |line| line.contains(part).then(|| line.to_owned()))
    }

    /// Checks that the memory is within the bound.
    fn assert_memory_bounded(&self) {
        if let Some(peak) = self.process.peak_kib() {
            println!("{peak} KiB");
            assert!(peak < MOST_KIB, "{peak} KiB");
        }
    }
}

/// Serves connections one after the other with this function.
fn serve(listener: TcpListener, serve: impl Fn(TcpStream) + Send + Sync + 'static) -> String {
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || listener.incoming().flatten().for_each(serve));
    address
}

fn anywhere() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").unwrap()
}

/// Reads the head of a request.
fn request(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|read| read == 1) {
        head.push(byte[0]);
    }
    String::from_utf8_lossy(&head).into_owned()
}

/// Writes these bytes again and again until the peer closes the connection.
fn forever(stream: &mut impl Write, bytes: &[u8]) {
    let block = bytes.repeat((64 * 1024 / bytes.len()).max(1));
    while stream.write_all(&block).is_ok() {}
}

/// Sends a valid stream, then these bytes this many times, and checks that the connection is closed and the user warned.
fn after_a_good_start(begins: &[u8], goes_on: &[u8], times: usize) {
    let fake = FakeProducer::start();
    let listener = ListenProcess::start(&["listen", &fake.url]);
    fake.wait_for_listener();
    fake.emit("session.started", json!({"summary_normal": "Working."}));
    listener.wait_for_line("Working.");
    fake.send(begins);
    (0..times).for_each(|_| fake.send(goes_on));
    listener.wait_for_line("The connection to FakeProducer is lost");
    listener.assert_memory_bounded();
    assert!(fake.replies().is_empty());
}

#[test]
fn endless_event_line_is_cut_off() {
    after_a_good_start(b"data: {\"type\":\"", &vec![b'x'; 1 << 20], 100);
}

#[test]
fn endless_multiline_event_is_cut_off() {
    after_a_good_start(b"", "data: 123456789\n".repeat(1 << 16).as_bytes(), 140);
}

#[test]
fn large_event_id_before_many_empty_events_is_bounded() {
    let fake = FakeProducer::start();
    let listener = ListenProcess::start(&["listen", &fake.url]);
    fake.wait_for_listener();
    fake.send(format!("id: {}\n", "x".repeat(1_000_000)).as_bytes());
    fake.send("data: 1\n\n".repeat(20_000).as_bytes());
    fake.emit("session.started", json!({"summary_normal": "Working."}));
    listener.wait_for_line("A message of the agent could not be read");
    listener.wait_for_line("Working.");
    listener.assert_memory_bounded();
}

/// Serves HTTP responses that start with `begins` and repeat `goes_on` without end.
fn goes_on(begins: &'static [u8], goes_on: &'static [u8]) {
    let address = serve(anywhere(), move |mut stream| {
        request(&mut stream);
        let _ = stream.write_all(begins);
        forever(&mut stream, goes_on);
    });
    let listener = ListenProcess::start(&["listen", &format!("http://{address}")]);
    listener.wait_for_line(&format!("Not connected to http://{address} yet."));
    listener.assert_memory_bounded();
}

#[test]
fn endless_headers_are_cut_off() {
    goes_on(b"HTTP/1.1 200 OK\r\n", b"X-More: and more\r\n");
}

#[test]
fn endless_manifest_is_cut_off() {
    goes_on(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{\"agent_id\":\"", b"x");
}

#[test]
fn small_manifest_that_grows_in_memory_is_refused() {
    let values = "{\"\":0},".repeat(148_000);
    let fake = FakeProducer::start();
    fake.page("/.well-known/aaep-manifest.json", &format!("{{\"type\":\"x\",\"agent_id\":[{values}0]}}"));
    let listener = ListenProcess::start(&["listen", &fake.url]);
    fake.wait_for_listener();
    fake.emit("session.started", json!({"summary_normal": "Working."}));
    listener.wait_for_line("Working.");
    listener.assert_memory_bounded();
}

/// Responds to a WebSocket handshake (RFC 6455).
fn upgrade(stream: &mut TcpStream) -> bool {
    let head = request(stream);
    let key = head
        .lines()
        .find_map(|line| line.strip_prefix("sec-websocket-key: ").or(line.strip_prefix("Sec-WebSocket-Key: ")));
    let Some(key) = key else {
        let _ = stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
        return false;
    };
    let accept = tokio_tungstenite::tungstenite::handshake::derive_accept_key(key.as_bytes());
    let answer = format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Protocol: aaep.v1\r\nSec-WebSocket-Accept: {accept}\r\n\r\n"
    );
    stream.write_all(answer.as_bytes()).is_ok()
}

#[test]
fn gibibyte_websocket_message_is_refused() {
    // Announced as one frame, or in endless fragments.
    let whole: &[u8] = b"\x81\x7f\x00\x00\x00\x00\x40\x00\x00\x00";
    let pieces: &[u8] = b"\x00\x7e\x04\x00";
    for first in [whole, b"\x01\x00"] {
        let address = serve(anywhere(), move |mut stream| {
            if upgrade(&mut stream) && stream.write_all(first).is_ok() {
                let piece = [pieces, &[b'x'; 1024]].concat();
                forever(&mut stream, if first == whole { b"x" } else { &piece });
            }
        });
        let listener = ListenProcess::start(&["listen", &format!("ws://{address}")]);
        let told = listener.wait_for_line(&format!("Not connected to ws://{address} yet."));
        assert!(told.contains("too large"), "{told}");
        listener.assert_memory_bounded();
    }
}

#[test]
fn four_gibibyte_socket_frame_is_refused() {
    for announced in [u32::MAX, 60 << 20] {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("a.sock");
        let socket = UnixListener::bind(&path).unwrap();
        std::thread::spawn(move || {
            for mut stream in socket.incoming().flatten() {
                let _ = stream.write_all(&announced.to_be_bytes());
                let block = vec![b'x'; 1 << 20];
                let mut left = announced as usize;
                while left > 0 && stream.write_all(&block[..left.min(1 << 20)]).is_ok() {
                    left -= left.min(1 << 20);
                }
            }
        });
        let listener = ListenProcess::start(&["listen", &format!("unix://{}", path.display())]);
        let part = if announced == u32::MAX { "Not connected to" } else { "it has 62914560 bytes" };
        listener.wait_for_line(part);
        listener.assert_memory_bounded();
    }
}

#[test]
fn endless_output_of_a_command_is_cut_off() {
    let listener = ListenProcess::start(&["listen", "stdio:cat /dev/zero"]);
    let told = listener.wait_for_line("Not connected to stdio:cat /dev/zero yet.");
    assert!(told.contains("a message is too long"), "{told}");
    listener.assert_memory_bounded();
}

/// A real gRPC service with messages above the limit.
#[test]
fn oversized_grpc_message_is_refused() {
    let address = grpc::serve();
    let listener = ListenProcess::start(&["listen", &format!("grpc://{address}")]);
    let told = listener.wait_for_line("Not connected to");
    assert!(told.contains("larger") || told.contains("too large") || told.contains("limit"), "{told}");
    listener.assert_memory_bounded();
}

mod grpc {
    use std::pin::Pin;

    use aaep_grpc::v1::aaep_service_server::{AaepService, AaepServiceServer};
    use aaep_grpc::v1::{AaepMessage, GetManifestRequest, Manifest};
    use futures_util::{Stream, stream};
    use tonic::{Request, Response, Status, Streaming};

    struct Endless;

    #[tonic::async_trait]
    impl AaepService for Endless {
        type SubscribeStream = Pin<Box<dyn Stream<Item = Result<AaepMessage, Status>> + Send>>;

        async fn subscribe(
            &self,
            _: Request<Streaming<AaepMessage>>,
        ) -> Result<Response<Self::SubscribeStream>, Status> {
            let json = vec![b'x'; 64 << 20].into();
            let message = AaepMessage { json, message_type: String::new() };
            Ok(Response::new(Box::pin(stream::repeat_with(move || Ok(message.clone())))))
        }

        async fn get_manifest(&self, _: Request<GetManifestRequest>) -> Result<Response<Manifest>, Status> {
            Err(Status::not_found(""))
        }
    }

    /// Starts to serve and returns the address.
    pub(super) fn serve() -> std::net::SocketAddr {
        let listener = super::anywhere();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                let incoming = stream::unfold(listener, |listener| async {
                    let accepted = listener.accept().await.map(|(stream, _)| stream);
                    Some((accepted, listener))
                });
                let service = AaepServiceServer::new(Endless).max_encoding_message_size(usize::MAX);
                tonic::transport::Server::builder().add_service(service).serve_with_incoming(incoming).await.unwrap();
            });
        });
        address
    }
}

/// More than a hundred thousand events per second, as fast as the listener receives them.
#[test]
fn flood_of_a_hundred_thousand_events_is_bounded() {
    let fake = FakeProducer::start();
    let listener = ListenProcess::start(&["listen", &fake.url]);
    fake.wait_for_listener();
    for block in 0..100 {
        let event = |n: u32| {
            let (session, text) = (format!("sess_{}", n % 300), format!("Flood {block} {n}."));
            let fields = match n % 3 {
                0 => ("progress.updated", json!({"summary_normal": text, "session_id": session})),
                1 => ("tool.invoked", json!({"tool": "look", "summary_normal": text, "session_id": session})),
                _ => ("session.started", json!({"summary_normal": text, "session_id": session})),
            };
            format!("data: {}\n\n", fake.event(fields.0, fields.1))
        };
        fake.send((0..1000).map(event).collect::<String>().as_bytes());
    }
    fake.ask("rpl_1", "Delete all.");
    listener.wait_for_line("events per second. Some are delayed, joined or left out.");
    let mut lines = 0;
    listener.process.find("the question", |line| {
        lines += 1;
        line.contains("Question 1: FakeProducer asks: Delete all.").then_some(())
    });
    assert!(lines < 10_000, "{lines} lines before the question");
    listener.assert_memory_bounded();
    assert!(fake.replies().is_empty());
}

/// Texts of the maximum length, of every kind that is kept.
#[test]
fn memory_for_large_events_is_bounded() {
    let fake = FakeProducer::start();
    let listener = ListenProcess::start(&["listen", &fake.url]);
    fake.wait_for_listener();
    let long = "All of this is long. ".repeat(40_000);
    for n in 0..150 {
        let fields = json!({"urgency": "critical", "action": long, "consequence": "It is gone.", "timeout_seconds": 600,
            "reply_token": format!("rpl_{n}"), "default_decision": "reject", "session_id": format!("sess_{n}")});
        fake.emit("awaiting.confirmation", fields);
        let fields = json!({"urgency": "critical", "error_category": "unknown", "summary_normal": long,
            "session_id": format!("sess_{n}")});
        fake.emit("session.errored", fields);
    }
    fake.emit(
        "session.errored",
        json!({"urgency": "critical", "error_category": "unknown", "summary_normal": "Last."}),
    );
    listener.wait_for_line("Last.");
    listener.assert_memory_bounded();
    assert!(fake.replies().is_empty());
}

/// Events that are small on the wire and large in memory.
#[test]
fn memory_for_small_events_is_bounded() {
    let fake = FakeProducer::start();
    let listener = ListenProcess::start(&["listen", &fake.url]);
    fake.wait_for_listener();
    let crowd = |count: usize| -> Value { vec![json!({"a": 0}); count].into() };
    for (count, number) in [(100_000, 2), (6_000, 60), (100, 600)] {
        for n in 0..number {
            let fields = json!({"urgency": "critical", "action": "Delete all.", "consequence": "It is gone.",
                "timeout_seconds": 600, "reply_token": format!("rpl_{count}x{n}"), "default_decision": "reject",
                "session_id": format!("sess_{count}x{n}"), "extra_context": {"crowd": crowd(count)}});
            fake.emit("awaiting.confirmation", fields);
        }
    }
    fake.emit(
        "session.errored",
        json!({"urgency": "critical", "error_category": "unknown", "summary_normal": "Last."}),
    );
    listener.wait_for_line("Last.");
    listener.assert_memory_bounded();
    assert!(fake.replies().is_empty());
}

/// Outputs that do not end, in as many sessions as possible.
#[test]
fn memory_for_unfinished_outputs_is_bounded() {
    let fake = FakeProducer::start();
    let listener = ListenProcess::start(&["listen", &fake.url]);
    fake.wait_for_listener();
    let chunk = "no end in sight ".repeat(1000);
    for session in 0..100 {
        for output in 0..20 {
            let fields = json!({"chunk": chunk, "position": 0, "complete": false, "coalesce_hint": "none",
                "urgency": "critical", "output_id": format!("out_{output}"), "session_id": format!("sess_{session}")});
            fake.emit("output.streaming", fields);
        }
    }
    fake.emit(
        "session.errored",
        json!({"urgency": "critical", "error_category": "unknown", "summary_normal": "Last."}),
    );
    listener.wait_for_line("Last.");
    listener.assert_memory_bounded();
}
