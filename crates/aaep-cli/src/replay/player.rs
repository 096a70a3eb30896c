//! Replays a recording: the producer, its transports, and the timing.

use std::io::{self, Write};
use std::time::Duration;

use aaep::{Error, Producer};
use aaep_proto::message::Event;
use aaep_runtime::SystemEntropy;
use aaep_server::{Config, ConfigError, Layer, Server, ServerContext, stdio};
use tokio::time::Instant;

use super::ReplayArgs;
use super::ids::FreshIds;
use super::recording::{RecordedItem, Recording};
use crate::CommandStatus;
use crate::drain::wait_until_drained;
use crate::logging::start_logging;
use crate::output::{fail, print_error};
use crate::runtime::runtime;
use crate::signals::shutdown_signal;

/// How often to check for subscribers and ignored replies.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// How long to wait for a subscriber that receives nothing, after the last event.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(30);

/// The largest delay that is caught up. After a longer one the schedule shifts, because a subscriber should not get a
/// burst when another one was slow.
const MAX_CATCH_UP: Duration = Duration::from_secs(1);

/// How long subscribers may take to receive the end of the stream after a stop signal.
const STOP_TIMEOUT: Duration = Duration::from_secs(1);

/// The message that closes the subscriptions.
const CLOSE_MESSAGE: &str = "The recording is over.";

/// Replays a recording.
struct Player {
    recording: Recording,
    speed: Option<f64>,
    repeat: bool,
    fresh: bool,
    wait: usize,
    producer: Producer,
}

/// Reports replies, which a recording ignores.
struct IgnoredReplies {
    producer: Producer,
    reported: u64,
}

/// Why a playback ended.
enum PlaybackEnd {
    /// The recording is over; this number of events was refused.
    Finished(u64),
    /// The file could not be read.
    Unreadable(io::Error),
    /// The producer was shut down.
    ProducerClosed,
}

pub(super) fn run(args: ReplayArgs, recording: Recording, first: &Event) -> io::Result<CommandStatus> {
    let ReplayArgs { server, stdio, speed, no_delay, repeat, fresh_ids, wait, .. } = args;
    let config = match configure(server.config_over(base(first)), stdio) {
        Ok(config) => config,
        Err(error) => return Ok(fail(error)),
    };
    start_logging(&config.log);
    let speed = (!no_delay).then(|| speed.unwrap_or(1.0));
    let runtime = runtime()?;
    let outcome = runtime.block_on(async {
        let producer = Server::producer(&config);
        let player = Player { recording, speed, repeat, fresh: fresh_ids, wait: wait.get(), producer };
        if stdio { serve_parent(player).await } else { serve(player, config).await }
    });
    // A blocking read of stdin cannot be cancelled, so the runtime does not wait for it.
    runtime.shutdown_background();
    outcome
}

/// Returns the default configuration: the agent and the language of the recording.
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
    // A replay is not stored: it can be repeated.
    config.data = Default::default();
    if alone {
        config.log.filter = "error".to_owned();
    }
    Ok(config)
}

/// Replays to all subscribers of a server.
async fn serve(player: Player, config: Config) -> io::Result<CommandStatus> {
    let secure = config.tls.is_some();
    let server = match Server::new(config, player.producer.clone()).start().await {
        Ok(server) => server,
        Err(error) => return Ok(fail(error)),
    };
    let mut stop = Box::pin(shutdown_signal());
    let mut out = io::stdout();
    writeln!(out, "Serving at {}", server.url())?;
    if let Some(path) = server.socket() {
        writeln!(out, "Serving at unix:{}", path.display())?;
    }
    if let Some(address) = server.grpc_address() {
        writeln!(out, "Serving at grpc{}://{address}", if secure { "s" } else { "" })?;
    }
    out.flush()?;
    let status = tokio::select! {
        status = player.run() => status,
        () = &mut stop => CommandStatus::Yes,
    };
    tokio::select! {
        () = server.stop(CLOSE_MESSAGE) => {}
        // A second signal ends the process at once.
        () = shutdown_signal() => {}
    }
    Ok(status)
}

/// Replays to the parent process over stdin and stdout.
async fn serve_parent(player: Player) -> io::Result<CommandStatus> {
    let producer = player.producer.clone();
    let context = ServerContext::standalone(producer.clone());
    let playback = async {
        let status = player.run().await;
        producer.shut_down(DRAIN_TIMEOUT, CLOSE_MESSAGE).await;
        status
    };
    let serving = stdio::serve(&context, tokio::io::stdin(), tokio::io::stdout());
    tokio::pin!(playback, serving);
    tokio::select! {
        status = &mut playback => {
            serving.await;
            Ok(status)
        }
        close = &mut serving => {
            let is_clean = close.code.is_clean();
            Ok(if is_clean { CommandStatus::Yes } else { CommandStatus::No })
        }
        () = shutdown_signal() => {
            let ending = async { tokio::join!(producer.shut_down(STOP_TIMEOUT, CLOSE_MESSAGE), serving) };
            // A parent that reads nothing is not waited for.
            let _ = tokio::time::timeout(STOP_TIMEOUT * 2, ending).await;
            Ok(CommandStatus::Yes)
        }
    }
}

impl Player {
    /// Replays the recording, and reports ignored replies meanwhile.
    async fn run(self) -> CommandStatus {
        let mut replies = IgnoredReplies { producer: self.producer.clone(), reported: 0 };
        let status = tokio::select! {
            status = self.play_all() => status,
            () = replies.watch() => CommandStatus::Yes,
        };
        replies.report();
        status
    }

    /// Replays once or repeatedly, from the first subscriber to the last event.
    async fn play_all(mut self) -> CommandStatus {
        let mut total_refused = 0;
        loop {
            if !self.wait_for_subscribers().await {
                return CommandStatus::Yes;
            }
            match self.play_once().await {
                PlaybackEnd::Finished(refused) => total_refused += refused,
                PlaybackEnd::Unreadable(error) => return fail(format_args!("the recording cannot be read: {error}")),
                PlaybackEnd::ProducerClosed => return CommandStatus::Yes,
            }
            if !self.repeat {
                break;
            }
            self.fresh = true;
            // Other tasks must run even without pauses, and a file without events must not spin.
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        wait_until_drained(&self.producer).await;
        if total_refused > 0 { CommandStatus::No } else { CommandStatus::Yes }
    }

    /// Waits for the requested number of subscribers. Returns `false` if the producer was shut down.
    async fn wait_for_subscribers(&self) -> bool {
        while let Some(stats) = self.producer.stats().await {
            if stats.subscribers.subscriptions >= self.wait {
                return true;
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        false
    }

    async fn play_once(&mut self) -> PlaybackEnd {
        let mut fresh = self.fresh.then(|| FreshIds::new(SystemEntropy::default()));
        let mut clock = PlaybackClock::new(self.speed);
        let mut refused = 0;
        let recording = std::mem::replace(&mut self.recording, Recording::Memory(Vec::new()));
        let end = async {
            let mut reader = match recording.read() {
                Ok(reader) => reader,
                Err(error) => return PlaybackEnd::Unreadable(error),
            };
            loop {
                let event = match reader.next() {
                    Err(error) => return PlaybackEnd::Unreadable(error),
                    Ok(None) => return PlaybackEnd::Finished(refused),
                    Ok(Some((_, RecordedItem::Event(event)))) => *event,
                    Ok(Some(_)) => continue,
                };
                if let Some(due) = clock.due(event.envelope.timestamp.micros()) {
                    tokio::time::sleep_until(due).await;
                }
                let event = match &mut fresh {
                    Some(ids) => ids.replace_ids(&event),
                    None => event,
                };
                match self.producer.replay_event(event).await {
                    Ok(()) => {}
                    Err(Error::Misuse(misuse)) => {
                        refused += 1;
                        print_error(format_args!("event skipped: {misuse}"));
                    }
                    Err(_) => return PlaybackEnd::ProducerClosed,
                }
            }
        }
        .await;
        self.recording = recording;
        end
    }
}

impl IgnoredReplies {
    /// Reports ignored replies until it is cancelled.
    async fn watch(&mut self) {
        loop {
            tokio::time::sleep(POLL_INTERVAL).await;
            self.report();
        }
    }

    /// Reports the replies that were ignored since the last call.
    fn report(&mut self) {
        let ignored: u64 = self.producer.reply_stats().ignored.values().sum();
        if ignored > self.reported {
            let message = match ignored - self.reported {
                1 => "a reply was ignored".to_owned(),
                new => format!("{new} replies were ignored"),
            };
            print_error(format_args!("{message}: questions of a recording cannot be answered"));
            self.reported = ignored;
        }
    }
}

/// Schedules events by their recorded times.
struct PlaybackClock {
    speed: Option<f64>,
    /// The latest recorded time so far in microseconds, and when it was due.
    last: Option<(i64, Instant)>,
}

impl PlaybackClock {
    fn new(speed: Option<f64>) -> PlaybackClock {
        PlaybackClock { speed, last: None }
    }

    /// Returns when an event with this time in microseconds is due, or `None` if at once.
    fn due(&mut self, micros: i64) -> Option<Instant> {
        let speed = self.speed?;
        let now = Instant::now();
        let Some((before, due)) = self.last else {
            self.last = Some((micros, now));
            return None;
        };
        // A recorded clock that was set back causes no pause.
        let since = u64::try_from(micros.saturating_sub(before)).unwrap_or(0);
        let pause = Duration::try_from_secs_f64(since as f64 / 1e6 / speed).unwrap_or(Duration::MAX);
        let base = if now.saturating_duration_since(due) > MAX_CATCH_UP { now } else { due };
        // A time beyond the range of the clock never comes; a signal still ends the playback.
        let next = base.checked_add(pause).unwrap_or(now + Duration::from_secs(u64::from(u32::MAX)));
        self.last = Some((micros.max(before), next));
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pauses_are_the_recorded_ones_divided_by_the_speed() {
        let mut clock = PlaybackClock::new(Some(2.0));
        let start = Instant::now();
        assert_eq!(clock.due(5_000_000), None);
        assert_eq!(clock.due(7_000_000), Some(start + Duration::from_secs(1)));
        assert_eq!(clock.due(6_000_000), Some(start + Duration::from_secs(1)), "a clock set back causes no pause");
        assert_eq!(clock.due(8_000_000), Some(start + Duration::from_millis(1500)));
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(clock.due(10_000_000), Some(start + Duration::from_secs(61)), "a long delay is not caught up");
        assert!(clock.due(i64::MAX).is_some());
        assert_eq!(PlaybackClock::new(None).due(1), None);
    }
}
