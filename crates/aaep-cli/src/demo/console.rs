//! The terminal of the demo: a subscriber in the same process that announces events and reads answers.

use std::future::Future;
use std::io;
use std::time::Duration;

use aaep::Producer;
use aaep_runtime::Clock;

use crate::CommandStatus;
use crate::drain::wait_until_drained;
use crate::listen::{ListenerFlags, LocalProducer, OpenListener, Runner, spawn_reader};

/// How long the last events may take from the producer to the announcer in this process.
const SETTLE_TIME: Duration = Duration::from_secs(1);

/// What is said about the web page after the address.
pub(super) const PAGE_HINT: &str = "Open that address in a browser to answer there.";

/// What the terminal shows, and for how long.
pub(super) struct Console<'a> {
    pub(super) url: &'a str,
    /// Whether the address is that of a web page.
    pub(super) has_page: bool,
    pub(super) flags: &'a ListenerFlags,
    /// The number of sessions after which the demo is over.
    pub(super) sessions: Option<usize>,
}

/// Follows the demo until it is over and everything was announced, or until the user quits. The outer error is a mistake
/// in the flags.
pub(super) async fn run(
    producer: &Producer,
    console: Console<'_>,
    play: impl Future<Output = ()>,
    stop: impl Future<Output = ()>,
) -> Result<io::Result<CommandStatus>, String> {
    let listener = console.flags.open(&[console.url.to_owned()], false).await?;
    Ok(follow(producer, console, listener, play, stop).await)
}

async fn follow(
    producer: &Producer,
    console: Console<'_>,
    listener: OpenListener,
    play: impl Future<Output = ()>,
    stop: impl Future<Output = ()>,
) -> io::Result<CommandStatus> {
    let url = console.url;
    let OpenListener { mut listener, mut outputs, keyboard, lines } = listener;
    outputs.print_text(&format!("Serving the demo at {url}"))?;
    if console.has_page {
        outputs.print_text(PAGE_HINT)?;
    }
    outputs.print_text(&format!("Listen from another terminal: aaep listen {url}"))?;
    outputs.print_text("Answer here with yes or no, then Enter. Type help for all commands, close to quit.")?;
    if let Some(sessions) = console.sessions {
        listener = listener.exit_after_sessions(sessions);
    }
    let clock = Clock::new();
    let source = LocalProducer::new(producer.clone(), listener.capabilities(), clock);
    let mut runner = Runner::new(listener, source, outputs, clock);
    spawn_reader(keyboard);
    runner.keyboard = lines;
    runner.open_socket().await;
    let over = async {
        play.await;
        // Text comes at the pace of the user.
        wait_until_drained(producer).await;
        tokio::time::sleep(SETTLE_TIME).await;
    };
    runner.run(stop, over).await?;
    runner.finish().await?;
    Ok(CommandStatus::Yes)
}
