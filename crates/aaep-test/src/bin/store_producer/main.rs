//! A producer with a store, for tests that kill it or limit the disk under it.
//!
//! ```text
//! store-producer run DIRECTORY RUN SUBSCRIPTION LAST_EVENT [ORIGIN...]
//! store-producer fill DIRECTORY
//! ```
//!
//! `run` works until it is killed and prints a line after each thing that it did. `RUN` counts the processes that used
//! the directory; the numbers in its events start at 1000 times `RUN`. `SUBSCRIPTION` and `LAST_EVENT` name the
//! subscription to resume; both are empty in the first run. Each `ORIGIN` names a question of an earlier run.
//!
//! `fill` works until the disk is full, checks that it then fails closed, and prints `finished`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a panic fails the test that started this process")]

mod fill;
mod run;
mod user;

use std::io::Write;
use std::path::Path;

use run::ProducerRun;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    match args[..] {
        ["run", directory, run, subscription, last_event, ref origins @ ..] => {
            let run = ProducerRun { number: run.parse().unwrap(), subscription, last_event, origins };
            runtime.block_on(run.work(Path::new(directory)));
        }
        ["fill", directory] => {
            runtime.block_on(fill::fill(Path::new(directory)));
            report("finished");
        }
        _ => panic!("unknown arguments: {args:?}"),
    }
}

/// Prints a line with a single write, so that a kill never leaves half a line.
fn report(line: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("{line}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}
