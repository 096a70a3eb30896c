//! Cost of durability: events per second to 100 subscribers with the store and in memory, in one run; and the start time
//! with a long history, of the store alone and of `aaep serve` until it is ready. `AAEP_BENCH_HISTORY_MIB` sets the size
//! of the history (1024). Builds `aaep` in release mode unless `AAEP_BIN` has its path.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use aaep::Producer;
use aaep::journal::{Journal, JournalEntry};
use aaep::message::{Capabilities, Payload};
use aaep::transport::Outbound;
use aaep_store::{Retention, Store};
use aaep_test::aaep_release;

const SUBSCRIBERS: usize = 100;
const EVENTS: usize = 3000;
const ROUNDS: usize = 3;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let _inside = runtime.enter();
    let dir = tempfile::tempdir().expect("a directory");
    let (mut memory, mut stored) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        memory.push(runtime.block_on(run(Producer::builder("memory").build())));
        let (store, restored) =
            Store::open_single(&dir.path().join(round.to_string()), Retention::default()).expect("a store");
        stored.push(runtime.block_on(run(Producer::builder("stored").journal(store, restored).build())));
    }
    let best = |times: &[Duration]| times.iter().min().map_or(1.0, Duration::as_secs_f64);
    let rate = |times: &[Duration]| EVENTS as f64 / best(times);
    println!("{SUBSCRIBERS} subscribers in the process, {EVENTS} events, best of {ROUNDS} rounds in turn");
    println!("in memory:      {:.0} events/s, {:.0} deliveries/s", rate(&memory), rate(&memory) * SUBSCRIBERS as f64);
    println!("with the store: {:.0} events/s, {:.0} deliveries/s", rate(&stored), rate(&stored) * SUBSCRIBERS as f64);
    println!("with the store it is {:.0} % of in memory", 100.0 * rate(&stored) / rate(&memory));
    decisions(&runtime, &dir.path().join("decisions"));
    cold_start(&dir.path().join("history"));
}

/// Measures the time until every subscriber has received every event.
async fn run(producer: Producer) -> Duration {
    let mut readers = Vec::new();
    for n in 0..SUBSCRIBERS {
        let mut link = producer.subscribe_local(&format!("reader{n}"), Capabilities::default()).await.expect("a place");
        readers.push(tokio::spawn(async move {
            let mut batch = Vec::new();
            while link.recv_many(&mut batch, 256).await > 0 {
                let ended = |item: &Outbound| match item {
                    Outbound::Event(frame) => matches!(frame.event().payload, Payload::SessionCompleted(_)),
                    _ => false,
                };
                if batch.drain(..).any(|item| ended(&item)) {
                    return;
                }
            }
        }));
    }
    let session = producer.session("Talking.").await.expect("a session");
    let begun = Instant::now();
    for n in 0..EVENTS {
        session
            .report_progress(1, &format!("Step {n} of many is done, and there is more to come."))
            .await
            .expect("said");
        producer.wait_for_capacity().await;
    }
    session.complete("Done.").await.expect("said");
    for reader in readers {
        reader.await.expect("a reader");
    }
    begun.elapsed()
}

/// Measures decisions that wait for the disk, one after the other.
fn decisions(runtime: &tokio::runtime::Runtime, dir: &Path) {
    let (store, _) = Store::open_single(dir, Retention::default()).expect("a store");
    let count = 200;
    let begun = Instant::now();
    for n in 0..count {
        let (tell, told) = tokio::sync::oneshot::channel();
        let entry = JournalEntry::Sent(format!("evt_{n}").parse().expect("an id"), None);
        store.record(vec![entry], Some(Box::new(move |kept| _ = tell.send(kept))));
        assert!(runtime.block_on(told).expect("an answer"));
    }
    let each = begun.elapsed() / count;
    println!("a commit that a caller waits for, one after the other: {:.2} ms", each.as_secs_f64() * 1000.0);
}

/// Measures the start with a long history.
fn cold_start(dir: &Path) {
    let mib: usize = std::env::var("AAEP_BENCH_HISTORY_MIB").ok().and_then(|v| v.parse().ok()).unwrap_or(1024);
    let event = serde_json::json!({"@context": "https://aaep-protocol.org/context/v1",
        "type": "aaep:agent.progress.updated", "event_id": "evt_1", "session_id": "sess_1",
        "timestamp": "2026-05-24T14:22:13Z", "producer": {"agent_id": "a"},
        "progress": {"description": "word ".repeat(160)}});
    let event: aaep::message::Event = serde_json::from_value(event).expect("an event");
    let size = serde_json::to_vec(&event).map_or(1, |json| json.len());
    let (store, _) = Store::open_single(dir, Retention::default()).expect("a store");
    for _ in 0..(mib << 20) / size / 10_000 {
        let (tell, told) = std::sync::mpsc::channel();
        let entries = vec![JournalEntry::Event(Box::new(event.clone())); 10_000];
        store.record(entries, Some(Box::new(move |kept| _ = tell.send(kept))));
        assert!(told.recv().expect("an answer"));
    }
    drop(store);
    let bytes = std::fs::metadata(dir.join("aaep.db")).map_or(0, |m| m.len());
    let begun = Instant::now();
    let (store, _) = Store::open_single(dir, Retention::default()).expect("a store");
    println!("a start with {} MiB of history: {:.1} ms", bytes >> 20, begun.elapsed().as_secs_f64() * 1000.0);
    drop(store);
    let warm: Vec<Duration> = (0..5).map(|_| serve(dir)).collect();
    let millis = |time: &Duration| format!("{:.0}", time.as_secs_f64() * 1000.0);
    println!("aaep serve on it, from the start of the process to /readyz: {} ms", words(&warm, millis));
    if !drop_caches() {
        return println!("the page cache cannot be dropped here: no figure for a cold one");
    }
    let cold: Vec<Duration> = (0..3)
        .map(|_| {
            drop_caches();
            serve(dir)
        })
        .collect();
    println!("the same after the page cache was dropped: {} ms", words(&cold, millis));
}

fn words(times: &[Duration], word: impl Fn(&Duration) -> String) -> String {
    times.iter().map(word).collect::<Vec<_>>().join(", ")
}

/// Measures the time until `aaep serve` is ready.
fn serve(dir: &Path) -> Duration {
    let address = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port");
    let mut command = Command::new(aaep_release());
    command.args(["serve", "--no-unix", "--listen", &address.to_string(), "--data"]).arg(dir);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let begun = Instant::now();
    let mut child = command.spawn().expect("it starts");
    while !is_ready(address) {
        assert!(begun.elapsed() < Duration::from_secs(60), "it does not become ready");
        std::thread::sleep(Duration::from_millis(1));
    }
    let time = begun.elapsed();
    child.kill().expect("it runs");
    child.wait().expect("it has ended");
    time
}

fn is_ready(address: SocketAddr) -> bool {
    let ask = || {
        let mut stream = TcpStream::connect(address)?;
        stream.write_all(b"GET /readyz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok::<_, std::io::Error>(answer)
    };
    ask().is_ok_and(|answer| answer.starts_with("HTTP/1.1 200"))
}

/// Drops the page cache, which needs root.
fn drop_caches() -> bool {
    let synced = Command::new("sync").status().is_ok_and(|status| status.success());
    synced && std::fs::write("/proc/sys/vm/drop_caches", "3").is_ok()
}
