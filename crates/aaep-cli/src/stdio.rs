//! `aaep stdio`: a demo agent for the parent process, by JSON-RPC over stdin and stdout.

use std::io;
use std::time::Duration;

use aaep::Producer;
use aaep_server::{LogConfig, ServerContext, stdio};

use crate::CommandStatus;
use crate::demo::scenes::{self, Pace, Scene};
use crate::logging::start_logging;
use crate::runtime::runtime;

/// Serve the parent process by JSON-RPC 2.0 over stdin and stdout, one object per line.
///
/// The first request must be aaep.subscribe. Logs go to stderr.
#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  aaep stdio demo
  aaep listen \"stdio:aaep stdio demo banking\"")]
pub(crate) struct StdioArgs {
    #[command(subcommand)]
    command: StdioCommand,
}

#[derive(clap::Subcommand)]
enum StdioCommand {
    /// Run the scripted demo agent once
    ///
    /// The scenes begin when the parent has subscribed, and the process exits after the last one.
    #[command(after_long_help = "Examples:\n  aaep stdio demo banking --no-pauses")]
    Demo {
        /// Scene to play [default: all]
        #[arg(value_name = "SCENE", value_parser = crate::demo::parse_scene)]
        scene: Option<Scene>,
        /// Play without pauses
        #[arg(long)]
        no_pauses: bool,
    },
}

pub(crate) fn run(args: StdioArgs) -> io::Result<CommandStatus> {
    let StdioCommand::Demo { scene, no_pauses } = args.command;
    start_logging(&LogConfig { filter: "warn".to_owned(), json: false });
    let scenes = scene.map_or_else(|| Scene::ALL.to_vec(), |scene| vec![scene]);
    let pace = if no_pauses { Pace::NONE } else { Pace::NORMAL };
    let runtime = runtime()?;
    let close = runtime.block_on(async {
        let builder = Producer::builder("aaep-demo").name("Demo");
        let builder = scenes::languages().into_iter().fold(builder, aaep::Builder::language);
        let producer = builder.build();
        let context = ServerContext::standalone(producer.clone());
        let playing = tokio::spawn(play(producer, scenes, pace));
        let close = stdio::serve(&context, tokio::io::stdin(), tokio::io::stdout()).await;
        playing.abort();
        close
    });
    // A blocking read of stdin cannot be cancelled, so the runtime does not wait for it.
    runtime.shutdown_background();
    let is_clean = close.code.is_clean();
    Ok(if is_clean { CommandStatus::Yes } else { CommandStatus::No })
}

/// Plays the scenes once there is a subscriber, then shuts the producer down.
async fn play(producer: Producer, scenes: Vec<Scene>, pace: Pace) {
    while producer.subscriber_counts().await.subscriptions == 0 {
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    for scene in scenes {
        if let Err(error) = scenes::play_at(scene, &producer, pace).await {
            tracing::debug!(%error, "scene ended early");
        }
    }
    producer.shut_down(DRAIN_TIMEOUT, "The demo is over.").await;
}

/// How often to check for a subscriber.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// How long a subscriber may take to receive the last events; slow speech takes time.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(600);
