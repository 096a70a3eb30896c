//! The endpoints of the HTTP binding. The router and the published description of the API are made from this list.

use aaep_proto::binding::path;

use crate::config::Transports;

/// An endpoint of the HTTP binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HttpEndpoint {
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
    /// Subscriptions, questions and decisions, for operators.
    Status,
}

impl HttpEndpoint {
    /// All endpoints.
    pub(crate) const ALL: [HttpEndpoint; 12] = [
        HttpEndpoint::Subscriptions,
        HttpEndpoint::Events,
        HttpEndpoint::Replies,
        HttpEndpoint::WebSocket,
        HttpEndpoint::AgentEvents,
        HttpEndpoint::AgentWebSocket,
        HttpEndpoint::Manifest,
        HttpEndpoint::Keys,
        HttpEndpoint::Health,
        HttpEndpoint::Readiness,
        HttpEndpoint::Metrics,
        HttpEndpoint::Status,
    ];

    /// Returns its path.
    pub(crate) const fn path(self) -> &'static str {
        match self {
            HttpEndpoint::Subscriptions => path::SUBSCRIPTIONS,
            HttpEndpoint::Events => path::EVENTS,
            HttpEndpoint::Replies => path::REPLIES,
            HttpEndpoint::WebSocket => path::WEBSOCKET,
            HttpEndpoint::AgentEvents => path::AGENT_EVENTS,
            HttpEndpoint::AgentWebSocket => path::AGENT_WEBSOCKET,
            HttpEndpoint::Manifest => path::MANIFEST,
            HttpEndpoint::Keys => path::KEYS,
            HttpEndpoint::Health => path::HEALTH,
            HttpEndpoint::Readiness => path::READINESS,
            HttpEndpoint::Metrics => path::METRICS,
            HttpEndpoint::Status => path::STATUS,
        }
    }

    /// Returns its methods, as in an `Allow` header.
    pub(crate) const fn allow(self) -> &'static str {
        match self {
            HttpEndpoint::Subscriptions | HttpEndpoint::Replies | HttpEndpoint::AgentEvents => "POST",
            HttpEndpoint::Events | HttpEndpoint::WebSocket | HttpEndpoint::AgentWebSocket => "GET",
            HttpEndpoint::Manifest
            | HttpEndpoint::Keys
            | HttpEndpoint::Health
            | HttpEndpoint::Readiness
            | HttpEndpoint::Metrics
            | HttpEndpoint::Status => "GET, HEAD",
        }
    }

    /// Returns whether a server with these transports serves it.
    pub(crate) const fn is_served(self, transports: &Transports, accepts_agents: bool) -> bool {
        match self {
            HttpEndpoint::Subscriptions | HttpEndpoint::Events | HttpEndpoint::Replies => transports.sse,
            HttpEndpoint::WebSocket => transports.websocket,
            HttpEndpoint::AgentEvents | HttpEndpoint::AgentWebSocket => accepts_agents,
            HttpEndpoint::Manifest
            | HttpEndpoint::Keys
            | HttpEndpoint::Health
            | HttpEndpoint::Readiness
            | HttpEndpoint::Metrics
            | HttpEndpoint::Status => true,
        }
    }
}
