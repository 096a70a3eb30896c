//! Deterministic simulation on a virtual clock: an engine with several agents, and subscribers with random terms that join,
//! leave, crash, renegotiate, and reply late, twice, with forged tokens and on the wrong subscription, over links that
//! delay, lose and duplicate replies, with clocks that jump. The invariants are checked after every step.
//!
//! A failing seed is printed; `AAEP_SEED=<n> cargo test -p aaep-proto --test simulation` replays it.

#![allow(clippy::disallowed_methods, reason = "the seed comes from outside; the ban is for the core")]
#![allow(unreachable_pub, dead_code, reason = "the harness serves two binaries")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on should stop")]

mod agent;
mod check;
#[path = "../engine/harness.rs"]
mod harness;
mod random;
mod run;
mod subscriber;
mod totals;

/// How many seeds CI runs; `AAEP_SEEDS` changes it.
const SEEDS: u64 = 3000;

#[test]
fn the_world_keeps_its_invariants() {
    if let Some(seed) = number("AAEP_SEED") {
        run::seed(seed);
        return;
    }
    let seeds = number("AAEP_SEEDS").unwrap_or(SEEDS);
    let mut totals = totals::Totals::default();
    for seed in 0..seeds {
        match std::panic::catch_unwind(|| run::seed(seed)) {
            Ok(one) => totals.add(&one),
            Err(panic) => {
                eprintln!("seed {seed} failed; replay: AAEP_SEED={seed} cargo test -p aaep-proto --test simulation");
                std::panic::resume_unwind(panic);
            }
        }
    }
    println!("{seeds} seeds: {totals:?}");
    if seeds >= SEEDS {
        totals.assert_interesting();
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}
