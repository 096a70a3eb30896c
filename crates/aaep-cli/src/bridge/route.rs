//! What each route to an agent can enforce, as subscribers are told.

use aaep_proto::message::EventMeta;
use serde_json::{Map, Value, json};

/// The prefix of the extension in which sessions say what their route can enforce.
const PREFIX: &str = "enforcement";

/// The vocabulary of the extension; see `docs/bridges.md`.
const URI: &str = "urn:aaep:extension:enforcement:1";

/// A way by which the events of an agent reach its user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// A proxy for MCP: every tool call passes through it.
    Mcp,
}

impl Route {
    /// Returns what the first event of a session carries.
    pub(crate) fn meta(self) -> EventMeta {
        let content = match self {
            Route::Mcp => json!({"route": "mcp", "tools": "enforced", "output": "none"}),
        };
        let extensions: Map<String, Value> = [(PREFIX.to_owned(), content)].into_iter().collect();
        EventMeta { vocabularies: vec![URI.to_owned()], extensions: Some(extensions), ..EventMeta::default() }
    }
}
