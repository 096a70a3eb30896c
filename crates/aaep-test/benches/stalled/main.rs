//! What subscribers that do not read cost the others. For each transport: the latency from an agent's POST to a healthy
//! subscriber, and of the POST itself, with 100 stalled and 100 slow readers and without them. Both servers run at the
//! same time and the samples alternate between them, so that other load on the machine falls on both alike.
//!
//! `AAEP_BENCH_SAMPLES` sets the number of samples of each transport and side (2000).

#![allow(clippy::expect_used, clippy::print_stdout, reason = "a benchmark")]

mod site;

use std::time::{Duration, Instant};

use serde_json::json;
use tokio::sync::oneshot;

use site::{Agent, Site, Subscriber, TRANSPORTS, Transport, text};

const STALLED: usize = 100;
const SLOW: usize = 100;

/// How often a slow reader reads.
const SLOW_PERIOD: Duration = Duration::from_millis(200);

/// Longer than the benchmark, so that no stalled reader is closed.
const WRITE_TIMEOUT: Duration = Duration::from_secs(3600);

fn main() {
    let samples = std::env::var("AAEP_BENCH_SAMPLES").ok().and_then(|value| value.parse().ok()).unwrap_or(2000);
    println!("{samples} samples each; latencies in microseconds; {STALLED} stalled and {SLOW} slow readers");
    println!("{:<12} {:>29} {:>29}", "", "to a healthy subscriber", "of the POST");
    println!(
        "{:<12} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
        "transport", "p99 alone", "p99 with", "ratio", "p99 alone", "p99 with", "ratio"
    );
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    for transport in TRANSPORTS {
        runtime.block_on(measure(transport, samples));
    }
}

async fn measure(transport: Transport, samples: usize) {
    let mut alone = Side::start(transport, false).await;
    let mut with = Side::start(transport, true).await;
    for number in 0..samples {
        alone.sample(number).await;
        with.sample(number).await;
    }
    assert_eq!(with.site.subscriptions().await.0, 1 + STALLED + SLOW, "nobody was closed");
    let figures =
        [&mut alone.arrivals, &mut with.arrivals, &mut alone.posts, &mut with.posts].map(|times| p99_micros(times));
    let [arrival, arrival_with, post, post_with] = figures;
    let ratios = (arrival_with / arrival, post_with / post);
    println!(
        "{:<12} {arrival:>9.0} {arrival_with:>9.0} {:>9.2} {post:>9.0} {post_with:>9.0} {:>9.2}",
        format!("{transport:?}"),
        ratios.0,
        ratios.1
    );
}

fn p99_micros(times: &mut [Duration]) -> f64 {
    times.sort_unstable();
    times[times.len() * 99 / 100].as_secs_f64() * 1e6
}

/// One server with its healthy subscriber and an agent.
struct Side {
    site: Site,
    healthy: Subscriber,
    agent: Agent,
    arrivals: Vec<Duration>,
    posts: Vec<Duration>,
    _others: Vec<Subscriber>,
}

impl Side {
    async fn start(transport: Transport, crowded: bool) -> Side {
        let site = Site::start(WRITE_TIMEOUT).await;
        let mut healthy = site.subscribe(transport).await;
        let mut agent = Agent::connect(site.server.address()).await;
        let mut stalled = Vec::new();
        if crowded {
            for _ in 0..STALLED {
                stalled.push(site.subscribe(transport).await);
            }
            healthy = flood(&site, &mut agent, healthy).await;
            for _ in 0..SLOW {
                read_slowly(site.subscribe(transport).await);
            }
        }
        Side { site, healthy, agent, arrivals: Vec::new(), posts: Vec::new(), _others: stalled }
    }

    async fn sample(&mut self, number: usize) {
        let mark = format!("Sample {number:06}");
        let event = json!({"type": "progress.updated", "progress": {"step": number + 1},
            "summary_normal": format!("{mark} is done.")});
        let begun = Instant::now();
        let post = async {
            self.agent.post("sampler", &event).await;
            begun.elapsed()
        };
        let arrival = async {
            self.healthy.read_until(&mark).await;
            begun.elapsed()
        };
        let (post, arrival) = tokio::join!(post, arrival);
        self.posts.push(post);
        self.arrivals.push(arrival);
    }
}

/// Writes text until all subscribers but the healthy one are blocked.
async fn flood(site: &Site, agent: &mut Agent, mut healthy: Subscriber) -> Subscriber {
    let (stop, mut stopped) = oneshot::channel::<()>();
    let reading = tokio::spawn(async move {
        loop {
            tokio::select! {
                more = healthy.read() => assert!(more, "the healthy subscriber was closed"),
                _ = &mut stopped => return healthy,
            }
        }
    });
    let mut round = 0;
    while site.subscriptions().await.1 < STALLED {
        agent.post("flood", &text(round)).await;
        round += 1;
    }
    stop.send(()).expect("the reader runs");
    reading.await.expect("the reader does not panic")
}

fn read_slowly(mut subscriber: Subscriber) {
    tokio::spawn(async move {
        while subscriber.read().await {
            tokio::time::sleep(SLOW_PERIOD).await;
        }
    });
}
