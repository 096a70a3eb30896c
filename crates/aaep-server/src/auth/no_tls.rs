//! TLS in a build without the feature `tls`: the same names as in `tls.rs`, of types that have no values.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use aaep_keys::Identity;
use tokio::net::TcpStream;

use crate::auth::Authenticator;
use crate::config::{ConfigError, TlsConfig};

/// Never created: [`crate::config::Config::check`] rejects the setting first.
fn unavailable<T>() -> Result<T, ConfigError> {
    Err(ConfigError("this build has no TLS".to_owned()))
}

pub(crate) type TlsStream = TcpStream;

pub(crate) fn client_certificate(_: &TlsStream) -> Option<Arc<ClientCertificate>> {
    None
}

#[derive(Debug)]
pub(crate) struct ClientCertificate(Infallible);

impl ClientCertificate {
    pub(crate) fn identity(&self) -> &Arc<Identity> {
        match self.0 {}
    }
}

#[derive(Debug)]
pub(crate) struct ClientAuthorities(Infallible);

impl ClientAuthorities {
    pub(crate) fn load(_: &Path) -> Result<ClientAuthorities, ConfigError> {
        unavailable()
    }

    pub(crate) fn refresh(&self) -> bool {
        match self.0 {}
    }

    pub(crate) fn accept(&self, _: &ClientCertificate) -> bool {
        match self.0 {}
    }
}

#[derive(Debug)]
pub(crate) struct Certificates(Infallible);

impl Certificates {
    pub(crate) fn load(_: &TlsConfig, _: &Authenticator) -> Result<Arc<Certificates>, ConfigError> {
        unavailable()
    }

    pub(crate) fn acceptor(&self, _: &[&[u8]]) -> Result<TlsAcceptor, ConfigError> {
        match self.0 {}
    }

    pub(crate) fn refresh(&self) {
        match self.0 {}
    }
}

#[derive(Clone)]
pub(crate) struct TlsAcceptor(Infallible);

impl TlsAcceptor {
    pub(crate) fn accept(&self, _: TcpStream) -> TlsHandshake {
        match self.0 {}
    }
}

pub(crate) struct TlsHandshake(Infallible);

impl Future for TlsHandshake {
    type Output = io::Result<TlsStream>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<TlsStream>> {
        match self.0 {}
    }
}
