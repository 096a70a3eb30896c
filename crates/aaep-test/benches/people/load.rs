//! How events are sent: over which link, and how many of them.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::connect::AgentTransport;
use crate::crowd::Crowd;
use crate::wire::PATIENCE;

/// Events in flight of all users together under full load, unless the options say otherwise.
pub(crate) const WINDOW: usize = 256;

/// Events in flight of one user.
pub(crate) const USER_WINDOW: usize = 16;

/// Events that are sent in one write by links that send several.
const BURST: usize = 8;

/// How an agent sends its events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AgentLink {
    /// One frame per write.
    WebSocket,
    /// Several frames per write.
    WebSocketBurst,
    /// One request at a time, with one event.
    Post,
    /// Several requests per write, with one event each.
    Pipelined,
    /// One request at a time, with several events.
    Batch,
}

impl AgentLink {
    pub(crate) const ALL: [AgentLink; 5] =
        [AgentLink::WebSocket, AgentLink::WebSocketBurst, AgentLink::Post, AgentLink::Pipelined, AgentLink::Batch];

    pub(crate) fn name(self) -> &'static str {
        match self {
            AgentLink::WebSocket => "ws",
            AgentLink::WebSocketBurst => "ws-burst",
            AgentLink::Post => "post",
            AgentLink::Pipelined => "pipelined",
            AgentLink::Batch => "batch",
        }
    }

    pub(crate) fn transport(self) -> AgentTransport {
        match self {
            AgentLink::WebSocket | AgentLink::WebSocketBurst => AgentTransport::WebSocket,
            AgentLink::Post | AgentLink::Pipelined | AgentLink::Batch => AgentTransport::Http,
        }
    }

    /// Returns how many events are sent in one write.
    pub(crate) fn burst(self) -> usize {
        match self {
            AgentLink::WebSocket | AgentLink::Post => 1,
            AgentLink::WebSocketBurst | AgentLink::Pipelined | AgentLink::Batch => BURST,
        }
    }

    pub(crate) fn lines_per_request(self) -> usize {
        if self == AgentLink::Batch { BURST } else { 1 }
    }

    /// Returns how many writes one of so many users may have in flight. A request waits for the response to the one before.
    fn writes_in_flight(self, window: usize, users: usize) -> usize {
        match self.transport() {
            AgentTransport::WebSocket => (window / self.burst() / users).clamp(1, USER_WINDOW / self.burst()),
            AgentTransport::Http => 1,
        }
    }
}

/// How fast events are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// Every user one event per second, evenly distributed.
    EachSecond,
    /// As fast as the server takes them, with a bounded number in flight.
    Saturated,
}

impl Pace {
    pub(crate) const ALL: [Pace; 2] = [Pace::EachSecond, Pace::Saturated];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Pace::EachSecond => "paced",
            Pace::Saturated => "saturated",
        }
    }
}

/// What happened under a load. All events that were sent were received, in order.
#[derive(Default)]
pub(crate) struct LoadResult {
    pub(crate) events: usize,
    /// From the first event that was sent to the last one that was received.
    pub(crate) seconds: f64,
    /// From send to receive, in microseconds.
    pub(crate) latencies: Vec<u32>,
    /// Deliveries to other users.
    pub(crate) foreign: usize,
}

impl Crowd {
    /// Sends for so long, then waits until every event was received.
    pub(crate) fn run(&mut self, link: AgentLink, pace: Pace, duration: Duration) -> LoadResult {
        self.receipts = Default::default();
        let sent_before: usize = self.users.iter().map(|user| user.sent).sum();
        let start = Instant::now();
        match pace {
            Pace::Saturated => self.saturate(link, start + duration),
            Pace::EachSecond => self.pace(link, start, start + duration),
        }
        let seconds = start.elapsed().as_secs_f64();
        let receipts = std::mem::take(&mut self.receipts);
        let events = self.users.iter().map(|user| user.sent).sum::<usize>() - sent_before;
        assert_eq!(receipts.latencies.len(), events, "as many were received as were sent");
        LoadResult { events, seconds, latencies: receipts.latencies, foreign: receipts.foreign }
    }

    /// Sends one event of every user and waits until all were received.
    pub(crate) fn each_once(&mut self, link: AgentLink) {
        let deadline = Instant::now() + PATIENCE;
        for index in 0..self.users.len() {
            self.send(index, link);
            // A server that delivers every event to every user is slower.
            while self.in_flight() > WINDOW {
                self.receive_until(deadline);
            }
        }
        while self.in_flight() > 0 {
            self.receive_until(deadline);
        }
        self.receipts = Default::default();
    }

    fn in_flight(&self) -> usize {
        self.users.iter().map(|user| user.sent_at.len() + user.requests).sum()
    }

    fn receive_until(&mut self, deadline: Instant) {
        self.receive(Duration::from_millis(100));
        assert!(Instant::now() < deadline, "{} events or responses are missing", self.in_flight());
    }

    /// Sends as much as may be in flight.
    fn saturate(&mut self, link: AgentLink, end: Instant) {
        let writes = link.writes_in_flight(self.window, self.users.len());
        let mut idle: VecDeque<usize> = (0..writes).flat_map(|_| 0..self.users.len()).collect();
        let all = idle.len();
        let mut pending: Vec<usize> = vec![0; self.users.len()];
        let per_write = match link.transport() {
            AgentTransport::WebSocket => link.burst(),
            AgentTransport::Http => link.burst() + link.burst() / link.lines_per_request(),
        };
        let mut in_flight = 0;
        loop {
            let is_over = Instant::now() >= end;
            while !is_over && (in_flight == 0 || in_flight + link.burst() <= self.window) {
                let Some(index) = idle.pop_front() else { break };
                self.send(index, link);
                pending[index] += per_write;
                in_flight += link.burst();
            }
            if is_over && idle.len() == all {
                return;
            }
            self.receive_until(end + PATIENCE);
            for index in self.receipts.users.drain(..) {
                pending[index] -= 1;
                if pending[index].is_multiple_of(per_write) {
                    idle.push_back(index);
                    in_flight -= link.burst();
                }
            }
        }
    }

    /// Sends one event of each user per second.
    fn pace(&mut self, link: AgentLink, start: Instant, end: Instant) {
        let interval = Duration::from_secs_f64(link.burst() as f64 / self.users.len() as f64);
        let (mut due, mut next) = (start, 0);
        loop {
            let now = Instant::now();
            while due <= now && due < end && self.users[next].sent_at.len() + link.burst() <= USER_WINDOW {
                self.send(next, link);
                next = (next + 1) % self.users.len();
                due += interval;
            }
            if due >= end && self.in_flight() == 0 {
                return;
            }
            assert!(now < end + PATIENCE, "{} events or responses are missing", self.in_flight());
            let wait = if due < end { due.saturating_duration_since(now) } else { Duration::from_millis(10) };
            self.receive(wait.min(Duration::from_millis(10)));
            self.receipts.users.clear();
        }
    }
}
