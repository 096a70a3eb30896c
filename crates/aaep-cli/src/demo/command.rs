//! The command line of `aaep demo`, and the server with the scenes.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use aaep::Producer;
use aaep_server::{Config, ConfigError, Layer, RunningServer, Scenes, Server};
use tokio::sync::mpsc;

use super::console::{self, Console};
use super::scenes::{self, Pace, Scene};
use crate::CommandStatus;
use crate::browser::open_browser;
use crate::drain::wait_until_drained;
use crate::listen::ListenerFlags;
use crate::logging::start_logging;
use crate::output::{fail, print_line};
use crate::runtime::runtime;
use crate::server_flags::ServerFlags;
use crate::signals::shutdown_signal;

/// Run a scripted demo agent.
///
/// Starts a server with an agent that asks before it acts. On a terminal, prints the announcements and reads your answers.
/// The address that it prints is also a web page: open it in a browser, or use --open.
#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  aaep demo
  aaep demo banking
  aaep demo --open
  aaep demo --list")]
pub(crate) struct DemoArgs {
    /// Scene to play [default: all]
    #[arg(value_name = "SCENE", value_parser = parse_scene)]
    scene: Option<Scene>,
    /// Do not read answers from the terminal; serve until stopped
    #[arg(long)]
    no_input: bool,
    /// Play once, then exit
    #[arg(long)]
    once: bool,
    /// Play without pauses
    #[arg(long)]
    no_pauses: bool,
    /// Play only the scenes that somebody starts on the web page
    #[arg(long, conflicts_with_all = ["scene", "once"])]
    on_request: bool,
    /// Open the web page in a browser
    #[arg(long, conflicts_with = "no_page")]
    open: bool,
    /// List the scenes
    #[arg(long)]
    list: bool,
    #[command(flatten)]
    listener: ListenerFlags,
    #[command(flatten)]
    server: ServerFlags,
}

/// Parses the name of a scene.
pub(crate) fn parse_scene(name: &str) -> Result<Scene, String> {
    Scene::find(name).ok_or_else(|| {
        let names: Vec<&str> = Scene::ALL.iter().map(|scene| scene.name()).collect();
        format!("unknown scene; choose one of {}", names.join(", "))
    })
}

pub(crate) fn run(args: DemoArgs) -> io::Result<CommandStatus> {
    if args.list {
        for scene in Scene::ALL {
            print_line(&format!("{}: {}", scene.name(), scene.description()))?;
        }
        return Ok(CommandStatus::Yes);
    }
    let quiet = args.no_input || !io::stdin().is_terminal();
    let config = match args.server.config_over(defaults()) {
        Ok(config) => config,
        Err(error) => return Ok(fail(error)),
    };
    let has_page = config.page;
    start_logging(&config.log);
    runtime()?.block_on(async {
        // Before the server starts, so that a signal always shuts it down in order.
        let stop = shutdown_signal();
        let (starts, requested) = mpsc::channel(MAX_REQUESTED_SCENES);
        let server = match open(config, starts).await {
            Ok(server) => server,
            Err(error) => return Ok(fail(error)),
        };
        if args.open {
            open_browser(&server.url());
        }
        let pace = if args.no_pauses { Pace::NONE } else { Pace::NORMAL };
        // On a terminal, a single scene is played once.
        let once = args.once || (args.scene.is_some() && !quiet);
        let scenes = args.scene.map_or_else(|| Scene::ALL.to_vec(), |s| vec![s]);
        let playlist = Playlist { scenes: if args.on_request { Vec::new() } else { scenes }, pace, once };
        tokio::spawn(play_requested(server.producer().clone(), requested, pace));
        let status = if quiet {
            serve(&server, has_page, &playlist, stop).await?
        } else {
            let sessions = once.then_some(playlist.scenes.len());
            let url = server.url();
            let console = Console { url: &url, has_page, flags: &args.listener, sessions };
            let play = playlist.play(server.producer());
            match console::run(server.producer(), console, play, stop).await {
                Ok(result) => result?,
                Err(mistake) => fail(mistake),
            }
        };
        server.stop("The demo is over.").await;
        Ok(status)
    })
}

/// Returns the default configuration of the demo.
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

async fn open(config: Config, starts: mpsc::Sender<String>) -> Result<RunningServer, ConfigError> {
    let producer = Server::producer(&config);
    let scenes = Scene::ALL.iter().map(|scene| (scene.name().to_owned(), scene.description().to_owned()));
    Server::new(config, producer).with_scenes(Scenes::new(scenes.collect(), starts)).start().await
}

/// Plays the scenes that are started on the web page, one after another.
async fn play_requested(producer: Producer, mut requested: mpsc::Receiver<String>, pace: Pace) {
    while let Some(name) = requested.recv().await {
        if let Some(scene) = Scene::find(&name)
            && let Err(error) = scenes::play_at(scene, &producer, pace).await
        {
            tracing::debug!(%error, "scene ended early");
        }
    }
}

/// Plays for all subscribers until the stop signal, or until the scenes are over.
async fn serve(
    server: &RunningServer,
    has_page: bool,
    playlist: &Playlist,
    stop: impl Future<Output = ()>,
) -> io::Result<CommandStatus> {
    let mut out = io::stdout();
    writeln!(out, "Serving the demo at {}", server.url())?;
    if has_page {
        writeln!(out, "{}", console::PAGE_HINT)?;
    }
    out.flush()?;
    tokio::select! {
        () = stop => {}
        () = async { playlist.play(server.producer()).await; wait_until_drained(server.producer()).await } => {}
    }
    Ok(CommandStatus::Yes)
}

/// The scenes to play, and how.
pub(super) struct Playlist {
    scenes: Vec<Scene>,
    pace: Pace,
    once: bool,
}

impl Playlist {
    /// Plays the scenes once or repeatedly. Waits while there is no subscriber.
    pub(super) async fn play(&self, producer: &Producer) {
        if self.scenes.is_empty() {
            return std::future::pending().await;
        }
        loop {
            for scene in &self.scenes {
                while producer.subscriber_counts().await.subscriptions == 0 {
                    tokio::time::sleep(POLL_INTERVAL).await;
                }
                if let Err(error) = scenes::play_at(*scene, producer, self.pace).await {
                    tracing::debug!(%error, "scene ended early");
                }
                tokio::time::sleep(if self.once { POLL_INTERVAL } else { SCENE_INTERVAL }).await;
            }
            if self.once {
                return;
            }
        }
    }
}

/// Scenes that may wait to be played on request.
const MAX_REQUESTED_SCENES: usize = 4;

/// How often to check for a subscriber.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// The pause between two scenes.
const SCENE_INTERVAL: Duration = Duration::from_secs(3);
