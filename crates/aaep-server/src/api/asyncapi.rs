//! The AsyncAPI document of what is sent over event streams and WebSockets.

use aaep_proto::binding::{CloseCode, SSE_EVENT, SSE_MESSAGE, WEBSOCKET_SUBPROTOCOL, path};
use aaep_proto::message::{CoreType, MessageType};
use aaep_proto::schema::{self, SchemaFile};
use serde_json::{Map, Value, json};

use super::{DEFAULT_ADDRESS, embedded_file, embedded_link_message, info, reference};
use crate::agents::schema::{LinkMessage, events, responses};
use crate::http::HttpEndpoint;

const DESCRIPTION: &str = "What `aaep serve` sends and receives over event streams and WebSockets: the Agent Accessibility \
Event Protocol (https://aaep-protocol.org) for subscribers, and the link of agents in other processes. The HTTP requests \
are described in openapi.json.";

/// Messages that a subscriber sends over the WebSocket.
const FROM_SUBSCRIBER: [MessageType; 6] = [
    MessageType::SubscriptionRequest,
    MessageType::SubscriptionRenegotiate,
    MessageType::SubscriptionClose,
    MessageType::ConfirmationReply,
    MessageType::ClarificationReply,
    MessageType::CancellationRequest,
];

/// Messages besides events that a producer sends over the WebSocket.
const FROM_PRODUCER: [MessageType; 4] = [
    MessageType::SubscriptionAccepted,
    MessageType::SubscriptionRejected,
    MessageType::SubscriptionClose,
    MessageType::CancellationRefused,
];

/// Responses that only a POST of an agent gets.
const POST_ONLY: [&str; 2] = ["agent.published", "agent.pending"];

/// Returns the AsyncAPI 3.0 document of the event stream and the WebSockets.
///
/// ```
/// let document = aaep_server::api::asyncapi();
/// assert_eq!(document["channels"]["websocket"]["address"], "/aaep/v1/ws");
/// ```
pub fn asyncapi() -> Value {
    let (agent_events, mut agent_responses) = (events(), responses());
    agent_responses.retain(|response| !POST_ONLY.contains(&response.name.as_str()));
    let from_agent: Vec<String> = agent_events.iter().map(|event| event.name.clone()).collect();
    let to_agent: Vec<String> = agent_responses.iter().map(|response| response.name.clone()).collect();
    let files: Vec<SchemaFile> = schema::all().into_iter().filter(|file| file.name != "manifest").collect();
    let link_messages: Vec<LinkMessage> = agent_events.into_iter().chain(agent_responses).collect();

    let events = event_names();
    let in_stream: Vec<String> = events.iter().cloned().chain(names(&[MessageType::SubscriptionClose])).collect();
    let to_subscriber: Vec<String> = events.into_iter().chain(names(&FROM_PRODUCER)).collect();
    let from_subscriber = names(&FROM_SUBSCRIBER);

    let schemas = files.iter().map(embedded_file).chain(link_messages.iter().map(embedded_link_message));
    let schemas: Map<String, Value> = schemas.map(|(name, schema)| (name, to_draft_07(schema))).collect();
    let messages = files.iter().map(protocol_message).chain(link_messages.iter().map(link_message));
    json!({
        "asyncapi": "3.0.0",
        "info": info("AAEP over event streams and WebSockets", DESCRIPTION),
        "defaultContentType": "application/json",
        "servers": {
            "http": {"host": DEFAULT_ADDRESS, "protocol": "http", "description": "aaep serve, by default",
                "security": security()},
            "ws": {"host": DEFAULT_ADDRESS, "protocol": "ws", "description": "aaep serve, by default",
                "security": security()},
        },
        "channels": {
            "events": event_stream(&in_stream),
            "websocket": websocket(HttpEndpoint::WebSocket, &subscriber_socket(), [&to_subscriber, &from_subscriber]),
            "agentWebsocket": websocket(HttpEndpoint::AgentWebSocket, AGENT_SOCKET, [&to_agent, &from_agent]),
        },
        "operations": {
            "streamEvents": operation("send", "events", &in_stream, "Streams events to a subscriber."),
            "sendToSubscriber": operation("send", "websocket", &to_subscriber, "Sends to a subscriber."),
            "receiveFromSubscriber":
                operation("receive", "websocket", &from_subscriber, "Receives from a subscriber."),
            "sendToAgent": operation("send", "agentWebsocket", &to_agent, "Responds to an agent."),
            "receiveFromAgent": operation("receive", "agentWebsocket", &from_agent, "Receives events of an agent."),
        },
        "components": {
            "messages": messages.collect::<Map<String, Value>>(),
            "schemas": schemas,
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "access_token": {"type": "httpApiKey", "in": "query", "name": "access_token",
                    "description": "For web pages, whose EventSource and WebSocket cannot send headers."},
                "certificate": {"type": "X509", "description": "A client certificate, if tls.client_ca is set."},
            },
        },
    })
}

fn security() -> Value {
    ["bearer", "access_token", "certificate"].map(|name| reference("securitySchemes", name)).into_iter().collect()
}

/// The core events, and those of extensions, which have the schema of the envelope.
fn event_names() -> Vec<String> {
    let core = CoreType::ALL.iter().map(|core| core.as_str().trim_start_matches("aaep:").to_owned());
    core.chain(["envelope".to_owned()]).collect()
}

fn names(messages: &[MessageType]) -> Vec<String> {
    messages.iter().filter_map(|message| Some(schema::find(message.as_str())?.name)).collect()
}

const AGENT_SOCKET: &str = "The WebSocket of an agent. Each text message of the agent is one event. The server sends \
outcomes, refusals and requests to stop. The role produce is needed.";

fn subscriber_socket() -> String {
    let codes = CloseCode::ALL.map(|code| format!("{code} ({code:?})")).join(", ");
    format!(
        "The WebSocket of a subscriber, with the subprotocol {WEBSOCKET_SUBPROTOCOL}. The first message is a \
         subscription.request. Each text message is one message of the protocol. Close codes: {codes}."
    )
}

fn event_stream(messages: &[String]) -> Value {
    let description = format!(
        "The event stream of a subscription (text/event-stream). Protocol events have the name {SSE_EVENT} and their \
         event_id as id; other messages have the name {SSE_MESSAGE}. A web page listens with \
         addEventListener(\"{SSE_EVENT}\", ...): onmessage receives nothing."
    );
    let mut channel = channel(HttpEndpoint::Events, &description, "http", messages);
    channel["x-sse-event-names"] = json!({"events": SSE_EVENT, "other messages": SSE_MESSAGE});
    let query = json!({"type": "object", "required": [path::EVENTS_SUBSCRIPTION_ID], "properties": {
        path::EVENTS_SUBSCRIPTION_ID: {"type": "string"}, "last_event_id": {"type": "string"}}});
    channel["x-query"] = query;
    channel
}

fn websocket(endpoint: HttpEndpoint, description: &str, messages: [&Vec<String>; 2]) -> Value {
    let messages: Vec<String> = messages.into_iter().flatten().cloned().collect();
    let mut channel = channel(endpoint, description, "ws", &messages);
    channel["bindings"] = json!({"ws": {"method": "GET", "bindingVersion": "0.1.0"}});
    if endpoint == HttpEndpoint::AgentWebSocket {
        channel["bindings"]["ws"]["query"] = json!({"type": "object", "properties": {"agent": {"type": "string"}}});
    }
    channel
}

fn channel(endpoint: HttpEndpoint, description: &str, server: &str, messages: &[String]) -> Value {
    let messages: Map<String, Value> =
        messages.iter().map(|name| (name.clone(), reference("messages", name))).collect();
    json!({
        "address": endpoint.path(),
        "description": description,
        "servers": [{"$ref": format!("#/servers/{server}")}],
        "messages": messages,
    })
}

fn operation(action: &str, channel: &str, messages: &[String], summary: &str) -> Value {
    let messages: Vec<Value> =
        messages.iter().map(|name| json!({"$ref": format!("#/channels/{channel}/messages/{name}")})).collect();
    json!({
        "action": action,
        "channel": {"$ref": format!("#/channels/{channel}")},
        "summary": summary,
        "messages": messages,
    })
}

fn protocol_message(file: &SchemaFile) -> (String, Value) {
    let example = file.example().and_then(|text| serde_json::from_str::<Value>(text).ok());
    message(&file.name, &file.description(), example)
}

fn link_message(link_message: &LinkMessage) -> (String, Value) {
    message(&link_message.name, &link_message.summary, Some(link_message.example.clone()))
}

fn message(name: &str, summary: &str, example: Option<Value>) -> (String, Value) {
    let mut message = json!({"name": name, "summary": summary, "payload": reference("schemas", name)});
    if let Some(example) = example {
        message["examples"] = json!([{"payload": example}]);
    }
    (name.to_owned(), message)
}

/// Rewrites a schema for draft 7, which is what AsyncAPI's own schemas are based on: arrays with a fixed beginning are
/// the only part that differs.
fn to_draft_07(schema: Value) -> Value {
    match schema {
        Value::Object(mut fields) => {
            if let Some(beginning) = fields.remove("prefixItems")
                && let Some(others) = fields.insert("items".to_owned(), beginning)
            {
                fields.insert("additionalItems".to_owned(), others);
            }
            Value::Object(fields.into_iter().map(|(name, value)| (name, to_draft_07(value))).collect())
        }
        Value::Array(items) => items.into_iter().map(to_draft_07).collect(),
        other => other,
    }
}
