//! From an address to a connection: which transport, with or without a handshake, and which fallback.

use std::sync::Arc;
#[cfg(feature = "stdio")]
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use aaep_proto::binding::TransportKind;
#[cfg(feature = "sse")]
use aaep_proto::binding::path;
use aaep_proto::message::SubscriptionAccepted;
use aaep_proto::subscriber::{DisconnectReason, ManifestCheck, ResumePoint};
use aaep_proto::time::Timestamp;

use crate::address::Address;
#[cfg(any(feature = "sse", feature = "websocket"))]
use crate::address::HttpOrigin;
use crate::error::ConnectError;
#[cfg(feature = "_http")]
use crate::http::Http;
#[cfg(feature = "_http")]
use crate::net::{Dialer, tls_config};
use crate::options::ConnectOptions;
#[cfg(feature = "sse")]
use crate::options::HandshakePolicy;
use crate::transport::{self, TransportConnection};
use crate::trust::{self, CheckContext};

/// Opens connections to one producer.
pub(crate) struct Connector {
    address: Address,
    options: ConnectOptions,
    #[cfg(any(feature = "websocket", feature = "grpc"))]
    dialer: Dialer,
    #[cfg(feature = "_http")]
    http: Http,
    #[cfg(any(feature = "websocket", feature = "grpc"))]
    token: Option<::http::HeaderValue>,
    /// Whether the command of `stdio:` was run.
    #[cfg(feature = "stdio")]
    has_run: AtomicBool,
}

/// Returns an error that names the Cargo feature if the transport of an address is not compiled in.
fn check_compiled_in(address: &Address) -> Result<(), ConnectError> {
    let (feature, compiled_in) = match address {
        Address::Http(_) => ("sse", cfg!(feature = "sse")),
        Address::WebSocket(_) => ("websocket", cfg!(feature = "websocket")),
        Address::Grpc(_) => ("grpc", cfg!(feature = "grpc")),
        Address::Unix(_) | Address::Pipe(_) => ("unix", cfg!(feature = "unix")),
        Address::Stdio(_) => ("stdio", cfg!(feature = "stdio")),
    };
    if compiled_in { Ok(()) } else { Err(ConnectError::TransportDisabled(feature)) }
}

impl Connector {
    pub(crate) fn new(address: Address, mut options: ConnectOptions) -> Result<Arc<Connector>, ConnectError> {
        check_compiled_in(&address)?;
        match address {
            Address::Unix(_) if cfg!(windows) => {
                return Err(ConnectError::NotOnThisSystem(r"use a pipe, such as \\.\pipe\aaep\agent"));
            }
            Address::Pipe(_) if !cfg!(windows) => {
                return Err(ConnectError::NotOnThisSystem("use a socket, such as unix:/path/agent.sock"));
            }
            _ => {}
        }
        if let Address::Stdio(words) = &address {
            let words = words.iter().map(Into::into).collect();
            if options.command.get_or_insert(words).is_empty() {
                return Err(ConnectError::NoCommand);
            }
        }
        if let Some(origin) = address.origin()
            && !origin.tls
            && !origin.is_loopback()
            && !options.allow_insecure
        {
            return Err(ConnectError::Insecure(origin.host.clone()));
        }
        #[cfg(feature = "_http")]
        let dialer = Dialer { tls: tls_config(&options.tls)?, timeout: options.timeout };
        Ok(Arc::new(Connector {
            address,
            #[cfg(feature = "_http")]
            http: Http::new(&dialer, &options)?,
            #[cfg(any(feature = "websocket", feature = "grpc"))]
            dialer,
            #[cfg(any(feature = "websocket", feature = "grpc"))]
            token: crate::http::authorization(options.token.as_ref())?,
            options,
            #[cfg(feature = "stdio")]
            has_run: AtomicBool::new(false),
        }))
    }

    /// Returns the longest time that any single step may take.
    pub(crate) fn timeout(&self) -> Duration {
        self.options.timeout
    }

    /// Opens a connection. Continues the subscription at the resume point if the transport can do that.
    pub(crate) async fn open(
        self: Arc<Self>,
        #[cfg_attr(not(feature = "sse"), allow(unused_variables, reason = "only SSE resumes"))] resume: Option<
            ResumePoint,
        >,
    ) -> Result<TransportConnection, DisconnectReason> {
        match &self.address {
            #[cfg(feature = "sse")]
            Address::Http(origin) => self.open_http(origin, resume).await,
            #[cfg(feature = "websocket")]
            Address::WebSocket(origin) => self.open_websocket(origin).await,
            #[cfg(feature = "grpc")]
            Address::Grpc(origin) => {
                transport::grpc::open(self.dialer.clone(), origin.clone(), self.token.clone()).await
            }
            #[cfg(feature = "unix")]
            Address::Unix(path) | Address::Pipe(path) => transport::local::open(path, &self.options).await,
            #[cfg(feature = "stdio")]
            Address::Stdio(_) => {
                // An agent's work must not be done twice because its process ended: only the user runs it again.
                if self.has_run.swap(true, Ordering::Relaxed) {
                    return Err(DisconnectReason::Refused("the command has ended".to_owned()));
                }
                let words = self.options.command.as_deref().unwrap_or_default();
                transport::stdio::open(words, self.options.timeout).await
            }
            #[allow(unreachable_patterns, reason = "reached only if a transport is not compiled in")]
            _ => Err(DisconnectReason::Refused("the transport is not compiled in".to_owned())),
        }
    }

    /// Checks the manifest of the producer that accepted the subscription.
    pub(crate) async fn check(
        self: Arc<Self>,
        accepted: Box<SubscriptionAccepted>,
        transport: TransportKind,
        now: Timestamp,
    ) -> ManifestCheck {
        let context = CheckContext {
            accepted: &accepted,
            origin: self.address.origin(),
            #[cfg(feature = "_http")]
            http: &self.http,
            transport,
            now,
        };
        let checking = trust::check(&context, &self.options);
        let failed = || ManifestCheck::Failed("it could not be checked in time.".to_owned());
        tokio::time::timeout(self.options.timeout / 2, checking).await.unwrap_or_else(|_| failed())
    }

    /// Returns whether the manifest has to be checked before the terms of the producer are accepted.
    pub(crate) fn requires_check(&self, accepted: &SubscriptionAccepted) -> bool {
        accepted.signed_manifest.is_some() || self.options.requires_signed_manifest()
    }
}

#[cfg(feature = "sse")]
impl Connector {
    async fn open_http(
        &self,
        origin: &HttpOrigin,
        resume: Option<ResumePoint>,
    ) -> Result<TransportConnection, DisconnectReason> {
        match self.options.handshake {
            HandshakePolicy::Always => self.open_sse(origin, resume).await,
            HandshakePolicy::Never => self.open_level1(origin).await,
            HandshakePolicy::Detect if resume.is_some() => {
                // A producer without a handshake has nothing to resume; then what it can do is detected again.
                let connection = self.open_sse(origin, resume).await?;
                if connection.resumed { Ok(connection) } else { self.detect(origin).await }
            }
            HandshakePolicy::Detect => self.detect(origin).await,
        }
    }

    async fn open_sse(
        &self,
        origin: &HttpOrigin,
        resume: Option<ResumePoint>,
    ) -> Result<TransportConnection, DisconnectReason> {
        transport::sse::open(self.http.clone(), origin.clone(), resume).await
    }

    async fn open_level1(&self, origin: &HttpOrigin) -> Result<TransportConnection, DisconnectReason> {
        if self.options.requires_signed_manifest() {
            return Err(DisconnectReason::Refused(
                "a signed manifest is required, and a producer without a handshake has none".to_owned(),
            ));
        }
        transport::level1::open(self.http.clone(), origin.clone()).await
    }

    /// Finds out whether the producer has a handshake, and opens a connection accordingly.
    async fn detect(&self, origin: &HttpOrigin) -> Result<TransportConnection, DisconnectReason> {
        match self.http.manifest(origin).await? {
            #[cfg(feature = "websocket")]
            Some(manifest) if self.options.transport_fallback && lists_only_websocket(&manifest) => {
                return self.websocket(origin).await;
            }
            Some(_) => {}
            None => {
                let path = format!("{}{}", origin.path, path::SUBSCRIPTIONS);
                if self.http.get(origin, &path, "application/json").await?.status == ::http::StatusCode::NOT_FOUND {
                    return self.open_level1(origin).await;
                }
            }
        }
        self.open_sse(origin, None).await
    }
}

#[cfg(all(feature = "sse", feature = "websocket"))]
fn lists(manifest: &aaep_proto::message::Manifest, transport: TransportKind) -> bool {
    manifest.transports_supported.iter().any(|name| name == transport.as_str())
}

#[cfg(all(feature = "sse", feature = "websocket"))]
fn lists_only_websocket(manifest: &aaep_proto::message::Manifest) -> bool {
    lists(manifest, TransportKind::WebSocket) && !lists(manifest, TransportKind::Sse)
}

#[cfg(feature = "websocket")]
impl Connector {
    async fn websocket(&self, origin: &HttpOrigin) -> Result<TransportConnection, DisconnectReason> {
        // The path of an http: address is the base of the SSE endpoints, not that of the socket.
        let keep_path = matches!(self.address, Address::WebSocket(_));
        let origin = if keep_path { origin.clone() } else { HttpOrigin { path: String::new(), ..origin.clone() } };
        transport::websocket::open(self.dialer.clone(), origin, self.token.clone()).await
    }

    /// Opens a WebSocket, or falls back to SSE if that fails and the manifest lists it.
    async fn open_websocket(&self, origin: &HttpOrigin) -> Result<TransportConnection, DisconnectReason> {
        match self.websocket(origin).await {
            #[cfg(feature = "sse")]
            Err(reason @ DisconnectReason::Broken(_)) if self.options.transport_fallback => {
                match self.http.manifest(origin).await {
                    Ok(Some(manifest)) if lists(&manifest, TransportKind::Sse) => {
                        self.open_sse(&HttpOrigin { path: String::new(), ..origin.clone() }, None).await
                    }
                    _ => Err(reason),
                }
            }
            result => result,
        }
    }
}

#[cfg(all(test, not(feature = "sse")))]
mod tests {
    use super::*;

    #[test]
    fn an_address_whose_transport_is_not_compiled_in_names_the_feature() {
        let address = "https://agents.example".parse().unwrap();
        let result = Connector::new(address, ConnectOptions::new("reader", Default::default()));
        assert_eq!(result.err(), Some(ConnectError::TransportDisabled("sse")));
    }
}
