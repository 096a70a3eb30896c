//! The telling itself: a producer, its transports, and the pace.

use std::io::{self, Write};
use std::time::Duration;

use aaep::{Error, Producer};
use aaep_proto::message::Event;
use aaep_server::{Config, ConfigError, Layer, Server, ServerContext, stdio};
use tokio::time::Instant;

use super::ids::{FreshIds, System};
use super::recording::{Entry, Recording};
use super::{Args, failed};
use crate::CommandStatus;
use crate::drain::linger;
use crate::output::complain;
use crate::serve::{runtime, start_logging, told_to_stop};

/// How often to look who listens and what is left to send.
const LOOK: Duration = Duration::from_millis(20);

/// How long who does not take anything is waited for after the last event.
const LINGER: Duration = Duration::from_secs(30);

/// Later than this, time is not made up for: a listener should not get a burst because another one was slow.
const LATE: Duration = Duration::from_secs(1);

/// What a subscriber hears at the end.
const OVER: &str = "The recording is over.";

/// How a recording is told.
struct Teller {
    recording: Recording,
    speed: Option<f64>,
    repeat: bool,
    fresh: bool,
    wait: usize,
    producer: Producer,
}

/// Replies that were ignored, and how many of them were told of.
struct Replies {
    producer: Producer,
    told: u64,
}

/// Why the telling ended.
enum End {
    /// All was told; so many events could not be.
    Told(u64),
    /// The file could not be read to its end.
    Unreadable(io::Error),
    /// The producer has ended.
    Gone,
}

pub(super) fn run(args: Args, recording: Recording, first: &Event) -> io::Result<CommandStatus> {
    let Args { server, stdio, speed, no_delay, repeat, fresh_ids, wait, .. } = args;
    let config = match configure(server.config_over(base(first)), stdio) {
        Ok(config) => config,
        Err(error) => return Ok(failed(&error.to_string())),
    };
    start_logging(&config.log);
    let speed = (!no_delay).then(|| speed.unwrap_or(1.0));
    let runtime = runtime()?;
    let outcome = runtime.block_on(async {
        let producer = Server::producer(&config);
        let teller = Teller { recording, speed, repeat, fresh: fresh_ids, wait: wait.get(), producer };
        if stdio { serve_parent(teller).await } else { serve(teller, config).await }
    });
    // A read of standard input cannot be called off, so it is not waited for.
    runtime.shutdown_background();
    outcome
}

/// Who spoke then speaks now, unless the user says otherwise.
fn base(first: &Event) -> Layer {
    let mut base = Layer::default();
    let producer = &first.envelope.producer;
    base.set("log.filter", "warn");
    base.set("agent_id", producer.agent_id.clone());
    if let Some(name) = &producer.agent_name {
        base.set("agent_name", name.clone());
    }
    if let Some(language) = first.envelope.localization_hints.as_ref().and_then(|h| h.primary_language.as_ref()) {
        base.set("languages", vec![language.as_str().to_owned()]);
    }
    base
}

fn configure(config: Result<Config, ConfigError>, alone: bool) -> Result<Config, ConfigError> {
    let mut config = config?;
    // Nothing of a recording is kept: it can be told again.
    config.data = Default::default();
    if alone {
        config.log.filter = "error".to_owned();
    }
    Ok(config)
}

/// Tells it to everyone who comes.
async fn serve(teller: Teller, config: Config) -> io::Result<CommandStatus> {
    let secure = config.tls.is_some();
    let server = match Server::new(config, teller.producer.clone()).start().await {
        Ok(server) => server,
        Err(error) => return Ok(failed(&error.to_string())),
    };
    let mut stop = Box::pin(told_to_stop());
    let mut out = io::stdout();
    writeln!(out, "Serving at {}", server.url())?;
    if let Some(path) = server.socket() {
        writeln!(out, "Serving at unix:{}", path.display())?;
    }
    if let Some(address) = server.grpc_address() {
        writeln!(out, "Serving at grpc{}://{address}", if secure { "s" } else { "" })?;
    }
    out.flush()?;
    let outcome = tokio::select! {
        outcome = teller.tell() => outcome,
        () = &mut stop => CommandStatus::Yes,
    };
    tokio::select! {
        () = server.stop(OVER) => {}
        // Who asks twice does not want to wait.
        () = told_to_stop() => {}
    }
    Ok(outcome)
}

/// Tells it to the program that started this one.
async fn serve_parent(teller: Teller) -> io::Result<CommandStatus> {
    let producer = teller.producer.clone();
    let hub = ServerContext::standalone(producer.clone());
    let telling = async {
        let outcome = teller.tell().await;
        producer.shut_down(LINGER, OVER).await;
        outcome
    };
    let serving = stdio::serve(&hub, tokio::io::stdin(), tokio::io::stdout());
    tokio::pin!(telling, serving);
    tokio::select! {
        outcome = &mut telling => {
            serving.await;
            Ok(outcome)
        }
        close = &mut serving => {
            let good = close.code.is_clean();
            Ok(if good { CommandStatus::Yes } else { CommandStatus::No })
        }
        () = told_to_stop() => {
            let ending = async { tokio::join!(producer.shut_down(LATE, OVER), serving) };
            // A parent that takes nothing is not waited for.
            let _ = tokio::time::timeout(LATE * 2, ending).await;
            Ok(CommandStatus::Yes)
        }
    }
}

impl Teller {
    /// Tells it, and tells of replies meanwhile.
    async fn tell(self) -> CommandStatus {
        let mut replies = Replies { producer: self.producer.clone(), told: 0 };
        let outcome = tokio::select! {
            outcome = self.tell_all() => outcome,
            () = replies.watch() => CommandStatus::Yes,
        };
        replies.note();
        outcome
    }

    /// From the first subscriber to the last event, as often as it was asked for.
    async fn tell_all(mut self) -> CommandStatus {
        let mut left_out = 0;
        loop {
            if !self.someone_listens().await {
                return CommandStatus::Yes;
            }
            match self.tell_once().await {
                End::Told(bad) => left_out += bad,
                End::Unreadable(error) => return failed(&format!("the recording cannot be read: {error}")),
                End::Gone => return CommandStatus::Yes,
            }
            if !self.repeat {
                break;
            }
            self.fresh = true;
            // Also without pauses others must have their turn, and a file without a single event must not spin.
            tokio::time::sleep(LOOK).await;
        }
        linger(&self.producer).await;
        if left_out > 0 { CommandStatus::No } else { CommandStatus::Yes }
    }

    /// Waits for subscribers; answers whether the producer is still there.
    async fn someone_listens(&self) -> bool {
        while let Some(measures) = self.producer.stats().await {
            if measures.presence.subscriptions >= self.wait {
                return true;
            }
            tokio::time::sleep(LOOK).await;
        }
        false
    }

    async fn tell_once(&mut self) -> End {
        let mut fresh = self.fresh.then(|| FreshIds::new(System));
        let mut pace = Pace::new(self.speed);
        let mut left_out = 0;
        let recording = std::mem::replace(&mut self.recording, Recording::Kept(Vec::new()));
        let end = async {
            let mut reader = match recording.read() {
                Ok(reader) => reader,
                Err(error) => return End::Unreadable(error),
            };
            loop {
                let event = match reader.next() {
                    Err(error) => return End::Unreadable(error),
                    Ok(None) => return End::Told(left_out),
                    Ok(Some((_, Entry::Event(event)))) => *event,
                    Ok(Some(_)) => continue,
                };
                if let Some(due) = pace.due(event.envelope.timestamp.micros()) {
                    tokio::time::sleep_until(due).await;
                }
                let event = match &mut fresh {
                    Some(ids) => ids.rename(&event),
                    None => event,
                };
                match self.producer.replay_event(event).await {
                    Ok(()) => {}
                    Err(Error::Misuse(misuse)) => {
                        left_out += 1;
                        complain(format_args!("an event was left out: {misuse}"));
                    }
                    Err(_) => return End::Gone,
                }
            }
        }
        .await;
        self.recording = recording;
        end
    }
}

impl Replies {
    /// Looks for them for as long as the telling goes on.
    async fn watch(&mut self) {
        loop {
            tokio::time::sleep(LOOK).await;
            self.note();
        }
    }

    /// Says that a reply came and was not used.
    fn note(&mut self) {
        let ignored: u64 = self.producer.reply_stats().ignored.values().sum();
        if ignored > self.told {
            let words = match ignored - self.told {
                1 => "a reply was ignored".to_owned(),
                new => format!("{new} replies were ignored"),
            };
            complain(format_args!("{words}: a recording takes no answers"));
            self.told = ignored;
        }
    }
}

/// When each event is due.
struct Pace {
    speed: Option<f64>,
    /// The latest time of the recording so far, and when it was due.
    last: Option<(i64, Instant)>,
}

impl Pace {
    fn new(speed: Option<f64>) -> Pace {
        Pace { speed, last: None }
    }

    /// When an event of this time, in microseconds, is due; nothing means at once.
    fn due(&mut self, micros: i64) -> Option<Instant> {
        let speed = self.speed?;
        let now = Instant::now();
        let Some((before, due)) = self.last else {
            self.last = Some((micros, now));
            return None;
        };
        // Time does not go back, also if the clock of the recording did.
        let since = u64::try_from(micros.saturating_sub(before)).unwrap_or(0);
        let pause = Duration::try_from_secs_f64(since as f64 / 1e6 / speed).unwrap_or(Duration::MAX);
        let base = if now.saturating_duration_since(due) > LATE { now } else { due };
        // Further than a clock can count is never; a signal still ends it.
        let next = base.checked_add(pause).unwrap_or(now + Duration::from_secs(u64::from(u32::MAX)));
        self.last = Some((micros.max(before), next));
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pauses_are_those_of_the_recording_divided_by_the_speed() {
        let mut pace = Pace::new(Some(2.0));
        let start = Instant::now();
        assert_eq!(pace.due(5_000_000), None);
        assert_eq!(pace.due(7_000_000), Some(start + Duration::from_secs(1)));
        assert_eq!(pace.due(6_000_000), Some(start + Duration::from_secs(1)), "time does not go back");
        assert_eq!(pace.due(8_000_000), Some(start + Duration::from_millis(1500)));
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(pace.due(10_000_000), Some(start + Duration::from_secs(61)), "lost time is not made up for");
        assert!(pace.due(i64::MAX).is_some());
        assert_eq!(Pace::new(None).due(1), None);
    }
}
