//! The servers that are compared. Each reads commands from standard input and reports when they are done.

use std::io::BufRead;
use std::net::SocketAddr;
use std::time::Duration;

use aaep::message::{HandoffRequested, HandoffTarget, ToolCompleted, ToolInvoked, ToolStatus};
use aaep::{Producer, Session};
use aaep_server::{Config, Server};
use axum::Router;
use axum::extract::State;
use axum::response::sse::{Event, Sse};
use futures_util::{Stream, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{broadcast, mpsc};

use crate::Contestant;
use crate::client::micros;

/// Events emitted between two checks that subscribers keep up.
const BURST: usize = 64;

/// Interval of those checks. Checking all the time would disturb the measurement.
const LOOK: Duration = Duration::from_millis(1);

enum Order {
    Critical,
    Saturate(usize),
    Pace(usize),
    Mixed(usize),
}

pub(crate) fn run(contestant: Contestant) {
    let (orders, taken) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            let (word, number) = line.split_once(' ').unwrap_or((&line, "0"));
            let number = number.parse().unwrap();
            let order = match word {
                "critical" => Order::Critical,
                "saturate" => Order::Saturate(number),
                "pace" => Order::Pace(number),
                "mixed" => Order::Mixed(number),
                _ => panic!("no such order: {line}"),
            };
            orders.send(order).unwrap();
        }
        std::process::exit(0);
    });
    // One worker thread: the client needs the other core.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        match contestant {
            Contestant::Raw => raw(taken).await,
            Contestant::Axum => plain_axum(taken).await,
            Contestant::Sse | Contestant::WebSocket => ours(taken).await,
        }
    });
}

type Orders = mpsc::UnboundedReceiver<Order>;

fn ready(address: SocketAddr) {
    println!("{address}");
}

/// An event about as large as those of the other servers.
fn event() -> String {
    format!("event: aaep.event\nid: evt_1\ndata: {{\"event_id\":\"evt_1\",\"text\":\"{}\"}}\n\n", "x".repeat(540))
}

async fn raw(mut orders: Orders) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    ready(listener.local_addr().unwrap());
    let (joined, mut new) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.set_nodelay(true).unwrap();
            let mut head = [0; 1024];
            let _ = stream.read(&mut head).await.unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n").await.unwrap();
            joined.send(stream).unwrap();
        }
    });
    let mut streams: Vec<TcpStream> = Vec::new();
    let event = event();
    while let Some(order) = orders.recv().await {
        while let Ok(stream) = new.try_recv() {
            streams.push(stream);
        }
        let (count, pause) = timing(&order);
        for _ in 0..count {
            for stream in &mut streams {
                stream.write_all(event.as_bytes()).await.unwrap();
            }
            tokio::time::sleep(pause).await;
        }
        println!("done");
    }
}

fn timing(order: &Order) -> (usize, Duration) {
    match order {
        Order::Critical => (1, Duration::ZERO),
        Order::Saturate(count) | Order::Mixed(count) => (*count, Duration::ZERO),
        Order::Pace(count) => (*count, Duration::from_millis(200)),
    }
}

async fn plain_axum(mut orders: Orders) {
    let (sender, _) = broadcast::channel::<String>(1024);
    let router = Router::new().route("/events", axum::routing::get(subscribe)).with_state(sender.clone());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    ready(listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    let text = format!("{{\"event_id\":\"evt_1\",\"text\":\"{}\"}}", "x".repeat(540));
    while let Some(order) = orders.recv().await {
        let (count, pause) = timing(&order);
        for n in 0..count {
            sender.send(text.clone()).unwrap();
            if n % BURST == BURST - 1 {
                while !sender.is_empty() {
                    tokio::time::sleep(LOOK).await;
                }
            }
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
        }
        println!("done");
    }
}

async fn subscribe(
    State(sender): State<broadcast::Sender<String>>,
) -> Sse<impl Stream<Item = Result<Event, std::convert::Infallible>>> {
    let receiver = sender.subscribe();
    let events = futures_util::stream::unfold(receiver, async |mut receiver| {
        let text = receiver.recv().await.ok()?;
        Some((Ok(Event::default().event("aaep.event").id("evt_1").data(text)), receiver))
    });
    Sse::new(events.boxed())
}

async fn ours(mut orders: Orders) {
    let mut config = Config { listen: "127.0.0.1:0".parse().unwrap(), ..Config::default() };
    config.transports.unix = false;
    config.limits.requests_per_second = 1_000_000;
    // The subscribers only count; they do not answer pings.
    config.limits.silence_seconds = 3600;
    let producer = Server::producer(&config);
    let server = Server::new(config, producer.clone()).start().await.unwrap();
    ready(server.address());
    while let Some(order) = orders.recv().await {
        // Every command is a session that was started before anything is counted.
        match order {
            Order::Critical => critical(&producer).await,
            Order::Saturate(count) => say(&producer, count, Duration::ZERO, false).await,
            Order::Pace(count) => say(&producer, count, Duration::from_millis(200), false).await,
            Order::Mixed(count) => say(&producer, count, Duration::ZERO, true).await,
        }
        println!("done");
    }
}

/// Emits events that cannot be coalesced, in pairs: a tool call begins and ends.
async fn say(producer: &Producer, count: usize, pause: Duration, mixed: bool) {
    let session = begun(producer).await;
    for n in 0..count / 2 {
        let tool = ToolInvoked { tool: "look".into(), summary_normal: "x".repeat(230), ..ToolInvoked::default() };
        let call = session.invoke_tool(tool).await.unwrap();
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
        let completed = ToolCompleted {
            tool_call_id: Some(call),
            summary_normal: Some("x".repeat(230)),
            ..ToolCompleted::new("look", ToolStatus::Success)
        };
        session.complete_tool(completed).await.unwrap();
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
        if (2 * n + 2) % BURST == 0 {
            if mixed {
                tell(&session).await;
            }
            while producer.stats().await.unwrap().queued > 0 {
                tokio::time::sleep(LOOK).await;
            }
        }
    }
}

async fn critical(producer: &Producer) {
    tell(&begun(producer).await).await;
}

async fn tell(session: &Session) {
    let requested = HandoffRequested::new(format!("sent at {} {}", micros(), "x".repeat(100)), HandoffTarget::Human);
    session.emit(requested).await.unwrap();
}

/// Excludes the events of the session itself.
async fn begun(producer: &Producer) -> Session {
    producer.session("Measuring.").await.unwrap()
}
