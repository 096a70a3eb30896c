//! What each route to an agent can enforce, as subscribers are told.

use aaep_bridge::{ENFORCEMENT_PREFIX, ENFORCEMENT_URI};
use aaep_proto::message::EventMeta;
use serde_json::{Map, Value, json};

/// A way by which the events of an agent reach its user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BridgeRoute {
    /// A proxy for MCP: every tool call passes through it.
    Mcp,
    /// A proxy for ACP: what the agent asks about passes through it, what it does without asking does not.
    Acp,
}

impl BridgeRoute {
    /// Returns what the first event of a session carries.
    pub(crate) fn meta(self) -> EventMeta {
        let content = match self {
            BridgeRoute::Mcp => json!({"route": "mcp", "tools": "enforced", "output": "none"}),
            BridgeRoute::Acp => json!({"route": "acp", "tools": "on_request", "output": "streamed"}),
        };
        let extensions: Map<String, Value> = [(ENFORCEMENT_PREFIX.to_owned(), content)].into_iter().collect();
        EventMeta {
            vocabularies: vec![ENFORCEMENT_URI.to_owned()],
            extensions: Some(extensions),
            ..EventMeta::default()
        }
    }
}
