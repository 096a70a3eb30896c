//! The measurements as a plain table.

use crate::load::{AgentLink, LoadResult, Pace};
use crate::process::{Contestant, CpuTime};

/// Everything that was measured of one server under one load.
pub(crate) struct Row {
    pub(crate) contestant: Contestant,
    pub(crate) link: AgentLink,
    pub(crate) pace: Pace,
    result: LoadResult,
    server: CpuTime,
    client: CpuTime,
}

impl Row {
    pub(crate) fn new(contestant: Contestant, link: AgentLink, pace: Pace) -> Row {
        let (server, client) = (CpuTime::default(), CpuTime::default());
        Row { contestant, link, pace, result: LoadResult::default(), server, client }
    }

    /// Adds one turn.
    pub(crate) fn add(&mut self, result: LoadResult, server: CpuTime, client: CpuTime) {
        self.result.events += result.events;
        self.result.seconds += result.seconds;
        self.result.foreign += result.foreign;
        self.result.latencies.extend(result.latencies);
        for (sum, more) in [(&mut self.server, server), (&mut self.client, client)] {
            sum.user += more.user;
            sum.system += more.system;
        }
    }

    pub(crate) fn foreign(&self) -> usize {
        self.result.foreign
    }

    /// Returns events per CPU second of the server.
    fn per_cpu_second(&self) -> f64 {
        self.result.events as f64 / self.server.total()
    }

    fn print(&self, beside: Option<&Row>) {
        let events = self.result.events as f64;
        let micros = |seconds: f64| seconds * 1e6 / events;
        let mut latencies = self.result.latencies.clone();
        latencies.sort_unstable();
        let ratio = beside
            .map_or_else(|| "-".to_owned(), |axum| format!("{:.2}", self.per_cpu_second() / axum.per_cpu_second()));
        println!(
            "{:<10}{:<10}{:<6}{:>9.0}{:>11.0}{:>8.1}{:>8.1}{:>8.1}{:>8}{:>8}{:>7.0}{:>8.1}{:>8}",
            self.link.name(),
            self.pace.name(),
            self.contestant.name(),
            events / self.result.seconds,
            self.per_cpu_second(),
            micros(self.server.total()),
            micros(self.server.user),
            micros(self.server.system),
            quantile(&latencies, 50),
            quantile(&latencies, 99),
            100.0 * self.server.total() / self.result.seconds,
            micros(self.client.total()),
            ratio,
        );
    }
}

/// Returns a quantile of sorted values in percent.
pub(crate) fn quantile<T: Copy + Default>(sorted: &[T], percent: usize) -> T {
    sorted.get(sorted.len().saturating_sub(1) * percent / 100).copied().unwrap_or_default()
}

/// Prints the rows of one number of users, and each beside axum.
pub(crate) fn print(rows: &[Row]) {
    println!(
        "{:<10}{:<10}{:<6}{:>9}{:>11}{:>8}{:>8}{:>8}{:>8}{:>8}{:>7}{:>8}{:>8}",
        "link",
        "pace",
        "server",
        "events/s",
        "per CPU s",
        "us CPU",
        "user",
        "system",
        "p50 us",
        "p99 us",
        "busy %",
        "client",
        "x axum"
    );
    for row in rows {
        let is_beside =
            |other: &&Row| other.contestant == Contestant::Axum && (other.link, other.pace) == (row.link, row.pace);
        row.print(rows.iter().find(is_beside));
    }
}
