//! The demo's terminal: what is played is heard and answered here, in one process.

use std::future::Future;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use aaep::Producer;
use aaep_announce::Profile;
use aaep_voice::Sounds;

use crate::CommandStatus;
use crate::listen::{ListenSession, Local, Outlets, Runner, keyboard};

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
    let source = Local::new(producer.clone(), profile.capabilities());
    let mut outlets = Outlets::lines(io::stdout());
    if io::stdout().is_terminal() {
        outlets.sounds = Sounds::bell(io::stdout());
    }
    let mut terminal = ListenSession::new(profile, &[url.to_owned()]);
    if let Some(sessions) = sessions {
        terminal = terminal.leave_after(sessions);
    }
    let mut shell = Runner::new(terminal, source, outlets);
    let (typed, lines) = tokio::sync::mpsc::channel(16);
    keyboard(typed);
    shell.lines = lines;
    #[cfg(unix)]
    shell.open_socket();
    tokio::select! {
        result = shell.run(stop) => result?,
        () = async { play.await; tokio::time::sleep(LAST_EVENTS).await } => {}
    }
    shell.finish(true).await?;
    Ok(CommandStatus::Yes)
}
