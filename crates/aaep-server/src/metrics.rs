//! The server's numbers, in the text form that Prometheus reads.

use std::fmt::Write as _;
use std::pin::pin;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use aaep::stats::{ProducerStats, ReplyStats};
use aaep::transport::Outbound;
use aaep_proto::binding::CloseCode;
use tokio::sync::Notify;

use crate::admission::memory_budget::MemoryBudget;
use crate::clock;

/// How a peer got here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Server-sent events and POST.
    Sse,
    /// WebSocket.
    WebSocket,
    /// Unix socket or named pipe.
    Ipc,
    /// gRPC.
    Grpc,
    /// Standard input and output.
    Stdio,
}

impl Transport {
    /// All of them.
    pub const ALL: [Transport; 5] =
        [Transport::Sse, Transport::WebSocket, Transport::Ipc, Transport::Grpc, Transport::Stdio];

    /// The name in numbers and logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Transport::Sse => "sse",
            Transport::WebSocket => "websocket",
            Transport::Ipc => "ipc",
            Transport::Grpc => "grpc",
            Transport::Stdio => "stdio",
        }
    }
}

/// Upper bounds of the latency histogram, in milliseconds. Timestamps of events have no finer grain.
const LATENCY_BOUNDS_MS: [u64; 9] = [1, 2, 5, 10, 25, 50, 100, 1000, 10_000];

/// Counters that all transports add to.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    open: [AtomicU64; 5],
    /// Notified when the last open connection has closed.
    disconnected: Notify,
    events: [AtomicU64; 5],
    writes: [AtomicU64; 5],
    latency: [AtomicU64; LATENCY_BOUNDS_MS.len() + 1],
    latency_sum: AtomicU64,
    closes: [AtomicU64; CloseCode::ALL.len()],
    malformed: AtomicU64,
    unauthenticated: AtomicU64,
    rate_limited: AtomicU64,
    throttled: AtomicU64,
    refused_connections: AtomicU64,
    evicted_connections: AtomicU64,
    idle_connections: AtomicU64,
    refused_subscriptions: AtomicU64,
    refused_agents: AtomicU64,
}

/// Counts a connection for as long as it is there.
pub(crate) struct OpenConnection<'m>(&'m Metrics, Transport);

impl Drop for OpenConnection<'_> {
    fn drop(&mut self) {
        self.0.gone(self.1);
    }
}

impl Metrics {
    pub(crate) fn connection(&self, transport: Transport) -> OpenConnection<'_> {
        self.opened(transport);
        OpenConnection(self, transport)
    }

    pub(crate) fn opened(&self, transport: Transport) {
        self.open[transport as usize].fetch_add(1, Relaxed);
    }

    pub(crate) fn gone(&self, transport: Transport) {
        self.open[transport as usize].fetch_sub(1, SeqCst);
        if !self.is_connected() {
            self.disconnected.notify_waiters();
        }
    }

    fn is_connected(&self) -> bool {
        self.open.iter().any(|count| count.load(SeqCst) > 0)
    }

    /// Waits until no connection is open.
    pub(crate) async fn all_closed(&self) {
        loop {
            let mut disconnected = pin!(self.disconnected.notified());
            // Registered before the check, so that no notification between the two is lost.
            disconnected.as_mut().enable();
            if !self.is_connected() {
                return;
            }
            disconnected.await;
        }
    }

    /// Counts a batch that is about to be written. Its latency is that of its first event: one read of the clock for each
    /// write, not for each event.
    pub(crate) fn delivered(&self, transport: Transport, batch: &[Outbound]) {
        let events = batch.iter().filter(|item| matches!(item, Outbound::Event(_))).count();
        self.events[transport as usize].fetch_add(events as u64, Relaxed);
        self.writes[transport as usize].fetch_add(1, Relaxed);
        let first = batch.iter().find_map(|item| match item {
            Outbound::Event(frame) => Some(frame.event().envelope.timestamp),
            _ => None,
        });
        if let Some(at) = first {
            let millis = u64::try_from(clock::system_time().millis() - at.millis()).unwrap_or(0);
            let bucket = LATENCY_BOUNDS_MS.iter().position(|bound| millis <= *bound).unwrap_or(LATENCY_BOUNDS_MS.len());
            self.latency[bucket].fetch_add(1, Relaxed);
            self.latency_sum.fetch_add(millis, Relaxed);
        }
    }

    pub(crate) fn closed(&self, code: CloseCode) {
        if let Some(counter) = self.closes.get(code as usize) {
            counter.fetch_add(1, Relaxed);
        }
    }

    pub(crate) fn malformed(&self) {
        self.malformed.fetch_add(1, Relaxed);
    }

    pub(crate) fn unauthenticated(&self) {
        self.unauthenticated.fetch_add(1, Relaxed);
    }

    pub(crate) fn rate_limited(&self) {
        self.rate_limited.fetch_add(1, Relaxed);
    }

    pub(crate) fn throttled(&self) {
        self.throttled.fetch_add(1, Relaxed);
    }

    pub(crate) fn refused_connection(&self) {
        self.refused_connections.fetch_add(1, Relaxed);
    }

    pub(crate) fn evicted_connection(&self) {
        self.evicted_connections.fetch_add(1, Relaxed);
    }

    pub(crate) fn idle_connection(&self) {
        self.idle_connections.fetch_add(1, Relaxed);
    }

    pub(crate) fn refused_subscription(&self) {
        self.refused_subscriptions.fetch_add(1, Relaxed);
    }

    pub(crate) fn refused_agent(&self) {
        self.refused_agents.fetch_add(1, Relaxed);
    }

    /// All numbers as text.
    pub(crate) fn render(&self, measures: &ProducerStats, replies: &ReplyStats, memory: &MemoryBudget) -> String {
        let mut page = MetricsPage::default();
        let counts = &measures.counts;
        page.gauge("aaep_subscriptions", "Subscriptions that are open.", measures.subscribers.subscriptions as u64);
        let able = measures.subscribers.can_confirm as u64;
        page.gauge("aaep_subscriptions_that_can_confirm", "Subscriptions that could answer a confirmation.", able);
        page.gauge("aaep_sessions", "Sessions that go on.", measures.sessions as u64);
        page.gauge("aaep_questions_open", "Questions that wait for an answer.", measures.questions as u64);
        page.gauge("aaep_events_held", "Events that wait for the pace of their subscription.", measures.held as u64);
        page.gauge("aaep_queue_depth", "Events that wait for a reader to take them.", measures.queued as u64);
        page.gauge("aaep_subscriptions_blocked", "Readers that do not keep up.", measures.blocked as u64);
        let fails = u64::from(measures.storage_failing);
        page.gauge("aaep_storage_fails", "1 while the store cannot be written.", fails);
        page.counter("aaep_sessions_total", "Sessions that began.", counts.sessions);
        page.counter("aaep_events_in_total", "Events that agents said.", counts.published);
        page.counter("aaep_events_accepted_total", "Events accepted for subscriptions.", counts.accepted);
        page.counter("aaep_events_out_total", "Events handed to subscriptions.", counts.delivered);
        let folded = counts.accepted.saturating_sub(counts.delivered).saturating_sub(measures.held as u64);
        page.counter("aaep_events_coalesced_total", "Events folded into others.", folded);
        page.counter("aaep_events_dropped_total", "Events dropped. Always 0: who cannot keep up is closed.", 0);
        let shed = "Subscriptions ended because too much waited for all readers.";
        page.counter("aaep_subscriptions_shed_total", shed, measures.shed);
        page.gauge("aaep_waiting_bytes", "Memory of events that wait for readers.", measures.queued_bytes as u64);
        page.gauge("aaep_reserved_bytes", "Memory reserved for peers.", memory.used() as u64);
        page.counter("aaep_memory_refused_total", "Requests for memory above the budget.", memory.refusals());
        self.render_transports(&mut page);
        page.head("aaep_decisions_total", "Questions by how they ended.", "counter");
        for (resolution, count) in &replies.resolved {
            page.row("aaep_decisions_total", Some(("verdict", resolution.as_str())), *count);
        }
        page.head("aaep_replies_ignored_total", "Replies that did not count, by why.", "counter");
        for (fault, count) in &replies.ignored {
            let name = serde_json::to_value(fault).unwrap_or_default();
            page.row("aaep_replies_ignored_total", Some(("fault", name.as_str().unwrap_or("unknown"))), *count);
        }
        page.text
    }

    fn render_transports(&self, page: &mut MetricsPage) {
        let families: [(&str, &str, &str, &[AtomicU64; 5]); 3] = [
            ("aaep_connections", "Connections that are open.", "gauge", &self.open),
            ("aaep_deliveries_total", "Events written to connections.", "counter", &self.events),
            ("aaep_writes_total", "Writes; each takes all that waits.", "counter", &self.writes),
        ];
        for (name, help, kind, values) in families {
            page.head(name, help, kind);
            for transport in Transport::ALL {
                let count = values[transport as usize].load(Relaxed);
                page.row(name, Some(("transport", transport.as_str())), count);
            }
        }
        page.head("aaep_closes_total", "Connections closed by the server, by code.", "counter");
        for (code, counter) in CloseCode::ALL.iter().zip(&self.closes) {
            page.row("aaep_closes_total", Some(("code", &code.to_string())), counter.load(Relaxed));
        }
        let name = "aaep_delivery_seconds";
        page.head(name, "From an event's timestamp to its write, by the first of each write.", "histogram");
        let mut sum = 0;
        for (bound, counter) in LATENCY_BOUNDS_MS.iter().map(|b| Some(*b)).chain([None]).zip(&self.latency) {
            sum += counter.load(Relaxed);
            let bound = bound.map_or_else(|| "+Inf".to_owned(), |ms| format!("{}", ms as f64 / 1000.0));
            page.row("aaep_delivery_seconds_bucket", Some(("le", &bound)), sum);
        }
        let seconds = self.latency_sum.load(Relaxed) as f64 / 1000.0;
        let _ = writeln!(page.text, "{name}_sum {seconds}\n{name}_count {sum}");
        let refused = [
            ("aaep_malformed_total", "Messages that broke the rules of form.", &self.malformed),
            ("aaep_unauthenticated_total", "Requests without valid credentials.", &self.unauthenticated),
            ("aaep_rate_limited_total", "Requests refused because they came too fast.", &self.rate_limited),
            ("aaep_throttled_total", "Messages that waited because they came too fast.", &self.throttled),
            ("aaep_connections_refused_total", "Connections above the bound.", &self.refused_connections),
            ("aaep_connections_evicted_total", "Connections closed to admit others.", &self.evicted_connections),
            ("aaep_connections_idle_total", "Connections closed because no request came.", &self.idle_connections),
            ("aaep_subscriptions_refused_total", "Subscriptions above a quota.", &self.refused_subscriptions),
            ("aaep_agents_refused_total", "Agents above a quota.", &self.refused_agents),
        ];
        for (name, help, counter) in refused {
            page.counter(name, help, counter.load(Relaxed));
        }
    }
}

/// The text that is being written. Writing to a string cannot fail.
#[derive(Default)]
struct MetricsPage {
    text: String,
}

impl MetricsPage {
    fn head(&mut self, name: &str, help: &str, kind: &str) {
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn row(&mut self, name: &str, label: Option<(&str, &str)>, value: u64) {
        let _ = match label {
            Some((key, word)) => writeln!(self.text, "{name}{{{key}=\"{word}\"}} {value}"),
            None => writeln!(self.text, "{name} {value}"),
        };
    }

    fn gauge(&mut self, name: &str, help: &str, value: u64) {
        self.head(name, help, "gauge");
        self.row(name, None, value);
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.head(name, help, "counter");
        self.row(name, None, value);
    }
}
