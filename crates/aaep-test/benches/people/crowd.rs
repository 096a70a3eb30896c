//! All users of one server: an agent and a subscriber each, on one thread.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::Timespec;
use rustix::event::epoll;

use crate::connect::{AgentTransport, Connection, Identity};
use crate::event::{EventFinder, EventTemplate};
use crate::load::{AgentLink, WINDOW};
use crate::process::{Contestant, ServerProcess};
use crate::tokens::TokenIssuer;
use crate::wire::{CLOSE, PING, PONG, Received, Scratch, TEXT, push_frame, write_all};

/// One user: an agent and a subscriber.
pub(crate) struct User {
    agent: Connection,
    subscriber: Connection,
    token: String,
    /// The head of a POST, and the length of the body that it is for.
    post_head: (usize, String),
    /// Events that were sent, and those that were received.
    pub(crate) sent: usize,
    pub(crate) received: usize,
    /// When the events were sent that were not received yet.
    pub(crate) sent_at: VecDeque<Instant>,
    /// Requests without a response.
    pub(crate) requests: usize,
}

/// What was received in a while.
#[derive(Default)]
pub(crate) struct Receipts {
    /// Users that received an event or a response, once for each.
    pub(crate) users: Vec<usize>,
    /// From send to receive, in microseconds.
    pub(crate) latencies: Vec<u32>,
    /// Events of other users.
    pub(crate) foreign: usize,
}

/// While so many users connect, nothing is read. A server that delivers everything to everybody sends much meanwhile.
const USERS_PER_READ: usize = 16;

/// All users of one server.
pub(crate) struct Crowd {
    contestant: Contestant,
    address: std::net::SocketAddr,
    poll: OwnedFd,
    ready: Vec<epoll::Event>,
    /// The number of the first user.
    first_user: usize,
    pub(crate) users: Vec<User>,
    template: EventTemplate,
    finder: EventFinder,
    scratch: Scratch,
    out: Vec<u8>,
    pub(crate) receipts: Receipts,
    /// Events in flight of all users together under full load.
    pub(crate) window: usize,
}

impl Crowd {
    /// Connects the agents, which start their sessions, and the subscribers of all users.
    pub(crate) fn connect(
        server: &ServerProcess,
        issuer: &TokenIssuer,
        transport: AgentTransport,
        users: std::ops::Range<usize>,
        template: &EventTemplate,
    ) -> Crowd {
        let mut crowd = Crowd {
            contestant: server.contestant,
            address: server.address,
            poll: epoll::create(epoll::CreateFlags::CLOEXEC).unwrap(),
            ready: Vec::with_capacity(1024),
            first_user: users.start,
            users: Vec::with_capacity(users.len()),
            template: template.clone(),
            finder: EventFinder::new(),
            scratch: Scratch::new(),
            out: Vec::new(),
            receipts: Receipts::default(),
            window: WINDOW,
        };
        for user in users {
            crowd.add(user, issuer.token(user), transport);
            if user % USERS_PER_READ == 0 {
                crowd.receive(Duration::ZERO);
            }
        }
        crowd
    }

    fn add(&mut self, user: usize, token: String, transport: AgentTransport) {
        let Crowd { contestant, address, .. } = *self;
        let identity = Identity { contestant, address, user, token: &token };
        let agent = identity.produce(transport, &mut self.scratch);
        let subscriber = identity.subscribe(&mut self.scratch);
        for (side, connection) in [&agent, &subscriber].into_iter().enumerate() {
            connection.stream.set_nonblocking(true).unwrap();
            let data = epoll::EventData::new_u64(u64::try_from(2 * self.users.len() + side).unwrap());
            epoll::add(&self.poll, &connection.stream, data, epoll::EventFlags::IN).unwrap();
        }
        self.users.push(User {
            agent,
            subscriber,
            token,
            post_head: (0, String::new()),
            sent: 0,
            received: 0,
            sent_at: VecDeque::new(),
            requests: 0,
        });
    }

    /// Sends the next events of a user in one write.
    pub(crate) fn send(&mut self, index: usize, link: AgentLink) {
        let user = &mut self.users[index];
        self.out.clear();
        let lines = link.lines_per_request();
        // Each line of a batch ends with a line feed.
        let length = if lines > 1 { lines * (self.template.len() + 1) } else { self.template.len() };
        if link.transport() == AgentTransport::Http && user.post_head.0 != length {
            let Crowd { contestant, address, .. } = *self;
            let identity = Identity { contestant, address, user: self.first_user + index, token: &user.token };
            user.post_head = (length, identity.post_head(length));
        }
        for event in 0..link.burst() {
            let rendered = self.template.render(self.first_user + index, user.sent + event);
            match link.transport() {
                AgentTransport::WebSocket => push_frame(&mut self.out, TEXT, rendered),
                AgentTransport::Http => {
                    if event % lines == 0 {
                        self.out.extend_from_slice(user.post_head.1.as_bytes());
                        user.requests += 1;
                    }
                    self.out.extend_from_slice(rendered);
                    if lines > 1 {
                        self.out.push(b'\n');
                    }
                }
            }
        }
        user.sent += link.burst();
        let now = Instant::now();
        user.sent_at.extend(std::iter::repeat_n(now, link.burst()));
        write_all(&user.agent.stream, &self.out);
    }

    /// Waits for something to read, and reads it.
    pub(crate) fn receive(&mut self, timeout: Duration) {
        let timeout = Timespec::try_from(timeout).unwrap();
        self.ready.clear();
        match epoll::wait(&self.poll, rustix::buffer::spare_capacity(&mut self.ready), Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => panic!("cannot wait: {error}"),
        }
        for at in 0..self.ready.len() {
            let data = usize::try_from(self.ready[at].data.u64()).unwrap();
            self.read(data / 2, data % 2 == 1);
        }
    }

    fn read(&mut self, index: usize, is_subscriber: bool) {
        let Crowd { users, first_user, scratch, finder, receipts, .. } = self;
        let User { agent, subscriber, received, sent_at, requests, .. } = &mut users[index];
        let connection = if is_subscriber { subscriber } else { agent };
        let is_http = !is_subscriber && *requests > 0;
        let stream = &connection.stream;
        let now = Instant::now();
        let handled = connection.inbox.read(stream, scratch, |message| match message.kind {
            _ if is_http => {
                check_response(index, message);
                *requests -= 1;
                receipts.users.push(index);
            }
            kind if kind == u16::from(TEXT) && is_subscriber => match finder.find(message.payload) {
                Some((user, number)) if user == *first_user + index => {
                    assert_eq!(number, *received, "user {index} received another event than the next one");
                    *received += 1;
                    let sent = sent_at.pop_front().expect("it was sent");
                    let micros = now.saturating_duration_since(sent).as_micros();
                    receipts.latencies.push(u32::try_from(micros).unwrap_or(u32::MAX));
                    receipts.users.push(index);
                }
                Some(_) => receipts.foreign += 1,
                None => {}
            },
            kind if kind == u16::from(PING) => {
                let mut frame = Vec::new();
                push_frame(&mut frame, PONG, message.payload);
                write_all(stream, &frame);
            }
            kind if kind == u16::from(PONG) => {}
            kind => {
                let reason = if kind == u16::from(CLOSE) { "closed a connection" } else { "sent" };
                let text = String::from_utf8_lossy(message.payload);
                panic!("the server {reason} (user {index}, subscriber {is_subscriber}): {text}");
            }
        });
        if let Err(error) = handled {
            panic!("user {index}, subscriber {is_subscriber}: {error}");
        }
    }
}

fn check_response(user: usize, message: &Received<'_>) {
    assert_eq!(message.kind, 200, "an event of user {user} was refused: {}", String::from_utf8_lossy(message.payload));
}
