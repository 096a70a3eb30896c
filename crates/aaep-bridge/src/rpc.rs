//! JSON-RPC 2.0 messages, as MCP and ACP use them on a line each.

use std::fmt;

use serde_json::{Value, json};

use crate::strict::{LineError, read_strict};

/// The id of a request: a string or an integer, as JSON text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RpcId(String);

impl RpcId {
    /// Reads an id. Returns `None` if it is neither a string nor an integer.
    pub fn from_value(value: &Value) -> Option<RpcId> {
        let valid = value.is_string() || value.is_i64() || value.is_u64();
        valid.then(|| RpcId(value.to_string()))
    }

    /// Makes an id from text.
    pub fn from_text(text: &str) -> RpcId {
        RpcId(Value::from(text).to_string())
    }
}

impl fmt::Display for RpcId {
    /// Writes the id as JSON.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One message.
#[derive(Clone, Debug, PartialEq)]
pub enum RpcMessage {
    /// A request that expects a response.
    Request {
        /// The id, which the response repeats.
        id: RpcId,
        /// The method.
        method: String,
        /// The parameters, or null.
        params: Value,
    },
    /// A notification.
    Notification {
        /// The method.
        method: String,
        /// The parameters, or null.
        params: Value,
    },
    /// A response.
    Response {
        /// The id of the request.
        id: RpcId,
        /// The result, or the error object.
        result: Result<Value, Value>,
    },
}

/// Why a line is no message that may pass, and the id of its sender's request if it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedLine {
    /// What is wrong.
    pub message: String,
    /// The id to answer to.
    pub id: Option<RpcId>,
    /// The code of the JSON-RPC error.
    pub code: i32,
}

impl RefusedLine {
    fn invalid(message: &str, id: Option<RpcId>) -> RefusedLine {
        RefusedLine { message: message.to_owned(), id, code: -32600 }
    }
}

impl RpcMessage {
    /// Reads a message of which every parser reads the same.
    pub fn read_strict(line: &[u8]) -> Result<RpcMessage, RefusedLine> {
        let value = match read_strict(line) {
            Ok(value) => value,
            Err(error) => {
                let code = if matches!(error, LineError::NotJson(_)) { -32700 } else { -32600 };
                let lenient = serde_json::from_slice::<Value>(line).ok();
                let id = lenient.and_then(|value| RpcId::from_value(value.get("id")?));
                return Err(RefusedLine { message: error.to_string(), id, code });
            }
        };
        RpcMessage::from_value(value)
    }

    /// Reads a message from JSON.
    pub fn from_value(mut value: Value) -> Result<RpcMessage, RefusedLine> {
        let Some(object) = value.as_object_mut() else {
            return Err(RefusedLine::invalid("a message is a JSON object", None));
        };
        let raw_id = object.remove("id");
        let id = raw_id.as_ref().and_then(RpcId::from_value);
        if raw_id.is_some() && id.is_none() {
            return Err(RefusedLine::invalid("an id is a string or an integer", None));
        }
        let (result, error) = (object.remove("result"), object.remove("error"));
        let params = object.remove("params").unwrap_or_default();
        match (object.remove("method"), id) {
            (Some(_), id) if result.is_some() || error.is_some() => {
                Err(RefusedLine::invalid("a message is either a request or a response", id))
            }
            (Some(Value::String(method)), Some(id)) => Ok(RpcMessage::Request { id, method, params }),
            (Some(Value::String(method)), None) => Ok(RpcMessage::Notification { method, params }),
            (Some(_), id) => Err(RefusedLine::invalid("a method is a string", id)),
            (None, Some(id)) => match (result, error) {
                (Some(result), None) => Ok(RpcMessage::Response { id, result: Ok(result) }),
                (None, Some(error)) => Ok(RpcMessage::Response { id, result: Err(error) }),
                _ => Err(RefusedLine::invalid("a response has either a result or an error", None)),
            },
            (None, None) => Err(RefusedLine::invalid("a message has a method or an id", None)),
        }
    }
}

/// Makes the line of a response with a result.
pub(crate) fn result_line(id: &RpcId, result: &Value) -> Vec<u8> {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#).into_bytes()
}

/// Makes the line of a response with an error.
pub(crate) fn error_line(id: Option<&RpcId>, code: i32, message: &str) -> Vec<u8> {
    let id = id.map_or_else(|| "null".to_owned(), ToString::to_string);
    let error = json!({"code": code, "message": message});
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#).into_bytes()
}

/// Makes the line of a request.
pub(crate) fn request_line(id: &RpcId, method: &str, params: &Value) -> Vec<u8> {
    let method = Value::from(method);
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":{method},"params":{params}}}"#).into_bytes()
}

/// Makes the line of a notification.
pub(crate) fn notification_line(method: &str, params: &Value) -> Vec<u8> {
    json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_told_apart() {
        let read = |line: &str| RpcMessage::read_strict(line.as_bytes());
        assert!(matches!(read(r#"{"id":"a","method":"m"}"#), Ok(RpcMessage::Request { .. })));
        assert!(matches!(read(r#"{"method":"m"}"#), Ok(RpcMessage::Notification { .. })));
        assert!(matches!(read(r#"{"id":1,"result":null}"#), Ok(RpcMessage::Response { result: Ok(Value::Null), .. })));
        assert!(matches!(read(r#"{"id":1,"error":{}}"#), Ok(RpcMessage::Response { result: Err(_), .. })));
        for wrong in [
            r#"{"id":1,"method":"m","result":1}"#,
            r#"{"id":1,"result":1,"error":{}}"#,
            r#"{"id":null,"method":"tools/call"}"#,
            r#"{"id":1.5,"method":"m"}"#,
            r#"{"id":[1],"method":"m"}"#,
            r#"{"id":1,"method":["tools/call"]}"#,
            "{}",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn refused_request_keeps_its_id_for_the_answer() {
        let refused = RpcMessage::read_strict(br#"{"id":7,"method":"a","params":{"x":1,"x":2}}"#).unwrap_err();
        assert_eq!((refused.id, refused.code), (RpcId::from_value(&json!(7)), -32600));
        let refused = RpcMessage::read_strict(b"nonsense").unwrap_err();
        assert_eq!((refused.id, refused.code), (None, -32700));
    }
}
