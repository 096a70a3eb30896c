//! Workers: tasks that host the drivers of many producers.
//!
//! A worker has one queue of each kind of input and one timer, whatever number of producers it hosts. Inputs of one producer
//! stay in order. Messages of subscribers are handled before commands of agents, of all its producers.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use aaep_runtime::monotonic_time;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use crate::driver::{CommitResult, DriverCall, DriverState, YieldBudget};
use crate::error::Error;
use crate::transport::LinkEvent;

/// Messages of subscribers that are handled before the next commands of agents.
const MAX_LINK_EVENTS_PER_TURN: usize = 64;

/// Commands of agents that are run before messages of subscribers are looked for again.
const MAX_COMMANDS_PER_TURN: usize = 32;

/// A task that hosts producers. Clones refer to the same task. It ends when the last clone is dropped and all its producers
/// have ended.
///
/// A producer that is built by [`Builder::build`](crate::Builder::build) has a worker of its own. A server with many producers
/// has as many workers as cores, and distributes its producers over them.
///
/// ```
/// use aaep::{Producer, Worker};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let worker = Worker::spawn();
/// let ada = Producer::builder("gardener").build_on(&worker);
/// let ben = Producer::builder("gardener").build_on(&worker);
/// let session = ada.session("Planning the garden of Ada.").await?;
/// assert_eq!(ben.stats().await.expect("it runs").sessions, 0);
/// session.complete("The plan is ready.").await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Worker {
    inputs: InputSenders,
    _alive: Arc<WorkerAlive>,
}

/// Tells the worker when the last clone of its handle is dropped.
#[derive(Debug)]
struct WorkerAlive(mpsc::UnboundedSender<Command>);

impl Drop for WorkerAlive {
    fn drop(&mut self) {
        // An error means that the worker has ended with its runtime.
        let _ = self.0.send(Command::Close);
    }
}

/// Identifies a driver among those of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct DriverId(u64);

static LAST_DRIVER: AtomicU64 = AtomicU64::new(0);

enum Command {
    /// Hosts a driver from now on.
    Start(DriverId, Box<DriverState>),
    Run(DriverId, DriverCall),
    /// The last handle of a driver was dropped.
    Drain(DriverId),
    /// The last handle of the worker was dropped.
    Close,
}

#[derive(Clone, Debug)]
struct InputSenders {
    commands: mpsc::UnboundedSender<Command>,
    link_events: mpsc::UnboundedSender<(DriverId, LinkEvent)>,
    commits: mpsc::UnboundedSender<(DriverId, CommitResult)>,
}

struct Inputs {
    commands: mpsc::UnboundedReceiver<Command>,
    link_events: mpsc::UnboundedReceiver<(DriverId, LinkEvent)>,
    commits: mpsc::UnboundedReceiver<(DriverId, CommitResult)>,
}

impl Worker {
    /// Spawns a worker in the current runtime.
    ///
    /// # Panics
    ///
    /// Panics outside of a tokio runtime, like [`tokio::spawn`].
    pub fn spawn() -> Worker {
        let (commands_tx, commands) = mpsc::unbounded_channel();
        let (link_events_tx, link_events) = mpsc::unbounded_channel();
        let (commits_tx, commits) = mpsc::unbounded_channel();
        let inputs = InputSenders { commands: commands_tx, link_events: link_events_tx, commits: commits_tx };
        let alive = Arc::new(WorkerAlive(inputs.commands.clone()));
        tokio::spawn(HostedDrivers::default().run(Inputs { commands, link_events, commits }));
        Worker { inputs, _alive: alive }
    }

    /// Returns the inputs of a new driver, which is started by [`DriverInputs::start`].
    pub(crate) fn new_driver(&self) -> DriverInputs {
        let driver = DriverId(LAST_DRIVER.fetch_add(1, Ordering::Relaxed));
        DriverInputs { senders: self.inputs.clone(), driver, ended: Arc::default() }
    }
}

/// Sends inputs to one driver of a worker. It does not keep the driver running.
#[derive(Clone)]
pub(crate) struct DriverInputs {
    senders: InputSenders,
    driver: DriverId,
    ended: Arc<Ended>,
}

/// Whether a driver has ended.
#[derive(Debug, Default)]
struct Ended {
    flag: AtomicBool,
    changed: Notify,
}

impl DriverInputs {
    /// Hands the driver to its worker.
    pub(crate) fn start(&self, driver: DriverState) {
        // An error means that the runtime has ended, and everything in it with it.
        let _ = self.senders.commands.send(Command::Start(self.driver, Box::new(driver)));
    }

    pub(crate) fn send_command(&self, call: DriverCall) -> Result<(), Error> {
        self.check()?;
        self.senders.commands.send(Command::Run(self.driver, call)).map_err(|_| Error::Gone)
    }

    pub(crate) fn send_link_event(&self, event: LinkEvent) -> Result<(), Error> {
        self.check()?;
        self.senders.link_events.send((self.driver, event)).map_err(|_| Error::Gone)
    }

    pub(crate) fn send_commit(&self, result: CommitResult) {
        // An error means that the runtime has ended.
        let _ = self.senders.commits.send((self.driver, result));
    }

    /// Lets the driver end when subscribers have received what was emitted.
    pub(crate) fn drain(&self) {
        let _ = self.senders.commands.send(Command::Drain(self.driver));
    }

    /// Waits until the driver has ended.
    pub(crate) async fn ended(&self) {
        let mut changed = std::pin::pin!(self.ended.changed.notified());
        loop {
            changed.as_mut().enable();
            if self.check().is_err() {
                return;
            }
            changed.as_mut().await;
            changed.set(self.ended.changed.notified());
        }
    }

    /// Returns a guard that marks the driver as ended when it is dropped.
    pub(crate) fn end_guard(&self) -> EndGuard {
        EndGuard(self.ended.clone())
    }

    fn check(&self) -> Result<(), Error> {
        if self.ended.flag.load(Ordering::Acquire) { Err(Error::Gone) } else { Ok(()) }
    }
}

/// Marks a driver as ended when it is dropped.
pub(crate) struct EndGuard(Arc<Ended>);

impl Drop for EndGuard {
    fn drop(&mut self) {
        self.0.flag.store(true, Ordering::Release);
        self.0.changed.notify_waiters();
    }
}

impl fmt::Debug for DriverInputs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DriverInputs").field(&self.driver).finish()
    }
}

/// The drivers of a worker.
#[derive(Default)]
struct HostedDrivers {
    drivers: BTreeMap<DriverId, HostedDriver>,
    /// The next deadline of each driver that has one.
    deadlines: BTreeSet<(Instant, DriverId)>,
    /// Drivers that got an input since their effects were last carried out.
    changed: Vec<DriverId>,
    /// What links were given since the worker last yielded.
    yields: YieldBudget,
    closing: bool,
}

struct HostedDriver {
    state: Box<DriverState>,
    deadline: Option<Instant>,
    is_changed: bool,
}

impl HostedDrivers {
    async fn run(mut self, mut inputs: Inputs) {
        let mut timer = Box::pin(tokio::time::sleep_until(monotonic_time()));
        loop {
            // Users' replies go before whatever agents want next.
            self.handle_link_events(&mut inputs, MAX_LINK_EVENTS_PER_TURN);
            self.flush_changed();
            self.yields.yield_if_spent().await;
            if self.closing && self.drivers.is_empty() {
                return;
            }
            let deadline = self.deadlines.first().map(|(at, _)| *at);
            if let Some(deadline) = deadline.filter(|deadline| *deadline != timer.deadline()) {
                timer.as_mut().reset(deadline);
            }
            tokio::select! {
                biased;
                Some((driver, event)) = inputs.link_events.recv() => self.handle_link_event(driver, event),
                Some((driver, result)) = inputs.commits.recv() => {
                    self.with_driver(driver, |state| state.handle_commit(result));
                }
                () = timer.as_mut(), if deadline.is_some() => {
                    // A question does not time out while a reply to it is queued.
                    let queued = inputs.link_events.len();
                    self.handle_link_events(&mut inputs, queued);
                    self.handle_deadlines();
                }
                command = inputs.commands.recv() => match command {
                    Some(command) => self.handle_commands(command, &mut inputs),
                    // The runtime drops the worker's handle before its tasks.
                    None => self.closing = true,
                },
            }
        }
    }

    fn handle_link_events(&mut self, inputs: &mut Inputs, limit: usize) {
        for _ in 0..limit {
            let Ok((driver, event)) = inputs.link_events.try_recv() else { return };
            self.handle_link_event(driver, event);
        }
    }

    fn handle_link_event(&mut self, driver: DriverId, event: LinkEvent) {
        self.with_driver(driver, |state| {
            state.handle_link_event(event);
            state.drain_effects();
        });
    }

    /// Handles a command and some of those behind it.
    fn handle_commands(&mut self, first: Command, inputs: &mut Inputs) {
        self.handle_command(first);
        for _ in 1..MAX_COMMANDS_PER_TURN {
            let Ok(command) = inputs.commands.try_recv() else { return };
            self.handle_command(command);
        }
    }

    fn handle_command(&mut self, command: Command) {
        match command {
            Command::Start(id, state) => {
                self.drivers.insert(id, HostedDriver { state, deadline: None, is_changed: false });
                self.with_driver(id, |_| ());
            }
            Command::Run(id, call) => self.with_driver(id, |state| {
                (call.run)(state);
                state.drain_effects();
            }),
            Command::Drain(id) => self.with_driver(id, DriverState::begin_drain),
            Command::Close => self.closing = true,
        }
    }

    /// Calls a function with a driver and notes that it has changed. Does nothing if the driver has ended.
    fn with_driver(&mut self, id: DriverId, change: impl FnOnce(&mut DriverState)) {
        let Some(driver) = self.drivers.get_mut(&id) else { return };
        change(&mut driver.state);
        self.yields.add(driver.state.take_pushed());
        if !std::mem::replace(&mut driver.is_changed, true) {
            self.changed.push(id);
        }
    }

    fn handle_deadlines(&mut self) {
        let now = monotonic_time();
        while let Some((at, id)) = self.deadlines.first().copied().filter(|(at, _)| *at <= now) {
            self.deadlines.remove(&(at, id));
            if let Some(driver) = self.drivers.get_mut(&id) {
                driver.deadline = None;
            }
            self.with_driver(id, |state| state.with_engine(|engine, cx| engine.handle_timeout(cx)));
        }
    }

    /// Carries out the effects of all changed drivers, sets their deadlines and removes those that can end.
    fn flush_changed(&mut self) {
        for id in std::mem::take(&mut self.changed) {
            let Some(driver) = self.drivers.get_mut(&id) else { continue };
            driver.is_changed = false;
            let deadline = driver.state.flush();
            self.yields.add(driver.state.take_pushed());
            if driver.state.is_finished() {
                self.remove(id);
                continue;
            }
            let deadline = [deadline, driver.state.shutdown_deadline()].into_iter().flatten().min();
            let deadline = deadline.map(|at| driver.state.instant(at));
            if deadline != driver.deadline {
                let before = std::mem::replace(&mut driver.deadline, deadline);
                before.map(|at| self.deadlines.remove(&(at, id)));
                deadline.map(|at| self.deadlines.insert((at, id)));
            }
        }
    }

    fn remove(&mut self, id: DriverId) {
        let Some(mut driver) = self.drivers.remove(&id) else { return };
        driver.deadline.map(|at| self.deadlines.remove(&(at, id)));
        // In a task of its own: it waits until everything is recorded.
        tokio::spawn(async move { driver.state.close_all().await });
    }
}
