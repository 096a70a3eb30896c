//! From an address to a wire: which transport, with or without handshake, and what else may work.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use aaep_proto::message::{Manifest, Message, SubscriptionAccepted};
use aaep_proto::subscriber::{DisconnectReason, ManifestCheck, ResumePoint};
use aaep_proto::time::Timestamp;
use http::{HeaderValue, StatusCode};

use crate::address::{Address, HttpOrigin};
use crate::http::{Http, authorization, rejection};
use crate::net::{Dialer, tls_config};
use crate::options::{ConnectError, ConnectOptions, Handshake};
use crate::transport::{Connection, grpc, level1, sse, stdio, unix, websocket};
use crate::trust::{self, Claim, MANIFEST_PATH};

/// Names of transports in manifests.
const SSE: &str = "sse";
const WEBSOCKET: &str = "websocket";
const GRPC: &str = "grpc";
const UNIX: &str = "unix-socket";
const STDIO: &str = "stdio";

/// Makes wires to one producer.
pub(crate) struct Connector {
    address: Address,
    options: ConnectOptions,
    dialer: Dialer,
    http: Http,
    token: Option<HeaderValue>,
    /// Whether the command was run.
    has_run: AtomicBool,
}

/// A wire, and over which transport it goes.
pub(crate) struct Connected {
    pub(crate) wire: Connection,
    pub(crate) transport: &'static str,
}

impl Connector {
    pub(crate) fn new(address: Address, mut options: ConnectOptions) -> Result<Arc<Connector>, ConnectError> {
        if let Address::Stdio(words) = &address {
            let words = words.iter().map(Into::into).collect();
            if options.command.get_or_insert(words).is_empty() {
                return Err(ConnectError::NoCommand);
            }
        }
        if let Some(site) = address.site()
            && !site.tls
            && !site.is_loopback()
            && !options.allow_insecure
        {
            return Err(ConnectError::Plain(site.host.clone()));
        }
        let dialer = Dialer { tls: tls_config(&options.tls)?, timeout: options.timeout };
        let token = authorization(options.token.as_ref())?;
        let http = Http::new(dialer.clone(), &options)?;
        Ok(Arc::new(Connector { address, options, dialer, http, token, has_run: AtomicBool::new(false) }))
    }

    /// How long anything may take.
    pub(crate) fn timeout(&self) -> Duration {
        self.options.timeout
    }

    /// Opens a wire.
    pub(crate) async fn open(self: Arc<Self>, resume: Option<ResumePoint>) -> Result<Connected, DisconnectReason> {
        match &self.address {
            Address::Http(site) => self.open_http(site, resume).await,
            Address::WebSocket(site) => self.open_websocket(site).await,
            Address::Grpc(site) => {
                let wire = grpc::open(self.dialer.clone(), site.clone(), self.token.clone()).await?;
                Ok(Connected { wire, transport: GRPC })
            }
            Address::Unix(path) => {
                let wire = unix::open(path, &self.options).await?;
                Ok(Connected { wire, transport: UNIX })
            }
            Address::Stdio(_) => {
                // What an agent does must not be done twice because it ended: only the user runs it again.
                if self.has_run.swap(true, Ordering::Relaxed) {
                    return Err(DisconnectReason::Refused("the command has ended".to_owned()));
                }
                let words = self.options.command.as_deref().unwrap_or_default();
                let wire = stdio::open(words, self.options.timeout).await?;
                Ok(Connected { wire, transport: STDIO })
            }
        }
    }

    async fn open_http(&self, site: &HttpOrigin, resume: Option<ResumePoint>) -> Result<Connected, DisconnectReason> {
        let stream = |resume| async {
            let wire = sse::open(self.http.clone(), site.clone(), resume).await?;
            Ok(Connected { wire, transport: SSE })
        };
        match self.options.handshake {
            Handshake::Always => stream(resume).await,
            Handshake::Never => self.open_minimal(site).await,
            Handshake::Detect if resume.is_some() => {
                // A producer without handshake has nothing to resume: then this is not found, and looked for anew.
                match stream(resume).await {
                    Ok(opened) if opened.wire.resumed => Ok(opened),
                    Err(loss) => Err(loss),
                    Ok(_) => self.detect(site).await,
                }
            }
            Handshake::Detect => self.detect(site).await,
        }
    }

    async fn open_minimal(&self, site: &HttpOrigin) -> Result<Connected, DisconnectReason> {
        if self.options.demands_signature() {
            return Err(DisconnectReason::Refused(
                "a signed manifest is demanded, and this producer cannot have one".to_owned(),
            ));
        }
        let wire = level1::open(self.http.clone(), site.clone()).await?;
        Ok(Connected { wire, transport: SSE })
    }

    /// Finds out what the producer can do.
    async fn detect(&self, site: &HttpOrigin) -> Result<Connected, DisconnectReason> {
        let manifest = self.manifest(site).await?;
        let lists = |name: &str| manifest.as_ref().is_some_and(|m| m.transports_supported.iter().any(|t| t == name));
        if manifest.is_some() {
            if !lists(SSE) && lists(WEBSOCKET) && self.options.transport_fallback {
                return self.websocket(site).await;
            }
        } else {
            let path = format!("{}/aaep/v1/subscriptions", site.path);
            if self.http.get(site, &path, "application/json").await?.status == StatusCode::NOT_FOUND {
                return self.open_minimal(site).await;
            }
        }
        let wire = sse::open(self.http.clone(), site.clone(), None).await?;
        Ok(Connected { wire, transport: SSE })
    }

    /// The manifest, if there is one that can be read.
    async fn manifest(&self, site: &HttpOrigin) -> Result<Option<Box<Manifest>>, DisconnectReason> {
        let answer = self.http.get(site, MANIFEST_PATH, "application/json").await?;
        match answer.status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Err(rejection(answer.status)),
            status if status.is_server_error() => Err(rejection(status)),
            _ => match Message::parse(&answer.body) {
                Ok(Message::Manifest(manifest)) => Ok(Some(manifest)),
                _ => Ok(None),
            },
        }
    }

    async fn websocket(&self, site: &HttpOrigin) -> Result<Connected, DisconnectReason> {
        // The base of the streams is no place of a socket.
        let own = matches!(self.address, Address::WebSocket(_));
        let site = if own { site.clone() } else { HttpOrigin { path: String::new(), ..site.clone() } };
        let wire = websocket::open(self.dialer.clone(), site, self.token.clone()).await?;
        Ok(Connected { wire, transport: WEBSOCKET })
    }

    async fn open_websocket(&self, site: &HttpOrigin) -> Result<Connected, DisconnectReason> {
        let loss = match self.websocket(site).await {
            Err(loss @ DisconnectReason::Broken(_)) if self.options.transport_fallback => loss,
            other => return other,
        };
        match self.manifest(site).await {
            Ok(Some(manifest)) if manifest.transports_supported.iter().any(|t| t == SSE) => {
                let site = HttpOrigin { path: String::new(), ..site.clone() };
                let wire = sse::open(self.http.clone(), site, None).await?;
                Ok(Connected { wire, transport: SSE })
            }
            _ => Err(loss),
        }
    }

    /// Checks the manifest of who accepted.
    pub(crate) async fn check(
        self: Arc<Self>,
        accepted: Box<SubscriptionAccepted>,
        transport: &'static str,
        now: Timestamp,
    ) -> ManifestCheck {
        let claim = Claim { accepted: &accepted, site: self.address.site(), transport, now };
        let checking = trust::check(&claim, &self.http, &self.options);
        let failed = || ManifestCheck::Failed("it could not be checked in time.".to_owned());
        tokio::time::timeout(self.options.timeout / 2, checking).await.unwrap_or_else(|_| failed())
    }

    /// Whether the manifest has to be checked before the producer is believed.
    pub(crate) fn has_to_check(&self, accepted: &SubscriptionAccepted) -> bool {
        accepted.signed_manifest.is_some() || self.options.demands_signature()
    }
}
