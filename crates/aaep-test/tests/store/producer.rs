//! Starts the program `store-producer` of this package.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use aaep::journal::RecoveredState;
use aaep_store::{Retention, Store, StoreError, UserJournal};

/// The path of the program.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_store-producer");

/// What a producer continues from the run before.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    /// The number of the run; the numbers in its events start at 1000 times this.
    pub(crate) run: u64,
    /// The id of the subscription to resume; empty if there is none.
    pub(crate) subscription: String,
    /// The last event that was received on that subscription.
    pub(crate) last_event: String,
    /// The questions of earlier runs.
    pub(crate) origins: Vec<String>,
}

/// Starts a producer, which works until it is killed, and returns it with the lines that it prints.
pub(crate) fn start(dir: &Path, plan: &Plan) -> (Child, impl Iterator<Item = String> + use<>) {
    let mut child = Command::new(PROGRAM)
        .arg("run")
        .arg(dir)
        .args([&plan.run.to_string(), &plan.subscription, &plan.last_event])
        .args(&plan.origins)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    (child, lines.map_while(Result::ok))
}

/// Opens the store of a process that has ended. Retries while it is in use: a process that another test is just starting
/// may hold an inherited copy of the lock for a moment.
pub(crate) fn open(dir: &Path) -> Result<(UserJournal, RecoveredState), StoreError> {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        match Store::open_single(dir, Retention::default()) {
            Err(StoreError::InUse(_)) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(5)),
            other => return other,
        }
    }
}
