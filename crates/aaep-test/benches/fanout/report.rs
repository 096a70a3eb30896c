//! The measurements as table rows.

use std::ops::AddAssign;

/// Processor time and memory of a process.
pub(crate) struct Usage {
    /// User time in seconds, to the clock tick.
    user: f64,
    /// All of its time in seconds, to the nanosecond.
    total: f64,
    pub(crate) resident_kib: u64,
}

impl Usage {
    pub(crate) fn of(pid: u32) -> Usage {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        // Clock ticks are hundredths of a second on Linux.
        let user = fields[11].parse::<f64>().unwrap() / 100.0;
        let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        let nanos = threads.map(|thread| {
            let stat = std::fs::read_to_string(thread.unwrap().path().join("schedstat")).unwrap();
            stat.split_whitespace().next().unwrap().parse::<f64>().unwrap()
        });
        let total = nanos.sum::<f64>() / 1e9;
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let resident = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        let resident_kib = resident.split_whitespace().nth(1).unwrap().parse().unwrap();
        Usage { user, total, resident_kib }
    }
}

/// The cost of a number of deliveries.
#[derive(Default)]
pub(crate) struct Cost {
    deliveries: usize,
    user: f64,
    total: f64,
}

impl Cost {
    pub(crate) fn between(deliveries: usize, start: &Usage, end: &Usage) -> Cost {
        Cost { deliveries, user: end.user - start.user, total: end.total - start.total }
    }

    fn per_second(&self) -> f64 {
        self.deliveries as f64 / self.total
    }
}

impl AddAssign for Cost {
    fn add_assign(&mut self, more: Cost) {
        self.deliveries += more.deliveries;
        self.user += more.user;
        self.total += more.total;
    }
}

/// The results of one server at one size.
#[derive(Default)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) idle_kib: f64,
    pub(crate) saturated: Cost,
    pub(crate) paced: Cost,
    pub(crate) unloaded: Vec<u64>,
    pub(crate) loaded: Vec<u64>,
    pub(crate) lost: usize,
}

fn p99(micros: &[u64]) -> Option<u64> {
    let mut sorted = micros.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len().saturating_sub(1) * 99 / 100).copied()
}

pub(crate) fn print(rows: &[Row]) {
    let of = |name: &str, value: fn(&Row) -> f64| rows.iter().find(|r| r.name == name).map_or(0.0, value);
    for row in rows {
        println!("{}:", row.name);
        println!(
            "  saturated: {:.0} deliveries per CPU second ({:.2} times axum), {:.2} us of user time each",
            row.saturated.per_second(),
            row.saturated.per_second() / of("axum", |r| r.saturated.per_second()),
            row.saturated.user * 1e6 / row.saturated.deliveries as f64
        );
        println!(
            "  paced at 5 a second: {:.0} deliveries per CPU second ({:.0} % of the raw loop)",
            row.paced.per_second(),
            100.0 * row.paced.per_second() / of("raw loop", |r| r.paced.per_second())
        );
        println!("  idle: {:.1} KiB per subscriber; lost: {}", row.idle_kib, row.lost);
        if let (Some(unloaded), Some(loaded)) = (p99(&row.unloaded), p99(&row.loaded)) {
            let times = loaded as f64 / unloaded.max(1) as f64;
            println!("  critical event, p99: {unloaded} us unloaded, {loaded} us saturated ({times:.1} times)");
        }
    }
}
