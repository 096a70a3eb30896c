//! Reading lines so that nothing passes which another parser could read differently.
//!
//! The user agrees to the call that the bridge has read. The server reads the same bytes with a parser of its own, so a line
//! whose meaning depends on the parser is refused: a key that occurs twice, a key in unusual letter case, a batch, a line
//! break that only some programs see.

use std::fmt;

use aaep_proto::json::Json;
use serde_json::Value;

/// Most bytes of a line. A longer one is refused, because it would have to be kept while the user is asked.
pub const MAX_LINE_BYTES: usize = 16 * 1024 * 1024;

/// The keys of messages that decide what a server does.
const MESSAGE_KEYS: [&str; 6] = ["jsonrpc", "id", "method", "params", "result", "error"];

/// The keys of parameters that decide what a server does.
const PARAMETER_KEYS: [&str; 6] = ["name", "arguments", "_meta", "task", "inputresponses", "requeststate"];

/// Why a line was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LineError {
    /// The line has more than [`MAX_LINE_BYTES`].
    TooLong,
    /// The line is not JSON, or not UTF-8.
    NotJson(String),
    /// The line has a carriage return inside. Some programs would read it as two lines.
    CarriageReturn,
    /// The line is an array of messages.
    Batch,
    /// The line is neither an object nor an array.
    NotAnObject,
    /// A key occurs more than once in one object.
    DuplicateKey(String),
    /// A key differs from one of the protocol only by letter case, which some parsers ignore.
    UnusualCase(String),
    /// A number cannot be represented exactly, so the user could agree to another one.
    InexactNumber(String),
}

impl fmt::Display for LineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LineError::TooLong => write!(f, "the line has more than {MAX_LINE_BYTES} bytes"),
            LineError::NotJson(why) => write!(f, "the line is not JSON: {why}"),
            LineError::CarriageReturn => f.write_str("the line has a carriage return inside"),
            LineError::Batch => f.write_str("the line is a batch; send each message on a line of its own"),
            LineError::NotAnObject => f.write_str("the line is not a JSON object"),
            LineError::DuplicateKey(key) => write!(f, "the key {key:?} occurs more than once"),
            LineError::UnusualCase(key) => write!(f, "the key {key:?} has unusual letter case"),
            LineError::InexactNumber(number) => write!(f, "the number {number} cannot be represented exactly"),
        }
    }
}

impl std::error::Error for LineError {}

/// Reads a line that must have the same meaning for every parser. The line has no line break at its end.
pub fn read_strict(line: &[u8]) -> Result<Value, LineError> {
    if line.len() > MAX_LINE_BYTES {
        return Err(LineError::TooLong);
    }
    let body = line.strip_suffix(b"\r").unwrap_or(line);
    if body.contains(&b'\r') {
        return Err(LineError::CarriageReturn);
    }
    if body.starts_with(b"\xEF\xBB\xBF") {
        return Err(LineError::NotJson("it starts with a byte order mark".to_owned()));
    }
    let json = Json::parse(body).map_err(|error| LineError::NotJson(error.to_string()))?;
    match &json {
        Json::Object(_) => {}
        Json::Array(_) => return Err(LineError::Batch),
        _ => return Err(LineError::NotAnObject),
    }
    if let Some(key) = duplicate_key(&json) {
        return Err(LineError::DuplicateKey(key.to_owned()));
    }
    let value = json.to_value();
    check_case(&value, &MESSAGE_KEYS)?;
    check_case(&value["params"], &PARAMETER_KEYS)?;
    Ok(value)
}

/// Refuses numbers of a line that the parsed value does not represent exactly.
pub fn check_numbers(line: &[u8]) -> Result<(), LineError> {
    match number_tokens(line).find(|token| !is_exact(token)) {
        Some(token) => Err(LineError::InexactNumber(token.chars().take(40).collect())),
        None => Ok(()),
    }
}

fn check_case(value: &Value, known: &[&str]) -> Result<(), LineError> {
    let Some(object) = value.as_object() else { return Ok(()) };
    let unusual = |key: &&String| {
        let lower = key.to_lowercase();
        known.contains(&lower.as_str()) && **key != lower && !matches!(key.as_str(), "inputResponses" | "requestState")
    };
    match object.keys().find(unusual) {
        Some(key) => Err(LineError::UnusualCase(key.clone())),
        None => Ok(()),
    }
}

fn duplicate_key<'j>(json: &'j Json<'_>) -> Option<&'j str> {
    match json {
        Json::Object(object) => {
            object.duplicate().or_else(|| object.iter().find_map(|(_, value)| duplicate_key(value)))
        }
        Json::Array(items) => items.iter().find_map(duplicate_key),
        _ => None,
    }
}

/// Iterates over the numbers of a JSON text, as they are written.
fn number_tokens(line: &[u8]) -> impl Iterator<Item = &str> {
    let mut at = 0;
    std::iter::from_fn(move || {
        while at < line.len() {
            let start = at;
            match line[start] {
                b'"' => at = end_of_string(line, start),
                b'-' | b'0'..=b'9' => {
                    while line.get(at).is_some_and(|b| b.is_ascii_alphanumeric() || b"+-.".contains(b)) {
                        at += 1;
                    }
                    return std::str::from_utf8(&line[start..at]).ok();
                }
                _ => at += 1,
            }
        }
        None
    })
}

/// Returns the position after the string that starts here.
pub(crate) fn end_of_string(line: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(byte) = line.get(at) {
        at += match byte {
            b'\\' => 2,
            b'"' => return at + 1,
            _ => 1,
        };
    }
    line.len()
}

/// Returns whether a number is an integer of 64 bits, or a decimal that a double has enough digits for.
fn is_exact(token: &str) -> bool {
    let is_integer = token.bytes().all(|b| b.is_ascii_digit() || b == b'-');
    if is_integer {
        return token.parse::<i64>().is_ok() || token.parse::<u64>().is_ok();
    }
    let mantissa = token.split(['e', 'E']).next().unwrap_or(token);
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    digits.trim_start_matches('0').trim_end_matches('0').len() <= 15
        && token
            .parse::<f64>()
            .is_ok_and(|number| number.is_finite() && (number != 0.0 || digits.trim_matches('0').is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_messages_are_read() {
        for line in [
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{"path":"x","Path":"y"}}}"#,
            "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\r",
            r#" {"id": "x", "result": {"content": []}} "#,
            r#"{"method":"tools/call","params":{"inputResponses":{},"requestState":"s"}}"#,
        ] {
            assert!(read_strict(line.as_bytes()).is_ok(), "{line}");
        }
    }

    #[test]
    fn lines_with_more_than_one_meaning_are_refused() {
        let refused = |line: &[u8]| read_strict(line).unwrap_err();
        assert_eq!(refused(br#"[{"method":"tools/call"}]"#), LineError::Batch);
        assert_eq!(refused(b"[]"), LineError::Batch);
        assert_eq!(refused(b"3"), LineError::NotAnObject);
        assert_eq!(
            refused(br#"{"method":"ping","method":"tools/call"}"#),
            LineError::DuplicateKey("method".to_owned())
        );
        assert_eq!(
            refused(br#"{"params":{"arguments":{"path":"a","path":"b"}}}"#),
            LineError::DuplicateKey("path".to_owned())
        );
        // The same key, once with an escape.
        assert!(matches!(refused(br#"{"method":"ping","m\u0065thod":"tools/call"}"#), LineError::DuplicateKey(_)));
        assert_eq!(refused(br#"{"Method":"tools/call"}"#), LineError::UnusualCase("Method".to_owned()));
        assert_eq!(refused(br#"{"params":{"Name":"delete"}}"#), LineError::UnusualCase("Name".to_owned()));
        assert_eq!(refused(b"{\"x\":\r{\"method\":\"tools/call\"}\r}"), LineError::CarriageReturn);
        for not_json in [&b"{"[..], b"", b"{} {}", b"\xff", b"\xEF\xBB\xBF{}", b"{\"a\":\"\\ud800\"}", b"{'a':1}"] {
            assert!(matches!(refused(not_json), LineError::NotJson(_)), "{not_json:?}");
        }
        assert_eq!(refused(&vec![b' '; MAX_LINE_BYTES + 1]), LineError::TooLong);
    }

    #[test]
    fn numbers_that_would_be_rounded_are_found() {
        for exact in [r#"{"a":[0,-1,1.5,1e3,0.1,18446744073709551615],"b":"99999999999999999999"}"#, "{}", r#"["\"1"]"#]
        {
            assert_eq!(check_numbers(exact.as_bytes()), Ok(()), "{exact}");
        }
        for inexact in ["18446744073709551616", "0.12345678901234567", "1e999", "-9223372036854775809", "1e-999"] {
            let line = format!("{{\"a\":{inexact}}}");
            assert!(check_numbers(line.as_bytes()).is_err(), "{inexact}");
        }
    }
}
