//! The published description of the server's API: OpenAPI for its HTTP endpoints, AsyncAPI for what is sent over event
//! streams and WebSockets. Both are made from the endpoints that the router is made from, and from the tables of the
//! protocol.

mod asyncapi;
mod openapi;

pub use asyncapi::asyncapi;
pub use openapi::openapi;

use aaep_proto::schema::SchemaFile;
use serde_json::{Map, Value, json};

use crate::agents::schema::LinkMessage;

/// The address at which `aaep serve` listens by default.
const DEFAULT_ADDRESS: &str = "127.0.0.1:8377";

const LICENSES: &str = "MIT OR Apache-2.0";

fn info(title: &str, description: &str) -> Value {
    json!({
        "title": title,
        "version": aaep::message::AAEP_VERSION,
        "description": description,
        "license": {"name": LICENSES},
    })
}

/// A schema for a document that embeds it: without an identity of its own.
fn embedded(mut schema: Value) -> Value {
    if let Value::Object(schema) = &mut schema {
        schema.remove("$schema");
        schema.remove("$id");
    }
    schema
}

fn embedded_file(file: &SchemaFile) -> (String, Value) {
    (file.name.clone(), embedded(file.schema()))
}

fn embedded_link_message(message: &LinkMessage) -> (String, Value) {
    (message.name.clone(), embedded(message.schema.clone()))
}

/// The ways to prove an identity. The query is for web pages, whose EventSource and WebSocket cannot send headers.
fn security_schemes() -> Map<String, Value> {
    let query = "The token of a GET request, for web pages.";
    let certificate = "A client certificate, if tls.client_ca is set.";
    let schemes = [
        ("bearer", json!({"type": "http", "scheme": "bearer"})),
        ("access_token", json!({"type": "apiKey", "in": "query", "name": "access_token", "description": query})),
        ("certificate", json!({"type": "mutualTLS", "description": certificate})),
    ];
    schemes.into_iter().map(|(name, scheme)| (name.to_owned(), scheme)).collect()
}

fn reference(section: &str, name: &str) -> Value {
    json!({"$ref": format!("#/components/{section}/{name}")})
}
