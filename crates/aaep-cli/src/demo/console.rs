//! The terminal of the demo: a subscriber in the same process that prints announcements and reads answers.

use std::future::Future;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use aaep::Producer;
use aaep_announce::Profile;
use aaep_listen::Listener;
use aaep_runtime::Clock;
use aaep_voice::Sounds;

use crate::CommandStatus;
use crate::listen::{LocalProducer, MAX_WAITING_LINES, Outputs, Runner, spawn_reader};

/// How long the last announcements may take.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(30);

/// Follows the demo until it is over or the user quits. `sessions` is the number of sessions after which it is over.
pub(super) async fn run(
    producer: &Producer,
    url: &str,
    sessions: Option<usize>,
    play: impl Future<Output = ()>,
    stop: impl Future<Output = ()>,
) -> io::Result<CommandStatus> {
    let mut out = io::stdout();
    writeln!(out, "Serving the demo at {url}")?;
    writeln!(out, "Listen from another terminal: aaep listen {url}")?;
    writeln!(out, "Answer here with yes or no, then Enter. Type help for all commands, close to quit.")?;
    out.flush()?;
    let profile = Profile::default();
    let clock = Clock::new();
    let source = LocalProducer::new(producer.clone(), profile.capabilities(), clock);
    let mut outputs = Outputs::lines(io::stdout());
    if io::stdout().is_terminal() {
        outputs.sounds = Sounds::bell(io::stdout());
    }
    let mut listener = Listener::new(profile, &[url.to_owned()]);
    if let Some(sessions) = sessions {
        listener = listener.exit_after_sessions(sessions);
    }
    let mut runner = Runner::new(listener, source, outputs, clock);
    let (keyboard, lines) = tokio::sync::mpsc::channel(MAX_WAITING_LINES);
    spawn_reader(keyboard);
    runner.keyboard = lines;
    runner.open_socket().await;
    tokio::select! {
        result = runner.run(stop) => result?,
        () = async { play.await; tokio::time::sleep(DRAIN_TIMEOUT).await } => {}
    }
    runner.finish(true).await?;
    Ok(CommandStatus::Yes)
}
