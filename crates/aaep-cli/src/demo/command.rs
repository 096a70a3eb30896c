//! `aaep demo`: the main job in one command, on one machine.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use aaep::Producer;
use aaep_server::{Config, Layer, RunningServer, Server};

use super::console;
use super::scenes::{self, Pace, Scene};
use crate::CommandStatus;
use crate::drain::linger;
use crate::serve::{Flags, failed, runtime, start_logging, told_to_stop};

/// Play an agent that can be heard, and answer it.
///
/// Opens a server with a scripted agent that asks before it acts. Shows what is announced and takes your answers.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// What to play; all of it, one after the other, without a name
    #[arg(value_name = "SCENE", value_parser = scene)]
    scene: Option<Scene>,
    /// Serve quietly until told to stop, without a keyboard
    #[arg(long)]
    no_input: bool,
    /// Play once and end
    #[arg(long)]
    once: bool,
    /// Play as fast as the machine can
    #[arg(long)]
    no_pauses: bool,
    /// List the scenes
    #[arg(long)]
    list: bool,
    #[command(flatten)]
    server: Flags,
}

/// The scene of this name, or which ones there are.
pub(crate) fn scene(name: &str) -> Result<Scene, String> {
    Scene::find(name).ok_or_else(|| {
        let names: Vec<&str> = Scene::ALL.iter().map(|scene| scene.name()).collect();
        format!("there is no such scene; choose one of {}", names.join(", "))
    })
}

pub(crate) fn run(args: Args) -> io::Result<CommandStatus> {
    if args.list {
        let mut out = io::stdout();
        for scene in Scene::ALL {
            writeln!(out, "{}: {}", scene.name(), scene.description())?;
        }
        return Ok(CommandStatus::Yes);
    }
    let quiet = args.no_input || !io::stdin().is_terminal();
    let config = match args.server.config_over(defaults()) {
        Ok(config) => config,
        Err(error) => return Ok(failed(&error)),
    };
    start_logging(&config.log);
    runtime()?.block_on(async {
        // Before anything is open: whatever is open is closed in order.
        let stop = told_to_stop();
        let server = match open(config).await {
            Ok(server) => server,
            Err(error) => return Ok(failed(&error)),
        };
        let pace = if args.no_pauses { Pace::NONE } else { Pace::NORMAL };
        // With a keyboard, one scene is a story with an end.
        let once = args.once || (args.scene.is_some() && !quiet);
        let show = Show { scenes: args.scene.map_or_else(|| Scene::ALL.to_vec(), |s| vec![s]), pace, once };
        let outcome = if quiet {
            serve(&server, &show, stop).await?
        } else {
            let sessions = once.then_some(show.scenes.len());
            console::run(server.producer(), &server.url(), sessions, show.play(server.producer()), stop).await?
        };
        server.stop("The demo is over.").await;
        Ok(outcome)
    })
}

/// What the demo has unless the user says otherwise.
fn defaults() -> Layer {
    let mut layer = Layer::default();
    layer.set("agent_id", "aaep-demo");
    layer.set("agent_name", "Demo");
    layer.set("listen", "127.0.0.1:8377");
    layer.set("log.filter", "warn");
    let languages: Vec<String> = scenes::languages().iter().map(|tag| tag.to_string()).collect();
    layer.set("languages", languages);
    layer
}

async fn open(config: Config) -> Result<RunningServer, aaep_server::ConfigError> {
    let producer = Server::producer(&config);
    Server::new(config, producer).start().await
}

/// Plays for whoever connects, until told to stop.
async fn serve(server: &RunningServer, show: &Show, stop: impl Future<Output = ()>) -> io::Result<CommandStatus> {
    let mut out = io::stdout();
    writeln!(out, "Serving the demo at {}", server.url())?;
    out.flush()?;
    tokio::select! {
        () = stop => {}
        () = async { show.play(server.producer()).await; linger(server.producer()).await } => {}
    }
    Ok(CommandStatus::Yes)
}

/// What is played.
pub(super) struct Show {
    scenes: Vec<Scene>,
    pace: Pace,
    once: bool,
}

impl Show {
    /// Plays again and again, or all of it once. To nobody it plays nothing.
    pub(super) async fn play(&self, producer: &Producer) {
        loop {
            for scene in &self.scenes {
                while producer.subscriber_counts().await.subscriptions == 0 {
                    tokio::time::sleep(LOOK).await;
                }
                if let Err(error) = scenes::play_at(*scene, producer, self.pace).await {
                    tracing::debug!(%error, "a scene ended early");
                }
                tokio::time::sleep(if self.once { LOOK } else { BETWEEN }).await;
            }
            if self.once {
                return;
            }
        }
    }
}

/// How often to look whether someone listens.
const LOOK: Duration = Duration::from_millis(200);

/// A pause between two scenes.
const BETWEEN: Duration = Duration::from_secs(3);
