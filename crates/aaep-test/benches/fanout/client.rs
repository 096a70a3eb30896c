//! Many subscribers that count events as cheaply as possible.

use std::cell::RefCell;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use memchr::memmem;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::Contestant;

/// Occurs once in every event, in every framing.
pub(crate) const MARK: &[u8] = b"\"event_id\"";

/// Occurs in critical events, followed by the time in microseconds.
pub(crate) const SENT: &[u8] = b"sent at ";

#[derive(Default)]
struct Counters {
    events: AtomicUsize,
    ended: AtomicUsize,
    latencies: Mutex<Vec<u64>>,
}

/// All subscribers of one run.
pub(crate) struct Crowd {
    counters: Arc<Counters>,
}

pub(crate) fn micros() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros()).unwrap()
}

impl Crowd {
    pub(crate) async fn join(contestant: Contestant, address: SocketAddr, size: usize) -> Crowd {
        let counters = Arc::new(Counters::default());
        for _ in 0..size {
            let stream = join(contestant, address).await;
            tokio::spawn(count(stream, counters.clone()));
        }
        Crowd { counters }
    }

    pub(crate) fn events(&self) -> usize {
        self.counters.events.load(Relaxed)
    }

    /// The number of subscribers that were disconnected.
    pub(crate) fn lost(&self) -> usize {
        self.counters.ended.load(Relaxed)
    }

    pub(crate) fn take_latencies(&self) -> Vec<u64> {
        std::mem::take(&mut self.counters.latencies.lock().unwrap())
    }

    pub(crate) fn wait_for(&self, events: usize) {
        let start = std::time::Instant::now();
        while self.events() < events {
            assert!(start.elapsed() < Duration::from_secs(120), "only {} of {events} events came", self.events());
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(self.events(), events, "more came than were sent");
    }
}

async fn join(contestant: Contestant, address: SocketAddr) -> TcpStream {
    match contestant {
        Contestant::Raw | Contestant::Axum => get(address, "/events").await,
        Contestant::Sse => {
            let body = REQUEST;
            let length = body.len();
            let head = format!(
                "POST /aaep/v1/subscriptions HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
                 content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
            );
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(head.as_bytes()).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            let location = answer.lines().find_map(|line| line.strip_prefix("location: ")).unwrap();
            get(address, location).await
        }
        Contestant::WebSocket => {
            let head = "GET /aaep/v1/ws HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
                sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(head.as_bytes()).await.unwrap();
            skip_past(&mut stream, b"\r\n\r\n").await;
            // A masked text frame with a mask of zeros.
            let mut frame = vec![0x81, 0x80 | 126];
            frame.extend_from_slice(&u16::try_from(REQUEST.len()).unwrap().to_be_bytes());
            frame.extend_from_slice(&[0; 4]);
            frame.extend_from_slice(REQUEST.as_bytes());
            stream.write_all(&frame).await.unwrap();
            skip_past(&mut stream, b"honored_capabilities").await;
            stream
        }
    }
}

const REQUEST: &str = r#"{"type":"subscription.request","aaep_version":"1.0.0","subscriber_id":"bench","capabilities":{"event_filters":{"include":["aaep:agent.tool.*"]}}}"#;

async fn get(address: SocketAddr, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    skip_past(&mut stream, b"\r\n\r\n").await;
    stream
}

async fn skip_past(stream: &mut TcpStream, mark: &[u8]) {
    let mut seen = Vec::new();
    while !seen.windows(mark.len()).any(|window| window == mark) {
        seen.push(stream.read_u8().await.unwrap());
    }
}

/// Maximum number of bytes per read.
const READ: usize = 64 * 1024;

/// Length of the longest mark with its value.
const LONGEST: usize = SENT.len() + 16;

thread_local! {
    /// One buffer per thread: one per subscriber would use more memory than the server.
    static SCRATCH: RefCell<Vec<u8>> = RefCell::new(vec![0; LONGEST + READ]);
}

/// The end of the last read, in which a mark may begin.
#[derive(Default)]
struct Tail {
    bytes: [u8; LONGEST],
    length: usize,
}

async fn count(stream: TcpStream, counters: Arc<Counters>) {
    let finders = (memmem::Finder::new(MARK), memmem::Finder::new(SENT));
    let mut tail = Tail::default();
    loop {
        if stream.readable().await.is_err() {
            break;
        }
        match SCRATCH.with_borrow_mut(|buffer| read(&stream, buffer, &mut tail, &finders, &counters)) {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => break,
        }
    }
    counters.ended.fetch_add(1, Relaxed);
}

fn read(
    stream: &TcpStream,
    buffer: &mut [u8],
    tail: &mut Tail,
    (mark, sent): &(memmem::Finder<'_>, memmem::Finder<'_>),
    counters: &Counters,
) -> std::io::Result<usize> {
    let kept = tail.length;
    buffer[..kept].copy_from_slice(&tail.bytes[..kept]);
    let read = stream.try_read(&mut buffer[kept..kept + READ])?;
    let seen = &buffer[..kept + read];
    // A mark that ends within the tail was counted in the last read.
    let fresh = |at: usize, length: usize| at + length > kept;
    let events = mark.find_iter(seen).filter(|at| fresh(*at, MARK.len())).count();
    counters.events.fetch_add(events, Relaxed);
    for at in sent.find_iter(seen).filter(|at| fresh(*at, LONGEST)) {
        let digits = seen.get(at + SENT.len()..at + LONGEST);
        if let Some(time) = digits.and_then(|d| std::str::from_utf8(d).ok()?.parse::<u64>().ok()) {
            counters.latencies.lock().unwrap().push(micros().saturating_sub(time));
        }
    }
    tail.length = seen.len().min(LONGEST - 1);
    tail.bytes[..tail.length].copy_from_slice(&seen[seen.len() - tail.length..]);
    Ok(read)
}
