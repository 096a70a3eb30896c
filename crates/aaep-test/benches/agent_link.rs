//! CPU time of `aaep serve` per event of an agent: the agent posts events one by one over HTTP, on one connection that is
//! kept alive, and one subscriber receives them over SSE. `AAEP_BENCH_EVENTS` sets how many events (20000). Without
//! `AAEP_BIN`, which names the command to measure, a release build is made. Linux only: it reads `/proc`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use aaep_test::aaep_release;

/// Events before the measurement.
const WARM_UP_EVENTS: usize = 500;

/// Duration of one tick of `/proc/PID/stat`, which is 10 ms on every Linux that Rust supports.
const TICK: Duration = Duration::from_millis(10);

/// How long a server may take to start or to respond.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A kind of event, and how to write the event with a number.
type MakeEvent = fn(usize) -> String;
const KINDS: [(&str, MakeEvent); 2] = [("progress", progress), ("text", text)];

fn progress(number: usize) -> String {
    format!(
        r#"{{"type":"progress.updated","session_id":"s","progress":{{"step":{number}}},"summary_normal":"One more step is done."}}"#
    )
}

fn text(number: usize) -> String {
    format!(r#"{{"type":"output.streaming","session_id":"s","chunk":"This is sentence number {number}. "}}"#)
}

fn main() {
    let events: usize = std::env::var("AAEP_BENCH_EVENTS").ok().and_then(|v| v.parse().ok()).unwrap_or(20_000);
    println!("{events} events, each posted by itself on one connection, to one SSE subscriber");
    for (name, event) in KINDS {
        let server = ServerProcess::start();
        let received = subscribe(&server.address);
        let mut agent = HttpClient::connect(&server.address);
        agent.post_event(r#"{"type":"session.started","session_id":"s","summary_normal":"Working."}"#);
        (1..=WARM_UP_EVENTS).for_each(|number| agent.post_event(&event(number)));
        let (cpu_before, started) = (server.cpu_time(), Instant::now());
        (1..=events).for_each(|number| agent.post_event(&event(number)));
        let (cpu, elapsed) = (server.cpu_time().since(cpu_before), started.elapsed());
        let micros = |time: Duration| time.as_secs_f64() * 1e6 / events as f64;
        println!(
            "{name}: {:.1} us CPU per event (user {:.1}, system {:.1}); {:.0} events/s",
            micros(cpu.user + cpu.system),
            micros(cpu.user),
            micros(cpu.system),
            events as f64 / elapsed.as_secs_f64()
        );
        agent.post_event(r#"{"type":"session.completed","session_id":"s","summary_normal":"Done."}"#);
        let bytes = received.join().expect("the subscriber receives the end of the session");
        println!("  the subscriber received {bytes} bytes");
    }
}

/// CPU time of a process.
#[derive(Clone, Copy)]
struct CpuTime {
    user: Duration,
    system: Duration,
}

impl CpuTime {
    fn since(self, earlier: CpuTime) -> CpuTime {
        CpuTime { user: self.user - earlier.user, system: self.system - earlier.system }
    }
}

/// A running `aaep serve`, killed when it is dropped.
struct ServerProcess {
    child: Child,
    address: String,
}

impl ServerProcess {
    fn start() -> ServerProcess {
        let mut child = Command::new(aaep_release())
            .args(["serve", "--listen", "127.0.0.1:0", "--no-unix"])
            .env("AAEP_LIMITS__REQUESTS_PER_SECOND", "1000000")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the command starts");
        let lines = BufReader::new(child.stdout.take().expect("stdout is piped")).lines();
        let url = lines.map_while(Result::ok).find_map(|line| line.strip_prefix("Serving at ").map(str::to_owned));
        let url = url.expect("the server prints its address");
        ServerProcess { child, address: url.trim_start_matches("http://").trim_end_matches('/').to_owned() }
    }

    fn cpu_time(&self) -> CpuTime {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).expect("the server runs");
        // The name of the command, in parentheses, may have spaces. `utime` and `stime` are fields 14 and 15.
        let fields = stat.rsplit_once(')').expect("the name ends").1;
        let mut ticks = fields.split_whitespace().skip(11).map(|field| field.parse::<u32>().expect("a number"));
        let mut next = || TICK * ticks.next().expect("a field");
        CpuTime { user: next(), system: next() }
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One HTTP/1.1 connection that is kept alive.
struct HttpClient {
    stream: BufReader<TcpStream>,
}

impl HttpClient {
    fn connect(address: &str) -> HttpClient {
        let stream = TcpStream::connect(address).expect("a connection");
        stream.set_nodelay(true).expect("an option");
        stream.set_read_timeout(Some(TIMEOUT)).expect("an option");
        HttpClient { stream: BufReader::new(stream) }
    }

    fn post_event(&mut self, event: &str) {
        let (status, body) = self.post("/aaep/v1/agent/events", event);
        assert_eq!(status, 200, "{body}");
    }

    /// Sends a request and reads its response, which must have a length. Returns the status and the body.
    fn post(&mut self, path: &str, body: &str) -> (u16, String) {
        let length = body.len();
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        self.stream.get_mut().write_all(request.as_bytes()).expect("the request is sent");
        let (mut status, mut length, mut line) = (0, 0, String::new());
        loop {
            line.clear();
            self.stream.read_line(&mut line).expect("a response");
            let lower = line.trim_end().to_ascii_lowercase();
            if lower.is_empty() {
                break;
            } else if let Some(rest) = lower.strip_prefix("http/1.1 ") {
                status = rest.split(' ').next().and_then(|code| code.parse().ok()).expect("a status");
            } else if let Some(value) = lower.strip_prefix("content-length:") {
                length = value.trim().parse().expect("a length");
            }
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).expect("a body");
        (status, String::from_utf8(body).expect("UTF-8"))
    }
}

/// Subscribes over SSE. The thread reads until the session has ended and returns the number of bytes.
fn subscribe(address: &str) -> std::thread::JoinHandle<usize> {
    let request = r#"{"type":"subscription.request","aaep_version":"1.0.0","subscriber_id":"bench","capabilities":{"cognitive_load":"high"}}"#;
    let (status, accepted) = HttpClient::connect(address).post("/aaep/v1/subscriptions", request);
    assert_eq!(status, 201, "{accepted}");
    let id = accepted.split(r#""subscription_id":""#).nth(1).and_then(|rest| rest.split('"').next()).expect("an id");
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(Some(TIMEOUT)).expect("an option");
    let request = format!(
        "GET /aaep/v1/events?subscription_id={id} HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).expect("the request is sent");
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).expect("a response");
    assert!(line.contains(" 200 "), "{line}");
    std::thread::spawn(move || {
        let (mut bytes, mut line) = (0, Vec::new());
        loop {
            line.clear();
            let read = reader.read_until(b'\n', &mut line).expect("the stream goes on");
            assert!(read > 0, "the stream ended early");
            bytes += read;
            if line.starts_with(b"data:") && line.windows(17).any(|part| part == b"session.completed") {
                return bytes;
            }
        }
    })
}
