//! A server: all transports of one producer, from start to an end in good order.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use aaep::Producer;
use aaep_proto::message::Manifest;
use axum::Router;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use crate::agents::{self, Agents};
use crate::auth::Authenticator;
use crate::config::{Config, ConfigError};
use crate::context::{ServerContext, stopped};
use crate::extra_listeners::{BoundAddresses, ExtraListeners};
use crate::http::{self, App};
use crate::listener::Listener;
use crate::published_manifest::Published;
use crate::tls::Certificates;

/// How often files are looked at that may change while the server runs.
const LOOK: Duration = Duration::from_secs(1);

/// How often it is looked whether the last connections have ended.
const LAST_WORDS: Duration = Duration::from_millis(5);

/// A server that is set up but not yet started.
///
/// ```
/// use aaep::Producer;
/// use aaep_server::{Config, Server};
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let config = Config { listen: "127.0.0.1:0".parse()?, ..Config::default() };
/// let producer = Server::producer(&config);
/// let server = Server::new(config, producer).start().await?;
/// assert!(server.address().port() > 0);
/// server.stop("Going home.").await;
/// # Ok(())
/// # }
/// ```
pub struct Server {
    config: Config,
    producer: Producer,
    more: Router,
    agents: bool,
}

impl Server {
    /// A producer with the identity and the offer of a configuration. It keeps everything in memory.
    pub fn producer(config: &Config) -> Producer {
        Server::builder(config).build()
    }

    /// The same, but what must survive a restart is kept where the configuration says, and what was kept is taken up.
    /// Without a place it is in memory. This reads files.
    pub fn durable_producer(config: &Config) -> Result<Producer, ConfigError> {
        let Some(dir) = &config.data.dir else { return Ok(Server::producer(config)) };
        let retention = aaep_store::Retention { days: config.data.days, bytes: config.data.bytes };
        let (store, restored) =
            aaep_store::Store::open(dir, retention).map_err(|error| ConfigError(error.to_string()))?;
        tracing::info!(dir = %dir.display(), sessions = restored.sessions.len(), questions = restored.questions.len(),
            subscriptions = restored.subscriptions.len(), "taking up what was kept");
        Ok(Server::builder(config).journal(store, restored).build())
    }

    fn builder(config: &Config) -> aaep::Builder {
        let offer = aaep::Offer {
            max_subscriptions: config.limits.subscriptions,
            signed_manifest: config.manifest.key.is_some(),
            languages: config.languages.clone(),
            ..aaep::Offer::default()
        };
        let builder = Producer::builder(&config.agent_id).offer(offer).waiting_limit(config.limits.memory_bytes / 2);
        match &config.agent_name {
            Some(name) => builder.name(name),
            None => builder,
        }
    }

    /// The manifest that a server with this configuration publishes, and the same signed if it has a key.
    pub async fn manifest(config: &Config) -> Result<(Manifest, Option<String>), ConfigError> {
        config.check()?;
        let producer = Server::producer(config);
        let transports = &config.transports;
        let named = [
            (transports.sse, "sse"),
            (transports.websocket, "websocket"),
            (transports.unix, crate::ipc::NAME),
            (transports.grpc.is_some(), crate::grpc::NAME),
        ];
        let names = named.into_iter().filter(|(on, _)| *on).map(|(_, name)| name.to_owned()).collect();
        let ended = |_| ConfigError("the producer has ended".to_owned());
        let manifest = producer.manifest(names).await.map_err(ended)?;
        let signed = Published::new(manifest.clone(), config.manifest.clone())?.signed();
        Ok((manifest, signed))
    }

    /// A server for this producer.
    pub fn new(config: Config, producer: Producer) -> Server {
        Server { config, producer, more: Router::new(), agents: false }
    }

    /// Adds endpoints behind the same guard.
    pub fn with(mut self, more: Router) -> Server {
        self.more = self.more.merge(more);
        self
    }

    /// Adds the endpoints by which agents in other processes speak through this producer.
    pub fn with_agents(mut self) -> Server {
        self.agents = true;
        self
    }

    /// Opens all transports, or says what is in the way.
    pub async fn start(self) -> Result<Running, ConfigError> {
        let Server { config, producer, mut more, agents } = self;
        config.check()?;
        let gate = Arc::new(Authenticator::new(&config)?);
        let certificates = config.tls.as_ref().map(|tls| Certificates::load(tls, &gate)).transpose()?;
        let tls = certificates.as_ref().map(|c| c.server_config(&[b"h2", b"http/1.1"])).transpose()?;
        let cannot = |e: std::io::Error| ConfigError(format!("cannot listen on {}: {e}", config.listen));
        let listener = TcpListener::bind(config.listen).await.map_err(cannot)?;
        let address = listener.local_addr().map_err(cannot)?;
        let others = ExtraListeners::open(&config).await?;
        let places = others.places.clone();
        let (stop, stopping) = watch::channel(false);
        let hub = ServerContext::new(producer.clone(), config.limits.clone(), stopping.clone());
        let hub = Arc::new(if gate.is_open() { hub } else { hub.with_principals() });
        let ended = |_| ConfigError("the producer has ended".to_owned());
        let manifest = producer.manifest(transports(&config, &others)).await.map_err(ended)?;
        let published = Arc::new(Published::new(manifest, config.manifest.clone())?);
        producer.set_signed_manifest(published.signed()).await.map_err(ended)?;
        producer.set_manifest_uri(manifest_uri(&config, address)).await.map_err(ended)?;
        if gate.is_open() {
            tracing::info!("no credentials are asked for: everyone on this machine may subscribe and reply");
        }
        let app = App { hub: hub.clone(), gate, published: published.clone() };
        tokio::spawn(look_after(app.clone(), certificates.clone(), stopping.clone()));
        let mut tasks = others.serve(&app, certificates.as_ref(), &stopping).await?;
        if agents {
            let agents = Agents::new(producer.clone(), &config, &hub.admission);
            more = more.merge(agents::router(agents).with_state(app.clone()));
        }
        let router = http::router(app, &config.transports, more);
        let http = Listener { hub: hub.clone(), router, tls: tls.map(TlsAcceptor::from) };
        tasks.push(tokio::spawn(http.serve(listener, stopping.clone())));
        tracing::info!(%address, encrypted = config.tls.is_some(), "listening");
        Ok(Running { address, places, hub, stop, tasks, config })
    }
}

/// The transports that are switched on, by their names in the manifest.
fn transports(config: &Config, others: &ExtraListeners) -> Vec<String> {
    let named = [(config.transports.sse, "sse"), (config.transports.websocket, "websocket")];
    let http = named.into_iter().filter(|(on, _)| *on).map(|(_, name)| name);
    http.chain(others.names()).map(str::to_owned).collect()
}

fn manifest_uri(config: &Config, address: SocketAddr) -> String {
    let scheme = if config.tls.is_some() { "https" } else { "http" };
    let host = config.hosts.first().cloned().unwrap_or_else(|| address.to_string());
    format!("{scheme}://{host}/.well-known/aaep-manifest.json")
}

/// Looks at files that may change.
async fn look_after(app: App, certificates: Option<Arc<Certificates>>, mut stopping: watch::Receiver<bool>) {
    let mut look = tokio::time::interval(LOOK);
    loop {
        tokio::select! {
            _ = look.tick() => {}
            () = stopped(&mut stopping) => return,
        }
        app.published.refresh(&app.hub.producer).await;
        app.gate.credentials().refresh();
        if let Some(certificates) = &certificates {
            certificates.refresh();
        }
    }
}

/// A server that runs. Dropping it does not stop it; [`Running::stop`] does.
#[derive(Debug)]
pub struct Running {
    address: SocketAddr,
    places: BoundAddresses,
    hub: Arc<ServerContext>,
    stop: watch::Sender<bool>,
    tasks: Vec<JoinHandle<()>>,
    config: Config,
}

impl Running {
    /// Where HTTP is served.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where the socket for this user is, if there is one.
    pub fn socket(&self) -> Option<&Path> {
        self.places.ipc.as_deref()
    }

    /// Where gRPC is served, if it is.
    pub fn grpc_address(&self) -> Option<SocketAddr> {
        self.places.grpc
    }

    /// The address for people and clients.
    pub fn url(&self) -> String {
        let scheme = if self.config.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// The producer that is served.
    pub fn producer(&self) -> &Producer {
        &self.hub.producer
    }

    /// Ends sessions, then subscriptions, then connections, each with its reason, within the configured time.
    pub async fn stop(self, summary: &str) {
        let grace = self.config.limits.shutdown();
        self.hub.producer.shut_down(grace, summary).await;
        // Nobody may be listening to this any more.
        let _ = self.stop.send(true);
        for task in self.tasks {
            // A task that failed has ended too.
            let _ = task.await;
        }
        // An agent's WebSocket belongs to no task; its last words are waited for too.
        let hub = self.hub;
        let closed = async {
            while hub.metrics.is_connected() {
                tokio::time::sleep(LAST_WORDS).await;
            }
        };
        if tokio::time::timeout(grace, closed).await.is_err() {
            tracing::warn!("connections that did not end in time are cut");
        }
    }
}
