//! Two workers of `aaep serve` against one: events per second of wall time, with all cores for everybody.

use crate::connect::AgentTransport;
use crate::crowd::Crowd;
use crate::load::{AgentLink, Pace};
use crate::options::Options;
use crate::process::{Contestant, Cores, ServerProcess, ServerSetup, Usage, aaep_output};
use crate::tokens::TokenIssuer;

/// Users of the comparison.
const USERS: usize = 1000;

/// Several events per write, because the clients use the same cores.
const LINK: AgentLink = AgentLink::WebSocketBurst;

pub(crate) fn measure(options: &Options, issuer: &TokenIssuer) {
    println!("\nTwo workers against one, {USERS} users, {} saturated", LINK.name());
    if !aaep_output(&["serve", "--help"]).contains("--workers") {
        println!("skipped: aaep serve has no option --workers");
        return;
    }
    Cores::All.pin();
    let mut rates = [0.0; 2];
    for _ in 0..options.turns {
        for (index, rate) in rates.iter_mut().enumerate() {
            *rate += run(options, issuer, index + 1) / options.turns as f64;
        }
    }
    println!("two workers: {:.2} times one ({:.0} and {:.0} events/s)", rates[1] / rates[0], rates[1], rates[0]);
}

/// Returns the events per second with this many workers.
fn run(options: &Options, issuer: &TokenIssuer, workers: usize) -> f64 {
    let mut setup = ServerSetup::new(issuer, USERS);
    setup.cores = Cores::All;
    setup.args = vec!["--workers".into(), workers.to_string().into()];
    let server = ServerProcess::start(Contestant::Aaep, &setup);
    let mut crowd = Crowd::connect(&server, issuer, AgentTransport::WebSocket, 0..USERS, &options.template);
    crowd.each_once(AgentLink::WebSocket);
    let this = std::process::id();
    let (server_before, client_before) = (server.usage(), Usage::of(this));
    let result = crowd.run(LINK, Pace::Saturated, options.duration);
    let cores = |usage: Usage, before: Usage| usage.since(&before).total() / result.seconds;
    println!(
        "{workers} worker: {:.0} events/s; the server used {:.2} cores, the clients {:.2}",
        result.events as f64 / result.seconds,
        cores(server.usage(), server_before),
        cores(Usage::of(this), client_before)
    );
    result.events as f64 / result.seconds
}
