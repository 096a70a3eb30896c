//! The demo's terminal: what is played is heard and answered here, in one process.

use std::future::Future;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use aaep::Producer;
use aaep_announce::Profile;
use aaep_listen::ListenSession;
use aaep_voice::Sounds;

use crate::CommandStatus;
use crate::listen::{Clock, LocalProducer, MAX_WAITING_LINES, Outputs, Runner, spawn_reader};

/// How long the last events may take to be heard.
const LAST_EVENTS: Duration = Duration::from_secs(30);

/// Listens to what is played, with the keyboard, until it is over or the user leaves. `sessions` is how many there are,
/// if it ends by itself.
pub(super) async fn run(
    producer: &Producer,
    url: &str,
    sessions: Option<usize>,
    play: impl Future<Output = ()>,
    stop: impl Future<Output = ()>,
) -> io::Result<CommandStatus> {
    let mut out = io::stdout();
    writeln!(out, "The demo serves at {url}")?;
    writeln!(out, "Listen from another terminal: aaep listen {url}")?;
    writeln!(out, "Here you hear it too. Answer by typing yes or no, then Enter. Type help for more, close to end.")?;
    out.flush()?;
    let profile = Profile::default();
    let clock = Clock::new();
    let source = LocalProducer::new(producer.clone(), profile.capabilities(), clock);
    let mut outputs = Outputs::lines(io::stdout());
    if io::stdout().is_terminal() {
        outputs.sounds = Sounds::bell(io::stdout());
    }
    let mut session = ListenSession::new(profile, &[url.to_owned()]);
    if let Some(sessions) = sessions {
        session = session.exit_after_sessions(sessions);
    }
    let mut runner = Runner::new(session, source, outputs, clock);
    let (keyboard, lines) = tokio::sync::mpsc::channel(MAX_WAITING_LINES);
    spawn_reader(keyboard);
    runner.keyboard = lines;
    runner.open_socket();
    tokio::select! {
        result = runner.run(stop) => result?,
        () = async { play.await; tokio::time::sleep(LAST_EVENTS).await } => {}
    }
    runner.finish(true).await?;
    Ok(CommandStatus::Yes)
}
