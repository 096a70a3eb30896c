//! One agent that publishes over HTTP, with many requests in flight, to many subscribers over SSE.

use std::io::{ErrorKind, Read};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{Timespec, epoll};

use crate::connect::{AgentTransport, Connection, Identity};
use crate::event::{EventFinder, EventTemplate};
use crate::options::Options;
use crate::process::{Contestant, Cores, CpuTime, ServerProcess, ServerSetup};
use crate::tokens::TokenIssuer;
use crate::wire::{PATIENCE, Scratch, write_all};

/// Subscribers over SSE.
const SUBSCRIBERS: usize = 1000;

/// Requests in flight, and events that some subscriber has not received.
const IN_FLIGHT: usize = 64;

/// Connections of the agent, with as many requests in flight together.
const CONNECTIONS: [usize; 2] = [1, IN_FLIGHT];

pub(crate) fn measure(options: &Options, issuer: &TokenIssuer) {
    println!("\n{SUBSCRIBERS} subscribers over SSE, one agent over HTTP with {IN_FLIGHT} requests in flight");
    Cores::Others.pin();
    for connections in CONNECTIONS {
        let mut sites: Vec<FanoutSite> = options
            .contestants
            .iter()
            .map(|c| FanoutSite::connect(*c, issuer, connections, &options.template))
            .collect();
        for _ in 0..options.turns {
            sites.iter_mut().for_each(|site| site.turn(options.duration));
        }
        let axum = sites.iter().find(|site| site.server.contestant == Contestant::Axum).map(FanoutSite::per_cpu_second);
        for site in &sites {
            let ratio =
                axum.map_or_else(String::new, |axum| format!(", {:.2} times axum", site.per_cpu_second() / axum));
            println!(
                "{} connections, {}: {:.0} deliveries per CPU second{ratio}; {:.0} us per event (user {:.0}, system {:.0}); \
                 {:.0} events/s",
                connections,
                site.server.contestant.name(),
                site.per_cpu_second(),
                site.cpu.total() * 1e6 / site.events as f64,
                site.cpu.user * 1e6 / site.events as f64,
                site.cpu.system * 1e6 / site.events as f64,
                site.events as f64 / site.seconds,
            );
        }
    }
}

/// A subscriber that only counts.
struct CountingSubscriber {
    stream: TcpStream,
    /// The last bytes that were read, in which an event may begin.
    tail: Vec<u8>,
    received: usize,
}

/// One connection of the agent.
struct Publisher {
    connection: Connection,
    requests: usize,
}

/// A server with its agent and all subscribers.
struct FanoutSite {
    server: ServerProcess,
    poll: OwnedFd,
    publishers: Vec<Publisher>,
    subscribers: Vec<CountingSubscriber>,
    template: EventTemplate,
    finder: EventFinder,
    head: String,
    scratch: Scratch,
    buffer: Vec<u8>,
    sent: usize,
    events: usize,
    seconds: f64,
    cpu: CpuTime,
}

impl FanoutSite {
    fn connect(
        contestant: Contestant,
        issuer: &TokenIssuer,
        connections: usize,
        template: &EventTemplate,
    ) -> FanoutSite {
        let mut setup = ServerSetup::new(issuer, SUBSCRIBERS);
        setup.capacity = 1024;
        let server = ServerProcess::start(contestant, &setup);
        let token = issuer.token(0);
        let identity = Identity { contestant, address: server.address, user: 0, token: &token };
        let mut scratch = Scratch::new();
        // The first one starts the session; the others belong to the same agent.
        let first = identity.produce(AgentTransport::Http, &mut scratch);
        let more = (1..connections).map(|_| identity.open());
        let publishers: Vec<Publisher> =
            std::iter::once(first).chain(more).map(|connection| Publisher { connection, requests: 0 }).collect();
        let subscribers: Vec<CountingSubscriber> = (0..SUBSCRIBERS)
            .map(|_| {
                let stream = identity.subscribe_over_sse(&mut scratch);
                CountingSubscriber { stream, tail: Vec::new(), received: 0 }
            })
            .collect();
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
        let streams = publishers.iter().map(|publisher| &publisher.connection.stream);
        for (index, stream) in streams.chain(subscribers.iter().map(|subscriber| &subscriber.stream)).enumerate() {
            stream.set_nonblocking(true).unwrap();
            let data = epoll::EventData::new_u64(u64::try_from(index).unwrap());
            epoll::add(&poll, stream, data, epoll::EventFlags::IN).unwrap();
        }
        let head = identity.post_head(template.len());
        FanoutSite {
            server,
            poll,
            publishers,
            subscribers,
            template: template.clone(),
            finder: EventFinder::new(),
            head,
            scratch,
            buffer: vec![0; 1 << 20],
            sent: 0,
            events: 0,
            seconds: 0.0,
            cpu: CpuTime::default(),
        }
    }

    fn per_cpu_second(&self) -> f64 {
        (self.events * SUBSCRIBERS) as f64 / self.cpu.total()
    }

    /// Publishes for so long, then waits until every subscriber has received every event.
    fn turn(&mut self, duration: Duration) {
        let (before, sent_before, start) = (self.server.usage(), self.sent, Instant::now());
        let connections = self.publishers.len();
        let per_connection = IN_FLIGHT / connections;
        let mut next = 0;
        loop {
            let slowest = self.subscribers.iter().map(|subscriber| subscriber.received).min().unwrap();
            let is_over = start.elapsed() >= duration;
            let mut room = if is_over { 0 } else { IN_FLIGHT - (self.sent - slowest) };
            for _ in 0..connections {
                let publisher = &mut self.publishers[next];
                next = (next + 1) % connections;
                let requests = room.min(per_connection - publisher.requests);
                publisher.publish(requests, &mut self.sent, &self.head, &mut self.template);
                room -= requests;
            }
            if is_over && slowest == self.sent && self.publishers.iter().all(|publisher| publisher.requests == 0) {
                break;
            }
            assert!(start.elapsed() < duration + PATIENCE, "{} of {} events were received", slowest, self.sent);
            self.receive();
        }
        let cpu = self.server.usage().since(&before);
        self.cpu.user += cpu.user;
        self.cpu.system += cpu.system;
        self.seconds += start.elapsed().as_secs_f64();
        self.events += self.sent - sent_before;
        assert!(self.subscribers.iter().all(|s| s.received == self.sent), "some received more than was sent");
    }

    fn receive(&mut self) {
        let timeout = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
        let mut ready: Vec<epoll::Event> = Vec::with_capacity(1024);
        match epoll::wait(&self.poll, rustix::buffer::spare_capacity(&mut ready), Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => panic!("cannot wait: {error}"),
        }
        for event in ready {
            let index = usize::try_from(event.data.u64()).unwrap();
            match index.checked_sub(self.publishers.len()) {
                None => self.publishers[index].receive(&mut self.scratch),
                Some(index) => self.subscribers[index].receive(&mut self.buffer, &self.finder),
            }
        }
    }
}

impl Publisher {
    /// Sends requests with one event each, in one write.
    fn publish(&mut self, requests: usize, sent: &mut usize, head: &str, template: &mut EventTemplate) {
        let mut out = Vec::with_capacity(requests * (head.len() + template.len()));
        for _ in 0..requests {
            out.extend_from_slice(head.as_bytes());
            out.extend_from_slice(template.render(0, *sent));
            *sent += 1;
        }
        self.requests += requests;
        write_all(&self.connection.stream, &out);
    }

    fn receive(&mut self, scratch: &mut Scratch) {
        let Publisher { connection, requests } = self;
        let handled = connection.inbox.read(&connection.stream, scratch, |response| {
            assert_eq!(response.kind, 200, "refused: {}", String::from_utf8_lossy(response.payload));
            *requests -= 1;
        });
        handled.unwrap_or_else(|error| panic!("the agent: {error}"));
    }
}

impl CountingSubscriber {
    fn receive(&mut self, buffer: &mut [u8], finder: &EventFinder) {
        let kept = self.tail.len();
        buffer[..kept].copy_from_slice(&self.tail);
        let read = match self.stream.read(&mut buffer[kept..]) {
            Ok(0) => panic!("the server closed a stream"),
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return,
            Err(error) => panic!("a stream was lost: {error}"),
        };
        let bytes = &buffer[..kept + read];
        self.received += finder.count(bytes);
        // Shorter than a mark, so that none is counted twice.
        let tail = bytes.len().min(EventFinder::LENGTH - 1);
        self.tail.clear();
        self.tail.extend_from_slice(&bytes[bytes.len() - tail..]);
    }
}
