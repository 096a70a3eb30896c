//! Proxies that terminate TLS in front of the server, and the clients behind them.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use axum::http::{HeaderMap, StatusCode};
use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::auth::ConnectionInfo;
use crate::forwarded::{ForwardedClient, ForwardingHeaders, client_of};
use crate::http::HttpProblem;

/// An address or network of trusted proxies, such as `10.0.0.2` or `10.0.0.0/24`.
///
/// ```
/// use aaep_server::ProxyNetwork;
/// let network: ProxyNetwork = "10.0.0.0/24".parse()?;
/// assert!(network.contains("10.0.0.7".parse()?) && !network.contains("10.0.1.7".parse()?));
/// assert!("0.0.0.0/0".parse::<ProxyNetwork>().is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ProxyNetwork(IpNet);

impl ProxyNetwork {
    /// Returns whether an address belongs to this network.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.contains(&address.to_canonical())
    }
}

/// A text that is not an address or network of proxies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyNetworkError(String);

impl fmt::Display for ProxyNetworkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is not the address or network of a proxy: write it as 10.0.0.2 or 10.0.0.0/24", self.0)
    }
}

impl std::error::Error for ProxyNetworkError {}

impl FromStr for ProxyNetwork {
    type Err = ProxyNetworkError;

    fn from_str(text: &str) -> Result<ProxyNetwork, ProxyNetworkError> {
        let text = text.trim();
        let address = text.parse::<IpAddr>().map(|address| IpNet::from(address.to_canonical()));
        let network = address.or_else(|_| text.parse::<IpNet>()).map_err(|_| ProxyNetworkError(text.to_owned()))?;
        // Everyone could choose the address that is seen.
        if network.prefix_len() == 0 {
            return Err(ProxyNetworkError(text.to_owned()));
        }
        Ok(ProxyNetwork(network.trunc()))
    }
}

impl TryFrom<String> for ProxyNetwork {
    type Error = ProxyNetworkError;

    fn try_from(text: String) -> Result<ProxyNetwork, ProxyNetworkError> {
        text.parse()
    }
}

impl From<ProxyNetwork> for String {
    fn from(network: ProxyNetwork) -> String {
        let is_single = network.0.prefix_len() == network.0.max_prefix_len();
        if is_single { network.0.addr().to_string() } else { network.0.to_string() }
    }
}

/// The trusted proxies of a server. Without any, clients connect directly.
#[derive(Clone, Debug, Default)]
pub(crate) struct TrustedProxies(Vec<ProxyNetwork>);

/// Where a request comes from.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RequestOrigin {
    /// From the peer of the connection.
    Direct,
    /// From a client behind a trusted proxy.
    Forwarded(ForwardedClient),
}

impl TrustedProxies {
    pub(crate) fn new(networks: &[ProxyNetwork]) -> TrustedProxies {
        TrustedProxies(networks.to_vec())
    }

    /// Returns whether an address is a trusted proxy.
    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(address))
    }

    /// Returns where a request comes from. Forwarding headers count only if a trusted proxy sent them. Behind a proxy,
    /// credentials must not cross a network unencrypted: neither from the client to the proxy, nor past the proxy.
    pub(crate) fn origin_of(
        &self,
        connection: &ConnectionInfo,
        headers: &HeaderMap,
    ) -> Result<RequestOrigin, HttpProblem> {
        let peer = connection.peer.ip().to_canonical();
        let refused = |status, detail| {
            tracing::info!(%peer, detail, "rejected a request behind a proxy");
            Err(HttpProblem::new(status, detail))
        };
        if !self.contains(peer) {
            let is_private = self.0.is_empty() || connection.is_encrypted || peer.is_loopback();
            return match is_private {
                true => Ok(RequestOrigin::Direct),
                false => refused(
                    StatusCode::FORBIDDEN,
                    "Only the proxy may connect here. Use its address, or add yours to the setting behind_proxy.",
                ),
            };
        }
        match client_of(&forwarding_headers(headers), |address| self.contains(address)) {
            Ok(client) if client.encrypted => Ok(RequestOrigin::Forwarded(client)),
            Ok(_) => refused(StatusCode::FORBIDDEN, "Use https: http is not accepted through the proxy."),
            Err(error) => refused(StatusCode::BAD_REQUEST, error.detail()),
        }
    }
}

fn forwarding_headers(headers: &HeaderMap) -> ForwardingHeaders<'_> {
    let all = |name: &str| headers.get_all(name).iter().map(|value| value.as_bytes()).collect();
    ForwardingHeaders {
        forwarded: all("forwarded"),
        x_for: all("x-forwarded-for"),
        x_proto: all("x-forwarded-proto"),
        x_host: all("x-forwarded-host"),
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderName;

    use super::*;
    use crate::admission::connection_slots::{ConnectionOrigin, ConnectionSlots};
    use crate::config::Limits;

    fn connection(peer: &str, is_encrypted: bool) -> ConnectionInfo {
        let peer = std::net::SocketAddr::new(peer.parse().unwrap(), 1);
        let slot = ConnectionSlots::new(&Limits::default()).admit(ConnectionOrigin::Local).unwrap().slot;
        ConnectionInfo { peer, client: peer.ip(), is_encrypted, certificate: None, slot }
    }

    fn headers(list: &[(&'static str, &str)]) -> HeaderMap {
        list.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    fn forwarded() -> HeaderMap {
        headers(&[("x-forwarded-for", "192.0.2.7"), ("x-forwarded-proto", "https")])
    }

    #[test]
    fn only_named_proxies_can_forward_requests() {
        let proxies = TrustedProxies::new(&["10.0.0.2".parse().unwrap(), "fd00::/64".parse().unwrap()]);
        let client = ForwardedClient { address: "192.0.2.7".parse().unwrap(), encrypted: true, host: None };
        for peer in ["10.0.0.2", "::ffff:10.0.0.2", "fd00::9"] {
            let origin = proxies.origin_of(&connection(peer, false), &forwarded());
            assert_eq!(origin, Ok(RequestOrigin::Forwarded(client.clone())), "{peer}");
        }
        // Others are clients themselves, whatever they send, and must not use an unencrypted connection.
        for peer in ["10.0.0.3", "::ffff:10.0.0.3", "fd00:0:0:1::9", "192.0.2.7"] {
            assert!(proxies.origin_of(&connection(peer, false), &forwarded()).is_err(), "{peer}");
            assert_eq!(proxies.origin_of(&connection(peer, true), &forwarded()), Ok(RequestOrigin::Direct), "{peer}");
        }
        for peer in ["127.0.0.1", "::1", "::ffff:127.0.0.1"] {
            assert_eq!(proxies.origin_of(&connection(peer, false), &forwarded()), Ok(RequestOrigin::Direct), "{peer}");
        }
    }

    #[test]
    fn without_proxies_no_header_counts() {
        let origin = TrustedProxies::default().origin_of(&connection("10.0.0.2", false), &forwarded());
        assert_eq!(origin, Ok(RequestOrigin::Direct));
    }

    #[test]
    fn client_of_a_proxy_must_use_https() {
        let proxies = TrustedProxies::new(&["10.0.0.2".parse().unwrap()]);
        for proto in ["http", "ws", ""] {
            let headers = headers(&[("x-forwarded-for", "192.0.2.7"), ("x-forwarded-proto", proto)]);
            assert!(proxies.origin_of(&connection("10.0.0.2", false), &headers).is_err(), "{proto:?}");
        }
    }
}
