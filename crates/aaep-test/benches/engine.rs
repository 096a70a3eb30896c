//! Cost of the engine: time per event and subscription, for several terms and numbers of subscriptions, with equal and
//! with different terms; memory per idle subscription; and the speed of the coalescer.
//!
//! Run: `cargo bench -p aaep-test --bench engine`

#![allow(clippy::unwrap_used, clippy::panic, reason = "a benchmark that cannot go on should stop")]
#![allow(unsafe_code, reason = "counting memory needs an allocator of our own")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use aaep_proto::engine::{Cx, Engine, EngineConfig, EngineEffect, ResumePolicy, SessionOptions};
use aaep_proto::id::Entropy;
use aaep_proto::message::{Message, Producer, SubscriptionRequest};
use aaep_proto::shaping::segment::{Segmenter, Segments, Syntax};
use aaep_proto::time::{Moment, Now, Timestamp};
use serde_json::{Value, json};

/// An allocator that counts the bytes in use.
struct Counting;

static IN_USE: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed to the system allocator unchanged; only a counter is added.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        IN_USE.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

struct Seeded(u64);

impl Entropy for Seeded {
    fn fill(&mut self, bytes: &mut [u8]) {
        for b in bytes {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *b = (self.0 >> 56) as u8;
        }
    }
}

struct World {
    engine: Engine,
    entropy: Seeded,
    micros: u64,
}

impl World {
    fn new() -> World {
        let mut config = EngineConfig::new(Producer::new("bench"));
        config.offer.max_subscriptions = usize::MAX;
        World { engine: Engine::new(config), entropy: Seeded(1), micros: 0 }
    }

    fn act<T>(&mut self, input: impl FnOnce(&mut Engine, &mut Cx<'_>) -> T) -> T {
        let wall = Timestamp::from_millis(1_780_000_000_000 + (self.micros / 1000) as i64);
        let now = Now { moment: Moment::from_micros(self.micros), wall };
        input(&mut self.engine, &mut Cx { now, entropy: &mut self.entropy })
    }

    /// Drains the effects. Returns the number of events.
    fn drain(&mut self) -> usize {
        let mut events = 0;
        loop {
            match self.engine.poll_effect() {
                EngineEffect::Idle(_) => return events,
                EngineEffect::Event(_, frame) => {
                    black_box(&frame);
                    events += 1;
                }
                _ => {}
            }
        }
    }

    fn join(&mut self, capabilities: Value) {
        let request = request(capabilities);
        self.act(|engine, cx| engine.subscribe(cx, &request, "user", ResumePolicy::Connection)).unwrap();
    }
}

fn request(capabilities: Value) -> SubscriptionRequest {
    let document = json!({"type": "subscription.request", "aaep_version": "1.0.0", "subscriber_id": "x", "capabilities": capabilities});
    match Message::parse(document.to_string().as_bytes()).unwrap() {
        Message::SubscriptionRequest(request) => *request,
        _ => unreachable!(),
    }
}

/// Returns the terms of the n-th subscription: equal, or made different by an exclude pattern.
fn terms(kind: &str, n: usize, distinct: bool) -> Value {
    let mut terms = match kind {
        "pass-through" => json!({"coalesce_boundaries": ["none"]}),
        "filtered" => json!({"event_filters": {"exclude": ["aaep:agent.output.streaming"]}}),
        "sentences" => json!({}),
        "paced" => json!({"max_events_per_second": 5, "pace_wpm": 200}),
        other => panic!("{other}"),
    };
    if distinct {
        let mut exclude = terms["event_filters"]["exclude"].as_array().cloned().unwrap_or_default();
        exclude.push(json!(format!("x:{n}")));
        terms["event_filters"] = json!({"exclude": exclude});
    }
    terms
}

const TEXT: &str = "The quick brown fox jumps over the lazy dog, and then it sleeps. Who would not? It was a long day of \
    running about in the fields, after all, and foxes need their rest as much as anyone does. ";

/// Measures a session of state changes and streamed text, per input and subscription.
fn session_cost(kind: &str, subscriptions: usize, distinct: bool) -> (f64, f64) {
    let mut world = World::new();
    for n in 0..subscriptions {
        world.join(terms(kind, n, distinct));
    }
    let session = world.act(|engine, cx| engine.start_session(cx, SessionOptions::new("Working."))).unwrap();
    world.drain();
    let tokens: Vec<&str> = TEXT.split_inclusive(' ').collect();
    let rounds = (20_000 / subscriptions).clamp(1, 50);
    let mut inputs = 0u32;
    let mut events = 0;
    let mut best = Duration::MAX;
    for _ in 0..3 {
        (inputs, events) = (0, 0);
        let start = Instant::now();
        for _ in 0..rounds {
            let output = world.act(|engine, cx| engine.open_output(cx, &session, "text/plain", None)).unwrap();
            for token in &tokens {
                world.act(|engine, cx| engine.write(cx, &session, &output, token)).unwrap();
                inputs += 1;
                world.micros += 20_000;
                world.act(|engine, cx| engine.handle_timeout(cx));
                events += world.drain();
            }
            world.act(|engine, cx| engine.finish_output(cx, &session, &output)).unwrap();
            world.act(|engine, cx| engine.set_state(cx, &session, "thinking", Some("Thinking."))).unwrap();
            inputs += 2;
            events += world.drain();
        }
        best = best.min(start.elapsed());
    }
    let nanos = best.as_nanos() as f64 / f64::from(inputs);
    (nanos / subscriptions as f64, events as f64 / f64::from(inputs) / subscriptions as f64)
}

/// Measures the cost of one more subscription with equal terms for one event: the slope between two sizes.
fn shared_slope() -> f64 {
    let cost = |subscriptions: usize| {
        let mut world = World::new();
        (0..subscriptions).for_each(|n| world.join(terms("pass-through", n, false)));
        let session = world.act(|engine, cx| engine.start_session(cx, SessionOptions::new("Working."))).unwrap();
        world.drain();
        let mut best = f64::MAX;
        for round in 0..200 {
            let state = if round % 2 == 0 { "deciding" } else { "thinking" };
            let start = Instant::now();
            world.act(|engine, cx| engine.set_state(cx, &session, state, Some("Working on it."))).unwrap();
            world.drain();
            best = best.min(start.elapsed().as_nanos() as f64);
        }
        best
    };
    (cost(10_000) - cost(1_000)) / 9_000.0
}

fn memory_per_idle_subscription(kind: &str) -> usize {
    let mut world = World::new();
    world.join(terms(kind, 0, false));
    world.drain();
    let before = IN_USE.load(Ordering::Relaxed);
    const COUNT: usize = 10_000;
    for n in 1..=COUNT {
        world.join(terms(kind, n, false));
        world.drain();
    }
    (IN_USE.load(Ordering::Relaxed) - before) / COUNT
}

fn coalescer_speed() -> f64 {
    let text = TEXT.repeat(20_000);
    let mut best = f64::MAX;
    for _ in 0..3 {
        let mut segmenter = Segmenter::new(Syntax::Plain, None);
        let mut out = Segments::default();
        let start = Instant::now();
        let mut rest = text.as_str();
        while !rest.is_empty() {
            let (token, after) = rest.split_at(rest.len().min(4));
            segmenter.push(token, &mut out);
            out.text.clear();
            out.marks.clear();
            rest = after;
        }
        best = best.min(start.elapsed().as_secs_f64());
    }
    text.len() as f64 / best / 1e6
}

fn main() {
    for kind in ["pass-through", "filtered", "sentences", "paced"] {
        for distinct in [false, true] {
            for subscriptions in [1, 100, 10_000] {
                let (nanos, events) = session_cost(kind, subscriptions, distinct);
                let alike = if distinct { "different" } else { "equal" };
                println!(
                    "{kind}, {subscriptions} subscriptions with {alike} terms: {nanos:.0} ns per input and subscription, {events:.2} events"
                );
            }
        }
    }
    println!("one more subscription of a shared shape: {:.0} ns per event", shared_slope());
    for kind in ["pass-through", "paced"] {
        println!("memory per idle subscription, {kind}: {} bytes", memory_per_idle_subscription(kind));
    }
    println!("coalescer, English in tokens of four characters: {:.0} MB/s", coalescer_speed());
}
