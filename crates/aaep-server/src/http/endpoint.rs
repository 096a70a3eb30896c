//! The endpoints of the HTTP binding. The router and the published description of the API are made from this list.

use aaep_proto::binding::path;

use crate::config::Transports;

/// An endpoint of the HTTP binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    /// The handshake of the SSE binding.
    Subscriptions,
    /// The event stream of a subscription.
    Events,
    /// Replies, renegotiations and closes.
    Replies,
    /// The WebSocket of subscribers.
    WebSocket,
    /// Events of an agent in another process.
    AgentEvents,
    /// The WebSocket of agents in other processes.
    AgentWebSocket,
    /// The manifest.
    Manifest,
    /// The keys of the signed manifest.
    Keys,
    /// Whether the process is alive.
    Health,
    /// Whether subscriptions are accepted.
    Readiness,
    /// The metrics.
    Metrics,
}

impl Endpoint {
    /// All endpoints.
    pub(crate) const ALL: [Endpoint; 11] = [
        Endpoint::Subscriptions,
        Endpoint::Events,
        Endpoint::Replies,
        Endpoint::WebSocket,
        Endpoint::AgentEvents,
        Endpoint::AgentWebSocket,
        Endpoint::Manifest,
        Endpoint::Keys,
        Endpoint::Health,
        Endpoint::Readiness,
        Endpoint::Metrics,
    ];

    /// Returns its path.
    pub(crate) const fn path(self) -> &'static str {
        match self {
            Endpoint::Subscriptions => path::SUBSCRIPTIONS,
            Endpoint::Events => path::EVENTS,
            Endpoint::Replies => path::REPLIES,
            Endpoint::WebSocket => path::WEBSOCKET,
            Endpoint::AgentEvents => path::AGENT_EVENTS,
            Endpoint::AgentWebSocket => path::AGENT_WEBSOCKET,
            Endpoint::Manifest => path::MANIFEST,
            Endpoint::Keys => path::KEYS,
            Endpoint::Health => path::HEALTH,
            Endpoint::Readiness => path::READINESS,
            Endpoint::Metrics => path::METRICS,
        }
    }

    /// Returns its methods, as in an `Allow` header.
    pub(crate) const fn allow(self) -> &'static str {
        match self {
            Endpoint::Subscriptions | Endpoint::Replies | Endpoint::AgentEvents => "POST",
            Endpoint::Events | Endpoint::WebSocket | Endpoint::AgentWebSocket => "GET",
            Endpoint::Manifest | Endpoint::Keys | Endpoint::Health | Endpoint::Readiness | Endpoint::Metrics => {
                "GET, HEAD"
            }
        }
    }

    /// Returns whether a server with these transports serves it.
    pub(crate) const fn is_served(self, transports: &Transports, accepts_agents: bool) -> bool {
        match self {
            Endpoint::Subscriptions | Endpoint::Events | Endpoint::Replies => transports.sse,
            Endpoint::WebSocket => transports.websocket,
            Endpoint::AgentEvents | Endpoint::AgentWebSocket => accepts_agents,
            Endpoint::Manifest | Endpoint::Keys | Endpoint::Health | Endpoint::Readiness | Endpoint::Metrics => true,
        }
    }
}
