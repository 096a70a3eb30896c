//! The paths of the HTTP endpoints, relative to the base address of a producer.

/// `POST` of a `subscription.request`.
pub const SUBSCRIPTIONS: &str = "/aaep/v1/subscriptions";

/// `GET` of the event stream of a subscription.
pub const EVENTS: &str = "/aaep/v1/events";

/// The query parameter of [`EVENTS`] that names the subscription.
pub const EVENTS_SUBSCRIPTION_ID: &str = "subscription_id";

/// `POST` of replies, renegotiations and closes.
pub const REPLIES: &str = "/aaep/v1/replies";

/// The WebSocket endpoint of subscribers.
pub const WEBSOCKET: &str = "/aaep/v1/ws";

/// `POST` of events by an agent.
pub const AGENT_EVENTS: &str = "/aaep/v1/agent/events";

/// The WebSocket endpoint of agents.
pub const AGENT_WEBSOCKET: &str = "/aaep/v1/agent/ws";

/// The manifest of a producer.
pub const MANIFEST: &str = "/.well-known/aaep-manifest.json";

/// The public keys that a producer signs its manifest with.
pub const KEYS: &str = "/.well-known/aaep-keys.json";

/// Whether the process is alive.
pub const HEALTH: &str = "/healthz";

/// Whether the server accepts subscriptions.
pub const READINESS: &str = "/readyz";

/// The metrics of the server, in the text format of Prometheus.
pub const METRICS: &str = "/metrics";

/// The state of the server for operators, as JSON.
pub const STATUS: &str = "/aaep/v1/status";

/// Returns the path and query of the event stream of a subscription.
///
/// ```
/// assert_eq!(aaep_proto::binding::path::events_of("sub_1"), "/aaep/v1/events?subscription_id=sub_1");
/// ```
pub fn events_of(subscription_id: &str) -> String {
    format!("{EVENTS}?{EVENTS_SUBSCRIPTION_ID}={subscription_id}")
}
