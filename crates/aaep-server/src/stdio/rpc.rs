//! JSON-RPC 2.0: what a line asks for, and answers to it.

use std::sync::{Arc, Mutex, PoisonError};

use aaep_proto::message::Message;
use bytes::Bytes;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

/// Most requests in one batch.
const MAX_BATCH: usize = 64;

/// Most bytes of a request's id: it is kept until the answer is there.
const MAX_ID_BYTES: usize = 256;

/// What went wrong with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RpcError {
    Parse,
    InvalidRequest(&'static str),
    UnknownMethod,
    InvalidParams,
    /// The answer is no; its reason comes with it.
    Rejected,
}

impl RpcError {
    fn code(self) -> i32 {
        match self {
            RpcError::Parse => -32700,
            RpcError::InvalidRequest(_) => -32600,
            RpcError::UnknownMethod => -32601,
            RpcError::InvalidParams => -32602,
            // The first of those that are left to applications.
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

/// One thing that a line says.
#[derive(Debug)]
pub(super) enum RpcItem {
    /// Something is asked, with a ticket if an answer is wanted.
    Call { method: String, params: Bytes, ticket: Option<PendingResponse> },
    /// An answer to what was asked here.
    Answer,
    /// Something wrong, to be told.
    Wrong(PendingResponse, RpcError),
}

/// The right to one answer.
#[derive(Debug)]
pub(super) struct PendingResponse {
    id: Box<RawValue>,
    batch: Option<Arc<Mutex<RpcBatch>>>,
}

/// Answers that go out together.
#[derive(Debug, Default)]
struct RpcBatch {
    open: usize,
    answers: Vec<Vec<u8>>,
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

/// Null is something too.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(deserializer).map(Some)
}

/// What a line says.
pub(super) fn read(line: &[u8]) -> Vec<RpcItem> {
    let alone = |fault| vec![RpcItem::Wrong(PendingResponse::without_id(None), fault)];
    let Ok(whole) = serde_json::from_slice::<&RawValue>(line) else { return alone(RpcError::Parse) };
    if !whole.get().starts_with('[') {
        return vec![entry(whole, None)];
    }
    let Ok(entries) = serde_json::from_str::<Vec<&RawValue>>(whole.get()) else { return alone(RpcError::Parse) };
    if entries.is_empty() || entries.len() > MAX_BATCH {
        return alone(RpcError::InvalidRequest("A batch has 1 to 64 requests"));
    }
    let batch = Arc::new(Mutex::new(RpcBatch::default()));
    let entries: Vec<RpcItem> = entries.into_iter().map(|one| entry(one, Some(&batch))).collect();
    let open = entries.iter().filter(|entry| !matches!(entry, RpcItem::Answer | RpcItem::Call { ticket: None, .. }));
    batch.lock().unwrap_or_else(PoisonError::into_inner).open = open.count();
    entries
}

fn entry(one: &RawValue, batch: Option<&Arc<Mutex<RpcBatch>>>) -> RpcItem {
    let wrong = |why| RpcItem::Wrong(PendingResponse::without_id(batch), RpcError::InvalidRequest(why));
    let Ok(envelope) = serde_json::from_str::<RpcEnvelope<'_>>(one.get()) else {
        return wrong("A request is an object with jsonrpc, method, params and id");
    };
    if envelope.jsonrpc.as_deref() != Some("2.0") {
        return wrong("jsonrpc must be \"2.0\"");
    }
    if envelope.method.is_none() && (envelope.result.is_some() || envelope.error.is_some()) {
        return RpcItem::Answer;
    }
    let method = envelope.method.and_then(|method| serde_json::from_str(method.get()).ok());
    let Some(method) = method else { return wrong("method must be text") };
    let params = envelope.params.map_or("{}", RawValue::get);
    if !params.starts_with(['{', '[']) {
        return wrong("params must be an object or an array");
    }
    let params = Bytes::copy_from_slice(params.as_bytes());
    let ticket = match envelope.id {
        None => None,
        Some(id) if id.get().starts_with(['"', '-', 'n']) || id.get().starts_with(|c: char| c.is_ascii_digit()) => {
            if id.get().len() > MAX_ID_BYTES {
                return wrong("id is too long");
            }
            Some(PendingResponse { id, batch: batch.cloned() })
        }
        Some(_) => return wrong("id must be text, a number or null"),
    };
    RpcItem::Call { method, params, ticket }
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

impl PendingResponse {
    fn without_id(batch: Option<&Arc<Mutex<RpcBatch>>>) -> PendingResponse {
        PendingResponse { id: RawValue::NULL.to_owned(), batch: batch.cloned() }
    }

    /// The line that answers; nothing yet, if others of its batch have no answer.
    pub(super) fn answer(self, result: impl Serialize) -> Option<Vec<u8>> {
        let response = RpcResponse { jsonrpc: "2.0", result: Some(result), error: None, id: &self.id };
        self.finish(&response)
    }

    /// The same for what went wrong.
    pub(super) fn fail(self, fault: RpcError, data: Option<&Message>) -> Option<Vec<u8>> {
        let error = Some(RpcErrorObject { code: fault.code(), message: fault.message(), data });
        self.finish(&RpcResponse { jsonrpc: "2.0", result: None::<()>, error, id: &self.id })
    }

    fn finish(&self, response: &RpcResponse<'_, impl Serialize>) -> Option<Vec<u8>> {
        // Messages hold text, numbers and maps with text keys only: they can always be written.
        let mut line = serde_json::to_vec(response).ok()?;
        if let Some(batch) = &self.batch {
            let mut batch = batch.lock().unwrap_or_else(PoisonError::into_inner);
            batch.answers.push(line);
            if batch.answers.len() < batch.open {
                return None;
            }
            line = [b"[", batch.answers.join(&b","[..]).as_slice(), b"]"].concat();
        }
        line.push(b'\n');
        Some(line)
    }
}
