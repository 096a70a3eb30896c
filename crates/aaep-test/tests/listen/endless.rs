//! Producers that send without end: the user is told, nothing is answered for them, and memory stays bounded.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::process::Command;

use aaep_test::{Process, aaep};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::agents::Puppet;

/// The most memory that a listener may use, whatever is sent to it. Of this, a third is the program itself where it was
/// not optimized.
const MOST_KIB: u64 = 96 * 1024;

/// A terminal without a keyboard, in a home of its own.
pub(crate) struct Listener {
    pub(crate) process: Process,
    _home: TempDir,
}

impl Listener {
    pub(crate) fn start(arguments: &[&str]) -> Listener {
        let home = tempfile::tempdir().unwrap();
        let mut command = Command::new(aaep());
        command.args(arguments).env("XDG_RUNTIME_DIR", home.path()).env("HOME", home.path());
        command.env_remove("XDG_CONFIG_HOME").env_remove("XDG_STATE_HOME").env_remove("AAEP_TOKEN");
        Listener { process: Process::start(&mut command), _home: home }
    }

    /// Waits for a line that has this in it.
    fn hears(&self, part: &str) -> String {
        self.process.find(part, |line| line.contains(part).then(|| line.to_owned()))
    }

    /// Looks at the memory.
    fn is_modest(&self) {
        if let Some(peak) = self.process.peak_kib() {
            println!("{peak} KiB");
            assert!(peak < MOST_KIB, "{peak} KiB");
        }
    }
}

/// Serves one connection after the other by this function.
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

/// Writes these bytes again and again until the other side has had enough of them.
fn forever(stream: &mut impl Write, bytes: &[u8]) {
    let block = bytes.repeat((64 * 1024 / bytes.len()).max(1));
    while stream.write_all(&block).is_ok() {}
}

/// A stream that was in order until then goes on with this, so many times: it is cut off, and the user is told.
fn after_a_good_start(begins: &[u8], goes_on: &[u8], times: usize) {
    let puppet = Puppet::start();
    let listener = Listener::start(&["listen", &puppet.url]);
    puppet.has_listener();
    puppet.say("session.started", json!({"summary_normal": "Working."}));
    listener.hears("Working.");
    puppet.send(begins);
    (0..times).for_each(|_| puppet.send(goes_on));
    listener.hears("The connection to Puppet is lost");
    listener.is_modest();
    assert!(puppet.heard().is_empty());
}

#[test]
fn a_line_of_events_without_end() {
    after_a_good_start(b"data: {\"type\":\"", &vec![b'x'; 1 << 20], 100);
}

#[test]
fn an_event_of_lines_without_end() {
    after_a_good_start(b"", "data: 123456789\n".repeat(1 << 16).as_bytes(), 140);
}

#[test]
fn an_event_id_of_a_mebibyte_before_many_empty_events() {
    let puppet = Puppet::start();
    let listener = Listener::start(&["listen", &puppet.url]);
    puppet.has_listener();
    puppet.send(format!("id: {}\n", "x".repeat(1_000_000)).as_bytes());
    puppet.send("data: 1\n\n".repeat(20_000).as_bytes());
    puppet.say("session.started", json!({"summary_normal": "Working."}));
    listener.hears("A message of the agent could not be read");
    listener.hears("Working.");
    listener.is_modest();
}

/// An HTTP server whose every answer begins so and goes on like that.
fn goes_on(begins: &'static [u8], goes_on: &'static [u8]) {
    let address = serve(anywhere(), move |mut stream| {
        request(&mut stream);
        let _ = stream.write_all(begins);
        forever(&mut stream, goes_on);
    });
    let listener = Listener::start(&["listen", &format!("http://{address}")]);
    listener.hears(&format!("Not connected to http://{address} yet."));
    listener.is_modest();
}

#[test]
fn headers_without_end() {
    goes_on(b"HTTP/1.1 200 OK\r\n", b"X-More: and more\r\n");
}

#[test]
fn a_manifest_without_end() {
    goes_on(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{\"agent_id\":\"", b"x");
}

#[test]
fn a_manifest_that_is_small_and_grows_in_memory() {
    let values = "{\"\":0},".repeat(148_000);
    let puppet = Puppet::start();
    puppet.page("/.well-known/aaep-manifest.json", &format!("{{\"type\":\"x\",\"agent_id\":[{values}0]}}"));
    let listener = Listener::start(&["listen", &puppet.url]);
    puppet.has_listener();
    puppet.say("session.started", json!({"summary_normal": "Working."}));
    listener.hears("Working.");
    listener.is_modest();
}

/// The answer to the key of a handshake, as RFC 6455 has it.
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
fn a_websocket_message_of_a_gibibyte() {
    // Announced at once, or in pieces that go on and on.
    let whole: &[u8] = b"\x81\x7f\x00\x00\x00\x00\x40\x00\x00\x00";
    let pieces: &[u8] = b"\x00\x7e\x04\x00";
    for first in [whole, b"\x01\x00"] {
        let address = serve(anywhere(), move |mut stream| {
            if upgrade(&mut stream) && stream.write_all(first).is_ok() {
                let piece = [pieces, &[b'x'; 1024]].concat();
                forever(&mut stream, if first == whole { b"x" } else { &piece });
            }
        });
        let listener = Listener::start(&["listen", &format!("ws://{address}")]);
        let told = listener.hears(&format!("Not connected to ws://{address} yet."));
        assert!(told.contains("too large"), "{told}");
        listener.is_modest();
    }
}

#[test]
fn a_frame_of_four_gibibytes_on_a_socket() {
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
        let listener = Listener::start(&["listen", &format!("unix://{}", path.display())]);
        let part = if announced == u32::MAX { "Not connected to" } else { "it has 62914560 bytes" };
        listener.hears(part);
        listener.is_modest();
    }
}

#[test]
fn a_command_that_prints_without_end() {
    let listener = Listener::start(&["listen", "stdio:cat /dev/zero"]);
    let told = listener.hears("Not connected to stdio:cat /dev/zero yet.");
    assert!(told.contains("does not end"), "{told}");
    listener.is_modest();
}

/// One connection after the other by a real service whose messages are larger than any may be.
#[test]
fn a_message_without_end_over_grpc() {
    let address = grpc::serve();
    let listener = Listener::start(&["listen", &format!("grpc://{address}")]);
    let told = listener.hears("Not connected to");
    assert!(told.contains("larger") || told.contains("too large") || told.contains("limit"), "{told}");
    listener.is_modest();
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

    /// Serves, and answers where.
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

/// More than a hundred thousand events per second, as fast as they are taken.
#[test]
fn a_hundred_thousand_events_at_once() {
    let puppet = Puppet::start();
    let listener = Listener::start(&["listen", &puppet.url]);
    puppet.has_listener();
    for block in 0..100 {
        let event = |n: u32| {
            let (session, text) = (format!("sess_{}", n % 300), format!("Flood {block} {n}."));
            let fields = match n % 3 {
                0 => ("progress.updated", json!({"summary_normal": text, "session_id": session})),
                1 => ("tool.invoked", json!({"tool": "look", "summary_normal": text, "session_id": session})),
                _ => ("session.started", json!({"summary_normal": text, "session_id": session})),
            };
            format!("data: {}\n\n", puppet.event(fields.0, fields.1))
        };
        puppet.send((0..1000).map(event).collect::<String>().as_bytes());
    }
    puppet.ask("rpl_1", "Delete all.");
    listener.hears("events per second. Some wait, some are put together or left out.");
    let mut lines = 0;
    listener.process.find("the question", |line| {
        lines += 1;
        line.contains("Question 1: Puppet asks: Delete all.").then_some(())
    });
    assert!(lines < 10_000, "{lines} lines before the question");
    listener.is_modest();
    assert!(puppet.heard().is_empty());
}

/// Texts as long as a message may be, of every kind that is kept.
#[test]
fn many_large_events_are_not_all_kept() {
    let puppet = Puppet::start();
    let listener = Listener::start(&["listen", &puppet.url]);
    puppet.has_listener();
    let long = "All of this is long. ".repeat(40_000);
    for n in 0..150 {
        let fields = json!({"urgency": "critical", "action": long, "consequence": "It is gone.", "timeout_seconds": 600,
            "reply_token": format!("rpl_{n}"), "default_decision": "reject", "session_id": format!("sess_{n}")});
        puppet.say("awaiting.confirmation", fields);
        let fields = json!({"urgency": "critical", "error_category": "unknown", "summary_normal": long,
            "session_id": format!("sess_{n}")});
        puppet.say("session.errored", fields);
    }
    puppet
        .say("session.errored", json!({"urgency": "critical", "error_category": "unknown", "summary_normal": "Last."}));
    listener.hears("Last.");
    listener.is_modest();
    assert!(puppet.heard().is_empty());
}

/// Documents that are small on the wire and large in memory.
#[test]
fn many_small_events_are_not_all_kept() {
    let puppet = Puppet::start();
    let listener = Listener::start(&["listen", &puppet.url]);
    puppet.has_listener();
    let crowd = |count: usize| -> Value { vec![json!({"a": 0}); count].into() };
    for (count, number) in [(100_000, 2), (6_000, 60), (100, 600)] {
        for n in 0..number {
            let fields = json!({"urgency": "critical", "action": "Delete all.", "consequence": "It is gone.",
                "timeout_seconds": 600, "reply_token": format!("rpl_{count}x{n}"), "default_decision": "reject",
                "session_id": format!("sess_{count}x{n}"), "extra_context": {"crowd": crowd(count)}});
            puppet.say("awaiting.confirmation", fields);
        }
    }
    puppet
        .say("session.errored", json!({"urgency": "critical", "error_category": "unknown", "summary_normal": "Last."}));
    listener.hears("Last.");
    listener.is_modest();
    assert!(puppet.heard().is_empty());
}

/// Outputs that begin and do not end, in as many sessions as can be.
#[test]
fn many_unfinished_outputs_are_not_all_kept() {
    let puppet = Puppet::start();
    let listener = Listener::start(&["listen", &puppet.url]);
    puppet.has_listener();
    let chunk = "no end in sight ".repeat(1000);
    for session in 0..100 {
        for output in 0..20 {
            let fields = json!({"chunk": chunk, "position": 0, "complete": false, "coalesce_hint": "none",
                "urgency": "critical", "output_id": format!("out_{output}"), "session_id": format!("sess_{session}")});
            puppet.say("output.streaming", fields);
        }
    }
    puppet
        .say("session.errored", json!({"urgency": "critical", "error_category": "unknown", "summary_normal": "Last."}));
    listener.hears("Last.");
    listener.is_modest();
}
