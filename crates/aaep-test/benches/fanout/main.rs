//! What it costs to tell many subscribers: the server beside a raw loop with one write per event and socket, and a
//! plain axum handler over a broadcast channel, in the same run.
//!
//! `cargo bench -p aaep-test --bench fanout` measures 1, 100, 1,000 and 5,000 subscribers; `-- --quick` only 1,000.
//! Each contestant runs in a process of its own, so its processor time and memory are its own.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a measurement that cannot go on ends")]

mod client;
mod report;
mod servers;

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use client::Crowd;
use report::{Row, Usage};

/// Who takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Contestant {
    /// One write for each event and socket; no protocol at all.
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

/// A contestant's process.
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

    /// Gives an order and waits until it is carried out.
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
        return servers::run(contestant);
    }
    let quick = args.iter().any(|arg| arg == "--quick");
    let sizes: &[usize] = if quick { &[1000] } else { &[1, 100, 1000, 5000] };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    for size in sizes {
        println!("\n{size} subscribers, events of about 600 bytes");
        let rows: Vec<Row> = Contestant::ALL.into_iter().map(|c| measure(&runtime, c, *size)).collect();
        report::print(&rows);
    }
}

/// Events of one saturated run: about the same number of deliveries for every size.
fn saturating(size: usize) -> usize {
    (1_000_000 / size).clamp(64, 20_000) / 64 * 64
}

fn measure(runtime: &tokio::runtime::Runtime, contestant: Contestant, size: usize) -> Row {
    let mut server = Server::start(contestant);
    let before = server.usage();
    let crowd = runtime.block_on(Crowd::join(contestant, server.address, size));
    let idle = server.usage();
    let mut row = Row::new(contestant.name(), size);
    row.idle_kib = (idle.resident_kib.saturating_sub(before.resident_kib)) as f64 / size as f64;
    // Unloaded: one critical event at a time.
    if matches!(contestant, Contestant::Sse | Contestant::WebSocket) {
        for _ in 0..20 {
            let already = crowd.events();
            server.order("critical");
            crowd.wait_for(already + size);
        }
        row.unloaded = crowd.take_latencies();
    }
    let events = saturating(size);
    let (already, start) = (crowd.events(), server.usage());
    server.order(&format!("saturate {events}"));
    crowd.wait_for(already + events * size);
    row.saturated(events * size, &start, &server.usage());
    let (already, start) = (crowd.events(), server.usage());
    server.order("pace 24");
    crowd.wait_for(already + 24 * size);
    row.paced(24 * size, &start, &server.usage());
    if matches!(contestant, Contestant::Sse | Contestant::WebSocket) {
        let already = crowd.events();
        crowd.take_latencies();
        server.order(&format!("mixed {events}"));
        crowd.wait_for(already + (events + events / 64) * size);
        row.loaded = crowd.take_latencies();
    }
    std::thread::sleep(Duration::from_millis(50));
    row.lost = crowd.lost();
    row
}
