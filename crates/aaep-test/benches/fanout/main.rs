//! Cost of fan-out to many subscribers: the server, a raw loop with one write per event and socket, and a plain axum
//! handler over a broadcast channel, in the same run.
//!
//! `cargo bench -p aaep-test --bench fanout` measures 1, 100, 1,000 and 5,000 subscribers; `-- --quick` only 1,000.
//! Each server runs in its own process, so that its processor time and memory are known. They run alternately.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a measurement that cannot go on ends")]

mod client;
mod report;
mod servers;

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use client::Crowd;
use report::{Cost, Row, Usage};

/// The servers that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Contestant {
    /// One write for each event and socket, without a protocol.
    Raw,
    /// axum's SSE over a broadcast channel.
    Axum,
    /// This server over SSE.
    Sse,
    /// This server over WebSocket.
    WebSocket,
}

impl Contestant {
    const ALL: [Contestant; 4] = [Contestant::Raw, Contestant::Axum, Contestant::Sse, Contestant::WebSocket];

    fn name(self) -> &'static str {
        match self {
            Contestant::Raw => "raw loop",
            Contestant::Axum => "axum",
            Contestant::Sse => "aaep SSE",
            Contestant::WebSocket => "aaep WebSocket",
        }
    }
}

/// The process of a server.
struct Server {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<std::process::ChildStdout>,
    address: std::net::SocketAddr,
}

impl Server {
    fn start(contestant: Contestant) -> Server {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--serve", contestant.name()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let orders = child.stdin.take().unwrap();
        let mut answers = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        answers.read_line(&mut line).unwrap();
        Server { child, orders, answers, address: line.trim().parse().unwrap() }
    }

    /// Sends a command and waits until it is done.
    fn order(&mut self, order: &str) {
        writeln!(self.orders, "{order}").unwrap();
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        assert_eq!(line.trim(), "done", "after {order}");
    }

    fn usage(&self) -> Usage {
        Usage::of(self.child.id())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if let Some(at) = args.iter().position(|arg| arg == "--serve") {
        let contestant = Contestant::ALL.into_iter().find(|c| c.name() == args[at + 1]).unwrap();
        pin(true);
        return servers::run(contestant);
    }
    let quick = args.iter().any(|arg| arg == "--quick");
    let sizes: &[usize] = if quick { &[1000] } else { &[1, 100, 1000, 5000] };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .on_thread_start(|| pin(false))
        .enable_all()
        .build()
        .unwrap();
    for size in sizes {
        println!("\n{size} subscribers, events of about 600 bytes");
        let together = (CONNECTIONS / size).clamp(1, Contestant::ALL.len());
        let rows = Contestant::ALL.chunks(together).flat_map(|contestants| {
            let mut runs: Vec<Run> = contestants.iter().map(|c| Run::new(&runtime, *c, *size)).collect();
            // Alternately, so that other load affects all alike.
            for _ in 0..TURNS {
                runs.iter_mut().for_each(Run::saturated);
                runs.iter_mut().for_each(Run::paced);
                runs.iter_mut().for_each(Run::critical);
            }
            runs.into_iter().map(Run::end)
        });
        report::print(&rows.collect::<Vec<_>>());
    }
}

/// Maximum number of concurrent connections: the number of open files is limited.
const CONNECTIONS: usize = 10_000;

/// Number of rounds of each server.
const TURNS: usize = 4;

/// Events of one round at five per second.
const PACED: usize = 12;

/// A server, its subscribers, and the measurements.
struct Run {
    contestant: Contestant,
    server: Server,
    crowd: Crowd,
    row: Row,
    size: usize,
}

impl Run {
    fn new(runtime: &tokio::runtime::Runtime, contestant: Contestant, size: usize) -> Run {
        let server = Server::start(contestant);
        let before = server.usage().resident_kib;
        let crowd = runtime.block_on(Crowd::join(contestant, server.address, size));
        let idle_kib = server.usage().resident_kib.saturating_sub(before) as f64 / size as f64;
        let row = Row { name: contestant.name(), idle_kib, ..Row::default() };
        Run { contestant, server, crowd, row, size }
    }

    /// Returns the events of one saturated round: about the same number of deliveries for every size.
    fn burst(&self) -> usize {
        (1_000_000 / self.size).clamp(64, 20_000) / 64 * 64
    }

    /// Sends a command and waits until every subscriber has received its events. Returns the cost.
    fn take(&mut self, order: &str, events: usize) -> Cost {
        let (already, start) = (self.crowd.events(), self.server.usage());
        self.server.order(order);
        self.crowd.wait_for(already + events * self.size);
        Cost::between(events * self.size, &start, &self.server.usage())
    }

    fn saturated(&mut self) {
        let events = self.burst();
        let cost = self.take(&format!("saturate {events}"), events);
        self.row.saturated += cost;
    }

    fn paced(&mut self) {
        let cost = self.take(&format!("pace {PACED}"), PACED);
        self.row.paced += cost;
    }

    /// Measures critical events, first one at a time, then under full load.
    fn critical(&mut self) {
        if !matches!(self.contestant, Contestant::Sse | Contestant::WebSocket) {
            return;
        }
        let events = self.burst();
        self.crowd.take_latencies();
        for _ in 0..events / 64 {
            self.take("critical", 1);
        }
        self.row.unloaded.extend(self.crowd.take_latencies());
        self.take(&format!("mixed {events}"), events + events / 64);
        self.row.loaded.extend(self.crowd.take_latencies());
    }

    fn end(mut self) -> Row {
        std::thread::sleep(Duration::from_millis(50));
        self.row.lost = self.crowd.lost();
        self.row
    }
}

/// Pins the server to one core and the subscribers to the others, so that they do not compete.
fn pin(serves: bool) {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    let all = sched_getaffinity(None).unwrap();
    let first = (0..CpuSet::MAX_CPU).find(|cpu| all.is_set(*cpu)).unwrap();
    let mut own = CpuSet::new();
    (0..CpuSet::MAX_CPU).filter(|cpu| all.is_set(*cpu) && (*cpu == first) == serves).for_each(|cpu| own.set(cpu));
    // With one core there is nothing to divide.
    if own.count() > 0 {
        sched_setaffinity(None, &own).unwrap();
    }
}
