//! Serves a bridge: a producer that listeners connect to, between a client at standard input and a server.

use std::process::ExitCode;
use std::time::Duration;

use aaep::Producer;
use aaep_bridge::rules::ConsentRule;
use aaep_bridge::{ENFORCEMENT_PREFIX, ENFORCEMENT_URI, LineBridge};
use aaep_proto::message::EventMeta;
use aaep_server::{Config, ConfigError, Server};
use tokio::sync::mpsc;

use super::driver::{BridgeDriver, BridgeDriverParts, BridgeInput, UnheardQuestions};
use super::lines::{LineSender, read_lines};
use super::peer::{LinePeer, PeerKind};
use crate::drain::wait_until_drained;
use crate::output::print_error;
use crate::run::start_server;
use crate::server_flags::EffectiveConfig;
use crate::signals::shutdown_signal;

/// How long listeners may take to receive the last events. The client waits for this process meanwhile.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

/// How long to wait for lines of a server that has ended.
const REST_TIMEOUT: Duration = Duration::from_millis(200);

/// How a bridge is started.
pub(crate) struct BridgeStart<B> {
    pub(crate) bridge: B,
    pub(crate) peer: PeerKind,
    pub(crate) unheard: UnheardQuestions,
    pub(crate) meta: EventMeta,
    pub(crate) remember: Box<dyn FnMut(ConsentRule) + Send>,
}

/// Why the loop between the peers has ended.
enum BridgeEnd {
    Client,
    Server,
    Signal,
}

/// Makes the producer. Its manifest says that its sessions state what their route can enforce, unless it has a store.
fn producer(config: &Config) -> Result<Producer, ConfigError> {
    let durable = Server::durable_producer(config)?;
    if config.data.dir.is_some() {
        return Ok(durable);
    }
    let mut offer = aaep::Offer {
        max_subscriptions: config.limits.subscriptions,
        signed_manifest: config.manifest.key.is_some(),
        languages: config.languages.clone(),
        ..aaep::Offer::default()
    };
    offer.extensions.push((ENFORCEMENT_PREFIX.to_owned(), ENFORCEMENT_URI.to_owned()));
    let builder = Producer::builder(&config.agent_id).offer(offer).max_queued_bytes(config.limits.memory_bytes / 2);
    Ok(match &config.agent_name {
        Some(name) => builder.name(name).build(),
        None => builder.build(),
    })
}

/// Serves a bridge until one of its peers ends. Returns the exit code: that of the server if it ended first.
pub(crate) async fn serve_bridge<B: LineBridge>(
    effective: EffectiveConfig,
    start: BridgeStart<B>,
) -> Result<ExitCode, ConfigError> {
    let producer = producer(&effective.config)?;
    let signal = shutdown_signal();
    let server = start_server(effective, producer.clone()).await?;
    let peer = match LinePeer::open(start.peer) {
        Ok(peer) => peer,
        Err(error) => {
            print_error(format_args!("cannot start the server: {error}"));
            server.stop("The server could not be started.").await;
            return Ok(ExitCode::from(if error.kind() == std::io::ErrorKind::NotFound { 127 } else { 126 }));
        }
    };
    let (mut server_lines, to_server, child) = peer.split();
    let (to_client, queue) = LineSender::new();
    let writing = queue.write_to(tokio::io::stdout());
    let parts = BridgeDriverParts {
        bridge: start.bridge,
        producer: producer.clone(),
        unheard: start.unheard,
        meta: start.meta,
        to_client,
        to_server,
        remember: start.remember,
    };
    let (mut driver, inputs) = BridgeDriver::new(parts);
    let client_lines = read_lines(tokio::io::stdin());
    let end = run_bridge(&mut driver, client_lines, &mut server_lines, inputs, signal).await;
    let code = match end {
        BridgeEnd::Server => {
            driver.server_closed().await;
            driver.close_server();
            LinePeer::end(child).await
        }
        BridgeEnd::Client | BridgeEnd::Signal => {
            driver.client_closed().await;
            driver.close_server();
            // At once: a client that has closed its end often kills this process soon.
            tokio::join!(forward_rest(&mut driver, &mut server_lines, LinePeer::end(child)), drain(&producer));
            Some(0)
        }
    };
    driver.close_client();
    let _ = tokio::time::timeout(DRAIN_TIMEOUT, writing).await;
    drain(&producer).await;
    server.stop("The bridge has ended.").await;
    Ok(ExitCode::from(code.unwrap_or(0)))
}

/// Forwards what the server writes until it has ended: the client may still read.
async fn forward_rest<B: LineBridge>(
    driver: &mut BridgeDriver<B>,
    lines: &mut mpsc::Receiver<Vec<u8>>,
    ending: impl Future<Output = Option<u8>>,
) {
    tokio::pin!(ending);
    let mut is_open = true;
    loop {
        tokio::select! {
            line = lines.recv(), if is_open => match line {
                Some(line) => {
                    driver.server_line(&line).await;
                }
                None => is_open = false,
            },
            _ = &mut ending => break,
        }
    }
    while let Ok(Some(line)) = tokio::time::timeout(REST_TIMEOUT, lines.recv()).await {
        driver.server_line(&line).await;
    }
}

async fn run_bridge<B: LineBridge>(
    driver: &mut BridgeDriver<B>,
    mut client_lines: mpsc::Receiver<Vec<u8>>,
    server_lines: &mut mpsc::Receiver<Vec<u8>>,
    mut inputs: mpsc::UnboundedReceiver<BridgeInput>,
    signal: impl Future<Output = ()>,
) -> BridgeEnd {
    tokio::pin!(signal);
    let clock = driver.clock();
    // A slow peer has to be looked at again when it has read something.
    let mut poll = tokio::time::interval(Duration::from_millis(20));
    poll.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut deadline = None;
    loop {
        let (takes_client, takes_server) = (driver.takes_client_lines(), driver.takes_server_lines());
        deadline = tokio::select! {
            biased;
            Some(input) = inputs.recv() => driver.input(input).await,
            line = server_lines.recv(), if takes_server => match line {
                Some(line) => driver.server_line(&line).await,
                None => return BridgeEnd::Server,
            },
            line = client_lines.recv(), if takes_client => match line {
                Some(line) => driver.client_line(&line).await,
                None => return BridgeEnd::Client,
            },
            () = clock.sleep_until(deadline) => driver.timeout().await,
            _ = poll.tick(), if !(takes_client && takes_server) => deadline,
            () = &mut signal => return BridgeEnd::Signal,
        };
    }
}

/// Waits until listeners have received everything, for a short time.
async fn drain(producer: &Producer) {
    let _ = tokio::time::timeout(DRAIN_TIMEOUT, wait_until_drained(producer)).await;
}
