//! The OpenAPI document of the HTTP endpoints.

use aaep_proto::schema::{self, SchemaFile};
use serde_json::{Map, Value, json};

use super::{DEFAULT_ADDRESS, embedded_file, embedded_link_message, info, reference, security_schemes};
use crate::agents::schema::{events, responses};
use crate::http::HttpEndpoint;

const DESCRIPTION: &str = "The HTTP binding of the Agent Accessibility Event Protocol (https://aaep-protocol.org), as \
`aaep serve` serves it. A subscriber posts a subscription.request, reads the event stream at the Location of the response, \
and posts its replies. What is sent over event streams and WebSockets is described in asyncapi.json. Every path responds to \
other methods with 405 and an Allow header. Requests of web pages need an allowed origin; a preflight request gets 204.";

/// What an agent receives over its WebSocket only. The response to a POST has a field of that name instead.
const CANCEL_REQUESTED: &str = "agent.cancel_requested";

/// Returns the OpenAPI 3.1 document of all HTTP endpoints.
///
/// ```
/// let document = aaep_server::api::openapi();
/// assert!(document["paths"]["/aaep/v1/subscriptions"]["post"].is_object());
/// ```
pub fn openapi() -> Value {
    let paths: Map<String, Value> =
        HttpEndpoint::ALL.into_iter().map(|endpoint| (endpoint.path().to_owned(), path_item(endpoint))).collect();
    json!({
        "openapi": "3.1.0",
        "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
        "info": info("AAEP over HTTP", DESCRIPTION),
        "servers": [{"url": format!("http://{DEFAULT_ADDRESS}"), "description": "aaep serve, by default"}],
        "tags": [
            {"name": "subscribers", "description": "Screen readers, braille displays, captions."},
            {"name": "agents", "description": "Agents in other processes. They need the role produce."},
            {"name": "discovery", "description": "What the producer offers. No credentials are needed."},
            {"name": "operation", "description": "Health, metrics and status."},
        ],
        "paths": paths,
        "components": {"schemas": schemas(), "securitySchemes": security_schemes()},
    })
}

/// Returns the schemas that the operations refer to.
fn schemas() -> Map<String, Value> {
    let files = schema::all();
    let is_sent_over_http = |file: &&SchemaFile| {
        ["handshake/", "extensions/"].iter().any(|directory| file.path.starts_with(directory))
            || file.name == "manifest"
    };
    let messages = files.iter().filter(is_sent_over_http);
    let mut schemas: Map<String, Value> = messages.map(embedded_file).collect();
    let (events, mut responses) = (events(), responses());
    responses.retain(|response| response.name != CANCEL_REQUESTED);
    let any: Vec<Value> = events.iter().map(|event| reference("schemas", &event.name)).collect();
    schemas.insert("agent.event".to_owned(), json!({"anyOf": any}));
    schemas.extend(events.iter().chain(&responses).map(embedded_link_message));
    schemas.insert("problem".to_owned(), problem());
    schemas.insert("status".to_owned(), status_schema());
    schemas.insert(
        "jwks".to_owned(),
        json!({"type": "object", "required": ["keys"],
            "properties": {"keys": {"type": "array", "items": {"type": "object", "required": ["kty"]}}}}),
    );
    schemas
}

/// Problem details (RFC 9457).
fn problem() -> Value {
    json!({
        "type": "object",
        "required": ["type", "title", "status", "detail"],
        "properties": {
            "type": {"const": "about:blank"},
            "title": {"type": "string", "description": "The meaning of the status."},
            "status": {"type": "integer", "minimum": 400, "maximum": 599},
            "detail": {"type": "string", "description": "What was wrong and what to do."},
        },
    })
}

/// One operation: the part of it that differs between endpoints.
struct Operation {
    id: &'static str,
    tag: &'static str,
    summary: &'static str,
    parameters: Vec<Value>,
    body: Option<Value>,
    /// Responses to good requests.
    responses: Vec<(u16, Value)>,
    /// Further statuses of bad requests, besides those of the host and origin checks.
    errors: &'static [u16],
    error_body: ErrorBody,
    needs_credentials: bool,
}

/// The body of an error.
#[derive(Clone, Copy)]
enum ErrorBody {
    /// Problem details.
    Problem,
    /// A `subscription.rejected`.
    Rejected,
    /// A `subscription.rejected` if terms were requested, else problem details.
    Either,
}

fn path_item(endpoint: HttpEndpoint) -> Value {
    let operation = operation(endpoint);
    let mut item = Map::new();
    for method in endpoint.allow().split(", ") {
        let mut described = describe(endpoint, &operation);
        if method == "HEAD" {
            described["operationId"] = format!("{}Head", operation.id).into();
            without_content(&mut described["responses"]);
        }
        item.insert(method.to_ascii_lowercase(), described);
    }
    item.into()
}

/// The response to HEAD has no body.
fn without_content(responses: &mut Value) {
    for response in responses.as_object_mut().into_iter().flat_map(Map::values_mut) {
        if let Some(response) = response.as_object_mut() {
            response.remove("content");
        }
    }
}

fn describe(endpoint: HttpEndpoint, operation: &Operation) -> Value {
    let mut responses: Map<String, Value> = operation
        .errors
        .iter()
        // More than one host name, an unknown host name, an unknown origin: checked for every request.
        .chain(&[400, 403, 421])
        .map(|status| (status.to_string(), error(*status, operation.error_body)))
        .collect();
    responses.extend(operation.responses.iter().map(|(status, response)| (status.to_string(), response.clone())));
    let mut described = json!({
        "operationId": operation.id,
        "tags": [operation.tag],
        "summary": operation.summary,
        "responses": responses,
    });
    if !operation.parameters.is_empty() {
        described["parameters"] = operation.parameters.clone().into();
    }
    if let Some(body) = &operation.body {
        described["requestBody"] = json!({"required": true, "content": body});
    }
    // An empty object: a server on this machine may ask for no credentials.
    let in_query = endpoint.allow().starts_with("GET").then(|| json!({"access_token": []}));
    described["security"] = if operation.needs_credentials {
        [json!({"bearer": []}), json!({"certificate": []}), json!({})].into_iter().chain(in_query).collect()
    } else {
        json!([])
    };
    described
}

fn error(status: u16, body: ErrorBody) -> Value {
    let problem = ("application/problem+json", reference("schemas", "problem"));
    let rejected = ("application/json", reference("schemas", "subscription.rejected"));
    let mut error = match body {
        ErrorBody::Problem => response(meaning(status), &[problem]),
        ErrorBody::Rejected => response(meaning(status), &[rejected]),
        ErrorBody::Either => response(meaning(status), &[problem, rejected]),
    };
    match status {
        401 => error["headers"] = json!({"WWW-Authenticate": {"schema": {"type": "string"}}}),
        429 | 503 => error["headers"] = json!({"Retry-After": {"schema": {"type": "integer", "minimum": 0}}}),
        _ => {}
    }
    error
}

fn meaning(status: u16) -> &'static str {
    match status {
        400 => "The request is malformed, or names more than one host.",
        401 => "Credentials are missing, invalid or expired.",
        403 => "The credentials do not permit this, or the origin is not allowed.",
        404 => "There is no such subscription, or the transport is not served.",
        406 => "There is no representation of an accepted type.",
        408 => "The body took too long.",
        409 => "The subscription cannot be opened over this transport.",
        413 => "The body is too large.",
        415 => "The body has another media type.",
        421 => "The host name is not one of this server.",
        422 => "The terms cannot be honored.",
        426 => "The endpoint is a WebSocket: request an upgrade.",
        429 => "Too many requests, subscriptions or agents.",
        _ => "The server is short of memory or places, or shuts down.",
    }
}

fn response(description: &str, content: &[(&str, Value)]) -> Value {
    let content: Map<String, Value> =
        content.iter().map(|(media, schema)| ((*media).to_owned(), json!({"schema": schema}))).collect();
    if content.is_empty() {
        return json!({"description": description});
    }
    json!({"description": description, "content": content})
}

fn parameter(place: &str, name: &str, required: bool, schema: Value, description: &str) -> Value {
    json!({"in": place, "name": name, "required": required, "schema": schema, "description": description})
}

fn any_of(names: &[&str]) -> Value {
    json!({"anyOf": names.iter().map(|name| reference("schemas", name)).collect::<Vec<_>>()})
}

fn text() -> Value {
    json!({"type": "string"})
}

/// A body of JSON, with an example for each message.
fn messages(names: &[&str]) -> Value {
    let example = |name: &&str| {
        let example = schema::find(name).and_then(|file| serde_json::from_str::<Value>(file.example()?).ok());
        ((*name).to_owned(), json!({"value": example}))
    };
    let examples: Map<String, Value> = names.iter().map(example).collect();
    let schema = if let [name] = names { reference("schemas", name) } else { any_of(names) };
    json!({"application/json": {"schema": schema, "examples": examples}})
}

fn operation(endpoint: HttpEndpoint) -> Operation {
    match endpoint {
        HttpEndpoint::Subscriptions => subscriptions(),
        HttpEndpoint::Events => event_stream(),
        HttpEndpoint::Replies => replies(),
        HttpEndpoint::WebSocket => {
            websocket("openWebSocket", "subscribers", "Opens the WebSocket of a subscriber.", &[426])
        }
        HttpEndpoint::AgentEvents => agent_events(),
        HttpEndpoint::AgentWebSocket => Operation {
            parameters: vec![agent_name()],
            ..websocket("openAgentWebSocket", "agents", "Opens the WebSocket of an agent.", &[426, 429, 503])
        },
        HttpEndpoint::Manifest => {
            let manifest = ("application/json", reference("schemas", "manifest"));
            let jws = ("application/jose", text());
            let ok = response("The manifest, or the signed manifest as a compact JWS.", &[manifest, jws]);
            Operation { errors: &[406], ..open("getManifest", "discovery", "Returns the manifest.", ok) }
        }
        HttpEndpoint::Keys => {
            let ok = response("The keys.", &[("application/jwk-set+json", reference("schemas", "jwks"))]);
            open("getKeys", "discovery", "Returns the public keys of the signed manifest.", ok)
        }
        HttpEndpoint::Health => {
            let ok = response("It is.", &[("text/plain", text())]);
            open("getHealth", "operation", "Returns whether the process is alive.", ok)
        }
        HttpEndpoint::Readiness => {
            let plain = [("text/plain", text())];
            let ok = response("They are.", &plain);
            let mut ready = open("getReadiness", "operation", "Returns whether subscriptions are accepted.", ok);
            ready.responses.push((503, response("The server shuts down, or its storage fails.", &plain)));
            ready
        }
        HttpEndpoint::Metrics => {
            let ok = response("The metrics, in the text format of Prometheus.", &[("text/plain", text())]);
            let metrics = open("getMetrics", "operation", "Returns the metrics. It needs the role admin.", ok);
            Operation { errors: &[401, 429, 503], needs_credentials: true, ..metrics }
        }
        HttpEndpoint::Status => {
            let state = "The subscriptions, the open questions and the last decisions.";
            let ok = response(state, &[("application/json", reference("schemas", "status"))]);
            let summary = "Returns the state of the server for operators. It needs the role admin.";
            let status = open("getStatus", "operation", summary, ok);
            Operation { errors: &[401, 429, 503], needs_credentials: true, ..status }
        }
    }
}

/// What `GET /aaep/v1/status` returns.
fn status_schema() -> Value {
    let count = || json!({"type": "integer", "minimum": 0});
    let time = || json!({"type": "string", "description": "A timestamp of the protocol."});
    let objects = |properties: Value| {
        let required: Vec<String> = properties.as_object().into_iter().flat_map(Map::keys).cloned().collect();
        json!({"type": "array", "items": {"type": "object", "properties": properties, "required": required}})
    };
    let subscriptions = objects(json!({
        "subscription_id": text(), "principal": text(), "honored_capabilities": {"type": "object"},
        "delivered": count(), "held": count(), "coalesced": count(), "queued": count(),
    }));
    let questions = objects(json!({"session_id": text(), "asked_at": time(), "shown": text()}));
    let decisions = objects(json!({
        "session_id": text(), "asked_at": time(), "decided_at": time(), "resolution": text(),
        "principal": {"type": ["string", "null"]}, "shown": text(),
    }));
    json!({
        "type": "object",
        "required": ["sessions", "published", "delivered", "subscriptions", "questions", "decisions"],
        "properties": {"sessions": count(), "published": count(), "delivered": count(),
            "subscriptions": subscriptions, "questions": questions, "decisions": decisions},
    })
}

/// An operation without credentials and parameters.
fn open(id: &'static str, tag: &'static str, summary: &'static str, ok: Value) -> Operation {
    Operation {
        id,
        tag,
        summary,
        parameters: Vec::new(),
        body: None,
        responses: vec![(200, ok)],
        errors: &[],
        error_body: ErrorBody::Problem,
        needs_credentials: false,
    }
}

fn websocket(id: &'static str, tag: &'static str, summary: &'static str, errors: &'static [u16]) -> Operation {
    let switching = response("The connection is a WebSocket from here on.", &[]);
    Operation {
        responses: vec![(101, switching)],
        errors,
        needs_credentials: true,
        ..open(id, tag, summary, Value::Null)
    }
}

fn subscriptions() -> Operation {
    let mut created = response(
        "The terms of the subscription.",
        &[("application/json", reference("schemas", "subscription.accepted"))],
    );
    created["headers"] =
        json!({"Location": {"schema": text(), "description": "The event stream of the subscription."}});
    Operation {
        body: Some(messages(&["subscription.request"])),
        responses: vec![(201, created)],
        errors: &[401, 404, 408, 409, 413, 415, 422, 429, 503],
        error_body: ErrorBody::Rejected,
        needs_credentials: true,
        ..open("subscribe", "subscribers", "Opens a subscription.", Value::Null)
    }
}

fn event_stream() -> Operation {
    let id = json!({"type": "string", "pattern": "^sub_[A-Za-z0-9]{1,64}$"});
    let resume = "The id of the last event that was received. The stream continues after it.";
    let stream = "Server-sent events. Protocol events are named aaep.event, other messages aaep.message.";
    Operation {
        parameters: vec![
            parameter("query", aaep_proto::binding::path::EVENTS_SUBSCRIPTION_ID, true, id, "The subscription."),
            parameter("query", "last_event_id", false, text(), resume),
            parameter("header", "Last-Event-ID", false, text(), resume),
        ],
        responses: vec![(200, response(stream, &[("text/event-stream", text())]))],
        errors: &[401, 404, 406, 429],
        needs_credentials: true,
        ..open("streamEvents", "subscribers", "Streams the events of a subscription.", Value::Null)
    }
}

fn replies() -> Operation {
    let accepted = ("application/json", reference("schemas", "subscription.accepted"));
    let refused = ("application/json", reference("schemas", "cancellation.refused"));
    let handled = "The message was handled. The events say whether a reply was accepted.";
    Operation {
        body: Some(messages(&[
            "confirmation.reply",
            "clarification.reply",
            "subscription.renegotiate",
            "subscription.close",
            "cancellation.request",
        ])),
        responses: vec![
            (200, response("The new terms, after a renegotiation.", &[accepted])),
            (204, response(handled, &[])),
            (409, response("The agent was not asked to stop.", &[refused])),
        ],
        errors: &[401, 404, 408, 413, 415, 422, 429, 503],
        error_body: ErrorBody::Either,
        needs_credentials: true,
        ..open("reply", "subscribers", "Sends a reply, a renegotiation, a close or a request to stop.", Value::Null)
    }
}

fn agent_name() -> Value {
    let schema = json!({"type": "string", "pattern": "^[A-Za-z0-9._-]+$"});
    parameter("query", "agent", false, schema, "Distinguishes several agents with the same token.")
}

fn agent_events() -> Operation {
    let seconds = json!({"type": "integer", "minimum": 0});
    let wait = "How many seconds the response waits for questions: 30 by default, 300 at most.";
    let lines = "application/x-ndjson";
    let both = |names: &[&str]| [("application/json", any_of(names)), (lines, text())];
    let answered = "The response to the event, or one line for each event of a batch.";
    let refused = response("The event was refused.", &[("application/json", reference("schemas", "agent.refused"))]);
    let examples: Map<String, Value> =
        events().into_iter().map(|event| (event.name, json!({"value": event.example}))).collect();
    Operation {
        parameters: vec![
            agent_name(),
            parameter("query", "wait", false, seconds, wait),
            parameter("header", "Prefer", false, text(), "`wait=SECONDS`, as an alternative to the query."),
        ],
        body: Some(json!({
            "application/json": {"schema": reference("schemas", "agent.event"), "examples": examples},
            lines: {"schema": {"type": "string", "description": "One event on each line."}},
        })),
        responses: vec![
            (200, response(answered, &both(&["agent.published", "agent.outcome"]))),
            (202, response("A question is not resolved yet.", &both(&["agent.pending"]))),
            (422, refused),
        ],
        errors: &[401, 408, 413, 415, 429, 503],
        needs_credentials: true,
        ..open("emitEvents", "agents", "Emits one event, or a batch with one event on each line.", Value::Null)
    }
}
