//! The arguments of the benchmark.

use std::time::Duration;

use crate::event::{EventTemplate, EventText};
use crate::load::{AgentLink, Pace, WINDOW};
use crate::process::Contestant;

pub(crate) const HELP: &str = "\
cargo bench -p aaep-test --bench people -- [OPTIONS]

Without options: 100, 1,000 and 10,000 users over every link, two workers against one, cold users, and the fan-out over HTTP.
  --quick           100 and 1,000 users over ws and post, for a short time
  --users N,N       how many users
  --link NAME,NAME  ws, ws-burst, post, pipelined, batch
  --pace NAME       paced (one event per second and user) or saturated
  --server NAME     aaep or axum, instead of both in turn
  --seconds N       how long each load lasts
  --text NAME       numbers (the text has digits and is searched for secrets) or prose
  --in-flight N     how many events are in flight when saturated (256)
  --turns N         how many times each load is repeated
  --workers         only two workers against one
  --cold            only cold users
  --fanout-http     only one agent with 1,000 subscribers over SSE
AAEP_BIN names the aaep command to measure; without it, a release build is made.";

/// What to measure.
pub(crate) struct Options {
    pub(crate) users: Vec<usize>,
    pub(crate) links: Vec<AgentLink>,
    pub(crate) paces: Vec<Pace>,
    pub(crate) contestants: Vec<Contestant>,
    pub(crate) duration: Duration,
    pub(crate) turns: usize,
    /// Events in flight of all users together under full load.
    pub(crate) window: usize,
    pub(crate) template: EventTemplate,
    pub(crate) parts: Vec<Part>,
}

/// A part of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Many users with an agent and a subscriber each.
    Users,
    /// Two workers against one.
    Workers,
    /// Users whose engine was put away.
    Cold,
    /// One agent and many subscribers over SSE.
    FanoutHttp,
}

impl Options {
    /// Parses arguments. Returns an error that says what is wrong.
    pub(crate) fn parse(args: &[String]) -> Result<Options, String> {
        let mut options = Options {
            users: vec![100, 1000, 10_000],
            links: AgentLink::ALL.to_vec(),
            paces: Pace::ALL.to_vec(),
            contestants: Contestant::ALL.to_vec(),
            duration: Duration::from_secs(4),
            turns: 3,
            window: WINDOW,
            template: EventTemplate::new(EventText::Numbers),
            parts: Vec::new(),
        };
        let mut args = args.iter();
        let mut is_case = false;
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or(format!("{arg} needs a value"));
            match arg.as_str() {
                "--quick" => {
                    options.users = vec![100, 1000];
                    options.links = vec![AgentLink::WebSocket, AgentLink::Post];
                    options.duration = Duration::from_secs(2);
                    options.turns = 2;
                    is_case = true;
                }
                "--users" => {
                    options.users = value()?.split(',').map(number).collect::<Result<_, _>>()?;
                    is_case = true;
                }
                "--link" => {
                    options.links = choose(value()?, &AgentLink::ALL, AgentLink::name)?;
                    is_case = true;
                }
                "--pace" => {
                    options.paces = choose(value()?, &Pace::ALL, Pace::name)?;
                    is_case = true;
                }
                "--server" => options.contestants = choose(value()?, &Contestant::ALL, Contestant::name)?,
                "--seconds" => options.duration = Duration::from_secs(number(value()?)?.min(600) as u64),
                "--text" => {
                    options.template = EventTemplate::new(choose(value()?, &EventText::ALL, EventText::name)?[0]);
                }
                "--in-flight" => options.window = number(value()?)?,
                "--turns" => options.turns = number(value()?)?.min(100),
                "--workers" => options.parts.push(Part::Workers),
                "--cold" => options.parts.push(Part::Cold),
                "--fanout-http" => options.parts.push(Part::FanoutHttp),
                // cargo bench passes this.
                "--bench" => {}
                other => return Err(format!("{other} is not an option")),
            }
        }
        if options.parts.is_empty() {
            options.parts.push(Part::Users);
            if !is_case {
                options.parts.extend([Part::Workers, Part::Cold, Part::FanoutHttp]);
            }
        } else if is_case {
            options.parts.push(Part::Users);
        }
        Ok(options)
    }
}

fn number(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|number| *number > 0).ok_or(format!("{text} is not a positive number"))
}

fn choose<T: Copy>(text: &str, all: &[T], name: fn(T) -> &'static str) -> Result<Vec<T>, String> {
    let find = |wanted: &str| all.iter().copied().find(|one| name(*one) == wanted);
    let names = || all.iter().map(|one| name(*one)).collect::<Vec<_>>().join(", ");
    text.split(',').map(|wanted| find(wanted).ok_or_else(|| format!("{wanted} is none of {}", names()))).collect()
}
