//! Agents in any language: what they write as JSON becomes sessions of the producer.
//!
//! An agent needs no library. It writes one JSON object for each event, as loosely as it likes, and gets one JSON object
//! back for each question it asked and for each event that was refused. A [`Relay`] does that for one agent; [`stdio`]
//! feeds it from a process, and the endpoints under `/aaep/v1/agent` from the network.

mod ask;
mod events;
mod exact;
mod guarded;
mod identity;
mod inbox;
mod memory;
mod raw_event;
mod registry;
mod relay;
mod reply;
mod response;
mod session;
mod share;
pub mod stdio;
mod urgent;
mod ws;

pub use identity::AgentIdentity;
pub use relay::Relay;
pub use reply::{Pending, Reply};
pub use response::{AgentError, AgentResponse};

pub(crate) use registry::Agents;

use std::sync::Arc;

use axum::Router;
use axum::routing::{any, post};

use crate::context::AppState;

/// The endpoints for agents. They need the role to produce.
pub(crate) fn router(agents: Arc<Agents>) -> Router<AppState> {
    Router::new()
        .route("/aaep/v1/agent/events", post(events::take))
        .route("/aaep/v1/agent/ws", any(ws::upgrade))
        .layer(axum::Extension(agents))
}
