//! A thousand subscribers, some slow, some disconnecting, some hostile: the healthy ones receive everything, and no
//! resources are leaked.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Barrier;
use tokio_tungstenite::tungstenite::Message;

use crate::harness::*;
use crate::ws;

const HEALTHY_SSE: usize = 400;
const HEALTHY_WS: usize = 400;
const SLOW: usize = 60;
const DYING: usize = 80;
const HOSTILE: usize = 60;
const SENTENCES: usize = 40;

/// What a healthy subscriber must have received: all text once and in order, the question before what followed it.
#[derive(Default)]
struct ReceivedEvents {
    text: String,
    question: bool,
    completed: bool,
}

impl ReceivedEvents {
    fn take(&mut self, event: &Value) {
        match kind_of(event) {
            "output.streaming" => {
                assert_eq!(event["position"], self.text.chars().count(), "no text is missing or doubled");
                self.text.push_str(event["chunk"].as_str().unwrap());
            }
            "awaiting.confirmation" => {
                assert_eq!(event["urgency"], "critical");
                self.question = true;
            }
            "session.completed" => self.completed = true,
            _ => assert!(!self.completed, "nothing follows the end"),
        }
    }

    fn check(&self) {
        assert_eq!(self.text, story());
        assert!(self.question);
    }
}

fn sentence(n: usize) -> String {
    format!("This is sentence number {n} of a story that everyone hears. ")
}

fn story() -> String {
    (0..SENTENCES).map(sentence).collect()
}

/// Open files and memory of this process.
fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

fn resident_kib() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

async fn healthy_sse(address: std::net::SocketAddr, ready: Arc<Barrier>) {
    let id = subscribe(address, &request(), None).await;
    let mut stream = Stream::open(address, &id, &[]).await;
    ready.wait().await;
    let mut received = ReceivedEvents::default();
    while !received.completed {
        received.take(&stream.next().await.expect("the stream stays open to the end").data);
    }
    received.check();
}

async fn healthy_ws(address: std::net::SocketAddr, ready: Arc<Barrier>, accepts: bool) {
    let (mut socket, id) = ws::subscribed(address).await;
    ready.wait().await;
    let mut received = ReceivedEvents::default();
    while !received.completed {
        let event = ws::receive(&mut socket).await.expect("the socket stays open to the end");
        received.take(&event);
        if accepts && kind_of(&event) == "awaiting.confirmation" {
            ws::send(&mut socket, &reply(&id, event["reply_token"].as_str().unwrap(), "accept")).await;
        }
    }
    received.check();
}

/// Subscribes and then never reads.
async fn slow(address: std::net::SocketAddr, ready: Arc<Barrier>, over: Arc<Barrier>) {
    let (socket, _) = ws::subscribed(address).await;
    ready.wait().await;
    over.wait().await;
    drop(socket);
}

/// Subscribes, reads a little, and drops the connection.
async fn dying(address: std::net::SocketAddr, ready: Arc<Barrier>, n: usize) {
    if n.is_multiple_of(2) {
        let (mut socket, _) = ws::subscribed(address).await;
        ready.wait().await;
        let _ = socket.next().await;
    } else {
        let id = subscribe(address, &request(), None).await;
        let mut stream = Stream::open(address, &id, &[]).await;
        ready.wait().await;
        let _ = stream.next().await;
    }
}

/// Sends invalid messages.
async fn hostile(address: std::net::SocketAddr, ready: Arc<Barrier>, n: usize) {
    ready.wait().await;
    match n % 4 {
        0 => {
            let mut stream = TcpStream::connect(address).await.unwrap();
            let _ = stream.write_all(&[0xff; 4096]).await;
            let _ = soon("an end", stream.read_to_end(&mut Vec::new())).await;
        }
        1 => {
            let (mut socket, id) = ws::subscribed(address).await;
            for n in 0..200 {
                let forged = reply(&id, &format!("rpl_{n}"), "accept");
                if socket.send(Message::text(forged.to_string())).await.is_err() {
                    return;
                }
            }
        }
        2 => {
            let (mut socket, _) = ws::connect(address, &[]).await;
            let _ = socket.send(Message::binary(vec![0; 100_000])).await;
            while ws::receive(&mut socket).await.is_ok() {}
        }
        _ => {
            for path in ["/aaep/v1/replies", "/aaep/v1/subscriptions"] {
                let answer = post(address, path, &json!({"type": "x".repeat(10_000)})).await;
                assert_eq!(answer.status, 400);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn thousand_healthy_slow_dying_and_hostile_subscribers_are_served() {
    raise_descriptor_limit();
    let mut config = config();
    config.limits.silence_seconds = 600;
    let server = start(config).await;
    let address = server.address();
    let (before, memory) = (descriptors(), resident_kib());
    let all = HEALTHY_SSE + HEALTHY_WS + SLOW + DYING + HOSTILE;
    let (ready, over) = (Arc::new(Barrier::new(all + 1)), Arc::new(Barrier::new(SLOW + 1)));
    let finished = Arc::new(AtomicUsize::new(0));
    let mut healthy = tokio::task::JoinSet::new();
    let mut others = tokio::task::JoinSet::new();
    for n in 0..HEALTHY_SSE {
        let (ready, finished) = (ready.clone(), finished.clone());
        healthy.spawn(async move {
            healthy_sse(address, ready).await;
            finished.fetch_add(1, Relaxed);
            n
        });
    }
    for n in 0..HEALTHY_WS {
        let (ready, finished) = (ready.clone(), finished.clone());
        healthy.spawn(async move {
            healthy_ws(address, ready, n == 0).await;
            finished.fetch_add(1, Relaxed);
            n
        });
    }
    (0..SLOW).for_each(|_| drop(others.spawn(slow(address, ready.clone(), over.clone()))));
    (0..DYING).for_each(|n| drop(others.spawn(dying(address, ready.clone(), n))));
    (0..HOSTILE).for_each(|n| drop(others.spawn(hostile(address, ready.clone(), n))));
    tokio::time::timeout(PATIENCE * 3, ready.wait()).await.expect("all subscribers are connected");

    let session = session(server.producer()).await;
    let output = session.output().await.unwrap();
    for n in 0..SENTENCES {
        output.write(&sentence(n)).await.unwrap();
    }
    output.finish().await.unwrap();
    assert!(ask(&session).await, "the question was answered under load");
    session.complete("Done.").await.unwrap();
    tokio::time::timeout(PATIENCE * 3, async {
        while let Some(result) = healthy.join_next().await {
            result.unwrap();
        }
    })
    .await
    .unwrap_or_else(|_| panic!("only {} healthy subscribers received it all", finished.load(Relaxed)));
    over.wait().await;
    while let Some(result) = others.join_next().await {
        result.unwrap();
    }
    // Resumable subscriptions are kept for a while; connections are not.
    until("all connections are gone", async || descriptors() <= before + 4).await;
    let measures = server.producer().stats().await.unwrap();
    assert_eq!((measures.sessions, measures.questions), (0, 0));
    let now = resident_kib();
    assert!(now < memory + 200 * 1024, "memory grew from {memory} to {now} KiB");
    server.stop("Over.").await;
    let tasks = async || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    until("all tasks are gone", async || tasks().await <= 2).await;
}

/// A thousand connections have two ends each in this process.
fn raise_descriptor_limit() {
    let limit = std::fs::read_to_string("/proc/self/limits").unwrap();
    let line = limit.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let most: usize = line.split_whitespace().nth(3).and_then(|n| n.parse().ok()).unwrap_or(usize::MAX);
    assert!(most > 4096, "this test needs more than 4096 open files: ulimit -n 8192");
}
