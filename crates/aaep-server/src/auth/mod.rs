//! Authentication: bearer tokens, client certificates, TLS, allowed hosts and origins.

pub(crate) mod credentials;
mod reload;
#[cfg_attr(not(feature = "tls"), path = "no_tls.rs")]
pub(crate) mod tls;
mod verified;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::http::HeaderMap;
use axum::http::header;

use crate::admission::connection_slots::ConnectionSlot;
use crate::auth::credentials::{AcceptedCredentials, Credentials, PresentedCredentials};
use crate::auth::tls::ClientCertificate;
use crate::config::{Config, ConfigError};
use crate::metrics::Transport;
use crate::peer::Peer;

/// Checks credentials, host names and origins.
#[derive(Debug)]
pub(crate) struct Authenticator {
    credentials: Arc<Credentials>,
    hosts: Vec<String>,
    origins: Vec<String>,
}

/// Why a peer is not authenticated. The reason is for logs only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AuthError {
    /// It presented no credentials.
    Missing,
    /// It presented invalid credentials.
    Invalid(&'static str),
}

impl Authenticator {
    pub(crate) fn new(config: &Config) -> Result<Authenticator, ConfigError> {
        Ok(Authenticator {
            credentials: Arc::new(Credentials::load(config)?),
            hosts: config.hosts.iter().map(|host| host.to_lowercase()).collect(),
            origins: config.origins.clone(),
        })
    }

    /// Returns whether no credentials are required.
    pub(crate) fn is_open(&self) -> bool {
        self.credentials.is_empty()
    }

    /// Returns the accepted credentials.
    pub(crate) fn credentials(&self) -> &Arc<Credentials> {
        &self.credentials
    }

    /// Returns the peer with these credentials: a token, or the certificate that TLS has verified.
    pub(crate) fn identify(
        &self,
        token: Option<&str>,
        certificate: Option<&Arc<ClientCertificate>>,
        transport: Transport,
    ) -> Result<Peer, AuthError> {
        if self.is_open() {
            return Ok(Peer::local(transport));
        }
        let presented = match (token, certificate) {
            (Some(token), _) => PresentedCredentials::Token(token.to_owned()),
            (None, Some(certificate)) => PresentedCredentials::Certificate(certificate.clone()),
            (None, None) => return Err(AuthError::Missing),
        };
        let accepted = AcceptedCredentials::accept(&self.credentials, presented).map_err(AuthError::Invalid)?;
        Ok(Peer { identity: accepted.identity(), transport, credentials: Some(accepted), slot: None })
    }

    /// Returns whether a request may use this host name. Otherwise a web page could point its own name here and pass for
    /// this server (DNS rebinding).
    pub(crate) fn is_allowed_host(&self, host: &str) -> bool {
        let name = host_name(host).to_lowercase();
        let name = name.trim_end_matches('.');
        name == "localhost"
            || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
            || self.hosts.iter().any(|known| known == name || *known == host.to_lowercase())
    }

    /// Returns whether web pages of an origin may use this server.
    pub(crate) fn is_allowed_origin(&self, origin: &str, host: Option<&str>) -> bool {
        let own = host.is_some_and(|host| origin.split_once("://").is_some_and(|(_, rest)| rest == host));
        own || self.is_configured_origin(origin)
    }

    /// Returns whether an origin is configured.
    pub(crate) fn is_configured_origin(&self, origin: &str) -> bool {
        self.origins.iter().any(|known| known == origin)
    }
}

/// Returns a host without its port.
fn host_name(host: &str) -> &str {
    match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or(rest),
        // Only digits are a port: `localhost:80@elsewhere` is not localhost.
        None => match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
            _ => host,
        },
    }
}

/// Returns the bearer token of a request.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// What is known about a connection and the client of a request on it.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionInfo {
    /// The address of the peer.
    pub(crate) peer: SocketAddr,
    /// The address of the client: that of the peer, unless the peer is a trusted proxy.
    pub(crate) client: IpAddr,
    /// Whether the connection uses TLS.
    pub(crate) is_encrypted: bool,
    /// The certificate of the client, if it has one.
    pub(crate) certificate: Option<Arc<ClientCertificate>>,
    /// Its connection slot.
    pub(crate) slot: Arc<ConnectionSlot>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn authenticator(hosts: &[&str], origins: &[&str]) -> Authenticator {
        let owned = |list: &[&str]| list.iter().map(|s| (*s).to_owned()).collect();
        Authenticator::new(&Config { hosts: owned(hosts), origins: owned(origins), ..Config::default() }).unwrap()
    }

    #[test]
    fn only_allowed_hosts_are_accepted() {
        let authenticator = authenticator(&["agents.example"], &[]);
        for known in
            ["localhost", "localhost:80", "127.0.0.1:1", "127.8.8.8", "[::1]:80", "LOCALHOST", "agents.example:443"]
        {
            assert!(authenticator.is_allowed_host(known), "{known}");
        }
        for unknown in [
            "evil.example",
            "localhost:80@evil.example",
            "localhost.evil.example",
            "10.0.0.1",
            "127.0.0.1.evil.example",
            "",
            "[::2]",
        ] {
            assert!(!authenticator.is_allowed_host(unknown), "{unknown}");
        }
    }

    #[test]
    fn only_allowed_origins_are_accepted() {
        let authenticator = authenticator(&[], &["https://app.example"]);
        assert!(authenticator.is_allowed_origin("http://127.0.0.1:8377", Some("127.0.0.1:8377")), "its own pages");
        assert!(authenticator.is_allowed_origin("https://app.example", Some("127.0.0.1:8377")));
        for other in ["http://127.0.0.1:9999", "https://app.example.evil", "null", "http://evil.example"] {
            assert!(!authenticator.is_allowed_origin(other, Some("127.0.0.1:8377")), "{other}");
        }
    }

    #[test]
    fn only_the_bearer_scheme_is_read() {
        let mut headers = HeaderMap::new();
        assert_eq!(bearer(&headers), None);
        headers.insert(header::AUTHORIZATION, "bearer abc".parse().unwrap());
        assert_eq!(bearer(&headers), Some("abc"));
        headers.insert(header::AUTHORIZATION, "Basic abc".parse().unwrap());
        assert_eq!(bearer(&headers), None);
    }
}
