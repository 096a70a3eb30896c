//! Who is there, and whether it may come in: bearer tokens, client certificates, hosts and origins.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use aaep_keys::{Identity, KeySet, Role, StaticTokens, TokenVerifier};
use axum::http::HeaderMap;
use axum::http::header;

use crate::clock;
use crate::config::{Config, ConfigError};
use crate::hub::Peer;
use crate::metrics::Transport;
use crate::places::Place;

/// Who may come in.
#[derive(Debug)]
pub(crate) struct Gate {
    tokens: Option<StaticTokens>,
    signed: Option<TokenVerifier>,
    /// Whether a client certificate is proof enough.
    mutual: bool,
    hosts: Vec<String>,
    origins: Vec<String>,
}

/// Why someone may not come in. The reason is for logs; the peer is told nothing but the fact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unknown {
    /// It shows no credentials.
    Missing,
    /// It shows credentials that do not hold.
    Invalid(&'static str),
}

impl Gate {
    pub(crate) fn new(config: &Config) -> Result<Gate, ConfigError> {
        let told = |what: &str, e: &dyn std::fmt::Display| ConfigError(format!("{what}: {e}"));
        let auth = &config.auth;
        let tokens = auth.tokens.as_deref().map(|path| StaticTokens::load(path).map_err(|e| told("auth.tokens", &e)));
        let keys = auth.jwks.as_deref().map(|path| KeySet::load(path).map_err(|e| told("auth.jwks", &e)));
        Ok(Gate {
            tokens: tokens.transpose()?,
            signed: keys.transpose()?.map(|keys| TokenVerifier::new(keys, &auth.issuer, &auth.audience)),
            mutual: config.tls.as_ref().is_some_and(|tls| tls.client_ca.is_some()),
            hosts: config.hosts.iter().map(|host| host.to_lowercase()).collect(),
            origins: config.origins.clone(),
        })
    }

    /// Whether everyone on this machine may do everything.
    pub(crate) fn is_open(&self) -> bool {
        self.tokens.is_none() && self.signed.is_none() && !self.mutual
    }

    /// Who this is, by a token or by the certificate that TLS has checked.
    pub(crate) fn identify(
        &self,
        token: Option<&str>,
        certificate: Option<&Arc<Identity>>,
        transport: Transport,
    ) -> Result<Peer, Unknown> {
        if self.is_open() {
            return Ok(Peer::local(transport));
        }
        let identity = match (token, certificate) {
            (Some(token), _) => Arc::new(self.by_token(token)?),
            (None, Some(identity)) => identity.clone(),
            (None, None) => return Err(Unknown::Missing),
        };
        Ok(Peer { identity, transport, place: None })
    }

    fn by_token(&self, token: &str) -> Result<Identity, Unknown> {
        if let Some(identity) = self.tokens.as_ref().and_then(|tokens| tokens.find(token)) {
            return Ok(identity.clone());
        }
        let Some(signed) = &self.signed else { return Err(Unknown::Invalid("unknown_token")) };
        signed.verify(token, clock::wall()).map_err(|fault| Unknown::Invalid(fault.code()))
    }

    /// Whether this server may be called by this name. A page of another site that lets its own name point here
    /// would otherwise pass for this one (DNS rebinding).
    pub(crate) fn knows_host(&self, host: &str) -> bool {
        let name = host_name(host).to_lowercase();
        let name = name.trim_end_matches('.');
        name == "localhost"
            || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
            || self.hosts.iter().any(|known| known == name || *known == host.to_lowercase())
    }

    /// Whether a page of this origin may use this server.
    pub(crate) fn knows_origin(&self, origin: &str, host: Option<&str>) -> bool {
        let own = host.is_some_and(|host| origin.split_once("://").is_some_and(|(_, rest)| rest == host));
        own || self.allows_origin(origin)
    }

    /// Whether this origin was configured.
    pub(crate) fn allows_origin(&self, origin: &str) -> bool {
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

/// The identity that a client certificate proves. TLS has checked that it is valid.
pub(crate) fn of_certificate(der: &[u8]) -> Identity {
    let print = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, der);
    let hex: String = print.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    let roles = [Role::Subscribe, Role::Reply, Role::Produce].into();
    Identity { principal: format!("cert:{hex}"), roles }
}

/// What is known of a connection before any request.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    /// Where it comes from.
    pub(crate) address: SocketAddr,
    /// Who it is by its certificate.
    pub(crate) certificate: Option<Arc<Identity>>,
    /// Its place among all connections.
    pub(crate) place: Arc<Place>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate(hosts: &[&str], origins: &[&str]) -> Gate {
        let owned = |list: &[&str]| list.iter().map(|s| (*s).to_owned()).collect();
        Gate::new(&Config { hosts: owned(hosts), origins: owned(origins), ..Config::default() }).unwrap()
    }

    #[test]
    fn only_known_hosts() {
        let gate = gate(&["agents.example"], &[]);
        for known in
            ["localhost", "localhost:80", "127.0.0.1:1", "127.8.8.8", "[::1]:80", "LOCALHOST", "agents.example:443"]
        {
            assert!(gate.knows_host(known), "{known}");
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
            assert!(!gate.knows_host(unknown), "{unknown}");
        }
    }

    #[test]
    fn only_known_origins() {
        let gate = gate(&[], &["https://app.example"]);
        assert!(gate.knows_origin("http://127.0.0.1:8377", Some("127.0.0.1:8377")), "its own pages");
        assert!(gate.knows_origin("https://app.example", Some("127.0.0.1:8377")));
        for other in ["http://127.0.0.1:9999", "https://app.example.evil", "null", "http://evil.example"] {
            assert!(!gate.knows_origin(other, Some("127.0.0.1:8377")), "{other}");
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
