//! Agents in other processes and languages: loose JSON becomes events of the producer.
//!
//! An agent needs no library. It writes one JSON object for each event and may leave out what only the server knows or
//! what has one right value. It gets one JSON object back for each question that was resolved and for each event that
//! was refused.
//!
//! # The path of one event
//!
//! 1. **Receive.** [`stdio`] reads lines from the standard output of a process (`aaep run`), `post.rs` handles
//!    `POST /aaep/v1/agent/events` and `ws.rs` handles the WebSocket `/aaep/v1/agent/ws`. `read_ahead.rs` keeps reading
//!    from the WebSocket while an event is handled.
//! 2. **Find the agent.** On a server, `registry.rs` finds or creates the agent that a connection belongs to and hands
//!    out an `AgentGuard`. `users.rs` decides which users it may act for, `identity.rs` decides which `agent_id` it may use, `resources.rs` how much it may occupy. Under
//!    `aaep run` there is one agent and no registry.
//! 3. **Parse.** `raw_event.rs` parses the object once, through `strict_json.rs`, into a `RawEvent`. `urgent.rs` notes
//!    urgent events before they are handled, so that text in front of them does not delay them.
//! 4. **Deduplicate.** [`Relay`] owns the state of one agent. It looks the `event_id` up in `response_cache.rs`: a
//!    repeated event gets its first response again. After a restart, `relay/recovery.rs` answers for earlier events.
//! 5. **Complete.** `raw_event.rs` fills in the fields that the agent left out and makes a typed `CompletedEvent`. Text of
//!    an open output skips this: `relay/text.rs` collects it.
//! 6. **Find the session.** `relay/sessions.rs` maps the agent's `session_id` to a session of the producer, and starts one
//!    if there is none. `relay/recovery.rs` adopts a session from before a restart.
//! 7. **Emit.** `relay/mod.rs` emits the event into that session through the `aaep` crate, whose engine delivers it to all
//!    subscriptions. `session.rs` handles its tool calls and outputs. An irreversible tool needs a permit from `permits.rs`; `irreversible_tools.rs` knows those tools.
//!    `questions.rs` asks the user.
//! 8. **Respond.** `response.rs` is what the agent gets back as JSON. The response to a question comes later: `pending.rs`.
//!
//! What a user sends without being asked takes another way: `cancel_requests.rs` has the requests that the agent stops.

mod cancel_requests;
mod complete;
mod identity;
mod irreversible_tools;
mod pending;
mod permits;
mod post;
mod questions;
mod raw_event;
mod read_ahead;
mod registry;
mod relay;
mod resources;
mod response;
mod response_cache;
pub(crate) mod schema;
mod session;
pub mod stdio;
mod strict_json;
mod urgent;
mod users;
mod ws;

pub use identity::AgentIdentity;
pub use pending::{PendingResponse, ResponseState};
pub use relay::Relay;
pub use response::{AgentError, AgentResponse, OutcomeValue};

/// Handles an event of an agent with these credentials, as a request of the agent would.
#[cfg(test)]
pub(crate) async fn simulated_agent(
    registry: &AgentRegistry,
    identity: &std::sync::Arc<aaep_keys::Identity>,
    event: &str,
) -> ResponseState {
    if !identity.may(aaep_keys::Role::Produce) {
        let error = AgentError::new("These credentials are for no agent.");
        return AgentResponse::refused(None, error.into()).into();
    }
    let kind = registry::ConnectionKind::PerRequest;
    let connection = registry::AgentConnection { identity: Some(identity), name: None, user: None, kind };
    let guard = registry.acquire(connection).expect("there are few agents");
    let mut relay = guard.relay().lock().await;
    let response = relay.handle_line(event.as_bytes()).await;
    relay.flush().await;
    response
}

pub(crate) use post::post_events;
pub(crate) use registry::AgentRegistry;
pub(crate) use ws::upgrade;
