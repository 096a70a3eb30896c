//! `aaep stdio`: an agent for the program that started this one, by JSON-RPC on standard input and output.

use std::io;
use std::time::Duration;

use aaep::Producer;
use aaep_server::{LogConfig, ServerContext, stdio};

use crate::CommandStatus;
use crate::demo::scenes::{self, Pace, Scene};
use crate::serve::{runtime, start_logging};

/// Serve the program that started this one, by JSON-RPC 2.0 on standard input and output, one object for each line.
///
/// Send aaep.subscribe first. Standard error is for people.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// Play a scripted agent, once
    Demo {
        /// What to play; all of it, one after the other, without a name
        #[arg(value_name = "SCENE", value_parser = crate::demo::scene)]
        scene: Option<Scene>,
        /// Play as fast as the machine can
        #[arg(long)]
        no_pauses: bool,
    },
}

pub(crate) fn run(args: Args) -> io::Result<CommandStatus> {
    let What::Demo { scene, no_pauses } = args.what;
    start_logging(&LogConfig { filter: "warn".to_owned(), json: false });
    let scenes = scene.map_or_else(|| Scene::ALL.to_vec(), |scene| vec![scene]);
    let pace = if no_pauses { Pace::NONE } else { Pace::NORMAL };
    let runtime = runtime()?;
    let close = runtime.block_on(async {
        let builder = Producer::builder("aaep-demo").name("Demo");
        let builder = scenes::languages().into_iter().fold(builder, aaep::Builder::language);
        let producer = builder.build();
        let hub = ServerContext::standalone(producer.clone());
        let playing = tokio::spawn(play(producer, scenes, pace));
        let close = stdio::serve(&hub, tokio::io::stdin(), tokio::io::stdout()).await;
        playing.abort();
        close
    });
    // A read of standard input cannot be called off, so it is not waited for.
    runtime.shutdown_background();
    let good = close.code.is_clean();
    Ok(if good { CommandStatus::Yes } else { CommandStatus::No })
}

/// Plays when there is someone to hear it, and ends when all of it was heard.
async fn play(producer: Producer, scenes: Vec<Scene>, pace: Pace) {
    while producer.subscriber_counts().await.subscriptions == 0 {
        tokio::time::sleep(LOOK).await;
    }
    for scene in scenes {
        if let Err(error) = scenes::play_at(scene, &producer, pace).await {
            tracing::debug!(%error, "a scene ended early");
        }
    }
    producer.shut_down(PATIENCE, "The demo is over.").await;
}

/// How often to look whether someone listens.
const LOOK: Duration = Duration::from_millis(50);

/// How long a listener may take for what is left at the end: slow speech takes its time.
const PATIENCE: Duration = Duration::from_secs(600);
