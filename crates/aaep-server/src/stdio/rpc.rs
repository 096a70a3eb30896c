//! JSON-RPC 2.0: the calls of a line and the responses to them.

use std::sync::{Arc, Mutex, PoisonError};

use aaep_proto::message::Message;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

/// Requests in one batch.
const MAX_BATCH: usize = 64;

/// Bytes of a request's id, which is kept until the response is sent.
const MAX_ID_BYTES: usize = 256;

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RpcError {
    Parse,
    InvalidRequest(&'static str),
    UnknownMethod,
    InvalidParams,
    /// The subscription or its change was rejected. The rejection is the `data` of the error.
    Rejected,
}

impl RpcError {
    fn code(self) -> i32 {
        match self {
            RpcError::Parse => -32700,
            RpcError::InvalidRequest(_) => -32600,
            RpcError::UnknownMethod => -32601,
            RpcError::InvalidParams => -32602,
            // The first code that is left to applications.
            RpcError::Rejected => -32000,
        }
    }

    fn message(self) -> &'static str {
        match self {
            RpcError::Parse => "Parse error",
            RpcError::InvalidRequest(why) => why,
            RpcError::UnknownMethod => "Method not found",
            RpcError::InvalidParams => "Invalid params",
            RpcError::Rejected => "Subscription rejected",
        }
    }
}

/// One object of a line.
#[derive(Debug)]
pub(super) enum RpcItem<'a> {
    /// A request, with its response to be sent, or a notification.
    Call { method: String, params: &'a str, response: Option<RpcResponseSlot> },
    /// A response to a request of this side.
    Response,
    /// An invalid object, to be answered with the error.
    Invalid(RpcResponseSlot, RpcError),
}

/// The obligation to send one response.
#[derive(Debug)]
pub(super) struct RpcResponseSlot {
    id: Box<RawValue>,
    batch: Option<Arc<Mutex<RpcBatch>>>,
}

/// Responses that are sent together.
#[derive(Debug, Default)]
struct RpcBatch {
    expected: usize,
    responses: Vec<Vec<u8>>,
}

#[derive(Deserialize)]
struct RpcEnvelope<'a> {
    #[serde(default)]
    jsonrpc: Option<String>,
    #[serde(default, deserialize_with = "present")]
    id: Option<Box<RawValue>>,
    #[serde(default, deserialize_with = "present")]
    method: Option<Box<RawValue>>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
    #[serde(default, deserialize_with = "present")]
    result: Option<Box<RawValue>>,
    #[serde(default, deserialize_with = "present")]
    error: Option<Box<RawValue>>,
}

/// Tells a field that is null from one that is absent.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(deserializer).map(Some)
}

/// Returns the objects of a line: one, or those of a batch.
pub(super) fn read(line: &[u8]) -> Vec<RpcItem<'_>> {
    let failed = |error| vec![RpcItem::Invalid(RpcResponseSlot::without_id(None), error)];
    let Ok(text) = std::str::from_utf8(line) else { return failed(RpcError::Parse) };
    if !text.trim_start().starts_with('[') {
        return vec![read_object(text, None)];
    }
    let Ok(objects) = serde_json::from_str::<Vec<&RawValue>>(text) else { return failed(RpcError::Parse) };
    if objects.is_empty() || objects.len() > MAX_BATCH {
        return failed(RpcError::InvalidRequest("A batch has 1 to 64 requests"));
    }
    let batch = Arc::new(Mutex::new(RpcBatch::default()));
    let items: Vec<RpcItem<'_>> = objects.into_iter().map(|object| read_object(object.get(), Some(&batch))).collect();
    let answered =
        items.iter().filter(|item| !matches!(item, RpcItem::Response | RpcItem::Call { response: None, .. }));
    batch.lock().unwrap_or_else(PoisonError::into_inner).expected = answered.count();
    items
}

fn read_object<'a>(object: &'a str, batch: Option<&Arc<Mutex<RpcBatch>>>) -> RpcItem<'a> {
    let failed = |error| RpcItem::Invalid(RpcResponseSlot::without_id(batch), error);
    let invalid = |reason| failed(RpcError::InvalidRequest(reason));
    let Ok(envelope) = serde_json::from_str::<RpcEnvelope<'_>>(object) else {
        // Parsed a second time only to tell a syntax error from a wrong type.
        return match serde_json::from_str::<&RawValue>(object) {
            Err(_) => failed(RpcError::Parse),
            Ok(_) => invalid("A request is an object with jsonrpc, method, params and id"),
        };
    };
    if envelope.jsonrpc.as_deref() != Some("2.0") {
        return invalid("jsonrpc must be \"2.0\"");
    }
    if envelope.method.is_none() && (envelope.result.is_some() || envelope.error.is_some()) {
        return RpcItem::Response;
    }
    let method = envelope.method.and_then(|method| serde_json::from_str(method.get()).ok());
    let Some(method) = method else { return invalid("method must be text") };
    let params = envelope.params.map_or("{}", RawValue::get);
    if !params.starts_with(['{', '[']) {
        return invalid("params must be an object or an array");
    }
    let response = match envelope.id {
        None => None,
        Some(id) if id.get().starts_with(['"', '-', 'n']) || id.get().starts_with(|c: char| c.is_ascii_digit()) => {
            if id.get().len() > MAX_ID_BYTES {
                return invalid("id is too long");
            }
            Some(RpcResponseSlot { id, batch: batch.cloned() })
        }
        Some(_) => return invalid("id must be text, a number or null"),
    };
    RpcItem::Call { method, params, response }
}

#[derive(Serialize)]
struct RpcResponse<'a, R: Serialize> {
    jsonrpc: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<R>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<RpcErrorObject<'a>>,
    id: &'a RawValue,
}

#[derive(Serialize)]
struct RpcErrorObject<'a> {
    code: i32,
    message: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<&'a Message>,
}

impl RpcResponseSlot {
    fn without_id(batch: Option<&Arc<Mutex<RpcBatch>>>) -> RpcResponseSlot {
        RpcResponseSlot { id: RawValue::NULL.to_owned(), batch: batch.cloned() }
    }

    /// Returns the line of a successful response, or `None` while other responses of its batch are outstanding.
    pub(super) fn succeed(self, result: impl Serialize) -> Option<Vec<u8>> {
        let response = RpcResponse { jsonrpc: "2.0", result: Some(result), error: None, id: &self.id };
        self.finish(&response)
    }

    /// Returns the line of an error response, or `None` while other responses of its batch are outstanding.
    pub(super) fn fail(self, error: RpcError, data: Option<&Message>) -> Option<Vec<u8>> {
        let error = Some(RpcErrorObject { code: error.code(), message: error.message(), data });
        self.finish(&RpcResponse { jsonrpc: "2.0", result: None::<()>, error, id: &self.id })
    }

    fn finish(&self, response: &RpcResponse<'_, impl Serialize>) -> Option<Vec<u8>> {
        // Messages hold text, numbers and maps with text keys only, so serialization cannot fail.
        let mut line = serde_json::to_vec(response).ok()?;
        if let Some(batch) = &self.batch {
            let mut batch = batch.lock().unwrap_or_else(PoisonError::into_inner);
            batch.responses.push(line);
            if batch.responses.len() < batch.expected {
                return None;
            }
            line = [b"[", batch.responses.join(&b","[..]).as_slice(), b"]"].concat();
        }
        line.push(b'\n');
        Some(line)
    }
}
