//! Cost of an event where many people use one server: each has an agent and a subscriber over WebSocket. `aaep serve`, which
//! checks tokens and events, beside plain axum with one broadcast channel per user, which checks nothing, in the same run.
//!
//! `cargo bench -p aaep-test --bench people` measures everything; `-- --help` lists the options. Each server runs in a process
//! of its own on the first core, and all clients on one thread of this process on another. The servers take turns. Linux
//! only: it reads `/proc`.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a measurement that cannot go on ends")]

mod cold;
mod connect;
mod crowd;
mod event;
mod fanout_http;
mod load;
mod options;
mod plain;
mod process;
mod report;
mod tokens;
mod wire;
mod workers;

use std::process::ExitCode;
use std::time::Duration;

use connect::AgentTransport;
use crowd::Crowd;
use load::{AgentLink, Pace};
use options::{HELP, Options, Part};
use process::{Contestant, Cores, EXECUTE, SERVE, ServerProcess, ServerSetup, Usage};
use report::Row;
use tokens::TokenIssuer;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.first().map(String::as_str) {
        Some(EXECUTE) => process::execute(&args[1..]),
        Some(SERVE) => {
            plain::run(args[1].parse().unwrap(), args[2].parse().unwrap());
            return ExitCode::SUCCESS;
        }
        Some("--help") => {
            println!("{HELP}");
            return ExitCode::SUCCESS;
        }
        _ => {}
    }
    let options = match Options::parse(&args) {
        Ok(options) => options,
        Err(error) => {
            eprintln!("people: {error}; see --help");
            return ExitCode::from(2);
        }
    };
    let files = process::raise_file_limit();
    let issuer = TokenIssuer::new();
    println!("events of {} bytes; times are CPU time of the server per event", options.template.len());
    let mut foreign = 0;
    for part in &options.parts {
        match part {
            Part::Users => foreign += measure_users(&options, &issuer, files),
            Part::Workers => workers::measure(&options, &issuer),
            Part::Cold => cold::measure(&issuer),
            Part::FanoutHttp => fanout_http::measure(&options, &issuer),
        }
    }
    if foreign > 0 {
        println!("\nNO ISOLATION: {foreign} deliveries of events went to other users.");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// Users of a server that delivers every event to everybody: more would make quadratically many deliveries.
const UNISOLATED_USERS: usize = 1000;

/// Events in flight on such a server: each of them waits for every subscriber, and too many would be coalesced.
const UNISOLATED_WINDOW: usize = 32;

/// Measures every number of users. Returns how many deliveries went to other users.
fn measure_users(options: &Options, issuer: &TokenIssuer, files: usize) -> usize {
    let is_isolated = !options.contestants.contains(&Contestant::Aaep) || is_isolated(options, issuer);
    let mut foreign = 0;
    for &wanted in &options.users {
        // One file for each side of two connections per user, with some to spare: 9,000 users with a limit of 20,000.
        let mut users = wanted.min(files / 20 * 9).min(event::MAX_USERS);
        if !is_isolated {
            users = users.min(UNISOLATED_USERS);
        }
        if users < wanted {
            let reason = if is_isolated { "the limit of open files" } else { "the missing isolation" };
            println!("\n{wanted} users were asked for; {reason} allows {users}");
        }
        for transport in [AgentTransport::WebSocket, AgentTransport::Http] {
            let links: Vec<AgentLink> = options.links.iter().copied().filter(|l| l.transport() == transport).collect();
            if !links.is_empty() {
                println!("\n{users} users, agents over {transport:?}");
                // With more, the files do not suffice for both servers at once.
                let is_together = users * 2 * options.contestants.len() + 200 < files;
                let window = if is_isolated { options.window } else { options.window.min(UNISOLATED_WINDOW) };
                let case = Case { options, issuer, users, transport, links, window };
                foreign += case.measure(is_together);
            }
        }
    }
    foreign
}

/// Returns whether a user hears nothing of another.
fn is_isolated(options: &Options, issuer: &TokenIssuer) -> bool {
    let server = ServerProcess::start(Contestant::Aaep, &ServerSetup::new(issuer, 2));
    let mut crowd = Crowd::connect(&server, issuer, AgentTransport::WebSocket, 0..2, &options.template);
    let result = crowd.run(AgentLink::WebSocket, Pace::Saturated, Duration::from_millis(200));
    if result.foreign > 0 {
        println!(
            "NO ISOLATION: this server delivers every event to every user ({} of {} deliveries went to the wrong one).\n\
             With N users an event costs N deliveries, so only one user compares with axum.",
            result.foreign,
            result.foreign + result.events
        );
    }
    result.foreign == 0
}

/// A number of users with one kind of agent.
struct Case<'a> {
    options: &'a Options,
    issuer: &'a TokenIssuer,
    users: usize,
    transport: AgentTransport,
    links: Vec<AgentLink>,
    window: usize,
}

/// A server with all of its users.
struct Site {
    crowd: Crowd,
    server: ServerProcess,
}

impl Case<'_> {
    /// Measures all servers in turn. Returns how many deliveries went to other users.
    fn measure(&self, is_together: bool) -> usize {
        let mut rows: Vec<Row> = Vec::new();
        for &link in &self.links {
            for &pace in &self.options.paces {
                if pace == Pace::Saturated || link.burst() == 1 {
                    rows.extend(self.options.contestants.iter().map(|&contestant| Row::new(contestant, link, pace)));
                }
            }
        }
        if is_together {
            let mut sites: Vec<Site> = self.options.contestants.iter().map(|c| self.connect(*c)).collect();
            for _ in 0..self.options.turns {
                for row in &mut rows {
                    let site = sites.iter_mut().find(|site| site.server.contestant == row.contestant).unwrap();
                    self.turn(site, row);
                }
            }
        } else {
            for _ in 0..self.options.turns {
                for &contestant in &self.options.contestants {
                    let mut site = self.connect(contestant);
                    rows.iter_mut()
                        .filter(|row| row.contestant == contestant)
                        .for_each(|row| self.turn(&mut site, row));
                }
            }
        }
        report::print(&rows);
        rows.iter().map(Row::foreign).sum()
    }

    /// Starts a server and connects all users. Prints the memory of an idle user.
    fn connect(&self, contestant: Contestant) -> Site {
        let server = ServerProcess::start(contestant, &ServerSetup::new(self.issuer, self.users + 1));
        Cores::Others.pin();
        // The first user makes the server load what it needs once.
        let first = self.users..self.users + 1;
        Crowd::connect(&server, self.issuer, self.transport, first, &self.options.template);
        let empty = server.usage().resident_kib;
        let mut crowd = Crowd::connect(&server, self.issuer, self.transport, 0..self.users, &self.options.template);
        crowd.window = self.window;
        let connected = server.usage().resident_kib;
        crowd.each_once(self.links[0]);
        let used = server.usage().resident_kib;
        let each = |kib: f64| (kib - empty) / self.users as f64;
        println!(
            "{} (process {}): {:.1} KiB per idle user with agent and subscriber, {:.1} KiB after one event each",
            contestant.name(),
            server.pid(),
            each(connected),
            each(used)
        );
        Site { crowd, server }
    }

    fn turn(&self, site: &mut Site, row: &mut Row) {
        let this = std::process::id();
        let (server, client) = (site.server.usage(), Usage::of(this));
        let result = site.crowd.run(row.link, row.pace, self.options.duration);
        row.add(result, site.server.usage().since(&server), Usage::of(this).since(&client));
    }
}
