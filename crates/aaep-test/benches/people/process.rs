//! The servers, each in a process of its own, and what they use.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use aaep_test::aaep_release;
use rustix::process::{Resource, Rlimit, Signal, getrlimit, set_parent_process_death_signal, setrlimit};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::tokens::TokenIssuer;

/// The servers that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contestant {
    /// `aaep serve`.
    Aaep,
    /// Plain axum, which checks nothing.
    Axum,
}

impl Contestant {
    pub(crate) const ALL: [Contestant; 2] = [Contestant::Aaep, Contestant::Axum];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Contestant::Aaep => "aaep",
            Contestant::Axum => "axum",
        }
    }
}

/// The cores of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cores {
    /// The first one, for the server.
    First,
    /// All but the first one, for the clients.
    Others,
    /// All of them.
    All,
}

impl Cores {
    /// Returns the numbers of the cores. With one core there is nothing to divide.
    fn cpus(self) -> Vec<usize> {
        static ALL: OnceLock<Vec<usize>> = OnceLock::new();
        // Before anything is pinned: a thread that is pinned sees its own cores only.
        let all = ALL.get_or_init(|| {
            let all = sched_getaffinity(None).unwrap();
            (0..CpuSet::MAX_CPU).filter(|cpu| all.is_set(*cpu)).collect()
        });
        match (self, all.as_slice()) {
            (Cores::First, [first, _, ..]) => vec![*first],
            (Cores::Others, [_, others @ ..]) if !others.is_empty() => others.to_vec(),
            _ => all.clone(),
        }
    }

    /// Pins this thread to the cores.
    pub(crate) fn pin(self) {
        pin(&self.cpus());
    }

    /// Returns the cores as an argument of [`execute`].
    fn to_argument(self) -> String {
        self.cpus().iter().map(usize::to_string).collect::<Vec<_>>().join(",")
    }
}

fn pin(cpus: &[usize]) {
    let mut set = CpuSet::new();
    cpus.iter().for_each(|cpu| set.set(*cpu));
    sched_setaffinity(None, &set).unwrap();
}

/// How a server is started.
pub(crate) struct ServerSetup<'a> {
    pub(crate) issuer: &'a TokenIssuer,
    pub(crate) users: usize,
    /// Events that may wait for one user of plain axum.
    pub(crate) capacity: usize,
    pub(crate) cores: Cores,
    /// Further arguments of `aaep serve`.
    pub(crate) args: Vec<OsString>,
    /// Further settings of `aaep serve`.
    pub(crate) settings: Vec<(String, String)>,
}

impl<'a> ServerSetup<'a> {
    /// A server on the first core.
    pub(crate) fn new(issuer: &'a TokenIssuer, users: usize) -> ServerSetup<'a> {
        ServerSetup { issuer, users, capacity: 16, cores: Cores::First, args: Vec::new(), settings: Vec::new() }
    }

    fn command(&self, contestant: Contestant) -> Command {
        let this = std::env::current_exe().unwrap();
        let mut command = Command::new(&this);
        command.args([EXECUTE, &self.cores.to_argument()]);
        match contestant {
            Contestant::Axum => {
                command.arg(&this).args([SERVE, &self.users.to_string(), &self.capacity.to_string()]);
            }
            Contestant::Aaep => {
                command.arg(aaep_release()).args(["serve", "--listen", "127.0.0.1:0", "--no-unix", "--log", "error"]);
                command.arg("--jwks").arg(self.issuer.jwks()).args(&self.args);
                for (name, value) in limits(self.users) {
                    command.env(format!("AAEP_LIMITS__{name}"), value.to_string());
                }
                command.envs(self.settings.iter().map(|(name, value)| (name, value)));
            }
        }
        command
    }
}

/// Returns limits that a measurement does not reach.
fn limits(users: usize) -> [(&'static str, usize); 7] {
    [
        ("CONNECTIONS", 2 * users + 2000),
        ("UNAUTHENTICATED_PER_ADDRESS", 2 * users + 2000),
        ("SUBSCRIPTIONS", users + 2000),
        ("REQUESTS_PER_SECOND", 1_000_000),
        ("REQUEST_SECONDS", 600),
        ("SILENCE_SECONDS", 3600),
        ("MEMORY_BYTES", 4 << 30),
    ]
}

/// The first argument of this program when it becomes a server.
pub(crate) const EXECUTE: &str = "--execute";

/// The first argument of this program when it is plain axum.
pub(crate) const SERVE: &str = "--serve-plain-axum";

/// Becomes the program of the arguments, pinned to its cores. The kernel kills it when the thread that started it ends.
pub(crate) fn execute(args: &[String]) -> ! {
    set_parent_process_death_signal(Some(Signal::KILL)).unwrap();
    pin(&args[0].split(',').map(|cpu| cpu.parse().unwrap()).collect::<Vec<usize>>());
    let error = Command::new(&args[1]).args(&args[2..]).exec();
    panic!("cannot start {}: {error}", args[1]);
}

/// The process of a server, killed when it is dropped.
pub(crate) struct ServerProcess {
    child: Child,
    pub(crate) contestant: Contestant,
    pub(crate) address: SocketAddr,
}

impl ServerProcess {
    pub(crate) fn start(contestant: Contestant, setup: &ServerSetup<'_>) -> ServerProcess {
        let mut command = setup.command(contestant);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let url = lines.map_while(Result::ok).find_map(|line| line.strip_prefix("Serving at ").map(str::to_owned));
        let Some(url) = url else {
            let _ = child.kill();
            panic!("{} did not start: {:?}", contestant.name(), child.wait());
        };
        let address = url.trim_start_matches("http://").trim_end_matches('/').parse().unwrap();
        ServerProcess { child, contestant, address }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn usage(&self) -> Usage {
        Usage::of(self.pid())
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// CPU time and memory of a process.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    /// User and system time in clock ticks. Only their ratio is used.
    user_ticks: f64,
    system_ticks: f64,
    /// All of its time in seconds, to the nanosecond.
    pub(crate) total: f64,
    pub(crate) resident_kib: f64,
}

impl Usage {
    pub(crate) fn of(pid: u32) -> Usage {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("the server runs");
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        // A thread may end meanwhile.
        let nanos = threads.filter_map(|thread| {
            let stat = std::fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
            stat.split_whitespace().next()?.parse::<f64>().ok()
        });
        let total = nanos.sum::<f64>() / 1e9;
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let resident = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        let resident_kib = resident.split_whitespace().nth(1).unwrap().parse().unwrap();
        let ticks = |field: usize| fields[field].parse::<f64>().unwrap();
        Usage { user_ticks: ticks(11), system_ticks: ticks(12), total, resident_kib }
    }

    /// Returns user and system time in seconds since an earlier time.
    pub(crate) fn since(&self, earlier: &Usage) -> CpuTime {
        let (user, system) = (self.user_ticks - earlier.user_ticks, self.system_ticks - earlier.system_ticks);
        let total = self.total - earlier.total;
        let share = if user + system > 0.0 { user / (user + system) } else { 0.0 };
        CpuTime { user: total * share, system: total * (1.0 - share) }
    }
}

/// CPU time in seconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CpuTime {
    pub(crate) user: f64,
    pub(crate) system: f64,
}

impl CpuTime {
    pub(crate) fn total(self) -> f64 {
        self.user + self.system
    }
}

/// Raises the limit of open files as far as allowed, for this process and those that it starts. Returns the limit.
pub(crate) fn raise_file_limit() -> usize {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
        if let Err(error) = setrlimit(Resource::Nofile, raised) {
            println!("the limit of open files cannot be raised: {error}");
        }
    }
    let limit = getrlimit(Resource::Nofile).current;
    limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX))
}

/// Returns what a command prints, such as the help of `aaep serve`.
pub(crate) fn aaep_output(args: &[&str]) -> String {
    let path: PathBuf = aaep_release().to_owned();
    let output = Command::new(&path).args(args).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{} {args:?} failed", path.display());
    String::from_utf8(output.stdout).unwrap()
}
