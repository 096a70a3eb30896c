//! Metrics of the server, in the text format of Prometheus.

use std::fmt::Write as _;
use std::pin::pin;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use aaep::stats::{ProducerStats, ReplyStats};
use aaep::transport::Outbound;
use aaep_proto::binding::CloseCode;
use aaep_runtime::system_time;
use tokio::sync::Notify;

use crate::admission::memory_budget::MemoryBudget;

/// The transport of a connection.
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
    /// All transports.
    pub const ALL: [Transport; 5] =
        [Transport::Sse, Transport::WebSocket, Transport::Ipc, Transport::Grpc, Transport::Stdio];

    /// Returns the name in metrics and logs.
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

/// Upper bounds of the latency histogram. Timestamps of events have a resolution of one millisecond.
const LATENCY_BOUNDS_MS: [u64; 9] = [1, 2, 5, 10, 25, 50, 100, 1000, 10_000];

/// Counters of all transports.
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

/// Counts a connection as open until it is dropped.
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
            let millis = u64::try_from(system_time().millis() - at.millis()).unwrap_or(0);
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

    /// Returns all metrics as text.
    pub(crate) fn render(
        &self,
        stats: &ProducerStats,
        replies: &ReplyStats,
        memory: &MemoryBudget,
        users: usize,
    ) -> String {
        let mut page = MetricsPage::default();
        let counts = &stats.counts;
        page.gauge("aaep_users", "Users whose state is in memory.", users as u64);
        page.gauge("aaep_subscriptions", "Open subscriptions.", stats.subscribers.subscriptions as u64);
        let able = stats.subscribers.can_confirm as u64;
        page.gauge("aaep_subscriptions_that_can_confirm", "Subscriptions that can answer a confirmation.", able);
        page.gauge("aaep_sessions", "Sessions that have not ended.", stats.sessions as u64);
        page.gauge("aaep_questions_open", "Questions without an answer.", stats.questions as u64);
        page.gauge("aaep_events_held", "Events held back for the pace of their subscription.", stats.held as u64);
        page.gauge("aaep_queue_depth", "Events that wait for a reader.", stats.queued as u64);
        page.gauge("aaep_subscriptions_blocked", "Subscriptions whose reader does not keep up.", stats.blocked as u64);
        let fails = u64::from(stats.storage_failing);
        page.gauge("aaep_storage_fails", "1 while the journal cannot be written.", fails);
        page.counter("aaep_sessions_total", "Sessions started.", counts.sessions);
        page.counter("aaep_events_in_total", "Events emitted by agents.", counts.published);
        page.counter("aaep_events_accepted_total", "Events put into the outboxes of subscriptions.", counts.queued);
        page.counter("aaep_events_out_total", "Events delivered to subscriptions.", counts.delivered);
        let folded = counts.queued.saturating_sub(counts.delivered).saturating_sub(stats.held as u64);
        page.counter("aaep_events_coalesced_total", "Events coalesced with others.", folded);
        page.counter(
            "aaep_events_dropped_total",
            "Events dropped. Always 0: a subscription that does not keep up is closed.",
            0,
        );
        let shed = "Subscriptions closed because too many events waited.";
        page.counter("aaep_subscriptions_shed_total", shed, stats.shed);
        page.gauge("aaep_waiting_bytes", "Memory of events that wait for readers.", stats.queued_bytes as u64);
        page.gauge("aaep_reserved_bytes", "Memory reserved for peers.", memory.used() as u64);
        page.counter(
            "aaep_memory_refused_total",
            "Reservations refused because the memory budget was used up.",
            memory.refusals(),
        );
        self.render_transports(&mut page);
        page.head("aaep_decisions_total", "Questions by resolution.", "counter");
        for (resolution, count) in &replies.resolved {
            page.row("aaep_decisions_total", Some(("verdict", resolution.as_str())), *count);
        }
        page.head("aaep_replies_ignored_total", "Replies ignored, by reason.", "counter");
        for (fault, count) in &replies.ignored {
            let name = serde_json::to_value(fault).unwrap_or_default();
            page.row("aaep_replies_ignored_total", Some(("fault", name.as_str().unwrap_or("unknown"))), *count);
        }
        page.text
    }

    fn render_transports(&self, page: &mut MetricsPage) {
        let families: [(&str, &str, &str, &[AtomicU64; 5]); 3] = [
            ("aaep_connections", "Open connections.", "gauge", &self.open),
            ("aaep_deliveries_total", "Events written to connections.", "counter", &self.events),
            ("aaep_writes_total", "Writes of batches to connections.", "counter", &self.writes),
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
        page.head(
            name,
            "Time from the timestamp of an event to its write, for the first event of each write.",
            "histogram",
        );
        let mut sum = 0;
        for (bound, counter) in LATENCY_BOUNDS_MS.iter().map(|b| Some(*b)).chain([None]).zip(&self.latency) {
            sum += counter.load(Relaxed);
            let bound = bound.map_or_else(|| "+Inf".to_owned(), |ms| format!("{}", ms as f64 / 1000.0));
            page.row("aaep_delivery_seconds_bucket", Some(("le", &bound)), sum);
        }
        let seconds = self.latency_sum.load(Relaxed) as f64 / 1000.0;
        let _ = writeln!(page.text, "{name}_sum {seconds}\n{name}_count {sum}");
        let refused = [
            ("aaep_malformed_total", "Invalid messages.", &self.malformed),
            ("aaep_unauthenticated_total", "Requests without valid credentials.", &self.unauthenticated),
            ("aaep_rate_limited_total", "Requests above the rate limit.", &self.rate_limited),
            ("aaep_throttled_total", "Messages delayed by the rate limit.", &self.throttled),
            (
                "aaep_connections_refused_total",
                "Connections refused because no slot was free.",
                &self.refused_connections,
            ),
            ("aaep_connections_evicted_total", "Connections closed to admit others.", &self.evicted_connections),
            ("aaep_connections_idle_total", "Connections closed by the idle timeout.", &self.idle_connections),
            ("aaep_subscriptions_refused_total", "Subscriptions above a quota.", &self.refused_subscriptions),
            ("aaep_agents_refused_total", "Agents above a quota.", &self.refused_agents),
        ];
        for (name, help, counter) in refused {
            page.counter(name, help, counter.load(Relaxed));
        }
    }
}

/// The text of the metrics. Writing to a string cannot fail.
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
