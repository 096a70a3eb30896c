//! A crowd that counts what it gets, as cheaply as it can.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::Contestant;

/// Stands once in every event, whatever frames it.
pub(crate) const MARK: &[u8] = b"\"event_id\"";

/// Stands in critical events, followed by the time in microseconds.
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

    /// How many were cut off.
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

async fn count(stream: TcpStream, counters: Arc<Counters>) {
    let mark = memchr::memmem::Finder::new(MARK);
    let sent = memchr::memmem::Finder::new(SENT);
    let mut buffer = Vec::new();
    loop {
        // Waits without a buffer: five thousand of them would cost more than the server.
        if stream.readable().await.is_err() {
            break;
        }
        let keep = buffer.len();
        buffer.resize(keep + 65_536, 0);
        let read = match stream.try_read(&mut buffer[keep..]) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                buffer.truncate(keep);
                continue;
            }
            Err(_) => break,
        };
        buffer.truncate(keep + read);
        counters.events.fetch_add(mark.find_iter(&buffer).count(), Relaxed);
        for at in sent.find_iter(&buffer) {
            let digits = &buffer[at + SENT.len()..];
            if let Some(time) = digits.get(..16).and_then(|d| std::str::from_utf8(d).ok()?.parse::<u64>().ok()) {
                counters.latencies.lock().unwrap().push(micros().saturating_sub(time));
            }
        }
        // What may be the beginning of a mark is kept for the next time.
        let tail = buffer.len().saturating_sub(MARK.len() - 1);
        buffer.drain(..tail);
        if mark.find(&buffer).is_some() {
            buffer.clear();
        }
        buffer.shrink_to(64);
    }
    counters.ended.fetch_add(1, Relaxed);
}
