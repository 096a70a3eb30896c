//! A server: all transports of one producer, from start to graceful shutdown.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use aaep::Producer;
use aaep_keys::Role;
use aaep_proto::binding::{TransportKind, path};
use aaep_proto::message::Manifest;
use aaep_proto::negotiate::{USERS_PREFIX, USERS_URI};
use axum::Router;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::agents::AgentRegistry;
use crate::auth::Authenticator;
use crate::auth::tls::Certificates;
use crate::config::{Config, ConfigError};
use crate::context::{AppState, ServerContext, stopped};
use crate::engines::{EngineFactory, Engines};
use crate::http;
use crate::http::listener::HttpListener;
use crate::listeners::{BoundAddresses, ExtraListeners, InheritedListeners, listen_tcp};
use crate::page::{self, PageSettings, Scenes};
use crate::proxy::TrustedProxies;
use crate::published_manifest::PublishedManifest;

/// How often the key, certificate and credential files are checked for changes.
const RELOAD_INTERVAL: Duration = Duration::from_secs(1);

/// The manifest that a server publishes.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerManifest {
    /// The manifest.
    pub manifest: Manifest,
    /// The manifest as a signed document, if the server has a key.
    pub signed: Option<String>,
}

/// A server that is configured but not yet started.
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
/// server.stop("The server is shutting down.").await;
/// # Ok(())
/// # }
/// ```
pub struct Server {
    config: Config,
    engines: EngineSource,
    more: Router,
    scenes: Option<Scenes>,
    agents: bool,
    fast_path: bool,
    free_port_if_taken: bool,
    inherited: InheritedListeners,
}

/// Where a server gets the engines of its users.
enum EngineSource {
    /// One producer, which belongs to one user.
    Shared(Producer),
    /// One for each user.
    PerUser(Box<EngineFactory>),
}

impl EngineSource {
    async fn open(self, config: &Config) -> Result<Arc<Engines>, ConfigError> {
        match self {
            EngineSource::Shared(producer) => Ok(Engines::shared(producer)),
            EngineSource::PerUser(factory) => Engines::per_user(*factory, &config.local_user()?)
                .await
                .map_err(|_| ConfigError("the store cannot be read; see the log".to_owned())),
        }
    }
}

/// Returns the builder of a user's producer on a server for many users.
pub(crate) fn user_builder(config: &Config) -> aaep::Builder {
    let mut offer = offer(config);
    offer.max_subscriptions = config.limits.subscriptions_per_user.min(config.limits.subscriptions);
    offer.extensions.push((USERS_PREFIX.to_owned(), USERS_URI.to_owned()));
    Server::builder(config).offer(offer)
}

fn offer(config: &Config) -> aaep::Offer {
    aaep::Offer {
        max_subscriptions: config.limits.subscriptions,
        signed_manifest: config.manifest.key.is_some(),
        languages: config.languages.clone(),
        ..aaep::Offer::default()
    }
}

/// Opens the store of a configuration, if it has one. Reads files.
#[cfg(feature = "store")]
pub(crate) fn open_store(config: &Config) -> Result<Option<aaep_store::Store>, ConfigError> {
    let Some(dir) = &config.data.dir else { return Ok(None) };
    let retention = aaep_store::Retention { days: config.data.days, bytes: config.data.bytes };
    aaep_store::Store::open(dir, retention).map(Some).map_err(|error| ConfigError(error.to_string()))
}

impl Server {
    /// Creates a producer with the identity and the offer of a configuration. It keeps its state in memory.
    pub fn producer(config: &Config) -> Producer {
        Server::builder(config).build()
    }

    /// Creates a producer that records its state in `data.dir` of the configuration, and recovers what was recorded there.
    /// Without `data.dir` its state is in memory. Reads files.
    pub fn durable_producer(config: &Config) -> Result<Producer, ConfigError> {
        config.check_features()?;
        match &config.data.dir {
            Some(dir) => Server::stored_producer(config, dir),
            None => Ok(Server::producer(config)),
        }
    }

    #[cfg(not(feature = "store"))]
    fn stored_producer(config: &Config, _: &Path) -> Result<Producer, ConfigError> {
        config.check_features().map(|()| Server::producer(config))
    }

    #[cfg(feature = "store")]
    fn stored_producer(config: &Config, dir: &Path) -> Result<Producer, ConfigError> {
        let Some(store) = open_store(config)? else { return Ok(Server::producer(config)) };
        let opened = Arc::new(store).open_user(aaep_keys::Identity::LOCAL);
        let (journal, restored) = opened.map_err(|error| ConfigError(error.to_string()))?;
        tracing::info!(dir = %dir.display(), sessions = restored.sessions.len(), questions = restored.questions.len(),
            subscriptions = restored.subscriptions.len(), "recovering from the journal");
        Ok(Server::builder(config).journal(journal, restored).build())
    }

    fn builder(config: &Config) -> aaep::Builder {
        let builder =
            Producer::builder(&config.agent_id).offer(offer(config)).max_queued_bytes(config.limits.memory_bytes / 2);
        match &config.agent_name {
            Some(name) => builder.name(name),
            None => builder,
        }
    }

    /// Returns the manifest that a server with this configuration publishes.
    pub async fn manifest(config: &Config) -> Result<ServerManifest, ConfigError> {
        config.check()?;
        let producer = Server::producer(config);
        let transports = &config.transports;
        let named = [
            (transports.sse, TransportKind::Sse.as_str()),
            (transports.websocket, TransportKind::WebSocket.as_str()),
            (transports.unix, crate::ipc::NAME),
            (transports.grpc.is_some(), TransportKind::Grpc.as_str()),
        ];
        let names = named.into_iter().filter(|(on, _)| *on).map(|(_, name)| name.to_owned()).collect();
        let manifest = producer.manifest(names).await.map_err(producer_ended)?;
        let signed = PublishedManifest::new(manifest.clone(), config.manifest.clone())?.signed();
        Ok(ServerManifest { manifest, signed })
    }

    /// Creates a server for a producer, which belongs to one user: everybody whose credentials the server accepts is, or acts
    /// for, that user.
    pub fn new(config: Config, producer: Producer) -> Server {
        Server::with_engines(config, EngineSource::Shared(producer))
    }

    /// Creates a server for many users. Its agents name the user of each session, and subscribers get the sessions of their
    /// own user only. If the configuration requires no credentials, there is one user. Reads files.
    pub fn for_users(config: Config) -> Result<Server, ConfigError> {
        if !config.requires_credentials() {
            let producer = Server::durable_producer(&config)?;
            return Ok(Server::new(config, producer).with_agents());
        }
        let factory = EngineFactory::open(&config)?;
        Ok(Server::with_engines(config, EngineSource::PerUser(Box::new(factory))).with_agents())
    }

    fn with_engines(config: Config, engines: EngineSource) -> Server {
        Server {
            config,
            engines,
            more: Router::new(),
            agents: false,
            scenes: None,
            fast_path: true,
            free_port_if_taken: false,
            inherited: InheritedListeners::default(),
        }
    }

    /// Adds endpoints. The host and origin checks apply to them too.
    pub fn with(mut self, more: Router) -> Server {
        self.more = self.more.merge(more);
        self
    }

    /// Adds scenes that the web page can start: `GET /demo/scenes` lists them, and `POST /demo/scenes/NAME` starts one.
    /// Both need the role `reply`.
    pub fn with_scenes(mut self, scenes: Scenes) -> Server {
        self.scenes = Some(scenes);
        self
    }

    /// Adds the endpoints for agents in other processes.
    pub fn with_agents(mut self) -> Server {
        self.agents = true;
        self
    }

    /// Listens on a free port if another program uses the configured one. [`RunningServer::address`] has the port.
    pub fn with_free_port_if_taken(mut self) -> Server {
        self.free_port_if_taken = true;
        self
    }

    /// Uses listening sockets that another process has opened. They need the same credentials and TLS as any others.
    pub fn with_listeners(mut self, inherited: InheritedListeners) -> Server {
        self.inherited = inherited;
        self
    }

    /// Leaves event streams and WebSockets to hyper. For tests that compare both paths.
    #[doc(hidden)]
    pub fn without_fast_path(mut self) -> Server {
        self.fast_path = false;
        self
    }

    /// Opens all transports.
    pub async fn start(self) -> Result<RunningServer, ConfigError> {
        let Server { mut config, engines, more, scenes, agents, fast_path, free_port_if_taken, mut inherited } = self;
        inherited.configure(&mut config)?;
        config.check()?;
        let authenticator = Arc::new(Authenticator::new(&config)?);
        let certificates = config.tls.as_ref().map(|tls| Certificates::load(tls, &authenticator)).transpose()?;
        let tls = certificates.as_ref().map(|c| c.acceptor(&[b"h2", b"http/1.1"])).transpose()?;
        let bind_error = |e: std::io::Error| bind_error(config.listen, &e);
        let inherited_http = inherited.http.take();
        let listener = match listen_tcp(inherited_http, config.listen).await {
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse && free_port_if_taken => {
                listen_tcp(None, SocketAddr::new(config.listen.ip(), 0)).await
            }
            result => result,
        }
        .map_err(bind_error)?;
        let address = listener.local_addr().map_err(bind_error)?;
        let extra = ExtraListeners::open(&config, inherited).await?;
        let extra_addresses = extra.addresses.clone();
        let (stop, stopping) = watch::channel(false);
        let engines = engines.open(&config).await?;
        let context = ServerContext::new(engines.clone(), config.limits.clone(), stopping);
        let context = Arc::new(if authenticator.is_open() { context } else { context.with_principals() });
        let manifest = engines.local().manifest(transport_names(&config, &extra)).await.map_err(producer_ended)?;
        let published = Arc::new(PublishedManifest::new(manifest, config.manifest.clone())?);
        engines.set_signed_manifest(published.signed()).await;
        engines.set_manifest_uri(&manifest_uri(&config, address)).await;
        if authenticator.is_open() {
            tracing::info!("no credentials configured: every user of this machine may subscribe and reply");
        }
        if engines.is_per_user() {
            authenticator.credentials().warn_of_agents_without_users();
        }
        let proxies = TrustedProxies::new(&config.behind_proxy);
        let app = AppState { context: context.clone(), authenticator, published, proxies: proxies.clone() };
        tokio::spawn(reload_files(app.clone(), certificates.clone()));
        let mut tasks = extra.serve(&app, certificates.as_ref()).await?;
        let agents = agents.then(|| AgentRegistry::new(engines, &config, &context.admission));
        let more = more.merge(page_router(&app, &config, scenes));
        let router = http::router(app, &config.transports, agents, more);
        let http = HttpListener { context: context.clone(), router, tls, proxies, fast_path };
        tasks.push(tokio::spawn(http.run(listener)));
        tracing::info!(%address, tls = config.tls.is_some(), "listening");
        Ok(RunningServer { address, extra_addresses, context, stop, tasks, config })
    }
}

/// Returns the endpoints of the web page, if it is served.
fn page_router(app: &AppState, config: &Config, scenes: Option<Scenes>) -> Router {
    if !config.page {
        return Router::new();
    }
    let settings = PageSettings { needs_token: !app.authenticator.is_open(), has_scenes: scenes.is_some() };
    let scenes = scenes.map(|scenes| http::protected(scenes.router(), app.clone(), Role::Reply));
    page::router(settings).merge(scenes.unwrap_or_default())
}

fn bind_error(address: SocketAddr, error: &std::io::Error) -> ConfigError {
    let advice = match error.kind() {
        std::io::ErrorKind::AddrInUse => "; another program uses it: end that one, or choose a port with --listen",
        std::io::ErrorKind::PermissionDenied => "; choose a port above 1023 with --listen",
        std::io::ErrorKind::AddrNotAvailable => "; it is not an address of this machine",
        _ => "",
    };
    ConfigError(format!("cannot listen on {address}: {error}{advice}"))
}

fn producer_ended<E>(_: E) -> ConfigError {
    ConfigError("the producer has ended".to_owned())
}

/// Returns the names of the served transports in the manifest.
fn transport_names(config: &Config, extra: &ExtraListeners) -> Vec<String> {
    let named = [
        (config.transports.sse, TransportKind::Sse.as_str()),
        (config.transports.websocket, TransportKind::WebSocket.as_str()),
    ];
    let http = named.into_iter().filter(|(on, _)| *on).map(|(_, name)| name);
    http.chain(extra.names()).map(str::to_owned).collect()
}

fn manifest_uri(config: &Config, address: SocketAddr) -> String {
    let scheme = if config.tls.is_some() || config.is_behind_proxy() { "https" } else { "http" };
    let host = config.hosts.first().cloned().unwrap_or_else(|| address.to_string());
    format!("{scheme}://{host}{}", path::MANIFEST)
}

/// Reloads keys, certificates and credentials when their files change, until the server stops.
async fn reload_files(app: AppState, certificates: Option<Arc<Certificates>>) {
    let mut interval = tokio::time::interval(RELOAD_INTERVAL);
    let mut stopping = app.context.stopping.clone();
    loop {
        tokio::select! {
            _ = interval.tick() => {}
            () = stopped(&mut stopping) => return,
        }
        app.published.refresh(&app.context.engines).await;
        app.authenticator.credentials().refresh();
        if let Some(certificates) = &certificates {
            certificates.refresh();
        }
    }
}

/// A running server. Dropping it does not stop it; [`RunningServer::stop`] does.
#[derive(Debug)]
pub struct RunningServer {
    address: SocketAddr,
    extra_addresses: BoundAddresses,
    context: Arc<ServerContext>,
    stop: watch::Sender<bool>,
    tasks: Vec<JoinHandle<()>>,
    config: Config,
}

impl RunningServer {
    /// The address of the HTTP listener.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The path of the local socket, if it is served.
    pub fn socket(&self) -> Option<&Path> {
        self.extra_addresses.ipc.as_deref()
    }

    /// The address of the gRPC listener, if it is served.
    pub fn grpc_address(&self) -> Option<SocketAddr> {
        self.extra_addresses.grpc
    }

    /// The base URL for clients.
    pub fn url(&self) -> String {
        let scheme = if self.config.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// The producer that is served; on a server for many users, that of the local user.
    pub fn producer(&self) -> &Producer {
        self.context.engines.local()
    }

    /// Shuts down gracefully: ends sessions, then subscriptions, then connections, each with its reason, within
    /// `limits.shutdown_seconds`.
    pub async fn stop(self, summary: &str) {
        let grace = self.config.limits.shutdown();
        self.context.engines.shut_down(grace, summary).await;
        // An error means that no task is left to notify.
        let _ = self.stop.send(true);
        for task in self.tasks {
            // A task that panicked has ended too.
            let _ = task.await;
        }
        // WebSockets that hyper upgraded run in tasks of their own.
        if tokio::time::timeout(grace, self.context.metrics.all_closed()).await.is_err() {
            tracing::warn!("shutdown timed out; dropping the remaining connections");
        }
    }
}
