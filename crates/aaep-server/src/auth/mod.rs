//! Who is there, and whether it may come in: bearer tokens, client certificates, hosts and origins.

pub(crate) mod credentials;
pub(crate) mod tls;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::http::HeaderMap;
use axum::http::header;

use crate::admission::connection_slots::ConnectionSlot;
use crate::auth::credentials::{ClientCertificate, CredentialLease, Credentials, PresentedCredentials};
use crate::config::{Config, ConfigError};
use crate::metrics::Transport;
use crate::peer::Peer;

/// Who may come in.
#[derive(Debug)]
pub(crate) struct Authenticator {
    credentials: Arc<Credentials>,
    hosts: Vec<String>,
    origins: Vec<String>,
}

/// Why someone may not come in. The reason is for logs; the peer is told nothing but the fact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AuthError {
    /// It shows no credentials.
    Missing,
    /// It shows credentials that do not hold.
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

    /// Whether everyone on this machine may do everything.
    pub(crate) fn is_open(&self) -> bool {
        self.credentials.is_empty()
    }

    /// The credentials that are accepted.
    pub(crate) fn credentials(&self) -> &Arc<Credentials> {
        &self.credentials
    }

    /// Who this is, by a token or by the certificate that TLS has checked.
    pub(crate) fn identify(
        &self,
        token: Option<&str>,
        certificate: Option<&Arc<ClientCertificate>>,
        transport: Transport,
    ) -> Result<Peer, AuthError> {
        if self.is_open() {
            return Ok(Peer::local(transport));
        }
        let shown = match (token, certificate) {
            (Some(token), _) => PresentedCredentials::Token(token.to_owned()),
            (None, Some(certificate)) => PresentedCredentials::Certificate(certificate.clone()),
            (None, None) => return Err(AuthError::Missing),
        };
        let lease = CredentialLease::accept(&self.credentials, shown).map_err(AuthError::Invalid)?;
        Ok(Peer { identity: lease.identity(), transport, lease: Some(lease), slot: None })
    }

    /// Whether this server may be called by this name. A page of another site that lets its own name point here
    /// would otherwise pass for this one (DNS rebinding).
    pub(crate) fn is_allowed_host(&self, host: &str) -> bool {
        let name = host_name(host).to_lowercase();
        let name = name.trim_end_matches('.');
        name == "localhost"
            || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
            || self.hosts.iter().any(|known| known == name || *known == host.to_lowercase())
    }

    /// Whether a page of this origin may use this server.
    pub(crate) fn is_allowed_origin(&self, origin: &str, host: Option<&str>) -> bool {
        let own = host.is_some_and(|host| origin.split_once("://").is_some_and(|(_, rest)| rest == host));
        own || self.is_configured_origin(origin)
    }

    /// Whether this origin was configured.
    pub(crate) fn is_configured_origin(&self, origin: &str) -> bool {
        self.origins.iter().any(|known| known == origin)
    }
}

/// A host without its port.
fn host_name(host: &str) -> &str {
    match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or(rest),
        // What is not a port belongs to the name: `localhost:80@elsewhere` is not localhost.
        None => match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
            _ => host,
        },
    }
}

/// The bearer token of a request.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// What is known of a connection before any request.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionInfo {
    /// Where it comes from.
    pub(crate) address: SocketAddr,
    /// Who it is by its certificate.
    pub(crate) certificate: Option<Arc<ClientCertificate>>,
    /// Its place among all connections.
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
    fn only_known_hosts() {
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
    fn only_known_origins() {
        let authenticator = authenticator(&[], &["https://app.example"]);
        assert!(authenticator.is_allowed_origin("http://127.0.0.1:8377", Some("127.0.0.1:8377")), "its own pages");
        assert!(authenticator.is_allowed_origin("https://app.example", Some("127.0.0.1:8377")));
        for other in ["http://127.0.0.1:9999", "https://app.example.evil", "null", "http://evil.example"] {
            assert!(!authenticator.is_allowed_origin(other, Some("127.0.0.1:8377")), "{other}");
        }
    }

    #[test]
    fn the_scheme_is_bearer() {
        let mut headers = HeaderMap::new();
        assert_eq!(bearer(&headers), None);
        headers.insert(header::AUTHORIZATION, "bearer abc".parse().unwrap());
        assert_eq!(bearer(&headers), Some("abc"));
        headers.insert(header::AUTHORIZATION, "Basic abc".parse().unwrap());
        assert_eq!(bearer(&headers), None);
    }
}
